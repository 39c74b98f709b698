"""DT, the Decision Transformer (Chen et al., NeurIPS 2021): actions conditioned on the return to go.

A stretch of an episode is a sequence of tokens

    R_1 s_1 a_1  R_2 s_2 a_2  ...        R_t = r_t + r_(t+1) + ... to the end of the episode

each the sum of an embedding of its content and one of its time step t in the episode. A causal transformer reads it and
predicts the action from its output h at the token s_t: minimise

    E |a_t - tanh(W h(R_1, s_1, a_1, ..., R_t, s_t))|^2

over all steps of a stretch that belong to the episode. A stretch starts at a row drawn uniformly, so episodes are drawn
in proportion to their length, and lasts `context` steps or to the end of the episode.

It acts by asking for `target_return` at the first step, and then for what is left of it after the rewards received.
These are the environment's own, so it learns from rewards as they were recorded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from waypost.agents import losses
from waypost.agents.agent import Agent, Algorithm, Array, Arrays, Batch, Descent, Metrics, Settings, Spec, Stage
from waypost.agents.nets import MLP, Continuous, LayerNorm, Scaling
from waypost.agents.settings import Rule, Standardise
from waypost.agents.transformer import Transformer
from waypost.data import prepare
from waypost.data.dataset import Dataset


@dataclass(frozen=True)
class Config(Settings):
    """Settings of the Decision Transformer; the defaults are the original's for locomotion."""

    target_return: float = 0.0
    """The return to ask for when acting; 0 = the best in the data."""
    return_scale: float = 1000.0
    """Returns are divided by this; 0 = the largest absolute return of an episode."""
    observation_scaling: Standardise = True
    """Scale observations to mean 0 and standard deviation 1, or robustly."""
    context: int = 20
    """Steps of an episode that the transformer sees."""
    layers: int = 3
    """Blocks of the transformer."""
    heads: int = 1
    """Attention heads in each block."""
    width: int = 128
    """Size of a token."""
    dropout: float = 0.1
    """Dropout rate in training, of tokens, attention weights and the outputs of blocks."""
    learning_rate: float = 1e-4
    """AdamW's step size after the warm-up, constant."""
    warmup_steps: int = 10_000
    """Updates in which the step size grows linearly from 0."""
    weight_decay: float = 1e-4
    """AdamW's weight decay, relative to the step size."""
    gradient_clip: float = 0.25
    """Largest global norm of the gradient."""
    batch_size: int = 64
    """Stretches per update."""

    def rules(self) -> dict[str, Rule]:
        return {"width": Rule("be a multiple of heads", lambda x: x >= 1 and x % max(self.heads, 1) == 0)}


class Stretches(NamedTuple):
    """Stretches of episodes as the networks see them, (rows, steps, ...)."""

    returns: Array
    states: Array
    actions: Array
    times: Array
    real: Array
    """False for padding."""


class Model(eqx.Module):
    """Stretches of episodes -> an action in (-1, 1) for each step."""

    returns: MLP
    states: MLP
    actions: MLP
    times: Array
    """An embedding for each time step of the longest episode; later steps use the last one."""
    norm: LayerNorm
    transformer: Transformer
    head: MLP

    def __init__(self, config: Config, states: int, actions: int, longest: int, key: Array):
        keys = jax.random.split(key, 6)
        width = config.width
        self.returns, self.states, self.actions = (
            MLP(size, (), width, each) for size, each in zip((1, states, actions), keys[:3], strict=True)
        )
        self.times = jax.random.normal(keys[3], (longest, width))
        self.norm = LayerNorm(width)
        self.transformer = Transformer(width, config.layers, config.heads, config.dropout, keys[4])
        self.head = MLP(width, (), actions, keys[5])

    def __call__(self, stretches: Stretches, key: Array | None = None, latest: bool = False) -> Array:
        """Actions for all steps, or for the last one alone; without a key there is no dropout."""
        returns, states, actions, times, real = stretches
        contents = jnp.stack([self.returns(returns[..., None]), self.states(states), self.actions(actions)], axis=2)
        tokens = self.norm(contents + jnp.take(self.times, times, axis=0, mode="clip")[:, :, None])
        tokens, real = tokens.reshape(tokens.shape[0], -1, tokens.shape[-1]), jnp.repeat(real, 3, axis=1)
        at_states = slice(-2, -1) if latest else slice(1, None, 3)
        return jnp.tanh(self.head(self.transformer(tokens, real, key, at_states)))


class History(NamedTuple):
    """The memory of each episode: its last `context` steps, (episodes, context, ...), the latest at the end."""

    observations: Array
    actions: Array
    """Scaled to [-1, 1]."""
    returns_to_go: Array
    time: Array
    """Steps taken so far."""
    left: Array
    """What is left of the target return."""


class DTAgent(Agent):
    """The transformer, and the return to ask for."""

    scaling: Scaling
    model: Model
    actions: Continuous
    context: int = eqx.field(static=True)
    target: float = eqx.field(static=True)
    return_scale: float = eqx.field(static=True)

    def start(self, episodes: int, goal: Array | None = None) -> History:
        def zeros(*shape: int) -> Array:
            return jnp.zeros((episodes, self.context, *shape))

        return History(
            zeros(*self.scaling.mean.shape),
            zeros(*self.actions.low.shape),
            zeros(),
            jnp.zeros(episodes, jnp.int32),
            jnp.full(episodes, self.target, jnp.float32),
        )

    def act(self, observations: Array, memory: History) -> tuple[Array, History]:
        def push(past: Array, now: Array) -> Array:
            return jnp.concatenate([past[:, 1:], now[:, None]], axis=1)

        times = memory.time[:, None] + jnp.arange(1 - self.context, 1)
        seen, returns = push(memory.observations, observations), push(memory.returns_to_go, memory.left)
        # The action's token comes after the token it is predicted from, so its content does not matter.
        taken = push(memory.actions, jnp.zeros_like(memory.actions[:, 0]))
        latest = self.model(self.stretches(returns, seen, taken, times, times >= 0), latest=True)[:, 0]
        actions = self.actions.action(latest)
        taken = taken.at[:, -1].set(self.actions.scale(actions))
        return actions, History(seen, taken, returns, memory.time + 1, memory.left)

    def receive(self, memory: History, rewards: Array) -> History:
        return memory._replace(left=memory.left - rewards)

    def took(self, memory: History, actions: Array) -> History:
        return memory._replace(actions=memory.actions.at[:, -1].set(self.actions.scale(actions)))

    def stretches(self, returns: Array, observations: Array, actions: Array, times: Array, real: Array) -> Stretches:
        """Stretches from unscaled returns and observations, and scaled actions."""
        return Stretches(returns / self.return_scale, self.scaling(observations), actions, times, real)


class State(NamedTuple):
    agent: DTAgent
    optimiser: optax.OptState


class DT(Algorithm):
    config_type = Config

    def __init__(self, config: Config, spec: Spec, steps: int):
        self.config, self.spec = config, spec
        self.stages = (Stage("policy", steps, frozenset({"policy"})),)

        def rate(count: Array) -> Array:
            return config.learning_rate * jnp.minimum((count + 1) / max(config.warmup_steps, 1), 1.0)

        self.optimiser = optax.chain(
            optax.clip_by_global_norm(config.gradient_clip), optax.adamw(rate, weight_decay=config.weight_decay)
        )

    @classmethod
    def prepare(cls, config: Config, dataset: Dataset) -> tuple[Arrays, Spec]:
        arrays = {"observations": dataset.observations, "actions": dataset.require("actions"), **prepare.to_go(dataset)}
        spec = Spec.of(
            dataset,
            best_return=dataset.episode_returns.max(keepdims=True),
            longest_episode=dataset.episode_lengths.max(keepdims=True),
            largest_return=np.abs(dataset.episode_returns).max(keepdims=True),
            **prepare.observation_scaling(dataset, config.observation_scaling, least=1e-6),
        )
        return arrays, spec

    def batch(self, arrays: Batch, rows: Array, key: Array) -> Batch:
        """Stretches that start at these rows; if an episode ends earlier, its last row is repeated and not `real`."""
        ahead = jnp.arange(self.config.context)
        left = arrays["left"][rows][:, None]
        taken = rows[:, None] + jnp.minimum(ahead, left - 1)
        stretches = {name: values[taken] for name, values in arrays.items() if name != "left"}
        return {**stretches, "real": ahead < left}

    def init(self, key: Array) -> State:
        config, spec = self.config, self.spec
        (best,), (longest,) = spec.statistics["best_return"], spec.statistics["longest_episode"]
        (largest,) = spec.statistics.get("largest_return", (1.0,))
        agent = DTAgent(
            spec.scaling("observation"),
            Model(config, spec.observation_size, spec.action_width, int(longest), key),
            Continuous(spec.action_low, spec.action_high),
            config.context,
            config.target_return or best,
            config.return_scale or largest or 1.0,
        )
        return State(agent, self.optimiser.init(agent.model))

    def update(self, stage: Stage, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        agent = state.agent
        actions, real = agent.actions.scale(batch["actions"]), batch["real"]
        stretches = agent.stretches(batch["returns_to_go"], batch["observations"], actions, batch["times"], real)

        def loss(model: Model) -> Array:
            errors = jnp.mean((model(stretches, key) - actions) ** 2, axis=-1)
            return losses.masked_mean(errors, real)

        descent = Descent({"policy": self.optimiser}, {"policy": state.optimiser})
        model = descent.step("policy", agent.model, loss)
        return State(replace(agent, model=model), descent.states["policy"]), descent.metrics
