"""The report's pictures: plain arrays in, matplotlib figures out, with no global drawing state."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Columns = Mapping[str, NDArray[Any]]
Box = tuple[float, float, float, float]


class Layout(Protocol):
    """What a picture needs to know of a 2-D task. Boxes are (x, y, width, height)."""

    @property
    def extent(self) -> Box:
        """Edges of the world as (x0, x1, y0, y1)."""

    @property
    def walls(self) -> Sequence[Box]:
        """Boxes nothing passes."""

    @property
    def start(self) -> Box | None:
        """Box where episodes begin; None: anywhere."""

    @property
    def goal(self) -> Box:
        """Box to reach."""

    @property
    def river(self) -> Sequence[Box]:
        """Boxes that must not be entered; often none."""

    @property
    def key(self) -> tuple[float, float, float] | None:
        """Disc (x, y, radius) to visit first, if the task has one."""


@dataclass(frozen=True, eq=False)
class World:
    """What an agent thinks of, and does in, a 2-D task."""

    layout: Layout
    grid_x: Floats
    """Cell centres, (nx,)."""
    grid_y: Floats
    """Cell centres, (ny,)."""
    value: Floats
    """V at the cell centres, (ny, nx), NaN inside walls."""
    arrow_points: Floats
    """Where the guide is asked, (m, 2)."""
    arrow_targets: Floats
    """The next state it names, (m, 2)."""
    rollouts: Sequence[Floats]
    """Positions visited in each episode, (t, 2)."""
    successes: Sequence[bool]
    """Whether each episode reaches the goal."""


AXIS_LABELS = {
    "success_rate": "success rate (%)",
    "score": "score (normalised points)",
    "return": "return (sum of rewards)",
    "episode_length": "episode length (steps)",
}
NOT_METRICS = ("step", "seed", "stage")

WALL, INK, SUCCESS, FAILURE = "#3d3d3d", "#0b4f8a", "#009e73", "#d55e00"
# Pale but visible at the first step, and monotone in lightness so that it survives grey printing.
TIME_COLOURS = ListedColormap(matplotlib.colormaps["YlGnBu"](np.linspace(0.25, 1.0, 256)), "time")
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
STYLED = matplotlib.rc_context(STYLE)
DPI = 160


def new_figure(width: float, height: float) -> Figure:
    # "constrained" misjudges maps of a fixed aspect and cuts their outer labels off.
    figure = Figure(figsize=(width, height), layout="compressed")
    FigureCanvasAgg(figure)
    return figure


def _label(axes: Axes, layout: Layout, text: str, x: float, y: float, width: float, height: float) -> None:
    """Write a word just outside a box, on the side that has room for it."""
    x0, x1, y0, y1 = layout.extent
    across, up = (x + width / 2 - x0) / (x1 - x0), (y + height / 2 - y0) / (y1 - y0)
    anchor, align = (x, "left") if across < 0.2 else (x + width, "right") if across > 0.8 else (x + width / 2, "center")
    below = up > 0.8
    axes.annotate(
        text,
        (anchor, y if below else y + height),
        xytext=(0, -4 if below else 4),
        textcoords="offset points",
        ha=align,
        va="top" if below else "bottom",
        fontsize=8,
        zorder=6,
        bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85},
    )


def draw_layout(axes: Axes, layout: Layout) -> None:
    """Draw walls, start, goal and whatever else a task has on its plane."""
    x0, x1, y0, y1 = layout.extent
    axes.set(xlim=(x0, x1), ylim=(y0, y1), aspect="equal", xlabel="x", ylabel="y")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    for x, y, width, height in layout.walls:
        axes.add_patch(Rectangle((x, y), width, height, facecolor=WALL, edgecolor="none", zorder=3))
    for x, y, width, height in layout.river:
        axes.add_patch(
            Rectangle((x, y), width, height, facecolor="#56b4e955", edgecolor="#0072b2", hatch="//", lw=0.6, zorder=2.5)
        )
    if layout.river:
        _label(axes, layout, "river", *max(layout.river, key=lambda box: box[2] * box[3]))
    for name, box in (("start", layout.start), ("goal", layout.goal)):
        if box is None:
            continue
        # A white line under a black dashed one stands out on every colour of the map.
        for style in ({"edgecolor": "white", "lw": 2.6}, {"edgecolor": "black", "lw": 1.2, "ls": "--"}):
            axes.add_patch(Rectangle(box[:2], box[2], box[3], fill=False, zorder=4, **style))  # type: ignore[arg-type]
        _label(axes, layout, name, *box)
    if layout.key is not None:
        x, y, radius = layout.key
        axes.add_patch(Circle((x, y), radius, facecolor="#f0e44280", edgecolor="black", lw=1.2, zorder=2.5))
        _label(axes, layout, "key", x - radius, y - radius, 2 * radius, 2 * radius)


def colour_bar(figure: Figure, axes: Axes, mappable: ScalarMappable, label: str) -> None:
    # An inset keeps the bar as tall as the map, whatever the map's aspect.
    figure.colorbar(mappable, cax=axes.inset_axes((1.03, 0, 0.045, 1)), label=label)


def _grown(value: Floats) -> Floats:
    """Give NaN cells beside finite ones their neighbours' mean.

    A cell centred just inside a wall sticks out of it by up to half its width, and would show as a
    white seam along the wall.
    """
    padded = np.pad(np.asarray(value, float), 1, constant_values=np.nan)
    around = np.lib.stride_tricks.sliding_window_view(padded, (3, 3)).reshape(*value.shape, 9)
    known = np.isfinite(around)
    count = known.sum(axis=-1)
    mean = np.where(known, around, 0).sum(axis=-1) / np.maximum(count, 1)
    return np.where(np.isfinite(value), value, np.where(count > 0, mean, np.nan))


def _draw_value(figure: Figure, axes: Axes, world: World, alpha: float) -> None:
    value = np.ma.masked_invalid(_grown(world.value))
    span = (value.min(), value.max()) if value.count() else (0.0, 1.0)
    image = axes.pcolormesh(
        world.grid_x,
        world.grid_y,
        value,
        shading="nearest",
        cmap="viridis",
        norm=Normalize(*span),
        alpha=alpha,
        rasterized=True,
        zorder=1,
    )
    colour_bar(figure, axes, image, "value V(s)")


@STYLED
def value_map(world: World) -> Figure:
    """Show V(s) over the plane as a filled image."""
    figure = new_figure(4.5, 4.0)
    axes = figure.add_subplot()
    _draw_value(figure, axes, world, alpha=1.0)
    draw_layout(axes, world.layout)
    axes.set_title("Value")
    return figure


@STYLED
def guide_map(world: World) -> Figure:
    """Show which way the guide points, as arrows of one length over a pale value image."""
    figure = new_figure(4.5, 4.0)
    axes = figure.add_subplot()
    _draw_value(figure, axes, world, alpha=0.35)
    draw_layout(axes, world.layout)
    points = np.asarray(world.arrow_points, float).reshape(-1, 2)
    steps = np.asarray(world.arrow_targets, float).reshape(-1, 2) - points
    lengths = np.linalg.norm(steps, axis=1, keepdims=True)
    # A guide that names the point itself has no direction: it stays zero and is drawn as a dot.
    directions = np.divide(steps, lengths, out=np.zeros_like(steps), where=lengths != 0)
    x0, x1, y0, y1 = world.layout.extent
    spacing = np.sqrt((x1 - x0) * (y1 - y0) / max(len(points), 1))
    axes.quiver(
        *points.T,
        *directions.T,
        angles="xy",
        scale_units="xy",
        scale=1 / (0.8 * spacing),
        width=0.004,
        headwidth=4,
        headlength=4.5,
        headaxislength=4,
        color="black",
        zorder=3.5,
    )
    axes.set_title("Guide")
    return figure


@STYLED
def rollout_map(world: World) -> Figure:
    """Show the paths of all rollouts, darker as time goes, and how each of them ends."""
    # The legend takes the extra height, so that all maps have one scale.
    figure = new_figure(4.5, 4.3)
    axes = figure.add_subplot()
    longest = max((len(path) - 1 for path in world.rollouts), default=0)
    lines = draw_rollouts(axes, world.layout, world.rollouts, world.successes, longest)
    colour_bar(figure, axes, lines, "step")
    if world.rollouts:
        figure.legend(loc="outside lower center", ncols=3, frameon=False, handletextpad=0.2, columnspacing=1.2)
    return figure


def draw_rollouts(
    axes: Axes, layout: Layout, rollouts: Sequence[Floats], successes: Sequence[bool], longest: int
) -> LineCollection:
    """Draw a task with the paths through it; the darkest colour stands for step `longest`."""
    draw_layout(axes, layout)
    paths = [np.asarray(path, float).reshape(-1, 2) for path in rollouts]
    segments = [np.stack([path[:-1], path[1:]], axis=1) for path in paths]
    times = [np.arange(len(part)) for part in segments]
    lines = LineCollection(
        list(np.concatenate(segments)) if segments else [],
        array=np.concatenate(times) if times else None,
        cmap=TIME_COLOURS,
        norm=Normalize(0, max(longest, 1)),
        linewidths=0.8,
        alpha=0.7,
        rasterized=True,
        zorder=2,
    )
    axes.add_collection(lines, autolim=False)
    reached = np.array([success for path, success in zip(paths, successes, strict=True) if len(path)], bool)
    starts = np.array([path[0] for path in paths if len(path)]).reshape(-1, 2)
    ends = np.array([path[-1] for path in paths if len(path)]).reshape(-1, 2)
    axes.scatter(starts[:, 0], starts[:, 1], s=7, color="black", linewidths=0, zorder=5, label="start")
    for label, chosen, marker, colour in (
        ("ends at goal", reached, "o", SUCCESS),
        ("ends elsewhere", ~reached, "X", FAILURE),
    ):
        if chosen.any():
            x, y = ends[chosen].T
            axes.scatter(x, y, s=24, marker=marker, color=colour, edgecolors="white", lw=0.5, zorder=5, label=label)
    axes.set_title(f"{sum(map(bool, successes))} of {len(paths)} reach the goal" if paths else "No rollouts")
    return lines


def by_seed(columns: Columns, name: str) -> tuple[Floats, Floats]:
    """Return the steps that have a finite value, and the values as (seeds, steps) with NaN for gaps."""
    values = np.asarray(columns[name], float)
    kept = np.isfinite(values)
    steps, column = np.unique(np.asarray(columns["step"], float)[kept], return_inverse=True)
    seeds, row = np.unique(np.asarray(columns["seed"])[kept], return_inverse=True)
    table = np.full((len(seeds), len(steps)), np.nan)
    table[row, column] = values[kept]
    return steps, table


def draw_seeds(axes: Axes, steps: Floats, table: Floats, marker: str = "") -> None:
    """Draw the mean over seeds, and their range where there are several."""
    if len(table) > 1:
        axes.fill_between(
            steps, np.nanmin(table, axis=0), np.nanmax(table, axis=0), color=INK, alpha=0.18, lw=0, label="range"
        )
    label = "mean" if len(table) > 1 else "one seed"
    axes.plot(steps, np.nanmean(table, axis=0), color=INK, lw=1.5, marker=marker, ms=4, label=label)


def step_axis(axes: Axes, last: float) -> None:
    axes.set_xlabel("training step")
    axes.set_xlim(0, 1.02 * last if last > 0 else 1)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(lambda step, _: f"{step / 1000:g}k" if abs(step) >= 1000 else f"{step:g}")
    axes.grid(color="0.9", lw=0.6)
    axes.set_axisbelow(True)
    # A factor such as 1e6 stands left of the axis, where it cannot meet the names of the stages.
    axes.yaxis.get_offset_text().set_horizontalalignment("right")


def curve_column(evaluations: Columns) -> str | None:
    """Name the most telling column that has a value, or None where nothing was evaluated."""
    for name in ("success_rate", "score", "return"):
        if np.isfinite(np.asarray(evaluations.get(name, ()), float)).any():
            return name
    return None


@STYLED
def learning_curve(evaluations: Columns, column: str | None = None) -> Figure:
    """Show an evaluation column against the training step: mean, range and each seed."""
    column = column or curve_column(evaluations)
    if column is None:
        raise ValueError("no evaluation has a value to draw")
    figure = new_figure(4.8, 3.2)
    axes = figure.add_subplot()
    steps, table = by_seed(evaluations, column)
    if column == "success_rate":
        table = 100 * table
        axes.set_ylim(-4, 104)
    if len(table) > 1:
        for index, row in enumerate(table):
            seen = np.isfinite(row)
            axes.plot(
                steps[seen],
                row[seen],
                color=INK,
                lw=0.6,
                alpha=0.5,
                marker=".",
                ms=3,
                label="each seed" if index == 0 else None,
            )
    draw_seeds(axes, steps, table, marker="o")
    step_axis(axes, steps.max())
    axes.set_ylabel(AXIS_LABELS.get(column, column), parse_math=False)
    if len(table) > 1:
        figure.legend(loc="outside upper center", ncols=3, frameon=False)
    return figure


def metric_names(metrics: Columns) -> list[str]:
    """List the columns that are metrics, in the order of the file."""
    return [name for name in metrics if name not in NOT_METRICS]


def _stages(metrics: Columns) -> list[tuple[str, float]]:
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
        axes.annotate(
            name,
            (step if index else 0, 1),
            xycoords=("data", "axes fraction"),
            xytext=(1, 2 + 10 * row),
            textcoords="offset points",
            fontsize=8,
            color="0.35",
            parse_math=False,
            annotation_clip=False,
        )
    return rows


@STYLED
def metric_curves(metrics: Columns, names: Sequence[str] | None = None, columns: int = 3) -> Figure:
    """Show training metrics as small multiples against the step, all of them unless `names` picks some."""
    names = metric_names(metrics) if names is None else list(names)
    steps = np.asarray(metrics.get("step", ()), float)
    if not names or not len(steps):
        raise ValueError("no training metric to draw")
    columns = min(columns, len(names))
    rows = -(-len(names) // columns)
    figure = new_figure(3.4 * columns, 2.5 * rows)
    stages = _stages(metrics)
    last = float(steps.max())
    for place, name in enumerate(names, start=1):
        axes = figure.add_subplot(rows, columns, place)
        at, table = by_seed(metrics, name)
        if len(at):
            draw_seeds(axes, at, table, marker="o" if len(at) == 1 else "")
        else:
            axes.text(0.5, 0.5, "no finite value", ha="center", va="center", transform=axes.transAxes)
        text_rows = _mark_stages(axes, stages, last) if len(stages) > 1 else 0
        step_axis(axes, last)
        axes.set_title(name, loc="left", pad=4 + 10 * text_rows, parse_math=False)
    return figure


def to_svg(figure: Figure) -> str:
    """Return an <svg> element to put into a page: no header, no metadata, ids of its own.

    Figures of the same data give the same text, so two reports of one run can be compared.
    """
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "waypost"}):
        figure.savefig(buffer, format="svg", dpi=DPI, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = buffer.getvalue()
    text = text[text.index("<svg") :].strip()
    # Matplotlib names parts alike in every figure, and ids must be unique within a page.
    prefix = f"f{hashlib.sha256(text.encode()).hexdigest()[:10]}-"
    return re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{prefix}", text)


def to_png(figure: Figure) -> bytes:
    """Return the figure as a PNG picture."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI)
    return buffer.getvalue()
