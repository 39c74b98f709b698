"""Common faults in logs of real machines: checks of columns, rewards, episodes and files."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.spatial import cKDTree

from waypost.data.inspection.checks import finding, listed
from waypost.data.inspection.findings import Finding, short
from waypost.data.inspection.measurements import Measurements

SAMPLE = 50_000
"""Rows used, evenly spread over the data."""
FEWEST = 50
"""With fewer rows a column, a file or the rewards say nothing."""
REPEATS = 3
"""A number that repeats exactly in at least this many rows may mean 'missing'."""
MOST_CATEGORIES = 12
"""Most different whole numbers of a column that may be a category."""
POINTS = 8
"""States at which two episodes are compared."""
NEAR = 0.02
"""Distance in standard deviations, on average over columns, within which two states are nearly the same."""
SHADOW = 6
"""Random directions in which episodes are compared first."""
MOST_EPISODES = 2_000
"""Most episodes that are compared with each other."""


def sentinels(data: Measurements) -> Iterator[Finding]:
    """Numbers that mean 'missing': repeated exactly, and far from all others of their column."""
    found: list[str] = []
    for name, values in _columns(data):
        numbers, counts = np.unique(values, return_counts=True)
        for number in numbers[counts >= max(REPEATS, 0.0005 * len(values))]:
            others = numbers[numbers != number]
            if len(others) <= 20:
                continue
            low, high = np.quantile(values[values != number], (0.05, 0.95))
            if np.abs(others - number).min() > 0.5 * (high - low) > 0:
                found.append(f"{name.replace(' ', '')}={short(float(number)).replace(' ', '')}")
    if found:
        yield finding("sentinels", len(found), which=listed(found), option=" ".join(found[:3]))


def categories(data: Measurements) -> Iterator[Finding]:
    """Columns of a few whole numbers among continuous columns."""
    found, others = [], 0
    for i, name in enumerate(data.states):
        values = data.dataset.observations[_rows(len(data.dataset)), i]
        numbers = np.unique(values[np.isfinite(values)])
        whole = len(values) >= FEWEST and (numbers == np.floor(numbers)).all()
        if whole and 3 <= len(numbers) <= MOST_CATEGORIES:
            found.append(name)
        others += len(numbers) > MOST_CATEGORIES
    if found and others:
        yield finding("discrete-columns", len(found), which=listed(found), first=found[0])


def cheap_failure(data: Measurements) -> Iterator[Finding]:
    """Rewards that are costs, where ending the task costs less than continuing."""
    dataset, rewards = data.dataset, data.dataset.rewards
    failed = dataset.terminals[dataset.ends]
    if rewards is None or failed.sum() < 3 or (~failed).sum() < 3 or np.isnan(rewards).any():
        return
    inside = rewards[~dataset.terminals].astype(np.float64)
    usual, ending = float(inside.mean()), rewards[dataset.terminals].astype(np.float64)
    # A last reward above the others is that of a goal; a constant reward counts the steps to it.
    if (inside <= 0).mean() < 0.9 or ending.mean() > usual or inside.std() == 0:
        return
    left = np.median(dataset.episode_lengths[~failed]) - dataset.episode_lengths[failed]
    spared, paid = -usual * np.clip(left, 0, None), usual - ending
    cheap = np.flatnonzero(paid < spared)
    if len(cheap) >= 0.5 * failed.sum():
        rows = np.flatnonzero(dataset.terminals)[cheap]
        yield finding("cheap-failure", rows, ended=len(cheap), paid=paid.mean(), spared=spared[cheap].mean())


def late_rewards(data: Measurements) -> Iterator[Finding]:
    """Rewards that come as sums: at the end of episodes, or at intervals."""
    dataset, rewards = data.dataset, data.dataset.rewards
    if rewards is None or len(np.unique(rewards)) <= 10 or len(rewards) < FEWEST:
        return
    paid = np.flatnonzero(np.nan_to_num(rewards))
    if len(paid) > 0.5 * len(rewards):
        return
    if dataset.ends[paid].mean() >= 0.9 and np.median(dataset.episode_lengths) >= 5:
        yield finding("late-rewards", paid)
        return
    inside = paid[1:][dataset.episode_of[paid[1:]] == dataset.episode_of[paid[:-1]]]
    steps = inside - paid[np.searchsorted(paid, inside) - 1]
    if len(steps) >= 10 and (steps == np.median(steps)).mean() >= 0.9 and np.median(steps) > 1:
        yield finding("late-rewards at intervals", paid, every=int(np.median(steps)))


def near_duplicates(data: Measurements) -> Iterator[Finding]:
    """Episodes that are nearly, but not exactly, the same."""
    dataset = data.dataset
    starts, lengths = dataset.episode_starts, dataset.episode_lengths
    long = np.flatnonzero(lengths >= 3)[:MOST_EPISODES]
    scale = np.where(np.isfinite(data.scale) & (data.scale > 0), data.scale, 1.0)
    if len(long) < 2:
        return
    places = np.linspace(0, 1, POINTS)
    rows = starts[long, None] + np.round(places * (lengths[long, None] - 1)).astype(np.int64)
    seen = np.nan_to_num(dataset.observations[rows] / scale).reshape(len(long), -1)
    seen = np.column_stack([seen, lengths[long] * seen.shape[1]])
    # The same distance in every number, as one distance; in a projection it is found much faster.
    reach, size = NEAR * np.sqrt(seen.shape[1]), seen.shape[1]
    directions = np.linalg.qr(np.random.default_rng(0).normal(size=(size, min(size, SHADOW))))[0]
    near = cKDTree(seen @ directions).query_pairs(reach, output_type="ndarray")
    near = near[np.linalg.norm(seen[near[:, 0]] - seen[near[:, 1]], axis=1) <= reach]
    if not len(near):
        return
    first, second = starts[long[near[:, 0]]], starts[long[near[:, 1]]]
    exact = (dataset.observations[first] == dataset.observations[second]).all(axis=1)
    # Episodes of a task with one start begin alike; episodes that are exactly the same repeat rows.
    spread = dataset.observations[starts[long]].std(axis=0) / scale
    twins = np.unique(near[~exact].max(axis=1)) if len(near) else np.zeros(0, np.int64)
    if len(twins) >= max(2, 0.02 * len(long)) and spread.max() > 10 * NEAR:
        yield finding("near-duplicate-episodes", starts[long[twins]], episodes=len(twins), of=len(long))


def drift(data: Measurements) -> Iterator[Finding]:
    """Files whose median lies outside the range of all others."""
    dataset, parts = data.dataset, data.dataset.parts
    if len(parts) < 2 or sum(rows for _, rows in parts) != len(dataset):
        return
    cuts = np.cumsum([0, *(rows for _, rows in parts)])
    found: list[str] = []
    for name, column in _full_columns(data):
        for (part, rows), first, last in zip(parts, cuts[:-1], cuts[1:], strict=True):
            others = np.concatenate([column[:first], column[last:]])
            inside, others = _known(column[first:last]), _known(others)
            if rows < FEWEST or len(others) < FEWEST or not len(inside):
                continue
            middle, (low, high) = np.median(inside), np.quantile(others, (0.01, 0.99))
            if (middle < low or middle > high) and high > low:
                found.append(f"{name} in {part}: {middle:.4g}, elsewhere {low:.4g} to {high:.4g}")
    if found:
        yield finding("drift", len(found), which=listed(found))


def _rows(count: int) -> np.ndarray:
    return np.linspace(0, count - 1, min(count, SAMPLE)).astype(np.int64)


def _known(values: np.ndarray) -> np.ndarray:
    return values[np.isfinite(values)].astype(np.float64)


def _full_columns(data: Measurements) -> Iterator[tuple[str, np.ndarray]]:
    """Names and values of observations and rewards; with a history, only the last row."""
    dataset = data.dataset
    size = dataset.observation_size // dataset.history
    yield from zip(data.states[-size:], dataset.observations[:, -size:].T, strict=True)
    if dataset.rewards is not None:
        yield "reward", dataset.rewards


def _columns(data: Measurements) -> Iterator[tuple[str, np.ndarray]]:
    """The same with continuous actions, for a sample."""
    rows = _rows(len(data.dataset))
    for name, values in _full_columns(data):
        yield name, _known(values[rows])
    if data.bounded is not None:
        for name, values in zip(data.actions, data.bounded[0].T, strict=True):
            yield name, _known(values[rows])
