"""Continuous four rooms: one map and the rules of three tasks on it, as pure functions.

The map is 19 x 19 cells; cell (i, j) is the unit square centred at (i, j). All rules work on whole arrays of
positions, (..., 2), or observations, (n, 2 or 3). So the single environment, the vector environment and the
relabelling of recorded data cannot disagree.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import NoReturn

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike, NDArray

from waypost.envs.grid import Cell, slide, steps_to
from waypost.envs.layout import Layout, Rectangle
from waypost.errors import WaypostError
from waypost.types import Flags, Floats, Labels


class Variant(StrEnum):
    """The tasks on the map."""

    PLAIN = "four-rooms"
    """Reaching the goal pays 1 and ends the episode."""
    RIVER = "four-rooms-river"
    """Falling into a river also ends it, and costs 1."""
    KEY = "four-rooms-key"
    """With rivers, and the goal counts only once the key is held."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise WaypostError(f"there is no four-rooms task {value!r}; choose from {', '.join(cls)}")


SIZE = 19
SPEED = np.float32(0.1)
MAX_STEPS = 500
DOORS = ((9, 4), (9, 14), (4, 9), (14, 9))
START = np.array([2, 2], np.float32)
GOAL = np.array([16, 16], np.float32)
BOX = np.float32(1)
"""Half the side of the start and goal boxes."""
KEY = np.array([15, 3], np.float32)
KEY_REACH = 1.0

WALLS: Flags = np.zeros((SIZE, SIZE), bool)
WALLS[[0, 9, 18]] = WALLS[:, [0, 9, 18]] = True
for _door in DOORS:
    WALLS[_door] = False
WALLS.setflags(write=False)

RIVER: Flags = np.zeros((SIZE, SIZE), bool)
RIVER[5:9, 12] = RIVER[12, 5:9] = True
RIVER.setflags(write=False)


def cell_of(positions: Floats) -> NDArray[np.int64]:
    """The cell of each position; positions off the map count as the border, which is wall."""
    return np.clip(np.rint(positions), 0, SIZE - 1).astype(np.int64)


def is_wall(positions: Floats) -> Flags:
    """Whether each position lies in a wall."""
    cells = cell_of(positions)
    return WALLS[cells[..., 0], cells[..., 1]]


def in_river(positions: Floats) -> Flags:
    """Whether each position lies in a river."""
    cells = cell_of(positions)
    return RIVER[cells[..., 0], cells[..., 1]]


def in_box(positions: Floats, centre: Floats) -> Flags:
    """Whether each position lies in the start or goal box around a centre."""
    return np.asarray((np.abs(positions - centre) <= BOX).all(axis=-1))


def in_disc(positions: Floats, centre: Floats, radius: float) -> Flags:
    return np.asarray(((positions - centre) ** 2).sum(axis=-1) <= radius**2)


def in_goal(positions: Floats) -> Flags:
    """Whether each position lies in the goal box."""
    return in_box(positions, GOAL)


def takes_key(positions: Floats) -> Flags:
    """Whether the key can be picked up at each position."""
    return in_disc(positions, KEY, KEY_REACH)


def move(positions: Floats, actions: ArrayLike) -> Floats:
    """The positions after actions."""
    return slide(positions, actions, SPEED, is_wall)


def begin(variant: str, positions: Floats) -> Floats:
    """The first observations of episodes that start at these positions."""
    if variant != Variant.KEY:
        return np.array(positions, np.float32)
    return np.concatenate([positions, takes_key(positions)[:, None]], axis=1, dtype=np.float32)


def advance(variant: str, observations: Floats, actions: ArrayLike) -> Floats:
    """The next observations: the position moves, and a key once taken is kept."""
    moved = begin(variant, move(observations[:, :2], actions))
    moved[:, 2:] = np.maximum(moved[:, 2:], observations[:, 2:])
    return moved


def label(variant: str, next_observations: Floats) -> Labels:
    """Rewards and terminals of the transitions that led to these observations."""
    variant = Variant(variant)
    wins = in_goal(next_observations[:, :2])
    drowns = np.zeros_like(wins) if variant == Variant.PLAIN else in_river(next_observations[:, :2])
    if variant == Variant.KEY:
        wins &= next_observations[:, 2] > 0.5
    return Labels(wins.astype(np.float32) - drowns.astype(np.float32), wins | drowns)


def free_positions(rng: np.random.Generator, n: int) -> Floats:
    """Positions drawn uniformly from the floor."""
    cells = np.argwhere(~WALLS)[rng.integers(np.count_nonzero(~WALLS), size=n)]
    # Not quite half a cell: float32 would round the outermost offsets into the neighbouring wall.
    return (cells + rng.uniform(-0.4999, 0.4999, (n, 2))).astype(np.float32)


@cache
def distances(target: Cell) -> Floats:
    """Steps from every cell to the target through adjacent free cells; infinite for walls."""
    if WALLS[target]:
        raise WaypostError(f"cell {target} is wall: no path leads there")
    field = np.full(WALLS.shape, np.inf, np.float32)
    for cell, steps in steps_to(target, {(x, y) for x, y in np.argwhere(~WALLS).tolist()}).items():
        field[cell] = steps
    field.setflags(write=False)
    return field


def layout(variant: str) -> Layout:
    """The drawing of a task."""
    variant = Variant(variant)
    return Layout(
        extent=(-0.5, SIZE - 0.5, -0.5, SIZE - 0.5),
        walls=_rectangles(WALLS),
        start=_box(START),
        goal=_box(GOAL),
        river=[] if variant == Variant.PLAIN else _rectangles(RIVER),
        key=(float(KEY[0]), float(KEY[1]), KEY_REACH) if variant == Variant.KEY else None,
    )


def _box(centre: Floats) -> Rectangle:
    x, y = (centre - BOX).tolist()
    return x, y, 2 * float(BOX), 2 * float(BOX)


def _rectangles(cells: Flags) -> list[Rectangle]:
    """The marked cells as few rectangles: each grows up as far as possible, then to the right."""
    left = cells.copy()
    found: list[Rectangle] = []
    for x, y in np.argwhere(cells).tolist():
        if left[x, y]:
            width = height = 1
            while y + height < SIZE and left[x, y + height]:
                height += 1
            while x + width < SIZE and left[x + width, y : y + height].all():
                width += 1
            left[x : x + width, y : y + height] = False
            found.append((x - 0.5, y - 0.5, float(width), float(height)))
    return found


IDS = {variant: f"waypost/FourRooms{name}-v0" for variant, name in zip(Variant, ("", "River", "Key"), strict=True)}
for _variant, _id in IDS.items():
    if _id not in gym.registry:
        gym.register(
            _id,
            entry_point=f"{__name__}.environments:FourRooms",
            vector_entry_point=f"{__name__}.environments:FourRoomsVector",
            max_episode_steps=MAX_STEPS,
            kwargs={"variant": _variant.value},
        )
