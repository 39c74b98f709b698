"""IQL, implicit Q-learning (Kostrikov, Nair, Levine; 2021).

Three parts learn, and none of them evaluates an action that is not in the data:

    V(s)       an upper expectile of Q over the data's actions. With u = min Q'(s, a) - V(s), minimise
               E |tau - 1(u < 0)| u^2
    pi(a|s)    the policy, by weighted likelihood: maximise
               E exp(beta (min Q'(s, a) - V(s))) log pi(a|s), the weight capped
    Q(s, a)    two networks with the same target: minimise
               E sum_i (r + gamma (1 - terminal) V(s') - Q_i(s, a))^2

in this order at every step, so that the policy and Q see the new V; then the target Q' follows Q by a moving
average. With tau towards 1, V approaches the best outcome in the data.

The original does not scale observations; here it is a setting. The policy is a Gaussian whose mean is kept inside the
bounds by a tanh while the Gaussian itself is not squashed; for discrete actions it is a categorical distribution. It
acts with the likeliest action.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from waypost.agents import losses
from waypost.agents.actions import ActionPolicy, Actions, inside, policy
from waypost.agents.agent import Agent, Algorithm, Array, Arrays, Batch, Descent, Memory, Metrics, Settings, Spec, Stage
from waypost.agents.nets import MLP, Scaling, Twin, Unscaled, side_by_side
from waypost.agents.settings import Standardise, Weighing
from waypost.data import prepare
from waypost.data.dataset import Dataset

EDGE = 1e-5
"""How far inside [-1, 1] the data's scaled actions are clipped: a tanh never reaches 1."""


@dataclass(frozen=True)
class Config(Settings):
    """Settings of IQL; the defaults are the original's for locomotion."""

    tau: float = 0.7
    """Expectile of Q that V estimates, towards 1 = towards the best action in the data."""
    inverse_temperature: float = 3.0
    """Beta: weight of the advantage against staying close to the data."""
    advantages: Weighing = "plain"
    """Advantages in the weights: as they are, or with mean 0 and standard deviation 1 in each batch."""
    weight_cap: float = 100.0
    """Largest weight a transition can get in the policy's loss."""
    discount: float = 0.99
    """Gamma."""
    target_rate: float = 0.005
    """Share of Q that moves into the target Q' each step."""
    value_learning_rate: float = 3e-4
    """Adam's step size for V and Q, constant."""
    policy_learning_rate: float = 3e-4
    """Adam's step size for the policy at the start; it goes to zero along a cosine."""
    observation_scaling: Standardise = False
    """Scale observations to mean 0 and standard deviation 1, or robustly."""
    hidden: tuple[int, ...] = (256, 256)
    """Hidden layers of every network."""
    batch_size: int = 256
    """Transitions per update."""


class IQLAgent(Agent):
    """pi(a|s), and V(s) for inspection."""

    policy: ActionPolicy
    value_net: MLP
    actions: Actions
    scaling: Scaling | Unscaled

    def act(self, observations: Array, memory: Memory = ()) -> tuple[Array, Memory]:
        return self.actions.action(self.policy.mode(self.scaling(observations))), memory

    def value(self, observations: Array) -> Array:
        return self.value_net(self.scaling(observations))[..., 0]


class State(NamedTuple):
    agent: IQLAgent
    q: Twin
    """Q of states and actions."""
    target: Twin
    """Q', its moving average."""
    optimisers: dict[str, optax.OptState]


class IQL(Algorithm):
    config_type = Config

    def __init__(self, config: Config, spec: Spec, steps: int):
        self.config, self.spec = config, spec
        self.stages = (Stage("joint", steps, frozenset({"value", "policy", "q"})),)
        self.optimisers = {
            "value": optax.adam(config.value_learning_rate),
            "policy": optax.adam(optax.cosine_decay_schedule(config.policy_learning_rate, max(steps, 1))),
            "q": optax.adam(config.value_learning_rate),
        }

    @classmethod
    def prepare(cls, config: Config, dataset: Dataset) -> tuple[Arrays, Spec]:
        scaled = config.observation_scaling
        scaling = prepare.observation_scaling(dataset, scaled) if scaled else {}
        return prepare.transitions(dataset, config.discount), Spec.of(dataset, **scaling)

    def init(self, key: Array) -> State:
        spec, hidden = self.spec, self.config.hidden
        value_key, policy_key, q_key = jax.random.split(key, 3)
        agent = IQLAgent(
            policy(spec.observation_size, hidden, spec.actions, policy_key, squashed=True),
            MLP(spec.observation_size, hidden, 1, value_key),
            spec.actions,
            spec.observation_scaling,
        )
        q = Twin(spec.observation_size + spec.action_width, hidden, q_key)
        trained = {"value": agent.value_net, "policy": agent.policy, "q": q}
        optimisers = {part: self.optimisers[part].init(net) for part, net in trained.items()}
        return State(agent, q, jax.tree.map(jnp.copy, q), optimisers)

    def update(self, stage: Stage, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        config, agent = self.config, state.agent
        observations = agent.scaling(batch["observations"])
        actions = inside(agent.actions, agent.actions.scale(batch["actions"]), EDGE)
        pairs = side_by_side(observations, actions)
        expected = state.target(pairs).min(axis=0)
        descent = Descent(self.optimisers, state.optimisers)

        def value_loss(v: MLP) -> tuple[Array, Metrics]:
            values = v(observations)[..., 0]
            return losses.expectile(expected - values, config.tau).mean(), {"value": values.mean()}

        agent = replace(agent, value_net=descent.step("value", agent.value_net, value_loss))
        advantages = expected - agent.value(batch["observations"])
        if config.advantages == "standardised":
            advantages = losses.standardised(advantages, jnp.ones_like(advantages))
        weights = losses.exponential_weight(advantages, config.inverse_temperature, config.weight_cap)

        def policy_loss(pi: ActionPolicy) -> tuple[Array, Metrics]:
            return -jnp.mean(weights * pi.log_likelihood(observations, actions)), {"weight": weights.mean()}

        agent = replace(agent, policy=descent.step("policy", agent.policy, policy_loss))
        next_values = agent.value(batch["next_observations"])
        targets = losses.td_target(batch["rewards"], batch["discounts"], next_values)
        q = descent.step("q", state.q, lambda q: jnp.sum((targets - q(pairs)) ** 2, axis=0).mean())
        target = losses.moving_average(state.target, q, config.target_rate)
        return State(agent, q, target, descent.states), descent.metrics
