"""Each loss against the paper's formula in float64 NumPy: values, gradients and edges."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from waypost.agents import losses

RESIDUALS = np.array([-3.0, -1.4001, -1.3999, -0.5, -1e-3, 0.0, 1e-3, 0.25, 2.0, 40.0])
VALUES = np.array([-30.0, -2.0, -0.1, 0.0, 0.3, 1.0, 2.0, 5.0, 17.0, 100.0])


def slopes(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Derivative of the summed function by central differences, entry by entry."""
    result = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += step
        down[i] -= step
        result[i] = (np.sum(function(up)) - np.sum(function(down))) / (2 * step)
    return result


def gradient(function: Callable[..., jax.Array], *arguments: np.ndarray, of: int = 0) -> np.ndarray:
    """Derivative of the summed JAX function with respect to one argument."""
    inputs = [jnp.asarray(argument, jnp.float32) for argument in arguments]
    return np.asarray(jax.grad(lambda *x: jnp.sum(function(*x)), argnums=of)(*inputs))


def close(actual: object, expected: object, rtol: float = 1e-5, atol: float = 1e-6) -> bool:
    return np.allclose(np.asarray(actual), np.asarray(expected), rtol=rtol, atol=atol)


# -- (3) and (4), the losses of V ------------------------------------------------------------------------


def expectile(u: np.ndarray, tau: float) -> np.ndarray:
    return np.abs(tau - (u < 0).astype(float)) * u * u


def sparse(u: np.ndarray, v: np.ndarray, tau: float) -> np.ndarray:
    inside = 1 + u / (2 * tau)
    return (inside > 0).astype(float) * inside * inside + v / tau


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.7, 0.99])
def test_expectile_is_the_papers_equation_3(tau: float) -> None:
    assert close(losses.expectile(jnp.asarray(RESIDUALS, jnp.float32), tau), expectile(RESIDUALS, tau))


@pytest.mark.parametrize("tau", [0.1, 0.7])
def test_expectile_pulls_v_with_slope_minus_two_weight_residual(tau: float) -> None:
    target = RESIDUALS + VALUES
    weight = np.where(RESIDUALS < 0, 1 - tau, tau)
    by_v = gradient(lambda v: losses.expectile(jnp.asarray(target, jnp.float32) - v, tau), VALUES)
    assert close(by_v, -2 * weight * RESIDUALS, atol=1e-4)
    assert close(by_v, slopes(lambda v: expectile(target - v, tau), VALUES), atol=1e-4)


def test_expectile_at_one_half_is_half_the_square() -> None:
    assert close(losses.expectile(jnp.asarray(RESIDUALS, jnp.float32), 0.5), RESIDUALS**2 / 2)


@pytest.mark.parametrize("tau", [0.1, 0.7, 5.0])
def test_sparse_is_the_papers_equation_4(tau: float) -> None:
    u, v = (jnp.asarray(x, jnp.float32) for x in (RESIDUALS, VALUES))
    assert close(losses.sparse(u, v, tau), sparse(RESIDUALS, VALUES, tau))


@pytest.mark.parametrize("tau", [0.1, 0.7, 5.0])
def test_sparse_pulls_v_both_through_the_residual_and_directly(tau: float) -> None:
    target = RESIDUALS + VALUES
    # At tau = 0.7 the kink is at u = -1.4: two residuals lie on either side of it.
    by_v = gradient(lambda v: losses.sparse(jnp.asarray(target, jnp.float32) - v, v, tau), VALUES)
    inside = 1 + RESIDUALS / (2 * tau)
    assert close(by_v, (1 - np.where(inside > 0, inside, 0)) / tau, rtol=1e-4, atol=1e-3)
    assert close(by_v, slopes(lambda v: sparse(target - v, v, tau), VALUES), rtol=1e-4, atol=1e-3)


def test_sparse_is_flat_and_finite_exactly_at_the_kink() -> None:
    tau, kink = 0.5, np.array([-1.0])
    assert losses.sparse(jnp.asarray(kink), jnp.zeros(1), tau) == 0
    assert gradient(lambda u: losses.sparse(u, jnp.zeros(1), tau), kink) == 0
    assert gradient(lambda u: losses.sparse(u, jnp.zeros(1), tau), kink - 1) == 0
    assert gradient(lambda u: losses.sparse(u, jnp.zeros(1), tau), kink + 1) == 2.0


def test_sparse_does_not_grow_far_below_the_kink() -> None:
    assert losses.sparse(jnp.array(-1e6), jnp.array(3.0), 0.5) == 6.0


def test_a_terminal_row_bootstraps_nothing() -> None:
    rewards, discounts, ahead = np.array([1.0, 2.0, -1.0]), np.array([0.99, 0.0, 0.5]), np.array([10.0, 1e6, -4.0])
    assert close(losses.td_target(*map(jnp.asarray, (rewards, discounts, ahead))), [10.9, 2.0, -3.0])


# -- (6), the weight -----------------------------------------------------------------------------------------


def test_weight_is_the_capped_exponential_of_the_residual() -> None:
    expected = [min(np.exp(3 * u), 100.0) for u in RESIDUALS]
    assert close(losses.exponential_weight(jnp.asarray(RESIDUALS, jnp.float32), 3.0, 100.0), expected, rtol=1e-4)


@pytest.mark.parametrize("cap", [0.5, 1.0, 100.0])
def test_weight_reaches_its_cap_without_overflow(cap: float) -> None:
    weights = losses.exponential_weight(jnp.array([1e6, -1e6]), 10.0, cap)
    assert close(weights, [cap, 0.0])


def test_an_inverse_temperature_of_zero_weighs_all_rows_alike() -> None:
    assert close(losses.exponential_weight(jnp.asarray(RESIDUALS), 0.0, 100.0), np.ones(len(RESIDUALS)))


def test_no_gradient_flows_through_the_weight() -> None:
    assert (gradient(lambda u: losses.exponential_weight(u, 3.0, 100.0), RESIDUALS) == 0).all()
    weighted = gradient(lambda u: losses.exponential_weight(u, 3.0, 100.0) * u, RESIDUALS)
    assert close(weighted, np.minimum(np.exp(3 * RESIDUALS), 100.0), rtol=1e-4)


def test_standardised_residuals_have_mean_0_and_deviation_1_over_the_rows_that_count() -> None:
    mask = np.arange(len(RESIDUALS)) % 3 > 0
    counted = jnp.asarray(mask, jnp.float32)
    result = np.asarray(losses.standardised(jnp.asarray(RESIDUALS, jnp.float32), counted))
    chosen = RESIDUALS[mask]
    assert close(result, (RESIDUALS - chosen.mean()) / chosen.std())
    larger = losses.standardised(jnp.asarray(1000 * RESIDUALS + 7, jnp.float32), counted)
    assert close(larger, result, rtol=1e-4, atol=1e-5)


def test_residuals_that_are_all_alike_or_that_nobody_counts_stay_finite() -> None:
    assert close(losses.standardised(jnp.full(4, 3.0), jnp.ones(4)), np.zeros(4))
    assert np.isfinite(losses.standardised(jnp.asarray(RESIDUALS), jnp.zeros(len(RESIDUALS)))).all()


def test_no_gradient_flows_through_standardised_residuals() -> None:
    moved = gradient(lambda u: losses.standardised(u, jnp.ones(len(RESIDUALS))) * jnp.arange(10), RESIDUALS)
    assert (moved == 0).all()


# -- (6) and (7), the likelihood ---------------------------------------------------------------------------------


def log_density(mean: np.ndarray, log_std: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The logarithm of a product of one-dimensional normal densities."""
    std = np.exp(log_std) + np.zeros_like(mean)
    density = np.exp(-((x - mean) ** 2) / (2 * std**2)) / (std * np.sqrt(2 * np.pi))
    return np.log(np.prod(density, axis=-1))


@pytest.fixture
def sample() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return random.normal(size=(5, 3)), np.array([-1.0, 0.3, 1.1]), random.normal(size=(5, 3))


def test_likelihood_is_that_of_the_normal_density(sample: tuple[np.ndarray, ...]) -> None:
    result = losses.gaussian_log_likelihood(*(jnp.asarray(x, jnp.float32) for x in sample))
    assert result.shape == (5,)
    assert close(result, log_density(*sample))


def test_likelihood_at_the_mean_of_a_unit_normal_is_minus_half_log_two_pi_per_column() -> None:
    result = losses.gaussian_log_likelihood(jnp.zeros((1, 4)), jnp.zeros(4), jnp.zeros((1, 4)))
    assert close(result, [-4 * 0.9189385332046727])


@pytest.mark.parametrize("of", [0, 1, 2], ids=["mean", "log_std", "x"])
def test_likelihood_has_the_slopes_of_the_normal_density(sample: tuple[np.ndarray, ...], of: int) -> None:
    def moved(value: np.ndarray) -> np.ndarray:
        return log_density(*sample[:of], value, *sample[of + 1 :])

    assert close(gradient(losses.gaussian_log_likelihood, *sample, of=of), slopes(moved, sample[of]), rtol=1e-4)


# -- (5) ----------------------------------------------------------------------------------------------------------


def test_constrained_value_weighs_v_by_alpha_over_its_mean_size() -> None:
    values, likelihood = np.array([-1.0, 1.0, 2.0, 4.0]), np.array([0.5, -1.0, 3.0, 0.0])
    expected = -(5.0 / 2.0 * values + likelihood)  # The mean size is 2.
    result = losses.constrained_value(*(jnp.asarray(x, jnp.float32) for x in (values, likelihood)), 5.0)
    assert close(result, expected)


def test_constrained_value_has_no_gradient_through_the_mean_size() -> None:
    values, likelihood = np.array([-1.0, 1.0, 2.0, 4.0]), np.zeros(4)
    assert close(gradient(lambda v, p: losses.constrained_value(v, p, 5.0), values, likelihood), np.full(4, -2.5))
    assert close(gradient(lambda v, p: losses.constrained_value(v, p, 5.0), values, likelihood, of=1), np.full(4, -1.0))


def test_constrained_value_is_finite_where_v_is_zero() -> None:
    assert close(losses.constrained_value(jnp.zeros(3), jnp.ones(3), 50.0), -np.ones(3))


# -- means ----------------------------------------------------------------------------------------------------------


def test_masked_mean_is_the_mean_of_the_chosen_rows() -> None:
    values, mask = np.array([1.0, 100.0, 3.0, -100.0]), np.array([1.0, 0.0, 1.0, 0.0])
    assert losses.masked_mean(jnp.asarray(values), jnp.asarray(mask)) == 2.0
    assert close(gradient(losses.masked_mean, values, mask), [0.5, 0.0, 0.5, 0.0])


def test_masked_mean_of_one_row_is_that_row() -> None:
    assert losses.masked_mean(jnp.array([7.0, 5.0]), jnp.array([0.0, 1.0])) == 5.0


def test_masked_mean_of_no_rows_is_zero_with_zero_gradient() -> None:
    assert losses.masked_mean(jnp.ones(3), jnp.zeros(3)) == 0.0
    assert (gradient(losses.masked_mean, np.ones(3), np.zeros(3)) == 0).all()


@pytest.mark.parametrize("rate", [0.05, 1.0])
def test_moving_average_moves_by_the_rate(rate: float) -> None:
    random = np.random.default_rng(1)
    old = {"weight": random.normal(size=(3, 2)), "bias": (random.normal(size=2),)}
    new = {"weight": random.normal(size=(3, 2)), "bias": (random.normal(size=2),)}
    as_jax = [jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), tree) for tree in (old, new)]
    moved = losses.moving_average(*as_jax, rate)
    assert close(moved["weight"], rate * new["weight"] + (1 - rate) * old["weight"])
    assert close(moved["bias"][0], rate * new["bias"][0] + (1 - rate) * old["bias"][0])


def test_moving_average_settles_on_a_v_that_stands_still() -> None:
    target = jnp.zeros(2)
    for _ in range(14):
        target = losses.moving_average(target, jnp.array([1.0, -2.0]), 0.05)
    assert close(target, (1 - 0.95**14) * np.array([1.0, -2.0]))
