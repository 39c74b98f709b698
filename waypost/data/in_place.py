"""Data that stay in their files, one or several: mapped, or read when they are needed."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np

from waypost.data.dataset import Dataset
from waypost.data.formats import BY_SUFFIX, suffix_of
from waypost.data.formats.npz import archive
from waypost.data.in_file import in_memory
from waypost.data.joining import concatenate
from waypost.data.mapped import check_npz, map_npz
from waypost.data.numbered import check_agreement, is_set, widths
from waypost.data.sources import recipe_of
from waypost.errors import WaypostError
from waypost.files import expanded
from waypost.resources import open_files

DESCRIPTORS = 2
"""What the system counts as open files for each file that is mapped."""


def refusal(name: str) -> str | None:
    """Why the rows of a source cannot stay where they are; None if they can, as far as the file's contents tell."""
    path = expanded(name)
    if recipe_of(name) is not None or not path.is_file():
        return f"{name}: is no file"
    try:
        if suffix_of(path) == ".npz":
            check_npz(path)
        elif suffix_of(path) == ".parquet":
            _row_groups(path).check_parquet(path)
        else:
            return f"{path}: cannot be streamed; write it again with `waypost convert {path} OUT.npz`"
    except WaypostError as error:
        return str(error)
    return None


def stored_size(name: str) -> int:
    """Bytes of a file's arrays in memory, as far as known without reading them; 0 for anything else."""
    path = expanded(name)
    if recipe_of(name) is not None or not path.is_file():
        return 0
    try:
        if suffix_of(path) == ".parquet":
            return _row_groups(path).check_parquet(path)
        with path.open("rb") as stream, archive(stream) as entries:
            return sum(entry.file_size for entry in entries.infolist())
    except (WaypostError, zipfile.BadZipFile, RuntimeError, ValueError, OSError):
        return path.stat().st_size


def in_place(names: Sequence[str], source: str) -> Dataset:
    """The data of files for which there is no `refusal`, one after another; only flags and rewards are in memory."""
    most = open_files() // DESCRIPTORS
    if len(names) > most:
        raise WaypostError(
            f"{source}: {len(names)} parts, about {most} can be open at once (ulimit -n); make larger ones with "
            f"`waypost convert {source} NEW --parts {max(1, most // 2)}`"
        )
    found: list[Dataset] = []
    for name in names:
        path = expanded(name)
        found.append(map_npz(path) if suffix_of(path) == ".npz" else _row_groups(path).map_parquet(path))
        if found[-1].columns.keys() != found[0].columns.keys():
            raise WaypostError(
                f"{name}: has {widths(found[-1])}; {names[0]} has {widths(found[0])}; what is streamed must agree"
            )
    if len(found) == 1:
        return found[0]
    if is_set(names):
        check_agreement(found)
        return concatenate(found, source)
    cut = sum(_looks_cut(one, other) for one, other in pairwise(found))
    whole = concatenate(found, source)
    if not cut:
        return whole
    note = f"{cut} of {len(found)} parts begin where the one before ended: nothing is learned across these places"
    return replace(whole, notes=(*whole.notes, note))


def _looks_cut(one: Dataset, other: Dataset) -> bool:
    last, first = in_memory(one.next_observations[-1:]), in_memory(other.observations[:1])
    return not one.goes_on and not one.terminals[-1] and bool(one.next_valid[-1]) and np.array_equal(last, first)


def _row_groups(path: Path) -> ModuleType:
    """What reads Parquet files row group by row group, or an error that says which extra is missing."""
    BY_SUFFIX[".parquet"].code(f"{path}: reading")
    return import_module("waypost.data.formats.row_groups")
