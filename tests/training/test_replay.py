"""What policies would do along recorded episodes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from samples import walk

from waypost.agents.agent import Agent, Array, Memory, Spec
from waypost.agents.bc import BC, Config
from waypost.agents.dt import DT, Config as DTConfig
from waypost.data.dataset import Dataset
from waypost.training import replay
from waypost.training.policy import Policy


class Diary(Agent):
    """Remembers the sums of the observations, recorded actions and rewards it has come across, and says them."""

    size: Array

    def start(self, episodes: int, goal: Array | None = None) -> Memory:
        return jnp.zeros((episodes, 2))

    def act(self, observations: Array, memory: Memory) -> tuple[Array, Memory]:
        return memory + observations, memory

    def took(self, memory: Memory, actions: Array) -> Memory:
        return memory + 10.0 * actions

    def receive(self, memory: Memory, rewards: Array) -> Memory:
        return memory + 100.0 * rewards[:, None]


@pytest.fixture
def data() -> Dataset:
    whole = walk(rows=80, episode=9)
    return whole.keep(np.arange(80) != 40)  # one episode is shorter, and its last next state is real


def test_a_policy_without_memory_is_asked_for_every_state(data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "BLOCK", 32)
    _, spec = BC.prepare(Config(hidden=(8,)), data)
    policy = Policy("bc", Config(hidden=(8,)), spec, BC(Config(hidden=(8,)), spec, 1).init(jax.random.key(0)).agent)
    found = replay.candidate(policy, data)
    np.testing.assert_allclose(found.actions, policy.act(data.observations), rtol=1e-6)
    np.testing.assert_allclose(found.next_actions, policy.act(data.next_observations), rtol=1e-6)
    assert (found.known == (data.next_valid | data.terminals)).all()


def test_a_policy_that_remembers_is_led_through_the_episodes(data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "TOGETHER", 4)
    found = replay.candidate(Policy("bc", Config(), Spec.of(data), Diary(np.float32(0))), data)
    actions, rewards = data.require("actions"), data.require("rewards")
    for start, length in zip(data.episode_starts, data.episode_lengths, strict=True):
        memory = np.zeros(2)
        for row in range(start, start + length):
            np.testing.assert_allclose(found.actions[row], memory + data.observations[row], rtol=1e-4, atol=1e-3)
            memory = memory + 10.0 * actions[row] + 100.0 * rewards[row]
            after = memory + data.next_observations[row]
            np.testing.assert_allclose(found.next_actions[row], after, rtol=1e-4, atol=1e-3)


def test_a_decision_transformer_sees_the_recorded_actions(data: Dataset) -> None:
    config = DTConfig(context=3, layers=1, width=8, dropout=0.0)
    _, spec = DT.prepare(config, data)
    agent = DT(config, spec, 1).init(jax.random.key(0)).agent
    memory = agent.start(1)
    _, memory = agent.act(data.observations[:1], memory)
    taken = data.require("actions")[:1]
    memory = agent.took(memory, taken)
    np.testing.assert_allclose(memory.actions[:, -1], agent.actions.scale(taken), rtol=1e-6)
    assert replay.candidate(Policy("dt", config, spec, agent), data).actions.shape == data.require("actions").shape
