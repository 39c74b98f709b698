"""HDF5 with one array per role: D4RL's files, ours, or anyone's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from waypost.data.columns import Columns
from waypost.data.dataset import Dataset
from waypost.data.formats.arrays import facts_of, from_arrays, rows_of, task_of
from waypost.data.formats.reading import plausible, reading
from waypost.files import replacing

MARK = "waypost"


class _Arrays(Mapping[str, np.ndarray]):
    """The arrays of a file by path, read when asked for."""

    def __init__(self, path: Path, file: Any):
        import h5py

        self.path = path
        self.found: dict[str, Any] = {}

        def visit(name: str, entry: Any) -> None:
            if isinstance(entry, h5py.Dataset):
                self.found[name] = entry

        file.visititems(visit)

    def __getitem__(self, name: str) -> np.ndarray:
        entry = self.found[name]
        if entry.shape is None:
            raise ValueError(f"{name} is empty")
        plausible(self.path, name, int(np.prod(entry.shape, dtype=object)) * entry.dtype.itemsize, self._stored(entry))
        return np.asarray(entry[()])

    def _stored(self, entry: Any) -> int:
        # Small arrays may lie in the header, which counts as no storage.
        return max(int(entry.id.get_storage_size()), 4096)

    def __contains__(self, name: object) -> bool:
        return name in self.found  # without reading it

    def __iter__(self) -> Iterator[str]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)


def read(path: Path, columns: Columns) -> Dataset:
    import h5py

    with reading(path, "an HDF5 file"), h5py.File(path, "r") as file:
        facts = file.attrs.get(MARK)
        return from_arrays(_Arrays(path, file), columns, str(path), None if facts is None else json.loads(facts))


def task(path: Path) -> str | None:
    import h5py

    with reading(path, "an HDF5 file"), h5py.File(path, "r") as file:
        facts = file.attrs.get(MARK)
        return None if facts is None else task_of(json.loads(facts))


def write(dataset: Dataset, path: Path, progress: object = None) -> None:
    """D4RL's layout, so that its readers understand the file too."""
    import h5py

    with replacing(path) as temporary, h5py.File(temporary, "w") as file:
        for name, values in rows_of(dataset).items():
            file.create_dataset(name, data=values)
        file.attrs[MARK] = json.dumps(facts_of(dataset))
