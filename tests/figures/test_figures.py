"""The figures show what the arrays say."""

import io
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection, QuadMesh
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.quiver import Quiver
from matplotlib.text import Text

from waypost import figures

Table = dict[str, np.ndarray]


@dataclass(frozen=True)
class Rooms:
    extent: tuple = (0.0, 4.0, 0.0, 4.0)
    walls: tuple = ((1.5, 0.0, 1.0, 3.0),)
    start: tuple = (0.2, 0.2, 0.5, 0.5)
    goal: tuple = (3.2, 0.2, 0.5, 0.5)
    river: tuple = ()
    key: tuple | None = None


@pytest.fixture
def world() -> figures.World:
    axis = np.linspace(0.1, 3.9, 20)
    x, y = np.meshgrid(axis, axis)
    value = np.where((x > 1.5) & (x < 2.5) & (y < 3), np.nan, x - 4)
    points = np.array([[0.5, 0.5], [0.5, 3.5], [3.5, 3.5]])
    targets = points + np.array([[0.0, 0.02], [0.01, 0.0], [0.0, 0.0]])
    rollouts = [np.linspace([0.4, 0.4], [3.4, 0.4], 31), np.linspace([0.5, 0.5], [0.5, 3.5], 11), np.zeros((1, 2))]
    return figures.World(Rooms(), axis, axis, value, points, targets, rollouts, [True, False, False])


def only(figure: Figure) -> Any:
    return figure.axes[0]


def found(axes: Axes, kind: type) -> list[Any]:
    return [artist for artist in axes.get_children() if isinstance(artist, kind)]


def words(axes: Axes) -> set[str]:
    return {text.get_text() for text in axes.texts}


def colour_bar_label(figure: Figure) -> str:
    return only(figure).child_axes[0].get_ylabel()


def columns(seeds: int, steps: list[int], **values: list[float]) -> Table:
    """Build columns in seed-major order."""
    return {
        "step": np.tile(steps, seeds),
        "seed": np.repeat(np.arange(seeds), len(steps)),
        **{name: np.array(column, float) for name, column in values.items()},
    }


def test_value_map_shows_the_values_and_leaves_walls_out(world: figures.World) -> None:
    figure = figures.value_map(world)
    (mesh,) = found(only(figure), QuadMesh)
    shown = mesh.get_array()
    known = np.isfinite(world.value)
    np.testing.assert_array_equal(shown[known], world.value[known])
    assert shown.mask.any()
    assert not shown.mask[known].any()
    assert mesh.get_clim() == pytest.approx((np.nanmin(world.value), np.nanmax(world.value)))
    assert mesh.get_cmap().name == "viridis"
    assert colour_bar_label(figure) == "value V(s)"
    assert only(figure).get_aspect() == 1


def test_only_the_rim_of_a_hole_is_filled() -> None:
    value = np.ones((7, 7))
    value[2:5, 2:5] = np.nan
    grown = figures._grown(value)
    assert np.isnan(grown[3, 3])
    assert np.isnan(grown).sum() == 1
    assert np.nanmax(grown) == np.nanmin(grown) == 1


@pytest.mark.parametrize("value", [np.full((20, 20), np.nan), np.full((20, 20), 3.0)])
def test_value_map_stands_degenerate_values(world: figures.World, value: np.ndarray) -> None:
    assert figures.to_svg(figures.value_map(replace(world, value=value))).startswith("<svg")


def test_maps_label_what_the_layout_has(world: figures.World) -> None:
    assert words(only(figures.value_map(world))) == {"start", "goal"}
    full = replace(world, layout=Rooms(river=((0, 3, 1, 1), (3, 3, 0.5, 0.5)), key=(3.0, 2.0, 0.2)))
    for draw in (figures.value_map, figures.guide_map, figures.rollout_map):
        assert words(only(draw(full))) == {"start", "goal", "river", "key"}


def test_walls_are_drawn_where_they_are(world: figures.World) -> None:
    patches = [
        patch for patch in only(figures.rollout_map(world)).patches if patch.get_facecolor() == to_rgba(figures.WALL)
    ]
    assert [(*patch.get_xy(), patch.get_width(), patch.get_height()) for patch in patches] == [(1.5, 0.0, 1.0, 3.0)]


def test_guide_map_has_one_unit_arrow_a_point(world: figures.World) -> None:
    (arrows,) = found(only(figures.guide_map(world)), Quiver)
    assert arrows.N == 3
    np.testing.assert_array_equal(arrows.get_offsets(), world.arrow_points)
    np.testing.assert_allclose(np.stack([arrows.U, arrows.V], axis=1), [[0, 1], [1, 0], [0, 0]], atol=1e-12)


def test_rollout_map_colours_each_segment_by_its_step(world: figures.World) -> None:
    figure = figures.rollout_map(world)
    (lines,) = found(only(figure), LineCollection)
    assert len(lines.get_segments()) == 30 + 10
    np.testing.assert_array_equal(lines.get_array(), [*range(30), *range(10)])
    assert lines.get_clim() == (0, 30)
    assert colour_bar_label(figure) == "step"


def test_rollout_map_tells_success_from_failure(world: figures.World) -> None:
    axes = only(figures.rollout_map(world))
    assert axes.get_title() == "1 of 3 reach the goal"
    dots = {dot.get_label(): np.asarray(dot.get_offsets()) for dot in found(axes, PathCollection)}
    np.testing.assert_allclose(dots["start"], [[0.4, 0.4], [0.5, 0.5], [0.0, 0.0]])
    np.testing.assert_allclose(dots["ends at goal"], [[3.4, 0.4]])
    np.testing.assert_allclose(dots["ends elsewhere"], [[0.5, 3.5], [0.0, 0.0]])
    shapes = [dot.get_paths()[0].vertices.shape for dot in found(axes, PathCollection)[1:]]
    assert shapes[0] != shapes[1], "the ends must differ in shape, not in colour alone"


def test_rollout_map_without_rollouts(world: figures.World) -> None:
    figure = figures.rollout_map(replace(world, rollouts=[], successes=[]))
    assert only(figure).get_title() == "No rollouts"
    assert figures.to_svg(figure)


def test_time_gets_darker() -> None:
    colours = figures.TIME_COLOURS(np.linspace(0, 1, 20))[:, :3]
    assert (np.diff(colours @ [0.2126, 0.7152, 0.0722]) < 0).all()


def test_curve_column_takes_the_best_that_has_a_value() -> None:
    nothing = [np.nan, np.nan]
    assert figures.curve_column({}) is None
    assert figures.curve_column(columns(1, [], success_rate=[], score=[])) is None
    given = {"success_rate": [0.1, np.nan], "score": [1.0, 2.0], "return": [3.0, 4.0]}
    assert figures.curve_column(columns(1, [1, 2], **given)) == "success_rate"
    assert figures.curve_column(columns(1, [1, 2], **given | {"success_rate": nothing})) == "score"
    assert figures.curve_column(columns(1, [1, 2], **given | {"success_rate": nothing, "score": nothing})) == "return"


def test_learning_curve_shows_mean_seeds_and_range_in_per_cent() -> None:
    rates = [0.0, 0.5, 1.0, 0.2, 0.7, np.nan]
    axes = only(figures.learning_curve(columns(2, [10, 20, 30], success_rate=rates)))
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
    axes = only(figures.learning_curve(columns(1, [500], score=[87.0])))
    (line,) = axes.lines
    assert line.get_marker() == "o"
    np.testing.assert_array_equal(line.get_xydata(), [[500, 87]])
    assert not axes.collections
    assert axes.get_ylabel() == "score (normalised points)"


def test_learning_curve_takes_the_column_asked_for() -> None:
    axes = only(
        figures.learning_curve(columns(1, [1, 2], success_rate=[0, 1], episode_length=[9, 8]), "episode_length")
    )
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [9, 8])
    assert axes.get_ylabel() == "episode length (steps)"


def test_nothing_to_draw_is_said() -> None:
    with pytest.raises(ValueError, match="no evaluation"):
        figures.learning_curve(columns(1, []))
    with pytest.raises(ValueError, match="no training metric"):
        figures.metric_curves(columns(1, [1, 2]))
    with pytest.raises(ValueError, match="no training metric"):
        figures.metric_curves({})


@pytest.fixture
def metrics() -> Table:
    nan = np.nan
    table = columns(2, [10, 20, 30, 40], v_loss=[4, 2, nan, nan, 2, np.inf, nan, nan], pi_loss=[nan, nan, 5, 6] * 2)
    return table | {"stage": np.array(["value", "value", "executor", "executor"] * 2)}


def test_metric_curves_has_a_panel_a_metric_with_the_mean_of_finite_values(metrics: Table) -> None:
    value, policy = figures.metric_curves(metrics).axes
    assert [value.get_title("left"), policy.get_title("left")] == ["v_loss", "pi_loss"]
    np.testing.assert_array_equal(value.lines[0].get_xydata(), [[10, 3], [20, 2]])
    np.testing.assert_array_equal(policy.lines[0].get_xydata(), [[30, 5], [40, 6]])
    assert len(value.collections) == 1, "the range of two seeds"
    assert value.get_xlim() == policy.get_xlim()
    assert value.get_yscale() == "linear"


def test_metric_curves_marks_stages_only_where_there_are_several(metrics: Table) -> None:
    panel = only(figures.metric_curves(metrics, ["v_loss"]))
    assert [line.get_xdata()[0] for line in panel.lines if (line.get_gid() or "").startswith("stage")] == [30]
    assert words(panel) == {"value", "executor"}
    single = only(figures.metric_curves(metrics | {"stage": np.array(["joint"] * 8)}, ["v_loss"]))
    assert not words(single)
    assert len(single.lines) == 1


def test_names_of_stages_that_start_together_do_not_collide(metrics: Table) -> None:
    stages = metrics | {"stage": np.array(["a", "b", "c", "c"] * 2), "step": np.array([1, 2, 39, 40] * 2)}
    texts = only(figures.metric_curves(stages, ["v_loss"])).texts
    heights = {text.get_text(): text.xyann[1] for text in texts}
    assert heights["a"] < heights["b"]
    assert heights["a"] == heights["c"]


def test_metric_without_a_finite_value_says_so(metrics: Table) -> None:
    panel = only(figures.metric_curves(metrics | {"odd": np.full(8, np.nan)}, ["odd"]))
    assert "no finite value" in words(panel)


def test_names_are_text_and_not_markup(metrics: Table) -> None:
    hostile = metrics | {"$\\frac$ <b>": metrics["v_loss"], "stage": np.array(["$x<", "$x<", "y$_", "y$_"] * 2)}
    svg = figures.to_svg(figures.metric_curves(hostile))
    assert "$\\frac$ &lt;b&gt;" in svg
    assert "<b>" not in svg


def test_svg_is_an_element_without_addresses_and_the_same_every_time(world: figures.World) -> None:
    first, second = (figures.to_svg(figures.rollout_map(world)) for _ in range(2))
    assert first == second
    assert first.startswith("<svg")
    assert first.endswith("</svg>")
    assert "<metadata" not in first
    assert "<!DOCTYPE" not in first
    assert first.count("http") == first.count('xmlns="http') + first.count('xmlns:xlink="http')


def test_dense_layers_do_not_swell_the_svg(world: figures.World) -> None:
    walks = list(np.random.default_rng(0).uniform(0, 4, (100, 300, 2)))
    svg = figures.to_svg(figures.rollout_map(replace(world, rollouts=walks, successes=[True] * 100)))
    assert "data:image/png;base64" in svg
    assert svg.count("<path") < 300


def test_png_has_the_size_of_the_figure(world: figures.World) -> None:
    picture = io.BytesIO(figures.to_png(figures.value_map(world)))
    assert imread(picture, format="png").shape[:2] == (4.0 * figures.DPI, 4.5 * figures.DPI)


@pytest.fixture
def every_figure(world: figures.World, metrics: Table) -> list[Figure]:
    # Wide numbers and a margin of wall, as in the real rooms, leave the least room for the labels.
    wide = replace(world, value=100 * world.value, layout=Rooms(extent=(-0.5, 18.5, -0.5, 18.5)))
    maps = [
        draw(shown) for draw in (figures.value_map, figures.guide_map, figures.rollout_map) for shown in (world, wide)
    ]
    return [
        *maps,
        figures.learning_curve(columns(2, [1, 2], score=[1, 2, 3, 4])),
        figures.metric_curves(metrics),
        figures.metric_curves(metrics, ["v_loss"]),
    ]


def test_no_text_is_smaller_than_eight_points(every_figure: list[Figure]) -> None:
    for figure in every_figure:
        sizes = [float(text.get_fontsize()) for text in figure.findobj(Text)]
        assert len(sizes) > 5
        assert min(sizes) >= 8


def test_nothing_is_cut_off(every_figure: list[Figure]) -> None:
    for figure in every_figure:
        figure.draw_without_rendering()
        drawn = figure.get_tightbbox()
        width, height = figure.get_size_inches()
        assert min(drawn.x0, drawn.y0, width - drawn.x1, height - drawn.y1) >= 0
