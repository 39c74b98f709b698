"""Compare what a file claims to hold with its size and with the free memory, before anything is read."""

from __future__ import annotations

from pathlib import Path

from waypost.errors import WaypostError
from waypost.resources import available_memory

ALWAYS = 1 << 28
"""Bytes that are read whatever their compression: a constant column shrinks a thousandfold."""
MOST_PACKED = 100
"""Above `ALWAYS`, no real data are compressed by more than this factor: such a file is damaged or a trap."""
MOST_FIELDS = 10_000
"""Arrays or columns of one file."""
MOST_EMPTY = 10**6
"""Rows without columns."""
LARGEST_FACTS = 1 << 20
"""Bytes of the facts in a file written by Waypost."""


class Claims:
    """What has been read of a file so far, and its size there: many small claims add up."""

    def __init__(self, path: Path, size: int | None = None):
        self.path, self.size = path, path.stat().st_size if size is None else size
        self._claimed = self._stored = 0
        self._free = available_memory()

    def add(self, field: str, claimed: int, stored: int, held: bool = True) -> None:
        """Refuse what cannot be true or does not fit in memory, before any memory is allocated."""
        self._claimed += claimed
        # Overlapping entries take no more than the file.
        self._stored = min(self._stored + stored, self.size)
        if self._claimed > max(ALWAYS, MOST_PACKED * self._stored):
            first = self._claimed == claimed
            what = f"{field} claims {claimed}" if first else f"what was read up to {field} claims {self._claimed}"
            raise WaypostError(f"{self.path}: damaged: {what} bytes, the file holds {self._stored} for it")
        if held and self._claimed > self._free:
            before = self._claimed - claimed
            raise WaypostError(
                f"{self.path}: {field} needs {claimed / 1e9:.1f} GB, {(self._free - before) / 1e9:.1f} GB are free; "
                "see docs/large-data.md on data larger than memory"
            )


def few_fields(number: int) -> None:
    """Refuse a file with more fields than any real data: each takes time."""
    if number > MOST_FIELDS:
        raise ValueError(f"{number} fields; at most {MOST_FIELDS} are allowed")


def few_empty(shape: tuple[int, ...], claimed: int) -> None:
    """Refuse very many rows without columns: they take no space, but what is made of them does."""
    if claimed == 0 and max(shape, default=0) > MOST_EMPTY:
        raise ValueError(f"an array of shape {shape} holds no numbers")
