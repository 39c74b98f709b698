"""The page about a judgement: values, differences, distances and how the evaluators settled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from waypost.figures import INK, STYLED, grid_lines, new_axes, new_figure, step_axis
from waypost.files import write_json, write_text
from waypost.report.page import Picture, picture, template
from waypost.studies.judge.judgement import HEADER, Difference, Estimate, Judged, Judgement, as_csv, cells, notes

REFERENCE = "#d55e00"
ROBUST = "#009e73"
IMAGINED = "#7b3294"
COLOURS = (INK, "#009e73", "#7b3294", "#b8860b", "#cc79a7", "#595959")
LEAST_RATIO = -20.0
"""Where the axis of likelihoods ends: less likely is all the same."""
MOST_LINES = 12
"""Candidates with a line of their own in a chart of curves: more cannot be told apart."""


def write_judgement(judgement: Judgement, folder: Path) -> Path:
    """judge.json, judge.csv and judge.html in a folder; the folder."""
    write_json(folder / "judge.json", judgement.to_json())
    write_text(folder / "judge.csv", as_csv(judgement))
    write_text(folder / "judge.html", render_judgement(judgement))
    return folder


def render_judgement(judgement: Judgement) -> str:
    """Return the whole page as HTML."""
    return template("judge.html").render(
        title=f"Judgement on {judgement.data}",
        summary=judgement.words(),
        caption=_caption(judgement),
        header=HEADER,
        rows=[cells(each) for each in judgement.candidates],
        notes=notes(judgement),
        pictures=_pictures(judgement),
    )


def _caption(judgement: Judgement) -> str:
    return (
        f"Values of the start states, discounted by {judgement.discount:g}, in units of the recorded rewards; "
        f"{judgement.episodes} episodes, {judgement.rows} transitions. The recorded episodes earned "
        f"{judgement.mean_return:.4g} on average, {judgement.discounted_return:.4g} discounted. "
        "Ranked by the lower end of the interval."
    )


def _pictures(judgement: Judgement) -> list[Picture]:
    told = [each for each in judgement.candidates if each.value is not None]
    words = f"{len(told)} candidates"
    found = [
        picture(
            values(judgement),
            "Value of the start states with 90 % intervals, and each member of the ensemble; "
            "purple: in imagined episodes; green: the doubly robust estimate; dashed: what recorded the data.",
            f"Chart of the values of {words}.",
        )
    ]
    if len(told) > 1:
        first = told[0].name
        found.append(
            picture(
                differences(judgement),
                f"How much better {first} is than each of the others, on the same bootstraps, with 90 % intervals.",
                f"Chart of the differences between {first} and the other candidates.",
            )
        )
    found.append(
        picture(
            actions(judgement),
            "Share of states below each number. Left: distance of the policy's action from those recorded in similar "
            "states. Right: how much likelier the cloned behaviour was to take it than the recorded one; farther left "
            "is less likely. Dashed: the recorded actions themselves.",
            "Curves of the distances and of the likelihoods of actions.",
        )
    )
    found.append(
        picture(curves(judgement), "How the values settled while the evaluators learned.", f"Curves of {words}.")
    )
    return found


@STYLED
def values(judgement: Judgement) -> Figure:
    """Each candidate's value with its interval, the best on top."""
    told = [each for each in judgement.candidates if each.value is not None]
    figure, axes = new_axes(6.4, 0.9 + 0.32 * len(told))
    for place, each in zip(range(len(told))[::-1], told, strict=True):
        assert each.value is not None
        _interval(axes, place, each.value)
        axes.scatter(each.members, np.full(len(each.members), place), s=9, color=INK, alpha=0.6, linewidths=0, zorder=3)
        if each.imagined is not None:
            axes.scatter(each.imagined, place + 0.25, s=20, marker="|", color=IMAGINED)
        if each.robust is not None:
            axes.plot(each.robust[1:], (place - 0.25, place - 0.25), color=ROBUST, lw=1.5)
            axes.scatter(each.robust.value, place - 0.25, s=20, marker="|", color=ROBUST)
    baseline = judgement.baseline.value
    if baseline is not None:
        axes.axvline(baseline.value, color=REFERENCE, ls="--", lw=1)
    _names(axes, told, "value of the start states")
    return figure


@STYLED
def differences(judgement: Judgement) -> Figure:
    """How much better the first is than each of the others."""
    told = [each for each in judgement.candidates if each.rank is not None]
    apart = {other: found for one, other, found in judgement.pairs if one == told[0].name}
    figure, axes = new_axes(6.4, 0.9 + 0.32 * (len(told) - 1))
    for place, each in zip(range(len(told) - 1)[::-1], told[1:], strict=True):
        _interval(axes, place, apart[each.name])
    axes.axvline(0.0, color=REFERENCE, ls="--", lw=1)
    _names(axes, told[1:], f"{told[0].name} is better by")
    return figure


@STYLED
def actions(judgement: Judgement) -> Figure:
    """The share of states below each distance, and below each likelihood relative to the recorded action."""
    figure = new_figure(7.0, 3.4)
    left, right = figure.subplots(1, 2, sharey=True)
    measured = [each for each in judgement.candidates if len(each.distances)]
    for place, each in enumerate(measured[:MOST_LINES]):
        colour, style = _line(each, place)
        for axes, numbers in ((left, each.distances), (right, np.maximum(each.log_ratios, LEAST_RATIO))):
            ordered = np.sort(numbers)
            shares = np.arange(1, len(ordered) + 1) / max(len(ordered), 1)
            label = each.name if axes is left else None
            axes.plot(ordered, shares, style, color=colour, lw=1.3, label=label)
    left.set(xlabel="distance to recorded actions", ylabel="share of states", ylim=(0, 1.02))
    right.set(xlabel="log ratio of likelihoods")
    for axes in (left, right):
        grid_lines(axes)
    _legend(figure)
    return figure


@STYLED
def curves(judgement: Judgement) -> Figure:
    """The mean value of the ensemble after so many updates."""
    figure, axes = new_axes(6.4, 3.4)
    for place, each in enumerate([each for each in judgement.candidates if len(each.curve)][:MOST_LINES]):
        colour, style = _line(each, place)
        axes.plot(judgement.steps, each.curve, style, color=colour, lw=1.3, label=each.name)
    axes.set_ylabel("value of the start states")
    step_axis(axes, float(judgement.steps[-1]))
    _legend(figure)
    return figure


def _legend(figure: Figure) -> None:
    """Names as they are: a dollar sign in one is no formula."""
    legend = figure.legend(loc="outside right upper", frameon=False)
    for text in legend.get_texts():
        text.set_parse_math(False)


def _line(each: Judged, place: int) -> tuple[str, str]:
    if each.algorithm is None:
        return REFERENCE, "--"
    return COLOURS[place % len(COLOURS)], ("-", ":")[place // len(COLOURS) % 2]


def _interval(axes: Axes, place: int, found: Estimate | Difference) -> None:
    axes.plot((found.low, found.high), (place, place), color=INK, lw=5, alpha=0.25, solid_capstyle="butt")
    axes.scatter(found.value, place, s=70, marker="|", color=INK, lw=2, zorder=4)


def _names(axes: Axes, candidates: list[Judged], label: str) -> None:
    axes.set_yticks(range(len(candidates))[::-1], [each.name for each in candidates])
    for tick in axes.get_yticklabels():
        tick.set_parse_math(False)
    axes.set_xlabel(label, parse_math=False)
    axes.set_ylim(-0.7, len(candidates) - 0.3)
    grid_lines(axes, axis="x")
