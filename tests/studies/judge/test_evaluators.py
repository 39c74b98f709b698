"""The evaluators against values that are known exactly."""

from __future__ import annotations

import chain
import numpy as np
import pytest

from waypost.agents.fqe import Config, recorded
from waypost.data.dataset import Dataset
from waypost.studies.judge.evaluators import Evaluation, evaluate
from waypost.studies.judge.judgement import difference, estimate
from waypost.training.replay import candidate

CONFIG = Config(discount=chain.DISCOUNT, hidden=(16,), batch_size=64, learning_rate=5e-3)


@pytest.fixture(scope="module")
def data() -> Dataset:
    return chain.record(200)


@pytest.fixture(scope="module")
def found(data: Dataset) -> Evaluation:
    ways = [candidate(chain.policy(way, data), data) for way in (0, 1)]
    return evaluate(CONFIG, data, [recorded(data), *ways], members=5, steps=800)


def test_values_are_those_of_dynamic_programming(found: Evaluation) -> None:
    expected = [chain.exact(right) for right in (0.6, 0.0, 1.0)]
    np.testing.assert_allclose(found.values.mean(axis=0), expected, atol=0.12)
    for place, exact in enumerate(expected):
        low, high = estimate(found.values[:, place])[1:]
        assert low - 0.05 < exact < high + 0.05


def test_the_good_policy_is_known_to_be_better(found: Evaluation) -> None:
    behaviour, left, right = found.values.T
    assert difference(right, behaviour).low > 0.2
    assert difference(left, behaviour).high < -0.2
    assert difference(right, left).probability > 0.99


def test_members_have_bootstraps_of_their_own_and_curves_settle(found: Evaluation, data: Dataset) -> None:
    assert found.weights.shape == (5, len(data.episode_starts))
    assert len({tuple(each) for each in found.weights}) == 5
    assert found.curves.shape == (len(found.steps), 3)
    np.testing.assert_allclose(found.curves[-1], found.values.mean(axis=0))
    assert np.abs(found.curves[-1] - found.curves[-2]).max() < 0.05
    assert found.clipped < 0.05


def test_a_row_is_valued_by_members_that_did_not_learn_from_it(found: Evaluation, data: Dataset) -> None:
    actions = [data.require("actions")]
    values = found.out_of_bag(data, actions)
    assert values.shape == (3, len(data))
    unseen = found.weights == 0
    episode = int(np.flatnonzero(unseen.sum(axis=0) == 1)[0])
    member, row = int(unseen[:, episode].argmax()), int(data.episode_starts[episode])
    alone = found.agents[member].q(data.observations[row : row + 1], actions[0][row : row + 1])
    np.testing.assert_allclose(values[:, row], np.clip(np.asarray(alone)[:, 0], *found.value_range), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.learns
def test_intervals_hold_the_exact_value_about_as_often_as_they_say() -> None:
    """The networks themselves, on data sets that were recorded one after the other."""
    exact, held = chain.exact(1.0), 0
    for seed in range(20):
        data = chain.record(100, seed=seed)
        ways = [candidate(chain.policy(1, data), data)]
        values = evaluate(CONFIG, data, ways, members=8, steps=800, seed=100 * seed).values[:, 0]
        low, high = estimate(values)[1:]
        held += low <= exact <= high
    assert held >= 15
