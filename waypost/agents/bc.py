"""BC, behaviour cloning: do what the data did.

One part learns: pi(a|s), a Gaussian, by maximising E log pi(a|s). It acts with the mean. It knows
nothing of rewards, so it is the level every other method has to clear.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import numpy as np
import optax

from waypost import losses
from waypost.agents.agent import Agent, Algorithm, Array, Batch, Columns, Memory, Metrics, Spec, Stage, check_settings
from waypost.data.dataset import Dataset
from waypost.nets import Bounds, Gaussian, Scaling


@dataclass(frozen=True)
class Config:
    """Settings of behaviour cloning."""

    observation_scaling: bool = True
    """Scale observations to mean 0 and deviation 1."""
    learning_rate: float = 1e-3
    """Adam's step size at the start; it goes to zero along a cosine."""
    hidden: tuple[int, ...] = (256, 256)
    """Hidden layers of the policy."""
    batch_size: int = 256
    """Transitions per update."""

    def __post_init__(self) -> None:
        check_settings(self)


class BCAgent(Agent):
    """pi(a|s)."""

    scaling: Scaling
    policy: Gaussian
    bounds: Bounds

    def act(self, observations: Array, memory: Memory = ()) -> tuple[Array, Memory]:
        mean, _ = self.policy(self.scaling(observations))
        return self.bounds.action(mean), memory


class State(NamedTuple):
    """What training changes."""

    agent: BCAgent
    optimiser: optax.OptState


class BC(Algorithm):
    """Behaviour cloning for given settings, data shape and number of steps."""

    config_type = Config
    title = "behaviour cloning: do what the data did"
    needs = frozenset({"actions"})

    def __init__(self, config: Config, spec: Spec, steps: int):
        self.config, self.spec = config, spec
        self.stages = (Stage("policy", steps, frozenset({"policy"})),)
        self.optimiser = optax.adam(optax.cosine_decay_schedule(config.learning_rate, max(steps, 1)))

    @classmethod
    def prepare(cls, config: Config, dataset: Dataset) -> tuple[Columns, Spec]:
        mean, std = dataset.observation_moments
        if not config.observation_scaling:
            mean, std = np.zeros_like(mean), np.ones_like(std)
        columns = {"observations": dataset.observations, "actions": dataset.require("actions")}
        return columns, Spec.of(dataset, observation_mean=mean, observation_std=std)

    def init(self, key: Array) -> State:
        spec = self.spec
        scaling = Scaling(spec.statistics["observation_mean"], spec.statistics["observation_std"])
        policy = Gaussian(spec.observation_size, self.config.hidden, len(spec.action_low), key)
        agent = BCAgent(scaling, policy, Bounds(spec.action_low, spec.action_high))
        return State(agent, self.optimiser.init(policy))

    def update(self, stage: Stage, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        agent = state.agent

        def loss(policy: Gaussian) -> Array:
            distribution = policy(agent.scaling(batch["observations"]))
            return -losses.gaussian_log_likelihood(*distribution, agent.bounds.scale(batch["actions"])).mean()

        value, gradient = jax.value_and_grad(loss)(agent.policy)
        updates, optimiser = self.optimiser.update(gradient, state.optimiser, agent.policy)
        policy = optax.apply_updates(agent.policy, updates)
        return State(replace(agent, policy=policy), optimiser), {"policy_loss": value}
