"""BC, behaviour cloning: imitate the data; and 10%BC: imitate the best tenth of the episodes.

One part learns: pi(a|s), a Gaussian or, for discrete actions, a categorical distribution, or a product of both, by
maximising E log pi(a|s). It acts with the likeliest action. BC uses no rewards, so it is the level every other method
has to beat; 10%BC uses only the undiscounted return of whole episodes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import optax

from waypost.agents.actions import ActionPolicy, Actions, policy
from waypost.agents.agent import Agent, Algorithm, Array, Arrays, Batch, Descent, Memory, Metrics, Settings, Spec, Stage
from waypost.agents.nets import Scaling
from waypost.agents.settings import Standardise
from waypost.data import prepare
from waypost.data.dataset import Dataset


@dataclass(frozen=True)
class Config(Settings):
    """Settings of behaviour cloning."""

    observation_scaling: Standardise = True
    """Scale observations to mean 0 and standard deviation 1, or robustly."""
    learning_rate: float = 1e-3
    """Adam's step size at the start; it goes to zero along a cosine."""
    hidden: tuple[int, ...] = (256, 256)
    """Hidden layers of the policy."""
    batch_size: int = 256
    """Transitions per update."""


@dataclass(frozen=True)
class TopConfig(Config):
    """Settings of 10%BC."""

    top: float = 0.1
    """Share of the episodes to clone: the best by undiscounted return."""


class BCAgent(Agent):
    """pi(a|s)."""

    scaling: Scaling
    policy: ActionPolicy
    actions: Actions

    def act(self, observations: Array, memory: Memory = ()) -> tuple[Array, Memory]:
        return self.actions.action(self.policy.mode(self.scaling(observations))), memory


class State(NamedTuple):
    agent: BCAgent
    optimiser: optax.OptState


class BC(Algorithm):
    config_type = Config

    def __init__(self, config: Config, spec: Spec, steps: int):
        self.config, self.spec = config, spec
        self.stages = (Stage("policy", steps, frozenset({"policy"})),)
        self.optimiser = optax.adam(optax.cosine_decay_schedule(config.learning_rate, max(steps, 1)))

    @classmethod
    def prepare(cls, config: Config, dataset: Dataset) -> tuple[Arrays, Spec]:
        arrays = {"observations": dataset.observations, "actions": dataset.require("actions")}
        return arrays, Spec.of(dataset, **prepare.observation_scaling(dataset, config.observation_scaling))

    def init(self, key: Array) -> State:
        spec = self.spec
        net = policy(spec.observation_size, self.config.hidden, spec.actions, key)
        agent = BCAgent(spec.scaling("observation"), net, spec.actions)
        return State(agent, self.optimiser.init(agent.policy))

    def update(self, stage: Stage, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        agent = state.agent
        observations, actions = agent.scaling(batch["observations"]), agent.actions.scale(batch["actions"])
        descent = Descent({"policy": self.optimiser}, {"policy": state.optimiser})
        policy = descent.step("policy", agent.policy, lambda pi: -pi.log_likelihood(observations, actions).mean())
        return State(replace(agent, policy=policy), descent.states["policy"]), descent.metrics


class TopBC(BC):
    """BC on the best episodes alone."""

    config_type = TopConfig

    @classmethod
    def prepare(cls, config: Config, dataset: Dataset) -> tuple[Arrays, Spec]:
        assert isinstance(config, TopConfig)
        return super().prepare(config, dataset.top(config.top))
