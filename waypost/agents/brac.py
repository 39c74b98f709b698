"""BRAC, behaviour-regularised actor-critic (Wu, Tucker, Nachum; 2019), with the KL divergence.

First, as a stage of its own, the density of the data's actions, tanh of a Gaussian:

    b(a|s)       maximise E log b(a|s), while the entropy of b is held at -dim(a) or more: as in SAC a weight
                 w >= 0 grows where it is less, and w log b(a~|s), a~ ~ b, is subtracted

Then an actor and a critic that pay for leaving it. With 4 samples a_i = tanh(u_i) of pi(.|s),

    D(s)         = mean_i [log pi(a_i|s) - log b(a_i|s)], an estimate of KL(pi || b) in s
    Q(s, a)      two networks. Minimise the squared distance to
                 y = r + gamma (1 - terminal) [min Q'(s', a_1) - alpha D(s')]       BRAC-v, `value_penalty`
                 y = r + gamma (1 - terminal) min Q'(s', a_1)                       BRAC-p
    pi(a|s)      tanh of a Gaussian. Minimise E alpha D(s) - min Q(s, a_1), for the first 20 000 steps without Q

Q' follows Q slowly. It acts with tanh of the mean. Both densities are tanh of Gaussians, so in D the tanh's share
cancels and D is taken before the tanh, where no action is at a bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from waypost.agents import losses
from waypost.agents.agent import (
    Agent,
    Algorithm,
    Array,
    Batch,
    Columns,
    Memory,
    Metrics,
    Spec,
    Stage,
    check_settings,
    descend,
    observation_scaling,
    transitions,
)
from waypost.agents.nets import Bounds, Choices, Scaling, TanhGaussian, Twin, beside
from waypost.data.dataset import Dataset

LOG_STD_RANGE = (-5.0, 0.0)
"""Where a tanh maps the log spreads of policy and behaviour."""
EDGE = 1e-3
"""How far inside (-1, 1) recorded actions are taken to lie; at a bound they would have no likelihood."""


@dataclass(frozen=True)
class Config:
    """Settings of BRAC; the defaults are the original's."""

    divergence_weight: float = 0.1
    """Alpha: the price of leaving the behaviour density."""
    value_penalty: bool = True
    """Pay that price in the target of Q too (BRAC-v), not only in the policy's loss (BRAC-p)."""
    samples: int = 4
    """Samples of the policy per state that the divergence is estimated from."""
    warmup_steps: int = 20_000
    """Updates at the start in which the policy sees no Q and only follows the behaviour density."""
    behaviour_steps: int = 300_000
    """Updates of the behaviour density, which come first; 0 = as many as the run's steps."""
    behaviour_entropy: bool = True
    """Hold the behaviour density's entropy at -dim(a) or more."""
    discount: float = 0.99
    """Gamma."""
    target_rate: float = 0.005
    """Share of Q that moves into the target Q' each step."""
    value_learning_rate: float = 1e-3
    """Adam's step size for Q, constant."""
    policy_learning_rate: float = 3e-4
    """Adam's step size for the policy, constant."""
    behaviour_learning_rate: float = 5e-4
    """Adam's step size for the behaviour density and the weight of its entropy, constant."""
    value_hidden: tuple[int, ...] = (300, 300)
    """Hidden layers of each Q network."""
    policy_hidden: tuple[int, ...] = (200, 200)
    """Hidden layers of the policy and of the behaviour density."""
    observation_scaling: bool = False
    """Scale observations to mean 0 and deviation 1; the original reads them as they are."""
    batch_size: int = 256
    """Transitions per update."""

    def __post_init__(self) -> None:
        check_settings(
            self,
            divergence_weight=(self.divergence_weight >= 0, "0 or more"),
            samples=(self.samples >= 1, "1 or more"),
            warmup_steps=(self.warmup_steps >= 0, "0 or more"),
            behaviour_steps=(self.behaviour_steps >= 0, "0 or more"),
            discount=(0 < self.discount <= 1, "more than 0, at most 1"),
            target_rate=(0 < self.target_rate <= 1, "more than 0, at most 1"),
        )


class BRACAgent(Agent):
    """pi(a|s)."""

    scaling: Scaling
    policy: TanhGaussian
    actions: Bounds | Choices

    def act(self, observations: Array, memory: Memory = ()) -> tuple[Array, Memory]:
        return self.actions.action(self.policy.mode(self.scaling(observations))), memory


class State(NamedTuple):
    """What training changes."""

    agent: BRACAgent
    behaviour: TanhGaussian
    entropy_weight: Array
    value: Twin
    target: Twin
    step: Array
    """Updates of the policy so far."""
    optimisers: dict[str, optax.OptState]


class BRAC(Algorithm):
    """BRAC for given settings, data shape and number of steps."""

    config_type = Config

    def __init__(self, config: Config, spec: Spec, steps: int):
        self.config, self.spec = config, spec
        self.stages = (
            Stage("behaviour", config.behaviour_steps or steps, frozenset({"behaviour"})),
            Stage("value and policy", steps, frozenset({"value", "policy"})),
        )
        self.optimisers = {
            "behaviour": optax.adam(config.behaviour_learning_rate),
            "entropy": optax.adam(config.behaviour_learning_rate),
            "value": optax.adam(config.value_learning_rate),
            "policy": optax.adam(config.policy_learning_rate),
        }

    @classmethod
    def prepare(cls, config: Config, dataset: Dataset) -> tuple[Columns, Spec]:
        spec = Spec.of(dataset, **observation_scaling(dataset, config.observation_scaling))
        return transitions(dataset, config.discount), spec

    def init(self, key: Array) -> State:
        config, spec = self.config, self.spec
        size, width = spec.observation_size, spec.action_width
        behaviour_key, value_key, policy_key = jax.random.split(key, 3)
        scaling = Scaling(spec.statistics["observation_mean"], spec.statistics["observation_std"])
        policy, behaviour = (
            TanhGaussian(size, config.policy_hidden, width, each, LOG_STD_RANGE, mapped=True)
            for each in (policy_key, behaviour_key)
        )
        value = Twin(size + width, config.value_hidden, value_key)
        entropy_weight = jnp.full((), float(config.behaviour_entropy))
        trained = {"behaviour": behaviour, "entropy": entropy_weight, "value": value, "policy": policy}
        return State(
            BRACAgent(scaling, policy, spec.actions),
            behaviour,
            entropy_weight,
            value,
            jax.tree.map(jnp.copy, value),
            jnp.zeros((), jnp.int32),
            {part: self.optimisers[part].init(net) for part, net in trained.items()},
        )

    def update(self, stage: Stage, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        if "behaviour" in stage.parts:
            return self._update_behaviour(state, batch, key)
        return self._update_value_and_policy(state, batch, key)

    def _update_behaviour(self, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        agent = state.agent
        observations = agent.scaling(batch["observations"])
        actions = jnp.clip(agent.actions.scale(batch["actions"]), -1.0 + EDGE, 1.0 - EDGE)

        def loss(net: TanhGaussian) -> tuple[Array, Array]:
            entropy = -net.sample(observations, key)[1].mean()
            return -state.entropy_weight * entropy - net.log_likelihood(observations, actions).mean(), entropy

        (value, entropy), gradient = jax.value_and_grad(loss, has_aux=True)(state.behaviour)
        behaviour, optimisers = self._step(state, "behaviour", state.behaviour, gradient)
        state = state._replace(behaviour=behaviour, optimisers=optimisers)
        if self.config.behaviour_entropy:
            above = entropy + actions.shape[-1]
            weight, optimisers = self._step(state, "entropy", state.entropy_weight, above)
            state = state._replace(entropy_weight=jnp.maximum(weight, 0.0), optimisers=optimisers)
        return state, {"behaviour_loss": value, "behaviour_entropy": entropy}

    def _update_value_and_policy(self, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        agent, config = state.agent, self.config
        target_key, policy_key = jax.random.split(key)
        observations, following = (agent.scaling(batch[name]) for name in ("observations", "next_observations"))
        actions = agent.actions.scale(batch["actions"])
        metrics: Metrics = {}

        next_actions, divergences = self._leave(agent.policy, state.behaviour, following, target_key)
        next_values = state.target(beside(following, next_actions)).min(axis=0)
        if config.value_penalty:
            next_values -= config.divergence_weight * divergences
        targets = losses.td_target(batch["rewards"], batch["discounts"], next_values)

        def value_loss(net: Twin) -> tuple[Array, Array]:
            values = net(beside(observations, actions))
            return ((values - targets) ** 2).mean(axis=1).sum(), values.mean()

        (metrics["value_loss"], metrics["value"]), gradient = jax.value_and_grad(value_loss, has_aux=True)(state.value)
        value, optimisers = self._step(state, "value", state.value, gradient)
        state = state._replace(value=value, optimisers=optimisers)
        started = (state.step >= config.warmup_steps).astype(jnp.float32)

        def policy_loss(net: TanhGaussian) -> tuple[Array, Array]:
            chosen, divergences = self._leave(net, state.behaviour, observations, policy_key)
            divergence = divergences.mean()
            values = value(beside(observations, chosen)).min(axis=0)
            return config.divergence_weight * divergence - started * values.mean(), divergence

        (metrics["policy_loss"], metrics["divergence"]), gradient = jax.value_and_grad(policy_loss, has_aux=True)(
            agent.policy
        )
        policy, optimisers = self._step(state, "policy", agent.policy, gradient)
        return state._replace(
            agent=replace(agent, policy=policy),
            target=losses.moving_average(state.target, value, config.target_rate),
            step=state.step + 1,
            optimisers=optimisers,
        ), metrics

    def _leave(
        self, policy: TanhGaussian, behaviour: TanhGaussian, observations: Array, key: Array
    ) -> tuple[Array, Array]:
        """An action of the policy in each state, and D: how far the policy is from the behaviour there."""
        mean, log_std = policy(observations)
        inner = mean + jnp.exp(log_std) * jax.random.normal(key, (self.config.samples, *mean.shape))
        ours = losses.gaussian_log_likelihood(mean, log_std, inner)
        theirs = losses.gaussian_log_likelihood(*behaviour(observations), inner)
        return jnp.tanh(inner[0]), (ours - theirs).mean(axis=0)

    def _step(self, state: State, part: str, net: Any, gradient: Any) -> tuple[Any, dict[str, optax.OptState]]:
        net, optimiser = descend(self.optimisers[part], state.optimisers[part], net, gradient)
        return net, {**state.optimisers, part: optimiser}
