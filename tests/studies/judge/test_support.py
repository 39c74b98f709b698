"""Where a policy leaves the data."""

from __future__ import annotations

import chain
import numpy as np

from waypost.data.dataset import Dataset
from waypost.studies.judge.support import USUAL, Neighbourhood, neighbours


def controlled(rows: int = 1200, noise: float = 0.1) -> Dataset:
    """A controller that does what the state says, with noise; the bounds of the actions are wide."""
    rng = np.random.default_rng(0)
    states = rng.uniform(-1, 1, (rows, 2)).astype(np.float32)
    actions = states[:, :1] + noise * rng.normal(size=(rows, 1))
    ends = np.arange(1, rows + 1) % 20 == 0
    bounds = {"action_low": np.array([-5.0]), "action_high": np.array([5.0])}
    return Dataset.from_arrays(states, states, actions, np.zeros(rows), None, ends, **bounds)


def test_the_recorded_actions_are_as_far_from_each_other_as_is_usual() -> None:
    data = controlled()
    distance, each = Neighbourhood(data).measure(data.require("actions"))
    assert abs(distance.outside - (1 - USUAL)) < 0.01
    assert distance.outside == distance.data_outside
    assert len(each) == len(data)
    assert not distance.left


def test_a_policy_inside_the_noise_stays_and_one_outside_leaves() -> None:
    data = controlled()
    near = Neighbourhood(data)
    assert not near.measure(data.observations[:, :1])[0].left
    far = near.measure(data.observations[:, :1] + 1.0)[0]
    assert far.left
    assert far.outside > 0.8
    assert far.median > 5 * far.data_median


def test_a_discrete_action_nobody_took_nearby_is_outside() -> None:
    data = chain.record(100, right=0.98)
    near = Neighbourhood(data)
    assert not near.measure(np.ones_like(data.require("actions")))[0].left
    assert near.measure(np.zeros_like(data.require("actions")))[0].left


def test_a_mixed_action_is_far_if_the_choice_or_the_number_is() -> None:
    rng = np.random.default_rng(0)
    states = rng.uniform(-1, 1, (1200, 2)).astype(np.float32)
    actions = np.column_stack([np.where(states[:, 0] > 0, 7, 1), states[:, 1] + 0.05 * rng.normal(size=1200)])
    ends = np.arange(1, 1201) % 20 == 0
    bounds = {"action_low": np.array([1.0, -2.0]), "action_high": np.array([7.0, 2.0])}
    choices = (("1", "3", "7"), ())
    data = Dataset.from_arrays(states, states, actions, np.zeros(1200), None, ends, action_choices=choices, **bounds)
    near, recorded = Neighbourhood(data), data.require("actions")
    assert not near.measure(recorded)[0].left
    assert near.measure(np.column_stack([np.full(1200, 3.0), recorded[:, 1]]))[0].left
    assert near.measure(np.column_stack([recorded[:, 0], recorded[:, 1] + 1.0]))[0].left


def test_neighbours_are_of_other_groups() -> None:
    points = np.array([0.0, 1.0, 2.4, 3.4, 4.0, 5.0], np.float32)[:, None]
    groups = np.array([0, 0, 1, 1, 2, 2])
    found = neighbours(points, points, groups, groups, count=2)
    assert [sorted(row) for row in found] == [[2, 3], [2, 3], [1, 4], [4, 5], [2, 3], [2, 3]]
