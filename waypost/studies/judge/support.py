"""How far a policy's actions lie from the recorded ones: where it leaves the data nothing can be said about it.

For a state of the data, the actions taken in the nearest states of *other* episodes say what is known there. The
distance of an action is that to the nearest of these; what is usual is what the recorded actions themselves have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from waypost.data.dataset import Dataset
from waypost.types import Doubles, Floats

STATES = 2_000
"""States that are looked at."""
REFERENCE = 20_000
"""Rows to look for neighbours in."""
NEIGHBOURS = 10
USUAL = 0.95
"""Share of the recorded actions that count as usual."""
TOO_FAR = 0.2
"""Share of unusual actions, beyond that of the data, from which on a policy has left them."""


@dataclass(frozen=True)
class Distance:
    """Of a policy's actions from the recorded ones; actions are scaled to [-1, 1], or 0 and 1 for discrete ones.

    Of mixed actions, a column that is chosen otherwise counts like one that goes from bound to bound.
    """

    median: float
    data_median: float
    outside: float
    """Share of the states where the action is farther away than is usual."""
    data_outside: float
    """The same of the recorded actions."""

    @property
    def left(self) -> bool:
        """Whether the policy has left the data."""
        return self.outside - self.data_outside > TOO_FAR


class Neighbourhood:
    """States of the data, and the actions that were taken near them."""

    def __init__(self, dataset: Dataset, seed: int = 0):
        rng = np.random.default_rng(seed)
        known = rng.permutation(len(dataset))[:REFERENCE]
        self.asked = known[:STATES]
        self._dataset, self._chosen = dataset, np.array(dataset.action_counts) > 0
        states = (dataset.observations / dataset.observation_moments[1]).astype(np.float32)
        episodes = dataset.episode_of
        near = neighbours(states[self.asked], states[known], episodes[self.asked], episodes[known])
        self._around = self._scaled(dataset.require("actions"))[known[near]]
        self.own = self._distances(dataset.require("actions"))
        discrete = dataset.action_count is not None
        self.limit = 0.0 if discrete else float(np.quantile(self.own, USUAL))

    def measure(self, actions: Floats) -> tuple[Distance, Doubles]:
        """Of a policy's actions at all rows; also the distance at each state that is looked at."""
        found = self._distances(actions)
        shares = (float(np.mean(each > self.limit + 1e-6)) for each in (found, self.own))
        outside, data_outside = shares
        return Distance(float(np.median(found)), float(np.median(self.own)), outside, data_outside), found

    def _scaled(self, actions: Floats) -> Floats:
        dataset = self._dataset
        if dataset.action_count is not None:
            return actions
        assert dataset.action_low is not None
        assert dataset.action_high is not None
        width = dataset.action_high - dataset.action_low
        return (2.0 * actions / np.where(width > 0, width, 2.0)).astype(np.float32)

    def _distances(self, actions: Floats) -> Doubles:
        apart = self._scaled(actions)[self.asked][:, None] - self._around
        if self._dataset.action_count is not None:
            return (apart != 0).any(axis=-1).min(axis=1).astype(np.float64)
        apart = np.where(self._chosen, 2.0 * (apart != 0), apart)
        return np.sqrt((apart.astype(np.float64) ** 2).mean(axis=-1)).min(axis=1)


def neighbours(
    queries: Floats, points: Floats, query_groups: np.ndarray, groups: np.ndarray, count: int = NEIGHBOURS
) -> np.ndarray:
    """The nearest points of each query that belong to another group, (queries, count)."""
    found, sizes = [], np.einsum("ij,ij->i", points, points)
    several = len(np.unique(groups)) > 1
    for first in range(0, len(queries), 256):
        part = slice(first, first + 256)
        squares = sizes - 2.0 * queries[part] @ points.T
        if several:
            squares[query_groups[part, None] == groups] = np.inf
        found.append(np.argpartition(squares, min(count, len(points)) - 1, axis=1)[:, :count])
    return np.concatenate(found)
