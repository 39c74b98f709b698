"""Agents with a history remember their last observations, and forget them where an episode begins again."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from waypost.agents.agent import Agent, Array, Memory, Spec
from waypost.agents.window import Window, acting
from waypost.training.evaluation import _Actor


class Echo(Agent):
    """Does what it sees, and counts its steps."""

    weight: Array

    def start(self, episodes: int, goal: Array | None = None) -> Memory:
        return jnp.zeros(episodes)

    def act(self, observations: Array, memory: Memory) -> tuple[Array, Memory]:
        return observations * self.weight, memory + 1

    def receive(self, memory: Memory, rewards: Array) -> Memory:
        return memory + 10 * rewards


def test_the_first_observation_stands_for_those_before_it() -> None:
    agent = Window(Echo(jnp.ones(())), 3, 1)
    memory = agent.start(2)
    seen = []
    for now in ([[1.0], [5.0]], [[2.0], [6.0]], [[3.0], [7.0]], [[4.0], [8.0]]):
        actions, memory = agent.act(jnp.array(now), memory)
        seen.append(np.asarray(actions).tolist())
    assert seen == [
        [[1, 1, 1], [5, 5, 5]],
        [[1, 1, 2], [5, 5, 6]],
        [[1, 2, 3], [5, 6, 7]],
        [[2, 3, 4], [6, 7, 8]],
    ]
    assert memory[2].tolist() == [4, 4]
    assert agent.receive(memory, jnp.array([1.0, 0.0]))[2].tolist() == [14, 4]


def test_an_episode_that_begins_again_has_no_past() -> None:
    actor = _Actor([Window(Echo(np.ones((), np.float32)), 2, 1)])
    fresh = actor.start(2)
    _, memory = actor.act(np.array([[1.0], [5.0]], np.float32), fresh)
    memory = actor.restart(actor.receive(memory, np.zeros(2, np.float32)), np.array([True, False]), fresh)
    actions, _ = actor.act(np.array([[2.0], [6.0]], np.float32), memory)
    assert actions.tolist() == [[2, 2], [5, 6]]


@pytest.mark.parametrize("history", [1, 2])
def test_only_agents_with_a_history_have_a_window(history: int) -> None:
    agent = Echo(jnp.ones(()))
    found = acting(agent, Spec(4, 1, (0.0,), (1.0,), history=history))
    assert (found is agent) == (history == 1)
