"""Tables: Parquet and CSV files, pandas and pyarrow tables in memory."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet as pq

from waypost.data.columns import Fields, build
from waypost.data.dataset import Dataset
from waypost.data.formats import suffix_of
from waypost.data.formats.arrays import BOUNDS, MARK, facts_of, known_count, ours, read_facts, rows_of, task_of
from waypost.data.formats.csv import read_csv
from waypost.data.formats.sizes import ALWAYS, LARGEST_FACTS, MOST_FIELDS, Claims, few_fields
from waypost.data.pipeline import Pipeline
from waypost.data.roles import Columns
from waypost.data.table import Reward
from waypost.errors import WaypostError
from waypost.files import replacing

ROWS_PER_GROUP = 1 << 15
"""As many as a block of streamed data has: a group is read as a whole."""
CHECKSUM = f"{MARK}.checksum"
MOST_PIECES = 20 * MOST_FIELDS
"""Most row groups times columns in a Parquet file."""
WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT96": 12}
"""Bytes of a number; other numbers have eight, and text at least as many as the file holds."""


@contextmanager
def opened(path: Path, pipeline: Pipeline) -> Iterator[tuple[Fields, Any]]:
    """The columns by name, and the facts if Waypost wrote the file."""
    table, _ = _table(path, pipeline)
    yield fields_of(table, str(path)), facts_in(table.schema)


def read(path: Path, columns: Columns, pipeline: Pipeline, reward: Reward | None) -> Dataset:
    table, notes = _table(path, pipeline)
    return from_table(table, columns, str(path), pipeline, reward, notes)


def _table(path: Path, pipeline: Pipeline) -> tuple[Any, Sequence[str]]:
    """A file as a table, and the decisions made to read it."""
    # An open file, not a path: Arrow would use the network for some paths.
    with path.open("rb") as stream:
        if suffix_of(path) != ".parquet":
            return read_csv(path, stream, pipeline)
        footer = pq.read_metadata(stream)
        few_fields(footer.num_columns)
        Claims(path).add("its table", sum(unpacked(footer)), Claims(path).size)
        stream.seek(0)
        # Texts stay dictionary codes: repeating a long one costs nothing in the file.
        leaves = map(footer.schema.column, range(footer.num_columns))
        texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
        with pq.ParquetFile(stream, read_dictionary=texts, page_checksum_verification=True) as file:
            return file.read(), ()


def unpacked(metadata: Any) -> list[int]:
    """Bytes that each row group takes in memory, by the file's footer: repeating a value costs nothing in the file."""
    groups, fields = metadata.num_row_groups, metadata.num_columns
    if groups * fields > MOST_PIECES:
        raise ValueError(f"{groups} row groups of {fields} columns; at most {MOST_PIECES} pieces are allowed")

    def size(column: Any) -> int:
        wide = column.num_values * WIDTHS.get(column.physical_type, 8)
        return max(wide, column.total_uncompressed_size, 0)

    return [
        sum(size(group.column(field)) for field in range(fields)) for group in map(metadata.row_group, range(groups))
    ]


def task(path: Path) -> str | None:
    if suffix_of(path) != ".parquet":
        return None
    with path.open("rb") as stream:
        return task_of(facts_in(pq.read_schema(stream)))


def facts_in(schema: Any) -> Any:
    metadata = schema.metadata or {}
    facts, checksum = metadata.get(MARK.encode()), metadata.get(CHECKSUM.encode())
    # Pages have checksums, the footer does not.
    if checksum is not None and (facts is None or checksum != _checksum(facts)):
        raise ValueError("the checksum of its facts is wrong")
    if facts is not None and len(facts) > LARGEST_FACTS:
        raise ValueError(f"its facts have {len(facts)} bytes")
    return None if facts is None else json.loads(facts)


def _checksum(content: bytes) -> bytes:
    return f"{zlib.crc32(content):08x}".encode()


def of_pandas(frame: Any, name: str) -> Any:
    """A pandas table as one of pyarrow's."""
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError) as error:
        raise WaypostError(f"{name}: {' '.join(str(error).split())}") from None


def from_table(
    table: Any,
    columns: Columns,
    name: str,
    pipeline: Pipeline,
    reward: Reward | None = None,
    notes: Sequence[str] = (),
) -> Dataset:
    """A Dataset of a pyarrow table."""
    fields, facts = fields_of(table, name), facts_in(table.schema)
    if facts is None or columns.roles:
        integers, known = partial(_holds_integers, table.schema), known_count(facts, columns)
        how: dict[str, Any] = {"pipeline": pipeline, "reward": reward, "notes": notes}
        # A cell with NaN is not empty: NaN was computed.
        how["cells"] = [each.name for each in table.schema if not _is_list(each.type) and table[each.name].null_count]
        how["dates"] = [each.name for each in table.schema if pa.types.is_temporal(each.type)]
        return build(fields, columns, name, integers, **how, **known)
    return ours(fields, facts, name, **bounds_in(facts))


def bounds_in(facts: Any) -> dict[str, Any]:
    """The bounds of actions, which a Parquet file has among its facts."""
    read_facts(facts)  # which refuses what are none
    return {bound: np.asarray(facts[bound], np.float32) for bound in BOUNDS if facts.get(bound) is not None}


def fields_of(table: Any, name: str) -> Fields:
    names = table.column_names
    if len(set(names)) < len(names):
        twice = [each for each, times in Counter(names).items() if times > 1]
        raise WaypostError(f"{name}: more than one column is called {twice[0]!r}; rename them")
    return {field: partial(values_of, table.column(field), field, name) for field in names}


def values_of(column: Any, field: str, name: str) -> np.ndarray:
    """A column as an array; lists of equal length become the rows of a matrix."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = _spelled_out(column, field), kind.value_type
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


def _spelled_out(column: Any, field: str) -> Any:
    """A column without dictionary encoding, if it does not become too large."""
    kind = column.type.value_type
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind):
        longest = max((pc.max(pc.binary_length(part.dictionary)).as_py() or 0 for part in column.chunks), default=0)
        if longest * len(column) > ALWAYS:
            raise ValueError(f"{field!r} holds {len(column)} texts of up to {longest} characters")
    return column.cast(kind)


def _holds_integers(schema: Any, field: str) -> bool:
    """Whether a column holds integers or booleans, whatever NumPy makes of its empty cells."""
    kind = schema.field(field).type
    kind = kind.value_type if _is_list(kind) or pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def write(dataset: Dataset, path: Path, progress: object = None) -> None:
    """A Parquet file; states and actions are lists of fixed length, one column each."""
    arrays = rows_of(dataset)
    facts = facts_of(dataset) | {name: arrays.pop(name).tolist() for name in BOUNDS if name in arrays}
    columns = {}
    for name, values in arrays.items():
        flat = pa.array(values.reshape(-1))
        columns[name] = pa.FixedSizeListArray.from_arrays(flat, values.shape[1]) if values.ndim == 2 else flat
    text = json.dumps(facts)
    table = pa.table(columns).replace_schema_metadata({MARK: text, CHECKSUM: _checksum(text.encode())})
    with replacing(path) as temporary:
        pq.write_table(table, temporary, row_group_size=ROWS_PER_GROUP, write_page_checksum=True)
