"""The doubly robust check against a loop over episodes, and where it must be right."""

from __future__ import annotations

import chain
import numpy as np
import pytest

from waypost.agents.fqe import recorded
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
