"""The slow directions of a system: those in which it drifts instead of swinging.

Over k steps a direction that swings comes back, a random walk moves by sqrt(k) of its steps, and a direction that
drifts by k of them. With C_k the covariance of s_(t+k) - s_t, the generalised eigenvalues of (C_k, C_1) divided by k
are below 1, about 1, and up to k for these three. Their eigenvectors are the directions, in closed form.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from waypost.data.dataset import Dataset
from waypost.data.prepare import Arrays, way_scaling, waypoints
from waypost.errors import WaypostError
from waypost.types import Doubles

MOST_ROWS = 200_000
"""Rows the covariances are computed from, evenly spread over the data."""
RIDGE = 1e-6
"""Share of a column's one-step variance that is added to it: a column may be constant."""


FAR, NEAR = 25, 10
"""Steps to look ahead where something is slow, and where nothing is."""
STEADY = 0.6
"""How steadily something must drift to look that far ahead: what oscillates slowly turns around before."""
EPISODE_SHARE = 4
"""Steps ahead are at most the median length of an episode divided by this."""


def horizon_for(dataset: Dataset, std: np.ndarray, drift: float, known: bool) -> int:
    """How far ahead a waypoint should be: far where directions drift, or are `known` to, and near where none does.

    A slow direction can be predicted 25 steps ahead, whatever swings meanwhile. Where nothing drifts, a state that far
    ahead says little about the next action. In both cases most rows must have such a state in their episode: it is
    at most a quarter of the usual length ahead.
    """
    most = max(1, int(np.median(dataset.episode_lengths)) // EPISODE_SHARE)
    far = min(FAR, most)
    if known:
        return far
    steady = max(drift, STEADY)
    directions, _ = slow_directions(waypoints(dataset.without_rewards(), far, far, 1.0), std, far, steady)
    return far if directions.shape[1] else min(NEAR, most)


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
    root = np.linalg.cholesky(near + RIDGE * np.diag(np.maximum(np.diag(near), 1.0)))
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
