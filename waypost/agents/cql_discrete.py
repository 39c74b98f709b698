"""CQL(H) for discrete actions: double Q-learning with the penalty in closed form (Kumar et al.; NeurIPS 2020).

One part learns: Q(s), a network with one value for each action. The sum over all actions needs no sampling. It
minimises

    1/2 E (r + gamma (1 - terminal) Q'(s', a') - Q(s, a))^2 + alpha E [log sum_a~ exp Q(s, a~) - Q(s, a)]

where a' is the best action in s' by Q and its value comes from the target Q', which follows Q by a moving average.
It acts with the best action by Q.

The authors trained quantile networks on Atari images. This is the same penalty for observations that are vectors: alpha
is theirs for large data, network and optimiser are those of their Q for continuous actions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from waypost.agents import losses
from waypost.agents.agent import Agent, Algorithm, Array, Batch, Descent, Memory, Metrics, Settings, Spec, Stage
from waypost.agents.nets import MLP, Discrete, Scaling
from waypost.agents.settings import Standardise


@dataclass(frozen=True)
class Config(Settings):
    """Settings of CQL for discrete actions."""

    penalty_weight: float = 1.0
    """Weight of the penalty against the squared error, the paper's alpha; 4 for small data."""
    observation_scaling: Standardise = False
    """Scale observations to mean 0 and standard deviation 1, or robustly."""
    discount: float = 0.99
    """Gamma."""
    target_rate: float = 0.005
    """Share of Q that moves into the target Q' each step."""
    learning_rate: float = 3e-4
    """Adam's step size, constant."""
    hidden: tuple[int, ...] = (256, 256, 256)
    """Hidden layers of Q."""
    batch_size: int = 256
    """Transitions per update."""


class DiscreteCQLAgent(Agent):
    """Q(s), one value for each action."""

    scaling: Scaling
    critic: MLP
    actions: Discrete

    def act(self, observations: Array, memory: Memory = ()) -> tuple[Array, Memory]:
        return self.actions.action(self.critic(self.scaling(observations))), memory

    def value(self, observations: Array) -> Array:
        """max Q(s)."""
        return self.critic(self.scaling(observations)).max(axis=-1)


class State(NamedTuple):
    agent: DiscreteCQLAgent
    target: MLP
    """Q', the moving average of Q."""
    optimiser: optax.OptState


class DiscreteCQL(Algorithm):
    config_type = Config

    def __init__(self, config: Config, spec: Spec, steps: int):
        self.config, self.spec = config, spec
        self.stages = (Stage("critic", steps, frozenset({"critic"})),)
        self.optimiser = optax.adam(config.learning_rate)

    def init(self, key: Array) -> State:
        spec = self.spec
        assert isinstance(spec.actions, Discrete)
        q = MLP(spec.observation_size, self.config.hidden, spec.actions.count, key)
        agent = DiscreteCQLAgent(spec.scaling("observation"), q, spec.actions)
        return State(agent, jax.tree.map(jnp.copy, q), self.optimiser.init(q))

    def update(self, stage: Stage, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        agent, config = state.agent, self.config
        observations, following = agent.scaling(batch["observations"]), agent.scaling(batch["next_observations"])
        best = agent.actions.action(agent.critic(following))
        next_values = jnp.take_along_axis(state.target(following), best[:, None], axis=1)[:, 0]
        targets = losses.td_target(batch["rewards"], batch["discounts"], next_values)

        def loss(q: MLP) -> tuple[Array, Metrics]:
            values = q(observations)
            taken = jnp.sum(values * agent.actions.scale(batch["actions"]), axis=-1)
            error = 0.5 * jnp.mean((targets - taken) ** 2)
            penalty = jnp.mean(jax.nn.logsumexp(values, axis=-1) - taken)
            return error + config.penalty_weight * penalty, {"value": taken.mean(), "penalty": penalty}

        descent = Descent({"critic": self.optimiser}, {"critic": state.optimiser})
        q = descent.step("critic", agent.critic, loss)
        target = losses.moving_average(state.target, q, config.target_rate)
        return State(replace(agent, critic=q), target, descent.states["critic"]), descent.metrics
