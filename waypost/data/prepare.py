"""Data preparation: what an algorithm trains on. Each function turns a Dataset into arrays with one row per transition.

A row may look at its episode but not beyond: streamed data are prepared block by block, whole episodes together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from waypost.data.dataset import Dataset, moments
from waypost.errors import WaypostError

Arrays = dict[str, np.ndarray]
"""What a batch is drawn from, by name; all of one length."""
Standardised = bool | Literal["none", "standardise", "robust"]
"""Whether numbers are scaled to mean 0 and standard deviation 1; `robust` ignores a few outliers."""
LIMIT = 10.0
"""Robustly scaled numbers are clipped here, on both sides."""
TAIL = 0.005
"""Share of the numbers at each end that a robust spread ignores."""
MOST_ROWS = 100_000
"""Rows that quantiles are computed from, evenly spread over the data."""


def transitions(dataset: Dataset, discount: float, known: np.ndarray | None = None) -> Arrays:
    """(s, a, r, s', gamma (1 - terminal)) of the rows that are `known`: whose next state is real or does not matter."""
    known = dataset.next_valid | dataset.terminals if known is None else known
    arrays = {
        "observations": dataset.observations,
        "actions": dataset.require("actions"),
        "rewards": dataset.require("rewards"),
        "next_observations": dataset.next_observations,
        "discounts": discounts(dataset, discount),
    }
    return arrays if known.all() else {name: values[known] for name, values in arrays.items()}


def discounts(dataset: Dataset, discount: float) -> np.ndarray:
    """gamma (1 - terminal)."""
    return np.where(dataset.terminals, 0.0, discount).astype(np.float32)


def to_go(dataset: Dataset) -> Arrays:
    """For each row its time step in the episode, the rows left (itself included), and the return from it on."""
    rows, last = np.arange(len(dataset)), dataset.last_row
    rewards = dataset.require("rewards").astype(np.float64)
    earned = np.cumsum(rewards)
    return {
        "times": (rows - dataset.episode_starts[dataset.episode_of]).astype(np.int32),
        "left": (last - rows + 1).astype(np.int32),
        "returns_to_go": (earned[last] - earned + rewards).astype(np.float32),
    }


def guided_transitions(dataset: Dataset, horizon: int, discount: float) -> Arrays:
    """(s, s', gamma (1 - terminal)) of every row, whether its next state is `known` or does not matter, and `goals`."""
    arrays = {
        "observations": dataset.observations,
        "next_observations": dataset.next_observations,
        "discounts": discounts(dataset, discount),
        "known": (dataset.next_valid | dataset.terminals).astype(np.float32),
        **goals(dataset, horizon, discount),
    }
    if not arrays["aimed"].any():
        raise WaypostError(f"{dataset.name}: no transition has a real next state; nothing to learn from")
    return arrays


def goals(dataset: Dataset, horizon: int, discount: float) -> Arrays:
    """Where a guide aims from each row, the rewards on the way, and whether that state is real (`aimed`).

    With a horizon of 1 it is the next state, which needs no arrays of its own. A longer one ends with the episode, and
    one state earlier where the recorder did not keep the episode's last state.
    """
    if horizon == 1:
        return {"aimed": dataset.next_valid.astype(np.float32)}
    arrays = _ahead(dataset, horizon, discount, dataset.next_valid, "goal", "ahead", "aimed")
    goals = dataset.next_observations[np.arange(len(dataset)) + arrays.pop("ahead")]
    return {"goals": goals, **arrays}


def waypoints(dataset: Dataset, horizon: int, backup: int, discount: float) -> Arrays:
    """(s, s') of every row, its waypoint and what V learns from: `horizon` and `backup` steps ahead.

    `ahead` and `value_ahead` are the number of rows to the row whose next state is meant. Each comes with the rewards
    on the way and gamma^steps (1 - terminal). A row is `aimed` where its waypoint is real, and `known` where V's next
    state is real or does not matter.
    """
    arrays = {"observations": dataset.observations, "next_observations": dataset.next_observations}
    for prefix, ahead, mask, steps in (
        ("goal", "ahead", "aimed", horizon),
        ("value", "value_ahead", "known", backup),
    ):
        usable = dataset.next_valid if mask == "aimed" else dataset.next_valid | dataset.terminals
        arrays |= _ahead(dataset, steps, discount, usable, prefix, ahead, mask)
    if not arrays["aimed"].any():
        raise WaypostError(f"{dataset.name}: no transition has a real next state; nothing to learn from")
    return arrays


def _ahead(
    dataset: Dataset, steps: int, discount: float, usable: np.ndarray, prefix: str, ahead: str, mask: str
) -> Arrays:
    """That many steps ahead, or the episode's end; one row earlier where that row is not usable."""
    rows = np.arange(len(dataset))
    reached = np.minimum(rows + steps - 1, dataset.last_row)
    reached = np.where(usable[reached], reached, reached - 1)
    there = reached >= rows
    reached = np.maximum(reached, rows)
    arrays = {ahead: (reached - rows).astype(np.int32), mask: there.astype(np.float32)}
    if dataset.rewards is not None:
        arrays[f"{prefix}_rewards"] = _earned(dataset.rewards, reached, discount).astype(np.float32)
        left = discount ** (reached - rows + 1.0)
        arrays[f"{prefix}_discounts"] = np.where(dataset.terminals[reached], 0.0, left).astype(np.float32)
    return arrays


def _earned(rewards: np.ndarray, reached: np.ndarray, discount: float) -> np.ndarray:
    """The discounted rewards from each row to the one it reaches, both included."""
    rows = np.arange(len(reached))
    earned = np.zeros(len(reached))
    for later in range(int((reached - rows).max(initial=0)) + 1):
        row = np.minimum(rows + later, reached)
        earned += np.where(rows + later <= reached, discount**later * rewards[row], 0.0)
    return earned


def check_columns(dataset: Dataset, setting: str, columns: Sequence[int]) -> None:
    """Raise if a setting names columns the observation does not have."""
    last = dataset.observation_size - 1
    if not all(0 <= column <= last for column in columns):
        raise WaypostError(f"{setting} must be columns of {dataset.name}, from 0 to {last}, got {columns}")


# -- scaling of networks: means and standard deviations for `Spec.of` --------------------------------------


def observation_scaling(dataset: Dataset, scaled: Standardised, least: float = 0.0) -> Arrays:
    """What observations are shifted and divided by; `least` is added to a standard deviation that is not robust."""
    if scaled == "robust":
        return robust_scaling("observation", dataset.observations)
    mean, std = dataset.observation_moments
    if scaled in (False, "none"):
        mean, std, least = np.zeros_like(mean), np.ones_like(std), 0.0
    return {"observation_mean": mean, "observation_std": std + least}


def robust_scaling(name: str, values: np.ndarray) -> Arrays:
    """The statistics NAME_mean, NAME_std and NAME_limit, for a `Scaling` that clips at a limit."""
    mean, std = robust_moments(values)
    return {f"{name}_mean": mean, f"{name}_std": std, f"{name}_limit": np.full(len(mean), LIMIT)}


def robust_moments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation per column, after clipping both tails to their quantiles.

    A column that changes only in its tails, such as a flag that is rarely set, gets its plain ones. A constant column
    gets its value and 1. Nothing here depends on units.
    """
    some = values[:: -(-len(values) // MOST_ROWS)].astype(np.float64)
    low, high = np.quantile(some, (TAIL, 1.0 - TAIL), axis=0)
    inside = np.clip(some, low, high)
    mean, std = inside.mean(axis=0), inside.std(axis=0)
    for column in np.flatnonzero(high == low):
        every = values[:, column].astype(np.float64)
        changes = every.min() < every.max()
        mean[column] = every.mean() if changes else every[0]
        std[column] = every.std() if changes else 1.0
    return mean, std


def displacement_scaling(arrays: Arrays, robust: bool) -> Arrays:
    """Scaling of the displacement to the goals: direction_mean, direction_std and, if robust, direction_limit."""
    goals = arrays.get("goals", arrays["next_observations"])
    return way_scaling("direction", (goals - arrays["observations"])[arrays["aimed"] > 0], robust)


def way_scaling(name: str, ways: np.ndarray, robust: bool) -> Arrays:
    """Scaling of displacements, as statistics with that name."""
    if robust:
        return robust_scaling(name, ways)
    mean, std = way_moments(ways)
    return {f"{name}_mean": mean, f"{name}_std": std}


def way_moments(ways: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean, and a standard deviation large enough that no displacement is more than 10 of it.

    A column that rarely changes (a key picked up once in 4000 rows) would otherwise change by 60 standard deviations,
    and its squared errors would dominate all others.
    """
    mean, std = moments(ways)
    return mean, np.maximum(std, np.abs(ways - mean).max(axis=0) / 10.0)
