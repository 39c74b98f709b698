"""Each equation once, as a pure function of arrays. Numbers in brackets are those of the POR paper."""

from __future__ import annotations

from typing import Literal, TypeVar

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


def standardised(residuals: Array, mask: Array) -> Array:
    """Residuals with mean 0 and standard deviation 1 over the rows whose mask is 1; constants: no gradient flows."""
    residuals = jax.lax.stop_gradient(residuals)
    centred = residuals - masked_mean(residuals, mask)
    return centred / jnp.sqrt(masked_mean(centred**2, mask) + 1e-12)


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

    Dividing by the mean absolute V, without gradient, makes one alpha fit tasks of any reward scale.
    """
    scale = inverse_temperature / jax.lax.stop_gradient(jnp.mean(jnp.abs(values)) + 1e-8)
    return -(scale * values + behaviour_log_likelihood)


def twin_error(values: Array, targets: Array) -> tuple[Array, dict[str, Array]]:
    """Sum over both networks, (2, rows), of the mean squared error; also their mean value, to report."""
    return ((values - targets) ** 2).mean(axis=1).sum(), {"value": values.mean()}


def soft_minimum(values: Array, share: float) -> Array:
    """share min + (1 - share) max over the first axis: BCQ's and BEAR's cautious estimate of two networks."""
    return share * values.min(axis=0) + (1.0 - share) * values.max(axis=0)


def kl_to_standard_normal(mean: Array, log_std: Array) -> Array:
    """KL(N(mean, exp(log_std)^2) || N(0, 1)), elementwise."""
    return 0.5 * (mean**2 + jnp.exp(2.0 * log_std) - 1.0) - log_std


def vae_loss(outcomes: Array, decoded: Array, mean: Array, log_std: Array, kl_weight: float) -> Array:
    """Mean squared error of the reconstruction plus kl_weight times the mean KL of z to N(0, 1)."""
    return jnp.mean((decoded - outcomes) ** 2) + kl_weight * kl_to_standard_normal(mean, log_std).mean()


def mmd(ones: Array, others: Array, kernel: Literal["gaussian", "laplacian"], bandwidth: float) -> Array:
    """Maximum mean discrepancy of two sets of samples (samples, rows, n), one number per row.

    sqrt(mean k(x, x') - 2 mean k(x, y) + mean k(y, y') + 1e-6) with k = exp(-d / (2 bandwidth)), where d is the
    squared distance (gaussian) or the sum of the absolute differences (laplacian). Pairs of a sample with itself count.
    """

    def similarity(a: Array, b: Array) -> Array:
        differences = a[:, None] - b[None]
        powers = differences**2 if kernel == "gaussian" else jnp.abs(differences)
        return jnp.exp(-powers.sum(axis=-1) / (2.0 * bandwidth)).mean(axis=(0, 1))

    # Rounding can make the sum negative, and its root would be NaN.
    square = similarity(ones, ones) - 2.0 * similarity(ones, others) + similarity(others, others)
    return jnp.sqrt(jnp.maximum(square, 0.0) + 1e-6)


def best(candidates: Array, values: Array) -> Array:
    """The best candidate of each row, (rows, n), of candidates (samples, rows, n) with values (samples, rows)."""
    return jnp.take_along_axis(candidates, values.argmax(axis=0)[None, :, None], axis=0)[0]


def moving_average(target: Tree, online: Tree, rate: float) -> Tree:
    """phi' <- rate phi + (1 - rate) phi'."""
    return jax.tree.map(lambda old, new: old + rate * (new - old), target, online)
