"""The page of an inspected data set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from waypost.data.dataset import Dataset
from waypost.data.inspection.findings import Column, Inspection
from waypost.data.inspection.measurements import Measurements
from waypost.figures import INK, STYLED, colour_bar, grid_lines, new_axes
from waypost.files import write_text
from waypost.report.page import SPACE, Picture, picture, template

SAMPLE = 200_000
"""Rows that are drawn, evenly spaced; more would not change a figure."""
MOST_ACTIONS, MOST_COLUMNS = 24, 30
"""The most actions and columns that are drawn."""
MOST_BARS = 1000
"""The most bars for discrete actions; if there are more, neighbours share one."""
LONGEST_NAME = 60
"""The longest name that fits in a figure, in characters."""
TERMINAL, TIMEOUT, BOUND = "#e69f00", INK, "#d55e00"


def write_inspection(inspection: Inspection, dataset: Dataset, path: Path) -> Path:
    """Write the page, whole or not at all."""
    write_text(path, render_inspection(inspection, dataset))
    return path


def render_inspection(inspection: Inspection, dataset: Dataset) -> str:
    """Return the whole page as HTML."""
    return template("inspection.html").render(
        title=f"Health of {inspection.name}",
        summary=f"{inspection.verdict}.",
        task=inspection.task,
        findings=inspection.findings,
        facts=[(what[0].upper() + what[1:], words) for what, words in inspection.facts()],
        supports=inspection.supports,
        pictures=list(_pictures(dataset, inspection.columns)),
        actions=list(_action_pictures(dataset, inspection.taken)),
        unseen_actions=max(0, (dataset.action_size or 0) - MOST_ACTIONS),
        columns=inspection.columns,
    )


def _pictures(dataset: Dataset, columns: Sequence[Column]) -> Iterator[Picture]:
    """The figures that these data allow."""
    if dataset.rewards is not None and len(returns := _known(dataset.episode_returns)):
        rewards = _known(dataset.rewards)
        figure = histogram(returns, "return (sum of rewards)", "episodes")
        span = f"from {returns.min():.4g} to {returns.max():.4g}"
        yield picture(figure, "Returns of the episodes.", f"Histogram of episode returns, {span}.")
        figure = histogram(rewards, "reward", "rows", logarithmic=True)
        caption = "Rewards of all rows; the number of rows is on a logarithmic scale."
        span = f"from {rewards.min():.4g} to {rewards.max():.4g}"
        yield picture(figure, caption, f"Histogram of rewards, {span}.")
    alt = "Histogram of episode lengths, terminals and timeouts apart."
    yield picture(length_histogram(dataset), "Episode lengths, by what ended the episode.", alt)
    seen = coverage(dataset)
    if seen is not None:
        yield picture(coverage_map(seen), f"Coverage: {seen.words}.", f"Density of the states: {seen.words}.")
    drawn = [column for column in columns if column.mean is not None]
    if drawn:
        every = "all columns" if dataset.action_count is None else "all columns but the action"
        every = f"{every} but discrete actions" if dataset.action_choices else every
        of = f"the first {MOST_COLUMNS} of {len(drawn)} columns" if len(drawn) > MOST_COLUMNS else every
        caption = (
            f"Ranges of {of}, each on a scale of its own: line from smallest to largest, bar one standard deviation "
            "around the mean."
        )
        alt = f"Ranges of {of}; the numbers are in the table of columns."
        yield picture(column_ranges(drawn[:MOST_COLUMNS]), caption, alt)


def _action_pictures(dataset: Dataset, taken: Sequence[int]) -> Iterator[Picture]:
    if dataset.actions is None:
        return
    if taken:
        words = f"How often each of the {len(taken)} discrete actions is taken."
        yield picture(choice_bars(taken), words, words)
        return
    rows, low, high = _sample(len(dataset)), dataset.require("action_low"), dataset.require("action_high")
    names = dataset.action_names or [f"action {i}" for i in range(dataset.actions.shape[1])]
    for number in range(min(dataset.actions.shape[1], MOST_ACTIONS)):
        if dataset.action_counts[number]:
            choices = dataset.action_choices[number]
            chosen = Measurements(dataset).chosen(number).tolist()
            words = f"{names[number]}, chosen from {', '.join(choices[:10])}{', ...' if len(choices) > 10 else ''}"
            yield picture(choice_bars(chosen, names[number]), words, f"How often each choice of {words}, is taken.")
            continue
        values, bounds = _known(dataset.actions[rows, number]), (float(low[number]), float(high[number]))
        if len(values) and np.isfinite(bounds).all():
            words = f"{names[number]}, bounds {bounds[0]:.4g} and {bounds[1]:.4g}"
            yield picture(action_histogram(values, names[number], bounds), words, f"Histogram of {words}.")


def _known(values: np.ndarray) -> np.ndarray:
    return values[np.isfinite(values)].astype(np.float64)


def _sample(rows: int) -> np.ndarray:
    return np.linspace(0, rows - 1, min(rows, SAMPLE)).astype(np.int64)


class Coverage(NamedTuple):
    """States as points in a plane."""

    points: np.ndarray
    axes: tuple[str, str]
    words: str
    plane: bool
    """Whether the axes are lengths in one world, so that they share a scale."""


def coverage(dataset: Dataset) -> Coverage | None:
    """The plane of the states, or their first two principal components; None if they do not vary in two directions."""
    states = dataset.observations[_sample(len(dataset))].astype(np.float64)
    names = dataset.observation_names
    plane = dataset.observation_size == 2 or [name.lower() for name in names[:2]] == ["x", "y"]
    # A column that is mostly missing must not remove the rows of the others.
    states = states[:, :2] if plane else states[:, np.isfinite(states).mean(axis=0) > 0.5]
    states = states[np.isfinite(states).all(axis=1)]
    if plane and len(states):
        first, second = names[:2] or ("observation 0", "observation 1")
        return Coverage(states, (first, second), "the first two columns of the state", True)
    std = states.std(axis=0) if len(states) else np.zeros(0)
    if (std > 0).sum() < 2:
        return None
    scaled = (states - states.mean(axis=0))[:, std > 0] / std[std > 0]
    variances, directions = np.linalg.eigh(scaled.T @ scaled / len(scaled))
    share = variances[-2:].sum() / variances.sum()
    points = scaled @ directions[:, :-3:-1]
    words = f"the first two principal components, {100 * share:.0f}{SPACE}% of the variance of the scaled states"
    return Coverage(points, ("component 1", "component 2"), words, False)


def _panel(width: float, height: float, across: str, up: str, grid: bool = True) -> tuple[Figure, Axes]:
    figure, axes = new_axes(width, height)
    axes.set_xlabel(across[:LONGEST_NAME], parse_math=False)
    axes.set_ylabel(up[:LONGEST_NAME], parse_math=False)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    if grid:
        grid_lines(axes)
    return figure, axes


@STYLED
def histogram(values: np.ndarray, across: str, up: str, logarithmic: bool = False) -> Figure:
    """How often values occur."""
    figure, axes = _panel(4.5, 3.0, across, up)
    axes.hist(values, bins=int(np.clip(2 * np.sqrt(len(values)), 10, 50)), color=INK, log=logarithmic)
    if logarithmic:
        axes.set_ylim(bottom=0.7)
    else:
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    return figure


@STYLED
def length_histogram(dataset: Dataset) -> Figure:
    """Episode lengths, terminals and timeouts apart."""
    figure, axes = _panel(4.5, 3.0, "episode length (rows)", "episodes")
    lengths, terminal = dataset.episode_lengths, dataset.terminals[dataset.ends]
    edges = np.linspace(0, lengths.max() + 1, min(int(lengths.max()) + 1, 50) + 1)
    labels = [f"timeout ({(~terminal).sum()})", f"terminal ({terminal.sum()})"]
    parts = [lengths[~terminal], lengths[terminal]]
    axes.hist(parts, bins=edges.tolist(), stacked=True, color=[TIMEOUT, TERMINAL], label=labels)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    return figure


@STYLED
def action_histogram(values: np.ndarray, name: str, bounds: Sequence[float]) -> Figure:
    """How often an action takes each value, with its bounds."""
    figure, axes = _panel(3.4, 2.3, "value; dashed: bounds", "rows")
    axes.hist(values, bins=50, color=INK)
    for bound in bounds:
        axes.axvline(bound, color=BOUND, lw=1.2, ls="--")
    axes.set_title(name[:LONGEST_NAME], loc="left", parse_math=False)
    return figure


@STYLED
def choice_bars(taken: Sequence[int], name: str = "") -> Figure:
    """How often each discrete action is taken, or each choice of the named action."""
    figure, axes = _panel(3.4, 2.3, "index of the choice" if name else "index of the action", "rows")
    axes.set_title(name[:LONGEST_NAME], loc="left", parse_math=False)
    if len(taken) <= MOST_BARS:
        axes.bar(range(len(taken)), taken, color=INK, width=max(0.8, len(taken) / 150))  # never too thin to see
    else:
        firsts = np.linspace(0, len(taken), MOST_BARS + 1).astype(np.int64)
        axes.stairs(np.add.reduceat(taken, firsts[:-1]), firsts - 0.5, color=INK, fill=True)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.set_xlim(-0.7, len(taken) - 0.3)
    return figure


@STYLED
def coverage_map(seen: Coverage) -> Figure:
    """The density of the states."""
    figure, axes = _panel(4.5, 4.0, *seen.axes, grid=False)
    counts, xs, ys = np.histogram2d(seen.points[:, 0], seen.points[:, 1], bins=80)
    known, colours = np.ma.masked_equal(counts.T, 0), LogNorm(1, max(counts.max(), 2))
    image = axes.pcolormesh(xs, ys, known, cmap="viridis_r", norm=colours, rasterized=True)
    colour_bar(figure, axes, image, "states")
    axes.set(aspect="equal" if seen.plane else "auto")
    return figure


@STYLED
def column_ranges(columns: Sequence[Column]) -> Figure:
    """Each column's mean and standard deviation within its own range; the ends are written beside it."""
    numbers = np.array([(column.min, column.mean, column.std, column.max) for column in columns], float)
    low, mean, std, high = numbers.T
    span = np.where(high > low, high - low, 1.0)
    middle = np.where(high > low, (mean - low) / span, 0.5)
    figure, axes = new_axes(5.6, 0.9 + 0.21 * len(columns))
    places = np.arange(len(columns))
    dead = np.array([column.dead for column in columns])
    axes.hlines(places[~dead], 0, 1, color=INK, lw=1)
    left, right = np.clip(middle - std / span, 0, 1), np.clip(middle + std / span, 0, 1)
    axes.hlines(places[~dead], left[~dead], right[~dead], color=INK, lw=5, alpha=0.45)
    axes.plot(middle[~dead], places[~dead], "|", color=INK, ms=8)
    axes.plot(middle[dead], places[dead], "x", color=BOUND, ms=6, label="never changes")
    for place, column in enumerate(columns):
        axes.text(-0.03, place, f"{column.min:.4g}", ha="right", va="center", fontsize="small")
        axes.text(1.03, place, f"{column.max:.4g}", ha="left", va="center", fontsize="small")
    axes.set_xlim(-0.32, 1.32)
    axes.set_xticks([])
    axes.set_xlabel("smallest to largest, each column on its own scale")
    axes.set_yticks(places, [column.name[:LONGEST_NAME] for column in columns], parse_math=False)
    axes.set_ylim(len(columns) - 0.4, -0.6)
    if dead.any():
        figure.legend(loc="outside upper center", frameon=False)
    return figure
