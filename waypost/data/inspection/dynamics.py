"""Linear regressions: whether and when actions have an effect, and which rows rewards belong to."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from waypost.data.inspection.checks import finding
from waypost.data.inspection.findings import Finding, percent
from waypost.data.inspection.measurements import Measurements
from waypost.data.validation import numbers_of

SAMPLE = 20_000
"""Rows used, in one piece: each needs the rows before it."""
FEWEST = 300
"""With fewer rows chance explains too much."""
LAGS = (0, 1, 2)
FEW_VALUES = 10
"""With at most this many different rewards, they mark events instead of amounts."""
LEFT = 0.01
"""Standard deviations of a change that the state must leave unexplained before an action can explain it."""
MOST_COLUMNS = 40
"""Columns of states and of features of actions; more take long and explain by chance."""


def effects(data: Measurements) -> Iterator[Finding]:
    """Actions that have no effect, or a delayed one."""
    explained = _explained(data)
    if explained is None:
        return
    gains, chance = explained
    if gains.max() < chance:
        yield finding("actions-without-effect", 0)
        return
    best = gains.max(axis=1)
    lag = int(best.argmax())
    # Actions that barely change from row to row explain the same at every lag.
    if lag > 0 and best[lag] > 0.05 and best[lag] > 2 * best[0] + 0.02:
        yield finding(
            "action-lag", 0, lag=lag, s="s" * (lag > 1), late=percent(best[lag]), now=percent(best[0]), history=lag + 2
        )


def _explained(data: Measurements) -> tuple[np.ndarray, float] | None:
    """How much of each column's change the action at each lag explains beyond the state, and how much chance does."""
    dataset = data.dataset
    if dataset.actions is None or len(dataset) < FEWEST:
        return None
    size = dataset.observation_size // dataset.history
    count = min(len(dataset), SAMPLE)
    states = dataset.observations[:count, -size:].astype(np.float64)[:, :MOST_COLUMNS]
    changes = dataset.next_observations[:count, -size:].astype(np.float64)[:, :MOST_COLUMNS] - states
    began = dataset.episode_starts[dataset.episode_of[:count]]
    # At the end of an episode the next state is not always the true one.
    known = dataset.next_valid[:count] & ~dataset.ends[:count]
    rows = np.flatnonzero(known & (np.arange(count) - began >= max(LAGS)))
    actions = _actions(data, count)
    whole = np.isfinite(np.column_stack([states, changes, actions])).all(axis=1)
    rows = rows[np.logical_and.reduce([whole[rows - lag] for lag in LAGS])]
    if len(rows) < FEWEST or actions.shape[1] == 0:
        return None
    before = _scaled(states[rows])
    left = _residuals(before, _scaled(changes[rows]))
    moves = left.std(axis=0) > LEFT
    if not moves.any():
        return None
    gains, width = [], 0
    for lag in LAGS:
        taken = _scaled(actions[rows - lag])
        # The effect of an action may depend on the state.
        mixed = (taken[:, :, None] * before[:, None, :]).reshape(len(rows), -1)
        features = np.column_stack([taken, taken**2, mixed])[:, :MOST_COLUMNS]
        features = _residuals(before, features)
        width = features.shape[1]
        rest = _residuals(features, left[:, moves])
        gains.append(1 - (rest**2).sum(axis=0) / (left[:, moves] ** 2).sum(axis=0))
    return np.array(gains), (width + 5 * np.sqrt(2 * width)) / len(rows)


def delayed_rewards(data: Measurements) -> Iterator[Finding]:
    """Rewards that belong to an earlier row."""
    dataset, rewards = data.dataset, data.dataset.rewards
    count = min(len(dataset), SAMPLE)
    if rewards is None or dataset.actions is None or count < FEWEST or len(np.unique(rewards[:count])) <= FEW_VALUES:
        return
    size = dataset.observation_size // dataset.history
    sides = [side[:count, -size:][:, :MOST_COLUMNS] for side in (dataset.observations, dataset.next_observations)]
    told = np.column_stack([*sides, _actions(data, count)]).astype(np.float64)
    began = dataset.episode_starts[dataset.episode_of[:count]]
    whole = np.isfinite(told).all(axis=1) & np.isfinite(rewards[:count]) & dataset.next_valid[:count]
    rows = np.flatnonzero(np.arange(count) - began >= max(LAGS))
    rows = rows[np.logical_and.reduce([whole[rows - lag] for lag in LAGS])]
    if len(rows) < FEWEST:
        return
    earned = _scaled(rewards[rows, None].astype(np.float64))
    left = []
    for lag in LAGS:
        features = _scaled(told[rows - lag])
        # Costs are often distances.
        features = np.column_stack([features, np.abs(features), features**2])
        left.append(float((_residuals(features, earned) ** 2).mean()))
    lag = int(np.argmin(left))
    if lag > 0 and left[lag] < 0.7 and left[lag] < 0.5 * left[0]:
        late, now = percent(1 - left[lag]), percent(1 - left[0])
        yield finding("late-rewards by rows", 0, lag=lag, s="s" * (lag > 1), late=late, now=now)


def _actions(data: Measurements, count: int) -> np.ndarray:
    """The actions as columns; discrete ones as one column each."""
    actions = data.dataset.require("actions")[:count]
    if data.dataset.action_count is not None:
        often = np.argsort(-data.taken)[:MOST_COLUMNS]
        return (actions == often[data.taken[often] > 0][:-1]).astype(np.float64)
    columns = [actions[:, [i]] for i in range(actions.shape[1])]
    for i, words in enumerate(data.dataset.action_choices):
        columns[i] = actions[:, [i]] == numbers_of(words)[:-1] if words else columns[i]
    return np.column_stack(columns).astype(np.float64)[:, :MOST_COLUMNS]


def _scaled(values: np.ndarray) -> np.ndarray:
    """With mean 0 and standard deviation 1; constant columns become 0."""
    std = values.std(axis=0)
    # A constant column has the rounding errors of its mean.
    alive = std > 1e-7 * (np.abs(values).max(axis=0) + 1e-30)
    return np.where(alive, (values - values.mean(axis=0)) / np.where(alive, std, 1.0), 0.0)


def _residuals(features: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The residual of a linear function of the features and a constant."""
    features = np.column_stack([features, np.ones(len(features))])
    gram = features.T @ features
    # A little regularisation: columns may be equal.
    gram[np.diag_indices_from(gram)] += 1e-9 * len(features)
    return values - features @ np.linalg.solve(gram, features.T @ values)
