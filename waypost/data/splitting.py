"""Data written as a folder of numbered parts. Each part appears when it is complete; the same command goes on."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from waypost.data.dataset import Dataset
from waypost.data.formats import BY_SUFFIX, minari_folder, suffix_of, writing
from waypost.data.formats.arrays import facts_of
from waypost.data.in_file import copied
from waypost.data.numbered import MOST_PARTS, is_part, part_name
from waypost.data.roles import Columns
from waypost.data.stream import evenly
from waypost.errors import WaypostError
from waypost.files import discard_partials, expanded, make_folder, remove_folders
from waypost.locks import alone
from waypost.types import Count

PartFormat = Literal["npz", "parquet"]


class Splitter:
    """Writes data to a folder in `parts` parts, or in parts of about `rows` rows."""

    def __init__(
        self, folder: str | Path, parts: int | None, rows: int | None, kind: PartFormat = "npz", overwrite: bool = False
    ):
        """Mistakes are raised here, before any work is done."""
        self.folder, self.parts, self.rows, self.overwrite = expanded(folder), parts, rows, overwrite
        self.suffix = f".{kind}"
        if parts is not None and rows is not None:
            raise WaypostError("give the number of parts or the rows of a part, not both")
        for option, value in (("parts", parts), ("part_rows", rows)):
            if value is not None and value < 1:
                raise WaypostError(f"{option} must be 1 or more, got {value}")
        if parts is not None and parts > MOST_PARTS:
            raise WaypostError(f"parts must be {MOST_PARTS} or fewer, got {parts}")
        if self.folder.exists() and not self.folder.is_dir():
            raise WaypostError(f"{self.folder}: is a file; parts go into a folder")
        if suffix_of(self.folder) in BY_SUFFIX and not self.folder.exists():
            raise WaypostError(f"{self.folder}: parts go into a folder; leave the suffix out")
        if minari_folder(self.folder):
            raise WaypostError(f"{self.folder}: holds a Minari data set; choose another folder")
        others = [path for path in self._data() if not is_part(path)]
        if others:
            raise WaypostError(f"{others[0]}: is there already and is no part; choose another folder")
        BY_SUFFIX[self.suffix].code(f"{self.folder}: writing")

    def holds(self, file: Path) -> bool:
        """Whether a file lies in the folder."""
        return self.folder.is_dir() and file.is_file() and file.parent.samefile(self.folder)

    def _data(self) -> list[Path]:
        """The files of data in the folder."""
        inside = sorted(self.folder.iterdir()) if self.folder.is_dir() else []
        return [path for path in inside if suffix_of(path) in BY_SUFFIX and not path.name.startswith(".")]

    def write(self, dataset: Dataset, progress: Count | None = None) -> None:
        """Write the parts that are not there yet; those that are must hold the same rows."""
        cuts = self._cuts(dataset)
        names = [part_name(number, len(cuts) - 1, self.suffix) for number in range(len(cuts) - 1)]
        with writing(self.folder), alone(self.folder):
            made = make_folder(self.folder)
            try:
                self._clear(names)
                for name, (first, last) in zip(names, pairwise(cuts.tolist()), strict=True):
                    self._write_part(_rows(dataset, first, last), self.folder / name)
                    if progress is not None:
                        progress(last, len(dataset))
            except BaseException:
                remove_folders(made)
                raise

    def _clear(self, names: list[str]) -> None:
        """Have nothing in the folder but these parts, and none of them with `overwrite`."""
        discard_partials(self.folder)
        for path in self._data():
            if self.overwrite:
                path.unlink()
            elif path.name not in names:
                raise WaypostError(f"{path}: is a part of other data; choose another folder or --overwrite")

    def _cuts(self, dataset: Dataset) -> NDArray[np.int64]:
        parts = self.parts or math.ceil(len(dataset) / (self.rows or len(dataset)))
        if parts > min(len(dataset), MOST_PARTS):
            raise WaypostError(f"{dataset.name}: {len(dataset)} rows cannot be {parts} parts; ask for fewer")
        return evenly(dataset.ends, parts)

    def _write_part(self, part: Dataset, path: Path) -> None:
        form = BY_SUFFIX[self.suffix]
        if not path.exists():
            form.write(part, path)
            return
        there = form.read(path, Columns())
        if (there.fingerprint(), facts_of(there)) != (part.fingerprint(), facts_of(part)):
            raise WaypostError(f"{path}: is there already and holds other rows; choose another folder or --overwrite")


def _rows(dataset: Dataset, first: int, last: int) -> Dataset:
    """Some rows, in memory; where they end inside an episode they say so."""
    columns: dict[str, Any] = {name: copied(values[first:last]) for name, values in dataset.columns.items()}
    columns["ends"][-1] = True
    return replace(dataset, **columns, parts=(), goes_on=not dataset.ends[last - 1])
