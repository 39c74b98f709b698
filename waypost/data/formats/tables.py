"""Tables: Parquet and CSV files of people's own logs, pandas and pyarrow tables in memory."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet as pq

from waypost.data.columns import build
from waypost.data.dataset import Dataset
from waypost.data.formats.arrays import BOUNDS, MARK, facts_of, known_count, ours, plausible, rows_of, task_of
from waypost.data.roles import Columns
from waypost.errors import WaypostError
from waypost.files import replacing

ROWS_PER_GROUP = 1 << 17


def read(path: Path, columns: Columns) -> Dataset:
    size = path.stat().st_size
    if path.suffix.lower() == ".csv":
        plausible(path, "its table", 2 * size, size)
        return from_table(csv.read_csv(path), columns, str(path))
    with pq.ParquetFile(path) as file:
        # What a column unpacks to is known from the footer.
        groups = range(file.metadata.num_row_groups)
        plausible(path, "its table", sum(file.metadata.row_group(i).total_byte_size for i in groups), size)
        return from_table(file.read(), columns, str(path))


def task(path: Path) -> str | None:
    return None if path.suffix.lower() == ".csv" else task_of(_facts(pq.read_schema(path)))


def _facts(schema: Any) -> Any:
    facts = (schema.metadata or {}).get(MARK.encode())
    return None if facts is None else json.loads(facts)


def from_pandas(frame: Any, columns: Columns, name: str) -> Dataset:
    try:
        return from_table(pa.Table.from_pandas(frame, preserve_index=False), columns, name)
    except (pa.ArrowException, TypeError) as error:
        raise WaypostError(f"{name}: {' '.join(str(error).split())}") from None


def from_table(table: Any, columns: Columns, name: str) -> Dataset:
    """A Dataset of a pyarrow table."""
    names, facts = table.column_names, _facts(table.schema)
    if len(set(names)) < len(names):
        twice = sorted({each for each in names if names.count(each) > 1})
        raise WaypostError(f"{name}: more than one column is called {twice[0]!r}; rename them")
    fields = {field: partial(_values, table.column(field), field, name) for field in names}
    if facts is None or columns.roles:
        return build(fields, columns, name, partial(_holds_integers, table.schema), **known_count(facts, columns))
    bounds = {bound: np.asarray(facts[bound], np.float32) for bound in BOUNDS if facts.get(bound) is not None}
    return ours(fields, facts, name, **bounds)


def _values(column: Any, field: str, name: str) -> np.ndarray:
    """A column as an array; lists of one length become the rows of a matrix."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    if pa.types.is_boolean(kind) and column.null_count:
        column = column.cast(pa.float32())
    if not _is_list(kind):
        return np.asarray(column.to_numpy())
    if column.null_count:
        raise WaypostError(f"{name}: {field!r} has no value in {column.null_count} rows")
    lengths = pc.unique(pc.list_value_length(column)).to_pylist()
    if len(lengths) > 1:
        raise WaypostError(f"{name}: the lists in {field!r} have different lengths {sorted(lengths)[:5]}")
    values = column.combine_chunks()
    flat = values.flatten() if not isinstance(values, pa.ChunkedArray) else pa.array([], column.type.value_type)
    if _is_list(flat.type):
        raise WaypostError(f"{name}: {field!r} holds lists of lists; flatten each row to one list of numbers")
    return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(len(column), lengths[0] if lengths else 0)


def _holds_integers(schema: Any, field: str) -> bool:
    """Whether a column holds integers or truth values, whatever NumPy makes of its empty cells."""
    kind = schema.field(field).type
    kind = kind.value_type if _is_list(kind) or pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def write(dataset: Dataset, path: Path, progress: object = None) -> None:
    """A Parquet file; states and actions are lists of fixed length, so that they stay one column each."""
    arrays = rows_of(dataset)
    facts = facts_of(dataset) | {name: arrays.pop(name).tolist() for name in BOUNDS if name in arrays}
    columns = {}
    for name, values in arrays.items():
        flat = pa.array(values.reshape(-1))
        columns[name] = pa.FixedSizeListArray.from_arrays(flat, values.shape[1]) if values.ndim == 2 else flat
    table = pa.table(columns).replace_schema_metadata({MARK: json.dumps(facts)})
    with replacing(path) as temporary:
        pq.write_table(table, temporary, row_group_size=ROWS_PER_GROUP)
