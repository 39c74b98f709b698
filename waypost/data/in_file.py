"""Numbers that lie in a file: mapped, so that they have an address, but read by the system call.

If a mapped file is cut short, touching the lost part kills the process with a signal. A short read is an ordinary
error. So the map only says where the numbers are, and all but a few of them are read.
"""

from __future__ import annotations

import mmap
import os
import weakref
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np

from waypost.errors import WaypostError

BLOCK_BYTES = 1 << 24
"""Bytes looked at together."""


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

    def _refuse(self) -> None:
        raise WaypostError(
            f"{self.path}: has changed while it was read; restore it and continue from the last checkpoint "
            "with --resume, or start again"
        )


def file_of(values: np.ndarray) -> FileMap | None:
    """The file that holds these numbers, if one does."""
    owner: Any = values
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return owner if isinstance(owner, FileMap) else None


def in_memory(values: np.ndarray) -> np.ndarray:
    """The numbers in memory: read if they are in a file, as they are otherwise."""
    return values if file_of(values) is None else copied(values)


def copied(values: np.ndarray) -> np.ndarray:
    """A copy of the numbers in memory."""
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
