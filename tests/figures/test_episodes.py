"""A policy beside the log: charts of episodes and of trends."""

from __future__ import annotations

import numpy as np
import pytest

from waypost.figures.episodes import BINS, Panel, episode_chart, trend, trend_chart


def test_a_panel_has_both_lines_and_its_name() -> None:
    rows = np.arange(5.0)
    figure = episode_chart([Panel("valve [%]", rows, 2 * rows), Panel("$pump", rows, rows, steps=True)])
    first, second = figure.axes
    assert [line.get_ydata().tolist() for line in first.lines] == [rows.tolist(), (2 * rows).tolist()]
    assert (first.get_ylabel(), second.get_ylabel()) == ("valve [%]", "$pump")
    assert second.lines[0].get_drawstyle() == "steps-mid"
    assert second.get_xlabel() == "row of the episode"


def test_a_trend_has_the_means_of_bins_with_equally_many_rows() -> None:
    column = np.arange(80.0)
    found = trend(column, column**2, -column)
    assert len(found.centres) == BINS
    parts = np.split(column, BINS)
    assert found.centres == pytest.approx([part.mean() for part in parts])
    assert found.recorded == pytest.approx([(part**2).mean() for part in parts])
    assert found.agent == pytest.approx([-part.mean() for part in parts])


def test_a_column_of_few_values_has_few_bins() -> None:
    column = np.tile([0.0, 1.0], 20)
    assert trend(column, column, column).centres.tolist() == [0.0, 1.0]
    assert trend(np.zeros(3), np.ones(3), np.ones(3)).recorded.tolist() == [1.0]


def test_trends_are_labelled_by_column_and_action() -> None:
    one = trend(np.arange(16.0), np.arange(16.0), np.zeros(16))
    figure = trend_chart([[one, one], [one, one]], ["level [mm]", "flow"], ["valve", "heater"])
    assert [axes.get_xlabel() for axes in figure.axes] == ["", "", "level [mm]", "flow"]
    assert [axes.get_ylabel() for axes in figure.axes] == ["valve", "", "heater", ""]
