"""What evaluators miss, where it is known."""

from __future__ import annotations

import chain
import numpy as np
import pytest

from waypost.data.dataset import Dataset
from waypost.studies.judge.bias import NOTHING, Bias, bias
from waypost.studies.judge.judgement import Estimate, estimate, within


@pytest.fixture(scope="module")
def data() -> Dataset:
    return chain.record(400)


def found(data: Dataset, missing: float, right: bool = True) -> Bias:
    """Of exact values for a policy that goes one way, but for what each of its own actions is worth less."""
    own = data.require("actions")[:, 0] == right
    values = solved(float(right))
    states, following = data.observations.argmax(axis=1), data.next_observations.argmax(axis=1)
    q = expected(states, data.require("actions")[:, 0], values) - missing * own
    ratios = np.where(own, -np.log(0.6 if right else 0.4), -np.inf)
    later = expected(following, np.full(len(data), float(right)), values) - missing
    return bias(data, chain.DISCOUNT, ratios, np.ones(len(data), bool), q, later)


def solved(right: float) -> np.ndarray:
    """The exact value of every state of the chain."""
    values = np.zeros(chain.STATES)
    for _ in range(500):
        values = expected(np.arange(chain.STATES), np.full(chain.STATES, right), values)
        values[[0, -1]] = 0.0
    return values


def expected(states: np.ndarray, actions: np.ndarray, values: np.ndarray) -> np.ndarray:
    """One step of an action, then what the values say."""

    def towards(step: int) -> np.ndarray:
        following = np.clip(states + step, 0, chain.STATES - 1)
        prize = np.where(following == chain.STATES - 1, chain.PRIZE, 0.0)
        return chain.COST + prize + chain.DISCOUNT * values[following]

    up = np.where(actions == 1, 1 - chain.SLIP, chain.SLIP)
    return up * towards(1) + (1 - up) * towards(-1)


def test_exact_values_miss_nothing_beyond_chance(data: Dataset) -> None:
    missed = found(data, 0.0)
    assert missed.error > 0
    assert abs(missed.value) < 3 * missed.error


def test_what_is_missed_of_the_policy_s_own_actions_is_seen(data: Dataset) -> None:
    exact, low = found(data, 0.0), found(data, 0.1)
    # An error of 0.1 in every value of one's own actions is 0.01 a step but at the end, where it is 0.1.
    assert low.value > exact.value + 0.05
    assert found(data, -0.1).value < exact.value - 0.05


def test_too_few_rows_like_the_policy_s_say_nothing(data: Dataset) -> None:
    ratios = np.full(len(data), -np.inf)
    ratios[:3] = 0.0
    zeros = np.zeros(len(data))
    assert bias(data, chain.DISCOUNT, ratios, np.ones(len(data), bool), zeros, zeros) == NOTHING


def test_an_interval_reaches_to_where_the_errors_point() -> None:
    members = np.array([1.0, 1.1, 0.9, 1.05, 0.95])
    plain, up, down = (estimate(members, Bias(value, 0.0)) for value in (0.0, 0.5, -0.5))
    assert up == pytest.approx((plain.value, plain.low, plain.high + 0.5))
    assert down == pytest.approx((plain.value, plain.low - 0.5, plain.high))
    assert estimate(members, Bias(0.0, 1.0)).low < plain.low - 1.0


def test_an_interval_ends_where_nothing_can_be_reached() -> None:
    assert within(Estimate(0.5, -0.2, 1.3), 0.0, 1.0) == (0.5, 0.0, 1.0)
    assert within(Estimate(0.5, 0.2, 0.8), 0.0, 1.0) == (0.5, 0.2, 0.8)
