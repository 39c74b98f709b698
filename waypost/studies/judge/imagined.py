"""A second estimate of a policy's value: episodes imagined with a learned model of the plant.

Fitted Q evaluation asks only what the policy does in recorded states. A policy that acts like the data there can still
leave them: each of its actions is a little off, and the errors add up until the plant fails. Imagined episodes show
that. They begin in recorded first states; at each step the policy acts and a model says what follows:

    V  =  sum_(t < n) gamma^t  alive_t  r_t   +   gamma^n  alive_n  Q(s_n, pi(s_n))

`alive` is the probability that the episode is not over yet. What lies beyond the last imagined step is left to the
evaluator. Member k of the models learns from the same bootstrap of episodes as member k of the evaluators.

A model has errors of its own, which add up too. So neither estimate replaces the other: the value is the middle between
them, and the interval reaches from one to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from waypost.agents.agent import Agent, Array, Memory
from waypost.agents.dynamics import Config, Dynamics, Model
from waypost.data.dataset import Dataset
from waypost.training.loop import Learner
from waypost.types import Count, Doubles, Floats

MOST_UPDATES = 12_000
"""Of the models. Each costs a fraction of an update of the evaluators of several policies."""
STARTS = 128
"""First states that episodes are imagined from."""
EXPLAINED = 0.9
"""Share of the recorded steps that models must explain: they predict the mean, which must be close to what happens."""
HOPELESS = 0.5
"""Share below which models stop learning after `TRIED` updates: they will not reach the other one."""
TRIED = 1_000
NEGLIGIBLE = 0.01
"""Share of an episode that is not worth imagining."""
CHECKED = 10_000
"""Rows that the models are checked on."""
LOGS = 10

Ending = Callable[[Floats, Floats], Doubles]
"""What is still to come after states and actions, (members, rows, columns) each, by every member."""


@dataclass(frozen=True, eq=False)
class Plant:
    """An ensemble of models."""

    models: Model
    """A leading axis over the members."""
    weights: Doubles
    """How often each episode is in each bootstrap, (members, episodes)."""
    explained: float
    """Share of the variance of recorded steps that members explain on episodes they did not learn from."""
    limits: tuple[Floats, Floats]
    """The least and the most of each column of the states: what lies beyond was never seen."""
    rewards: tuple[float, float]

    @property
    def known(self) -> bool:
        """Whether imagined episodes are worth anything."""
        return self.explained >= EXPLAINED


def model_updates(steps: int) -> int:
    """Where the evaluators have so many."""
    return min(4 * steps, MOST_UPDATES)


def learn(dataset: Dataset, members: int, steps: int, seed: int = 0, progress: Count | None = None) -> Plant:
    """Train the models; `seed` is that of the first member."""
    config = Config()
    arrays, spec = Dynamics.prepare(config, dataset)
    chunk = -(-steps // LOGS)
    logs = -(-steps // chunk)
    algorithm = Dynamics(config, spec, chunk * logs)
    learner = Learner(algorithm, arrays, range(seed, seed + members))
    for log in range(logs):
        learner.advance(algorithm.stages[0], chunk)
        if progress:
            progress((log + 1) * chunk, logs * chunk)
        models = jax.tree.map(lambda *leaves: np.stack(leaves), *(state.agent for state in learner.states))
        weights = np.stack([np.asarray(state.weights, np.float64) for state in learner.states])
        share = explained(dataset, models, weights, seed)
        if share < HOPELESS and (log + 1) * chunk >= TRIED:
            break
    observations, rewards = dataset.observations, dataset.require("rewards")
    limits = observations.min(axis=0), observations.max(axis=0)
    return Plant(models, weights, share, limits, (float(rewards.min()), float(rewards.max())))


@jax.jit
def _follow(models: Model, states: Array, actions: Array) -> tuple[Array, Array, Array]:
    """By every member, (members, rows)."""
    return jax.vmap(lambda model: model.follow(states, actions))(models)


def explained(dataset: Dataset, models: Model, weights: Doubles, seed: int = 0) -> float:
    """1 - squared errors / variance of the steps, on rows that a member has not seen; columns count alike."""
    rows = np.random.default_rng(seed).permutation(np.flatnonzero(dataset.next_valid))[:CHECKED]
    if not len(rows):
        return 0.0
    states, following = dataset.observations[rows], dataset.next_observations[rows]
    predicted = np.asarray(_follow(models, states, dataset.require("actions")[rows])[0], np.float64)
    unseen = weights[:, dataset.episode_of[rows]] == 0
    spread = np.asarray(models.steps.std[0], np.float64)
    errors = (((predicted - following) / spread) ** 2).mean(axis=-1)[unseen]
    variance = ((following - states) / spread).astype(np.float64).var(axis=0).mean()
    return float(1.0 - errors.mean() / variance) if errors.size and variance else 0.0


@jax.jit
def _step(agent: Agent, models: Model, states: Array, memory: Memory) -> tuple[Array, Array, Array, Array, Memory]:
    """The actions in states (members, rows, columns), what follows from them, and what the agent remembers."""
    rows = states.reshape(-1, states.shape[-1])
    actions, memory = agent.act(rows, memory)
    actions = actions.reshape(*states.shape[:2], -1).astype(jnp.float32)
    following, rewards, ends = jax.vmap(lambda model, s, a: model.follow(s, a))(models, states, actions)
    return actions, following, rewards, ends, agent.receive(memory, rewards.reshape(-1))


def imagine(
    plant: Plant,
    agent: Agent,
    dataset: Dataset,
    discount: float,
    horizon: int,
    ending: Ending,
    goal: Sequence[float] | None = None,
    seed: int = 0,
) -> Doubles:
    """The value of the first states by each member, (members,).

    horizon   the most steps to imagine
    ending    what is still to come after the last one
    goal      that of the task, for agents that need one
    """
    episodes = np.random.default_rng(seed).permutation(len(dataset.episode_starts))[:STARTS]
    first = dataset.observations[dataset.episode_starts[episodes]]
    states = np.repeat(first[None], len(plant.weights), axis=0)
    where = None if goal is None else jnp.asarray(goal, jnp.float32)
    memory = agent.start(states.shape[0] * states.shape[1], where)
    values, alive = np.zeros(states.shape[:2]), np.ones(states.shape[:2])
    for time in range(horizon + 1):
        actions, following, rewards, ends, memory = _step(agent, plant.models, states, memory)
        if time == horizon or discount**time * alive.max() < NEGLIGIBLE:
            values += discount**time * alive * ending(states, np.asarray(actions))
            break
        values += discount**time * alive * np.clip(np.asarray(rewards, np.float64), *plant.rewards)
        alive = alive * (1.0 - np.asarray(ends, np.float64))
        states = np.clip(np.asarray(following), *plant.limits)
    # A bootstrap without any of the starts: all count alike.
    counts = plant.weights[:, episodes]
    counts = np.where(counts.sum(axis=1, keepdims=True) > 0, counts, 1.0)
    return np.asarray((values * counts).sum(axis=1) / counts.sum(axis=1))
