"""The slow directions of a system: those in which it drifts instead of swinging.

Over k steps a direction that swings comes back, a random walk moves by sqrt(k) of its steps, and a direction that
drifts by k of them. With C_k the covariance of s_(t+k) - s_t, the generalised eigenvalues of (C_k, C_1) divided by k
are below 1, about 1, and up to k for these three. Their eigenvectors are the directions, in closed form.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from waypost.data.dataset import Dataset
from waypost.data.prepare import Arrays, way_scaling, waypoints
from waypost.errors import WaypostError
from waypost.types import Doubles

MOST_ROWS = 200_000
"""Rows the covariances are computed from, evenly spread over the data."""
RIDGE = 1e-6
"""Share of a column's one-step variance that is added to it, or the variance of a constant one: columns may repeat."""


FAR, NEAR = 25, 5
"""Steps to look ahead where few directions are slow, and everywhere else."""
STEADY = 0.6
"""How steadily a direction must drift to count here: what oscillates slowly turns around before."""
FEW = 1 / 6
"""Share of the columns up to which slow directions are few: the rest is a body that moves through a place."""
EPISODE_SHARE = 4
"""Steps ahead are at most the median length of an episode divided by this."""
FOLLOWS, KEPT = 0.5, 0.9
"""Share of the variance of rewards that the state explains if they follow from it, and how much must be left."""
FITTED_ROWS, FEATURES, OUTER = 20_000, 200, 0.005
"""For that: rows, random features, and the share of rewards on either side that is clipped."""


class Ahead(NamedTuple):
    """How far ahead waypoints should be, and whether in slow directions or in all columns."""

    steps: int
    slow: bool


def look_ahead(dataset: Dataset, std: np.ndarray, drift: float, named: int = 0) -> Ahead:
    """What the data say about waypoints; `named` is how many columns are known to be slow, 0 if none is named.

    Where few directions drift and most oscillate (an ant that walks), only those tell where an episode is going, and
    only far ahead: the next steps are part of a gait. Everywhere else a near waypoint says more about the next action.
    It is in slow directions if rewards follow from these, or if some drift steadily and rewards say nothing else. In
    all cases most rows must have such a state in their episode: it is at most a quarter of the usual length ahead.
    """
    most = max(1, int(np.median(dataset.episode_lengths)) // EPISODE_SHARE)
    far = min(FAR, most)

    def directions(steps: int, drift: float) -> Doubles:
        return slow_directions(waypoints(dataset.without_rewards(), steps, steps, 1.0), std, steps, drift)[0]

    near, count = min(NEAR, most), named or directions(far, max(drift, STEADY)).shape[1]
    steps = far if 0 < count <= FEW * len(std) else near
    if named:
        return Ahead(steps, True)
    found = directions(steps, drift)
    told = tell_rewards(dataset, std, found) if found.shape[1] else False
    slow = count > 0 if told is None else told
    return Ahead(steps if slow else near, slow)


def tell_rewards(dataset: Dataset, std: np.ndarray, directions: np.ndarray) -> bool | None:
    """Whether rewards follow from coordinates in these directions as well as from the state; None if from neither.

    V reads only the coordinates, so it cannot learn rewards that depend on the rest: a price, a changing setpoint.
    """
    if dataset.rewards is None:
        return None
    rows = slice(None, None, -(-len(dataset) // FITTED_ROWS))
    rewards = dataset.rewards[rows].astype(np.float64)
    rewards = np.clip(rewards, *np.quantile(rewards, [OUTER, 1 - OUTER]))
    if len(rewards) < 4 * FEATURES or not rewards.std() > 0:
        return None
    states = dataset.observations[rows] / std
    by_state = _explained(states, rewards)
    return None if by_state < FOLLOWS else _explained(states @ directions, rewards) >= KEPT * by_state


def _explained(inputs: np.ndarray, outcomes: np.ndarray) -> float:
    """Share of the variance of outcomes that a smooth function of the inputs explains; even rows fit it, odd ones test.

    Ridge regression on the inputs and on cosines of random combinations of them.
    """
    inputs = inputs - inputs.mean(axis=0)
    inputs = np.clip(inputs / np.maximum(inputs.std(axis=0), 1e-9), -5.0, 5.0)
    rng = np.random.default_rng(0)
    waves = inputs @ rng.normal(0, 1.5, (inputs.shape[1], FEATURES)) / max(1, inputs.shape[1]) ** 0.5
    features = np.column_stack([inputs, np.cos(waves + rng.uniform(0, 2 * np.pi, FEATURES)), np.ones(len(inputs))])
    fitted, tested = features[::2], features[1::2]
    ridge = 1e-4 * len(fitted) * np.eye(features.shape[1])
    weights = np.linalg.solve(fitted.T @ fitted + ridge, fitted.T @ outcomes[::2])
    left = tested @ weights - outcomes[1::2]
    return float(1 - np.mean(left**2) / max(outcomes[1::2].var(), 1e-12))


def slow_directions(arrays: Arrays, std: np.ndarray, horizon: int, drift: float) -> tuple[Doubles, Doubles]:
    """Directions of the observations divided by `std`, (columns, directions), and how far each drifts.

    That is the eigenvalue divided by the horizon. Directions are kept where it is above horizon^drift, the slowest
    first; there may be none.
    """
    rows = np.flatnonzero((arrays["aimed"] > 0) & (arrays["ahead"] == horizon - 1))
    columns = arrays["observations"].shape[1]
    if horizon == 1 or len(rows) < 2 * columns:
        return np.zeros((columns, 0)), np.zeros(0)
    rows = rows[:: -(-len(rows) // MOST_ROWS)]
    here, following = arrays["observations"][rows], arrays["next_observations"]

    def covariance(there: np.ndarray) -> Doubles:
        ways = ((there - here) / std).astype(np.float64)
        return ways.T @ ways / len(ways)

    near, far = covariance(following[rows]), covariance(following[rows + horizon - 1])
    # (C_k - ratio C_1) v = 0, by the square root of C_1.
    own = np.diag(near)
    root = np.linalg.cholesky(near + RIDGE * np.diag(np.where(own > 0, own, 1.0)))
    inverse = np.linalg.inv(root)
    ratios, vectors = np.linalg.eigh(inverse @ far @ inverse.T)
    drifts, directions = ratios[::-1] / horizon, inverse.T @ vectors[:, ::-1]
    kept = drifts > horizon**drift
    return directions[:, kept], drifts[kept]


def waypoint_statistics(
    arrays: Arrays,
    scaling: Arrays,
    form: Literal["slow", "displacement", "state"],
    columns: tuple[int, ...],
    horizon: int,
    drift: float,
) -> Arrays:
    """The coordinates of a waypoint, for `Spec`: directions, their inverse, and the scale of displacements.

    Where nothing is slow, a waypoint is the displacement in all columns. In the form "state" it is scaled as
    observations are. Displacements are scaled robustly if observations are.
    """
    if form == "state":
        return {name.replace("observation_", "waypoint_"): values for name, values in scaling.items()}
    robust = "observation_limit" in scaling
    std = scaling["observation_std"].astype(np.float64)
    directions = np.zeros((len(std), 0))
    if form == "slow" and columns:
        directions = np.eye(len(std))[:, list(columns)]
    elif form == "slow":
        directions, _ = slow_directions(arrays, std, horizon, drift)
    aimed = np.flatnonzero(arrays["aimed"] > 0)
    if not len(aimed):
        raise WaypostError("no transition has a real next state; nothing to learn from")
    ways = arrays["next_observations"][aimed + arrays["ahead"][aimed]] - arrays["observations"][aimed]
    if not directions.shape[1]:
        return way_scaling("waypoint", ways, robust)
    places = (arrays["observations"] / std) @ directions
    spread = places.std(axis=0)
    # A named column may be constant but for rounding errors.
    directions = directions / np.where(spread > 1e-9 * np.abs(places).max(axis=0), spread, 1.0)
    return {
        "waypoint_directions": directions.ravel(),
        "waypoint_lift": np.linalg.pinv(directions).ravel(),
        **way_scaling("waypoint", (ways / std) @ directions, robust),
    }
