"""The formats of data: one module each, imported when it is needed."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from waypost.data.columns import Fields
from waypost.data.dataset import Dataset
from waypost.data.names import PACKED
from waypost.data.pipeline import Pipeline
from waypost.data.roles import Columns
from waypost.data.table import Reward
from waypost.errors import WaypostError
from waypost.files import parsing, reading
from waypost.resources import require
from waypost.types import Count


@dataclass(frozen=True)
class Format:
    """How data of one kind are read and written."""

    title: str
    kind: str
    """What a file is, in words."""
    suffixes: tuple[str, ...]
    module: str
    """The module in this folder, with `read`, `task` and `write`; the extra it needs has the same name."""
    needs: str | None = None
    """The package it needs."""
    writes: bool = True

    def code(self, purpose: str) -> Any:
        """The module, or an error that names the missing extra and the purpose."""
        if self.needs is not None:
            require(self.needs, self.module, f"{purpose} {self.title}")
        return import_module(f"{__name__}.{self.module}")

    def read(
        self, path: Path, columns: Columns, pipeline: Pipeline | None = None, reward: Reward | None = None
    ) -> Dataset:
        """The data, with discrete or continuous actions as `columns` say; they may hold NaN."""
        code = self.code(f"{path}: reading")
        with self._reading(path):
            return columns.declared(code.read(path, columns, pipeline or Pipeline(), reward))

    @contextmanager
    def fields(self, path: Path, pipeline: Pipeline) -> Iterator[Fields]:
        """A function for the array of each field of a file; empty for formats with fixed roles."""
        code = self.code(f"{path}: reading")
        with self._reading(path):
            if not hasattr(code, "opened"):
                yield {}
                return
            with code.opened(path, pipeline) as (fields, _):
                yield fields

    def task(self, path: Path) -> str | None:
        """The task of the rewards, without reading the rows."""
        code = self.code(f"{path}: reading")
        with self._reading(path):
            return code.task(path)

    def _reading(self, path: Path) -> AbstractContextManager[None]:
        return reading(path, self.kind) if self.suffixes else parsing(path, self.kind)

    def write(self, dataset: Dataset, path: Path, progress: Count | None = None) -> None:
        self.code(f"{path}: writing").write(dataset, path, progress)


FILES = (
    Format("npz", "an .npz file", (".npz",), "npz"),
    Format("HDF5", "an HDF5 file", (".hdf5", ".h5"), "hdf5", "h5py"),
    Format("Parquet", "a Parquet file", (".parquet",), "tables", "pyarrow"),
    Format(
        "CSV",
        "a CSV file with a header line",
        (".csv", ".tsv", ".csv.gz", ".csv.zst", ".tsv.gz", ".tsv.zst"),
        "tables",
        "pyarrow",
        writes=False,
    ),
)
BY_SUFFIX = {suffix: each for each in FILES for suffix in each.suffixes}
SUFFIXES = ", ".join(BY_SUFFIX)
TABLE = Format("a table", "a table", (), "tables", "pyarrow")
"""Tables of pandas or pyarrow, in memory."""
MINARI = Format("Minari", "a Minari data set", (), "minari", "minari")
"""A folder, not a file."""


def suffix_of(path: Path) -> str:
    """The suffix of a file, with the one before .gz and .zst."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    return "".join(suffixes) if suffixes and suffixes[-1] in PACKED else path.suffix.lower()


def minari_folder(path: Path) -> Path | None:
    """The folder of a Minari set's files: the one named, or `data` inside it; None if neither is one."""
    return next((folder for folder in (path / "data", path) if (folder / "metadata.json").is_file()), None)


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Errors of the disk name the path that was asked for, not a temporary one."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno or errno.EIO, error.strerror or str(error), str(path)) from None


def inside(folder: Path, entry: Path) -> Path:
    """The entry of a folder of data; a link that leads out of it is refused."""
    if not entry.resolve().is_relative_to(folder.resolve()):
        raise WaypostError(f"{entry}: is a link that leads out of the folder; copy the file itself")
    return entry
