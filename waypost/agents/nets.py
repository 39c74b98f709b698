"""Small network modules. Every leaf is an array, so each module is a plain pytree."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from waypost.agents import losses

Array = jax.Array
Net = TypeVar("Net")

EDGE = 1e-6
"""How far inside (-1, 1) an action must lie to have a likelihood under a tanh."""
LOG_STD_RANGE = (-5.0, 2.0)
"""Range of the logarithm of a Gaussian's standard deviation."""


FEW = 16
"""Layers with at most this many outputs store their weights transposed."""


class Linear(eqx.Module):
    """x -> x W + b on a batch of rows.

    W is (inputs, outputs), or (outputs, inputs) if there are few outputs: the gradient is then a product with few rows,
    which XLA computes faster on a CPU than one with few columns.
    """

    weight: Array
    bias: Array
    transposed: bool = eqx.field(static=True, default=False)

    def __call__(self, x: Array) -> Array:
        return x @ (self.weight.T if self.transposed else self.weight) + self.bias


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
        # One draw for the whole network: each further one would add a second of compilation.
        numbers = jax.random.uniform(key, (sum((i + 1) * o for i, o in shapes),), minval=-1.0, maxval=1.0)
        layers, first = [], 0
        for i, o in shapes:
            table = numbers[first : first + (i + 1) * o].reshape(i + 1, o) / np.sqrt(i, dtype=np.float32)
            transposed = o <= FEW
            layers.append(Linear(table[:i].T if transposed else table[:i], table[i], transposed))
            first += (i + 1) * o
        self.layers = tuple(layers)
        self.norms = tuple(LayerNorm(size) for size in hidden) if layer_norm else ()

    def __call__(self, x: Array) -> Array:
        for i, layer in enumerate(self.layers[:-1]):
            x = layer(x)
            x = jax.nn.relu(self.norms[i](x) if self.norms else x)
        return self.layers[-1](x)


class Twin(eqx.Module):
    """Two scalar networks with different initial weights; calling gives both, (2, rows)."""

    heads: tuple[MLP, MLP]

    def __init__(self, inputs: int, hidden: Sequence[int], key: Array, layer_norm: bool = False):
        first, second = jax.random.split(key)
        self.heads = (MLP(inputs, hidden, 1, first, layer_norm), MLP(inputs, hidden, 1, second, layer_norm))

    def __call__(self, x: Array) -> Array:
        return jnp.stack([head(x)[..., 0] for head in self.heads])


def side_by_side(*parts: Array) -> Array:
    """Concatenate the columns of several arrays as the input of a network; leading axes broadcast.

    States (rows, n) and samples of actions (samples, rows, m) give (samples, rows, n + m).
    """
    leading = jnp.broadcast_shapes(*(part.shape[:-1] for part in parts))
    return jnp.concatenate([jnp.broadcast_to(part, (*leading, part.shape[-1])) for part in parts], axis=-1)


def clipped_normal(key: Array, shape: tuple[int, ...], most: float) -> Array:
    """Draws of a standard normal, clipped to +-most."""
    return jnp.clip(jax.random.normal(key, shape), -most, most)


def dropout(x: Array, rate: float, key: Array | None) -> Array:
    """Set each number to 0 with probability `rate` and rescale the others; without a key, change nothing."""
    if key is None or rate == 0.0:
        return x
    return jnp.where(jax.random.bernoulli(key, 1.0 - rate, x.shape), x / (1.0 - rate), 0.0)


class DropoutLinear(eqx.Module):
    """A layer with dropout on its inputs."""

    layer: Linear
    key: Array
    rate: float = eqx.field(static=True)

    def __call__(self, x: Array) -> Array:
        return self.layer(dropout(x, self.rate, self.key))


def with_dropout(net: Net, rate: float, key: Array) -> Net:
    """A module whose one MLP has dropout after each hidden layer, for the loss in training."""

    def changed(part: object) -> object:
        if not isinstance(part, MLP):
            return part
        first, *others = part.layers
        keys = jax.random.split(key, len(part.layers))
        later = (DropoutLinear(layer, each, rate) for layer, each in zip(others, keys[1:], strict=True))
        return eqx.tree_at(lambda mlp: mlp.layers, part, (first, *later))

    return net if rate == 0.0 else jax.tree.map(changed, net, is_leaf=lambda part: isinstance(part, MLP))


# -- distributions: each has the log likelihood of an outcome and its mode ------------------------------


class Gaussian(eqx.Module):
    """Diagonal Gaussian: the mean is a network of the input, the log standard deviation a number per output."""

    mean: MLP
    log_std: Array
    squashed: bool = eqx.field(static=True)
    """Whether the mean is kept in (-1, 1) by a tanh; the Gaussian around it is not."""

    def __init__(self, inputs: int, hidden: Sequence[int], outputs: int, key: Array, squashed: bool = False):
        self.mean = MLP(inputs, hidden, outputs, key)
        self.log_std = jnp.zeros(outputs)
        self.squashed = squashed

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """Mean (rows, outputs) and log standard deviation (outputs,)."""
        return self.mode(x), jnp.clip(self.log_std, *LOG_STD_RANGE)

    @property
    def std(self) -> Array:
        """Standard deviation of each output."""
        return jnp.exp(jnp.clip(self.log_std, *LOG_STD_RANGE))

    def sample(self, x: Array, key: Array) -> Array:
        """Samples, (rows, outputs), differentiable in the network."""
        mean, log_std = self(x)
        return mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape)

    def log_likelihood(self, x: Array, outcomes: Array) -> Array:
        return losses.gaussian_log_likelihood(*self(x), outcomes)

    def noise(self, key: Array) -> Array:
        """The noise with which `near` gives a sample, (outputs,)."""
        return jax.random.normal(key, self.log_std.shape)

    def near(self, x: Array, noise: Array) -> Array:
        """The mode, moved by `noise` standard deviations."""
        mean, log_std = self(x)
        return mean + jnp.exp(log_std) * noise

    def mode(self, x: Array) -> Array:
        mean = self.mean(x)
        return jnp.tanh(mean) if self.squashed else mean


class Categorical(eqx.Module):
    """One of several discrete actions; an outcome is a one-hot vector."""

    logits: MLP

    def __init__(self, inputs: int, hidden: Sequence[int], outputs: int, key: Array):
        self.logits = MLP(inputs, hidden, outputs, key)

    def log_likelihood(self, x: Array, outcomes: Array) -> Array:
        return jnp.sum(outcomes * jax.nn.log_softmax(self.logits(x)), axis=-1)

    def noise(self, key: Array) -> Array:
        """The noise with which `near` gives a sample, (outputs,): Gumbel noise."""
        return jax.random.gumbel(key, self.logits.layers[-1].bias.shape)

    def near(self, x: Array, noise: Array) -> Array:
        """The choice with the largest logit plus noise."""
        logits = self.logits(x) + noise
        return jax.nn.one_hot(logits.argmax(axis=-1), logits.shape[-1])

    def mode(self, x: Array) -> Array:
        logits = self.logits(x)
        return jax.nn.one_hot(logits.argmax(axis=-1), logits.shape[-1])


class TanhGaussian(eqx.Module):
    """tanh of a diagonal Gaussian, one network for both mean and log standard deviation: samples lie in (-1, 1)."""

    net: MLP
    log_std_range: tuple[float, float] = eqx.field(static=True)
    mapped: bool = eqx.field(static=True)
    """Whether the log standard deviation is mapped into its range by a tanh instead of being clipped to it."""

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int],
        outputs: int,
        key: Array,
        log_std_range: tuple[float, float] = (-20.0, 2.0),
        mapped: bool = False,
    ):
        self.net = MLP(inputs, hidden, 2 * outputs, key)
        self.log_std_range = log_std_range
        self.mapped = mapped

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """Mean and log standard deviation before the tanh, each (rows, outputs)."""
        mean, log_std = jnp.split(self.net(x), 2, axis=-1)
        low, high = self.log_std_range
        if self.mapped:
            return mean, low + 0.5 * (high - low) * (jnp.tanh(log_std) + 1.0)
        return mean, jnp.clip(log_std, low, high)

    def sample(self, x: Array, key: Array, samples: tuple[int, ...] = ()) -> tuple[Array, Array]:
        """Samples tanh(u), (*samples, rows, outputs), and their log likelihoods, differentiable in the network."""
        mean, log_std = self(x)
        inner = mean + jnp.exp(log_std) * jax.random.normal(key, (*samples, *mean.shape))
        return jnp.tanh(inner), losses.tanh_gaussian_log_likelihood(mean, log_std, inner)

    def log_likelihood(self, x: Array, outcomes: Array) -> Array:
        """Log likelihood of outcomes in [-1, 1]; those at the bounds are moved slightly inside."""
        inner = jnp.arctanh(jnp.clip(outcomes, -1.0 + EDGE, 1.0 - EDGE))
        return losses.tanh_gaussian_log_likelihood(*self(x), inner)

    def mode(self, x: Array) -> Array:
        """tanh of the mean, the action of such policies."""
        return jnp.tanh(self(x)[0])


class VAE(eqx.Module):
    """The data's actions in a state: encoder (s, a) -> z, decoder (s, z) -> a in (-1, 1)."""

    encoder: MLP
    decoder: MLP
    latent: int = eqx.field(static=True)

    def __init__(self, observations: int, actions: int, hidden: Sequence[int], latent: int, key: Array):
        first, second = jax.random.split(key)
        self.encoder = MLP(observations + actions, hidden, 2 * latent, first)
        self.decoder = MLP(observations + latent, hidden, actions, second)
        self.latent = latent

    def encode(self, observations: Array, actions: Array) -> tuple[Array, Array]:
        """Mean and log standard deviation of z, the latter in [-4, 15]."""
        mean, log_std = jnp.split(self.encoder(side_by_side(observations, actions)), 2, axis=-1)
        return mean, jnp.clip(log_std, -4.0, 15.0)

    def loss(self, observations: Array, actions: Array, kl_weight: float, key: Array) -> Array:
        """Reconstruction error of actions from samples of z, and the KL of z to N(0, 1)."""
        mean, log_std = self.encode(observations, actions)
        z = mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape)
        return losses.vae_loss(actions, self.decode(observations, z), mean, log_std, kl_weight)

    def before_tanh(self, observations: Array, z: Array) -> Array:
        return self.decoder(side_by_side(observations, z))

    def decode(self, observations: Array, z: Array) -> Array:
        return jnp.tanh(self.before_tanh(observations, z))


# -- between the numbers of the data and those of the networks ------------------------------------------


class Scaling(eqx.Module):
    """x -> (x - mean) / std with fixed numbers from the data; never trained."""

    mean: Array
    std: Array
    limit: Array | None
    """Scaled numbers are clipped to +-limit; None = not clipped."""

    def __init__(self, mean: ArrayLike, std: ArrayLike, limit: ArrayLike | None = None):
        self.mean = jnp.asarray(np.asarray(mean, np.float32))
        self.std = jnp.asarray(np.asarray(std, np.float32))
        self.limit = None if limit is None else jnp.asarray(np.asarray(limit, np.float32))

    def __call__(self, x: Array) -> Array:
        scaled = (x - self.mean) / self.std
        return scaled if self.limit is None else jnp.clip(scaled, -self.limit, self.limit)

    def undo(self, z: Array) -> Array:
        return z * self.std + self.mean


class Unscaled(eqx.Module):
    """x -> x, instead of a `Scaling`."""

    def __call__(self, x: Array) -> Array:
        return x


class Direction(eqx.Module):
    """How a pair (s, s') is encoded for networks: s' or s' - s, scaled."""

    scaling: Scaling
    form: Literal["state", "displacement"] = eqx.field(static=True)

    def encode(self, observations: Array, goals: Array) -> Array:
        return self.scaling(goals - observations if self.form == "displacement" else goals)

    def decode(self, observations: Array, encoded: Array) -> Array:
        goals = self.scaling.undo(encoded)
        return observations + goals if self.form == "displacement" else goals


class Continuous(eqx.Module):
    """Continuous actions between their bounds <-> [-1, 1], the range that policies of every task see."""

    low: Array
    high: Array

    def __init__(self, low: ArrayLike, high: ArrayLike):
        self.low = jnp.asarray(np.asarray(low, np.float32))
        self.high = jnp.asarray(np.asarray(high, np.float32))

    def scale(self, actions: Array) -> Array:
        # A constant action has no width to divide by.
        width = jnp.where(self.high > self.low, self.high - self.low, 2.0)
        return (2.0 * actions - self.low - self.high) / width

    def action(self, scaled: Array) -> Array:
        """The action of a scaled one, clipped to the bounds."""
        middle, half = (self.low + self.high) / 2.0, (self.high - self.low) / 2.0
        return jnp.clip(middle + half * scaled, self.low, self.high)


class Discrete(eqx.Module):
    """Discrete actions, numbers from 0 to count - 1 <-> one-hot vectors."""

    count: int = eqx.field(static=True)

    def scale(self, actions: Array) -> Array:
        return jax.nn.one_hot(actions[..., 0].astype(jnp.int32), self.count)

    def action(self, scaled: Array) -> Array:
        """The index of the largest entry, (rows,)."""
        return scaled.argmax(axis=-1)
