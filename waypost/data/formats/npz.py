"""NumPy's .npz: ours, OGBench's, or anyone's with arrays of the usual names."""

from __future__ import annotations

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
from waypost.data.formats.arrays import MARK, facts_of, plausible, readers, rows_of
from waypost.files import replacing


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Fields, Any]]:
    """The arrays by name, and the facts if the file is one of ours."""
    with path.open("rb") as stream:
        _plausible(path, stream)
        stream.seek(0)
        with np.load(stream, allow_pickle=False) as file:
            arrays = {name: partial(file.__getitem__, name) for name in file.files}
            yield arrays, json.loads(str(file[MARK])) if MARK in file else None


read, task = readers(_opened)


def write(dataset: Dataset, path: Path, progress: object = None) -> None:
    """Not compressed, so that it loads fast and can be mapped into memory."""
    arrays: dict[str, Any] = {MARK: np.asarray(json.dumps(facts_of(dataset))), **rows_of(dataset)}
    with replacing(path) as temporary, temporary.open("wb") as stream:
        np.savez(stream, **arrays)


def _plausible(path: Path, stream: IO[bytes]) -> None:
    """Compare what each array's header claims with what the archive holds for it."""
    with zipfile.ZipFile(stream) as archive:
        for member in archive.infolist():
            if not member.filename.endswith(".npy"):
                continue
            with archive.open(member) as entry:
                shape, _, dtype = read_header(entry)
                claimed = int(np.prod(shape, dtype=object)) * dtype.itemsize
                if dtype.hasobject:
                    raise ValueError(f"{member.filename} holds Python objects")
                if claimed + entry.tell() != member.file_size:
                    raise ValueError(f"{member.filename} claims {claimed} bytes and holds {member.file_size}")
            plausible(path, member.filename, claimed, member.compress_size)


def read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether it is stored by columns, and type of an array."""
    version = npy.read_magic(stream)
    return (npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0)(stream)
