"""NumPy's .npz: written by Waypost, OGBench's, or any with arrays of the usual names."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from waypost.data.columns import Fields
from waypost.data.dataset import Dataset
from waypost.data.formats.arrays import MARK, facts_of, readers, rows_of
from waypost.data.formats.sizes import LARGEST_FACTS, MOST_FIELDS, Claims, few_empty, few_fields
from waypost.data.pipeline import Pipeline
from waypost.files import replacing

LONGEST_HEADER = 1 << 14
"""Bytes of an array's type and shape."""
LARGEST_CONTENTS = 400 * MOST_FIELDS
"""Bytes of an archive's table of contents."""
PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What NumPy writes; other compression can ask for any amount of memory."""


@contextmanager
def opened(path: Path, pipeline: Pipeline) -> Iterator[tuple[Fields, Any]]:
    """The arrays by name, and the facts if Waypost wrote the file."""
    claims = Claims(path)
    with path.open("rb") as stream, archive(stream) as entries:
        found = [entry for entry in entries.infolist() if entry.filename.endswith(".npy")]
        arrays = {entry.filename.removesuffix(".npy"): partial(_values, claims, entries, entry) for entry in found}
        yield arrays, json.loads(str(small(entries, MARK))) if MARK in arrays else None


def archive(stream: IO[bytes]) -> zipfile.ZipFile:
    """The archive of an .npz, if its table of contents has a reasonable size: every entry takes time and memory."""
    # Python's own reading of the last record; another way of reading it could find another record.
    last = zipfile._EndRecData(stream)  # type: ignore[attr-defined]
    if last is not None and last[zipfile._ECD_SIZE] > LARGEST_CONTENTS:  # type: ignore[attr-defined]
        raise ValueError(f"a table of contents of {last[zipfile._ECD_SIZE]} bytes")  # type: ignore[attr-defined]
    found = zipfile.ZipFile(stream)
    few_fields(len(found.infolist()))
    return found


def small(entries: zipfile.ZipFile, name: str) -> np.ndarray:
    """A small array of a file written by Waypost."""
    entry = entries.getinfo(f"{name}.npy")
    if entry.file_size > LARGEST_FACTS:
        raise ValueError(f"{name} claims {entry.file_size} bytes")
    return npy.read_array(io.BytesIO(entries.read(entry)), allow_pickle=False)


def read_header(content: bytes) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """Shape, whether it is stored in Fortran order, type, and where the numbers begin, from an array's first bytes."""
    stream = io.BytesIO(content)
    version = npy.read_magic(stream)
    header = (npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0)(stream)
    return *header, stream.tell()


def _values(claims: Claims, entries: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    """An array, after comparing what its header claims with what the archive holds for it."""
    if entry.compress_type not in PACKED:
        raise ValueError(f"{entry.filename} is compressed in a way that NumPy does not use")
    with entries.open(entry) as stream:
        shape, _, dtype, begin = read_header(stream.read(LONGEST_HEADER))
    claimed = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if dtype.hasobject:
        raise ValueError(f"{entry.filename} holds Python objects")
    if claimed + begin != entry.file_size:
        raise ValueError(f"{entry.filename} claims {claimed} bytes and holds {entry.file_size}")
    few_empty(shape, claimed)
    claims.add(entry.filename, claimed, entry.compress_size)
    with entries.open(entry) as stream:
        values = npy.read_array(stream, allow_pickle=False)
        stream.read(1)  # the checksum is compared at the end
    return values


read, task = readers(opened)


def write(dataset: Dataset, path: Path, progress: object = None) -> None:
    """Not compressed, so that it loads fast and can be mapped into memory."""
    arrays: dict[str, Any] = {MARK: np.asarray(json.dumps(facts_of(dataset))), **rows_of(dataset)}
    with replacing(path) as temporary, temporary.open("wb") as stream:
        np.savez(stream, **arrays)
