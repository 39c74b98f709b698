"""A diagnosis as files: one figure, a table and a text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from waypost.figures import INK, STYLED, new_figure, to_png, to_svg
from waypost.files import table, write_bytes, write_json, write_text
from waypost.studies.findings import Diagnosis

PARTS = {
    "l1": ("l1\nguide beyond\nthe data", "#0072b2"),
    "l2": ("l2\naim not\nthe best", "#e69f00"),
    "l3": ("l3\nexecutor's\nerror", "#009e73"),
    "bound": ("sum", "#999999"),
    "gap": ("measured\ngap", "#d55e00"),
}
CURVES = {
    "guide_to_data": ("goal to nearest recorded state", "#0072b2", "-"),
    "data_to_data": ("recorded state to nearest other", "#999999", "--"),
    "guide_distance": ("goal to recorded next state", "#d55e00", ":"),
}
SLOPES = {
    "inverse_slope": ("L1, inverse dynamics", "#0072b2", "-"),
    "executor_slope": ("L2, executor", "#d55e00", "--"),
}


@STYLED
def diagnosis_figure(diagnosis: Diagnosis) -> Figure:
    """The terms of the bound, the distance of the guide from the data, and the slopes."""
    figure = new_figure(10.0, 3.6)
    parts, distances, slopes = figure.subplots(1, 3, width_ratios=(1.3, 1, 1))
    for place, (name, (_, colour)) in enumerate(PARTS.items()):
        values = diagnosis.measures[name]
        low, quarter, middle, three, high = np.quantile(values, (0.05, 0.25, 0.5, 0.75, 0.95))
        parts.plot([place, place], [low, high], color=colour, linewidth=1.2)
        parts.bar(place, three - quarter, 0.55, quarter, color=colour, alpha=0.55)
        parts.plot([place - 0.28, place + 0.28], [middle, middle], color=INK, linewidth=1.4)
    parts.set_xticks(range(len(PARTS)), [label for label, _ in PARTS.values()])
    parts.set_yscale("symlog", linthresh=0.01)
    parts.set_ylim(bottom=0)
    parts.set_ylabel("action units, of [-1, 1]")
    parts.set_title("Terms of the bound", loc="left")
    _shares(distances, diagnosis, CURVES, "standardised distance")
    distances.set_title("Where the guide goes", loc="left")
    _shares(slopes, diagnosis, SLOPES, "action per standardised distance")
    slopes.set_title("How fast actions change", loc="left")
    return figure


def _shares(axes: Axes, diagnosis: Diagnosis, curves: dict[str, tuple[str, str, str]], across: str) -> None:
    """The share of states below each value."""
    for name, (label, colour, style) in curves.items():
        values = np.sort(np.maximum(diagnosis.measures[name], 1e-6))
        axes.plot(values, np.arange(1, len(values) + 1) / len(values), style, color=colour, label=label)
    axes.set_xscale("log")
    axes.set_xlabel(across)
    axes.set_ylabel("share of states")
    axes.set_ylim(0, 1)
    numbers = np.concatenate([diagnosis.measures[name] for name in curves])
    if (numbers > 0).any():
        axes.set_xlim(left=np.quantile(numbers[numbers > 0], 0.002))
    axes.legend(loc="upper left", bbox_to_anchor=(0.0, -0.25), frameon=False)


def write_diagnosis(diagnosis: Diagnosis, folder: Path) -> Path:
    """Write diagnosis.json, .csv, .md, .png and .svg to a folder; returns the folder."""
    figure, rows = diagnosis_figure(diagnosis), diagnosis.rows
    write_json(folder / "diagnosis.json", diagnosis.to_json())
    write_text(folder / "diagnosis.csv", table(list(rows[0]), rows))
    write_text(folder / "diagnosis.md", markdown(diagnosis))
    write_bytes(folder / "diagnosis.png", to_png(figure))
    write_text(folder / "diagnosis.svg", to_svg(figure))
    return folder


def markdown(diagnosis: Diagnosis) -> str:
    """The text and the table."""
    lines = ["# Diagnosis", "", diagnosis.reading(), "", "![Terms of the bound](diagnosis.png)", ""]
    lines += ["| measure | mean | median | 95 % below | largest | meaning |", "|---|---:|---:|---:|---:|---|"]
    for row in diagnosis.rows:
        numbers = " | ".join(f"{row[name]:.3g}" for name in ("mean", "median", "p95", "largest"))
        lines.append(f"| {row['measure']} | {numbers} | {row['meaning']} |")
    return "\n".join(lines) + "\n"
