"""Whether data are held in memory or streamed: the memory they need against what is free."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from waypost.data.dataset import Dataset
from waypost.data.in_place import in_place, refusal, stored_size
from waypost.data.mapped import is_mapped
from waypost.data.pipeline import Pipeline
from waypost.data.roles import Columns
from waypost.data.sources import load, parts
from waypost.errors import WaypostError
from waypost.resources import available_memory
from waypost.types import Count

Choice = Literal["auto", "always", "never"]
"""Whether data are streamed from the disk instead of being held in memory; auto: if they would not fit."""

MEMORY_SHARE = 0.25
"""Data are mapped from here on: reading, checking and scaling a set in memory takes more than three times its size."""
OTHERWISE = "its columns are not used as they are"
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
    names, need, refused = _looked_at(source, columns, pipeline)
    name, free = source.name if isinstance(source, Dataset) else str(source), available_memory()
    if refused is None and (choice == "always" or (choice == "auto" and need > MEMORY_SHARE * free)):
        return source if isinstance(source, Dataset) else columns.declared(in_place(names, name)), True
    if need > free and not (isinstance(source, Dataset) and refused):
        way_out = "use --stream auto"
        if refused:
            # Of many parts, one may be the reason.
            one = f" ({refused})" if len(names) > 1 else ""
            way_out = f"make it an .npz that can be streamed: see docs/large-data.md{one}"
        raise WaypostError(f"{name}: needs {need / 1e6:.0f} MB of memory, {free / 1e6:.0f} MB are free; {way_out}")
    dataset = source if isinstance(source, Dataset) else load(source, columns, progress, pipeline=pipeline)
    if choice != "auto":
        return dataset, choice == "always"
    on_device = free_on_device()
    return dataset, on_device is not None and size(dataset) > DEVICE_SHARE * on_device


def stays_in_files(source: str | Path, columns: Columns, choice: Choice, pipeline: Pipeline | None = None) -> bool:
    """Whether `obtain` leaves the rows of a source in its files, whatever device learns from them."""
    _, need, refused = _looked_at(source, columns, pipeline)
    return refused is None and (choice == "always" or (choice == "auto" and need > MEMORY_SHARE * available_memory()))


def _looked_at(
    source: str | Path | Dataset, columns: Columns, pipeline: Pipeline | None
) -> tuple[list[str], int, str | None]:
    """The files of a source, the bytes its rows take in memory, and why they cannot stay where they are, if so."""
    if isinstance(source, Dataset):
        return [], size(source), None if is_mapped(source.observations) else "in memory"
    names = parts(source)
    as_it_is = not columns.roles and (pipeline is None or pipeline.plain)
    refused = next(filter(None, map(refusal, names)), None) if as_it_is else OTHERWISE
    return names, sum(map(stored_size, names)), refused


def size(dataset: Dataset) -> int:
    """Bytes of all columns."""
    return sum(values.nbytes for values in dataset.columns.values())
