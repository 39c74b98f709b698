"""What the evaluators get wrong where they can be checked: their errors on episodes they did not learn from.

A network smooths. What it misses of the actions that a candidate prefers it misses in every member of the ensemble, so
the spread of the members says nothing about it. The recorded rewards do: on rows that a member did not learn from, its
error is r + gamma Q(s', pi(s')) - Q(s, a), and what counts are rows where the behaviour acted as the candidate would.
Their mean, weighted by pi(a|s) / b(a|s) and added up over an episode, is how much too low the value is:

    bias  =  sum_t gamma^t  E[ w (r + gamma Q(s', pi(s')) - Q(s, a)) ] / E[w]

States count as they were recorded, not as the candidate would meet them: ratios are not multiplied along the episodes,
so there are enough rows where the doubly robust check has run out of them, at the price of being approximate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from waypost.data.dataset import Dataset
from waypost.types import Doubles

FEWEST = 30.0
"""Effective number of rows the mean must rest on."""
LARGEST = np.log(20.0)
"""Logarithm of the largest weight of a row: a clone that finds an action too unlikely must not decide alone."""
RESAMPLES = 200


class Bias(NamedTuple):
    """By how much a value is too low, as far as recorded rows say."""

    value: float
    error: float
    """Its standard error, by bootstraps of the episodes."""

    def against(self, other: Bias) -> Bias:
        """Of the difference between two values."""
        return Bias(self.value - other.value, float(np.hypot(self.error, other.error)))


NOTHING = Bias(0.0, 0.0)


def bias(dataset: Dataset, discount: float, ratios: Doubles, known: np.ndarray, q: Doubles, later: Doubles) -> Bias:
    """Of one candidate; nothing where too few rows are like what it does.

    ratios   log pi(a|s) - log b(a|s) of every row
    known    whether what the candidate does in the next state is known
    q        Q(s, a) by members that did not learn from the row
    later    Q of what the candidate does in the next state, by the same
    """
    over = dataset.terminals
    usable = (dataset.next_valid & known) | over
    errors = dataset.require("rewards") + discount * np.where(over, 0.0, later) - q
    times = np.arange(len(dataset)) - dataset.episode_starts[dataset.episode_of]
    weights = np.where(usable, np.exp(np.minimum(ratios, LARGEST)), 0.0)
    if weights.sum() ** 2 < FEWEST * (weights**2).sum() or not weights.any():
        return NOTHING
    weights = weights * discount**times
    count = len(dataset.episode_starts)
    sums, totals = (np.bincount(dataset.episode_of, each, count) for each in (weights * errors, weights))
    draws = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), RESAMPLES)
    steps = _steps(dataset, discount)
    found = (draws @ sums) / np.maximum(draws @ totals, 1e-300)
    return Bias(steps * float(sums.sum() / totals.sum()), steps * float(found.std(ddof=1)))


def _steps(dataset: Dataset, discount: float) -> float:
    """Discounted steps of an episode; one that was cut off would have gone on."""
    lengths = dataset.episode_lengths
    if discount == 1.0:
        return float(lengths.mean())
    whole = (1.0 - discount**lengths) / (1.0 - discount)
    ended = dataset.terminals[dataset.ends]
    return float(np.where(ended, whole, 1.0 / (1.0 - discount)).mean())
