"""A model of the plant, learned from data: what follows from an action, what it earns, and whether the episode is over.

    (s, a)  ->  s' - s,  r,  probability of the end

One network predicts all three. It learns the mean of what follows, so imagined episodes are only like real ones where
the next state is nearly determined; `explained` in `waypost.studies.judge.imagined` says whether it is.

Each seed is a member of an ensemble on its own bootstrap of the *episodes*, the same as that of the evaluator of fitted
Q evaluation with this seed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from waypost.agents.actions import Actions
from waypost.agents.agent import Agent, Algorithm, Array, Arrays, Batch, Descent, Memory, Metrics, Settings, Spec, Stage
from waypost.agents.fqe import bootstrap
from waypost.agents.nets import MLP, Scaling, side_by_side
from waypost.data import prepare
from waypost.data.dataset import Dataset
from waypost.errors import WaypostError


@dataclass(frozen=True)
class Config(Settings):
    """Settings of the models."""

    learning_rate: float = 1e-3
    """Adam's step size at the start; it goes to zero along a cosine."""
    hidden: tuple[int, ...] = (128, 128)
    """Hidden layers, each with LayerNorm."""
    batch_size: int = 256
    """Transitions per update."""


class Model(Agent):
    """What follows from actions; it takes none."""

    scaling: Scaling
    steps: Scaling
    rewards: Scaling
    net: MLP
    actions: Actions

    def act(self, observations: Array, memory: Memory = ()) -> tuple[Array, Memory]:
        raise WaypostError("a model takes no actions; it only says what follows from them")

    def outputs(self, net: MLP, observations: Array, actions: Array) -> tuple[Array, Array, Array]:
        """The scaled step, the scaled reward and the logit of the end."""
        found = net(side_by_side(self.scaling(observations), self.actions.scale(actions)))
        return found[..., :-2], found[..., -2], found[..., -1]

    def follow(self, observations: Array, actions: Array) -> tuple[Array, Array, Array]:
        """The next states, the rewards, and the probabilities that the episode is over, of a batch."""
        step, reward, end = self.outputs(self.net, observations, actions)
        return observations + self.steps.undo(step), self.rewards.undo(reward), jax.nn.sigmoid(end)


class State(NamedTuple):
    agent: Model
    optimiser: optax.OptState
    weights: Array
    """How often each episode is in the bootstrap."""


class Dynamics(Algorithm):
    config_type = Config

    def __init__(self, config: Config, spec: Spec, steps: int):
        self.config, self.spec = config, spec
        self.stages = (Stage("dynamics", steps, frozenset({"model"})),)
        self.optimiser = optax.adam(optax.cosine_decay_schedule(config.learning_rate, max(steps, 1)))

    @classmethod
    def prepare(cls, config: Config, dataset: Dataset) -> tuple[Arrays, Spec]:
        usable = dataset.next_valid | dataset.terminals
        arrays = prepare.transitions(dataset, 1.0) | {
            "episodes": dataset.episode_of[usable].astype(np.int32),
            # The state after an end is often not recorded: then only the end itself is learned.
            "moved": dataset.next_valid[usable].astype(np.float32),
        }
        moved = dataset.next_valid
        steps = (dataset.next_observations - dataset.observations)[moved if moved.any() else usable]
        rewards = arrays["rewards"]
        spread = steps.std(axis=0)
        spec = Spec.of(
            dataset,
            episodes=np.array([len(dataset.episode_starts)]),
            step_mean=steps.mean(axis=0),
            step_std=np.where(spread > 1e-6, spread, 1.0),
            reward_mean=rewards.mean(keepdims=True),
            reward_std=np.array([rewards.std() or 1.0]),
            **prepare.observation_scaling(dataset, True),
        )
        return arrays, spec

    def init(self, key: Array) -> State:
        spec = self.spec
        net_key, bootstrap_key = jax.random.split(key)
        sizes = spec.observation_size + spec.action_width, spec.observation_size + 2
        net = MLP(sizes[0], self.config.hidden, sizes[1], net_key, layer_norm=True)
        agent = Model(spec.scaling("observation"), spec.scaling("step"), spec.scaling("reward"), net, spec.actions)
        return State(agent, self.optimiser.init(net), bootstrap(bootstrap_key, int(spec.statistics["episodes"][0])))

    def update(self, stage: Stage, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        agent = state.agent
        steps = agent.steps(batch["next_observations"] - batch["observations"])
        rewards, over = agent.rewards(batch["rewards"]), batch["discounts"] == 0.0
        weights = state.weights[batch["episodes"]]
        descent = Descent({"model": self.optimiser}, {"model": state.optimiser})

        def loss(net: MLP) -> tuple[Array, Metrics]:
            step, reward, end = agent.outputs(net, batch["observations"], batch["actions"])
            moves = batch["moved"] * jnp.mean((step - steps) ** 2, axis=-1)
            ends = optax.sigmoid_binary_cross_entropy(end, over.astype(jnp.float32))
            return jnp.mean(weights * (moves + (reward - rewards) ** 2 + ends)), {}

        net = descent.step("model", agent.net, loss)
        return State(replace(agent, net=net), descent.states["model"], state.weights), descent.metrics
