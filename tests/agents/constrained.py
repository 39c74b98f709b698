"""What the tests of BCQ, BEAR and BRAC share: their building blocks once more, in float64 NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import oracles
from oracles import HIGH, LOW, mlp, numbers

from waypost.data.dataset import Dataset


class Rows(NamedTuple):
    """The transitions of a data set whose next state is known or does not matter, as the networks see them."""

    states: np.ndarray
    following: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    discounts: np.ndarray

    def targets(self, next_values: np.ndarray) -> np.ndarray:
        return self.rewards + self.discounts * next_values


def rows(data: Dataset, discount: float, scaled: bool = False) -> Rows:
    kept = data.next_valid | data.terminals
    seen, following, actions, rewards = (
        np.asarray(column, np.float64)
        for column in (data.observations, data.next_observations, data.actions, data.rewards)
    )
    shift, width = (seen.mean(0), seen.std(0)) if scaled else (0.0, 1.0)
    return Rows(
        ((seen - shift) / width)[kept],
        ((following - shift) / width)[kept],
        (2 * (actions - LOW) / (HIGH - LOW) - 1)[kept],
        rewards[kept],
        np.where(data.terminals, 0.0, discount)[kept],
    )


def columns(prepared: dict[str, np.ndarray]) -> dict[str, jax.Array]:
    return {name: jnp.asarray(column) for name, column in prepared.items()}


def normal(key: jax.Array, shape: tuple[int, ...], clip: float | None = None) -> np.ndarray:
    draws = np.asarray(jax.random.normal(key, shape), np.float64)
    return draws if clip is None else np.clip(draws, -clip, clip)


def pair(states: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(s, x) side by side, s repeated for every sample of x."""
    return np.concatenate([np.broadcast_to(states, (*others.shape[:-1], states.shape[-1])), others], axis=-1)


def both(net: Any, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """The values of both networks, (2, ..., rows)."""
    return np.array([mlp(head, pair(states, actions))[..., 0] for head in net.heads])


def value_loss(net: Any, table: Rows, targets: np.ndarray) -> float:
    values = both(net, table.states, table.actions)
    return ((values[0] - targets) ** 2).mean() + ((values[1] - targets) ** 2).mean()


def cautious(values: np.ndarray, share: float) -> np.ndarray:
    return share * np.minimum(values[0], values[1]) + (1 - share) * np.maximum(values[0], values[1])


def tanh_gaussian(net: Any, x: np.ndarray, low: float, high: float, mapped: bool) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation before the tanh."""
    mean, raw = np.split(mlp(net.net, x), 2, axis=-1)
    log_std = low + (high - low) * (np.tanh(raw) + 1) / 2 if mapped else np.clip(raw, low, high)
    return mean, np.exp(log_std)


def normal_density(x: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """log N(x; mean, std), summed over the numbers of a row."""
    return np.sum(-0.5 * ((x - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi), axis=-1)


def decoder(net: Any, states: np.ndarray, z: np.ndarray) -> np.ndarray:
    """What the VAE decodes, before the tanh."""
    return mlp(net.decoder, pair(states, z))


def vae_loss(net: Any, table: Rows, noise: np.ndarray, kl_weight: float) -> float:
    """Both terms are means over rows and numbers: not sums over the numbers of an action or of z."""
    mean, log_std = np.split(mlp(net.encoder, pair(table.states, table.actions)), 2, axis=-1)
    std = np.exp(np.clip(log_std, -4, 15))
    decoded = np.tanh(decoder(net, table.states, mean + std * noise))
    kl = -0.5 * (1 + np.log(std**2) - mean**2 - std**2)
    return np.mean((decoded - table.actions) ** 2) + kl_weight * np.mean(kl)


def check(
    loss: Callable[[Any], float], reported: Any, before: Any, after: Any, optimiser: Any, rate: float, tolerance: float
) -> None:
    """A network took Adam's first step down this loss: its value, its gradient, the step."""
    old, new = numbers(before), numbers(after)
    assert np.isclose(float(reported), loss(old), rtol=tolerance)
    slopes = oracles.gradient(loss, old)
    assert oracles.agree(oracles.adam_gradient(optimiser), slopes, tolerance)
    steps = [a - b for a, b in zip(*map(jax.tree.leaves, (new, old)), strict=True)]
    assert oracles.is_adams_first_step(steps, slopes, rate)


def moved_by(rate: float, before: Any, online: Any, after: Any) -> bool:
    """Whether a target moved by its rate towards the network it follows."""
    old, whole, new = (jax.tree.leaves(numbers(tree)) for tree in (before, online, after))
    moves = [(n - o, rate * (w - o)) for o, w, n in zip(old, whole, new, strict=True)]
    return oracles.agree([move for move, _ in moves], [expected for _, expected in moves], 1e-5)


def same(one: Any, other: Any) -> bool:
    """Equal to the last bit."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in pairs)


def differing(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    return {name for name in one if not same(one[name], other[name])}
