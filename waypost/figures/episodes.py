"""A policy beside the log it learned from: along an episode, and over the range of each column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from waypost.figures import INK, STYLED, Floats, grid_lines, new_figure

RECORDED = "#d55e00"
BINS = 8


class Panel(NamedTuple):
    """Two lines over the rows of an episode: what was recorded, and what the agent says."""

    label: str
    recorded: Floats
    agent: Floats
    steps: bool = False
    """Whether the numbers stand for choices, so that nothing lies between them."""


@STYLED
def episode_chart(panels: Sequence[Panel]) -> Figure:
    """The panels one below the other."""
    figure = new_figure(4.8, 0.7 + 1.15 * len(panels))
    all_axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, panel in zip(all_axes, panels, strict=True):
        rows, drawn = np.arange(len(panel.recorded)), "steps-mid" if panel.steps else "default"
        axes.plot(rows, panel.recorded, color=RECORDED, lw=1.0, drawstyle=drawn, label="recorded")
        axes.plot(rows, panel.agent, color=INK, lw=1.3, drawstyle=drawn, label="agent")
        axes.set_ylabel(panel.label, parse_math=False)
        grid_lines(axes)
    all_axes[-1].set_xlabel("row of the episode")
    figure.align_ylabels(all_axes)
    figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)
    return figure


class Trend(NamedTuple):
    """Means of what was recorded and of what the agent says, in bins of a column with equally many rows."""

    centres: Floats
    recorded: Floats
    agent: Floats


def trend(column: Floats, recorded: Floats, agent: Floats) -> Trend:
    """How both go with a column."""
    edges = np.unique(np.quantile(column, np.linspace(0, 1, BINS + 1)))
    bins = np.clip(np.searchsorted(edges, column, side="right") - 1, 0, max(len(edges) - 2, 0))
    counts = np.bincount(bins)

    def means(values: Floats) -> Floats:
        return np.bincount(bins, values)[counts > 0] / counts[counts > 0]

    return Trend(means(column), means(recorded), means(agent))


@STYLED
def trend_chart(trends: Sequence[Sequence[Trend]], across: Sequence[str], labels: Sequence[str]) -> Figure:
    """A row of axes for each of `labels`, one for each of the columns `across`."""
    figure = new_figure(0.6 + 2.3 * len(across), 0.9 + 1.5 * len(labels))
    grid = figure.subplots(len(labels), len(across), sharex="col", sharey="row", squeeze=False)
    for axes_row, row, label in zip(grid, trends, labels, strict=True):
        for axes, each in zip(axes_row, row, strict=True):
            axes.plot(each.centres, each.recorded, color=RECORDED, lw=1.0, marker=".", label="recorded")
            axes.plot(each.centres, each.agent, color=INK, lw=1.3, marker=".", label="agent")
            grid_lines(axes)
        axes_row[0].set_ylabel(label, parse_math=False)
    for axes, name in zip(grid[-1], across, strict=True):
        axes.set_xlabel(name, parse_math=False)
        axes.locator_params(axis="x", nbins=4)
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)
    return figure
