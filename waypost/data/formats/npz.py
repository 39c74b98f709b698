"""NumPy's .npz: ours, OGBench's, or anyone's with arrays of the usual names."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from waypost.data.columns import Columns
from waypost.data.dataset import Dataset
from waypost.data.formats.arrays import facts_of, from_arrays, rows_of, task_of
from waypost.data.formats.reading import plausible, reading
from waypost.files import replacing

MARK = "waypost"
"""The array whose presence says that the file is one of ours; it holds the facts as JSON."""


def read(path: Path, columns: Columns) -> Dataset:
    with _opened(path) as file:
        return from_arrays(file, columns, str(path), json.loads(str(file[MARK])) if MARK in file else None)


def task(path: Path) -> str | None:
    with _opened(path) as file:
        return task_of(json.loads(str(file[MARK]))) if MARK in file else None


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    with reading(path, "an .npz file"), path.open("rb") as stream:
        _plausible(path, stream)
        stream.seek(0)
        with np.load(stream, allow_pickle=False) as file:
            yield file


def write(dataset: Dataset, path: Path, progress: object = None) -> None:
    """Not packed, so that it loads fast and can be mapped into memory."""
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
                version = npy.read_magic(entry)
                header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                shape, _, dtype = header(entry)
                claimed = int(np.prod(shape, dtype=object)) * dtype.itemsize
                if dtype.hasobject:
                    raise ValueError(f"{member.filename} holds Python objects")
                if claimed + entry.tell() != member.file_size:
                    raise ValueError(f"{member.filename} claims {claimed} bytes and holds {member.file_size}")
            plausible(path, member.filename, claimed, member.compress_size)
