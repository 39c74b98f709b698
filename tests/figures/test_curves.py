"""The curves show what the tables say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from waypost.figures import curves, to_svg

Table = dict[str, np.ndarray]


def only(figure: Figure) -> Any:
    return figure.axes[0]


def words(axes: Axes) -> set[str]:
    return {text.get_text() for text in axes.texts}


def columns(seeds: int, steps: list[int], **values: list[float]) -> Table:
    """Build columns in seed-major order."""
    return {
        "step": np.tile(steps, seeds),
        "seed": np.repeat(np.arange(seeds), len(steps)),
        **{name: np.array(column, float) for name, column in values.items()},
    }


def test_curve_column_takes_the_best_that_has_a_value() -> None:
    nothing = [np.nan, np.nan]
    assert curves.curve_column({}) is None
    assert curves.curve_column(columns(1, [], success_rate=[], score=[])) is None
    given = {"success_rate": [0.1, np.nan], "score": [1.0, 2.0], "return": [3.0, 4.0]}
    assert curves.curve_column(columns(1, [1, 2], **given)) == "success_rate"
    assert curves.curve_column(columns(1, [1, 2], **given | {"success_rate": nothing})) == "score"
    assert curves.curve_column(columns(1, [1, 2], **given | {"success_rate": nothing, "score": nothing})) == "return"


def test_learning_curve_shows_mean_seeds_and_range_in_per_cent() -> None:
    rates = [0.0, 0.5, 1.0, 0.2, 0.7, np.nan]
    axes = only(curves.learning_curve(columns(2, [10, 20, 30], success_rate=rates)))
    *seeds, mean = axes.lines
    np.testing.assert_allclose(mean.get_xydata(), [[10, 10], [20, 60], [30, 100]])
    np.testing.assert_allclose(seeds[0].get_ydata(), [0, 50, 100])
    np.testing.assert_allclose(seeds[1].get_ydata(), [20, 70])
    assert seeds[0].get_linewidth() < mean.get_linewidth()
    band = axes.collections[0].get_paths()[0].vertices
    assert {(10, 0), (10, 20), (20, 50), (20, 70)} <= {(round(x), round(y)) for x, y in band}
    assert axes.get_ylabel() == "success rate (%)"
    assert axes.get_xlabel() == "training step"


def test_learning_curve_of_one_seed_and_one_point_has_a_marker() -> None:
    axes = only(curves.learning_curve(columns(1, [500], score=[87.0])))
    (line,) = axes.lines
    assert line.get_marker() == "o"
    np.testing.assert_array_equal(line.get_xydata(), [[500, 87]])
    assert not axes.collections
    assert axes.get_ylabel() == "score (normalised points)"


def test_learning_curve_takes_the_column_asked_for() -> None:
    axes = only(curves.learning_curve(columns(1, [1, 2], success_rate=[0, 1], episode_length=[9, 8]), "episode_length"))
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [9, 8])
    assert axes.get_ylabel() == "episode length (steps)"


def test_nothing_to_draw_is_said() -> None:
    with pytest.raises(ValueError, match="no evaluation"):
        curves.learning_curve(columns(1, []))
    with pytest.raises(ValueError, match="no training metric"):
        curves.metric_curves(columns(1, [1, 2]))
    with pytest.raises(ValueError, match="no training metric"):
        curves.metric_curves({})


def test_metric_curves_has_a_panel_a_metric_with_the_mean_of_finite_values(metrics: Table) -> None:
    value, policy = curves.metric_curves(metrics).axes
    assert [value.get_title("left"), policy.get_title("left")] == ["v_loss", "pi_loss"]
    np.testing.assert_array_equal(value.lines[0].get_xydata(), [[10, 3], [20, 2]])
    np.testing.assert_array_equal(policy.lines[0].get_xydata(), [[30, 5], [40, 6]])
    assert len(value.collections) == 1, "the range of two seeds"
    assert value.get_xlim() == policy.get_xlim()
    assert value.get_yscale() == "linear"


def test_metric_curves_marks_stages_only_where_there_are_several(metrics: Table) -> None:
    panel = only(curves.metric_curves(metrics, ["v_loss"]))
    assert [line.get_xdata()[0] for line in panel.lines if (line.get_gid() or "").startswith("stage")] == [30]
    assert words(panel) == {"value", "executor"}
    single = only(curves.metric_curves(metrics | {"stage": np.array(["joint"] * 8)}, ["v_loss"]))
    assert not words(single)
    assert len(single.lines) == 1


def test_names_of_stages_that_start_together_do_not_collide(metrics: Table) -> None:
    stages = metrics | {"stage": np.array(["a", "b", "c", "c"] * 2), "step": np.array([1, 2, 39, 40] * 2)}
    texts = only(curves.metric_curves(stages, ["v_loss"])).texts
    heights = {text.get_text(): text.xyann[1] for text in texts}
    assert heights["a"] < heights["b"]
    assert heights["a"] == heights["c"]


def test_metric_without_a_finite_value_says_so(metrics: Table) -> None:
    panel = only(curves.metric_curves(metrics | {"odd": np.full(8, np.nan)}, ["odd"]))
    assert "no finite value" in words(panel)


def test_names_are_text_and_not_markup(metrics: Table) -> None:
    hostile = metrics | {"$\\frac$ <b>": metrics["v_loss"], "stage": np.array(["$x<", "$x<", "y$_", "y$_"] * 2)}
    svg = to_svg(curves.metric_curves(hostile))
    assert "$\\frac$ &lt;b&gt;" in svg
    assert "<b>" not in svg
