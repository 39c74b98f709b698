"""A log before it is a Dataset: columns by name, and what is known about the rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from waypost.data.validation import printable
from waypost.errors import WaypostError
from waypost.types import Doubles, Flags

Reward = Callable[[Mapping[str, np.ndarray]], np.ndarray]
"""A function from the columns by name, also `next_NAME`, to a number for each row."""


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length, ordered by episode and time."""

    name: str
    columns: dict[str, np.ndarray]
    """One value, or one row of values, per row."""
    breaks: Flags
    """Rows that the next row does not follow: another episode, or a cut."""
    marks: dict[str, np.ndarray] = field(default_factory=dict)
    """Flags of each row: `terminals`, `timeouts`, `next_valid`, and `final` where there is only a state."""
    time: Doubles | None = None
    """Seconds."""
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.breaks)

    @property
    def ends(self) -> Flags:
        """Last rows of stretches without a break."""
        ends: Flags = self.breaks | self.marks.get("terminals", False) | self.marks.get("timeouts", False)
        ends[-1:] = True
        return ends

    @property
    def starts(self) -> Flags:
        return np.append(True, self.ends[:-1])[: len(self)]

    def rows(self, chosen: np.ndarray, breaks: Flags | None = None) -> Table:
        """The chosen rows, by number, with their `breaks`."""
        return replace(
            self,
            columns={name: values[chosen] for name, values in self.columns.items()},
            marks={name: values[chosen] for name, values in self.marks.items()},
            time=None if self.time is None else self.time[chosen],
            breaks=self.breaks[chosen] if breaks is None else breaks,
        )

    def without(self, dropped: Flags, cut: bool) -> Table:
        """The rows that are not left out; with `cut`, an episode ends before a row that is."""
        kept = np.flatnonzero(~dropped)
        if not len(kept):
            raise WaypostError(f"{self.name}: no rows would be left")
        ends = np.flatnonzero(self.breaks)
        # If an episode's last row is left out, the last remaining row ends it.
        last = np.searchsorted(kept, ends, side="right") - 1
        breaks = np.zeros(len(kept), bool)
        breaks[last[last >= 0]] = True
        if cut:
            breaks |= np.append(np.diff(kept) > 1, True)
        return self.rows(kept, breaks)

    def noting(self, *notes: str) -> Table:
        return replace(self, notes=(*self.notes, *notes))


class Named(Mapping[str, np.ndarray]):
    """The columns of a table for a reward: numbers, and those of the next row as `next_NAME`."""

    def __init__(self, name: str, columns: Mapping[str, np.ndarray], following: np.ndarray | None = None):
        self.name, self.columns, self.following = name, columns, following

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self.columns:
            values = self.columns[name]
            return values if is_text(values) else values.astype(np.float64)
        before = name.removeprefix("next_")
        if before != name and before in self.columns and self.following is not None:
            return self[before][self.following]
        names = ", ".join(printable(each[:80]) for each in list(self.columns)[:20])
        raise WaypostError(f"{self.name}: the reward needs a column {name!r}; there are {names}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


def rewards(function: Reward, columns: Named, rows: int) -> np.ndarray:
    """A reward for each row, by an expression or a user's function."""
    try:
        found = np.asarray(function(columns), np.float64)
    except WaypostError:
        raise
    except Exception as error:  # a user's function, or an expression with texts, can raise anything
        raise WaypostError(f"{columns.name}: the reward failed ({type(error).__name__}: {error})") from error
    if found.shape not in ((), (rows,), (rows, 1)):
        raise WaypostError(f"{columns.name}: the reward has shape {found.shape}; one number for each row is needed")
    return np.broadcast_to(found.reshape(-1) if found.ndim else found, (rows,)).copy()


def is_text(values: np.ndarray) -> bool:
    return values.dtype.kind in "UO"


def absent(values: np.ndarray, every: bool = False) -> Flags:
    """Rows with a missing value; with `every`, those without any value."""
    if is_text(values):
        return np.array([value is None or value != value for value in values], bool)
    if values.dtype.kind != "f":
        return np.zeros(len(values), bool)
    nothing = np.isnan(values.reshape(len(values), math.prod(values.shape[1:])))
    found: Flags = nothing.all(axis=1) if every else nothing.any(axis=1)
    return found
