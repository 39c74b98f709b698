"""Every figure: as text and as pixels, readable, and whole."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text

from waypost import figures
from waypost.figures import curves, maps
from waypost.figures.maps import World


def test_svg_is_an_element_without_addresses_and_the_same_every_time(world: World) -> None:
    first, second = (figures.to_svg(maps.rollout_map(world)) for _ in range(2))
    assert first == second
    assert first.startswith("<svg")
    assert first.endswith("</svg>")
    assert "<metadata" not in first
    assert "<!DOCTYPE" not in first
    assert first.count("http") == first.count('xmlns="http') + first.count('xmlns:xlink="http')


def test_png_has_the_size_of_the_figure(world: World) -> None:
    picture = io.BytesIO(figures.to_png(maps.value_map(world)))
    assert imread(picture, format="png").shape[:2] == (4.0 * figures.DPI, 4.5 * figures.DPI)


@pytest.fixture(scope="module")
def every_figure(world: World, metrics: dict[str, np.ndarray]) -> list[Figure]:
    # Wide numbers and a margin of wall, as in the real rooms, leave the least room for the labels.
    wide = replace(world, value=100 * world.value, layout=replace(world.layout, extent=(-0.5, 18.5, -0.5, 18.5)))
    drawn = [draw(shown) for draw in (maps.value_map, maps.guide_map, maps.rollout_map) for shown in (world, wide)]
    return [
        *drawn,
        curves.learning_curve({"step": [1, 2, 1, 2], "seed": [0, 0, 1, 1], "score": [1, 2, 3, 4]}),
        curves.metric_curves(metrics),
        curves.metric_curves(metrics, ["v_loss"]),
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
