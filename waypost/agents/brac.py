"""BRAC, behaviour-regularised actor-critic (Wu, Tucker, Nachum; 2019), with the KL divergence.

The first stage learns the density of the data's actions, tanh of a Gaussian:

    b(a|s)       maximise E log b(a|s), while the entropy of b is kept at -dim(a) or more: as in SAC, a weight
                 w >= 0 grows while it is less, and w log b(a~|s), a~ ~ b, is subtracted

The second stage learns an actor and a critic with a penalty for leaving b. With 4 samples a_i = tanh(u_i) of pi(.|s),

    D(s)         = mean_i [log pi(a_i|s) - log b(a_i|s)], an estimate of KL(pi || b) in s
    Q(s, a)      two networks. Minimise the squared distance to
                 y = r + gamma (1 - terminal) [min Q'(s', a_1) - alpha D(s')]       BRAC-v, `value_penalty`
                 y = r + gamma (1 - terminal) min Q'(s', a_1)                       BRAC-p
    pi(a|s)      tanh of a Gaussian. Minimise E alpha D(s) - min Q(s, a_1), for the first 20 000 steps without Q

Q' follows Q by a moving average. It acts with tanh of the mean. Both densities are tanh of Gaussians, so the Jacobian
of the tanh cancels in D, and D is computed before the tanh, where no action is at a bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from waypost.agents import losses
from waypost.agents.actions import Actions
from waypost.agents.agent import Agent, Algorithm, Array, Batch, Descent, Memory, Metrics, Settings, Spec, Stage
from waypost.agents.nets import Scaling, TanhGaussian, Twin, side_by_side
from waypost.agents.settings import Standardise

LOG_STD_RANGE = (-5.0, 0.0)
"""Range into which a tanh maps the log standard deviations of policy and behaviour."""
EDGE = 1e-3
"""How far inside (-1, 1) recorded actions are clipped; at a bound they would have no likelihood."""


@dataclass(frozen=True)
class Config(Settings):
    """Settings of BRAC; the defaults are the original's."""

    divergence_weight: float = 0.1
    """Alpha: weight of the penalty for leaving the behaviour density."""
    value_penalty: bool = True
    """Apply the penalty in the target of Q too (BRAC-v), not only in the policy's loss (BRAC-p)."""
    samples: int = 4
    """Samples of the policy per state that estimate the divergence."""
    warmup_steps: int = 20_000
    """Updates at the start in which the policy ignores Q and only follows the behaviour density."""
    behaviour_steps: int = 300_000
    """Updates of the behaviour density, which come first; 0 = as many as the run's steps."""
    behaviour_entropy: bool = True
    """Keep the behaviour density's entropy at -dim(a) or more."""
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
    observation_scaling: Standardise = False
    """Scale observations to mean 0 and standard deviation 1, or robustly; the original does not scale."""
    batch_size: int = 256
    """Transitions per update."""


class BRACAgent(Agent):
    """pi(a|s)."""

    scaling: Scaling
    policy: TanhGaussian
    actions: Actions

    def act(self, observations: Array, memory: Memory = ()) -> tuple[Array, Memory]:
        return self.actions.action(self.policy.mode(self.scaling(observations))), memory


class State(NamedTuple):
    agent: BRACAgent
    behaviour: TanhGaussian
    entropy_weight: Array
    value: Twin
    target: Twin
    step: Array
    """Updates of the policy so far."""
    optimisers: dict[str, optax.OptState]


class BRAC(Algorithm):
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

    def init(self, key: Array) -> State:
        config, spec = self.config, self.spec
        size, width = spec.observation_size, spec.action_width
        behaviour_key, q_key, policy_key = jax.random.split(key, 3)
        policy, behaviour = (
            TanhGaussian(size, config.policy_hidden, width, each, LOG_STD_RANGE, mapped=True)
            for each in (policy_key, behaviour_key)
        )
        q = Twin(size + width, config.value_hidden, q_key)
        entropy_weight = jnp.full((), float(config.behaviour_entropy))
        trained = {"behaviour": behaviour, "entropy": entropy_weight, "value": q, "policy": policy}
        agent = BRACAgent(spec.scaling("observation"), policy, spec.actions)
        optimisers = {part: self.optimisers[part].init(net) for part, net in trained.items()}
        target, step = jax.tree.map(jnp.copy, q), jnp.zeros((), jnp.int32)
        return State(agent, behaviour, entropy_weight, q, target, step, optimisers)

    def update(self, stage: Stage, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        descent = Descent(self.optimisers, state.optimisers)
        step = self._update_behaviour if "behaviour" in stage.parts else self._update_q_and_policy
        return step(descent, state, batch, key)._replace(optimisers=descent.states), descent.metrics

    def _update_behaviour(self, descent: Descent, state: State, batch: Batch, key: Array) -> State:
        agent = state.agent
        observations = agent.scaling(batch["observations"])
        actions = jnp.clip(agent.actions.scale(batch["actions"]), -1.0 + EDGE, 1.0 - EDGE)

        def loss(b: TanhGaussian) -> tuple[Array, Metrics]:
            entropy = -b.sample(observations, key)[1].mean()
            value = -state.entropy_weight * entropy - b.log_likelihood(observations, actions).mean()
            return value, {"behaviour_entropy": entropy}

        state = state._replace(behaviour=descent.step("behaviour", state.behaviour, loss))
        if not self.config.behaviour_entropy:
            return state
        above = descent.metrics["behaviour_entropy"] + actions.shape[-1]
        weight = descent.follow("entropy", state.entropy_weight, above)
        return state._replace(entropy_weight=jnp.maximum(weight, 0.0))

    def _update_q_and_policy(self, descent: Descent, state: State, batch: Batch, key: Array) -> State:
        agent, config = state.agent, self.config
        target_key, policy_key = jax.random.split(key)
        observations, following = (agent.scaling(batch[name]) for name in ("observations", "next_observations"))
        actions = agent.actions.scale(batch["actions"])

        next_actions, divergences = self._leave(agent.policy, state.behaviour, following, target_key)
        next_values = state.target(side_by_side(following, next_actions)).min(axis=0)
        if config.value_penalty:
            next_values -= config.divergence_weight * divergences
        targets = losses.td_target(batch["rewards"], batch["discounts"], next_values)
        pairs = side_by_side(observations, actions)
        q = descent.step("value", state.value, lambda q: losses.twin_error(q(pairs), targets))
        started = (state.step >= config.warmup_steps).astype(jnp.float32)

        def policy_loss(pi: TanhGaussian) -> tuple[Array, Metrics]:
            chosen, divergences = self._leave(pi, state.behaviour, observations, policy_key)
            divergence = divergences.mean()
            values = q(side_by_side(observations, chosen)).min(axis=0)
            return config.divergence_weight * divergence - started * values.mean(), {"divergence": divergence}

        policy = descent.step("policy", agent.policy, policy_loss)
        target = losses.moving_average(state.target, q, config.target_rate)
        agent = replace(agent, policy=policy)
        return state._replace(agent=agent, value=q, target=target, step=state.step + 1)

    def _leave(
        self, policy: TanhGaussian, behaviour: TanhGaussian, observations: Array, key: Array
    ) -> tuple[Array, Array]:
        """An action of the policy in each state, and D: the divergence of the policy from the behaviour there."""
        mean, log_std = policy(observations)
        inner = mean + jnp.exp(log_std) * jax.random.normal(key, (self.config.samples, *mean.shape))
        ours = losses.gaussian_log_likelihood(mean, log_std, inner)
        theirs = losses.gaussian_log_likelihood(*behaviour(observations), inner)
        return jnp.tanh(inner[0]), (ours - theirs).mean(axis=0)
