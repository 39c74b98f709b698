"""The maps show what the arrays say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection, QuadMesh
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.quiver import Quiver

from waypost.figures import maps, to_svg
from waypost.figures.maps import World


def only(figure: Figure) -> Any:
    return figure.axes[0]


def found(axes: Axes, kind: type) -> list[Any]:
    return [artist for artist in axes.get_children() if isinstance(artist, kind)]


def words(axes: Axes) -> set[str]:
    return {text.get_text() for text in axes.texts}


def colour_bar_label(figure: Figure) -> str:
    return only(figure).child_axes[0].get_ylabel()


def test_value_map_shows_the_values_and_leaves_walls_out(world: World) -> None:
    figure = maps.value_map(world)
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
    grown = maps._grown(value)
    assert np.isnan(grown[3, 3])
    assert np.isnan(grown).sum() == 1
    assert np.nanmax(grown) == np.nanmin(grown) == 1


@pytest.mark.parametrize("value", [np.full((20, 20), np.nan), np.full((20, 20), 3.0)])
def test_value_map_stands_degenerate_values(world: World, value: np.ndarray) -> None:
    assert to_svg(maps.value_map(replace(world, value=value))).startswith("<svg")


def test_maps_label_what_the_layout_has(world: World) -> None:
    assert words(only(maps.value_map(world))) == {"start", "goal"}
    full = replace(world, layout=replace(world.layout, river=[(0, 3, 1, 1), (3, 3, 0.5, 0.5)], key=(3.0, 2.0, 0.2)))
    for draw in (maps.value_map, maps.guide_map, maps.rollout_map):
        assert words(only(draw(full))) == {"start", "goal", "river", "key"}


def test_walls_are_drawn_where_they_are(world: World) -> None:
    patches = [patch for patch in only(maps.rollout_map(world)).patches if patch.get_facecolor() == to_rgba(maps.WALL)]
    assert [(*patch.get_xy(), patch.get_width(), patch.get_height()) for patch in patches] == [(1.5, 0.0, 1.0, 3.0)]


def test_guide_map_has_one_unit_arrow_a_point(world: World) -> None:
    (arrows,) = found(only(maps.guide_map(world)), Quiver)
    assert arrows.N == 3
    np.testing.assert_array_equal(arrows.get_offsets(), world.arrow_points)
    np.testing.assert_allclose(np.stack([arrows.U, arrows.V], axis=1), [[0, 1], [1, 0], [0, 0]], atol=1e-12)


def test_rollout_map_colours_each_segment_by_its_step(world: World) -> None:
    figure = maps.rollout_map(world)
    (lines,) = found(only(figure), LineCollection)
    assert len(lines.get_segments()) == 30 + 10
    np.testing.assert_array_equal(lines.get_array(), [*range(30), *range(10)])
    assert lines.get_clim() == (0, 30)
    assert colour_bar_label(figure) == "step"


def test_rollout_map_tells_success_from_failure(world: World) -> None:
    axes = only(maps.rollout_map(world))
    assert axes.get_title() == "1 of 3 reach the goal"
    dots = {dot.get_label(): np.asarray(dot.get_offsets()) for dot in found(axes, PathCollection)}
    np.testing.assert_allclose(dots["start"], [[0.4, 0.4], [0.5, 0.5], [0.0, 0.0]])
    np.testing.assert_allclose(dots["ends at goal"], [[3.4, 0.4]])
    np.testing.assert_allclose(dots["ends elsewhere"], [[0.5, 3.5], [0.0, 0.0]])
    shapes = [dot.get_paths()[0].vertices.shape for dot in found(axes, PathCollection)[1:]]
    assert shapes[0] != shapes[1], "the ends must differ in shape, not in colour alone"


def test_rollout_map_without_rollouts(world: World) -> None:
    figure = maps.rollout_map(replace(world, rollouts=[], successes=[]))
    assert only(figure).get_title() == "No rollouts"
    assert to_svg(figure)


def test_time_gets_darker() -> None:
    colours = maps.TIME_COLOURS(np.linspace(0, 1, 20))[:, :3]
    assert (np.diff(colours @ [0.2126, 0.7152, 0.0722]) < 0).all()


def test_dense_layers_do_not_swell_the_svg(world: World) -> None:
    walks = list(np.random.default_rng(0).uniform(0, 4, (10, 300, 2)))
    svg = to_svg(maps.rollout_map(replace(world, rollouts=walks, successes=[True] * 10)))
    assert "data:image/png;base64" in svg
    assert svg.count("<path") < 300
