"""Maps of a 2-D task: an agent's value function, where its guide points, and its rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle
from matplotlib.ticker import MaxNLocator

from waypost.envs.layout import Layout
from waypost.figures import STYLED, Floats, colour_bar, new_axes

WALL, SUCCESS, FAILURE = "#3d3d3d", "#009e73", "#d55e00"
# Pale but visible at the first step, and monotone in lightness so that it survives grey printing.
TIME_COLOURS = ListedColormap(matplotlib.colormaps["YlGnBu"](np.linspace(0.25, 1.0, 256)), "time")
Style = dict[str, Any]
WALLS: Style = {"facecolor": WALL, "edgecolor": "none", "zorder": 3}
RIVER: Style = {"facecolor": "#56b4e955", "edgecolor": "#0072b2", "hatch": "//", "lw": 0.6, "zorder": 2.5}
# A white line under a black dashed one stands out on every colour of the map.
OUTLINE: tuple[Style, Style] = {"edgecolor": "white", "lw": 2.6}, {"edgecolor": "black", "lw": 1.2, "ls": "--"}
ARROW: Style = {"width": 0.004, "headwidth": 4, "headlength": 4.5, "headaxislength": 4, "color": "black"}
PATH: Style = {"linewidths": 0.8, "alpha": 0.7, "rasterized": True, "zorder": 2}
LABEL: Style = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}


@dataclass(frozen=True, eq=False)
class World:
    """The value function, the guide and the rollouts of an agent in a 2-D task."""

    layout: Layout
    grid_x: Floats
    """Cell centres, (nx,)."""
    grid_y: Floats
    """Cell centres, (ny,)."""
    value: Floats
    """V at the cell centres, (ny, nx), NaN inside walls."""
    arrow_points: Floats
    """Points at which the guide is evaluated, (m, 2)."""
    arrow_targets: Floats
    """The next states it predicts, (m, 2)."""
    rollouts: Sequence[Floats]
    """Positions visited in each episode, (t, 2)."""
    successes: Sequence[bool]
    """Whether each episode reaches the goal."""


@STYLED
def value_map(world: World) -> Figure:
    """Show V(s) over the plane as a filled image."""
    figure, axes = _value_axes(world, alpha=1.0)
    axes.set_title("Value")
    return figure


@STYLED
def guide_map(world: World) -> Figure:
    """Show which way the guide points, as arrows of one length over a pale value image."""
    figure, axes = _value_axes(world, alpha=0.35)
    points = np.asarray(world.arrow_points, float).reshape(-1, 2)
    steps = np.asarray(world.arrow_targets, float).reshape(-1, 2) - points
    lengths = np.linalg.norm(steps, axis=1, keepdims=True)
    # A guide that predicts the point itself has no direction: it stays zero and is drawn as a dot.
    directions = np.divide(steps, lengths, out=np.zeros_like(steps), where=lengths != 0)
    x0, x1, y0, y1 = world.layout.extent
    length = 0.8 * np.sqrt((x1 - x0) * (y1 - y0) / max(len(points), 1))
    axes.quiver(*points.T, *directions.T, angles="xy", scale_units="xy", scale=1 / length, zorder=3.5, **ARROW)
    axes.set_title("Guide")
    return figure


@STYLED
def rollout_map(world: World) -> Figure:
    """Show the paths of all rollouts, darker over time, and how each of them ends."""
    # The legend takes the extra height, so that all maps have the same scale.
    figure, axes = new_axes(4.5, 4.3)
    longest = max((len(path) - 1 for path in world.rollouts), default=0)
    lines = draw_rollouts(axes, world.layout, world.rollouts, world.successes, longest)
    colour_bar(figure, axes, lines, "step")
    if world.rollouts:
        figure.legend(loc="outside lower center", ncols=3, frameon=False, handletextpad=0.2, columnspacing=1.2)
    return figure


def _value_axes(world: World, alpha: float) -> tuple[Figure, Axes]:
    figure, axes = new_axes(4.5, 4.0)
    value = np.ma.masked_invalid(_grown(world.value))
    span = (value.min(), value.max()) if value.count() else (0.0, 1.0)
    style: Style = {"shading": "nearest", "cmap": "viridis", "rasterized": True, "zorder": 1}
    image = axes.pcolormesh(world.grid_x, world.grid_y, value, norm=Normalize(*span), alpha=alpha, **style)
    colour_bar(figure, axes, image, "value V(s)")
    draw_layout(axes, world.layout)
    return figure, axes


def _grown(value: Floats) -> Floats:
    """Give NaN cells beside finite ones their neighbours' mean.

    A cell centred just inside a wall sticks out of it by up to half its width, and would show as a white seam along
    the wall.
    """
    padded = np.pad(np.asarray(value, float), 1, constant_values=np.nan)
    around = np.lib.stride_tricks.sliding_window_view(padded, (3, 3)).reshape(*value.shape, 9)
    known = np.isfinite(around)
    count = known.sum(axis=-1)
    mean = np.where(known, around, 0).sum(axis=-1) / np.maximum(count, 1)
    return np.where(np.isfinite(value), value, np.where(count > 0, mean, np.nan))


def draw_layout(axes: Axes, layout: Layout) -> None:
    """Draw walls, start, goal and everything else on a task's plane."""
    x0, x1, y0, y1 = layout.extent
    axes.set(xlim=(x0, x1), ylim=(y0, y1), aspect="equal", xlabel="x", ylabel="y")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    for boxes, style in ((layout.walls, WALLS), (layout.river, RIVER)):
        for x, y, width, height in boxes:
            axes.add_patch(Rectangle((x, y), width, height, **style))
    if layout.river:
        _label(axes, layout, "river", *max(layout.river, key=lambda box: box[2] * box[3]))
    for name, box in (("start", layout.start), ("goal", layout.goal)):
        if box is not None:
            for style in OUTLINE:
                axes.add_patch(Rectangle(box[:2], box[2], box[3], fill=False, zorder=4, **style))
            _label(axes, layout, name, *box)
    if layout.key is not None:
        x, y, radius = layout.key
        axes.add_patch(Circle((x, y), radius, facecolor="#f0e44280", edgecolor="black", lw=1.2, zorder=2.5))
        _label(axes, layout, "key", x - radius, y - radius, 2 * radius, 2 * radius)


def _label(axes: Axes, layout: Layout, text: str, x: float, y: float, width: float, height: float) -> None:
    """Write a word just outside a box, on the side that has room for it."""
    x0, x1, y0, y1 = layout.extent
    across, up = (x + width / 2 - x0) / (x1 - x0), (y + height / 2 - y0) / (y1 - y0)
    anchor, align = (x, "left") if across < 0.2 else (x + width, "right") if across > 0.8 else (x + width / 2, "center")
    place, offset, edge = (y, -4, "top") if up > 0.8 else (y + height, 4, "bottom")
    at: Style = {"xytext": (0, offset), "textcoords": "offset points", "ha": align, "va": edge}
    axes.annotate(text, (anchor, place), fontsize=8, zorder=6, bbox=LABEL, **at)


def draw_rollouts(
    axes: Axes, layout: Layout, rollouts: Sequence[Floats], successes: Sequence[bool], longest: int
) -> LineCollection:
    """Draw a task with the paths through it; the darkest colour stands for step `longest`."""
    draw_layout(axes, layout)
    paths = [np.asarray(path, float).reshape(-1, 2) for path in rollouts]
    segments = [np.stack([path[:-1], path[1:]], axis=1) for path in paths]
    drawn = list(np.concatenate(segments)) if segments else []
    steps = np.concatenate([np.arange(len(part)) for part in segments]) if segments else None
    lines = LineCollection(drawn, array=steps, cmap=TIME_COLOURS, norm=Normalize(0, max(longest, 1)), **PATH)
    axes.add_collection(lines, autolim=False)
    reached = np.array([success for path, success in zip(paths, successes, strict=True) if len(path)], bool)
    starts, ends = (np.array([path[i] for path in paths if len(path)]).reshape(-1, 2) for i in (0, -1))
    axes.scatter(starts[:, 0], starts[:, 1], s=7, color="black", linewidths=0, zorder=5, label="start")
    marks = (("ends at goal", reached, "o", SUCCESS), ("ends elsewhere", ~reached, "X", FAILURE))
    for label, chosen, marker, colour in marks:
        if chosen.any():
            x, y = ends[chosen].T
            axes.scatter(x, y, s=24, marker=marker, color=colour, edgecolors="white", lw=0.5, zorder=5, label=label)
    axes.set_title(f"{sum(map(bool, successes))} of {len(paths)} reach the goal" if paths else "No rollouts")
    return lines
