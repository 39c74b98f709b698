"""Each equation once, as a pure function of arrays. Numbers in brackets are the POR paper's."""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp

Array = jax.Array
Tree = TypeVar("Tree")


def masked_mean(values: Array, mask: Array) -> Array:
    """Mean over the rows whose mask is 1; 0 if there is none."""
    return jnp.sum(values * mask) / jnp.maximum(jnp.sum(mask), 1.0)


def td_target(rewards: Array, discounts: Array, next_values: Array) -> Array:
    """r + gamma (1 - terminal) V'(s'); `discounts` hold gamma (1 - terminal)."""
    return rewards + discounts * next_values


def expectile(residuals: Array, tau: float) -> Array:
    """(3): |tau - 1(u < 0)| u^2 for the residual u = r + gamma V'(s') - V(s)."""
    return jnp.where(residuals < 0, 1.0 - tau, tau) * residuals**2


def sparse(residuals: Array, values: Array, tau: float) -> Array:
    """(4): 1(1 + u / 2 tau > 0) (1 + u / 2 tau)^2 + V(s) / tau."""
    return jnp.maximum(1.0 + residuals / (2.0 * tau), 0.0) ** 2 + values / tau


def exponential_weight(residuals: Array, inverse_temperature: float, cap: float) -> Array:
    """(6): min(exp(inverse_temperature * u), cap), a constant: no gradient flows through it."""
    # Capped inside the exponential, which then cannot overflow.
    exponent = jnp.minimum(inverse_temperature * residuals, jnp.log(cap))
    return jax.lax.stop_gradient(jnp.exp(exponent))


def gaussian_log_likelihood(mean: Array, log_std: Array, x: Array) -> Array:
    """(6, 7): log N(x; mean, diag(exp(log_std))^2), summed over the last axis."""
    z = (x - mean) * jnp.exp(-log_std)
    return -jnp.sum(0.5 * z**2 + log_std + 0.5 * jnp.log(2.0 * jnp.pi), axis=-1)


def tanh_gaussian_log_likelihood(mean: Array, log_std: Array, inner: Array) -> Array:
    """log density of tanh(u) at `inner` = u ~ N(mean, exp(log_std)^2), summed over the last axis.

    log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2u)), which does not round to log 0.
    """
    stretch = 2.0 * (jnp.log(2.0) - inner - jax.nn.softplus(-2.0 * inner))
    return gaussian_log_likelihood(mean, log_std, inner) - jnp.sum(stretch, axis=-1)


def constrained_value(values: Array, behaviour_log_likelihood: Array, inverse_temperature: float) -> Array:
    """(5): -[alpha / mean|V| V(s~) + log g_mu(s~ | s)] for states s~ drawn from the guide.

    Dividing by the mean size of V, without gradient, makes one alpha fit tasks of any reward scale.
    """
    scale = inverse_temperature / jax.lax.stop_gradient(jnp.mean(jnp.abs(values)) + 1e-8)
    return -(scale * values + behaviour_log_likelihood)


def soft_minimum(values: Array, share: float) -> Array:
    """share min + (1 - share) max over the first axis: BCQ's and BEAR's cautious estimate of two networks."""
    return share * values.min(axis=0) + (1.0 - share) * values.max(axis=0)


def kl_to_standard_normal(mean: Array, log_std: Array) -> Array:
    """KL(N(mean, exp(log_std)^2) || N(0, 1)) of every number."""
    return 0.5 * (mean**2 + jnp.exp(2.0 * log_std) - 1.0) - log_std


def moving_average(target: Tree, online: Tree, rate: float) -> Tree:
    """phi' <- rate phi + (1 - rate) phi'."""
    return jax.tree.map(lambda old, new: old + rate * (new - old), target, online)
