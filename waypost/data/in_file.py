"""Numbers that lie in files: in one that is mapped, so that they have an address, or in several, one after another.

If a mapped file is cut short, touching the lost part kills the process with a signal. A short read is an ordinary
error. So the map only says where the numbers are, and all but a few of them are read.
"""

from __future__ import annotations

import math
import mmap
import os
import weakref
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, Protocol, Self

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from waypost.errors import WaypostError

BLOCK_BYTES = 1 << 24
"""Bytes looked at together."""
GATHERED_ROWS = 1 << 12
"""Rows read together where only some of them are wanted."""


class File(Protocol):
    """A file that numbers lie in."""

    path: Path

    def check(self) -> None:
        """Raise if the file is no longer what it was when it was opened."""


class FileMap(mmap.mmap):
    """A file mapped into memory, and what it was like when it was opened."""

    path: Path
    _descriptor: int
    _address: int
    _checksums: dict[tuple[int, int], int]
    """Checksums of the parts in use, by where they begin and end."""
    _size: int
    _modified: int
    _changed: int

    def __new__(cls, path: Path, descriptor: int) -> Self:
        found = super().__new__(cls, descriptor, 0, access=mmap.ACCESS_READ)
        found.path = path
        found._descriptor = os.dup(descriptor)
        weakref.finalize(found, os.close, found._descriptor)
        found._address = np.frombuffer(found, np.uint8, 1).ctypes.data
        found._checksums = {}
        found._size, found._modified, found._changed = found._state()
        return found

    def expect(self, begin: int, end: int, checksum: int) -> None:
        """Raise unless these bytes have that checksum, now and whenever the file may have changed."""
        self._checksums[begin, end] = checksum
        self._compare(begin, end, checksum)

    def read_into(self, values: np.ndarray, place: int) -> None:
        """Fill an array with the bytes from an offset on."""
        space = values.reshape(-1).view(np.uint8).data
        while len(space):
            read = os.preadv(self._descriptor, [space], place)
            if not read:
                self._refuse()
            space, place = space[read:], place + read

    def place(self, values: np.ndarray) -> int:
        """Where in the file an array that lies in it begins."""
        return values.ctypes.data - self._address

    def check(self) -> None:
        """Raise if the opened file has changed; another file under its name does not matter."""
        size, modified, changed = self._state()
        if (size, modified) != (self._size, self._modified):
            self._refuse()
        if changed != self._changed:
            # Its name or its permissions changed, or its date was set back.
            for (begin, end), checksum in self._checksums.items():
                self._compare(begin, end, checksum)
            self._changed = changed

    def _compare(self, begin: int, end: int, checksum: int) -> None:
        found, space = 0, np.empty(BLOCK_BYTES, np.uint8)
        for first in range(begin, end, BLOCK_BYTES):
            part = space[: min(BLOCK_BYTES, end - first)]
            self.read_into(part, first)
            found = zlib.crc32(part.data, found)
        if found != checksum:
            raise WaypostError(f"{self.path}: damaged: the checksum of bytes {begin} to {end} is wrong")

    def _state(self) -> tuple[int, int, int]:
        state = os.fstat(self._descriptor)
        return state.st_size, state.st_mtime_ns, state.st_ctime_ns

    def _refuse(self) -> NoReturn:
        raise changed(self.path)


def changed(path: Path) -> WaypostError:
    """What to raise where a file is no longer what it was."""
    return WaypostError(
        f"{path}: has changed while it was read; restore it and continue from the last checkpoint "
        "with --resume, or start again"
    )


class Piece(Protocol):
    """Consecutive rows of a column that lie in one file."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def file(self) -> File | None:
        """Where it lies, if not in memory."""

    def read(self, first: int, last: int) -> np.ndarray:
        """These rows, in memory of their own."""


class ArrayPiece:
    """Rows of an array, mapped or in memory."""

    def __init__(self, values: np.ndarray):
        self.values, self.shape, self.dtype = values, values.shape, values.dtype

    @property
    def file(self) -> File | None:
        return file_of(self.values)

    def read(self, first: int, last: int) -> np.ndarray:
        return copied(self.values[first:last])


class Stored(NDArrayOperatorsMixin):
    """A column of pieces one after another, read when it is looked at.

    Consecutive rows of it are such a column again. Anything else that can be done with an array is done on the numbers
    in memory.
    """

    def __init__(self, pieces: Sequence[Piece], rows: range | None = None):
        self._pieces = pieces
        self._begins = np.cumsum([0, *(piece.shape[0] for piece in pieces)])
        self._rows = range(int(self._begins[-1])) if rows is None else rows
        self.dtype = pieces[0].dtype
        self.shape = (len(self._rows), *pieces[0].shape[1:])
        self.ndim = len(self.shape)
        self.nbytes = math.prod(self.shape) * self.dtype.itemsize

    @property
    def files(self) -> set[File]:
        return {piece.file for piece in self._pieces if piece.file is not None}

    @property
    def pieces(self) -> list[Piece]:
        """What a longer column can be made of."""
        whole = len(self._rows) == self._begins[-1]
        return list(self._pieces) if whole else [ArrayPiece(self.read())]

    def read(self) -> np.ndarray:
        """All of it, in memory of its own."""
        start, stop, found = self._rows.start, self._rows.stop, []
        for piece, begin in zip(self._pieces, self._begins.tolist(), strict=False):
            first, last = max(start - begin, 0), min(stop - begin, piece.shape[0])
            if first < last:
                found.append(piece.read(first, last))
        if not found:
            return np.empty(self.shape, self.dtype)
        return found[0] if len(found) == 1 else np.concatenate(found)

    def setflags(self, write: bool) -> None:
        """It cannot be written to."""

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, which: Any) -> Any:
        if _in_a_row(which):
            return Stored(self._pieces, self._rows[which])
        if isinstance(which, int | np.integer):
            row = range(len(self))[which]
            return self[row : row + 1].read()[0]
        if isinstance(which, tuple) and which and _in_a_row(which[0]):
            return self[which[0]].read()[(slice(None), *which[1:])]
        if isinstance(which, np.ndarray) and which.ndim == 1 and which.dtype.kind in "biu":
            return self._gathered(which)
        return self.read()[which]

    def _gathered(self, which: np.ndarray) -> np.ndarray:
        """The rows with these numbers or marks; only what they lie in is read."""
        if which.dtype == np.bool_:
            if len(which) != len(self):
                raise IndexError(f"{len(self)} rows, {len(which)} marks")
            which = np.flatnonzero(which)
        if len(which) and not -len(self) <= which.min() <= which.max() < len(self):
            raise IndexError(f"there are {len(self)} rows; asked for {which.min()} to {which.max()}")
        rows = np.where(which < 0, which + len(self), which)
        order = np.argsort(rows, kind="stable")
        found = np.empty((len(rows), *self.shape[1:]), self.dtype)
        for group in np.split(order, np.flatnonzero(np.diff(rows[order] // GATHERED_ROWS)) + 1) if len(rows) else []:
            first, last = int(rows[group[0]]), int(rows[group[-1]]) + 1
            found[group] = self[first:last].read()[rows[group] - first]
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.read().astype(dtype or self.dtype, copy=False)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        inputs = tuple(each.read() if isinstance(each, Stored) else each for each in inputs)
        return getattr(ufunc, method)(*inputs, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"a column in files has no {name}")
        return getattr(self.read(), name)


def _in_a_row(which: Any) -> bool:
    return isinstance(which, slice) and which.step in (None, 1)


def joined(columns: Sequence[Any]) -> Any:
    """Columns one after another; if one of them lies in a file, they are read when they are looked at."""
    if not any(map(files_of, columns)):
        return np.concatenate(columns)
    pieces: list[Piece] = []
    for column in columns:
        pieces += column.pieces if isinstance(column, Stored) else [ArrayPiece(column)]
    return Stored(pieces)


def file_of(values: np.ndarray) -> FileMap | None:
    """The file that holds these numbers, if one does."""
    owner: Any = values
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return owner if isinstance(owner, FileMap) else None


def files_of(values: np.ndarray | Stored) -> set[File]:
    """The files these numbers lie in."""
    if isinstance(values, Stored):
        return values.files
    file = file_of(values)
    return set() if file is None else {file}


def in_memory(values: np.ndarray | Stored) -> np.ndarray:
    """The numbers, read if they lie in a file; what is in memory already is given as it is."""
    return copied(values) if isinstance(values, Stored) or file_of(values) is not None else values


def copied(values: np.ndarray | Stored) -> np.ndarray:
    """The numbers in memory of their own."""
    if isinstance(values, Stored):
        return values.read()
    file = file_of(values)
    if file is None:
        return np.array(values)
    if not values.flags.c_contiguous:
        raise AssertionError("only whole rows can be read from a file")
    held = np.empty(values.shape, values.dtype)
    file.read_into(held, file.place(values))
    return held


def blocks(values: np.ndarray, rows: int) -> Iterator[tuple[int, np.ndarray]]:
    """Blocks of consecutive rows in memory, each with the number of its first row."""
    for first in range(0, len(values), rows):
        yield first, in_memory(values[first : first + rows])
