"""The doubly robust check against a loop over episodes, and where it must be right."""

from __future__ import annotations

import chain
import numpy as np
import pytest

from waypost.agents.bc import BC, BCAgent, Config
from waypost.agents.fqe import Candidate, recorded
from waypost.data.dataset import Dataset
from waypost.studies.judge.robust import FEWEST, clone, doubly_robust, log_ratios
from waypost.training.replay import candidate


@pytest.fixture(scope="module")
def data() -> Dataset:
    return chain.record(300, right=0.7)


def looped(data: Dataset, ratios: np.ndarray, q: np.ndarray, v: np.ndarray, steps: int) -> float:
    """The same for episodes that all end with a terminal or are cut off at their last row, step by step."""
    products = []
    for start, length in zip(data.episode_starts, data.episode_lengths, strict=True):
        sums = np.cumsum(ratios[start : start + length])
        products.append([np.exp(sums[min(time, length - 1)]) for time in range(steps)])
    totals = np.sum(products, axis=0)
    value = 0.0
    for start, length, own in zip(data.episode_starts, data.episode_lengths, products, strict=True):
        before = 1.0 / len(products)
        for time in range(min(length, steps)):
            row, now = start + time, own[time] / totals[time]
            value += chain.DISCOUNT**time * (before * v[row] + now * (data.require("rewards")[row] - q[row]))
            before = now
        if length > steps:
            value += chain.DISCOUNT**steps * before * v[start + steps]
    return value


def test_the_estimate_is_that_of_a_loop(data: Dataset) -> None:
    assert data.terminals[data.ends].all()
    rng = np.random.default_rng(0)
    ratios, q, v, later = rng.normal(0.0, 0.3, len(data)), *rng.normal(size=(3, len(data)))
    found = doubly_robust(data, chain.DISCOUNT, ratios, np.ones(len(data), bool), q, v, later)
    assert found.steps > 0
    assert found.value == pytest.approx(looped(data, ratios, q, v, found.steps), rel=1e-6)
    assert found.resamples.std() > 0


def test_the_behaviour_itself_has_its_recorded_return_whatever_the_evaluator_says(data: Dataset) -> None:
    rewards, wrong = data.require("rewards"), np.full(len(data), 7.0)
    returns = [
        sum(chain.DISCOUNT**time * rewards[start + time] for time in range(length))
        for start, length in zip(data.episode_starts, data.episode_lengths, strict=True)
    ]
    found = doubly_robust(data, chain.DISCOUNT, np.zeros(len(data)), recorded(data).known, wrong, wrong, wrong)
    # Each step's error cancels the value before it, and nothing is left at a terminal.
    assert found.steps >= data.episode_lengths.max() - 1
    assert found.value == pytest.approx(np.mean(returns), abs=0.02)


def test_a_wrong_evaluator_is_corrected_for_another_policy(data: Dataset) -> None:
    right = candidate(chain.policy(1, data), data)
    ratios = log_ratios(clone(data, 500), data, right)
    assert np.isneginf(ratios[data.require("actions")[:, 0] == 0]).all()
    assert ratios[data.require("actions")[:, 0] == 1].mean() == pytest.approx(-np.log(0.7), abs=0.1)
    zeros = np.zeros(len(data))
    found = doubly_robust(data, chain.DISCOUNT, ratios, right.known, zeros, zeros, zeros)
    assert found.steps > 3
    assert abs(found.value - chain.exact(1.0)) < 0.25 * chain.exact(1.0)


def test_a_policy_nobody_followed_is_left_to_the_evaluator(data: Dataset) -> None:
    never = np.full(len(data), -np.inf)
    values = np.full(len(data), 3.0)
    found = doubly_robust(data, chain.DISCOUNT, never, np.ones(len(data), bool), values, values, values)
    assert found.steps == 0
    assert found.value == pytest.approx(3.0)


def test_weights_that_rest_on_few_episodes_are_not_followed(data: Dataset) -> None:
    ratios = np.where(np.isin(data.episode_of, range(int(FEWEST) - 1)), 50.0, 0.0)
    zeros = np.zeros(len(data))
    assert doubly_robust(data, chain.DISCOUNT, ratios, np.ones(len(data), bool), zeros, zeros, zeros).steps == 0


def test_the_ratio_of_a_mixed_action_is_that_of_the_choice_times_that_of_the_number() -> None:
    rng = np.random.default_rng(0)
    actions = np.column_stack([rng.integers(0, 2, 40), rng.uniform(-1, 1, 40)]).astype(np.float32)
    mixed = Dataset.from_arrays(
        rng.normal(size=(40, 3)), actions=actions, rewards=np.zeros(40), action_choices=(("off", "on"), ())
    )
    config = Config(hidden=(8,))
    agent = BC.build(config, BC.prepare(config, mixed)[1])
    assert isinstance(agent, BCAgent)
    proposed = np.column_stack([np.ones(40), actions[:, 1] + 0.1]).astype(np.float32)
    proposed[0] = actions[0]
    found = log_ratios(agent, mixed, Candidate(proposed, proposed, np.ones(40, bool)))
    low, high = mixed.require("action_low")[1], mixed.require("action_high")[1]
    taken, wanted = (2 * (each - low) / (high - low) - 1 for each in (actions[:, 1], proposed[:, 1]))
    outputs = np.asarray(agent.policy.net(agent.scaling(mixed.observations)), np.float64)
    logits, mean = outputs[:, :2], outputs[:, 2]
    chances = np.log(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True))
    own = np.where(actions[:, 0] == 1, chances[:, 1], chances[:, 0])
    expected = -own + 0.5 * ((taken - mean) ** 2 - (taken - wanted) ** 2)
    same = actions[:, 0] == proposed[:, 0]
    np.testing.assert_allclose(found[same], expected[same], atol=1e-4)
    assert np.isneginf(found[~same]).all()
    assert 0 < same.sum() < 40
