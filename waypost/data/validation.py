"""Checks of the arrays of a Dataset; an error names the data, the column and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from waypost.data import in_file
from waypost.data.in_file import Stored, in_memory
from waypost.errors import WaypostError

if TYPE_CHECKING:
    from waypost.data.dataset import Dataset

BLOCK = 1 << 18
"""Rows checked together, so that mapped data need little memory."""
MOST_ACTIONS = 10**6
"""Discrete actions; a network has an output for each."""
MOST_CHOICES = 1000
"""The same of one column of mixed actions."""
Choices = tuple[tuple[str, ...], ...]
"""For each action column the texts or numbers it is chosen from; none: it is continuous."""
NAME_THEM = "name them all, in one order: --categories 'COLUMN=FIRST<SECOND'"


@dataclass(frozen=True)
class ActionKind:
    """Whether actions are discrete, continuous or partly each, and how that is known."""

    count: int | None
    """How many discrete actions there are; None: they are continuous, or have `choices`."""
    declared: bool
    """Whether it was declared; otherwise it was inferred from how the actions are stored."""
    choices: Choices = ()
    """Of mixed actions, what each column is chosen from."""

    def joined(self, other: ActionKind, name: str) -> ActionKind:
        """The kind of two data sets together; what was declared overrides what was inferred."""
        if self.choices == other.choices != ():
            return self
        if self.choices or other.choices:
            kinds = " and ".join(f"({described(kind.choices)})" for kind in (self, other))
            raise WaypostError(f"{name}: the choices of actions differ in its parts: {kinds}; {NAME_THEM}")
        declared = self.declared or other.declared
        counts = [kind.count for kind in (self, other) if kind.count is not None]
        certain = [kind.count for kind in (self, other) if kind.declared and kind.count is not None]
        if len(counts) == 2 and all(max(counts) == count for count in certain):
            return ActionKind(max(counts), declared)
        if len(counts) < 2 and not certain:
            return ActionKind(None, declared)
        kinds = " and ".join(f"{kind.count} discrete" if kind.count else "continuous" for kind in (self, other))
        raise WaypostError(f"{name}: {kinds} actions in different parts; give their number with --columns.choices")


def printable(name: str) -> str:
    """A name from a file, with escapes for what is not printable."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in name)


def blocks(values: np.ndarray, rows: int | None = None) -> Iterator[tuple[int, np.ndarray]]:
    """Consecutive rows, with the number of the first."""
    return in_file.blocks(values, rows or BLOCK)


def matrix(name: str, column: str, values: Any, copy: bool, rows: int | None = None) -> np.ndarray:
    """The values as a matrix of float32, with as many rows as the observations have."""
    values = values if isinstance(values, Stored) else np.asarray(values)
    if values.dtype.kind not in "fiub":
        raise WaypostError(f"{name}: {column} hold {values.dtype}; numbers are needed")
    if values.ndim not in (1, 2):
        raise WaypostError(
            f"{name}: {column} have shape {values.shape}; expected (rows, size): flatten each row to a vector"
        )
    if rows is not None:
        same_rows(name, column, values, rows)
    if isinstance(values, Stored) and values.ndim == 2 and values.dtype == np.float32:
        return values  # type: ignore[return-value]
    if values.ndim == 1:
        values = values[:, None]
    with np.errstate(over="ignore"):
        return np.array(values, np.float32, order="C", copy=copy or None)


def flags(name: str, column: str, values: np.ndarray | None, rows: int, default: bool = False) -> np.ndarray:
    """One boolean per row, after checking that the values are booleans."""
    if values is None:
        return np.full(rows, default)
    values = in_memory(np.asarray(values))
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    same_rows(name, column, values, rows)
    if values.ndim != 1 or values.dtype.kind not in "fiub" or not ((values == 0) | (values == 1)).all():
        raise WaypostError(f"{name}: {column} must be one 0 or 1 per row")
    return values.astype(bool)


def same_sizes(first: Dataset, part: Dataset) -> None:
    """Raise unless two data sets can be joined."""
    for what in ("observation_size", "action_size"):
        sizes = getattr(first, what), getattr(part, what)
        if None not in sizes and sizes[0] != sizes[1]:
            raise WaypostError(
                f"{first.name} and {part.name}: {what.replace('_', ' ')} {sizes[0]} and {sizes[1]}; they must agree"
            )


def goes_over(one: Dataset, other: Dataset) -> bool:
    """Whether an episode was cut between two parts: one says so, and the other begins where it led."""
    return one.goes_on and np.array_equal(in_memory(one.next_observations[-1:]), in_memory(other.observations[:1]))


def same_rows(name: str, column: str, values: np.ndarray, rows: int) -> None:
    if values.shape[:1] != (rows,):
        found = len(values) if values.ndim else 0
        raise WaypostError(f"{name}: {column} have {found} rows, observations {rows}; they must agree")


def finite(name: str, column: str, values: np.ndarray) -> None:
    bad = bad_rows(values)
    if len(bad):
        where = ", ".join(map(str, bad[:5])) + (", ..." if len(bad) > 5 else "")
        raise WaypostError(
            f"{name}: {column} are NaN or infinite in {len(bad)} of {len(values)} rows ({where}); remove or fix them"
            " (in a table: --missing drop, hold, interpolate or mean)"
        )


def bad_rows(values: np.ndarray) -> NDArray[np.int64]:
    """Rows that hold a NaN or an infinity."""
    found = [np.zeros(0, np.int64)]
    for first, block in blocks(values):
        # A finite sum has finite terms; only otherwise every number is checked.
        with np.errstate(over="ignore", invalid="ignore"):
            total = block.sum()
        if not np.isfinite(total):
            found.append(first + np.flatnonzero(~np.isfinite(block.reshape(len(block), -1)).all(axis=1)))
    return np.concatenate(found)


def share(name: str, what: str, value: float) -> None:
    if not 0 < value <= 1:
        raise WaypostError(f"{name}: {what} must be above 0 and at most 1, got {value}")


def jumps(observations: np.ndarray, next_observations: np.ndarray) -> np.ndarray:
    """Rows whose next state is not the state of the following row."""
    found = np.zeros(len(observations), bool)
    for first, promised in blocks(next_observations[:-1]):
        begun = in_memory(observations[first + 1 : first + 1 + len(promised)])
        # Few rows differ at all; only there the difference is measured.
        differ = np.flatnonzero((promised != begun).any(axis=1))
        with np.errstate(invalid="ignore"):
            apart = np.abs(promised[differ] - begun[differ]) > 1e-6 * (1 + np.abs(begun[differ]))
        found[first + differ] = apart.any(axis=1)
    return found


def described(choices: Choices) -> str:
    """Mixed actions in words."""
    sizes = [str(len(words)) for words in choices if words]
    continuous = sum(not words for words in choices)
    parts = [f"{len(sizes)} discrete of {' and '.join(sizes)} choices"] if sizes else []
    return " and ".join([*parts, *([f"{continuous} continuous"] if continuous or not parts else [])])


def numbers_of(words: tuple[str, ...]) -> np.ndarray:
    """What stands for each choice in the data: the number it is, or its place among texts."""
    try:
        return np.array([float(word) for word in words], np.float32)
    except ValueError:
        return np.arange(len(words), dtype=np.float32)


def check_choices(name: str, actions: np.ndarray, choices: Choices, names: tuple[str, ...] = ()) -> None:
    """Raise unless the columns that are chosen from something hold nothing else."""
    if len(choices) != actions.shape[1]:
        raise WaypostError(
            f"{name}: choices for {len(choices)} action columns, there are {actions.shape[1]}; they must agree"
        )
    for i, words in enumerate(choices):
        which, known = names[i] if names else f"column {i}", numbers_of(words)
        if words and not (2 <= len(words) <= MOST_CHOICES and len(np.unique(known)) == len(words)):
            found = f"action {which} has {len(words)} choice{'s' if len(words) > 1 else ''}, {', '.join(words[:5])}"
            raise WaypostError(f"{name}: {found}; 2 to {MOST_CHOICES} different ones are possible; {NAME_THEM}")
        if not np.isfinite(known).all():
            raise WaypostError(
                f"{name}: action {which} is chosen from {', '.join(words[:5])}; finite numbers are needed"
            )
        for first, block in blocks(actions) if words else ():
            # What is not finite is left for `Dataset.checked` to find.
            wrong = np.isfinite(block[:, i]) & ~np.isin(block[:, i], known)
            if wrong.any():
                row = int(wrong.argmax())
                found = f"action {which} is {block[row, i]:g} in row {first + row}"
                raise WaypostError(f"{name}: {found}; it is chosen from {', '.join(f'{n:g}' for n in known[:10])}")


def mixed_bounds(
    name: str,
    actions: np.ndarray,
    choices: Choices,
    low: np.ndarray | None,
    high: np.ndarray | None,
    names: tuple[str, ...] = (),
) -> tuple[np.ndarray, np.ndarray]:
    """The bounds of mixed actions: the smallest and the largest number where there is a choice."""
    check_choices(name, actions, choices, names)
    low, high = (np.array(bound, np.float32) for bound in action_bounds(name, actions, low, high))
    for i, words in enumerate(choices):
        if words:
            low[i], high[i] = numbers_of(words).min(), numbers_of(words).max()
    return low, high


def discrete_bounds(name: str, actions: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last of `count` discrete actions, after checking that the data hold no others."""
    if not 2 <= count <= MOST_ACTIONS or actions.shape[1] != 1:
        raise WaypostError(
            f"{name}: {count} discrete actions in {actions.shape[1]} column{'s' if actions.shape[1] > 1 else ''}; "
            f"2 to {MOST_ACTIONS}, in one column, are possible"
        )
    for first, block in blocks(actions):
        block = block[:, 0]
        # `Dataset.checked` finds what is not finite.
        wrong = np.isfinite(block) & ((block != np.floor(block)) | (block < 0) | (block >= count))
        if wrong.any():
            row = int(wrong.argmax())
            raise WaypostError(
                f"{name}: action {block[row]:g} in row {first + row}; "
                f"{count} discrete actions are whole numbers from 0 to {count - 1}"
            )
    return np.zeros(1), np.full(1, count - 1)


def action_bounds(
    name: str, actions: np.ndarray, low: np.ndarray | None, high: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """The bounds as given; a missing or infinite one is taken from the range of the data."""
    box = []
    for side, given, extreme in (("action_low", low, np.fmin), ("action_high", high, np.fmax)):
        reached = extreme.reduce([extreme.reduce(block, axis=0) for _, block in blocks(actions)])
        if given is None:
            box.append(reached)
            continue
        bound = np.asarray(given)
        if bound.dtype.kind not in "fiub" or bound.shape not in ((), (1,), actions.shape[1:]):
            raise WaypostError(
                f"{name}: {side} has shape {bound.shape} and holds {bound.dtype}; "
                f"one number for each of {actions.shape[1]} actions is needed"
            )
        bound = np.broadcast_to(bound.astype(np.float32), actions.shape[1:])
        box.append(np.where(np.isinf(bound), reached, bound))
    if (box[0] > box[1]).any():
        raise WaypostError(f"{name}: action_low must be at most action_high")
    return box[0], box[1]


def names(name: str, side: str, given: tuple[str, ...], size: int) -> tuple[str, ...]:
    """Names of columns that can be shown, after checking that there is one for each, or none."""
    if given and len(given) != size:
        raise WaypostError(f"{name}: {len(given)} {side}, {size} columns; they must agree")
    return tuple(map(printable, given))
