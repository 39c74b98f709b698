"""Parquet files of ours that stay on the disk: a row group of a column is read when one of its rows is needed."""

from __future__ import annotations

import os
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet as pq

from waypost.data.dataset import Dataset
from waypost.data.formats.arrays import ROWS, complete, read_facts
from waypost.data.formats.sizes import Claims, few_fields
from waypost.data.formats.tables import bounds_in, facts_in, unpacked, values_of
from waypost.data.in_file import File, Stored, changed
from waypost.errors import DamagedFile, WaypostError
from waypost.files import expanded, reading

FLAGS = ("terminals", "timeouts", "next_valid")
HELD = ("rewards", *FLAGS)
"""One number per row: these are in memory from the beginning."""


class GroupFile:
    """An open Parquet file, and what it was like when it was opened."""

    def __init__(self, path: Path):
        self.path = path
        # An open file and no path: Arrow would go to the network for some.
        stream = path.open("rb")
        weakref.finalize(self, stream.close)
        self._descriptor = stream.fileno()
        self._state = self._now()
        self._one_at_a_time = threading.Lock()
        self._file = pq.ParquetFile(stream, page_checksum_verification=True)
        footer = self._file.metadata
        few_fields(footer.num_columns)
        sizes = unpacked(footer)
        self.size, claims = sum(sizes), Claims(path)
        claims.add("its table", self.size, claims.size, held=False)
        Claims(path).add("a row group", max(sizes, default=0), claims.size)
        self.schema = self._file.schema_arrow
        groups = range(footer.num_row_groups)
        self.begins = np.cumsum([0, *(footer.row_group(group).num_rows for group in groups)]).tolist()

    def check(self) -> None:
        if self._now() != self._state:
            raise changed(self.path)

    def read(self, column: str, first: int, last: int) -> np.ndarray:
        """These rows of a column."""
        pairs = enumerate(zip(self.begins[:-1], self.begins[1:], strict=True))
        groups = [group for group, (begin, end) in pairs if begin < last and end > first]
        try:
            with self._one_at_a_time:
                table = self._file.read_row_groups(groups, columns=[column], use_threads=False)
        except (OSError, pa.ArrowException) as error:
            self.check()
            reason = " ".join(str(error).split())[:200]
            raise DamagedFile(f"{self.path}: damaged or not a Parquet file ({reason})") from None
        values = values_of(table.column(column), column, str(self.path))
        begin = self.begins[groups[0]] if groups else 0
        return np.array(values[first - begin : last - begin])

    def _now(self) -> tuple[int, int]:
        state = os.fstat(self._descriptor)
        return state.st_size, state.st_mtime_ns


class GroupColumn:
    """A column of the file."""

    def __init__(self, file: GroupFile, column: str):
        self._file, self.column = file, column
        kind = file.schema.field(column).type
        wide = pa.types.is_fixed_size_list(kind)
        self.dtype = np.dtype((kind.value_type if wide else kind).to_pandas_dtype())
        self.shape = (file.begins[-1], *([kind.list_size] if wide else []))
        if self.dtype != (np.bool_ if column in FLAGS else np.float32) or wide == (column in HELD):
            raise refusal(file.path, f"its {column} hold {kind}")

    @property
    def file(self) -> File:
        return self._file

    def read(self, first: int, last: int) -> np.ndarray:
        return self._file.read(self.column, first, last)


def map_parquet(path: str | Path, name: str | None = None) -> Dataset:
    """The data of a Parquet file that Waypost wrote, left where they are on the disk and checked block by block."""
    path = expanded(path)
    with reading(path, "a Parquet file"):
        file, columns, facts = _opened(path)
        known = read_facts(facts)
        bounds = bounds_in(facts)
        complete(facts, {*columns, *bounds})
        stored: dict[str, Any] = {role: Stored([column]) for role, column in columns.items()}
        known |= {role: values.read() if role in HELD else values for role, values in stored.items()}
        file.check()
    return Dataset.from_arrays(**known, **bounds, name=name or str(path), copy=False)


def check_parquet(path: Path) -> int:
    """The bytes of the columns in memory, if `map_parquet` can take the file as far as its footer tells."""
    with reading(path, "a Parquet file"):
        return _opened(path)[0].size


def _opened(path: Path) -> tuple[GroupFile, dict[str, GroupColumn], Any]:
    file = GroupFile(path)
    facts = facts_in(file.schema)
    if facts is None:
        raise refusal(path, "it was not written by Waypost")
    present = [role for role in ROWS if role in file.schema.names]
    for role in ("observations", "next_observations", "terminals", "timeouts"):
        if role not in present:
            raise refusal(path, f"it has no {role}")
    return file, {role: GroupColumn(file, role) for role in present}, facts


def refusal(path: Path, reason: str) -> WaypostError:
    return WaypostError(f"{path}: cannot be streamed: {reason}; write it again with `waypost convert {path} OUT.npz`")
