"""Per-decision doubly robust estimation: a check of the evaluators by the recorded rewards themselves.

Along each recorded episode the evaluator's errors are corrected by what was really earned, weighted by how much
likelier the candidate would have acted so than the behaviour did:

    V  =  sum_t gamma^t [ w_(t-1) V(s_t) + w_t (r_t - Q(s_t, a_t)) ]     w_t ~ prod_(k <= t) pi(a_k|s_k) / b(a_k|s_k)

The weights are normalised over the episodes at each step (Thomas and Brunskill, ICML 2016). They are followed only as
long as they rest on enough episodes; after that the evaluator is believed. The behaviour's likelihood b is that of a
cloned policy. A deterministic candidate has no density: for continuous actions it is taken to have the behaviour's
spread around its action. The ratio of a mixed action is the product of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from waypost.agents.actions import Product
from waypost.agents.agent import Array
from waypost.agents.bc import BC, BCAgent, Config
from waypost.agents.fqe import Candidate
from waypost.agents.nets import Gaussian
from waypost.data.dataset import Dataset
from waypost.training.loop import Learner
from waypost.types import Doubles

FEWEST = 10.0
"""Effective number of episodes the weights must rest on."""
RESAMPLES = 400
NEGLIGIBLE = 0.01
"""Discount below which later steps are left to the evaluator."""
BLOCK = 8192
"""Rows that are looked at together."""
LEAST_LIKELY = 1e-3
"""Probability below which a recorded discrete action is not believed to have been so unlikely."""


class Robust(NamedTuple):
    """The estimate of a candidate."""

    value: float
    resamples: Doubles
    """The same on bootstraps of the episodes, common to all candidates."""
    steps: int
    """How many steps of the episodes could be followed; 0 says nothing was checked."""


def clone(dataset: Dataset, steps: int, seed: int = 0) -> BCAgent:
    """The behaviour as far as it can be learned.

    The spread of continuous actions is that of the errors: in few updates it would hardly have moved from where it
    began.
    """
    config = Config(hidden=(64, 64))
    arrays, spec = BC.prepare(config, dataset)
    algorithm = BC(config, spec, steps)
    learner = Learner(algorithm, arrays, (seed,))
    learner.advance(algorithm.stages[0], steps)
    agent = learner.agents[0]
    assert isinstance(agent, BCAgent)
    if not isinstance(agent.policy, Gaussian):
        return agent
    squares = [_squares(agent, *rows) for rows in _blocks(dataset.observations, dataset.require("actions"))]
    variances = np.concatenate(squares)[: len(dataset)].mean(axis=0)
    spread = 0.5 * np.log(np.maximum(variances, 1e-12)).astype(np.float32)
    return eqx.tree_at(lambda clone: clone.policy.log_std, agent, spread)


def _blocks(*columns: np.ndarray) -> Iterator[list[np.ndarray]]:
    """Rows in blocks of one size, the last filled up, so that one program serves for all."""
    rows = len(columns[0])
    size = min(BLOCK, rows)
    for first in range(0, rows, size):
        chosen = np.minimum(np.arange(first, first + size), rows - 1)
        yield [column[chosen] for column in columns]


@jax.jit
def _squares(agent: BCAgent, observations: Array, actions: Array) -> Array:
    return (agent.policy.mode(agent.scaling(observations)) - agent.actions.scale(actions)) ** 2


@jax.jit
def _log_ratios(behaviour: BCAgent, observations: Array, actions: Array, proposed: Array) -> Array:
    states, taken = behaviour.scaling(observations), behaviour.actions.scale(actions)
    wanted, policy = behaviour.actions.scale(proposed), behaviour.policy
    if isinstance(policy, Product):
        chosen = np.array(policy.counts) > 0
        same = (actions == proposed)[:, chosen].all(axis=-1)
        choices = _of_choices(policy.discrete_log_likelihood(states, taken), same)
        return choices + _of_numbers(*policy.gaussian(states), policy.numbers(taken), policy.numbers(wanted))
    if isinstance(policy, Gaussian):
        return _of_numbers(*policy(states), taken, wanted)
    return _of_choices(policy.log_likelihood(states, taken), (actions == proposed).all(axis=-1))


def _of_numbers(mean: Array, log_std: Array, taken: Array, wanted: Array) -> Array:
    return 0.5 * jnp.sum(((taken - mean) ** 2 - (taken - wanted) ** 2) * jnp.exp(-2.0 * log_std), axis=-1)


def _of_choices(own: Array, same: Array) -> Array:
    return jnp.where(same, -jnp.maximum(own, jnp.log(LEAST_LIKELY)), -jnp.inf)


def log_ratios(behaviour: BCAgent, dataset: Dataset, candidate: Candidate) -> Doubles:
    """log pi(a|s) - log b(a|s) of every row; minus infinity where the candidate would never act so."""
    found = _log_ratios(behaviour, dataset.observations, dataset.require("actions"), candidate.actions)
    return np.asarray(found, np.float64)


def doubly_robust(
    dataset: Dataset, discount: float, ratios: Doubles, known: np.ndarray, q: Doubles, v: Doubles, later: Doubles
) -> Robust:
    """The estimate from the data and, for every row, what the candidate's evaluator says.

    ratios   log pi(a|s) - log b(a|s)
    known    whether what the candidate does in the next state is known
    q, v     Q(s, a) of the recorded action and of the candidate's
    later    Q of what the candidate does in the next state
    """
    usable = (dataset.next_valid & known) | dataset.terminals
    starts, last = dataset.episode_starts, dataset.episode_starts + dataset.episode_lengths - 1
    lengths = dataset.episode_lengths - ~usable[last]
    after = np.where(dataset.terminals[last], 0.0, np.where(usable[last], later[last], v[last]))
    longest = int(lengths.max())
    if discount < 1.0:
        longest = min(longest, int(np.ceil(np.log(NEGLIGIBLE) / np.log(discount))))
    times = np.arange(longest)
    rows = starts[:, None] + np.minimum(times, np.maximum(lengths, 1)[:, None] - 1)
    inside = times < lengths[:, None]
    weights = _weights(np.where(inside, ratios[rows], 0.0))
    total = weights.sum(axis=0)
    enough = (total > 0) & (total**2 >= FEWEST * (weights**2).sum(axis=0))
    steps = longest if enough.all() else int(enough.argmin())

    followed = np.minimum(lengths, steps)
    inside = inside[:, :steps] & (times[:steps] < followed[:, None])
    errors = np.where(inside, (dataset.require("rewards") - q)[rows[:, :steps]], 0.0)
    values = np.zeros((len(starts), steps + 1))
    values[:, :steps] = np.where(inside, v[rows[:, :steps]], 0.0)
    cut = starts + np.minimum(followed, dataset.episode_lengths - 1)
    values[np.arange(len(starts)), followed] = np.where(followed < lengths, v[cut], after)

    before = np.concatenate([np.ones((len(starts), 1)), weights[:, :steps]], axis=1)
    gamma = discount ** np.arange(steps + 1)
    draws = np.random.default_rng(0).multinomial(len(starts), np.full(len(starts), 1 / len(starts)), RESAMPLES)
    counts = np.concatenate([np.ones((1, len(starts))), draws])
    # A bootstrap without any weight left at a step has nothing to correct there.
    totals = np.maximum(counts @ before, 1e-12)
    expected = (counts @ (before * values) / totals * gamma).sum(axis=1)
    corrected = (counts @ (before[:, 1:] * errors) / totals[:, 1:] * gamma[:steps]).sum(axis=1)
    found = expected + corrected
    return Robust(float(found[0]), found[1:], steps)


def _weights(ratios: Doubles) -> Doubles:
    """The product of the ratios so far, (episodes, steps), divided by the largest of each step."""
    sums = np.cumsum(ratios, axis=1)
    largest = sums.max(axis=0, initial=-1e300)
    return np.exp(sums - largest)
