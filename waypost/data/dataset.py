"""The one type every source is read into and every algorithm trains from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from waypost.errors import WaypostError

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]


class Labels(NamedTuple):
    """What a task says about transitions: their reward, and whether the task ended there."""

    rewards: Floats
    terminals: Flags


@dataclass(frozen=True, eq=False)
class Dataset:
    """Transitions in the order they were recorded, validated once and read-only.

    Three facts about a row are kept apart because learning needs each of them:
    `terminals` says the task ended in the next state, so nothing is bootstrapped from it;
    `ends` says the recording of an episode stopped there, for whatever reason;
    `next_valid` says that the stored next state really followed, which is not so where a reader
    had to guess it at the end of an episode. A row that ends without a terminal is a timeout.
    A terminal and an unknown next state always end an episode: nothing looks past them.
    """

    observations: Floats
    """States, (rows, observation size)."""
    next_observations: Floats
    """The states that followed, same shape."""
    terminals: Flags
    """The task ended in the next state: no bootstrapping."""
    ends: Flags
    """Last row of an episode."""
    next_valid: Flags
    """The next state is real."""
    actions: Floats | None = None
    """Actions, (rows, action size), or None for action-free data."""
    rewards: Floats | None = None
    """Rewards, (rows,), or None for reward-free data."""
    action_low: Floats | None = None
    """Lower bound of each action; from the task or the data."""
    action_high: Floats | None = None
    """Upper bound of each action."""
    name: str = "data"
    """What the person called it."""
    task: str | None = None
    """Name of the task these rewards belong to, if it is one of ours."""
    observation_names: tuple[str, ...] = field(default=())
    """Names of the observation's columns, where known."""

    # -- making one ---------------------------------------------------------------------------

    @classmethod
    def from_arrays(
        cls,
        observations: np.ndarray,
        next_observations: np.ndarray | None = None,
        actions: np.ndarray | None = None,
        rewards: np.ndarray | None = None,
        terminals: np.ndarray | None = None,
        timeouts: np.ndarray | None = None,
        next_valid: np.ndarray | None = None,
        action_low: np.ndarray | None = None,
        action_high: np.ndarray | None = None,
        name: str = "arrays",
        task: str | None = None,
        observation_names: tuple[str, ...] = (),
    ) -> Dataset:
        """Check arrays and make a Dataset of them.

        Without `next_observations` the following row's state is taken, except at an episode's
        end, where the next state is unknown and marked so. An episode ends at a terminal or a
        timeout; the last row always ends one.
        """
        observations = _matrix(name, "observations", observations)
        rows = len(observations)
        if rows == 0:
            raise WaypostError(f"{name}: no transitions; at least one row is needed")
        terminals = _flags(name, "terminals", terminals, rows)
        ends = terminals | _flags(name, "timeouts", timeouts, rows)
        ends[-1] = True
        valid = np.ones(rows, bool) if next_valid is None else _flags(name, "next_valid", next_valid, rows)
        if next_observations is None:
            next_observations = np.concatenate([observations[1:], observations[-1:]])
            valid = valid & ~ends
            next_observations[ends] = observations[ends]
        else:
            next_observations = _matrix(name, "next_observations", next_observations)
            if next_observations.shape != observations.shape:
                raise WaypostError(
                    f"{name}: next_observations have shape {next_observations.shape}, "
                    f"observations {observations.shape}; they must agree"
                )
            ends |= ~valid
        if actions is not None:
            actions = _matrix(name, "actions", actions)
            _same_rows(name, "actions", actions, rows)
            action_low, action_high = _bounds(name, actions, action_low, action_high)
        if rewards is not None:
            rewards = np.asarray(rewards, np.float32)
            if rewards.ndim == 2 and rewards.shape[1] == 1:
                rewards = rewards[:, 0]
            _same_rows(name, "rewards", rewards, rows)
            if rewards.ndim != 1:
                raise WaypostError(f"{name}: rewards have shape {rewards.shape}; expected ({rows},)")
        for column, values in (
            ("observations", observations),
            ("next_observations", next_observations),
            ("actions", actions),
            ("rewards", rewards),
        ):
            if values is not None:
                _finite(name, column, values)
        dataset = cls(
            observations=observations,
            next_observations=next_observations,
            terminals=terminals,
            ends=ends,
            next_valid=valid,
            actions=actions,
            rewards=rewards,
            action_low=action_low,
            action_high=action_high,
            name=name,
            task=task,
            observation_names=tuple(observation_names),
        )
        return dataset._frozen()

    def _frozen(self) -> Dataset:
        for values in self.columns.values():
            values.setflags(write=False)
        return self

    # -- looking at it ------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.observations)

    @property
    def observation_size(self) -> int:
        return self.observations.shape[1]

    @property
    def action_size(self) -> int | None:
        return None if self.actions is None else self.actions.shape[1]

    @property
    def timeouts(self) -> Flags:
        """Rows where recording stopped although the task had not ended."""
        return self.ends & ~self.terminals

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """The per-row arrays that are present, by name."""
        names = ("observations", "actions", "rewards", "next_observations", "terminals", "ends", "next_valid")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    @cached_property
    def episode_starts(self) -> NDArray[np.int64]:
        """First row of each episode."""
        return np.concatenate([[0], np.flatnonzero(self.ends)[:-1] + 1])

    @cached_property
    def episode_of(self) -> NDArray[np.int64]:
        """The episode each row belongs to."""
        return np.cumsum(np.concatenate([[0], self.ends[:-1].astype(np.int64)]))

    @cached_property
    def last_row(self) -> NDArray[np.int64]:
        """For each row, the last row of its episode."""
        return np.flatnonzero(self.ends)[self.episode_of]

    @cached_property
    def episode_lengths(self) -> NDArray[np.int64]:
        """Number of rows of each episode."""
        return np.diff(np.append(self.episode_starts, len(self)))

    @cached_property
    def episode_returns(self) -> NDArray[np.float64]:
        """Undiscounted return of each episode."""
        return np.add.reduceat(self.require("rewards").astype(np.float64), self.episode_starts)

    def require(self, column: str) -> np.ndarray:
        """The column, or an error that says who needs it."""
        values = getattr(self, column)
        if values is None:
            raise WaypostError(f"{self.name}: has no {column}, which this needs")
        return values

    def fingerprint(self) -> str:
        """A short digest of the contents: two data sets with the same one hold the same rows."""
        digest = hashlib.sha256()
        for name, values in self.columns.items():
            digest.update(f"{name}{values.shape}{values.dtype}".encode())
            digest.update(np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()[:16]

    # -- changing it (always a new one) -------------------------------------------------------

    def with_rewards(self, rewards: np.ndarray) -> Dataset:
        """The same transitions with other rewards."""
        rewards = np.asarray(rewards, np.float32)
        _same_rows(self.name, "rewards", rewards, len(self))
        _finite(self.name, "rewards", rewards)
        return replace(self, rewards=rewards)._frozen()

    def relabel(self, judge: Callable[[Floats, Floats | None, Floats], Labels]) -> Dataset:
        """The same transitions as another task sees them.

        `judge(observations, actions, next_observations)` gives rewards and terminals; an episode is
        cut at every new terminal, and rows recorded after it begin a new one.
        """
        labels = judge(self.observations, self.actions, self.next_observations)
        rewards = np.asarray(labels.rewards, np.float32)
        terminals = np.asarray(labels.terminals, bool)
        _same_rows(self.name, "rewards of the relabelling", rewards, len(self))
        _same_rows(self.name, "terminals of the relabelling", terminals, len(self))
        _finite(self.name, "rewards of the relabelling", rewards)
        return replace(self, rewards=rewards, terminals=terminals, ends=self.ends | terminals)._frozen()

    def keep(self, rows: np.ndarray) -> Dataset:
        """Only the marked rows; where a row inside an episode is left out, the episode is cut."""
        rows = np.asarray(rows, bool)
        _same_rows(self.name, "marks of the rows to keep", rows, len(self))
        if not rows.any():
            raise WaypostError(f"{self.name}: no rows would be left")
        followed = np.append(rows[1:], False)
        cut = replace(self, ends=self.ends | ~followed)
        return replace(cut, **{name: values[rows] for name, values in cut.columns.items()})._frozen()

    def without_actions(self) -> Dataset:
        """Action-free data: enough for V and the guide."""
        return replace(self, actions=None, action_low=None, action_high=None)

    def without_rewards(self) -> Dataset:
        """Reward-free data: enough for the executor."""
        return replace(self, rewards=None)

    def named(self, name: str, task: str | None = None) -> Dataset:
        """The same data under another name."""
        return replace(self, name=name, task=task or self.task)


# -- the checks ---------------------------------------------------------------------------------


def _matrix(name: str, column: str, values: np.ndarray) -> np.ndarray:
    values = np.asarray(values)
    if values.dtype.kind not in "fiub":
        raise WaypostError(f"{name}: {column} hold {values.dtype}; numbers are needed")
    values = np.array(values, np.float32)
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2:
        raise WaypostError(
            f"{name}: {column} have shape {values.shape}; expected (rows, size): flatten each row to a vector"
        )
    return values


def _flags(name: str, column: str, values: np.ndarray | None, rows: int) -> np.ndarray:
    if values is None:
        return np.zeros(rows, bool)
    values = np.asarray(values)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    _same_rows(name, column, values, rows)
    if values.ndim != 1 or not np.isin(np.unique(values), (0, 1)).all():
        raise WaypostError(f"{name}: {column} must be one 0 or 1 per row")
    return values.astype(bool)


def _bounds(
    name: str, actions: np.ndarray, low: np.ndarray | None, high: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """The bounds as given, or the smallest box around the data."""
    size = actions.shape[1:]
    low = actions.min(axis=0) if low is None else np.broadcast_to(np.asarray(low, np.float32), size).copy()
    high = actions.max(axis=0) if high is None else np.broadcast_to(np.asarray(high, np.float32), size).copy()
    if not (low <= high).all():
        raise WaypostError(f"{name}: action_low must not be above action_high")
    return low, high


def _same_rows(name: str, column: str, values: np.ndarray, rows: int) -> None:
    if values.shape[:1] != (rows,):
        raise WaypostError(
            f"{name}: {column} have {len(values) if values.ndim else 0} rows, observations {rows}; they must agree"
        )


def _finite(name: str, column: str, values: np.ndarray) -> None:
    if not np.isfinite(values).all():
        bad = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
        where = ", ".join(map(str, bad[:5])) + (", ..." if len(bad) > 5 else "")
        raise WaypostError(
            f"{name}: {column} are NaN or infinite in {len(bad)} of {len(values)} rows ({where}); remove or repair them"
        )
