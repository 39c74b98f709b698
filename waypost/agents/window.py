"""Act with agents that learned from several observations side by side, where observations come one at a time."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp

from waypost.agents.agent import Agent, Array, Memory, Spec


class Window(Agent):
    """An agent that remembers the last observations of an episode; the first is repeated until there are enough."""

    agent: Agent
    history: int = eqx.field(static=True)
    size: int = eqx.field(static=True)
    """Size of a single observation."""

    def start(self, episodes: int, goal: Array | None = None) -> Memory:
        seen = jnp.zeros((episodes, self.history, self.size), jnp.float32)
        return seen, jnp.zeros(episodes, bool), self.agent.start(episodes, goal)

    def act(self, observations: Array, memory: Memory) -> tuple[Array, Memory]:
        seen, begun, inner = memory
        now = jnp.asarray(observations, jnp.float32)[:, None]
        moved = jnp.concatenate([seen[:, 1:], now], axis=1)
        seen = jnp.where(begun[:, None, None], moved, jnp.broadcast_to(now, seen.shape))
        actions, inner = self.agent.act(seen.reshape(len(seen), -1), inner)
        return actions, (seen, jnp.ones_like(begun), inner)

    def receive(self, memory: Memory, rewards: Array) -> Memory:
        seen, begun, inner = memory
        return seen, begun, self.agent.receive(inner, rewards)


def acting(agent: Agent, spec: Spec) -> Agent:
    """The agent as it acts in an environment: with a window, if it learned from several observations side by side."""
    return agent if spec.history == 1 else Window(agent, spec.history, spec.observation_size // spec.history)
