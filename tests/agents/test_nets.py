"""The networks against NumPy, and what makes them plain pytrees."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from waypost.agents.actions import policy
from waypost.agents.nets import (
    MLP,
    VAE,
    Categorical,
    Continuous,
    Discrete,
    Gaussian,
    LayerNorm,
    Linear,
    Scaling,
    TanhGaussian,
    Twin,
    side_by_side,
)

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(2.0, 3.0, size=(24, 3)).astype(np.float32)
MODULES: dict[str, Any] = {
    "layer norm": lambda key: LayerNorm(3),
    "mlp": lambda key: MLP(3, (8, 8), 3, key),
    "mlp with layer norm": lambda key: MLP(3, (8, 8), 3, key, layer_norm=True),
    "twin": lambda key: Twin(3, (8,), key),
    "gaussian": lambda key: Gaussian(3, (8,), 3, key),
    "squashed gaussian": lambda key: Gaussian(3, (8,), 3, key, squashed=True),
    "categorical": lambda key: Categorical(3, (8,), 4, key),
    "tanh gaussian": lambda key: TanhGaussian(3, (8,), 2, key),
    "vae": lambda key: VAE(3, 2, (8,), 4, key),
    "bounds": lambda key: Continuous(-np.arange(3.0), np.arange(3.0)),
    "scaling": lambda key: Scaling(np.arange(3.0), np.arange(1.0, 4.0)),
}


def numbers(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), tree)


def normed(x: np.ndarray, gain: np.ndarray, offset: np.ndarray) -> np.ndarray:
    rows = [(row - row.mean()) / np.sqrt(row.var() + 1e-5) * gain + offset for row in x]
    return np.array(rows)


def mlp(net: MLP, x: np.ndarray) -> np.ndarray:
    net = numbers(net)
    for i, layer in enumerate(net.layers):
        x = np.einsum("ri,io->ro", x, layer.weight.T if layer.transposed else layer.weight) + layer.bias
        if i + 1 < len(net.layers):
            x = normed(x, net.norms[i].gain, net.norms[i].offset) if net.norms else x
            x = np.where(x > 0, x, 0)
    return x


def shaken(tree: Any, seed: int = 1) -> Any:
    """The module with every number moved a little, so that no gain is 1 and no offset 0."""
    random = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: leaf + jnp.asarray(random.normal(0, 0.3, leaf.shape), jnp.float32), tree)


def close(actual: Any, expected: Any) -> bool:
    return np.allclose(np.asarray(actual), expected, rtol=1e-4, atol=1e-5)


# -- forward passes ------------------------------------------------------------------------------------


def test_linear_is_a_matrix_product_and_a_bias() -> None:
    weight, bias = np.arange(9, dtype=np.float32).reshape(3, 3), np.array([1.0, -1.0, 0.5], np.float32)
    for transposed in (False, True):
        layer = Linear(jnp.asarray(weight.T if transposed else weight), jnp.asarray(bias), transposed)
        assert close(layer(X), [[row @ column + b for column, b in zip(weight.T, bias, strict=True)] for row in X])


@pytest.mark.parametrize("layer", [0, 1])
def test_a_layer_starts_uniform_within_one_over_the_root_of_its_inputs(layer: int) -> None:
    net = MLP(25, (400,), 100, KEY)
    limit = (0.2, 0.05)[layer]
    for values in (np.asarray(net.layers[layer].weight), np.asarray(net.layers[layer].bias)):
        assert 0.95 * limit < np.abs(values).max() <= limit * (1 + 1e-6)
        assert np.isclose(values.std(), limit / np.sqrt(3), rtol=0.15)
        assert np.abs(values.mean()) < 0.15 * limit
        assert len(np.unique(values)) > 0.9 * values.size


def test_layer_norm_gives_each_row_mean_0_and_variance_1() -> None:
    norm = LayerNorm(3)
    result = np.asarray(norm(X), np.float64)
    assert close(result.mean(axis=1), np.zeros(24))
    assert close(result.var(axis=1), np.ones(24))


def test_layer_norm_applies_its_gain_and_offset() -> None:
    norm = shaken(LayerNorm(3))
    assert close(norm(X), normed(X.astype(np.float64), np.asarray(norm.gain), np.asarray(norm.offset)))


def test_layer_norm_survives_a_row_without_spread() -> None:
    assert close(LayerNorm(3)(jnp.full((1, 3), 3.0)), np.zeros((1, 3)))


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("hidden", [(), (8,), (8, 8)])
def test_mlp_matches_numpy(hidden: tuple[int, ...], layer_norm: bool) -> None:
    net = shaken(MLP(3, hidden, 3, KEY, layer_norm))
    assert [layer.bias.shape[0] for layer in net.layers] == [*hidden, 3]
    assert len(net.norms) == (len(hidden) if layer_norm else 0)
    assert net(X).shape == (24, 3)
    assert close(net(X), mlp(net, X))


@pytest.mark.parametrize("layer_norm", [False, True])
def test_twin_gives_both_networks_one_row_each(layer_norm: bool) -> None:
    twin = shaken(Twin(3, (8,), KEY, layer_norm))
    assert twin(X).shape == (2, 24)
    assert close(twin(X), [mlp(head, X)[:, 0] for head in twin.heads])


def test_the_two_networks_of_a_twin_start_apart() -> None:
    first, second = Twin(3, (8,), KEY).heads
    for one, other in zip(first.layers, second.layers, strict=True):
        assert (one.weight != other.weight).all()
        assert (one.bias != other.bias).all()


def test_gaussian_gives_an_unsquashed_mean_and_one_spread_per_output() -> None:
    net = Gaussian(3, (8,), 3, KEY)
    far = 1000 * X
    mean, log_std = net(far)
    assert close(mean, mlp(net.mean, far))
    assert np.abs(mean).max() > 10
    assert (log_std == np.zeros(3)).all()


def test_gaussian_keeps_its_log_standard_deviation_between_minus_5_and_2() -> None:
    net = eqx.tree_at(lambda net: net.log_std, Gaussian(3, (8,), 4, KEY), jnp.array([-7.0, -1.5, 1.5, 3.0]))
    assert (net(X)[1] == np.array([-5.0, -1.5, 1.5, 2.0])).all()
    slope = jax.grad(lambda net: net(X)[1].sum())(net).log_std
    assert (slope == np.array([0.0, 1.0, 1.0, 0.0])).all()


def test_a_squashed_gaussian_keeps_its_mean_in_the_cube_and_its_outcomes_free() -> None:
    net = shaken(Gaussian(3, (8,), 2, KEY, squashed=True))
    mean = np.tanh(mlp(net.mean, X))
    assert close(net.mode(X), mean)
    outcomes = np.random.default_rng(3).normal(0, 2, (24, 2))
    std = np.exp(np.asarray(net.log_std, np.float64))
    density = np.exp(-(((outcomes - mean) / std) ** 2) / 2) / (std * np.sqrt(2 * np.pi))
    assert close(net.log_likelihood(X, jnp.asarray(outcomes, jnp.float32)), np.log(density).sum(1))


# -- side by side ---------------------------------------------------------------------------------------


def test_columns_are_put_side_by_side_and_missing_axes_repeated() -> None:
    states, actions = X, np.random.default_rng(1).normal(size=(5, 24, 2)).astype(np.float32)
    both = np.asarray(side_by_side(states, actions))
    assert both.shape == (5, 24, 5)
    for sample in range(5):
        assert np.array_equal(both[sample], np.hstack([states, actions[sample]]))
    assert np.array_equal(side_by_side(states, actions[0], states), np.hstack([states, actions[0], states]))
    assert side_by_side(states[0], actions[0, 0]).shape == (5,)


# -- choices -----------------------------------------------------------------------------------------------


def test_choices_are_rows_with_a_1_at_the_one_taken() -> None:
    choices, actions = Discrete(4), jnp.array([[2.0], [0.0], [3.0]])
    assert np.array_equal(choices.scale(actions), [[0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1]])
    assert np.array_equal(choices.action(choices.scale(actions)), [2, 0, 3])
    numbers_taken = choices.action(jnp.array([[0.1, 0.7, 0.2, 0.0], [-3.0, -4.0, -1.0, -2.0]]))
    assert np.array_equal(numbers_taken, [1, 2])
    assert jnp.issubdtype(numbers_taken.dtype, jnp.integer)
    assert not jax.tree.leaves(choices)


def test_categorical_gives_the_log_of_a_softmax_and_the_likeliest_choice() -> None:
    net = shaken(Categorical(3, (8,), 4, KEY))
    logits = mlp(net.logits, X)
    odds = np.exp(logits - logits.max(1, keepdims=True))
    chances = odds / odds.sum(1, keepdims=True)
    for taken in range(4):
        outcomes = Discrete(4).scale(jnp.full((24, 1), float(taken)))
        assert close(net.log_likelihood(X, outcomes), np.log(chances[:, taken]))
    assert np.array_equal(net.mode(X), np.eye(4)[logits.argmax(1)])
    assert np.array_equal(Discrete(4).action(net.mode(X)), logits.argmax(1))
    # Even where one choice is as good as certain, the others have a likelihood that can be learned from.
    sure = np.asarray(net.log_likelihood(1e4 * X, Discrete(4).scale(jnp.zeros((24, 1)))))
    assert np.isfinite(sure).all()
    assert sure.min() < -100


def test_a_policy_is_of_the_kind_of_its_actions() -> None:
    several, vectors = policy(3, (8,), Discrete(5), KEY), policy(3, (8,), Continuous([-1.0, 0.0], [1.0, 2.0]), KEY)
    assert isinstance(several, Categorical)
    assert several.mode(X).shape == (24, 5)
    assert isinstance(vectors, Gaussian)
    assert vectors.mode(X).shape == (24, 2)
    assert not vectors.squashed
    assert policy(3, (8,), Continuous([0.0], [1.0]), KEY, squashed=True).squashed


# -- distributions inside a cube ---------------------------------------------------------------------------


def tanh_density(mean: np.ndarray, log_std: np.ndarray, outcomes: np.ndarray) -> np.ndarray:
    """Density of tanh(u), u ~ N(mean, std): that of u over the slope of the tanh there."""
    std, inner = np.exp(log_std), np.arctanh(outcomes)
    normal = np.exp(-(((inner - mean) / std) ** 2) / 2) / (std * np.sqrt(2 * np.pi))
    return (normal / (1 - outcomes**2)).prod(-1)


@pytest.mark.parametrize("mapped", [False, True], ids=["clipped", "mapped"])
def test_tanh_gaussian_has_mean_and_spread_from_one_network(mapped: bool) -> None:
    net = shaken(TanhGaussian(3, (8,), 2, KEY, (-1.0, 0.5), mapped))
    raw = mlp(net.net, X)
    mean, log_std = net(X)
    spread = -1.0 + 1.5 * (np.tanh(raw[:, 2:]) + 1) / 2 if mapped else np.clip(raw[:, 2:], -1.0, 0.5)
    assert close(mean, raw[:, :2])
    assert close(log_std, spread)
    assert (np.asarray(log_std) < 0.5).any()
    assert (raw[:, 2:] > 0.5).any()
    assert close(net.mode(X), np.tanh(raw[:, :2]))


def test_gaussian_samples_lie_around_the_mean() -> None:
    net = eqx.tree_at(lambda net: net.log_std, shaken(Gaussian(3, (8,), 2, KEY)), jnp.array([-1.0, 9.0]))
    noise = np.asarray(jax.random.normal(KEY, (24, 2)), np.float64)
    assert close(net.sample(X, KEY), mlp(net.mean, X) + np.exp([-1.0, 2.0]) * noise)


def test_near_is_the_mode_moved_by_a_share_of_the_spread() -> None:
    net, x = shaken(Gaussian(3, (8,), 3, KEY)), jnp.asarray(X)
    noise = jax.random.normal(KEY, net.mode(x).shape)
    assert close(net.near(x, 0.0 * noise), net.mode(x))
    assert close(net.near(x, noise), net.sample(x, KEY))
    assert close(net.near(x, 0.5 * noise), (net.mode(x) + net.sample(x, KEY)) / 2)


def test_near_a_categorical_is_its_likeliest_choice_or_a_sample() -> None:
    net, rows = shaken(Categorical(3, (8,), 4, KEY)), jnp.repeat(jnp.asarray(X[:1] / 5), 20_000, axis=0)
    noise = jax.vmap(net.noise)(jax.random.split(KEY, len(rows)))
    assert close(net.near(rows, 0.0 * noise), net.mode(rows))
    shares = np.asarray(net.near(rows, noise)).mean(axis=0)
    assert np.allclose(shares, jax.nn.softmax(net.logits(rows[:1]))[0], atol=0.02)
    assert (shares > 0.02).all()


def test_tanh_gaussian_samples_and_their_likelihoods() -> None:
    net = shaken(TanhGaussian(3, (8,), 2, KEY, (-1.0, 0.5)))
    mean, log_std = (np.asarray(part, np.float64) for part in net(X))
    noise = np.asarray(jax.random.normal(KEY, (6, 24, 2)), np.float64)
    drawn, likelihood = net.sample(X, KEY, (6,))
    assert drawn.shape == (6, 24, 2)
    assert likelihood.shape == (6, 24)
    assert close(drawn, np.tanh(mean + np.exp(log_std) * noise))
    alone, its_likelihood = net.sample(X, KEY)
    assert (alone.shape, its_likelihood.shape) == ((24, 2), (24,))
    # Also where float32 knows hardly a number between the sample and 1.
    assert np.abs(np.asarray(drawn)).max() > 1 - 3e-7
    expected = np.log(tanh_density(mean, log_std, np.tanh(mean + np.exp(log_std) * noise)))
    assert np.allclose(likelihood, expected, rtol=1e-3, atol=1e-3)


def test_tanh_gaussian_is_a_density_over_the_interval() -> None:
    net = shaken(TanhGaussian(3, (8,), 1, KEY, (-1.0, 0.5)))
    row = X[:1] / 10
    cells = np.linspace(-1, 1, 20_001)
    middles = (cells[1:] + cells[:-1]) / 2
    outcomes = jnp.asarray(middles, jnp.float32)[:, None]
    likelihood = np.asarray(net.log_likelihood(jnp.repeat(row, len(middles), axis=0), outcomes), np.float64)
    assert np.exp(likelihood).mean() * 2 == pytest.approx(1, abs=1e-2)
    mean, log_std = (np.asarray(part, np.float64) for part in net(row))
    inside = np.abs(middles) < 0.99
    expected = tanh_density(mean, log_std, middles[:, None])
    assert np.allclose(np.exp(likelihood[inside]), expected[inside], rtol=1e-2)


def test_tanh_gaussian_gives_actions_at_the_very_bounds_a_likelihood() -> None:
    net = TanhGaussian(3, (8,), 2, KEY)
    edge = jnp.tile(jnp.array([[-1.0, 1.0]]), (24, 1))
    slope = jax.grad(lambda net: net.log_likelihood(X / 10, edge).sum())(net)
    assert np.isfinite(net.log_likelihood(X / 10, edge)).all()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slope))


def test_vae_encodes_pairs_and_decodes_into_the_cube() -> None:
    net = shaken(VAE(3, 2, (8,), 4, KEY))
    actions = np.random.default_rng(2).uniform(-1, 1, (24, 2)).astype(np.float32)
    raw = mlp(net.encoder, np.hstack([X, actions]))
    mean, log_std = net.encode(X, actions)
    assert close(mean, raw[:, :4])
    assert close(log_std, np.clip(raw[:, 4:], -4, 15))
    z = np.random.default_rng(3).normal(size=(5, 24, 4)).astype(np.float32)
    decoded = np.asarray(net.decode(X, z))
    assert decoded.shape == (5, 24, 2)
    for sample in range(5):
        inner = mlp(net.decoder, np.hstack([X, z[sample]]))
        assert close(net.before_tanh(X, z[sample]), inner)
        assert close(decoded[sample], np.tanh(inner))
    far = net.encode(100 * X, actions)[1]
    assert (np.asarray(far).min(), np.asarray(far).max()) == (-4, 15)


# -- scalings ----------------------------------------------------------------------------------------------


def test_scaling_shifts_divides_and_undoes() -> None:
    scaling = Scaling([1.0, -2.0, 0.0], [2.0, 0.5, 10.0])
    expected = (X - np.array([1.0, -2.0, 0.0])) / np.array([2.0, 0.5, 10.0])
    assert close(scaling(X), expected)
    assert close(scaling.undo(scaling(X)), X)


def test_bounds_map_actions_to_minus_1_and_1() -> None:
    low, high = np.array([-2.0, 0.0]), np.array([1.0, 5.0])
    bounds = Continuous(low, high)
    assert close(bounds.scale(jnp.array(np.stack([low, high, (low + high) / 2]))), [[-1, -1], [1, 1], [0, 0]])
    assert close(bounds.action(jnp.array([[-1.0, -1.0], [1.0, 1.0], [0.0, 0.0]])), [low, high, (low + high) / 2])


def test_bounds_survive_an_action_that_cannot_vary() -> None:
    bounds = Continuous([-1.0, 0.5], [1.0, 0.5])
    assert close(bounds.scale(jnp.array([[1.0, 0.5]])), [[1.0, 0.0]])
    assert np.array_equal(bounds.action(jnp.array([[1.0, -1.0], [0.0, 9.0]])), [[1.0, 0.5], [0.0, 0.5]])


def test_no_action_leaves_its_bounds_not_even_by_rounding() -> None:
    random = np.random.default_rng(0)
    low = random.normal(size=1000).astype(np.float32)
    high = low + random.exponential(size=1000).astype(np.float32)
    for scaled in (-5.0, -1.0, 1.0, 5.0):
        actions = np.asarray(Continuous(low, high).action(jnp.full(1000, scaled)))
        assert (low <= actions).all()
        assert (actions <= high).all()


# -- plain pytrees ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODULES)
def test_every_leaf_is_an_array(name: str) -> None:
    leaves = jax.tree.leaves(MODULES[name](KEY))
    assert leaves
    assert all(isinstance(leaf, jax.Array) and leaf.dtype == jnp.float32 for leaf in leaves)


@pytest.mark.parametrize("name", ["mlp with layer norm", "twin", "gaussian", "scaling"])
def test_modules_pass_through_plain_jit_and_vmap(name: str) -> None:
    module, other = MODULES[name](KEY), shaken(MODULES[name](KEY))
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), module, other)
    results = jax.jit(jax.vmap(lambda module: module(X)))(both)
    for i, alone in enumerate((module(X), other(X))):
        assert jax.tree.all(jax.tree.map(lambda many, one, i=i: close(many[i], one), results, alone))


@pytest.mark.parametrize("name", ["mlp", "twin", "gaussian", "categorical", "tanh gaussian", "vae"])
def test_initial_values_depend_on_the_key_alone(name: str) -> None:
    def leaves(key: jax.Array) -> list[np.ndarray]:
        return [np.asarray(leaf) for leaf in jax.tree.leaves(MODULES[name](key))]

    assert all((one == other).all() for one, other in zip(leaves(KEY), leaves(KEY), strict=True))
    assert not all((one == other).all() for one, other in zip(leaves(KEY), leaves(jax.random.key(1)), strict=True))
