"""Scores of several kinds of agents, drawn from plain numbers."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from waypost.figures.scores import LOOKS, Curve, Mark, curves, dots

LOOKED = dict(zip(("POR", "IQL"), LOOKS, strict=False))


def words(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_dots_have_a_row_for_each_data_set_and_the_first_kind_on_top() -> None:
    marks = [Mark("hopper", "IQL", 40.0, 2.0, (38.0, 42.0)), Mark("hopper", "POR", 50.0), Mark("ant", "POR", 5.0)]
    figure = dots({"here": marks, "there": marks[:1]}, LOOKED)
    first, second = figure.axes
    assert [label.get_text() for label in first.get_yticklabels()] == ["hopper", "ant"]
    assert (first.get_title("left"), second.get_title("left")) == ("here", "there")
    drawn = {
        (line.get_marker(), *map(float, np.atleast_1d(line.get_xdata()))): np.ravel(line.get_ydata())[0]
        for line in first.lines
        if line.get_marker() in "os."
    }
    assert drawn["o", 50.0] < drawn["s", 40.0] == drawn[".", 38.0, 42.0]
    assert first.get_ylim() == (1.5, -0.5)  # so a smaller y is higher up
    assert words(figure) == ["POR", "IQL"]


def test_dots_share_one_height_where_they_do_not_stand_apart() -> None:
    figure = dots({"here": [Mark("ant", "IQL", 4.0), Mark("ant", "POR", 5.0)]}, LOOKED, apart=False)
    heights = {float(np.ravel(line.get_ydata())[0]) for line in figure.axes[0].lines if line.get_marker() in "os"}
    assert heights == {0.0}


def test_a_training_without_a_result_is_a_cross_with_a_legend() -> None:
    figure = dots({"here": [Mark("ant", "IQL", None), Mark("ant", "POR", 5.0)]}, LOOKED)
    assert [line.get_marker() for line in figure.axes[0].lines if line.get_marker() == "x"] == ["x"]
    assert words(figure) == ["POR", "IQL", "no result"]


@pytest.mark.parametrize(("points", "marker"), [(3, "o"), (40, "")])
def test_curves_show_mean_and_range_of_the_seeds(points: int, marker: str) -> None:
    steps = 100 * np.arange(1, points + 1)
    values = np.stack([np.zeros(points), 10 * np.ones(points)])
    none = Curve("IQL", np.zeros(0), np.zeros(0))
    figure = curves({"hopper": [Curve("POR", steps, values)], "ant": [Curve("POR", steps, values), none]}, LOOKED)
    first, second = figure.axes
    (line,) = first.lines
    np.testing.assert_array_equal(line.get_ydata(), np.full(points, 5.0))
    assert line.get_marker() == marker
    band = first.collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (0.0, 10.0)
    assert first.get_xlim() == (0, 1.02 * steps[-1])
    assert (first.get_ylabel(), second.get_ylabel()) == ("score", "")
    assert [text.get_text() for text in second.texts] == ["no result: IQL"]
    assert words(figure) == ["POR", "IQL"]
