"""Four rooms: the map, the moves and the labels, on cases made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from waypost.envs import four_rooms as rooms
from waypost.envs.four_rooms import Variant
from waypost.envs.layout import Rectangle
from waypost.errors import WaypostError
from waypost.types import Floats


def at(*positions: tuple[float, ...]) -> Floats:
    return np.array(positions, np.float32)


# -- the map and the moves ---------------------------------------------------------------------------


def test_map_has_four_rooms_and_four_doors() -> None:
    assert np.count_nonzero(~rooms.WALLS) == 4 * 8 * 8 + 4
    assert (rooms.WALLS == rooms.WALLS.T).all()
    assert not rooms.is_wall(at(*rooms.DOORS)).any()
    assert rooms.is_wall(at((0, 5), (18, 5), (5, 0), (5, 18), (9, 5), (5, 9), (9, 9), (-3, 5), (40, 40))).all()


@pytest.mark.parametrize(
    ("start", "action", "end"),
    [
        ((8.45, 6.0), (0.1, 0.0), (8.45, 6.0)),  # a wall stops
        ((8.45, 6.0), (0.1, 0.05), (8.45, 6.05)),  # and is slid along
        ((0.55, 0.55), (-0.1, -0.1), (0.55, 0.55)),  # a corner stops both axes
        ((8.45, 4.0), (0.1, 0.0), (8.55, 4.0)),  # a door lets through
        ((8.55, 4.45), (0.0, 0.1), (8.55, 4.45)),  # but its posts are wall
        ((5.0, 5.0), (3.0, -3.0), (5.1, 4.9)),  # actions are clipped
        ((8.45, 4.55), (0.1, -0.1), (8.45, 4.45)),  # x is tried first: the wall is still there
        ((4.45, 8.45), (0.1, 0.1), (4.55, 8.45)),  # x is tried first: the door has been left
    ],
)
def test_moves(start: tuple[float, float], action: tuple[float, float], end: tuple[float, float]) -> None:
    moved = rooms.move(at(start), at(action))
    assert moved.dtype == np.float32
    np.testing.assert_allclose(moved, at(end), atol=1e-6)


def test_nothing_enters_a_wall() -> None:
    rng = np.random.default_rng(0)
    positions = rooms.free_positions(rng, 2000)
    for _ in range(200):
        positions = rooms.move(positions, rng.uniform(-0.2, 0.2, positions.shape))
        assert not rooms.is_wall(positions).any()


def test_free_positions_cover_the_floor_and_only_it() -> None:
    positions = rooms.free_positions(np.random.default_rng(1), 200_000)
    assert positions.dtype == np.float32
    assert not rooms.is_wall(positions).any()
    cells = rooms.cell_of(positions)
    counts = np.zeros_like(rooms.WALLS, int)
    np.add.at(counts, (cells[:, 0], cells[:, 1]), 1)
    assert counts[~rooms.WALLS].min() > 0.75 * counts[~rooms.WALLS].mean()
    assert ((positions - cells).max(axis=0) > 0.49).all()
    assert ((positions - cells).min(axis=0) < -0.49).all()


def test_distances_go_through_the_doors() -> None:
    field = rooms.distances((8, 8))
    assert field[8, 8] == 0
    assert field[10, 8] == 10
    assert field[8, 10] == 10
    assert np.isinf(field[rooms.WALLS]).all()
    assert np.isfinite(field[~rooms.WALLS]).all()
    with pytest.raises(WaypostError, match="wall"):
        rooms.distances((9, 9))


# -- the rivers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("doors", [((4, 9), (9, 14)), ((9, 4), (14, 9))])
def test_rivers_cut_every_straight_line_between_doors(doors: tuple[tuple[int, int], tuple[int, int]]) -> None:
    spread = np.linspace(-0.49, 0.49, 9)
    along = np.linspace(0, 1, 400)[:, None]
    for a in spread:
        for b in spread:
            # A door's width lies along its wall: in x for a wall on y = 9, in y for one on x = 9.
            ends = [
                np.array(d) + (np.array([s, 0]) if d[1] == 9 else [0, s]) for d, s in zip(doors, (a, b), strict=True)
            ]
            line = ends[0] + along * (ends[1] - ends[0])
            assert rooms.in_river(line.astype(np.float32)).any()


@pytest.mark.parametrize("closed", [(9, 4), (4, 9)])
def test_rivers_can_be_bypassed_on_both_routes(closed: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    walls = rooms.WALLS | rooms.RIVER
    walls[closed] = True
    monkeypatch.setattr(rooms, "WALLS", walls)
    assert np.isfinite(rooms.distances.__wrapped__((16, 16))[2, 2])


def test_rivers_mirror_each_other_and_leave_the_key_reachable() -> None:
    assert (rooms.RIVER == rooms.RIVER.T).all()
    assert np.count_nonzero(rooms.RIVER) == 8
    assert not (rooms.RIVER & rooms.WALLS).any()
    assert not rooms.RIVER[14:17, 2:5].any()


# -- the tasks ---------------------------------------------------------------------------------------

GOAL, RIVER, FLOOR = (15.5, 15.5), (6, 12), (5, 5)


@pytest.mark.parametrize(
    ("variant", "observations", "rewards", "terminals"),
    [
        (Variant.PLAIN, [GOAL, RIVER, FLOOR], [1, 0, 0], [True, False, False]),
        (Variant.RIVER, [GOAL, RIVER, (12, 8), FLOOR], [1, -1, -1, 0], [True, True, True, False]),
        (
            Variant.KEY,
            [(*GOAL, 0), (*GOAL, 1), (*RIVER, 0), (*RIVER, 1), (*FLOOR, 1)],
            [0, 1, -1, -1, 0],
            [False, True, True, True, False],
        ),
    ],
)
def test_labels(variant: str, observations: list[Any], rewards: list[float], terminals: list[bool]) -> None:
    outcome = rooms.label(variant, at(*observations))
    assert outcome.rewards.dtype == np.float32
    assert outcome.rewards.tolist() == rewards
    assert outcome.terminals.tolist() == terminals


def test_goal_box_and_key_reach() -> None:
    assert rooms.in_goal(at((15, 15), (17, 17), (14.99, 16), (16, 17.01))).tolist() == [True, True, False, False]
    assert rooms.takes_key(at((15, 4), (15.7, 3.7), (15.8, 3.8), (15, 4.01))).tolist() == [True, True, False, False]


@pytest.mark.parametrize("variant", Variant)
def test_layout_is_the_map(variant: Variant) -> None:
    plan = rooms.layout(variant)
    grid = np.stack(np.meshgrid(np.arange(19), np.arange(19), indexing="ij"), -1).astype(np.float32)

    def inside(rectangles: list[Rectangle]) -> np.ndarray:
        hits = [((grid >= (x, y)) & (grid < (x + w, y + h))).all(-1) for x, y, w, h in rectangles]
        assert np.sum(hits, axis=0).max(initial=0) <= 1, "no overlaps"
        return np.any(hits, axis=0) if hits else np.zeros(grid.shape[:2], bool)

    assert plan.extent == (-0.5, 18.5, -0.5, 18.5)
    assert (inside(plan.walls) == rooms.WALLS).all()
    assert len(plan.walls) < 20
    assert (inside(plan.river) == (rooms.RIVER if variant != Variant.PLAIN else False)).all()
    assert (plan.start, plan.goal) == ((1, 1, 2, 2), (15, 15, 2, 2))
    assert plan.key == ((15, 3, 1) if variant == Variant.KEY else None)
