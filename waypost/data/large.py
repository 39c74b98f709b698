"""Whether data are held in memory or streamed: the memory they need against what is free."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from waypost.data.dataset import Dataset
from waypost.data.formats.npz import archive
from waypost.data.mapped import is_mapped, map_npz, mappable
from waypost.data.pipeline import Pipeline
from waypost.data.roles import Columns
from waypost.data.sources import load
from waypost.errors import WaypostError
from waypost.files import expanded
from waypost.resources import available_memory
from waypost.types import Count

Choice = Literal["auto", "always", "never"]
"""Whether data are streamed from the disk instead of being held in memory; auto: if they would not fit."""

MEMORY_SHARE = 0.25
"""Data are mapped from here on: reading, checking and scaling a set in memory takes more than three times its size."""
DEVICE_SHARE = 0.8
"""Data are streamed from here on: the rest of a device's memory is for the networks."""


def obtain(
    source: str | Path | Dataset,
    columns: Columns,
    choice: Choice,
    free_on_device: Callable[[], int | None],
    progress: Count | None = None,
    pipeline: Pipeline | None = None,
) -> tuple[Dataset, bool]:
    """The data, and whether they are to be streamed.

    `free_on_device` is asked for the free bytes of a device with its own memory, after the data are loaded.
    """
    if isinstance(source, Dataset):
        name, need, mapping = source.name, size(source), is_mapped(source.observations)
    else:
        path = expanded(source)
        as_it_is = not columns.roles and (pipeline is None or pipeline.plain)
        name, need, mapping = str(source), stored_size(path), as_it_is and mappable(path)
    free = available_memory()
    if mapping and (choice == "always" or (choice == "auto" and need > MEMORY_SHARE * free)):
        return source if isinstance(source, Dataset) else columns.declared(map_npz(path)), True
    held = isinstance(source, Dataset) and not mapping
    if need > free and not held:
        way_out = "use --stream auto" if mapping else "make it an .npz that can be streamed: see docs/large-data.md"
        raise WaypostError(f"{name}: needs {need / 1e6:.0f} MB of memory, {free / 1e6:.0f} MB are free; {way_out}")
    dataset = source if isinstance(source, Dataset) else load(source, columns, progress, pipeline=pipeline)
    if choice != "auto":
        return dataset, choice == "always"
    on_device = free_on_device()
    return dataset, on_device is not None and size(dataset) > DEVICE_SHARE * on_device


def size(dataset: Dataset) -> int:
    """Bytes of all columns."""
    return sum(values.nbytes for values in dataset.columns.values())


def stored_size(path: Path) -> int:
    """Bytes of a file's arrays, as far as known without reading them; 0 for anything else."""
    if not path.is_file():
        return 0
    try:
        with path.open("rb") as stream, archive(stream) as entries:
            return sum(entry.file_size for entry in entries.infolist())
    except (zipfile.BadZipFile, RuntimeError, ValueError, OSError):
        return path.stat().st_size
