"""Reward conventions: what each makes of recorded rewards, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from waypost.data.dataset import Dataset
from waypost.data.rewards import learning_rewards
from waypost.errors import WaypostError


def data(rewards: list[float], terminals: list[int], ends: list[int]) -> Dataset:
    return Dataset.from_arrays(
        np.zeros((len(rewards), 1)),
        np.zeros((len(rewards), 1)),
        None,
        np.array(rewards),
        np.array(terminals),
        np.array(ends),
    )


def test_goal_rewards_make_steps_cost_and_failures_as_bad_as_never_arriving() -> None:
    recorded = data([0, 1, 0, -1, 0], [0, 1, 0, 1, 0], [0, 1, 0, 1, 1])
    assert learning_rewards(recorded, "goal", 0.99).require("rewards").tolist() == pytest.approx([-1, 0, -1, -100, -1])
    assert learning_rewards(recorded, "goal", 0.995).require("rewards")[3] == pytest.approx(-200)
    with pytest.raises(WaypostError, match="discount must be below 1"):
        learning_rewards(recorded, "goal", 1.0)
    without_failure = data([0, 1], [0, 1], [0, 1])
    assert learning_rewards(without_failure, "goal", 1.0).require("rewards").tolist() == [-1, 0]


def test_return_range_scales_to_a_thousand() -> None:
    scaled = learning_rewards(data([1, 2, 5, 8], [0, 0, 0, 0], [0, 1, 0, 1]), "return-range", 0.99)
    assert np.ptp(scaled.episode_returns) == pytest.approx(1000)
    assert scaled.require("rewards").tolist() == [100, 200, 500, 800]
    with pytest.raises(WaypostError, match="same return"):
        learning_rewards(data([1, 1], [0, 0], [1, 1]), "return-range", 0.99)


def test_recorded_rewards_and_missing_ones_are_left_alone() -> None:
    recorded = data([3, 4], [0, 0], [0, 1])
    assert learning_rewards(recorded, "recorded", 0.99) is recorded
    free = recorded.without_rewards()
    assert learning_rewards(free, "goal", 0.99) is free


def test_centred_goals_pay_2_and_every_other_step_costs_2() -> None:
    assert learning_rewards(data([0, 1], [0, 1], [0, 1]), "centred-goal", 0.99).require("rewards").tolist() == [-2, 2]


def test_standard_rewards_have_no_unit() -> None:
    rng = np.random.default_rng(0)
    ends = [int(i % 50 == 49) for i in range(1000)]
    rewards = rng.normal(-3, 1, 1000)
    ours, theirs = (
        learning_rewards(data(list(unit * rewards), [0] * 1000, ends), "standard", 0.9).require("rewards")
        for unit in (1.0, 1e-5)
    )
    assert ours == pytest.approx(theirs, rel=1e-4)
    sums = np.array([ours[i : min(i + 10, i - i % 50 + 50)].sum() for i in range(1000)])
    assert sums.std() == pytest.approx(10, rel=0.05)


def test_standard_rewards_that_are_the_same_everywhere_are_scaled_by_their_size() -> None:
    assert learning_rewards(data([-5.0], [0], [1]), "standard", 0.9).require("rewards").tolist() == [-10]
    assert learning_rewards(data([0.0, 0.0], [0, 0], [0, 1]), "standard", 1.0).require("rewards").tolist() == [0, 0]
