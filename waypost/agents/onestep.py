"""One-step RL (Brandfonbrener, Whitney, Ranganath, Bruna; NeurIPS 2021): improve on the behaviour policy once.

Three stages, each of which keeps fixed what the stages before it learned:

    b(a|s)     the behaviour, by likelihood: maximise E log b(a|s)
    Q(s, a)    the value of the behaviour: minimise E (r + gamma (1 - terminal) Q'(s', a') - Q(s, a))^2,
               where a' is the action the data took in s'; the target Q' follows Q by a moving average
    pi(a|s)    the policy, which starts as a copy of b: maximise
               E exp(beta A(s, a)) log pi(a|s), the weight capped                `exponential`
                   where A(s, a) = Q(s, a) - mean of Q(s, a~) over samples a~ ~ b(.|s)
               E beta Q(s, a~) - KL(pi(.|s) || b(.|s)), with a~ ~ pi(.|s)        `reverse-kl`
                   where KL is the mean of log pi - log b over more samples of pi

Q only ever evaluates the policy that was recorded, and is never fitted to its own values of actions outside the data.

A row at which the recording stopped although the task went on has no a'. As in the original, such rows are left out of
all three stages. Both b and pi are the tanh of a Gaussian whose log standard deviation a tanh keeps in [-5, 0]. The
policy acts with the tanh of its mean. The original does not scale observations; here it is a setting.

Beta is the original's temperature of the `exponential` operator, and 1 / alpha of its `reverse-kl` one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from waypost.agents import losses
from waypost.agents.agent import Agent, Algorithm, Array, Arrays, Batch, Descent, Memory, Metrics, Settings, Spec, Stage
from waypost.agents.nets import MLP, Continuous, Scaling, TanhGaussian, Unscaled, side_by_side
from waypost.agents.settings import Standardise, Weighing
from waypost.data import prepare
from waypost.data.dataset import Dataset
from waypost.errors import WaypostError

EDGE = 1e-4
"""How far inside (-1, 1) the data's actions are clipped for their likelihood."""
LOG_STD_RANGE = (-5.0, 0.0)
"""Range of the log standard deviation of behaviour and policy."""
TARGET_EVERY = 2
"""Updates of Q between those of Q'."""


@dataclass(frozen=True)
class Config(Settings):
    """Settings of One-step RL; the defaults are the original's."""

    operator: Literal["exponential", "reverse-kl"] = "exponential"
    """How the policy is improved: weighted likelihood of the data's actions, or Q under a KL to the behaviour."""
    inverse_temperature: float = 1.0
    """Beta: weight of Q against staying close to the behaviour."""
    advantages: Weighing = "plain"
    """Advantages in the exponential operator: as they are, or with mean 0 and standard deviation 1 in each batch."""
    weight_cap: float = 100.0
    """Largest weight a transition can get with the exponential operator."""
    samples: int = 10
    """Actions drawn in each state: of the behaviour for the mean of Q, of the policy for the KL."""
    behaviour_steps: int = 500_000
    """Updates of the behaviour; 0 = as many as the run's steps, which count updates of the policy."""
    value_steps: int = 2_000_000
    """Updates of Q; 0 = as many as the run's steps."""
    discount: float = 0.99
    """Gamma."""
    target_rate: float = 0.005
    """Share of Q that moves into the target Q' every second step."""
    learning_rate: float = 1e-4
    """Adam's step size in every stage, constant."""
    observation_scaling: Standardise = False
    """Scale observations to mean 0 and standard deviation 1, or robustly."""
    hidden: tuple[int, ...] = (1024, 1024)
    """Hidden layers of every network."""
    batch_size: int = 512
    """Transitions per update."""


class OneStepAgent(Agent):
    """pi(a|s), and Q(s, a) for inspection."""

    policy: TanhGaussian
    q: MLP
    actions: Continuous
    scaling: Scaling | Unscaled

    def act(self, observations: Array, memory: Memory = ()) -> tuple[Array, Memory]:
        return self.actions.action(self.policy.mode(self.scaling(observations))), memory

    def value(self, observations: Array) -> Array:
        """Q of the policy's action: the return if the behaviour continues after it."""
        scaled = self.scaling(observations)
        return self.q_of(scaled, self.policy.mode(scaled))

    def q_of(self, observations: Array, actions: Array) -> Array:
        """Q of scaled observations and actions, which may have leading axes."""
        return self.q(side_by_side(observations, actions))[..., 0]


class State(NamedTuple):
    agent: OneStepAgent
    behaviour: TanhGaussian
    """b; the policy is a copy of it until its own stage."""
    target: MLP
    """Q', the moving average of Q."""
    q_updates: Array
    """Updates of Q so far."""
    optimisers: dict[str, optax.OptState]


class OneStep(Algorithm):
    config_type = Config

    def __init__(self, config: Config, spec: Spec, steps: int):
        self.config, self.spec = config, spec
        self.stages = (
            Stage("behaviour", config.behaviour_steps or steps, frozenset({"behaviour"})),
            Stage("value", config.value_steps or steps, frozenset({"q"})),
            Stage("policy", steps, frozenset({"policy"})),
        )
        self.optimiser = optax.adam(config.learning_rate)

    @classmethod
    def prepare(cls, config: Config, dataset: Dataset) -> tuple[Arrays, Spec]:
        """(s, a, r, s', a', gamma (1 - terminal)) of every row whose next action is known or not needed."""
        actions = dataset.require("actions")
        known = dataset.terminals | ~dataset.ends
        if not known.any():
            raise WaypostError(f"{dataset.name}: no row is followed by another or by the task's end; nothing to learn")
        arrays = prepare.transitions(dataset, config.discount, known)
        arrays["next_actions"] = np.concatenate([actions[1:], actions[:1]])[known]
        scaled = config.observation_scaling
        return arrays, Spec.of(dataset, **(prepare.observation_scaling(dataset, scaled) if scaled else {}))

    def init(self, key: Array) -> State:
        spec, hidden = self.spec, self.config.hidden
        behaviour_key, q_key = jax.random.split(key)
        behaviour = TanhGaussian(
            spec.observation_size, hidden, spec.action_width, behaviour_key, LOG_STD_RANGE, mapped=True
        )
        q = MLP(spec.observation_size + spec.action_width, hidden, 1, q_key)
        policy, target = (jax.tree.map(jnp.copy, net) for net in (behaviour, q))
        trained = {"behaviour": behaviour, "q": q, "policy": policy}
        agent = OneStepAgent(policy, q, Continuous(spec.action_low, spec.action_high), spec.observation_scaling)
        optimisers = {part: self.optimiser.init(net) for part, net in trained.items()}
        return State(agent, behaviour, target, jnp.zeros((), jnp.int32), optimisers)

    def update(self, stage: Stage, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        descent = Descent(dict.fromkeys(state.optimisers, self.optimiser), state.optimisers)
        if "behaviour" in stage.parts:
            state = self._update_behaviour(descent, state, batch)
        elif "q" in stage.parts:
            state = self._update_q(descent, state, batch)
        else:
            state = self._update_policy(descent, state, batch, key)
        return state._replace(optimisers=descent.states), descent.metrics

    def _update_behaviour(self, descent: Descent, state: State, batch: Batch) -> State:
        """Likelihood; the policy is updated too, so that its own stage starts from the behaviour."""
        observations = state.agent.scaling(batch["observations"])

        def loss(b: TanhGaussian) -> Array:
            return -b.log_likelihood(observations, self._inside(state, batch)).mean()

        behaviour = descent.step("behaviour", state.behaviour, loss)
        return state._replace(agent=replace(state.agent, policy=behaviour), behaviour=behaviour)

    def _update_q(self, descent: Descent, state: State, batch: Batch) -> State:
        """SARSA: the next action is the one that was taken."""
        agent = state.agent
        actions, next_actions = (agent.actions.scale(batch[name]) for name in ("actions", "next_actions"))
        observations, following = (agent.scaling(batch[name]) for name in ("observations", "next_observations"))
        next_values = replace(agent, q=state.target).q_of(following, next_actions)
        targets = losses.td_target(batch["rewards"], batch["discounts"], next_values)

        def loss(q: MLP) -> tuple[Array, Metrics]:
            values = replace(agent, q=q).q_of(observations, actions)
            return jnp.mean((targets - values) ** 2), {"value": values.mean()}

        q, updates = descent.step("q", agent.q, loss), state.q_updates + 1
        target = jax.lax.cond(
            updates % TARGET_EVERY == 0,
            lambda target: losses.moving_average(target, q, self.config.target_rate),
            lambda target: target,
            state.target,
        )
        return state._replace(agent=replace(agent, q=q), target=target, q_updates=updates)

    def _update_policy(self, descent: Descent, state: State, batch: Batch, key: Array) -> State:
        """One of the two operators."""
        config, agent, behaviour = self.config, state.agent, state.behaviour
        observations = agent.scaling(batch["observations"])

        def weighted(pi: TanhGaussian) -> tuple[Array, Metrics]:
            samples = behaviour.sample(observations, key, (config.samples,))[0]
            advantages = agent.q_of(observations, agent.actions.scale(batch["actions"]))
            advantages -= agent.q_of(observations, samples).mean(axis=0)
            if config.advantages == "standardised":
                advantages = losses.standardised(advantages, jnp.ones_like(advantages))
            weights = losses.exponential_weight(advantages, config.inverse_temperature, config.weight_cap)
            likelihood = pi.log_likelihood(observations, self._inside(state, batch))
            return -jnp.mean(weights * likelihood), {"weight": weights.mean()}

        def constrained(pi: TanhGaussian) -> tuple[Array, Metrics]:
            mean, log_std = pi(observations)
            inner = mean + jnp.exp(log_std) * jax.random.normal(key, (1 + config.samples, *mean.shape))
            values = agent.q_of(observations, jnp.tanh(inner[0]))
            # The Jacobian of the tanh cancels, so the ratio of the densities is that of the Gaussians inside.
            ours = losses.gaussian_log_likelihood(mean, log_std, inner[1:])
            divergence = jnp.mean(ours - losses.gaussian_log_likelihood(*behaviour(observations), inner[1:]))
            return divergence - config.inverse_temperature * values.mean(), {"divergence": divergence}

        policy = descent.step("policy", agent.policy, weighted if config.operator == "exponential" else constrained)
        return state._replace(agent=replace(agent, policy=policy))

    def _inside(self, state: State, batch: Batch) -> Array:
        """The data's actions, scaled and clipped inside the bounds, where their likelihood would be infinite."""
        return jnp.clip(state.agent.actions.scale(batch["actions"]), -1.0 + EDGE, 1.0 - EDGE)
