"""HDF5 with one array per role: D4RL's files, ours, or anyone's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from waypost.data.columns import Fields
from waypost.data.dataset import Dataset
from waypost.data.formats.arrays import MARK, facts_of, plausible, readers, rows_of
from waypost.files import replacing


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Fields, Any]]:
    """The arrays by their path in the file, and the facts if it is one of ours."""
    with h5py.File(path, "r") as file:
        arrays: dict[str, Any] = {}

        def visit(name: str, entry: Any) -> None:
            if isinstance(entry, h5py.Dataset):
                arrays[name] = partial(_values, path, name, entry)

        file.visititems(visit)
        facts = file.attrs.get(MARK)
        yield arrays, None if facts is None else json.loads(facts)


def _values(path: Path, name: str, entry: Any) -> np.ndarray:
    if entry.shape is None:
        raise ValueError(f"{name} is empty")
    # Small arrays may lie in the header, which counts as no storage.
    stored = max(int(entry.id.get_storage_size()), 4096)
    plausible(path, name, int(np.prod(entry.shape, dtype=object)) * entry.dtype.itemsize, stored)
    return np.asarray(entry[()])


read, task = readers(_opened)


def write(dataset: Dataset, path: Path, progress: object = None) -> None:
    """D4RL's layout, so that its readers understand the file too."""
    with replacing(path) as temporary, h5py.File(temporary, "w") as file:
        for name, values in rows_of(dataset).items():
            file.create_dataset(name, data=values)
        file.attrs[MARK] = json.dumps(facts_of(dataset))
