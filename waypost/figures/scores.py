"""Scores of several kinds of agents side by side: at the end of training, and during it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from waypost.figures import AXIS_LABELS, STYLED, Floats, grid_lines, new_figure, step_axis


class Look(NamedTuple):
    """How a kind is drawn; both colour and shape distinguish it from the others."""

    colour: str
    marker: str
    line: str = "-"


LOOKS = (
    Look("#d55e00", "o"),
    Look("#0072b2", "s"),
    Look("#009e73", "^"),
    Look("#7b3294", "D", "--"),
    Look("#595959", "v"),
    Look("#b8860b", "P"),
)


class Mark(NamedTuple):
    """A score to draw in a row of `dots`."""

    row: str
    kind: str
    mean: float | None
    """None = no result, shown as a cross."""
    std: float | None = None
    values: Sequence[float] = ()
    """The score of each seed."""


class Curve(NamedTuple):
    """Scores during training, to draw in a panel of `curves`."""

    kind: str
    steps: Floats
    """Steps at which it was evaluated, (steps,)."""
    values: Floats
    """The scores, (seeds, steps); empty = no result, and the panel says so."""


@STYLED
def dots(panels: Mapping[str, Sequence[Mark]], looks: Mapping[str, Look], apart: bool = True) -> Figure:
    """Scores side by side: a row for each data set, a panel for each heading, a colour and shape for each kind.

    apart   whether the kinds of a row are drawn one below the other, the first on top
    """
    rows = list(dict.fromkeys(each.row for marks in panels.values() for each in marks))
    places = {kind: place for place, kind in enumerate(looks)}
    step = 0.8 / len(looks) if apart else 0.0
    tall = max(0.28, 0.1 * len(looks)) if apart else 0.28
    figure = new_figure(2.0 + (2.7 * len(panels) if len(panels) > 1 else 3.6), 1.2 + tall * len(rows))
    first: Axes | None = None
    for number, (title, marks) in enumerate(panels.items(), 1):
        axes = figure.add_subplot(1, len(panels), number, sharex=first, sharey=first)
        for each in sorted(marks, key=lambda each: -places[each.kind]):
            y = rows.index(each.row) + step * (places[each.kind] - (len(looks) - 1) / 2)
            _draw_mark(axes, each, y, looks[each.kind])
        axes.set_title(title, loc="left")
        axes.set_xlabel(AXIS_LABELS["score"])
        grid_lines(axes, axis="x")
        for line in range(1, len(rows)):
            axes.axhline(line - 0.5, color="0.93", lw=0.6, zorder=0)
        if first is None:
            first = axes
            axes.set_yticks(range(len(rows)), rows)
            axes.set_ylim(len(rows) - 0.5, -0.5)
        else:
            axes.tick_params(axis="y", labelleft=False)
    handles = _handles(looks, ls="", ms=5.5)
    if any(each.mean is None for marks in panels.values() for each in marks):
        handles.append(Line2D([], [], ls="", marker="x", ms=5, color="0.3", label="no result"))
    fit = min(5 if len(panels) > 1 else 4, len(handles))
    figure.legend(handles=handles, loc="outside lower center", ncols=fit, frameon=False)
    return figure


def _handles(looks: Mapping[str, Look], **style: Any) -> list[Line2D]:
    return [Line2D([], [], **{"ls": ls, **style}, color=c, marker=m, label=kind) for kind, (c, m, ls) in looks.items()]


def _draw_mark(axes: Axes, mark: Mark, y: float, look: Look) -> None:
    colour = look.colour
    if mark.mean is None:
        axes.plot(0.02, y, marker="x", ms=5, color=colour, transform=axes.get_yaxis_transform())
        return
    if mark.std is not None:
        axes.plot((mark.mean - mark.std, mark.mean + mark.std), (y, y), color=colour, lw=1.2, alpha=0.7)
    if len(mark.values) > 1:
        axes.plot(mark.values, [y] * len(mark.values), ls="", marker=".", ms=3, color=colour, alpha=0.6)
    axes.plot(mark.mean, y, ls="", marker=look.marker, ms=5.5, color=colour, mec="white", mew=0.6)


@STYLED
def curves(
    panels: Mapping[str, Sequence[Curve]],
    looks: Mapping[str, Look],
    columns: int = 3,
    along: str = "training step",
) -> Figure:
    """Evaluations during training: a panel for each data set; mean and range of the seeds of each kind.

    along   what the steps of the curves count
    """
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(max(3.6, 2.4 * columns + 0.3), 1.8 * rows + 0.5)
    for place, (title, drawn) in enumerate(panels.items()):
        axes = figure.add_subplot(rows, columns, place + 1)
        known = [curve for curve in drawn if curve.values.size]
        for kind, steps, values in known:
            colour, shape, line = looks[kind]
            axes.fill_between(steps, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.18, lw=0)
            shown = shape if len(steps) < 30 else ""
            axes.plot(steps, values.mean(axis=0), color=colour, lw=1.5, ls=line, marker=shown, ms=3)
        failed = [curve.kind for curve in drawn if not curve.values.size]
        if failed:
            words = f"no result: {', '.join(failed)}"
            axes.text(0.5, 0.5, words, ha="center", va="center", fontsize=8, transform=axes.transAxes)
        step_axis(axes, max([1.0, *(float(curve.steps.max()) for curve in known)]))
        axes.set_xlabel(along)
        axes.set_title(title, loc="left", fontsize=9, parse_math=False)
        axes.set_ylabel("score" if place % columns == 0 else "")
        if place + columns < len(panels):
            axes.set_xlabel("")
    handles = _handles(looks, lw=1.5, ms=3)
    fit = min(2 * columns, 5, len(handles))
    figure.legend(handles=handles, loc="outside lower center", ncols=fit, frameon=False)
    return figure
