"""The file formats data are read from and written to, one module each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from waypost.data.columns import Columns
from waypost.data.dataset import Dataset
from waypost.data.formats import hdf5, minari, npz, tables
from waypost.types import Count

Reader = Callable[[Path, Columns], Dataset]
Writer = Callable[[Dataset, Path, Count | None], None]


@dataclass(frozen=True)
class Format:
    """How files of one kind are read and written; without a writer they can only be read."""

    title: str
    suffixes: tuple[str, ...]
    read: Reader
    write: Writer | None
    task: Callable[[Path], str | None]
    """The task the rewards belong to, without reading the rows."""


FORMATS = (
    Format("npz", (".npz",), npz.read, npz.write, npz.task),
    Format("HDF5", (".hdf5", ".h5"), hdf5.read, hdf5.write, hdf5.task),
    Format("Parquet", (".parquet",), tables.read_parquet, tables.write_parquet, tables.task),
    Format("CSV", (".csv",), tables.read_csv, None, lambda _: None),
    Format("Minari", (), minari.read, minari.write, minari.task),
)
"""Every format; Minari's is a folder."""

BY_SUFFIX = {suffix: each for each in FORMATS for suffix in each.suffixes}
