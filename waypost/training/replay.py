"""What a policy would do in every state of recorded data.

A policy without memory acts in all states at once. One with a memory is taken through the recorded episodes: it
sees the recorded states, actions and rewards, and chooses an action in each state.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from waypost.agents.agent import Agent, Array, Memory
from waypost.agents.fqe import Candidate
from waypost.data.dataset import Dataset
from waypost.training.policy import Policy
from waypost.types import Floats

BLOCK = 8192
"""States per batch."""
TOGETHER = 64
"""Episodes replayed at once."""


def candidate(policy: Policy, dataset: Dataset, goal: Sequence[float] | None = None) -> Candidate:
    """The policy's actions in the states of the data and in their next states.

    `goal` is the goal of the task, for agents that need one.
    """
    where = None if goal is None else jnp.asarray(goal, jnp.float32)
    if jax.tree.leaves(policy.agent.start(1, where)):
        here, there = _led(policy.agent, dataset, where)
    else:
        here, there = (_asked(policy.agent, rows) for rows in (dataset.observations, dataset.next_observations))
    return Candidate(here, there, dataset.next_valid | dataset.terminals)


@jax.jit
def _act(agent: Agent, observations: Array, memory: Memory) -> tuple[Array, Memory]:
    actions, memory = agent.act(observations, memory)
    return actions.reshape(len(observations), -1).astype(jnp.float32), memory


@jax.jit
def _learn_of(agent: Agent, memory: Memory, actions: Array, rewards: Array) -> Memory:
    return agent.receive(agent.took(memory, actions), rewards)


def _asked(agent: Agent, observations: Floats) -> Floats:
    blocks = range(0, len(observations), BLOCK)
    # The last block is padded, so that one program serves all.
    size = min(BLOCK, len(observations))
    found = []
    for first in blocks:
        rows = np.minimum(np.arange(first, first + size), len(observations) - 1)
        found.append(np.asarray(_act(agent, observations[rows], agent.start(size))[0]))
    return np.concatenate(found)[: len(observations)]


def _led(agent: Agent, dataset: Dataset, goal: Array | None) -> tuple[Floats, Floats]:
    """Episodes of similar length are replayed together; one that has ended stays at its last row, which is dropped."""
    actions, rewards = dataset.require("actions"), dataset.require("rewards")
    here, there = np.zeros_like(actions), np.zeros_like(actions)
    order = np.argsort(dataset.episode_lengths, kind="stable")
    size = min(TOGETHER, len(order))
    for first in range(0, len(order), size):
        episodes = np.resize(order[first : first + size], size)
        starts, lengths = dataset.episode_starts[episodes], dataset.episode_lengths[episodes]
        memory = agent.start(size, goal)
        for time in range(int(lengths.max()) + 1):
            rows = starts + np.minimum(time, lengths - 1)
            beyond = time >= lengths
            seen = np.where(beyond[:, None], dataset.next_observations[rows], dataset.observations[rows])
            proposed, memory = _act(agent, seen, memory)
            memory = _learn_of(agent, memory, actions[rows], rewards[rows])
            took = np.asarray(proposed)
            here[rows[~beyond]] = took[~beyond]
            came = (time > 0) & (time <= lengths)
            there[starts[came] + time - 1] = took[came]
    return here, there
