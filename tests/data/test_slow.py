"""The slow directions of systems whose slow part is known."""

from __future__ import annotations

import numpy as np
import pytest

from waypost.data import prepare
from waypost.data.dataset import Dataset
from waypost.data.slow import look_ahead, slow_directions, tell_rewards, waypoint_statistics
from waypost.errors import WaypostError

HORIZON = 10
ROWS, EPISODE = 3000, 200


def drifting(noise: int = 3, constant: bool = False) -> np.ndarray:
    """x and y, which keep their velocity for 20 steps; something that swings; noise; a column that never changes."""
    rng = np.random.default_rng(0)
    velocity = np.repeat(rng.normal(size=(ROWS // 20, 2)), 20, axis=0)
    place = np.cumsum(velocity, axis=0)
    swinging = np.column_stack([np.sin(0.9 * np.arange(ROWS)), np.cos(2.0 * np.arange(ROWS))])
    columns = [place, swinging, rng.normal(size=(ROWS, noise))]
    return np.column_stack([*columns, np.full(ROWS, 7.0)] if constant else columns)


def arrays_of(states: np.ndarray, horizon: int = HORIZON) -> tuple[prepare.Arrays, prepare.Arrays]:
    """What the directions are found in, and the scaling of the observations."""
    ends = np.arange(1, len(states) + 1) % EPISODE == 0
    following = np.roll(states, -1, axis=0)
    nothing = np.zeros(len(states))
    data = Dataset.from_arrays(states, following, nothing, nothing, timeouts=ends, next_valid=~ends)
    return prepare.waypoints(data, horizon, horizon, 0.99), prepare.observation_scaling(data, True)


def found(states: np.ndarray, drift: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """The directions that read the states as they are, and how far each drifts."""
    arrays, scaling = arrays_of(states)
    directions, drifts = slow_directions(arrays, scaling["observation_std"], HORIZON, drift)
    return directions / scaling["observation_std"][:, None], drifts


def explained(states: np.ndarray, directions: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The share of each place's variance that the coordinates tell, by least squares."""
    coordinates = np.column_stack([states @ directions, np.ones(len(states))])
    left = places - coordinates @ np.linalg.lstsq(coordinates, places, rcond=None)[0]
    return 1 - left.var(axis=0) / places.var(axis=0)


@pytest.mark.parametrize(("noise", "constant"), [(3, False), (50, False), (3, True)])
def test_places_are_found_however_the_columns_are_mixed(noise: int, constant: bool) -> None:
    states = drifting(noise, constant)
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(states.shape[1],) * 2))[0]
    for seen in (states, states @ rotation):
        directions, drifts = found(seen)
        assert directions.shape == (states.shape[1], 2)
        assert (drifts > HORIZON**0.5).all()
        assert drifts[0] >= drifts[1]
        assert (explained(seen, directions, states[:, :2]) > 0.99).all()


def test_the_columns_units_do_not_matter() -> None:
    states = drifting()
    directions, drifts = found(states)
    units = 10.0 ** np.array([3, -2, 0, 4, -3, 1, 2])
    others, again = found(states * units)
    assert np.allclose(drifts, again, rtol=1e-2)
    ours, theirs = states @ directions, (states * units) @ others
    assert (np.abs(np.diag(np.corrcoef(ours.T, theirs.T)[:2, 2:])) > 0.999).all()


def test_how_steadily_a_direction_must_move_is_a_setting() -> None:
    assert found(drifting(), 0.0)[0].shape[1] == 2
    assert found(drifting(), 1.0)[0].shape[1] == 0


@pytest.mark.parametrize("kind", ["white noise", "swinging", "random walk"])
def test_where_nothing_drifts_none_is_found_and_the_way_is_that_in_all_columns(kind: str) -> None:
    rng, time = np.random.default_rng(2), np.arange(ROWS)
    states = {
        "white noise": rng.normal(size=(ROWS, 4)),
        "swinging": np.column_stack([np.sin(0.7 * time + phase) for phase in range(2)]),
        "random walk": np.cumsum(rng.normal(size=(ROWS, 2)), axis=0),
    }[kind]
    assert found(states)[0].shape == (states.shape[1], 0)
    arrays, scaling = arrays_of(states)
    statistics = waypoint_statistics(arrays, scaling, "slow", (), HORIZON, 0.5)
    whole = waypoint_statistics(arrays, scaling, "displacement", (), HORIZON, 0.5)
    assert statistics.keys() == whole.keys() == {"waypoint_mean", "waypoint_std"}
    assert all(np.array_equal(statistics[name], whole[name]) for name in whole)
    rows = np.flatnonzero(arrays["aimed"])
    ways = arrays["next_observations"][rows + arrays["ahead"][rows]] - arrays["observations"][rows]
    assert np.allclose(whole["waypoint_mean"], ways.mean(axis=0), atol=1e-4)
    assert np.allclose(whole["waypoint_std"], ways.std(axis=0), rtol=1e-3)


def test_too_few_rows_and_a_horizon_of_one_find_none() -> None:
    few, scaling = arrays_of(drifting()[:20])
    assert slow_directions(few, scaling["observation_std"], HORIZON, 0.0)[0].shape == (7, 0)
    near, scaling = arrays_of(drifting(), 1)
    assert slow_directions(near, scaling["observation_std"], 1, 0.0)[0].shape == (7, 0)


@pytest.mark.parametrize("columns", [(), (1, 4)])
def test_the_inverse_leads_back_and_coordinates_have_one_size(columns: tuple[int, ...]) -> None:
    states = drifting()
    arrays, scaling = arrays_of(states)
    statistics = waypoint_statistics(arrays, scaling, "slow", columns, HORIZON, 0.5)
    directions = statistics["waypoint_directions"].reshape(7, 2)
    lift = statistics["waypoint_lift"].reshape(2, 7)
    assert np.allclose(lift @ directions, np.eye(2), atol=1e-6)
    places = states / scaling["observation_std"] @ directions
    assert np.allclose(places.std(axis=0), 1, rtol=1e-3)
    rows = np.flatnonzero(arrays["aimed"])
    ways = places[np.minimum(rows + arrays["ahead"][rows] + 1, ROWS - 1)] - places[rows]
    assert np.allclose(statistics["waypoint_mean"], ways.mean(axis=0), atol=1e-3)
    assert np.allclose(statistics["waypoint_std"], ways.std(axis=0), rtol=1e-2)
    if columns:
        assert (np.flatnonzero(np.abs(directions).sum(axis=1)) == columns).all()


def test_a_named_column_that_never_changes_has_a_direction_of_ordinary_size() -> None:
    arrays, scaling = arrays_of(drifting(constant=True))
    statistics = waypoint_statistics(arrays, scaling, "slow", (0, 7), HORIZON, 0.5)
    assert np.abs(statistics["waypoint_directions"]).max() < 100
    assert all(np.isfinite(values).all() for values in statistics.values())


def test_a_state_is_scaled_as_observations_are() -> None:
    arrays, scaling = arrays_of(drifting())
    statistics = waypoint_statistics(arrays, scaling, "state", (), HORIZON, 0.5)
    assert all(a is b for a, b in zip(statistics.values(), scaling.values(), strict=True))


def test_data_without_any_real_next_state_are_refused() -> None:
    arrays, scaling = arrays_of(drifting())
    with pytest.raises(WaypostError, match="no transition has a real next state; nothing to learn from"):
        waypoint_statistics(arrays | {"aimed": np.zeros(ROWS)}, scaling, "slow", (), HORIZON, 0.5)


# -- what the data say about waypoints -----------------------------------------------------------------------


def rewarded(states: np.ndarray, rewards: np.ndarray) -> Dataset:
    ends = np.arange(1, len(states) + 1) % EPISODE == 0
    following = np.roll(states, -1, axis=0)
    return Dataset.from_arrays(states, following, rewards, rewards, timeouts=ends, next_valid=~ends)


@pytest.mark.parametrize(
    ("reward", "told"), [("place", True), ("swing", False), ("both", False), ("noise", None), ("nothing", None)]
)
def test_slow_directions_are_used_unless_rewards_depend_on_the_rest(reward: str, told: bool | None) -> None:
    """V reads only the coordinates: a reward that the rest of the state decides would be noise to it."""
    states = drifting()
    place, swing = np.sin(states[:, 0] / states[:, 0].std()), states[:, 2] ** 2
    rewards = {
        "place": place,
        "swing": swing,
        "both": place / place.std() + swing / swing.std(),
        "noise": np.random.default_rng(3).normal(size=ROWS),  # follows from nothing
        "nothing": np.zeros(ROWS),
    }[reward]
    data = rewarded(states, rewards)
    std = prepare.observation_scaling(data, True)["observation_std"]
    directions = np.eye(states.shape[1])[:, :2]
    assert tell_rewards(data, std, directions) is told
    assert tell_rewards(data.without_rewards(), std, directions) is None
    # Two of seven directions are not few, so the waypoint is near.
    assert look_ahead(data, std, 0.5) == (5, told is not False)


def test_slow_directions_need_a_steady_drift_or_rewards_that_follow_from_them() -> None:
    """A level that returns to its mean within some 20 steps drifts over 5 steps, but not over 25."""
    rng, level = np.random.default_rng(4), np.zeros(ROWS)
    push = np.repeat(rng.normal(size=ROWS // 10), 10)
    for row in range(1, ROWS):
        level[row] = 0.85 * level[row - 1] + push[row]
    states = np.column_stack([level, rng.normal(size=(ROWS, 2))])
    for rewards, expected in ((-np.abs(level), (5, True)), (rng.normal(size=ROWS), (5, False))):
        data = rewarded(states, rewards)
        assert look_ahead(data, prepare.observation_scaling(data, True)["observation_std"], 0.5) == expected


def test_few_slow_directions_are_followed_far_ahead_if_rewards_depend_on_them() -> None:
    states = drifting(noise=50)
    for reward, expected in ((states[:, 0], (25, True)), (states[:, 2], (5, False))):
        data = rewarded(states, reward)
        std = prepare.observation_scaling(data, True)["observation_std"]
        assert look_ahead(data, std, 0.5) == expected
    assert look_ahead(data, std, 0.5, named=2) == (25, True)
    assert look_ahead(data, std, 0.5, named=20) == (5, True)


@pytest.mark.parametrize("rows", [1_000, 10_000])
def test_a_drift_is_found_however_finely_it_is_sampled(rows: int) -> None:
    """One step of it is then far less than a standard deviation."""
    time = np.arange(rows)
    states = np.column_stack([time / rows, np.sin(0.9 * time), np.cos(2.0 * time), np.full(rows, 7.0)])
    ends = time == rows - 1
    data = Dataset.from_arrays(states, timeouts=ends, next_valid=~ends)
    std = prepare.observation_scaling(data, True)["observation_std"]
    directions, drifts = slow_directions(prepare.waypoints(data, HORIZON, HORIZON, 1.0), std, HORIZON, 0.5)
    assert drifts == pytest.approx([HORIZON], rel=0.01)
    assert abs(directions[0, 0]) > 0.99 * np.linalg.norm(directions)
