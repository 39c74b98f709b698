"""The one type every source is read into and every algorithm trains from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from waypost.errors import WaypostError
from waypost.types import Flags, Floats, Labels

MOST_CHOICES = 1 << 24
"""Whole numbers up to here are exact as 32-bit floats."""
WHOLE = "actions are stored as whole numbers"
"""How the note of a reader begins that had to judge whether they are numbered."""


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
    action_count: int | None = None
    """How many numbered actions there are to choose from, 0 to count - 1 in the one column; None: they are vectors."""
    action_count_said: bool = False
    """The source or a person said whether actions are numbered; else it was judged by how they are stored."""
    name: str = "data"
    """What the person called it."""
    task: str | None = None
    """Name of the task these rewards belong to, if it is one of ours."""
    observation_names: tuple[str, ...] = field(default=())
    """Names of the observation's columns, where known."""
    notes: tuple[str, ...] = field(default=())
    """What the reader had to decide; shown once to the person."""

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
        action_count: int | None = None,
        name: str = "arrays",
        task: str | None = None,
        observation_names: tuple[str, ...] = (),
        notes: tuple[str, ...] = (),
        finite: bool = True,
        copy: bool = True,
    ) -> Dataset:
        """Check arrays and make a Dataset of them.

        Without `next_observations` the following row's state is taken, except at an episode's
        end, where the next state is unknown and marked so. An episode ends at a terminal or a
        timeout, where the following row does not begin in the next state, and at the last row.
        `finite=False` leaves NaN and infinities for `checked` to find; `copy=False` uses arrays that are float32
        already as they are, and makes them read-only.
        """
        observations = _matrix(name, "observations", observations, copy)
        rows = len(observations)
        if rows == 0:
            raise WaypostError(f"{name}: no transitions; at least one row is needed")
        if observations.shape[1] == 0:
            raise WaypostError(f"{name}: observations have no columns; at least one is needed")
        terminals = _flags(name, "terminals", terminals, rows)
        ends = terminals | _flags(name, "timeouts", timeouts, rows)
        ends[-1] = True
        valid = np.ones(rows, bool) if next_valid is None else _flags(name, "next_valid", next_valid, rows)
        if next_observations is None:
            next_observations = np.concatenate([observations[1:], observations[-1:]])
            valid = valid & ~ends
            next_observations[ends] = observations[ends]
            ends |= ~valid
        else:
            next_observations = _matrix(name, "next_observations", next_observations, copy)
            if next_observations.shape != observations.shape:
                raise WaypostError(
                    f"{name}: next_observations have shape {next_observations.shape}, "
                    f"observations {observations.shape}; they must agree"
                )
            ends |= ~valid
            jumps = _jumps(observations, next_observations) & ~ends
            if jumps.any():
                ends |= jumps
                notes = (
                    *notes,
                    f"episodes cut at {jumps.sum()} unmarked places: the following row begins in another state",
                )
        if actions is not None:
            actions = _matrix(name, "actions", actions, copy)
            _same_rows(name, "actions", actions, rows)
            if actions.shape[1] == 0:
                raise WaypostError(f"{name}: actions have no columns; leave them out for action-free data")
            if action_count is not None:
                action_low, action_high = _choices(name, actions, action_count)
            action_low, action_high = _bounds(name, actions, action_low, action_high)
        else:
            action_low = action_high = action_count = None
        if rewards is not None:
            rewards = _matrix(name, "rewards", rewards, copy)
            _same_rows(name, "rewards", rewards, rows)
            if rewards.shape[1] != 1:
                raise WaypostError(f"{name}: rewards have shape {rewards.shape}; expected ({rows},)")
            rewards = rewards[:, 0]
        observation_names = tuple(observation_names)
        if observation_names and len(observation_names) != observations.shape[1]:
            raise WaypostError(
                f"{name}: {len(observation_names)} observation_names, {observations.shape[1]} columns; they must agree"
            )
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
            action_count=action_count,
            action_count_said=action_count is not None,
            name=name,
            task=task,
            observation_names=observation_names,
            notes=tuple(notes),
        )
        return (dataset.checked() if finite else dataset)._frozen()

    def checked(self) -> Dataset:
        """The same data, once it is certain that every number in them is finite."""
        for column in ("observations", "next_observations", "actions", "rewards", "action_low", "action_high"):
            values = getattr(self, column)
            if values is not None:
                _finite(self.name, column, values)
        return self

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

    @cached_property
    def observation_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of each observation column; 1 for a column that never changes."""
        return moments(self.observations)

    def require(self, column: str) -> np.ndarray:
        """The column, or an error that says who needs it."""
        values = getattr(self, column)
        if values is None:
            raise WaypostError(f"{self.name}: has no {column}, which this needs")
        return values

    def fingerprint(self) -> str:
        """A short digest of the contents: two data sets with the same one hold the same rows."""
        digest = hashlib.sha256(b"" if self.action_count is None else f"{self.action_count} choices".encode())
        for name, values in self.columns.items():
            digest.update(f"{name}{values.shape}{values.dtype}".encode())
            digest.update(np.ascontiguousarray(values).view(np.uint8).data)
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
        cut at every new terminal. The row recorded next begins where the task is over and is left out,
        since nobody moves on from there; those after it begin a new episode.
        """
        labels = judge(self.observations, self.actions, self.next_observations)
        rewards = np.asarray(labels.rewards, np.float32)
        terminals = np.asarray(labels.terminals, bool)
        _same_rows(self.name, "rewards of the relabelling", rewards, len(self))
        _same_rows(self.name, "terminals of the relabelling", terminals, len(self))
        _finite(self.name, "rewards of the relabelling", rewards)
        over = np.append(False, (terminals & ~self.ends)[:-1])
        return replace(self, rewards=rewards, terminals=terminals, ends=self.ends | terminals).keep(~over)

    def keep(self, rows: np.ndarray) -> Dataset:
        """Only the marked rows; where a row inside an episode is left out, the episode is cut."""
        rows = np.asarray(rows, bool)
        _same_rows(self.name, "marks of the rows to keep", rows, len(self))
        if not rows.any():
            raise WaypostError(f"{self.name}: no rows would be left")
        followed = np.append(rows[1:], False)
        cut = replace(self, ends=self.ends | ~followed)
        return replace(cut, **{name: values[rows] for name, values in cut.columns.items()})._frozen()

    def top(self, share: float) -> Dataset:
        """The best episodes by undiscounted return: that share of them, at least one; the earlier wins a tie."""
        _share(self.name, "the share of episodes", share)
        returns = self.episode_returns
        count = max(1, round(share * len(returns)))
        best = np.zeros(len(returns), bool)
        best[np.argsort(-returns, kind="stable")[:count]] = True
        return self.keep(best[self.episode_of])

    def slice(self, start: float, stop: float) -> Dataset:
        """The transitions from one share of the data to another: `slice(0.3, 0.7)` is the middle 40 %."""
        if not 0 <= start < stop <= 1:
            raise WaypostError(f"{self.name}: a slice from {start} to {stop}: 0 <= start < stop <= 1 is needed")
        rows = np.arange(len(self))
        return self.keep((rows >= round(start * len(self))) & (rows < round(stop * len(self))))

    def split(self, share: float, seed: int = 0) -> tuple[Dataset, Dataset]:
        """Two data sets of whole episodes: the second, for validation, has that share of the episodes."""
        _share(self.name, "the share for validation", share)
        episodes = len(self.episode_starts)
        count = max(1, round(share * episodes))
        if count >= episodes:
            raise WaypostError(f"{self.name}: {episodes} episodes cannot be split with {share} of them for validation")
        held = np.zeros(episodes, bool)
        held[np.random.default_rng(seed).permutation(episodes)[:count]] = True
        rows = held[self.episode_of]
        return self.keep(~rows), self.keep(rows)

    def numbered(self, count: int, said: bool = True) -> Dataset:
        """The same data with each action taken as the number of one of `count` choices; 0: as the size it is stored as.

        `said` is False where a reader only judges so.
        """
        actions, low, high = self.require("actions"), self.action_low, self.action_high
        if count != 0:
            low, high = _choices(self.name, actions, count)
        elif self.action_count is not None:
            low = high = None
        low, high = _bounds(self.name, actions, low, high)
        notes = _without_judgement(self.notes)
        if count and not said:
            notes += (f"{WHOLE}: taken as numbers of {count} choices; if they are sizes, say --columns.choices 0",)
        known: dict[str, Any] = {"action_count": count or None, "action_count_said": said}
        return replace(self, **known, action_low=low, action_high=high, notes=notes)

    def without_actions(self) -> Dataset:
        """Action-free data: enough for V and the guide."""
        known: dict[str, Any] = {"action_count": None, "action_count_said": False}
        notes = _without_judgement(self.notes)
        return replace(self, actions=None, action_low=None, action_high=None, **known, notes=notes)

    def without_rewards(self) -> Dataset:
        """Reward-free data: enough for the executor."""
        return replace(self, rewards=None)

    def named(self, name: str, task: str | None = None) -> Dataset:
        """The same data under another name."""
        return replace(self, name=name, task=task or self.task)


def moments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation per column; a column that never changes is left unscaled."""
    values = values.astype(np.float64)
    std = values.std(axis=0)
    return values.mean(axis=0), np.where(std > 1e-6, std, 1.0)


def concatenate(parts: Sequence[Dataset], name: str | None = None) -> Dataset:
    """One data set after another; actions, rewards and names stay where all parts have them.

    A part without actions makes the whole action-free, one without rewards makes it reward-free: to train the guide
    on both and the executor on one, keep them apart.
    """
    if not parts:
        raise WaypostError("nothing to concatenate; at least one data set is needed")
    first = parts[0]
    for part in parts[1:]:
        for what in ("observation_size", "action_size"):
            sizes = getattr(first, what), getattr(part, what)
            if None not in sizes and sizes[0] != sizes[1]:
                raise WaypostError(
                    f"{first.name} and {part.name}: {what.replace('_', ' ')} {sizes[0]} and {sizes[1]}; they must agree"
                )
    common = [column for column in first.columns if all(column in part.columns for part in parts)]
    columns: dict[str, Any] = {column: np.concatenate([getattr(part, column) for part in parts]) for column in common}
    low = high = None
    count, said = None, False
    if "actions" in common:
        count, said = reduce(partial(common_count, name or first.name), map(numbering, parts))
        # What looked like choices and is none has the bounds of the sizes it holds.
        parts = [part.numbered(0) if count is None and part.action_count else part for part in parts]
        low = np.minimum.reduce([part.require("action_low") for part in parts])
        high = np.maximum.reduce([part.require("action_high") for part in parts])
    else:
        parts = [part.without_actions() for part in parts]
    same_names = all(part.observation_names == first.observation_names for part in parts)
    whole = Dataset(
        **{"actions": None, "rewards": None, **columns},
        action_low=low,
        action_high=high,
        action_count=count,
        action_count_said=said,
        name=name or "+".join(part.name for part in parts),
        task=first.task if all(part.task == first.task for part in parts) else None,
        observation_names=first.observation_names if same_names else (),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )
    if count is not None:
        whole = whole.numbered(count, said)
    return whole._frozen()


Numbering = tuple[int | None, bool]
"""How many numbered actions there are, if they are numbered, and whether anybody said so."""


def numbering(dataset: Dataset) -> Numbering:
    return dataset.action_count, dataset.action_count_said


def common_count(name: str, one: Numbering, other: Numbering) -> Numbering:
    """What holds for two data sets together: what was only judged by the looks of one gives way."""
    said = one[1] or other[1]
    counts = [count for count, _ in (one, other) if count is not None]
    known = [count for count, sure in (one, other) if sure and count is not None]
    if len(counts) == 2 and all(max(counts) == count for count in known):
        return max(counts), said
    if len(counts) < 2 and not known:
        return None, said
    kinds = (f"{count} numbered actions" if count else "actions that are not numbered" for count, _ in (one, other))
    raise WaypostError(
        f"{name}: {' and '.join(kinds)} in different parts; say with --columns.choices how many there are"
    )


def _without_judgement(notes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(note for note in notes if not note.startswith(WHOLE))


# -- the checks ---------------------------------------------------------------------------------


BLOCK = 1 << 18
"""Rows looked at together, so that a check of mapped data needs little memory."""


def _matrix(name: str, column: str, values: np.ndarray, copy: bool) -> np.ndarray:
    values = np.asarray(values)
    if values.dtype.kind not in "fiub":
        raise WaypostError(f"{name}: {column} hold {values.dtype}; numbers are needed")
    if values.ndim not in (1, 2):
        raise WaypostError(
            f"{name}: {column} have shape {values.shape}; expected (rows, size): flatten each row to a vector"
        )
    if values.ndim == 1:
        values = values[:, None]
    with np.errstate(over="ignore"):
        return np.array(values, np.float32, order="C", copy=copy or None)


def _flags(name: str, column: str, values: np.ndarray | None, rows: int) -> np.ndarray:
    if values is None:
        return np.zeros(rows, bool)
    values = np.asarray(values)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    _same_rows(name, column, values, rows)
    if values.ndim != 1 or values.dtype.kind not in "fiub" or not ((values == 0) | (values == 1)).all():
        raise WaypostError(f"{name}: {column} must be one 0 or 1 per row")
    return values.astype(bool)


def _jumps(observations: np.ndarray, next_observations: np.ndarray) -> np.ndarray:
    """Rows after which the following row begins somewhere else than in the next state."""
    jumps = np.zeros(len(observations), bool)
    for first in range(0, len(observations) - 1, BLOCK):
        last = min(first + BLOCK, len(observations) - 1)
        promised, found = next_observations[first:last], observations[first + 1 : last + 1]
        # Few rows differ at all; only there it matters by how much.
        differ = np.flatnonzero((promised != found).any(axis=1))
        with np.errstate(invalid="ignore"):
            apart = np.abs(promised[differ] - found[differ]) > 1e-6 * (1 + np.abs(found[differ]))
        jumps[first + differ] = apart.any(axis=1)
    return jumps


def _choices(name: str, actions: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest of so many choices, once it is certain that the actions are numbers of them."""
    if not 2 <= count <= MOST_CHOICES or actions.shape[1] != 1:
        raise WaypostError(
            f"{name}: {count} numbered actions in {actions.shape[1]} column{'s' if actions.shape[1] > 1 else ''}; "
            f"2 to {MOST_CHOICES}, in one column, are possible"
        )
    for first in range(0, len(actions), BLOCK):
        block = actions[first : first + BLOCK, 0]
        # What is not finite is left for `checked` to find.
        wrong = np.isfinite(block) & ((block != np.floor(block)) | (block < 0) | (block >= count))
        if wrong.any():
            row = int(wrong.argmax())
            raise WaypostError(
                f"{name}: action {block[row]:g} in row {first + row}; "
                f"{count} numbered actions are whole numbers from 0 to {count - 1}"
            )
    return np.zeros(1), np.full(1, count - 1)


def _bounds(
    name: str, actions: np.ndarray, low: np.ndarray | None, high: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """The bounds as given; where one is missing or infinite, that of the smallest box around the data."""
    box = []
    for field_name, given, side in (("action_low", low, np.fmin), ("action_high", high, np.fmax)):
        reached = side.reduce(actions, axis=0)
        if given is None:
            box.append(reached)
            continue
        bound = np.asarray(given)
        if bound.dtype.kind not in "fiub" or bound.shape not in ((), (1,), actions.shape[1:]):
            raise WaypostError(
                f"{name}: {field_name} has shape {bound.shape} and holds {bound.dtype}; "
                f"one number for each of {actions.shape[1]} actions is needed"
            )
        bound = np.broadcast_to(bound.astype(np.float32), actions.shape[1:])
        box.append(np.where(np.isinf(bound), reached, bound))
    if (box[0] > box[1]).any():
        raise WaypostError(f"{name}: action_low must not be above action_high")
    return box[0], box[1]


def _share(name: str, what: str, share: float) -> None:
    if not 0 < share <= 1:
        raise WaypostError(f"{name}: {what} is {share}; it must be above 0 and at most 1")


def _same_rows(name: str, column: str, values: np.ndarray, rows: int) -> None:
    if values.shape[:1] != (rows,):
        raise WaypostError(
            f"{name}: {column} have {len(values) if values.ndim else 0} rows, observations {rows}; they must agree"
        )


def _finite(name: str, column: str, values: np.ndarray) -> None:
    bad = bad_rows(values)
    if len(bad):
        where = ", ".join(map(str, bad[:5])) + (", ..." if len(bad) > 5 else "")
        raise WaypostError(
            f"{name}: {column} are NaN or infinite in {len(bad)} of {len(values)} rows ({where}); remove or repair them"
        )


def bad_rows(values: np.ndarray) -> NDArray[np.int64]:
    """Rows that hold a NaN or an infinity."""
    found = []
    for first in range(0, len(values), BLOCK):
        block = values[first : first + BLOCK]
        # A finite sum has finite terms; only where it is not, every number is looked at.
        with np.errstate(over="ignore", invalid="ignore"):
            total = block.sum()
        if not np.isfinite(total):
            found.append(first + np.flatnonzero(~np.isfinite(block.reshape(len(block), -1)).all(axis=1)))
    return np.concatenate(found) if found else np.zeros(0, np.int64)
