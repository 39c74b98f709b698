"""FQE: its targets and bootstraps against loops over rows, and who learns from what."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from samples import walk

from waypost.agents.fqe import FQE, Candidate, Config, State, columns, discounted_to_go, reachable, recorded
from waypost.data.dataset import Dataset
from waypost.errors import WaypostError

SMALL = Config(hidden=(8,), discount=0.9, learning_rate=0.01, target_rate=0.5)


def acts(dataset: Dataset, action: float) -> Candidate:
    """A policy that always does the same."""
    actions = np.full_like(dataset.require("actions"), action)
    return Candidate(actions, actions, dataset.next_valid | dataset.terminals)


@pytest.fixture(scope="module")
def data() -> Dataset:
    return walk()


@pytest.fixture(scope="module")
def learned(data: Dataset) -> tuple[FQE, dict[str, np.ndarray], State]:
    arrays, spec = columns(SMALL, data, [recorded(data), acts(data, 0.5)])
    algorithm = FQE(SMALL, spec, 100)
    return algorithm, arrays, algorithm.init(jax.random.key(3))


def test_a_bootstrap_draws_as_many_episodes_as_there_are(learned: tuple, data: Dataset) -> None:
    algorithm, _, state = learned
    weights = np.asarray(state.weights)
    assert weights.sum() == len(weights) == len(data.episode_starts)
    assert (weights == weights.astype(int)).all()
    other = np.asarray(algorithm.init(jax.random.key(4)).weights)
    assert (weights != other).any()


def test_all_candidates_of_a_member_begin_alike(learned: tuple) -> None:
    for leaf in jax.tree.leaves(learned[2].nets):
        np.testing.assert_array_equal(leaf[0], leaf[1])


@pytest.mark.parametrize("narrow", [False, True])
def test_the_loss_is_that_of_a_loop_over_rows(learned: tuple, data: Dataset, narrow: bool) -> None:
    algorithm, arrays, state = learned
    if narrow:  # targets that reach their limits
        statistics = algorithm.spec.statistics | {"value_range": (-0.5, 0.5)}
        algorithm = FQE(SMALL, type(algorithm.spec)(**{**vars(algorithm.spec), "statistics": statistics}), 100)
    _, metrics = algorithm.update(algorithm.stages[0], state, arrays, jax.random.key(0))
    agent = state.agent
    low, high = algorithm.spec.statistics["value_range"]
    (mean,), (std,) = algorithm.spec.statistics["value_mean"], algorithm.spec.statistics["value_std"]
    total, clipped, rows = 0.0, 0, len(arrays["rewards"])
    for candidate in (0, 1):
        q = np.asarray(agent.q(arrays["observations"], arrays["actions"]))[candidate]
        after = np.asarray(agent.q(arrays["next_observations"], arrays["next_actions"][:, candidate]))[candidate]
        for row in range(rows):
            gamma = 0.0 if data.terminals[row] else 0.9
            wanted = data.require("rewards")[row] + gamma * after[row]
            target = min(max(wanted, low), high)
            clipped += wanted != target
            weight = np.asarray(state.weights)[data.episode_of[row]]
            # The last action of an episode that was cut off is followed by one nobody recorded.
            weight *= candidate == 1 or not data.timeouts[row]
            total += weight * ((q[row] - target) / std) ** 2 / rows
    assert (clipped > 0) == narrow
    assert float(metrics["q_loss"]) == pytest.approx(total, rel=1e-4)
    assert float(metrics["clipped"]) == pytest.approx(clipped / (2 * rows), abs=1e-6)
    assert mean == pytest.approx(discounted_to_go(data, 0.9).mean())


def test_a_candidate_learns_what_it_learns_alone(learned: tuple, data: Dataset) -> None:
    algorithm, arrays, state = learned
    both, _ = algorithm.update(algorithm.stages[0], state, arrays, jax.random.key(0))
    single_arrays, spec = columns(SMALL, data, [acts(data, 0.5)])
    single = FQE(SMALL, spec, 100)
    alone, _ = single.update(single.stages[0], single.init(jax.random.key(3)), single_arrays, jax.random.key(0))
    for one, other in zip(jax.tree.leaves(both.nets), jax.tree.leaves(alone.nets), strict=True):
        np.testing.assert_allclose(one[1], other[0], rtol=1e-5, atol=1e-6)


def test_returns_to_go_stop_at_the_end_of_an_episode(data: Dataset) -> None:
    rewards, found = data.require("rewards"), discounted_to_go(data, 0.9)
    for row in (0, 5, 11, 12):
        last = data.last_row[row]
        expected = sum(0.9 ** (k - row) * rewards[k] for k in range(row, last + 1))
        assert found[row] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rewards", "terminal", "discount", "expected"),
    [
        ((0.0, 2.0), False, 0.9, (0.0, 20.0)),
        ((-1.0, -0.5), False, 0.9, (-10.0, -5.0)),
        ((-1.0, -0.5), True, 0.9, (-10.0, -0.5)),
        ((1.0, 2.0), True, 0.9, (2.0, 10.0)),
        ((-1.0, 2.0), True, 1.0, (-2.0, 2.0)),
        ((0.0, 1.0), True, 0.99, (0.0, 1.0)),
    ],
)
def test_what_rewards_can_add_up_to(
    rewards: tuple[float, float], terminal: bool, discount: float, expected: tuple[float, float]
) -> None:
    data = Dataset.from_arrays(
        np.zeros((2, 1)), np.zeros((2, 1)), np.zeros((2, 1)), np.array(rewards), np.array([False, terminal])
    )
    assert reachable(data, discount) == pytest.approx(expected)


def test_an_evaluator_takes_no_actions(learned: tuple) -> None:
    with pytest.raises(WaypostError, match="an evaluator takes no actions"):
        learned[2].agent.act(np.zeros((1, 2)))
