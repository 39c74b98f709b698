"""Actions of every kind and policies over them: continuous, discrete, or mixed, with some columns of each.

A network sees a mixed action as one row, in the order of the columns: a one-hot vector for a discrete column, a number
scaled to [-1, 1] for a continuous one. Its policy is a product: the parts are independent given the inputs.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from waypost.agents import losses
from waypost.agents.nets import LOG_STD_RANGE, MLP, Array, Categorical, Continuous, Discrete, Gaussian

Counts = tuple[int, ...]
"""Number of choices of each column; 0 if it is continuous."""


class Mixed(eqx.Module):
    """Mixed actions, each column discrete or between bounds <-> what networks see."""

    bounds: Continuous
    """Of all columns; those of discrete columns are not used."""
    choices: tuple[tuple[float, ...], ...] = eqx.field(static=True)
    """The numbers that each column is chosen from; empty if it is continuous."""

    def __init__(self, low: ArrayLike, high: ArrayLike, choices: tuple[tuple[float, ...], ...]):
        self.bounds, self.choices = Continuous(low, high), choices

    @property
    def counts(self) -> Counts:
        return tuple(map(len, self.choices))

    @property
    def width(self) -> int:
        """Length of the row that networks see."""
        return sum(max(count, 1) for count in self.counts)

    @property
    def continuous(self) -> np.ndarray:
        """Which entries of the row are continuous."""
        return np.concatenate([np.full(max(count, 1), count == 0) for count in self.counts])

    def scale(self, actions: Array) -> Array:
        scaled = self.bounds.scale(actions)
        parts = []
        for i, numbers in enumerate(self.choices):
            column = actions[..., i : i + 1]
            taken = (column == np.array(numbers, np.float32)).astype(jnp.float32)
            parts.append(taken if numbers else scaled[..., i : i + 1])
        return jnp.concatenate(parts, axis=-1)

    def action(self, scaled: Array) -> Array:
        """The choice with the largest entry, or the number inside its bounds, (rows, columns)."""
        columns = []
        for part, numbers in zip(columns_of(scaled, self.counts), self.choices, strict=True):
            largest = jnp.sum(_largest(part) * np.array(numbers or (0.0,), np.float32), axis=-1)
            columns.append(largest if numbers else part[..., 0])
        actions, discrete = jnp.stack(columns, axis=-1), np.array(self.counts) > 0
        return jnp.where(discrete, actions, self.bounds.action(actions))


def columns_of(row: Array, counts: Counts) -> list[Array]:
    """The part of a row that belongs to each column of a mixed action."""
    return jnp.split(row, list(np.cumsum([max(count, 1) for count in counts])[:-1]), axis=-1)


class Product(eqx.Module):
    """Independent parts: a categorical distribution for each discrete column, a diagonal Gaussian for the others.

    One network gives all logits and means; an outcome is a row of `Mixed.scale`.
    """

    net: MLP
    log_std: Array
    """One number per continuous column."""
    counts: Counts = eqx.field(static=True)
    squashed: bool = eqx.field(static=True)
    """Whether means are kept in (-1, 1) by a tanh; the Gaussian around them is not."""

    def __init__(self, inputs: int, hidden: Sequence[int], counts: Counts, key: Array, squashed: bool = False):
        self.net = MLP(inputs, hidden, sum(max(count, 1) for count in counts), key)
        self.log_std = jnp.zeros(counts.count(0))
        self.counts, self.squashed = counts, squashed

    def gaussian(self, x: Array) -> tuple[Array, Array]:
        """Mean (rows, continuous columns) and log standard deviation (continuous columns,)."""
        return self._means(columns_of(self.net(x), self.counts)), jnp.clip(self.log_std, *LOG_STD_RANGE)

    def discrete_log_likelihood(self, x: Array, outcomes: Array) -> Array:
        """Log likelihood of the discrete columns alone."""
        logits = columns_of(self.net(x), self.counts)
        taken = columns_of(outcomes, self.counts)
        return self._of_choices(logits, taken, jnp.zeros(jnp.broadcast_shapes(x.shape[:-1], outcomes.shape[:-1])))

    def log_likelihood(self, x: Array, outcomes: Array) -> Array:
        parts, taken = columns_of(self.net(x), self.counts), columns_of(outcomes, self.counts)
        log_std = jnp.clip(self.log_std, *LOG_STD_RANGE)
        numbers = losses.gaussian_log_likelihood(self._means(parts), log_std, self.numbers(outcomes))
        return self._of_choices(parts, taken, numbers)

    def noise(self, key: Array) -> Array:
        """The noise with which `near` gives a sample, (outputs,): Gumbel for discrete columns, otherwise normal."""
        first, second = jax.random.split(key)
        outputs = self.net.layers[-1].bias.shape
        counted = np.concatenate([np.full(max(count, 1), count > 0) for count in self.counts])
        return jnp.where(counted, jax.random.gumbel(first, outputs), jax.random.normal(second, outputs))

    def near(self, x: Array, noise: Array) -> Array:
        """The choices with the largest logits plus noise, and the means moved by the noise."""
        parts, moves = columns_of(self.net(x), self.counts), columns_of(noise, self.counts)
        std = iter(jnp.exp(jnp.clip(self.log_std, *LOG_STD_RANGE)))
        found = [
            _largest(part + move) if count else self._mean(part) + next(std) * move
            for part, move, count in zip(parts, moves, self.counts, strict=True)
        ]
        return jnp.concatenate(found, axis=-1)

    def mode(self, x: Array) -> Array:
        parts = columns_of(self.net(x), self.counts)
        found = [_largest(part) if count else self._mean(part) for part, count in zip(parts, self.counts, strict=True)]
        return jnp.concatenate(found, axis=-1)

    def _mean(self, part: Array) -> Array:
        return jnp.tanh(part) if self.squashed else part

    def numbers(self, row: Array) -> Array:
        """The continuous columns of a row."""
        return self._of_numbers(columns_of(row, self.counts))

    def _of_numbers(self, parts: list[Array]) -> Array:
        found = [part for part, count in zip(parts, self.counts, strict=True) if not count]
        return jnp.concatenate(found, axis=-1) if found else parts[0][..., :0]

    def _means(self, parts: list[Array]) -> Array:
        return self._mean(self._of_numbers(parts))

    def _of_choices(self, logits: list[Array], taken: list[Array], total: Array) -> Array:
        """Log likelihoods of the discrete columns, added to `total`."""
        for each, one, count in zip(logits, taken, self.counts, strict=True):
            total = total + jnp.sum(one * jax.nn.log_softmax(each), axis=-1) if count else total
        return total


def _largest(logits: Array) -> Array:
    return jax.nn.one_hot(logits.argmax(axis=-1), logits.shape[-1])


Actions = Continuous | Discrete | Mixed
"""How actions are written as numbers for the networks."""
ActionPolicy = Gaussian | Categorical | Product
"""A distribution over these numbers."""


def policy(inputs: int, hidden: Sequence[int], actions: Actions, key: Array, squashed: bool = False) -> ActionPolicy:
    """A policy for actions of any kind; its outcomes are rows of `actions.scale`."""
    if isinstance(actions, Mixed):
        return Product(inputs, hidden, actions.counts, key, squashed)
    if isinstance(actions, Discrete):
        return Categorical(inputs, hidden, actions.count, key)
    return Gaussian(inputs, hidden, len(actions.low), key, squashed)


def inside(actions: Actions, scaled: Array, edge: float) -> Array:
    """Scaled actions; continuous ones are clipped to stay `edge` inside their bounds."""
    if isinstance(actions, Discrete):
        return scaled
    moved = jnp.clip(scaled, -1.0 + edge, 1.0 - edge)
    return moved if isinstance(actions, Continuous) else jnp.where(actions.continuous, moved, scaled)
