"""The page of a comparison: a table, the scores and the learning curves of each data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from waypost.data.names import short_name
from waypost.figures import AXIS_LABELS, INK, STYLED, grid_lines, new_axes, new_figure, step_axis, to_png
from waypost.figures.curves import as_table, by_seed, draw_seeds
from waypost.files import write_bytes, write_text
from waypost.report.page import Picture, picture, template
from waypost.statistics import spread_name
from waypost.studies.comparison import BEHAVIOUR, Comparison, Entry, as_csv, as_markdown, cells, overall_table

REFERENCE = "#d55e00"
PROFILE_COLOURS = ("#d55e00", "#0072b2", "#009e73", "#7b3294", "#595959", "#b8860b", "#cc79a7")
CURVES = "Evaluations during the last stage of training: mean and range of the seeds; dashed: the result of BC."
PANELS = 4
"""Learning curves per row."""


def write_comparison(comparison: Comparison, folder: Path) -> None:
    """Write the tables, the figures and the page."""
    write_text(folder / "results.csv", as_csv(comparison))
    write_text(folder / "results.md", as_markdown(comparison))
    write_text(folder / "compare.html", render_comparison(comparison))
    for data in comparison.data:
        entries = comparison.of(data)
        if any(entry.values for entry in entries):
            write_bytes(folder / short_name(data) / "scores.png", to_png(scores(entries)))
        if _evaluated(entries):
            write_bytes(folder / short_name(data) / "curves.png", to_png(curves(entries)))
    if comparison.profiles:
        write_bytes(folder / "profiles.png", to_png(profiles(comparison)))


def render_comparison(comparison: Comparison) -> str:
    """Return the whole page as HTML."""
    return template("comparison.html").render(
        title="Comparison",
        summary=summary(comparison),
        header=comparison.header,
        parts=[_part(comparison, data) for data in comparison.data],
        overall=overall_table(comparison) if comparison.overall else None,
        profiles=_profiles(comparison) if comparison.profiles else None,
    )


def summary(comparison: Comparison) -> str:
    """Say in one sentence what was compared."""
    trained = [entry for entry in comparison.entries if entry.run is not None]
    algorithms, data = len({entry.algorithm for entry in trained}), len(comparison.data)
    agents = sum(len(entry.values) for entry in trained)
    suite = f" of the {comparison.suite} suite" if comparison.suite else ""
    minutes = sum(entry.seconds or 0.0 for entry in trained) / 60
    time = f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"
    return (
        f"{_count(algorithms, 'algorithm')} on {_count(data, 'data set')}{suite}: "
        f"{_count(agents, 'agent')} in {time} of training and evaluation."
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _part(comparison: Comparison, data: str) -> dict[str, Any]:
    """The section of one data set."""
    entries = comparison.of(data)
    trained = [entry for entry in entries if entry.run is not None]
    kinds = ["missing" if e.mean is None else "behaviour" if e.algorithm == BEHAVIOUR else "evaluated" for e in entries]
    rows, pictures = [(kind, cells(entry)) for kind, entry in zip(kinds, entries, strict=True)], []
    words = f"{_count(len(trained), 'algorithm')} on {data}."
    if any(entry.values for entry in trained):
        what, spread = AXIS_LABELS[trained[0].measure], spread_name(max(len(entry.values) for entry in trained))
        caption = f"Mean of the seeds, {spread} (bar), and every seed; the dashed line is the mean of the data."
        pictures.append(picture(scores(entries), caption, f"Chart of the {what} of {words}"))
    if _evaluated(trained):
        pictures.append(picture(curves(entries), CURVES, f"Learning curves of {words}"))
    return {"data": data, "caption": _caption(trained), "rows": rows, "pictures": pictures}


def _evaluated(entries: list[Entry]) -> bool:
    """Whether agents were evaluated in a simulator during training."""
    return any(entry.run is not None and entry.run.evaluations for entry in entries)


def _caption(trained: list[Entry]) -> str:
    """How the numbers were measured."""
    if not trained or trained[0].run is None:
        return "Nothing could be trained."
    if trained[0].measure == "value":
        return "Discounted value of the start states, estimated on held-out episodes; standard deviation over seeds."
    protocol = trained[0].run.plan.evaluation
    which = "The last evaluation" if protocol.last == 1 else f"Mean over the last {protocol.last} evaluations"
    return f"{which}, {protocol.episodes} episodes each; standard deviation over seeds."


def _profiles(comparison: Comparison) -> Picture:
    bands = any(profile.interval is not None for profile in comparison.profiles.values())
    what = "Performance profiles: share of runs that score above each level, mean over the data sets"
    caption = f"{what}{', with 95 % intervals at each level' if bands else ''}. Higher is better."
    alt = f"Curves of {_count(len(comparison.profiles), 'algorithm')} that fall from 1 to 0 as the score rises."
    return picture(profiles(comparison), caption, alt)


@STYLED
def profiles(comparison: Comparison) -> Figure:
    """The share of runs above each score, one line per algorithm, best mean rank first."""
    figure, axes = new_axes(6.4, 3.6)
    for place, (name, profile) in enumerate(comparison.profiles.items()):
        colour, style = PROFILE_COLOURS[place % len(PROFILE_COLOURS)], ("-", "--")[place // len(PROFILE_COLOURS) % 2]
        axes.plot(profile.thresholds, profile.shares, color=colour, ls=style, lw=1.5, label=name)
        if profile.interval is not None:
            axes.fill_between(profile.thresholds, *profile.interval, color=colour, alpha=0.12, lw=0)
    axes.set(xlabel=AXIS_LABELS["score"], ylabel="share of runs above", ylim=(-0.02, 1.02))
    grid_lines(axes)
    figure.legend(loc="outside right upper", frameon=False)
    return figure


@STYLED
def scores(entries: list[Entry]) -> Figure:
    """Each algorithm's mean, its spread as in the table, and all seeds, the best on top."""
    shown = [entry for entry in entries if entry.values]
    figure, axes = new_axes(5.6, 0.9 + 0.27 * len(shown))
    places = np.arange(len(shown))[::-1]
    for place, entry in zip(places, shown, strict=True):
        if entry.spread is not None:
            axes.plot(entry.spread, (place, place), color=INK, lw=5, alpha=0.25, solid_capstyle="butt")
        axes.scatter(entry.values, np.full(len(entry.values), place), s=9, color=INK, alpha=0.6, linewidths=0, zorder=3)
        axes.scatter(np.mean(entry.values), place, s=70, marker="|", color=INK, lw=2, zorder=4)
    for entry in entries:
        if entry.algorithm == BEHAVIOUR and entry.mean is not None:
            line = axes.axvline(entry.mean, color=REFERENCE, ls="--", lw=1, label="mean of the data")
            figure.legend(handles=[line], loc="outside upper right", frameon=False)
    axes.set_yticks(places, [entry.algorithm for entry in shown])
    axes.set_xlabel(AXIS_LABELS[shown[0].measure])
    grid_lines(axes, axis="x")
    axes.set_ylim(-0.7, len(shown) - 0.3)
    return figure


@STYLED
def curves(entries: list[Entry]) -> Figure:
    """The learning curve of each algorithm in a panel of its own, all with the same axes."""
    shown = [entry for entry in entries if entry.run is not None]
    columns = min(PANELS, len(shown))
    rows = -(-len(shown) // columns)
    titles = ["\n".join(entry.algorithm.split()) for entry in shown]  # the settings of a sweep, each on its line
    lines = max(title.count("\n") for title in titles)
    figure = new_figure(2.2 * columns + 0.3, (1.75 + 0.14 * lines) * rows + 0.5)
    level = next((entry.mean for entry in shown if entry.algorithm == "bc"), None)
    first: Any = None
    for place, entry in enumerate(shown):
        assert entry.run is not None
        axes = figure.add_subplot(rows, columns, place + 1, sharey=first)
        first = first or axes
        steps, values = by_seed(as_table(entry.run.evaluations), entry.measure)
        draw_seeds(axes, steps, values, marker="." if len(steps) < 30 else "")
        if level is not None:
            line = axes.axhline(level, color=REFERENCE, ls="--", lw=1, label="result of bc")
        step_axis(axes, float(steps.max()))
        axes.set_title(titles[place], loc="left", parse_math=False, fontsize=8 if lines else None)
        if place % columns == 0:
            axes.set_ylabel(entry.measure)
        if place + columns < len(shown):
            axes.set_xlabel("")
    if level is not None:
        figure.legend(handles=[line], loc="outside upper right", frameon=False)
    return figure
