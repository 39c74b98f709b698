"""Tables: Parquet and CSV files of people's own logs, pandas and pyarrow tables in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from waypost.data.columns import Columns, build
from waypost.data.dataset import Dataset
from waypost.data.formats.arrays import BOUNDS, ROWS, facts_of, known_count, read_facts, rows_of, task_of
from waypost.data.formats.reading import plausible, reading
from waypost.errors import WaypostError
from waypost.files import replacing

MARK = b"waypost"
ROWS_PER_GROUP = 1 << 17


class _Fields(Mapping[str, np.ndarray]):
    """The columns of a table as arrays, made when asked for; a column of lists of one length becomes a matrix."""

    def __init__(self, table: Any, name: str):
        self.table, self.name = table, name

    def __getitem__(self, field: str) -> np.ndarray:
        import pyarrow as pa

        column = self.table.column(field)
        kind = column.type
        if pa.types.is_dictionary(kind):
            column, kind = column.cast(kind.value_type), kind.value_type
        if _is_list(kind):
            return self._matrix(field, column)
        if pa.types.is_null(kind):
            return np.full(len(column), np.nan)
        if pa.types.is_decimal(kind):
            column = column.cast(pa.float64())
        if pa.types.is_boolean(kind) and column.null_count:
            column = column.cast(pa.float32())
        return np.asarray(column.to_numpy())

    def _matrix(self, field: str, column: Any) -> np.ndarray:
        import pyarrow as pa
        import pyarrow.compute as pc

        if column.null_count:
            raise WaypostError(f"{self.name}: {field!r} has no value in {column.null_count} rows")
        lengths = pc.unique(pc.list_value_length(column)).to_pylist()
        if len(lengths) > 1:
            raise WaypostError(f"{self.name}: the lists in {field!r} have different lengths {sorted(lengths)[:5]}")
        values = column.combine_chunks()
        flat = values.flatten() if not isinstance(values, pa.ChunkedArray) else pa.array([], column.type.value_type)
        if _is_list(flat.type):
            raise WaypostError(f"{self.name}: {field!r} holds lists of lists; flatten each row to one list of numbers")
        return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(len(column), lengths[0] if lengths else 0)

    def whole(self, field: str) -> bool:
        """Whether a column holds integers or truth values, whatever NumPy makes of its empty cells."""
        import pyarrow as pa

        kind = self.table.schema.field(field).type
        kind = kind.value_type if _is_list(kind) or pa.types.is_dictionary(kind) else kind
        return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))

    def __contains__(self, name: object) -> bool:
        return name in self.table.column_names  # without reading it

    def __iter__(self) -> Iterator[str]:
        return iter(self.table.column_names)

    def __len__(self) -> int:
        return int(self.table.num_columns)


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def from_table(table: Any, columns: Columns, name: str) -> Dataset:
    """A Dataset of a pyarrow table."""
    names = table.column_names
    if len(set(names)) < len(names):
        twice = sorted({each for each in names if names.count(each) > 1})
        raise WaypostError(f"{name}: more than one column is called {twice[0]!r}; rename them")
    fields = _Fields(table, name)
    record = (table.schema.metadata or {}).get(MARK)
    if record is None or columns.roles:
        return build(fields, columns, name, **known_count(record, columns))
    facts = json.loads(record)
    bounds: dict[str, Any] = {
        bound: np.asarray(facts[bound], np.float32) for bound in BOUNDS if facts.get(bound) is not None
    }
    rows: dict[str, Any] = {role: fields[role] for role in ROWS if role in fields}
    return Dataset.from_arrays(**rows, **bounds, **read_facts(facts), name=name, finite=False, copy=False)


def read_parquet(path: Path, columns: Columns) -> Dataset:
    import pyarrow.parquet as pq

    with reading(path, "a Parquet file"), pq.ParquetFile(path) as file:
        # What a column unpacks to is known from the footer.
        size = sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
        plausible(path, "its table", size, path.stat().st_size)
        return from_table(file.read(), columns, str(path))


def task(path: Path) -> str | None:
    import pyarrow.parquet as pq

    with reading(path, "a Parquet file"):
        record = (pq.read_schema(path).metadata or {}).get(MARK)
        return None if record is None else task_of(json.loads(record))


def read_csv(path: Path, columns: Columns) -> Dataset:
    import pyarrow.csv as csv

    with reading(path, "a CSV file with a header line"):
        plausible(path, "its table", 2 * path.stat().st_size, path.stat().st_size)
        return from_table(csv.read_csv(path), columns, str(path))


def write_parquet(dataset: Dataset, path: Path, progress: object = None) -> None:
    """States and actions as lists of fixed length, so that they stay one column each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = rows_of(dataset)
    facts = facts_of(dataset) | {name: arrays.pop(name).tolist() for name in BOUNDS if name in arrays}
    columns = {}
    for name, values in arrays.items():
        flat = pa.array(values.reshape(-1))
        columns[name] = pa.FixedSizeListArray.from_arrays(flat, values.shape[1]) if values.ndim == 2 else flat
    table = pa.table(columns).replace_schema_metadata({MARK: json.dumps(facts)})
    with replacing(path) as temporary:
        pq.write_table(table, temporary, row_group_size=ROWS_PER_GROUP)
