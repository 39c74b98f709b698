"""The one type every source is read into and every algorithm trains from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from waypost.data import validation
from waypost.data.facts import in_short
from waypost.data.pipeline import Reading
from waypost.data.validation import ActionKind, Choices
from waypost.errors import WaypostError
from waypost.schema import shown
from waypost.summaries import Summarised, Summary
from waypost.types import Flags, Floats, Labels

STORED_AS_INTEGERS = "actions are stored as integers"
"""How the note of a reader begins that inferred from this whether they are discrete."""


@dataclass(frozen=True, eq=False, repr=False)
class Dataset(Summarised):
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
    """How many discrete actions there are, stored as 0 to count - 1 in one column; None: actions are continuous."""
    action_kind_declared: bool = False
    """The source or a person declared whether actions are discrete; else it was inferred from how they are stored."""
    name: str = "data"
    """What the person called it."""
    task: str | None = None
    """Name of the task these rewards belong to, if it is one of ours."""
    observation_names: tuple[str, ...] = ()
    """Names of the observation's columns, where known."""
    notes: tuple[str, ...] = ()
    """What the reader had to decide; shown once to the person."""
    action_names: tuple[str, ...] = ()
    """Names of the action's columns, where known."""
    history: int = 1
    """How many rows of an episode are side by side in an observation, the oldest first."""
    reading: Reading | None = None
    """How the data were read, to read others the same way; None for data made here."""
    parts: tuple[tuple[str, int], ...] = ()
    """Names and rows of the files it was put together from, as long as it holds all their rows."""
    action_choices: Choices = ()
    """Of mixed actions: what each column is chosen from, numbers, or texts that are stored as their place; or none."""
    goes_on: bool = False
    """The last row is a cut: its episode goes on in the next part of the same data."""

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
        action_names: tuple[str, ...] = (),
        history: int = 1,
        goes_on: bool = False,
        finite: bool = True,
        copy: bool = True,
        action_choices: Choices = (),
    ) -> Dataset:
        """Check arrays and make a Dataset of them.

        Without `next_observations` the following row's state is taken, except at an episode's
        end, where the next state is unknown and marked so. An episode ends at a terminal or a
        timeout, where the following row does not begin in the next state, and at the last row.
        `action_count` says that actions are discrete, 0 to count - 1; `action_choices` that some columns are a choice
        of numbers, or of texts, stored as 0, 1, ...: (("closed", "open"), ()) for a valve beside a heater.
        `finite=False` leaves NaN and infinities for `checked` to find; `copy=False` uses arrays that are float32
        already as they are, and makes them read-only.
        """
        observations = validation.matrix(name, "observations", observations, copy)
        rows, size = observations.shape
        if rows == 0:
            raise WaypostError(f"{name}: no transitions; at least one row is needed")
        if size == 0:
            raise WaypostError(f"{name}: observations have no columns; at least one is needed")
        terminals = validation.flags(name, "terminals", terminals, rows)
        ends = terminals | validation.flags(name, "timeouts", timeouts, rows)
        ends[-1] = True
        valid = validation.flags(name, "next_valid", next_valid, rows, default=True)
        if next_observations is None:
            next_observations = np.concatenate([observations[1:], observations[-1:]])
            next_observations[ends] = observations[ends]
            valid &= ~ends
            ends |= ~valid
        else:
            next_observations = validation.matrix(name, "next_observations", next_observations, copy)
            if next_observations.shape != observations.shape:
                raise WaypostError(
                    f"{name}: next_observations have shape {next_observations.shape}, "
                    f"observations {observations.shape}; they must agree"
                )
            ends |= ~valid
            cuts = validation.jumps(observations, next_observations) & ~ends
            ends |= cuts
            if cuts.any():
                cut = f"episodes cut at {cuts.sum()} unmarked places: the following row begins in another state"
                notes = (*notes, cut)
        if actions is None:
            action_low = action_high = action_count = None
            action_choices = ()
        else:
            actions = validation.matrix(name, "actions", actions, copy, rows)
            if actions.shape[1] == 0:
                raise WaypostError(f"{name}: actions have no columns; leave them out for action-free data")
            if action_count is not None:
                action_low, action_high = validation.discrete_bounds(name, actions, action_count)
            if action_choices and action_count is not None:
                raise WaypostError(f"{name}: actions have either action_count or action_choices, not both")
            if action_choices:
                bounds = (action_low, action_high, action_names)
                action_low, action_high = validation.mixed_bounds(name, actions, action_choices, *bounds)
            action_low, action_high = validation.action_bounds(name, actions, action_low, action_high)
        if rewards is not None:
            rewards = validation.matrix(name, "rewards", rewards, copy, rows)
            if rewards.shape[1] != 1:
                raise WaypostError(f"{name}: rewards have shape {rewards.shape}; expected ({rows},)")
            rewards = rewards[:, 0]
        seen = validation.names(name, "observation_names", observation_names, size)
        acting = () if actions is None else validation.names(name, "action_names", action_names, actions.shape[1])
        if history < 1 or size % history:
            raise WaypostError(f"{name}: {size} columns cannot be {history} rows side by side")
        arrays = (observations, next_observations, terminals, ends, valid, actions, rewards, action_low, action_high)
        declared = action_count is not None or bool(action_choices)
        about = (name, task, seen, tuple(notes), acting, history)
        dataset = cls(*arrays, action_count, declared, *about, goes_on=goes_on, action_choices=action_choices)
        return (dataset.checked() if finite else dataset)._frozen()

    def checked(self) -> Dataset:
        """The same data, after checking that every number in them is finite."""
        for column in ("observations", "next_observations", "actions", "rewards", "action_low", "action_high"):
            values = getattr(self, column)
            if values is not None:
                validation.finite(self.name, column, values)
        return self

    def _frozen(self) -> Dataset:
        for values in self.columns.values():
            values.setflags(write=False)
        return self

    def summary(self) -> Summary:
        return in_short(self)

    def __len__(self) -> int:
        return len(self.observations)

    @property
    def observation_size(self) -> int:
        return self.observations.shape[1]

    @property
    def action_size(self) -> int | None:
        return None if self.actions is None else self.actions.shape[1]

    @property
    def action_kind(self) -> ActionKind:
        return ActionKind(self.action_count, self.action_kind_declared, self.action_choices)

    @property
    def action_counts(self) -> tuple[int, ...]:
        """For each action column, how many discrete actions there are; 0 where it is continuous."""
        if self.action_choices:
            return tuple(map(len, self.action_choices))
        return (self.action_count or 0,) * (self.action_size or 0)

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
        """The column, or an error that says it is missing."""
        values = getattr(self, column)
        if values is None:
            hint = f"name their columns with --columns.{column}"
            hint += ', or write them as an expression: --reward "-abs(temp - 60)"' if column == "rewards" else ""
            raise WaypostError(f"{self.name}: has no {column}, which this needs; {hint}")
        return values

    def fingerprint(self) -> str:
        """A short digest of the contents: two data sets with the same one hold the same rows."""
        digest = hashlib.sha256(b"" if self.action_count is None else f"{self.action_count} choices".encode())
        digest.update(repr(self.action_choices).encode() if self.action_choices else b"")
        for name, values in self.columns.items():
            digest.update(f"{name}{values.shape}{values.dtype}".encode())
            for _, block in validation.blocks(values):
                digest.update(np.ascontiguousarray(block).view(np.uint8).data)
        return digest.hexdigest()[:16]

    def with_rewards(self, rewards: np.ndarray) -> Dataset:
        """The same transitions with other rewards."""
        rewards = np.asarray(rewards, np.float32)
        validation.same_rows(self.name, "rewards", rewards, len(self))
        validation.finite(self.name, "rewards", rewards)
        return replace(self, rewards=rewards)._frozen()

    def relabel(self, label: Callable[[Floats, Floats | None, Floats], Labels]) -> Dataset:
        """The same transitions as another task sees them.

        `label(observations, actions, next_observations)` gives rewards and terminals; an episode is
        cut at every new terminal. The row recorded next begins where the task is over and is left out,
        since nobody moves on from there; those after it begin a new episode.
        """
        labels = label(self.observations, self.actions, self.next_observations)
        if not isinstance(labels, Labels):
            raise WaypostError(
                f"{self.name}: label must return waypost.Labels(rewards, terminals), got {shown(labels)}"
            )
        terminals = np.asarray(labels.terminals, bool)
        validation.same_rows(self.name, "terminals of the relabelling", terminals, len(self))
        relabelled = replace(self.with_rewards(labels.rewards), terminals=terminals, ends=self.ends | terminals)
        over = np.append(False, (terminals & ~self.ends)[:-1])
        return relabelled.keep(~over)

    def keep(self, rows: np.ndarray) -> Dataset:
        """Only the marked rows; where a row inside an episode is left out, the episode is cut."""
        rows = np.asarray(rows, bool)
        validation.same_rows(self.name, "marks of the rows to keep", rows, len(self))
        if not rows.any():
            raise WaypostError(f"{self.name}: no rows would be left")
        followed = np.append(rows[1:], False)
        cut = replace(self, ends=self.ends | ~followed, parts=(), goes_on=False)
        return replace(cut, **{name: values[rows] for name, values in cut.columns.items()})._frozen()

    def top(self, share: float) -> Dataset:
        """The best episodes by undiscounted return: that share of them, at least one; the earlier wins a tie."""
        validation.share(self.name, "the share of episodes", share)
        # Not the shorter of equal ones: it may only have begun nearer to the goal.
        best = np.argsort(-self.episode_returns, kind="stable")
        return self.keep(np.isin(self.episode_of, best[: max(1, round(share * len(best)))]))

    def slice(self, start: float, stop: float) -> Dataset:
        """The transitions from one share of the data to another: `slice(0.3, 0.7)` is the middle 40 %."""
        if not 0 <= start < stop <= 1:
            raise WaypostError(f"{self.name}: a slice needs 0 <= start < stop <= 1, got {start} and {stop}")
        rows = np.arange(len(self))
        return self.keep((rows >= round(start * len(self))) & (rows < round(stop * len(self))))

    def split(self, share: float, seed: int = 0) -> tuple[Dataset, Dataset]:
        """Two data sets of whole episodes: the second, for validation, has that share of the episodes."""
        validation.share(self.name, "the share for validation", share)
        episodes = len(self.episode_starts)
        count = max(1, round(share * episodes))
        if count >= episodes:
            raise WaypostError(f"{self.name}: {episodes} episodes cannot be split with {share} of them for validation")
        rows = np.isin(self.episode_of, np.random.default_rng(seed).permutation(episodes)[:count])
        return self.keep(~rows), self.keep(rows)

    def with_action_count(self, count: int, declared: bool = True) -> Dataset:
        """The same data with actions taken as discrete, 0 to count - 1; with a count of 0, as continuous.

        `declared` is False where a reader only infers this.
        """
        actions, low, high = self.require("actions"), self.action_low, self.action_high
        if count != 0:
            low, high = validation.discrete_bounds(self.name, actions, count)
        elif self.action_count is not None or self.action_choices:
            low = high = None
        low, high = validation.action_bounds(self.name, actions, low, high)
        notes = self._notes_without_inference
        if count and not declared:
            taken = f"taken as {count} discrete actions; if they are continuous, say --columns.choices 0"
            notes += (f"{STORED_AS_INTEGERS}: {taken}",)
        kind: dict[str, Any] = {"action_count": count or None, "action_kind_declared": declared, "action_choices": ()}
        return replace(self, **kind, action_low=low, action_high=high, notes=notes)

    def with_action_choices(self, choices: Choices) -> Dataset:
        """The same data with mixed actions, see `from_arrays`; a single one of 0, 1, ... is discrete."""
        if not any(choices):
            return self.with_action_count(0)
        if len(choices) == 1 and np.array_equal(validation.numbers_of(choices[0]), np.arange(len(choices[0]))):
            return self.with_action_count(max(2, len(choices[0])))
        actions, notes = self.require("actions"), self._notes_without_inference
        bounds = (self.action_low, self.action_high, self.action_names)
        low, high = validation.mixed_bounds(self.name, actions, choices, *bounds)
        kind: dict[str, Any] = {"action_count": None, "action_kind_declared": True, "action_choices": choices}
        return replace(self, **kind, action_low=low, action_high=high, notes=notes)

    def with_discrete_actions(self, names: Sequence[str]) -> Dataset:
        """The same data with the named actions as choices of the numbers they hold; unnamed ones are 0, 1, ..."""
        if self.actions is None:
            return self
        known = self.action_names or tuple(map(str, range(self.actions.shape[1])))
        strange = [name for name in names if name not in known]
        if strange:
            raise WaypostError(f"{self.name}: discrete: there is no action {strange[0]!r}; it has {', '.join(known)}")
        if self.action_choices or self.action_count is not None:
            return self
        columns = [self.actions[:, i] if name in names else np.zeros(0) for i, name in enumerate(known)]
        found = [np.unique(column[np.isfinite(column)])[: validation.MOST_CHOICES + 1] for column in columns]
        return self.with_action_choices(tuple(tuple(f"{number:.9g}" for number in each) for each in found))

    def without_actions(self) -> Dataset:
        """Action-free data: enough for V and the guide."""
        kind: dict[str, Any] = {"action_count": None, "action_kind_declared": False, "action_choices": ()}
        notes = self._notes_without_inference
        return replace(self, actions=None, action_low=None, action_high=None, **kind, notes=notes, action_names=())

    @property
    def _notes_without_inference(self) -> tuple[str, ...]:
        return tuple(note for note in self.notes if not note.startswith(STORED_AS_INTEGERS))

    def without_rewards(self) -> Dataset:
        """Reward-free data: enough for the executor."""
        return replace(self, rewards=None)

    def named(self, name: str, task: str | None = None) -> Dataset:
        """The same data under another name."""
        return replace(self, name=name, task=task or self.task)


def moments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation per column; a column that never changes is left unscaled."""
    values = values.astype(np.float64)
    std, size = values.std(axis=0), np.abs(values).max(axis=0)
    # Of a constant, sums and 32-bit numbers leave rounding errors of this order.
    return values.mean(axis=0), np.where(std > 1e-7 * size, std, 1.0)
