"""BEAR-QL, bootstrapping error accumulation reduction (Kumar, Fu, Soh, Tucker, Levine; NeurIPS 2019).

The policy may take any action that the data took, however rarely: it is constrained to the support of the data's
actions, not to their density. Each step, in this order:

    G(s, z)      the data's actions in a state: a VAE as in BCQ, minimising
                 E mean (G(s, z) - a)^2 + 0.5 mean KL(N(mu, sigma) || N(0, 1)), z ~ N(mu, sigma) = E(s, a)
    Q(s, a)      two networks. With a_i ~ pi'(.|s'), i = 1..10, minimise the squared distance to
                 y = r + gamma (1 - terminal) max_i [0.75 min Q'(s', a_i) + 0.25 max Q'(s', a_i)]
    pi(a|s)      tanh of a Gaussian. With 5 samples u_j of that Gaussian and 5 v_j of G before its tanh, minimise
                 E lambda MMD({u_j}, {v_j}) - min over both networks of mean_j Q(s, tanh u_j)
                 without Q for the first 20 000 steps
    lambda       the dual variable of the constraint MMD <= 0.05. Maximise
                 lambda (E MMD - 0.05), by steps of log lambda, which stays in [-5, 10] and starts at 0

Q' and pi' follow Q and pi by a moving average. The noise behind u_j and the z behind v_j are clipped to +-0.5; in the
target and in acting the noise is not. Before the tanh, MMD still has a gradient where actions are at their bounds. It
acts with the best by Q_1 of 10 samples of pi, drawn with the same noise for every state and every call, so that the
policy is a function of the state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from waypost.agents import losses
from waypost.agents.actions import Actions
from waypost.agents.agent import Agent, Algorithm, Array, Batch, Descent, Memory, Metrics, Settings, Spec, Stage
from waypost.agents.nets import VAE, Scaling, TanhGaussian, Twin, clipped_normal, side_by_side
from waypost.agents.settings import Standardise

LOG_MULTIPLIER_RANGE = (-5.0, 10.0)
"""Range of the logarithm of lambda."""


@dataclass(frozen=True)
class Config(Settings):
    """Settings of BEAR; the defaults are the original's."""

    threshold: float = 0.05
    """Upper bound on MMD: the constraint."""
    kernel: Literal["gaussian", "laplacian"] = "gaussian"
    """Kernel of MMD: of squared distances or of absolute differences."""
    bandwidth: float = 20.0
    """Sigma of the kernel exp(-d / (2 sigma)); the original takes 20 for gaussian and 10 for laplacian."""
    samples: int = 5
    """Samples per state in MMD and in the policy's Q."""
    sample_clip: float = 0.5
    """Bound to which the noise behind these samples, the policy's and the VAE's z, is clipped."""
    warmup_steps: int = 20_000
    """Updates at the start in which the policy ignores Q and only matches the data."""
    candidates: int = 10
    """Samples of the policy in s', of which the best gives the target, and in acting, of which the best is taken."""
    minimum_share: float = 0.75
    """Weight of the smaller of the two Q' in the target; the rest goes to the larger."""
    latent: int = 0
    """Size of the VAE's z; 0 = twice the size of an action."""
    kl_weight: float = 0.5
    """Weight of KL against reconstruction in the VAE's loss."""
    discount: float = 0.99
    """Gamma."""
    target_rate: float = 0.005
    """Share of Q and of the policy that moves into their targets each step."""
    learning_rate: float = 1e-3
    """Adam's step size for VAE, Q and policy, constant."""
    dual_learning_rate: float = 1e-3
    """Adam's step size for the logarithm of the dual variable, constant."""
    vae_hidden: tuple[int, ...] = (750, 750)
    """Hidden layers of the VAE's encoder and of its decoder."""
    value_hidden: tuple[int, ...] = (400, 300)
    """Hidden layers of each Q network."""
    policy_hidden: tuple[int, ...] = (400, 300)
    """Hidden layers of the policy."""
    observation_scaling: Standardise = False
    """Scale observations to mean 0 and standard deviation 1, or robustly; the original does not scale."""
    batch_size: int = 100
    """Transitions per update."""


class BEARAgent(Agent):
    """Sample the policy, take the best."""

    scaling: Scaling
    policy: TanhGaussian
    action_value: Twin
    actions: Actions
    candidates: int = eqx.field(static=True)

    def act(self, observations: Array, memory: Memory = ()) -> tuple[Array, Memory]:
        scaled = self.scaling(observations)
        mean, log_std = self.policy(scaled)
        noise = jax.random.normal(jax.random.key(0), (self.candidates, 1, mean.shape[-1]))
        sampled = jnp.tanh(mean + jnp.exp(log_std) * noise)
        values = self.action_value.heads[0](side_by_side(scaled, sampled))[..., 0]
        return self.actions.action(losses.best(sampled, values)), memory


class State(NamedTuple):
    agent: BEARAgent
    vae: VAE
    log_multiplier: Array
    target_value: Twin
    target_policy: TanhGaussian
    step: Array
    optimisers: dict[str, optax.OptState]


class BEAR(Algorithm):
    config_type = Config

    def __init__(self, config: Config, spec: Spec, steps: int):
        self.config, self.spec = config, spec
        self.stages = (Stage("joint", steps, frozenset({"vae", "value", "policy", "multiplier"})),)
        rates = dict.fromkeys(("vae", "value", "policy"), config.learning_rate)
        rates["multiplier"] = config.dual_learning_rate
        self.optimisers = {part: optax.adam(rate) for part, rate in rates.items()}

    def init(self, key: Array) -> State:
        config, spec = self.config, self.spec
        size, width = spec.observation_size, spec.action_width
        vae_key, q_key, policy_key = jax.random.split(key, 3)
        agent = BEARAgent(
            spec.scaling("observation"),
            TanhGaussian(size, config.policy_hidden, width, policy_key),
            Twin(size + width, config.value_hidden, q_key),
            spec.actions,
            config.candidates,
        )
        vae = VAE(size, width, config.vae_hidden, config.latent or 2 * width, vae_key)
        log_multiplier = jnp.zeros(())
        trained = {"vae": vae, "value": agent.action_value, "policy": agent.policy, "multiplier": log_multiplier}
        target_q, target_policy = jax.tree.map(jnp.copy, (agent.action_value, agent.policy))
        optimisers = {part: self.optimisers[part].init(net) for part, net in trained.items()}
        return State(agent, vae, log_multiplier, target_q, target_policy, jnp.zeros((), jnp.int32), optimisers)

    def update(self, stage: Stage, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        agent, config = state.agent, self.config
        vae_key, target_key, policy_key, latent_key = jax.random.split(key, 4)
        observations, following = (agent.scaling(batch[name]) for name in ("observations", "next_observations"))
        actions = agent.actions.scale(batch["actions"])
        several = (config.samples, len(actions))
        descent = Descent(self.optimisers, state.optimisers)

        vae = descent.step("vae", state.vae, lambda vae: vae.loss(observations, actions, config.kl_weight, vae_key))
        sampled = state.target_policy.sample(following, target_key, (config.candidates,))[0]
        candidates = losses.soft_minimum(state.target_value(side_by_side(following, sampled)), config.minimum_share)
        targets = losses.td_target(batch["rewards"], batch["discounts"], candidates.max(axis=0))
        pairs = side_by_side(observations, actions)
        q = descent.step("value", agent.action_value, lambda q: losses.twin_error(q(pairs), targets))
        multiplier = jnp.exp(state.log_multiplier)
        started = (state.step >= config.warmup_steps).astype(jnp.float32)
        noise = clipped_normal(policy_key, (*several, actions.shape[-1]), config.sample_clip)
        z = clipped_normal(latent_key, (*several, vae.latent), config.sample_clip)
        decoded = vae.before_tanh(observations, z)

        def policy_loss(pi: TanhGaussian) -> tuple[Array, Metrics]:
            mean, log_std = pi(observations)
            inner = mean + jnp.exp(log_std) * noise
            distance = losses.mmd(decoded, inner, config.kernel, config.bandwidth).mean()
            values = q(side_by_side(observations, jnp.tanh(inner))).mean(axis=1).min(axis=0)
            return multiplier * distance - started * values.mean(), {"mmd": distance}

        policy = descent.step("policy", agent.policy, policy_loss)

        # log lambda descends -lambda (MMD - threshold), whose derivative in log lambda is the same expression.
        excess = descent.metrics["mmd"] - config.threshold
        log_multiplier = descent.follow("multiplier", state.log_multiplier, -multiplier * excess)
        log_multiplier = jnp.clip(log_multiplier, *LOG_MULTIPLIER_RANGE)

        followers = losses.moving_average((state.target_value, state.target_policy), (q, policy), config.target_rate)
        agent = replace(agent, policy=policy, action_value=q)
        state = State(agent, vae, log_multiplier, *followers, state.step + 1, descent.states)
        return state, {**descent.metrics, "multiplier": multiplier}
