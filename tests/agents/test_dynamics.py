"""The model of the plant: its loss against a loop over rows, and its bootstrap."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from samples import walk

from waypost.agents import fqe
from waypost.agents.dynamics import Config, Dynamics, State
from waypost.data.dataset import Dataset
from waypost.errors import WaypostError

SMALL = Config(hidden=(8,))


@pytest.fixture(scope="module")
def data() -> Dataset:
    return walk()


@pytest.fixture(scope="module")
def learned(data: Dataset) -> tuple[Dynamics, dict[str, np.ndarray], State]:
    arrays, spec = Dynamics.prepare(SMALL, data)
    algorithm = Dynamics(SMALL, spec, 100)
    return algorithm, arrays, algorithm.init(jax.random.key(3))


def test_the_loss_is_that_of_a_loop_over_rows(learned: tuple, data: Dataset) -> None:
    algorithm, arrays, state = learned
    unknown = arrays | {"moved": np.where(data.terminals, 0.0, arrays["moved"]).astype(np.float32)}
    update = jax.jit(algorithm.update, static_argnums=0)
    _, metrics = update(algorithm.stages[0], state, unknown, jax.random.key(0))
    following, rewards, ends = map(np.asarray, state.agent.follow(data.observations, data.require("actions")))
    steps = data.next_observations - data.observations
    total, weights = 0.0, np.asarray(state.weights)
    for row in range(len(data)):
        moved = ((following[row] - data.next_observations[row]) / steps.std(axis=0)) ** 2
        earned = ((rewards[row] - data.require("rewards")[row]) / data.require("rewards").std()) ** 2
        surprise = -np.log(ends[row] if data.terminals[row] else 1.0 - ends[row])
        # Where an episode ended, the state that follows need not be known.
        own = (0.0 if data.terminals[row] else moved.mean()) + earned + surprise
        total += weights[data.episode_of[row]] * own / len(data)
    assert float(metrics["model_loss"]) == pytest.approx(total, rel=1e-4)


def test_a_member_learns_from_the_episodes_that_its_evaluator_learns_from(learned: tuple, data: Dataset) -> None:
    _, spec = fqe.columns(fqe.Config(hidden=(8,)), data, [fqe.recorded(data)])
    evaluator = fqe.FQE(fqe.Config(hidden=(8,)), spec, 100).init(jax.random.key(3))
    np.testing.assert_array_equal(learned[2].weights, evaluator.weights)


def test_a_model_takes_no_actions(learned: tuple) -> None:
    with pytest.raises(WaypostError, match="a model takes no actions"):
        learned[2].agent.act(np.zeros((1, 2)))
