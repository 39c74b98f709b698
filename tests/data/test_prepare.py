"""What algorithms train on: transitions, returns and goals inside episodes, and what networks scale by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from waypost.data import prepare
from waypost.data.dataset import Dataset
from waypost.data.prepare import guided_transitions
from waypost.errors import WaypostError


@pytest.fixture
def line() -> Dataset:
    """Episodes 0 1 2 3 (4 terminal), 10 11 (12 timeout), 20 21 22 (unknown) and 30 (unknown)."""
    return Dataset.from_arrays(
        observations=np.array([0, 1, 2, 3, 10, 11, 20, 21, 22, 30]),
        next_observations=np.array([1, 2, 3, 4, 11, 12, 21, 22, 77, 88]),
        actions=np.zeros(10),
        rewards=np.arange(1, 11),
        terminals=np.isin(np.arange(10), [3]),
        timeouts=np.isin(np.arange(10), [5, 8, 9]),
        next_valid=~np.isin(np.arange(10), [8, 9]),
    )


def test_a_horizon_of_three_looks_three_states_ahead_inside_the_episode(line: Dataset) -> None:
    arrays = guided_transitions(line, 3, 0.5)
    real = slice(0, 8)
    assert arrays["aimed"].tolist() == [1, 1, 1, 1, 1, 1, 1, 1, 0, 0]
    assert arrays["goals"][real, 0].tolist() == [3, 4, 4, 4, 12, 12, 22, 22]
    assert arrays["goal_rewards"][real].tolist() == [2.75, 4.5, 5, 4, 8, 6, 11, 8]
    assert arrays["goal_discounts"][real].tolist() == [0.125, 0, 0, 0, 0.25, 0.5, 0.25, 0.5]


def test_a_horizon_leaves_what_v_learns_from_as_it_was(line: Dataset) -> None:
    near = guided_transitions(line, 1, 0.9)
    far = guided_transitions(line, 3, 0.9)
    for column in ("observations", "next_observations", "discounts", "known"):
        assert np.array_equal(near[column], far[column])


def test_a_horizon_of_one_aims_at_the_next_state(line: Dataset) -> None:
    arrays = guided_transitions(line, 1, 0.9)
    assert arrays["aimed"].tolist() == [1, 1, 1, 1, 1, 1, 1, 1, 0, 0]
    assert arrays["known"].tolist() == [1, 1, 1, 1, 1, 1, 1, 1, 0, 0]
    assert not {"goals", "goal_rewards", "goal_discounts"} & arrays.keys()
    assert arrays["next_observations"][:8, 0].tolist() == [1, 2, 3, 4, 11, 12, 21, 22]


@pytest.mark.parametrize("horizon", [2, 100])
def test_no_horizon_crosses_the_end_of_an_episode(line: Dataset, horizon: int) -> None:
    arrays = guided_transitions(line, horizon, 0.9)
    tens = arrays["observations"][:8, 0] // 10
    assert (arrays["goals"][:8, 0] // 10 == tens).all()
    assert (arrays["goals"][:8, 0] > arrays["observations"][:8, 0]).all()


def test_a_horizon_stops_short_of_a_terminal_nobody_recorded() -> None:
    data = Dataset.from_arrays(np.arange(4), actions=np.zeros(4), rewards=np.ones(4), terminals=np.array([0, 0, 0, 1]))
    arrays = guided_transitions(data, 3, 0.5)
    assert arrays["aimed"].tolist() == [1, 1, 1, 0]
    assert arrays["goals"][:3, 0].tolist() == [3, 3, 3]
    assert arrays["goal_rewards"][:3].tolist() == [1.75, 1.5, 1]
    assert arrays["goal_discounts"][:3].tolist() == [0.125, 0.25, 0.5]
    assert arrays["known"].tolist() == [1, 1, 1, 1]


def test_without_rewards_goals_have_none(line: Dataset) -> None:
    assert set(prepare.goals(line.without_rewards(), 3, 0.5)) == {"goals", "aimed"}


def test_data_without_any_real_next_state_are_refused(line: Dataset) -> None:
    unknown = replace(line, next_valid=np.zeros(10, bool), ends=np.ones(10, bool))
    for horizon in (1, 3):
        with pytest.raises(WaypostError, match="no transition has a real next state; nothing to learn from"):
            guided_transitions(unknown, horizon, 0.9)


def test_waypoints_lie_ahead_inside_the_episode_and_what_v_learns_from_too(line: Dataset) -> None:
    arrays = prepare.waypoints(line, 3, 2, 0.5)
    goals = guided_transitions(line, 3, 0.5)
    assert arrays["ahead"].tolist() == [2, 2, 1, 0, 1, 0, 1, 0, 0, 0]
    for name in ("aimed", "goal_rewards", "goal_discounts"):
        assert np.array_equal(arrays[name][:8], goals[name][:8])
    reached = arrays["next_observations"][np.arange(10) + arrays["ahead"]]
    assert np.array_equal(reached[:8], goals["goals"][:8])
    assert arrays["known"].tolist() == [1, 1, 1, 1, 1, 1, 1, 1, 0, 0]
    assert arrays["value_ahead"].tolist() == [1, 1, 1, 0, 1, 0, 1, 0, 0, 0]
    assert arrays["value_rewards"][:8].tolist() == [2, 3.5, 5, 4, 8, 6, 11, 8]
    assert arrays["value_discounts"][:8].tolist() == [0.25, 0.25, 0, 0, 0.25, 0.5, 0.25, 0.5]


def test_v_learns_from_a_terminal_whose_next_state_nobody_recorded_and_the_waypoint_stops_before() -> None:
    data = Dataset.from_arrays(np.arange(4), actions=np.zeros(4), rewards=np.ones(4), terminals=np.array([0, 0, 0, 1]))
    arrays = prepare.waypoints(data, 3, 3, 0.5)
    assert arrays["aimed"].tolist() == [1, 1, 1, 0]
    assert arrays["ahead"].tolist() == [2, 1, 0, 0]
    assert arrays["known"].tolist() == [1, 1, 1, 1]
    assert arrays["value_ahead"].tolist() == [2, 2, 1, 0]
    assert arrays["value_discounts"].tolist() == [0.125, 0, 0, 0]
    assert arrays["value_rewards"].tolist() == [1.75, 1.75, 1.5, 1]


def test_waypoints_one_step_ahead_are_the_next_states(line: Dataset) -> None:
    arrays, near = prepare.waypoints(line, 1, 1, 0.9), guided_transitions(line, 1, 0.9)
    assert not arrays["ahead"].any()
    assert not arrays["value_ahead"].any()
    for name in ("aimed", "known"):
        assert np.array_equal(arrays[name], near[name])
    assert np.allclose(arrays["value_discounts"], near["discounts"])
    assert np.array_equal(arrays["goal_rewards"], line.rewards)
    assert np.shares_memory(arrays["next_observations"], line.next_observations)


def test_waypoints_need_no_rewards_but_a_real_next_state(line: Dataset) -> None:
    names = {"observations", "next_observations", "ahead", "aimed", "value_ahead", "known"}
    assert set(prepare.waypoints(line.without_rewards(), 3, 3, 0.5)) == names
    unknown = replace(line, next_valid=np.zeros(10, bool), ends=np.ones(10, bool))
    with pytest.raises(WaypostError, match="no transition has a real next state; nothing to learn from"):
        prepare.waypoints(unknown, 3, 3, 0.9)


def test_transitions_are_the_rows_whose_next_state_is_known_or_does_not_matter(line: Dataset) -> None:
    arrays = prepare.transitions(line, 0.5)
    assert arrays["observations"][:, 0].tolist() == [0, 1, 2, 3, 10, 11, 20, 21]
    assert arrays["next_observations"][:, 0].tolist() == [1, 2, 3, 4, 11, 12, 21, 22]
    assert arrays["rewards"].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert arrays["discounts"].tolist() == [0.5, 0.5, 0.5, 0, 0.5, 0.5, 0.5, 0.5]
    assert arrays["actions"].shape == (8, 1)
    unseen = replace(line, terminals=np.isin(np.arange(10), [3, 9]))
    assert prepare.transitions(unseen, 0.5)["discounts"].tolist() == [0.5, 0.5, 0.5, 0, 0.5, 0.5, 0.5, 0.5, 0]
    assert prepare.transitions(line, 0.5, np.arange(10) < 2)["rewards"].tolist() == [1, 2]


def test_transitions_of_whole_data_are_no_copies(line: Dataset) -> None:
    arrays = prepare.transitions(line.keep(np.arange(10) < 8), 0.5)
    whole = line.keep(np.arange(10) < 8)
    assert np.shares_memory(prepare.transitions(whole, 0.5)["observations"], whole.observations)
    assert len(arrays["rewards"]) == 8


def test_transitions_need_actions_and_rewards(line: Dataset) -> None:
    for lacking, column in ((line.without_actions(), "actions"), (line.without_rewards(), "rewards")):
        with pytest.raises(WaypostError, match=f"has no {column}"):
            prepare.transitions(lacking, 0.5)


def test_what_is_to_go_ends_with_the_episode(line: Dataset) -> None:
    arrays = prepare.to_go(line)
    assert arrays["times"].tolist() == [0, 1, 2, 3, 0, 1, 0, 1, 2, 0]
    assert arrays["left"].tolist() == [4, 3, 2, 1, 2, 1, 3, 2, 1, 1]
    assert arrays["returns_to_go"].tolist() == [10, 9, 7, 4, 11, 6, 24, 17, 9, 10]


def test_observations_are_scaled_by_their_moments_or_not_at_all(line: Dataset) -> None:
    values = line.observations[:, 0].astype(np.float64)
    for least in (0.0, 0.25):
        scaling = prepare.observation_scaling(line, True, least)
        assert np.allclose(scaling["observation_mean"], values.mean())
        assert np.allclose(scaling["observation_std"], values.std() + least)
        assert prepare.observation_scaling(line, False, least) == {"observation_mean": [0.0], "observation_std": [1.0]}


def test_displacements_are_those_to_real_goals(line: Dataset) -> None:
    for horizon, moves in ((1, [1] * 8), (3, [3, 3, 2, 1, 2, 1, 2, 1])):
        mean, std = prepare.displacement_scaling(guided_transitions(line, horizon, 0.5), robust=False).values()
        assert np.allclose(mean, np.mean(moves))
        assert np.allclose(std, np.std(moves) or 1)


def test_a_rare_change_is_at_most_ten_standard_deviations() -> None:
    states = np.random.default_rng(0).normal(size=(5000, 2))
    steps = np.column_stack([np.full(5000, 0.1) * (-1) ** np.arange(5000), np.arange(5000) == 7])
    data = Dataset.from_arrays(states, states + steps, steps, steps[:, 0])
    mean, std = prepare.displacement_scaling(guided_transitions(data, 1, 0.9), robust=False).values()
    assert np.allclose(std, [0.1, (1 - mean[1]) / 10], rtol=1e-3)


def test_columns_that_are_not_there_are_refused(line: Dataset) -> None:
    prepare.check_columns(line, "executor_inputs", (0,))
    prepare.check_columns(line, "executor_inputs", ())
    for columns in ((1,), (0, -1)):
        with pytest.raises(WaypostError, match=r"^inputs must be columns of arrays, from 0 to 0, got \(.+\)$"):
            prepare.check_columns(line, "inputs", columns)


def test_robust_moments_do_not_heed_far_ends_rare_flags_or_units() -> None:
    rng = np.random.default_rng(0)
    values = np.stack([rng.normal(5.0, 2.0, 4000), np.zeros(4000), np.full(4000, 7.0)], axis=1)
    values[:4, 0], values[:4, 1] = 1e6, 1.0
    mean, std = prepare.robust_moments(values)
    assert mean == pytest.approx([5.0, 0.001, 7.0], rel=0.02)
    assert std == pytest.approx([2.0, np.sqrt(0.001 * 0.999), 1.0], rel=0.05)
    tiny_mean, tiny_std = prepare.robust_moments(values * 1e-9)
    assert tiny_mean == pytest.approx(mean * 1e-9)
    assert tiny_std[:2] == pytest.approx(std[:2] * 1e-9)
    scaling = prepare.robust_scaling("way", values)
    assert scaling["way_limit"].tolist() == [10.0, 10.0, 10.0]
