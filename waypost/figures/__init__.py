"""The figures of reports and studies: plain arrays in, matplotlib figures out, with no global state.

This module has the style and the helpers they share; `maps`, `curves` and `scores` draw.
"""

from __future__ import annotations

import hashlib
import io
import re
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

AXIS_LABELS = {
    "success_rate": "success rate (%)",
    "score": "score (normalised points)",
    "return": "return (sum of rewards)",
    "value": "value of the start states (discounted)",
    "episode_length": "episode length (steps)",
}
INK = "#0b4f8a"
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
    # "constrained" cuts off the outer labels of maps with a fixed aspect.
    figure = Figure(figsize=(width, height), layout="compressed")
    FigureCanvasAgg(figure)
    return figure


def new_axes(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure with one pair of axes."""
    figure = new_figure(width, height)
    return figure, figure.add_subplot()


def colour_bar(figure: Figure, axes: Axes, mappable: ScalarMappable, label: str) -> None:
    # An inset keeps the bar as tall as the map, whatever the map's aspect.
    figure.colorbar(mappable, cax=axes.inset_axes((1.03, 0, 0.045, 1)), label=label)


def grid_lines(axes: Axes, **which: Any) -> None:
    """Pale lines behind everything else."""
    axes.grid(color="0.9", lw=0.6, **which)
    axes.set_axisbelow(True)


def step_axis(axes: Axes, last: float) -> None:
    axes.set_xlabel("training step")
    axes.set_xlim(0, 1.02 * last if last > 0 else 1)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(lambda step, _: f"{step / 1000:g}k" if abs(step) >= 1000 else f"{step:g}")
    grid_lines(axes)
    # A factor such as 1e6 goes left of the axis, where it cannot overlap the names of the stages.
    axes.yaxis.get_offset_text().set_horizontalalignment("right")


def to_svg(figure: Figure) -> str:
    """Return an <svg> element to put into a page: no header, no metadata, unique ids.

    Figures of the same data give the same text, so two reports of one run can be compared.
    """
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "waypost"}):
        figure.savefig(buffer, format="svg", dpi=DPI, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = buffer.getvalue()
    text = text[text.index("<svg") :].strip()
    # Matplotlib uses the same ids in every figure, and ids must be unique within a page.
    prefix = f"f{hashlib.sha256(text.encode()).hexdigest()[:10]}-"
    return re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{prefix}", text)


def to_png(figure: Figure) -> bytes:
    """Return the figure as a PNG image."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI)
    return buffer.getvalue()
