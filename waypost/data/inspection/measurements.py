"""Measurements of data that several checks share, and the statistics of each column."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from waypost.data.dataset import Dataset
from waypost.data.inspection.findings import Column
from waypost.data.validation import bad_rows, blocks, numbers_of
from waypost.types import Flags, Floats

STRIP = 1 << 13
"""Rows processed together: few enough to stay in the processor's cache."""
SAMPLE = 20_000
"""Rows sampled where only a typical size is needed."""
TYPICAL = 0.9
"""Quantile of a column's steps that counts as typical: resets stay above it in episodes of at least ten rows."""
LOUD, FAR = 3.0, 10.0
"""Typical steps that most columns exceed in a jump, and that at least one of them exceeds."""
EDGE = 0.005
"""Share of an action's range that counts as at the bound."""


class Measurements:
    """A data set and its measurements, each computed when it is first needed; NaN is a missing value."""

    def __init__(self, dataset: Dataset):
        self.dataset = dataset
        self.states = list(dataset.observation_names) or [f"observation {i}" for i in range(dataset.observation_size)]
        """Names of the observation columns."""
        # "action 0" is the first of the discrete actions.
        numbers = [""] if dataset.action_count is not None else [f" {i}" for i in range(dataset.action_size or 0)]
        named = dataset.action_count is None and dataset.action_names
        self.actions = list(dataset.action_names) if named else [f"action{number}" for number in numbers]
        """Names of the action columns."""

    @cached_property
    def rewards(self) -> Floats | None:
        """The rewards that are known."""
        rewards = self.dataset.rewards
        return None if rewards is None else rewards[~np.isnan(rewards)]

    @cached_property
    def ranges(self) -> tuple[Floats, Floats]:
        """Smallest and largest value of each observation column."""
        return ranges(self.dataset.observations)

    @cached_property
    def scale(self) -> np.ndarray:
        """Standard deviation of each observation column."""
        rows = np.linspace(0, len(self.dataset) - 1, min(len(self.dataset), 10 * SAMPLE)).astype(np.int64)
        values = self.dataset.observations[rows].astype(np.float64)
        known, values = np.isfinite(values), np.nan_to_num(values)
        count = np.maximum(known.sum(axis=0), 1)
        mean = values.sum(axis=0) / count
        return np.sqrt((known * (values - mean) ** 2).sum(axis=0) / count)

    @property
    def bounded(self) -> tuple[Floats, Floats, Floats] | None:
        """Continuous actions with their lower and upper bounds."""
        actions, low, high = self.dataset.actions, self.dataset.action_low, self.dataset.action_high
        if actions is None or low is None or high is None or self.dataset.action_count is not None:
            return None
        return actions, low, high

    @cached_property
    def saturation(self) -> np.ndarray:
        """Share of the rows at a bound, for each continuous action."""
        if self.bounded is None:
            return np.zeros(0)
        actions, low, high = self.bounded
        edge, strips = EDGE * (high - low), (strip for _, strip in blocks(actions, STRIP))
        at_bound = sum(((abs(s - low) <= edge) | (abs(s - high) <= edge)).sum(axis=0) for s in strips)
        choices = np.array(self.dataset.action_counts) > 0
        return np.where((high > low) & ~choices, at_bound / len(actions), 0.0)

    @cached_property
    def taken(self) -> np.ndarray:
        """In how many rows each of the discrete actions is taken."""
        actions, count = self.dataset.actions, self.dataset.action_count
        if actions is None or count is None:
            return np.zeros(0, np.int64)
        return np.bincount(actions[~np.isnan(actions)].astype(np.int64), minlength=count)

    def chosen(self, column: int) -> np.ndarray:
        """In how many rows each choice of a column of mixed actions is taken."""
        actions = self.dataset.require("actions")[:, column]
        return (actions[:, None] == numbers_of(self.dataset.action_choices[column])).sum(axis=0)

    @cached_property
    def motion(self) -> tuple[Flags, Flags]:
        """Rows where the state jumps, so that a new episode must have begun, and rows where nothing changes.

        It jumps where most columns change far more than they usually do, for one row only.
        A column counts if its range is many typical steps, so that it could show a jump, and if it mostly moves, which
        a flag, a goal or a contact force does not. A contact changes velocities but not positions, and an angle wraps
        alone: neither moves most columns. A burst that does lasts more than one row or comes often; a reset is single.
        """
        dataset, size = self.dataset, self.dataset.observation_size
        states, next_states = dataset.observations, dataset.next_observations
        rows = np.linspace(0, len(dataset) - 1, min(len(dataset), SAMPLE)).astype(np.int64)
        rows = rows[dataset.next_valid[rows]]
        rows = rows[np.isfinite(next_states[rows] - states[rows]).all(axis=1)]
        typical, part = np.ones(size, np.float32), np.zeros(size, bool)
        if len(rows):
            steps = np.abs(next_states[rows] - states[rows])
            typical = np.quantile(steps, TYPICAL, axis=0).astype(np.float32)
            span = self.ranges[1] - self.ranges[0]
            moves = (steps > 0).mean(axis=0) >= 0.5
            part = moves & (span > FAR * typical) & (typical > 1e-5 * span)
        most = part.sum() // 2 + 1
        loud, stirred, still = (np.zeros(len(dataset), bool) for _ in range(3))
        with np.errstate(invalid="ignore", over="ignore"):
            for first, before in blocks(states, STRIP):
                strip = slice(first, first + STRIP)
                steps = np.abs(next_states[strip] - before)
                still[strip] = ~steps.any(axis=1)
                steps = steps[:, part] / typical[part]
                stirred[strip] = (steps > LOUD / 2).sum(axis=1) >= most
                loud[strip] = ((steps > LOUD).sum(axis=1) >= most) & (steps > FAR).any(axis=1)
        loud &= dataset.next_valid
        alone = loud & ~np.append(stirred[1:], False) & ~np.append(False, stirred[:-1])
        resets = alone.sum() >= 2 and 2 * alone.sum() > loud.sum()
        return alone if resets else np.zeros_like(alone), still & dataset.next_valid

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The statistics of each column; one that repeats an earlier column names it."""
        dataset, found, seen = self.dataset, [], dict[bytes, str]()
        each: list[tuple[Any, str, np.ndarray, int]] = []
        each += [("observation", *column, 0) for column in zip(self.states, dataset.observations.T, strict=True)]
        if dataset.actions is not None:
            counted = zip(self.actions, dataset.actions.T, dataset.action_counts, strict=True)
            each += [("action", *column) for column in counted]
        if dataset.rewards is not None:
            each.append(("reward", "reward", dataset.rewards, 0))
        for kind, name, column, choices in each:
            # Adding 0 turns -0 into 0, which is the same number with other bits.
            values = column + np.float32(0)
            known = values[~np.isnan(values)]
            if not len(known):
                found.append(Column(name, kind, None, None, None, None, False, None))
                continue
            low, high = float(known.min()), float(known.max())
            dead = low == high and len(values) > 1
            first = name if dead else seen.setdefault(hashlib.blake2b(values.data).digest(), name)
            count = choices or None
            mean, std = (None, None) if count else (known.mean(dtype=np.float64), known.std(dtype=np.float64))
            found.append(Column(name, kind, low, mean, std, high, dead, None if first == name else first, count))
        return tuple(found)


def ranges(values: np.ndarray) -> tuple[Floats, Floats]:
    """Smallest and largest known value of each column."""
    low, high = values.min(axis=0), values.max(axis=0)
    if np.isnan(low).any():
        return np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)
    return low, high


def infinities_as_nan(dataset: Dataset) -> Dataset:
    """The same data with NaN for every infinity, so that one test finds all missing values."""
    changed: dict[str, Any] = {}
    for column in ("observations", "next_observations", "actions", "rewards", "action_low", "action_high"):
        values = getattr(dataset, column)
        if values is not None and len(bad_rows(values)):
            changed[column] = np.where(np.isfinite(values), values, np.float32(np.nan))
    return replace(dataset, **changed)


def repeated_rows(dataset: Dataset) -> np.ndarray:
    """Rows that hold exactly the transition of an earlier row, found by a 64-bit hash of each row."""
    hashes = np.full(len(dataset), 0x9E3779B97F4A7C15, np.uint64)
    for values in dataset.columns.values():
        for column in values.reshape(len(values), -1).T:
            words = (column + np.float32(0)).view(np.uint32) if column.dtype == np.float32 else column
            hashes ^= words
            hashes *= np.uint64(0xD6E8FEB86659FD93)
            hashes ^= hashes >> np.uint64(32)
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    return np.sort(order[1:][ordered[1:] == ordered[:-1]])
