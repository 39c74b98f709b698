"""Four rooms as an image: what `render` returns."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from waypost.envs import four_rooms as rooms
from waypost.types import Floats

PIXELS = 20
"""Pixels per cell."""


def draw(variant: str, observation: Floats) -> NDArray[np.uint8]:
    """The map with the agent at the observed position, as an RGB image."""
    variant, places = rooms.Variant(variant), _pixel_positions()
    picture = _background(variant).copy()
    if variant == rooms.Variant.KEY and not observation[2]:
        picture[rooms.in_disc(places, rooms.KEY, 0.4)] = (230, 180, 30)
    picture[rooms.in_disc(places, observation[:2], 0.3)] = (30, 30, 60)
    return picture


@cache
def _background(variant: str) -> NDArray[np.uint8]:
    places = _pixel_positions()
    picture = np.full((*places.shape[:2], 3), 255, np.uint8)
    picture[rooms.in_box(places, rooms.START)] = (190, 235, 190)
    picture[rooms.in_goal(places)] = (250, 185, 185)
    picture[rooms.is_wall(places)] = (70, 70, 70)
    if variant != rooms.Variant.PLAIN:
        picture[rooms.in_river(places)] = (80, 140, 225)
    picture.setflags(write=False)
    return picture


@cache
def _pixel_positions() -> Floats:
    """The position on the map of each pixel's centre, (height, width, 2), y upwards."""
    across = (np.arange(rooms.SIZE * PIXELS) + 0.5) / PIXELS - 0.5
    return np.stack(np.meshgrid(across, across[::-1]), axis=-1).astype(np.float32)
