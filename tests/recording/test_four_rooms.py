"""The four-rooms data: true transitions, good coverage, and the right labels for each task."""

from __future__ import annotations

import numpy as np
import pytest

from waypost.data.dataset import Dataset
from waypost.envs import four_rooms as rooms
from waypost.envs.four_rooms import Variant
from waypost.errors import WaypostError
from waypost.recording import four_rooms as recorded

ROWS = 100_000


@pytest.fixture(scope="module")
def data() -> Dataset:
    return recorded.collect(ROWS, seed=0)


def path(*positions: tuple[float, float], ends: tuple[int, ...] = ()) -> Dataset:
    """A data set that visits the positions; `ends` are the rows where episodes stop."""
    states = np.array(positions, np.float32)
    timeouts = np.isin(np.arange(len(states) - 1), ends)
    return Dataset.from_arrays(states[:-1], states[1:], np.zeros((len(states) - 1, 2)), timeouts=timeouts)


# -- collecting --------------------------------------------------------------------------------------


def test_shape_of_the_data(data: Dataset) -> None:
    assert len(data) == ROWS
    assert data.observation_names == ("x", "y")
    assert data.name == "four-rooms"
    assert data.rewards is None
    assert not data.terminals.any()
    assert data.next_valid.all()
    assert data.action_low is not None
    assert data.action_high is not None
    assert data.action_low.tolist() == [-rooms.SPEED] * 2
    assert data.action_high.tolist() == [rooms.SPEED] * 2


def test_every_row_is_a_true_transition(data: Dataset) -> None:
    actions = data.require("actions")
    assert np.abs(actions).max() <= rooms.SPEED
    assert rooms.move(data.observations, actions).tobytes() == data.next_observations.tobytes()
    inside = ~data.ends[:-1]
    assert (data.observations[1:][inside] == data.next_observations[:-1][inside]).all()
    jumps = np.abs(data.observations[1:] - data.next_observations[:-1])[~inside].max(axis=1)
    assert (jumps > 0).all(), "a new episode starts elsewhere"


def test_nothing_is_ever_in_a_wall(data: Dataset) -> None:
    assert not rooms.is_wall(data.observations).any()
    assert not rooms.is_wall(data.next_observations).any()


def test_every_free_cell_is_visited_off_its_centre_too(data: Dataset) -> None:
    quarters = np.zeros((38, 38), int)
    x, y = np.floor((data.observations + 0.5) * 2).astype(int).T
    np.add.at(quarters, (x, y), 1)
    cells = quarters.reshape(19, 2, 19, 2).sum(axis=(1, 3))
    assert (cells[~rooms.WALLS] > 0).all()
    floor = ~np.kron(rooms.WALLS, np.ones((2, 2), bool))
    assert (quarters[floor] > 0).mean() > 0.98


def test_controller_reaches_its_targets() -> None:
    episodes = recorded.controller_episodes(np.random.default_rng(3), 500)
    assert episodes.reached.mean() >= 0.98
    assert 80 < episodes.lengths.mean() < 180
    assert ((episodes.lengths < rooms.MAX_STEPS) <= episodes.reached).all()


def test_controller_leaves_the_centre_lines() -> None:
    episodes = recorded.controller_episodes(np.random.default_rng(6), 300)
    visited = np.concatenate([p[:n] for p, n in zip(episodes.positions, episodes.lengths, strict=True)])
    offsets = np.abs(visited - rooms.cell_of(visited))
    # Spread evenly, 64 % of the places are further than 0.1 from both centre lines of their cell.
    assert (offsets.min(axis=1) > 0.1).mean() > 0.45


def test_controller_does_not_run_into_walls() -> None:
    episodes = recorded.controller_episodes(np.random.default_rng(7), 300)
    inside = np.arange(rooms.MAX_STEPS) < episodes.lengths[:, None]
    blocked = np.abs(np.diff(episodes.positions, axis=1) - episodes.actions).max(axis=2) > 1e-4
    # Only the noise may; a controller that cuts the corners of doors is stopped in 3 % of its steps.
    assert blocked[inside].mean() < 0.005


def test_controller_stops_at_the_target_and_not_before() -> None:
    rng = np.random.default_rng(4)
    targets = np.random.default_rng(4)
    rooms.free_positions(targets, 50)
    goals = rooms.free_positions(targets, 50)
    episodes = recorded.controller_episodes(rng, 50)
    for positions, length, goal in zip(episodes.positions, episodes.lengths, goals, strict=True):
        gaps = np.linalg.norm(positions[1 : length + 1] - goal, axis=1)
        assert gaps[-1] <= recorded.REACHED
        assert (gaps[:-1] > recorded.REACHED).all()


def test_controller_leaves_every_cell_for_every_other(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = np.argwhere(~rooms.WALLS).astype(np.float32)
    corners = np.concatenate([cells + np.float32(0.49) * np.array(s) for s in ((-1, -1), (-1, 1), (1, -1), (1, 1))])
    rng = np.random.default_rng(5)
    draws = iter([corners.astype(np.float32), rng.permutation(corners).astype(np.float32)])
    monkeypatch.setattr(rooms, "free_positions", lambda *_: next(draws))
    assert recorded.controller_episodes(rng, len(corners)).reached.mean() >= 0.98


@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_share_of_the_random_policy(share: float) -> None:
    data = recorded.collect(20_000, seed=1, random_share=share)
    assert len(data) == 20_000
    # The controller's actions are mostly at the bound, the random policy's hardly ever.
    free = (np.abs(data.require("actions")) < rooms.SPEED).all(axis=1)
    first_random = len(data) - round(share * len(data))
    assert free[first_random + rooms.MAX_STEPS :].all()
    if share < 1:
        assert 0.1 < free[:first_random].mean() < 0.6
    else:
        assert (data.episode_lengths == recorded.RANDOM_STEPS).all()


def test_only_the_last_episode_is_cut(data: Dataset) -> None:
    lengths = data.episode_lengths
    controller = np.searchsorted(np.cumsum(lengths), ROWS * 0.8) + 1
    assert (lengths[controller:-1] == recorded.RANDOM_STEPS).all()
    assert 0 < lengths[-1] <= recorded.RANDOM_STEPS
    assert 0.19 * ROWS < lengths[controller:].sum() <= 0.2 * ROWS
    assert data.ends[-1]
    assert data.timeouts[-1]


def test_same_seed_same_bytes(data: Dataset) -> None:
    assert recorded.collect(ROWS, seed=0).fingerprint() == data.fingerprint()
    assert recorded.collect(ROWS, seed=1).fingerprint() != data.fingerprint()


def test_progress_ends_at_the_total() -> None:
    calls: list[tuple[int, int]] = []
    recorded.collect(50_000, progress=lambda done, total: calls.append((done, total)))
    assert calls == sorted(calls)
    assert len(calls) > 1
    assert calls[-1] == (50_000, 50_000)


@pytest.mark.parametrize("rows", [1, 7, 1234])
def test_any_number_of_rows(rows: int) -> None:
    assert len(recorded.collect(rows)) == rows


def test_mistakes_are_named() -> None:
    with pytest.raises(WaypostError, match="transitions must be at least 1, got 0"):
        recorded.collect(0)
    with pytest.raises(WaypostError, match=r"random_share must be in \[0, 1\], got 1.5"):
        recorded.collect(10, random_share=1.5)
    with pytest.raises(WaypostError, match="four-rooms-key"):
        recorded.record("three-rooms")
    with pytest.raises(WaypostError, match="3 columns"):
        recorded.label(recorded.record(Variant.KEY, 10), Variant.PLAIN)


# -- labelling ---------------------------------------------------------------------------------------

TRIP = path((6, 11.4), (6, 11.6), (6, 13), (14.9, 16), (15.1, 16), (14.9, 16), (3, 3), (3, 3.1), ends=(5,))


@pytest.mark.parametrize(
    ("variant", "rewards", "ends"),
    [
        (Variant.PLAIN, [0, 0, 0, 1, 0, 0], [3, 4, 5]),
        (Variant.RIVER, [-1, 0, 1, 0, 0], [0, 2, 3, 4]),
    ],
)
def test_labels_of_a_hand_made_trip(variant: Variant, rewards: list[float], ends: list[int]) -> None:
    labelled = recorded.label(TRIP, variant)
    assert labelled.require("rewards").tolist() == rewards
    assert (labelled.terminals == (labelled.require("rewards") != 0)).all()
    assert np.flatnonzero(labelled.ends).tolist() == ends
    # Row 4 begins in the goal, row 1 in the river: nobody gets to move on from there.
    going_on = [0, 1, 2, 3, 5, 6] if variant == Variant.PLAIN else [0, 2, 3, 5, 6]
    assert (labelled.observations == TRIP.observations[going_on]).all()
    assert (labelled.next_observations == TRIP.next_observations[going_on]).all()
    assert (labelled.name, labelled.task) == (variant.value, variant.value)


def test_key_column_of_hand_made_trips() -> None:
    # First episode: past the key, into the goal, out and in again. Second: away from the key. Third: begins at it.
    trips = path(
        (15, 5), (15, 4.5), (15, 3.5), (15, 5), (15.5, 15.5), (14, 14), (15.5, 15.5),
        (3, 3), (15.5, 15.5), (3, 3.1),
        (15, 3), (15, 5), (6, 12), (6, 13),
        ends=(6, 9),
    )  # fmt: skip
    # Row 6 leaves the goal for (3, 3), row 9 goes from (3, 3.1) to (15, 3): made up, but only the flags matter.
    labelled = recorded.label(trips, Variant.KEY)
    # Left out: the last row, which begins in the river, and rows 4 and 6, which begin in the goal with the key. Row 8
    # begins there without it, and is left out only where the key was held from the start.
    first, second = [0, 1, 2, 3, 5, 7, 8, 9, 10, 11], [0, 1, 2, 3, 5, 7, 9, 10, 11]
    rows = len(first)
    assert labelled.observation_names == ("x", "y", "key")
    assert (labelled.observations[:, :2] == trips.observations[first + second]).all()
    assert (labelled.next_observations[:, :2] == trips.next_observations[first + second]).all()
    assert labelled.observations[:rows, 2].tolist() == [0, 0, 1, 1, 1, 0, 0, 0, 1, 1]
    assert labelled.next_observations[:rows, 2].tolist() == [0, 1, 1, 1, 1, 0, 0, 1, 1, 1]
    assert (labelled.observations[rows:, 2] == 1).all()
    assert (labelled.next_observations[rows:, 2] == 1).all()
    rewards = labelled.require("rewards")
    assert rewards[:rows].tolist() == [0, 0, 0, 1, 1, 0, 0, 0, 0, -1]
    assert rewards[rows:].tolist() == [0, 0, 0, 1, 1, 1, 0, 0, -1]
    assert (labelled.terminals == (rewards != 0)).all()
    assert np.flatnonzero(labelled.ends[:rows]).tolist() == [3, 4, 7, 9]
    assert np.flatnonzero(labelled.ends[rows:]).tolist() == [3, 4, 5, 6, 8]


def test_key_data_agree_with_the_environment(data: Dataset) -> None:
    labelled = recorded.label(data, Variant.KEY)
    dry, inside = ~rooms.in_river(data.observations), rooms.in_goal(data.observations)
    rows = len(labelled) - np.count_nonzero(dry & ~inside)
    # Every row outside goal and river is there twice; inside the goal only those without the key, to whom it is a
    # place like any other.
    halves = labelled.observations[:rows], labelled.observations[rows:]
    for half in halves:
        assert (half[~rooms.in_goal(half[:, :2]), :2] == data.observations[dry & ~inside]).all()
    assert 0 < rooms.in_goal(halves[0][:, :2]).sum() <= np.count_nonzero(inside)
    assert (halves[0][rooms.in_goal(halves[0][:, :2]), 2] == 0).all()
    assert not rooms.in_goal(halves[1][:, :2]).any()
    assert labelled.next_valid.all()
    moved = rooms.advance(Variant.KEY, labelled.observations, labelled.require("actions"))
    assert moved.tobytes() == labelled.next_observations.tobytes()
    outcome = rooms.label(Variant.KEY, labelled.next_observations)
    assert (outcome.rewards == labelled.require("rewards")).all()
    assert set(np.unique(outcome.rewards)) == {-1, 0, 1}
    picked = (labelled.observations[:, 2] == 0) & (labelled.next_observations[:, 2] == 1)
    assert picked[:rows].sum() > 20
    assert not picked[rows:].any()


def test_key_task_keeps_action_free_data_and_unknown_ends() -> None:
    states = np.array([(15, 5), (15, 3.5), (15, 5)], np.float32)
    labelled = recorded.label(Dataset.from_arrays(states), Variant.KEY)
    assert labelled.actions is None
    assert labelled.next_valid.tolist() == [True, True, False] * 2
    assert labelled.observations[:3, 2].tolist() == [0, 1, 1]


def test_every_task_has_rewards_to_learn_from(data: Dataset) -> None:
    for variant in Variant:
        labelled = recorded.label(data, variant)
        assert (labelled.require("rewards") > 0).sum() > 40
        assert ((labelled.require("rewards") < 0).sum() > 100) == (variant != Variant.PLAIN)


def test_one_call_collects_and_labels() -> None:
    made = recorded.record(Variant.RIVER, 3000, seed=2)
    assert made.fingerprint() == recorded.label(recorded.collect(3000, 2), "four-rooms-river").fingerprint()
