"""BCQ, batch-constrained Q-learning (Fujimoto, Meger, Precup; ICML 2019), for continuous actions.

Q is evaluated only at actions like those in the data. Three parts learn together, each step in this order:

    G(s, z)      the data's actions in a state: a VAE with encoder E(s, a) -> N(mu, sigma) and decoder G. Minimise
                 E mean (G(s, z) - a)^2 + 0.5 mean KL(N(mu, sigma) || N(0, 1)), z ~ N(mu, sigma)
    Q(s, a)      two networks. With a_i = G(s', z_i) + xi'(s', G(s', z_i)), i = 1..10, minimise the squared distance to
                 y = r + gamma (1 - terminal) max_i [0.75 min Q'(s', a_i) + 0.25 max Q'(s', a_i)]
    xi(s, a)     the perturbation, at most 0.05 of an action scaled to [-1, 1]. Maximise
                 E Q_1(s, G(s, z) + xi(s, G(s, z)))

Q' and xi' follow Q and xi by a moving average. Whenever actions are generated, z is a standard normal clipped to +-0.5.
It acts with the best of 100 generated actions by Q_1. They use the same 100 z for every state and every call, so that
the policy is a function of the state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from waypost.agents import losses
from waypost.agents.actions import Actions
from waypost.agents.agent import Agent, Algorithm, Array, Batch, Descent, Memory, Metrics, Settings, Spec, Stage
from waypost.agents.nets import MLP, VAE, Scaling, Twin, clipped_normal, side_by_side
from waypost.agents.settings import Standardise


@dataclass(frozen=True)
class Config(Settings):
    """Settings of BCQ; the defaults are the original's."""

    perturbation: float = 0.05
    """How far a generated action may be moved, on the scale where actions lie in [-1, 1]."""
    target_candidates: int = 10
    """Actions generated in s'; the best gives the target."""
    acting_candidates: int = 100
    """Actions generated to act; the best by Q is taken."""
    minimum_share: float = 0.75
    """Weight of the smaller of the two Q' in the target; the rest goes to the larger."""
    latent: int = 0
    """Size of the VAE's z; 0 = twice the size of an action."""
    latent_clip: float = 0.5
    """Bound to which z is clipped when actions are generated."""
    kl_weight: float = 0.5
    """Weight of KL against reconstruction in the VAE's loss."""
    discount: float = 0.99
    """Gamma."""
    target_rate: float = 0.005
    """Share of Q and of the perturbation that moves into their targets each step."""
    learning_rate: float = 1e-3
    """Adam's step size for all parts, constant."""
    vae_hidden: tuple[int, ...] = (750, 750)
    """Hidden layers of the VAE's encoder and of its decoder."""
    value_hidden: tuple[int, ...] = (400, 300)
    """Hidden layers of each Q network."""
    perturbation_hidden: tuple[int, ...] = (400, 300)
    """Hidden layers of the perturbation."""
    observation_scaling: Standardise = False
    """Scale observations to mean 0 and standard deviation 1, or robustly; the original does not scale."""
    batch_size: int = 100
    """Transitions per update."""


class Perturbation(eqx.Module):
    """a -> a + xi(s, a), for actions scaled to [-1, 1]."""

    net: MLP
    most: float = eqx.field(static=True)

    def __call__(self, observations: Array, actions: Array) -> Array:
        change = self.most * jnp.tanh(self.net(side_by_side(observations, actions)))
        return jnp.clip(actions + change, -1.0, 1.0)


class BCQAgent(Agent):
    """Generate, perturb, take the best."""

    scaling: Scaling
    vae: VAE
    perturbation: Perturbation
    action_value: Twin
    actions: Actions
    candidates: int = eqx.field(static=True)
    latent_clip: float = eqx.field(static=True)

    def act(self, observations: Array, memory: Memory = ()) -> tuple[Array, Memory]:
        scaled = self.scaling(observations)
        z = clipped_normal(jax.random.key(0), (self.candidates, 1, self.vae.latent), self.latent_clip)
        generated = self.perturbation(scaled, self.vae.decode(scaled, z))
        values = self.action_value.heads[0](side_by_side(scaled, generated))[..., 0]
        return self.actions.action(losses.best(generated, values)), memory


class State(NamedTuple):
    agent: BCQAgent
    target_value: Twin
    target_perturbation: Perturbation
    optimisers: dict[str, optax.OptState]


class BCQ(Algorithm):
    config_type = Config

    def __init__(self, config: Config, spec: Spec, steps: int):
        self.config, self.spec = config, spec
        self.stages = (Stage("joint", steps, frozenset({"vae", "value", "perturbation"})),)
        self.optimiser = optax.adam(config.learning_rate)

    def init(self, key: Array) -> State:
        config, spec = self.config, self.spec
        size, width = spec.observation_size, spec.action_width
        vae_key, q_key, perturbation_key = jax.random.split(key, 3)
        agent = BCQAgent(
            spec.scaling("observation"),
            VAE(size, width, config.vae_hidden, config.latent or 2 * width, vae_key),
            Perturbation(MLP(size + width, config.perturbation_hidden, width, perturbation_key), config.perturbation),
            Twin(size + width, config.value_hidden, q_key),
            spec.actions,
            config.acting_candidates,
            config.latent_clip,
        )
        trained = {"vae": agent.vae, "value": agent.action_value, "perturbation": agent.perturbation}
        target_q, target_perturbation = jax.tree.map(jnp.copy, (agent.action_value, agent.perturbation))
        optimisers = {part: self.optimiser.init(net) for part, net in trained.items()}
        return State(agent, target_q, target_perturbation, optimisers)

    def update(self, stage: Stage, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        agent, config = state.agent, self.config
        vae_key, target_key, perturbation_key = jax.random.split(key, 3)
        observations, following = (agent.scaling(batch[name]) for name in ("observations", "next_observations"))
        actions = agent.actions.scale(batch["actions"])
        rows = len(actions)
        descent = Descent(dict.fromkeys(state.optimisers, self.optimiser), state.optimisers)

        vae = descent.step("vae", agent.vae, lambda vae: vae.loss(observations, actions, config.kl_weight, vae_key))
        z = clipped_normal(target_key, (config.target_candidates, rows, vae.latent), config.latent_clip)
        generated = state.target_perturbation(following, vae.decode(following, z))
        candidates = losses.soft_minimum(state.target_value(side_by_side(following, generated)), config.minimum_share)
        targets = losses.td_target(batch["rewards"], batch["discounts"], candidates.max(axis=0))
        pairs = side_by_side(observations, actions)
        q = descent.step("value", agent.action_value, lambda q: losses.twin_error(q(pairs), targets))
        z = clipped_normal(perturbation_key, (rows, vae.latent), config.latent_clip)
        generated = vae.decode(observations, z)

        def perturbation_loss(xi: Perturbation) -> Array:
            return -q.heads[0](side_by_side(observations, xi(observations, generated))).mean()

        xi = descent.step("perturbation", agent.perturbation, perturbation_loss)
        followers = losses.moving_average((state.target_value, state.target_perturbation), (q, xi), config.target_rate)
        agent = replace(agent, vae=vae, action_value=q, perturbation=xi)
        return State(agent, *followers, descent.states), descent.metrics
