"""CQL(H), conservative Q-learning for continuous actions (Kumar, Zhou, Tucker, Levine; NeurIPS 2020).

Soft actor-critic whose Q is pushed down away from the data and up at the data. Actions are scaled to [-1, 1].

    Q(s, a)    two networks, each minimising
               E (r + gamma (1 - terminal) [min Q'(s', a') - temperature log pi(a'|s')] - Q(s, a))^2
               + alpha E [log sum_i exp(Q(s, a_i) - log q_i(a_i)) - Q(s, a)],   a' ~ pi(.|s')
               with 10 actions a_i each from the uniform distribution, pi(.|s) and pi(.|s'), all evaluated
               in s, and log q_i the density each was drawn with: a constant, like the actions themselves
    pi(a|s)    tanh of a Gaussian, minimising E temperature log pi(a~|s) - min Q(s, a~), a~ ~ pi(.|s).
               In the first updates log pi(a|s) of the data's action replaces min Q
    temperature   moved, before it is used, so that pi's entropy becomes its target, -1 per action dimension

Q' follows Q by a moving average. Every part sees the others as they were before the update.

The Lagrange version learns a factor on alpha times the penalty that brings this product to a threshold.

It acts with the best, by min Q, of a few samples of pi. Their noise is the same in every state and at every step, so
that the policy is a function of the observation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from waypost.agents import losses
from waypost.agents.agent import Agent, Algorithm, Array, Batch, Descent, Memory, Metrics, Settings, Spec, Stage
from waypost.agents.nets import LOG_STD_RANGE, Continuous, Scaling, TanhGaussian, Twin, side_by_side
from waypost.agents.settings import AT_LEAST_0, Rule, Standardise

LARGEST_FACTOR = 1e6
"""Upper bound of the Lagrange version's factor."""


@dataclass(frozen=True)
class Config(Settings):
    """Settings of CQL; the defaults are those of the POR paper's table, for locomotion."""

    penalty_weight: float = 10.0
    """Weight of the penalty against the squared error: the paper's alpha."""
    lagrange_threshold: float = 0.0
    """Threshold to which a learned factor brings weight times penalty (Lagrange version); 0 = no factor."""
    samples: int = 10
    """Actions from each of the three distributions in the penalty."""
    acting_candidates: int = 10
    """Samples of pi of which the best by Q is taken when acting; 0 = the mean of pi."""
    entropy_in_target: bool = True
    """Whether the entropy of pi counts in the target of Q."""
    entropy_per_dimension: float = -1.0
    """Target entropy of pi, per action dimension."""
    cloning_steps: int = 40_000
    """Updates at the start in which pi clones instead of following Q; they count towards the run's steps."""
    observation_scaling: Standardise = False
    """Scale observations to mean 0 and standard deviation 1, or robustly."""
    discount: float = 0.99
    """Gamma."""
    target_rate: float = 0.005
    """Share of Q that moves into the target Q' each step."""
    critic_learning_rate: float = 3e-4
    """Adam's step size for Q and the Lagrange factor, constant."""
    policy_learning_rate: float = 1e-4
    """Adam's step size for the policy and the temperature, constant."""
    critic_hidden: tuple[int, ...] = (256, 256, 256)
    """Hidden layers of each Q network."""
    policy_hidden: tuple[int, ...] = (256, 256, 256)
    """Hidden layers of the policy."""
    batch_size: int = 256
    """Transitions per update."""

    def rules(self) -> dict[str, Rule]:
        return {"acting_candidates": AT_LEAST_0}


class CQLAgent(Agent):
    """pi(a|s), and Q(s, a) to choose among its actions."""

    scaling: Scaling
    policy: TanhGaussian
    critic: Twin
    actions: Continuous
    acting_candidates: int = eqx.field(static=True)

    def act(self, observations: Array, memory: Memory = ()) -> tuple[Array, Memory]:
        return self.actions.action(self._best(observations)[0]), memory

    def value(self, observations: Array) -> Array:
        """min Q(s, a) of the action taken."""
        return self._best(observations)[1]

    def _best(self, observations: Array) -> tuple[Array, Array]:
        """The scaled action taken and its value."""
        inputs = self.scaling(observations)
        mean, log_std = self.policy(inputs)
        noise = jnp.zeros((1, 1, mean.shape[-1]))
        if self.acting_candidates:
            noise = jax.random.normal(jax.random.key(0), (self.acting_candidates, 1, mean.shape[-1]))
        drawn = jnp.tanh(mean + jnp.exp(log_std) * noise)
        values = self.critic(side_by_side(inputs, drawn)).min(axis=0)
        return losses.best(drawn, values), values.max(axis=0)


class State(NamedTuple):
    agent: CQLAgent
    target: Twin
    """Q', the moving average of Q's networks."""
    log_temperature: Array
    log_factor: Array
    """Of the Lagrange version."""
    optimisers: dict[str, optax.OptState]


class CQL(Algorithm):
    config_type = Config

    def __init__(self, config: Config, spec: Spec, steps: int):
        self.config, self.spec = config, spec
        cloning = min(config.cloning_steps, steps)
        stages = (
            Stage("critic and cloning", cloning, frozenset({"critic", "cloning"})),
            Stage("critic and policy", steps - cloning, frozenset({"critic", "policy"})),
        )
        self.stages = tuple(stage for stage in stages if stage.steps)
        q_optimiser, policy_optimiser = optax.adam(config.critic_learning_rate), optax.adam(config.policy_learning_rate)
        self.optimisers = dict.fromkeys(("critic", "factor"), q_optimiser)
        self.optimisers |= dict.fromkeys(("policy", "temperature"), policy_optimiser)

    def init(self, key: Array) -> State:
        config, spec = self.config, self.spec
        assert isinstance(spec.actions, Continuous)
        size, width = spec.observation_size, spec.action_width
        policy_key, q_key = jax.random.split(key)
        policy = TanhGaussian(size, config.policy_hidden, width, policy_key, LOG_STD_RANGE)
        q = Twin(size + width, config.critic_hidden, q_key)
        log_one = jnp.zeros(())
        trained = {"critic": q, "factor": log_one, "policy": policy, "temperature": log_one}
        agent = CQLAgent(spec.scaling("observation"), policy, q, spec.actions, config.acting_candidates)
        optimisers = {part: self.optimisers[part].init(net) for part, net in trained.items()}
        return State(agent, jax.tree.map(jnp.copy, q), log_one, jnp.copy(log_one), optimisers)

    def update(self, stage: Stage, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        descent = Descent(self.optimisers, state.optimisers)
        policy_key, q_key = jax.random.split(key)
        moved = self._update_policy(descent, state, batch, policy_key, cloning="cloning" in stage.parts)
        moved = self._update_q(descent, moved, state.agent.policy, batch, q_key)
        target = losses.moving_average(state.target, moved.agent.critic, self.config.target_rate)
        return moved._replace(target=target, optimisers=descent.states), descent.metrics

    def _update_policy(self, descent: Descent, state: State, batch: Batch, key: Array, cloning: bool) -> State:
        agent, config = state.agent, self.config
        observations = agent.scaling(batch["observations"])

        # A descent step of log temperature on -log temperature E [log pi + target entropy].
        entropy = config.entropy_per_dimension * self.spec.action_width
        slope = -jnp.mean(agent.policy.sample(observations, key)[1] + entropy)
        log_temperature = descent.follow("temperature", state.log_temperature, slope)

        def loss(pi: TanhGaussian) -> tuple[Array, Metrics]:
            drawn, likelihood = pi.sample(observations, key)
            if cloning:
                gain = pi.log_likelihood(observations, agent.actions.scale(batch["actions"]))
            else:
                gain = agent.critic(side_by_side(observations, drawn)).min(axis=0)
            return jnp.mean(jnp.exp(log_temperature) * likelihood - gain), {"entropy": -likelihood.mean()}

        policy = descent.step("policy", agent.policy, loss)
        descent.metrics["temperature"] = jnp.exp(log_temperature)
        return state._replace(agent=replace(agent, policy=policy), log_temperature=log_temperature)

    def _update_q(self, descent: Descent, state: State, policy: TanhGaussian, batch: Batch, key: Array) -> State:
        """`policy` is pi as it was before this update."""
        agent, config, width = state.agent, self.config, self.spec.action_width
        rows = len(batch["rewards"])
        observations, following = agent.scaling(batch["observations"]), agent.scaling(batch["next_observations"])
        uniform_key, policy_key = jax.random.split(key)

        # One more than the penalty needs: the first action in s' is the target's.
        both = jnp.stack([observations, following])
        drawn, likelihood = policy.sample(both, policy_key, (config.samples + 1,))
        next_values = state.target(side_by_side(following, drawn[0, 1])).min(axis=0)
        if config.entropy_in_target:
            next_values = next_values - jnp.exp(state.log_temperature) * likelihood[0, 1]
        targets = losses.td_target(batch["rewards"], batch["discounts"], next_values)

        # Every action to evaluate in s, in one array: the data's, then those of the penalty.
        uniform = jax.random.uniform(uniform_key, (config.samples, rows, width), minval=-1.0, maxval=1.0)
        proposals = drawn[1:].reshape(2 * config.samples, rows, width)
        scored = jnp.concatenate([agent.actions.scale(batch["actions"])[None], uniform, proposals])
        uniform_density = jnp.full((config.samples, rows), -width * jnp.log(2.0))
        log_densities = jnp.concatenate([uniform_density, likelihood[1:].reshape(2 * config.samples, rows)])
        # Flat, because the gradient of one matrix costs less than that of a stack of matrices.
        inputs = side_by_side(observations, scored).reshape(-1, self.spec.observation_size + width)
        factor = jnp.exp(state.log_factor) if config.lagrange_threshold else 1.0

        def loss(q: Twin) -> tuple[Array, Metrics]:
            values = q(inputs).reshape(2, -1, rows)
            taken, others = values[:, 0], values[:, 1:]
            gaps = jax.nn.logsumexp(others - log_densities, axis=1) - taken
            excess = config.penalty_weight * gaps.mean(axis=1) - config.lagrange_threshold
            errors = jnp.mean((targets - taken) ** 2, axis=1)
            return jnp.sum(errors + factor * excess), {"value": taken.mean(), "penalty": excess.mean()}

        state = state._replace(agent=replace(agent, critic=descent.step("critic", agent.critic, loss)))
        excess = descent.metrics["penalty"]
        descent.metrics["penalty"] = excess + config.lagrange_threshold
        if not config.lagrange_threshold:
            return state
        # An ascent step of log factor on factor (weight penalty - threshold), whose derivative is the same expression.
        log_factor = descent.follow("factor", state.log_factor, -factor * excess)
        log_factor = jnp.minimum(log_factor, jnp.log(LARGEST_FACTOR))
        descent.metrics["factor"] = jnp.exp(log_factor)
        return state._replace(log_factor=log_factor)
