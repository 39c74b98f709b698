"""The network vocabulary: small modules whose every leaf is an array, so any part is a plain pytree."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

Array = jax.Array

LOG_STD_RANGE = (-5.0, 2.0)
"""Where the logarithm of a Gaussian's standard deviation is kept."""


FEW = 16
"""Outputs up to which a layer's weights are kept turned."""


class Linear(eqx.Module):
    """x -> x W + b on a batch of rows.

    W is (inputs, outputs), or (outputs, inputs) where the outputs are few: the gradient is then a product with few
    rows, which XLA does faster on a CPU than one with few columns.
    """

    weight: Array
    bias: Array
    turned: bool = eqx.field(static=True, default=False)

    def __call__(self, x: Array) -> Array:
        return x @ (self.weight.T if self.turned else self.weight) + self.bias


class LayerNorm(eqx.Module):
    """Each row shifted and scaled to mean 0 and variance 1, then by learned gain and offset."""

    gain: Array
    offset: Array

    def __init__(self, size: int):
        self.gain = jnp.ones(size)
        self.offset = jnp.zeros(size)

    def __call__(self, x: Array) -> Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = jnp.mean(centred**2, axis=-1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + 1e-5) * self.gain + self.offset


class MLP(eqx.Module):
    """ReLU network on a batch of rows; LayerNorm, if any, sits before each ReLU.

    Weights and biases start uniform in +-1 / sqrt(inputs of the layer).
    """

    layers: tuple[Linear, ...]
    norms: tuple[LayerNorm, ...]

    def __init__(self, inputs: int, hidden: Sequence[int], outputs: int, key: Array, layer_norm: bool = False):
        shapes = list(pairwise((inputs, *hidden, outputs)))
        # One draw for the whole network: every further one would add a second to the compilation.
        numbers = jax.random.uniform(key, (sum((i + 1) * o for i, o in shapes),), minval=-1.0, maxval=1.0)
        layers, first = [], 0
        for i, o in shapes:
            table = numbers[first : first + (i + 1) * o].reshape(i + 1, o) / np.sqrt(i, dtype=np.float32)
            turned = o <= FEW
            layers.append(Linear(table[:i].T if turned else table[:i], table[i], turned))
            first += (i + 1) * o
        self.layers = tuple(layers)
        self.norms = tuple(LayerNorm(size) for size in hidden) if layer_norm else ()

    def __call__(self, x: Array) -> Array:
        for i, layer in enumerate(self.layers[:-1]):
            x = layer(x)
            x = jax.nn.relu(self.norms[i](x) if self.norms else x)
        return self.layers[-1](x)


class Twin(eqx.Module):
    """Two scalar networks with their own initial values; calling gives both, (2, rows)."""

    heads: tuple[MLP, MLP]

    def __init__(self, inputs: int, hidden: Sequence[int], key: Array, layer_norm: bool = False):
        first, second = jax.random.split(key)
        self.heads = (
            MLP(inputs, hidden, 1, first, layer_norm),
            MLP(inputs, hidden, 1, second, layer_norm),
        )

    def __call__(self, x: Array) -> Array:
        return jnp.stack([head(x)[:, 0] for head in self.heads])


class Gaussian(eqx.Module):
    """Diagonal Gaussian: the mean is a network of the input, the spread one learned number per output."""

    mean: MLP
    log_std: Array

    def __init__(self, inputs: int, hidden: Sequence[int], outputs: int, key: Array):
        self.mean = MLP(inputs, hidden, outputs, key)
        self.log_std = jnp.zeros(outputs)

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """Mean (rows, outputs) and log standard deviation (outputs,)."""
        return self.mean(x), jnp.clip(self.log_std, *LOG_STD_RANGE)


class Scaling(eqx.Module):
    """x -> (x - mean) / std with fixed numbers taken from the data; never trained."""

    mean: Array
    std: Array

    def __init__(self, mean: ArrayLike, std: ArrayLike):
        self.mean = jnp.asarray(np.asarray(mean, np.float32))
        self.std = jnp.asarray(np.asarray(std, np.float32))

    def __call__(self, x: Array) -> Array:
        return (x - self.mean) / self.std

    def undo(self, z: Array) -> Array:
        return z * self.std + self.mean


class Bounds(eqx.Module):
    """Actions between their bounds <-> [-1, 1]: policies of every task see numbers of one size."""

    low: Array
    high: Array

    def __init__(self, low: ArrayLike, high: ArrayLike):
        self.low = jnp.asarray(np.asarray(low, np.float32))
        self.high = jnp.asarray(np.asarray(high, np.float32))

    def scale(self, actions: Array) -> Array:
        # An action that cannot vary has no width to divide by.
        width = jnp.where(self.high > self.low, self.high - self.low, 2.0)
        return (2.0 * actions - self.low - self.high) / width

    def action(self, scaled: Array) -> Array:
        """The action of a scaled one; whatever lies outside, by far or by rounding, ends at the bound."""
        middle, half = (self.low + self.high) / 2.0, (self.high - self.low) / 2.0
        return jnp.clip(middle + half * scaled, self.low, self.high)
