"""Four rooms as an image."""

from __future__ import annotations

import gymnasium as gym
import numpy as np

from waypost.envs import four_rooms as rooms
from waypost.envs.four_rooms import IDS, Variant
from waypost.envs.four_rooms.environments import FourRooms, FourRoomsVector
from waypost.envs.four_rooms.picture import PIXELS, draw
from waypost.types import Floats


def at(*positions: tuple[float, ...]) -> Floats:
    return np.array(positions, np.float32)


def pixel(picture: np.ndarray, x: float, y: float) -> tuple[int, ...]:
    row = round((rooms.SIZE - 0.5 - y) * PIXELS)
    return tuple(picture[row, round((x + 0.5) * PIXELS)].tolist())


def test_picture_shows_what_is_where() -> None:
    env = FourRooms(Variant.KEY, render_mode="rgb_array")
    env.reset(seed=0, options={"position": (6, 6)})
    picture = env.render()
    assert picture is not None
    assert picture.shape == (380, 380, 3)
    assert picture.dtype == np.uint8
    places = {"floor": (3, 6), "wall": (9, 6), "start": (2, 2), "goal": (16, 16), "river": (6, 12), "key": (15, 3)}
    colours = {name: pixel(picture, *place) for name, place in places.items()}
    assert colours["floor"] == (255, 255, 255)
    assert len({*colours.values(), pixel(picture, 6, 6)}) == len(places) + 1
    assert pixel(picture, 2, 16) == colours["floor"], "the start is at the bottom left, so y points up"


def test_agent_moves_in_the_picture_and_a_held_key_disappears() -> None:
    before, after = draw(Variant.KEY, at((6, 6, 0))[0]), draw(Variant.KEY, at((7, 6, 1))[0])
    assert pixel(before, 6, 6) == pixel(after, 7, 6)
    assert pixel(before, 7, 6) == pixel(after, 6, 6) == (255, 255, 255)
    assert pixel(before, 15, 3) != pixel(after, 15, 3) == (255, 255, 255)


def test_rendering_only_when_asked() -> None:
    assert FourRooms().render() is None
    assert FourRoomsVector(2).render() is None
    frames = gym.make_vec(IDS[Variant.PLAIN], num_envs=2, render_mode="rgb_array").render()
    assert frames is not None
    assert [np.shape(frame) for frame in frames] == [(380, 380, 3)] * 2
