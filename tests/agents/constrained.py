"""What the tests of BCQ, BEAR, BRAC, CQL and TD3+BC share.

Building blocks once more, in float64 NumPy, what is asked of each, and their presets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import compiled
import jax
import jax.numpy as jnp
import numpy as np
from oracles import HIGH, LOW, ROWS, TERMINAL, TIMEOUT, mlp, same, walks

from waypost.data.dataset import Dataset
from waypost.envs.tasks import TASKS
from waypost.training import presets

KNOWN = ROWS - 1
"""The row whose next state is unknown, and which is no terminal, is left out."""


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


# -- what is asked of each ---------------------------------------------------------------------------------


def parts(where: dict[str, Callable[[Any], Any]], state: Any) -> dict[str, Any]:
    """Each network with its optimiser: Adam's first step shows only the sign of a gradient."""
    return {name: (part(state), state.optimisers.get(name)) for name, part in where.items()}


def check_bootstrap(learned: Callable[[dict[str, jax.Array]], Any], batch: dict[str, jax.Array]) -> None:
    """What is learned from a batch depends on the state after a timeout, and not on that after a terminal."""
    assert len(batch["rewards"]) == KNOWN
    for row, matters in ((TERMINAL, False), (TIMEOUT, True)):
        following = batch["next_observations"].at[row].add(1.0)
        assert same(learned(batch), learned({**batch, "next_observations": following})) is not matters


def reading_rewards(update: Callable[..., Any], state: Any, batch: dict[str, jax.Array]) -> list[bool]:
    """Of three updates, after which the policy is another one if the rewards are others."""
    other, found = {**batch, "rewards": batch["rewards"] + 5.0}, []
    one, two = state, state
    for _ in range(3):
        one, two = update(one, batch), update(two, other)
        found.append(not same(one.agent.policy, two.agent.policy))
    return found


def check_company(agent: Any, tolerance: float) -> None:
    """It acts alike every time, and whatever rows are beside."""
    states = walks().observations
    whole, again, backwards = (compiled.act(agent, each, ())[0] for each in (states, states, states[::-1]))
    assert np.array_equal(whole, again)
    assert np.allclose(whole[::-1], backwards, atol=tolerance)


# -- presets -----------------------------------------------------------------------------------------------

LOCOMOTION = [
    f"{body}-{data}"
    for body in ("halfcheetah", "hopper", "walker2d")
    for data in ("medium", "medium-replay", "medium-expert")
]
MAZES = [name for name in TASKS if name.startswith("antmaze")]


def preset(algorithm: str, config_type: type, name: str) -> tuple[int | None, Any]:
    """Its steps and its settings."""
    _, steps, found = presets.find(algorithm, config_type, name, "")
    return steps, config_type(**found)


def presets_of(algorithm: str, config_type: type) -> dict[str, tuple[int | None, Any]]:
    """All of them, of which the paper's are for all of its data sets."""
    names = presets.presets(algorithm)
    assert {name for name in names if name.startswith("paper/")} == {
        name for name in presets.presets("por") if name.startswith("paper/") and "rooms" not in name
    }
    return {name: preset(algorithm, config_type, name) for name in names}


def check_presets(algorithm: str, config_type: type) -> None:
    """One for every data set of the paper, and a small one for the T-maze."""
    assert set(presets.presets(algorithm)) == {"t-maze", *(f"paper/{name}" for name in LOCOMOTION + MAZES)}
    steps, config = preset(algorithm, config_type, "t-maze")
    assert (steps or 0) <= 6_000
    assert config.critic_hidden == config.policy_hidden == (64, 64)
