"""HDF5 with one array per role: D4RL's files, Waypost's, or any other."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import h5py
import numpy as np

from waypost.data.columns import Fields
from waypost.data.dataset import Dataset
from waypost.data.formats.arrays import MARK, facts_of, readers, rows_of
from waypost.data.formats.sizes import LARGEST_FACTS, MOST_FIELDS, Claims, few_empty, few_fields
from waypost.data.pipeline import Pipeline
from waypost.errors import WaypostError
from waypost.files import replacing

ONLY_ITS_OWN = "only a file's own contents are read"
DEEPEST = 30
"""Groups within groups."""
SMALL_CHUNK = 1 << 17
"""Compressed bytes that unpack to so little that no check is needed."""


@contextmanager
def opened(path: Path, pipeline: Pipeline) -> Iterator[tuple[Fields, Any]]:
    """The arrays by their path in the file, and the facts if Waypost wrote it."""
    claims, arrays = Claims(path), dict[str, Any]()

    def note(name: str, entry: h5py.Dataset) -> None:
        arrays[name] = partial(_values, claims, name, entry)
        few_fields(len(arrays))

    with h5py.File(path, "r") as file:
        visit_arrays(file, path, note, 2 * MOST_FIELDS)
        yield arrays, _facts(file)


def visit_arrays(file: h5py.File, path: Path, visit: Callable[[str, h5py.Dataset], None], most: int) -> None:
    """Visit every array by its path in the file, each once, sorted by name.

    HDF5 can take a group, an array or its raw bytes from any other file that the reader may read. A hostile file could
    copy the contents of other files into the data. So this is refused, and only hard links are followed. At most
    `most` entries are allowed, since each takes time.
    """
    seen: set[Any] = set()
    left = most

    def enter(group: h5py.Group, prefix: str) -> None:
        nonlocal left
        left -= len(group)
        if left < 0 or prefix.count("/") > DEEPEST:
            raise WaypostError(f"{path}: has more than {most} entries, or groups nested without end")
        for name in sorted(group):
            link = group.get(name, getlink=True)
            if not isinstance(link, h5py.HardLink | h5py.SoftLink):
                raise WaypostError(f"{path}: {prefix + name!r} lies in another file; {ONLY_ITS_OWN}")
            entry = group[name] if isinstance(link, h5py.HardLink) else None
            address = None if entry is None else h5py.h5o.get_info(entry.id).addr
            if address in seen:
                continue
            if isinstance(entry, h5py.Group):
                seen.add(address)
                enter(entry, f"{prefix}{name}/")
            elif isinstance(entry, h5py.Dataset):
                seen.add(address)
                if entry.is_virtual or entry.external:
                    raise WaypostError(f"{path}: {prefix + name!r} takes its numbers from another file; {ONLY_ITS_OWN}")
                visit(prefix + name, entry)

    enter(file, "")


def claim(claims: Claims, name: str, entry: h5py.Dataset) -> None:
    """Refuse an array that is not what it claims, before it is read."""
    if entry.shape is None:
        raise ValueError(f"{name} is empty")
    claimed = _bytes(entry.shape, entry)
    few_empty(entry.shape, claimed)
    stored = int(entry.id.get_storage_size())
    if entry.chunks is not None:
        # Chunks are unpacked as a whole, and the last ones may extend beyond the array.
        chunk, extents = _bytes(entry.chunks, entry), zip(entry.shape, entry.chunks, strict=True)
        claimed = max(claimed, chunk if stored else 0)
        unpacked = chunk * int(np.prod([-(-extent // length) for extent, length in extents], dtype=object))
        if stored > 1.1 * unpacked + 4096:
            raise ValueError(f"{name} claims {unpacked} bytes and holds {stored}")
    claims.add(name, claimed, stored)
    if entry.chunks is not None and entry.compression == "gzip":
        _check_chunks(name, entry, chunk)


def _bytes(shape: tuple[int, ...], entry: h5py.Dataset) -> int:
    return int(np.prod(shape, dtype=object)) * entry.dtype.itemsize


def _check_chunks(name: str, entry: h5py.Dataset, size: int) -> None:
    """Refuse chunks that unpack to more than a chunk: HDF5 would allocate as much memory as that takes."""
    pipeline = entry.id.get_create_plist()
    kinds = [pipeline.get_filter(number)[0] for number in range(pipeline.get_nfilters())]
    if kinds.count(h5py.h5z.FILTER_DEFLATE) > 1:
        raise ValueError(f"{name} is compressed more than once")
    large: list[tuple[int, ...]] = []

    def note(chunk: Any) -> None:
        if chunk.size > SMALL_CHUNK:
            large.append(chunk.chunk_offset)

    entry.id.chunk_iter(note)
    for place in large:
        unpacker = zlib.decompressobj()
        unpacker.decompress(entry.id.read_direct_chunk(place)[1], size + 64)
        if unpacker.unconsumed_tail:
            raise ValueError(f"a chunk of {name} unpacks to more than the {size} bytes it claims")


def _values(claims: Claims, name: str, entry: h5py.Dataset) -> np.ndarray:
    claim(claims, name, entry)
    return np.asarray(entry[()])


def _facts(file: h5py.File) -> Any:
    if MARK not in file.attrs:
        return None
    attribute = file.attrs.get_id(MARK)
    if attribute.shape != () or attribute.get_storage_size() > LARGEST_FACTS:
        raise ValueError(f"its attribute {MARK} is not a text")
    return json.loads(file.attrs[MARK])


read, task = readers(opened)


class Unfailing:
    """A file that hides errors from HDF5: it crashes when it closes a file that it could not write.

    The first error is kept and raised by `check`; what is written after it is lost.
    """

    def __init__(self, file: IO[bytes]):
        self._file = file
        self._error: OSError | None = None

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def write(self, content: Any) -> int:
        self._try(self._write, memoryview(content))
        return len(content)

    def _write(self, content: memoryview) -> None:
        while content:
            content = content[self._file.write(content) :]

    def readinto(self, space: Any) -> int:
        try:
            return self._file.readinto(space)  # type: ignore[attr-defined]
        except OSError as error:
            self._error = self._error or error
            return 0

    read = readinto

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(place, whence)

    def tell(self) -> int:
        return self._file.tell()

    def truncate(self, size: int | None = None) -> int:
        self._try(self._file.truncate, size)
        return self.tell() if size is None else size

    def flush(self) -> None:
        self._try(self._file.flush)

    def _try(self, act: Any, *arguments: Any) -> None:
        if self._error is None:
            try:
                act(*arguments)
            except OSError as error:
                self._error = error


def write(dataset: Dataset, path: Path, progress: object = None) -> None:
    """D4RL's layout, so that other readers understand the file; with checksums, which HDF5 checks when it reads.

    Version 1.10 of the format has those of names, types and shapes; those of the numbers are asked for.
    """
    with replacing(path) as temporary, temporary.open("rb+", buffering=0) as stream:
        careful = Unfailing(stream)
        with h5py.File(careful, "w", libver=("v110", "v110")) as file:
            for name, values in rows_of(dataset).items():
                file.create_dataset(name, data=values, chunks=True, fletcher32=True)
            file.attrs[MARK] = json.dumps(facts_of(dataset))
        careful.check()
