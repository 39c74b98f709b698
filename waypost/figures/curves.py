"""Training curves: evaluations and metrics against the training step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from waypost.figures import AXIS_LABELS, INK, STYLED, Floats, new_axes, new_figure, step_axis

Table = Mapping[str, NDArray[Any]]
"""The columns of a table by name; "step" and "seed" identify the rows."""
NOT_METRICS = ("step", "seed", "stage")


def as_table(rows: Sequence[Mapping[str, Any]]) -> dict[str, NDArray[Any]]:
    """Rows as columns; NaN where a row has no value."""
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name) for row in rows] for name in names}
    return {
        name: np.array(values, str if any(isinstance(value, str) for value in values) else float)
        for name, values in columns.items()
    }


def by_seed(table: Table, name: str) -> tuple[Floats, Floats]:
    """Return the steps that have a finite value, and the values as (seeds, steps) with NaN for gaps."""
    values = np.asarray(table[name], float)
    kept = np.isfinite(values)
    steps, column = np.unique(np.asarray(table["step"], float)[kept], return_inverse=True)
    seeds, row = np.unique(np.asarray(table["seed"])[kept], return_inverse=True)
    found = np.full((len(seeds), len(steps)), np.nan)
    found[row, column] = values[kept]
    return steps, found


def draw_seeds(
    axes: Axes, steps: Floats, values: Floats, marker: str = "", colour: str = INK, label: str | None = None
) -> None:
    """Draw the mean over seeds, and their range where there are several."""
    several = len(values) > 1
    if several:
        low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
        axes.fill_between(steps, low, high, color=colour, alpha=0.18, lw=0, label=None if label else "range")
    label = label or ("mean" if several else "one seed")
    axes.plot(steps, np.nanmean(values, axis=0), color=colour, lw=1.5, marker=marker, ms=4, label=label)


def curve_column(evaluations: Table) -> str | None:
    """Name the most informative column that has a value, or None if nothing was evaluated."""
    for name in ("success_rate", "score", "return"):
        if np.isfinite(np.asarray(evaluations.get(name, ()), float)).any():
            return name
    return None


@STYLED
def learning_curve(evaluations: Table, column: str | None = None) -> Figure:
    """Show an evaluation column against the training step: mean, range and each seed."""
    column = column or curve_column(evaluations)
    if column is None:
        raise ValueError("no evaluation has a value to draw")
    figure, axes = new_axes(4.8, 3.2)
    steps, values = by_seed(evaluations, column)
    if column == "success_rate":
        values = 100 * values
        axes.set_ylim(-4, 104)
    if len(values) > 1:
        for index, row in enumerate(values):
            seen, label = np.isfinite(row), "each seed" if index == 0 else None
            axes.plot(steps[seen], row[seen], color=INK, lw=0.6, alpha=0.5, marker=".", ms=3, label=label)
    draw_seeds(axes, steps, values, marker="o")
    step_axis(axes, steps.max())
    axes.set_ylabel(AXIS_LABELS.get(column, column), parse_math=False)
    if len(values) > 1:
        figure.legend(loc="outside upper center", ncols=3, frameon=False)
    return figure


def metric_names(metrics: Table) -> list[str]:
    """List the columns that are metrics, in the order of the file."""
    return [name for name in metrics if name not in NOT_METRICS]


@STYLED
def metric_curves(metrics: Table, names: Sequence[str] | None = None, columns: int = 3) -> Figure:
    """Show training metrics as small multiples against the step, all of them unless `names` picks some."""
    names = metric_names(metrics) if names is None else list(names)
    steps = np.asarray(metrics.get("step", ()), float)
    if not names or not len(steps):
        raise ValueError("no training metric to draw")
    columns = min(columns, len(names))
    rows = -(-len(names) // columns)
    figure = new_figure(3.4 * columns, 2.5 * rows)
    stages, last = _stages(metrics), float(steps.max())
    for place, name in enumerate(names, start=1):
        axes = figure.add_subplot(rows, columns, place)
        at, values = by_seed(metrics, name)
        if len(at):
            draw_seeds(axes, at, values, marker="o" if len(at) == 1 else "")
        else:
            axes.text(0.5, 0.5, "no finite value", ha="center", va="center", transform=axes.transAxes)
        text_rows = _mark_stages(axes, stages, last) if len(stages) > 1 else 0
        step_axis(axes, last)
        axes.set_title(name, loc="left", pad=4 + 10 * text_rows, parse_math=False)
    return figure


@STYLED
def loss_curves(metrics: Table, learned: str, held_out: str, ended: float | None = None) -> Figure:
    """A loss on the rows that are learned from and on those that are held out; `ended`: where training was stopped."""
    figure, axes = new_axes(4.8, 3.0)
    for name, colour, label in ((learned, "#8a8f94", "learned from"), (held_out, INK, "held out")):
        steps, values = by_seed(metrics, name)
        draw_seeds(axes, steps, values, "o" if len(steps) == 1 else "", colour, label)
    if ended is not None:
        axes.axvline(ended, color="#d55e00", lw=1, ls="--", label="stopped")
    step_axis(axes, float(np.max(metrics["step"])))
    axes.set_ylabel(learned, parse_math=False)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    return figure


def _stages(metrics: Table) -> list[tuple[str, float]]:
    """List each stage and its first logged step, in the order they start."""
    steps, stages = np.asarray(metrics["step"], float), np.asarray(metrics.get("stage", ())).astype(str)
    first = [(str(stage), float(steps[stages == stage].min())) for stage in dict.fromkeys(stages)]
    return sorted(first, key=lambda stage: stage[1])


def _mark_stages(axes: Axes, stages: list[tuple[str, float]], last: float) -> int:
    """Mark where stages start and return the rows of text this takes above the axes."""
    row, rows, before = 0, 0, -np.inf
    for index, (name, step) in enumerate(stages):
        # Stages that start close together would print their names over each other on one row.
        row = row + 1 if step - before < 0.3 * last else 0
        rows, before = max(rows, row + 1), step
        if index:
            axes.axvline(step, color="0.45", lw=0.8, ls=":", gid=f"stage {index}")
        place: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        words: dict[str, Any] = {"fontsize": 8, "color": "0.35", "parse_math": False, "annotation_clip": False}
        axes.annotate(name, (step if index else 0, 1), xytext=(1, 2 + 10 * row), **place, **words)
    return rows
