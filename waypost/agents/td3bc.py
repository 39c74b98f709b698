"""TD3+BC: the deterministic actor-critic TD3 with a pull towards the data's actions (Fujimoto, Gu; NeurIPS 2021).

Two parts learn. Actions are scaled to [-1, 1], states standardised.

    Q(s, a)    two networks. With a~ = clip(pi'(s') + clip(noise, +-c), +-1), both minimise
               E (r + gamma (1 - terminal) min Q'(s', a~) - Q(s, a))^2
    pi(s)      deterministic, through a tanh. Every second step it maximises
               E lambda Q_1(s, pi(s)) - mean over dimensions of (pi(s) - a)^2,   lambda = alpha / mean|Q_1(s, pi(s))|
               with the new Q; no gradient flows through lambda

The targets Q' and pi' follow by a moving average, in the same steps as pi. It acts with pi(s).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from waypost.agents import losses
from waypost.agents.agent import Agent, Algorithm, Array, Arrays, Batch, Descent, Memory, Metrics, Settings, Spec, Stage
from waypost.agents.nets import MLP, Continuous, Scaling, Twin, side_by_side
from waypost.agents.settings import Standardise
from waypost.data import prepare
from waypost.data.dataset import Dataset


@dataclass(frozen=True)
class Config(Settings):
    """Settings of TD3+BC; the defaults are the original's for all locomotion data."""

    value_weight: float = 2.5
    """Weight of Q, divided by mean |Q|, against the squared error to the data's actions: the paper's alpha."""
    observation_scaling: Standardise = True
    """Scale observations to mean 0 and standard deviation 1, or robustly."""
    target_noise: float = 0.2
    """Standard deviation of the noise on the target policy's action, on the scale where actions lie in [-1, 1]."""
    target_noise_clip: float = 0.5
    """Bound to which that noise is clipped."""
    policy_period: int = 2
    """Updates of Q per update of the policy and the targets."""
    discount: float = 0.99
    """Gamma."""
    target_rate: float = 0.005
    """Share of Q and pi that moves into the targets each time."""
    critic_learning_rate: float = 3e-4
    """Adam's step size for Q, constant."""
    policy_learning_rate: float = 3e-4
    """Adam's step size for the policy, constant."""
    critic_hidden: tuple[int, ...] = (256, 256)
    """Hidden layers of each Q network."""
    policy_hidden: tuple[int, ...] = (256, 256)
    """Hidden layers of the policy."""
    batch_size: int = 256
    """Transitions per update."""


class TD3BCAgent(Agent):
    """pi(s), and Q(s, a) for the value of a state."""

    scaling: Scaling
    policy: MLP
    critic: Twin
    actions: Continuous

    def act(self, observations: Array, memory: Memory = ()) -> tuple[Array, Memory]:
        return self.actions.action(jnp.tanh(self.policy(self.scaling(observations)))), memory

    def value(self, observations: Array) -> Array:
        """min Q(s, pi(s))."""
        inputs = self.scaling(observations)
        return self.critic(side_by_side(inputs, jnp.tanh(self.policy(inputs)))).min(axis=0)


class Targets(NamedTuple):
    """Q' and pi', the moving averages."""

    critic: Twin
    policy: MLP


class State(NamedTuple):
    agent: TD3BCAgent
    targets: Targets
    critic_optimiser: optax.OptState
    policy_optimiser: optax.OptState
    policy_loss: Array
    """The last one, reported in steps without an update of the policy."""
    updates: Array
    """Updates so far."""


Delayed = tuple[MLP, optax.OptState, Targets, Array]
"""What changes only when the policy moves: the policy, its optimiser, the targets and the policy's last loss."""


class TD3BC(Algorithm):
    config_type = Config

    def __init__(self, config: Config, spec: Spec, steps: int):
        self.config, self.spec = config, spec
        self.stages = (Stage("critic and policy", steps, frozenset({"critic", "policy"})),)
        self.critic_optimiser = optax.adam(config.critic_learning_rate)
        self.policy_optimiser = optax.adam(config.policy_learning_rate)

    @classmethod
    def prepare(cls, config: Config, dataset: Dataset) -> tuple[Arrays, Spec]:
        scaling = prepare.observation_scaling(dataset, config.observation_scaling, least=1e-3)
        return prepare.transitions(dataset, config.discount), Spec.of(dataset, **scaling)

    def init(self, key: Array) -> State:
        config, spec = self.config, self.spec
        assert isinstance(spec.actions, Continuous)
        policy_key, q_key = jax.random.split(key)
        policy = MLP(spec.observation_size, config.policy_hidden, spec.action_width, policy_key)
        q = Twin(spec.observation_size + spec.action_width, config.critic_hidden, q_key)
        agent = TD3BCAgent(spec.scaling("observation"), policy, q, spec.actions)
        targets = Targets(*jax.tree.map(jnp.copy, (q, policy)))
        optimisers = self.critic_optimiser.init(q), self.policy_optimiser.init(policy)
        return State(agent, targets, *optimisers, jnp.zeros(()), jnp.zeros((), jnp.int32))

    def update(self, stage: Stage, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        agent, config = state.agent, self.config
        observations, actions = agent.scaling(batch["observations"]), agent.actions.scale(batch["actions"])
        targets = self._targets(state, batch, key)
        descent = Descent({"critic": self.critic_optimiser}, {"critic": state.critic_optimiser})
        pairs = side_by_side(observations, actions)
        q = descent.step("critic", agent.critic, lambda q: losses.twin_error(q(pairs), targets))

        def policy_loss(pi: MLP) -> Array:
            chosen = jnp.tanh(pi(observations))
            values = q.heads[0](side_by_side(observations, chosen))[:, 0]
            closeness = -jnp.mean((chosen - actions) ** 2, axis=-1)
            return losses.constrained_value(values, closeness, config.value_weight).mean()

        def move(policy: MLP, optimiser: optax.OptState, targets: Targets, _: Array) -> Delayed:
            descent = Descent({"policy": self.policy_optimiser}, {"policy": optimiser})
            policy = descent.step("policy", policy, policy_loss)
            targets = losses.moving_average(targets, Targets(q, policy), config.target_rate)
            return policy, descent.states["policy"], targets, descent.metrics["policy_loss"]

        updates = state.updates + 1
        still = agent.policy, state.policy_optimiser, state.targets, state.policy_loss
        policy, policy_optimiser, followers, last = jax.lax.cond(
            updates % config.policy_period == 0, move, lambda *still: still, *still
        )
        agent = replace(agent, critic=q, policy=policy)
        state = State(agent, followers, descent.states["critic"], policy_optimiser, last, updates)
        return state, {**descent.metrics, "policy_loss": last}

    def _targets(self, state: State, batch: Batch, key: Array) -> Array:
        """r + gamma (1 - terminal) min Q'(s', a~), with a~ near the target policy's action."""
        config, targets = self.config, state.targets
        following = state.agent.scaling(batch["next_observations"])
        chosen = jnp.tanh(targets.policy(following))
        noise = config.target_noise * jax.random.normal(key, chosen.shape)
        noise = jnp.clip(noise, -config.target_noise_clip, config.target_noise_clip)
        values = targets.critic(side_by_side(following, jnp.clip(chosen + noise, -1.0, 1.0))).min(axis=0)
        return losses.td_target(batch["rewards"], batch["discounts"], values)
