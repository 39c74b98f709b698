"""CSV files in the wild: any separator, decimal commas, compression, and older encodings."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from pyarrow import csv

from waypost.data.formats.sizes import Claims, few_fields
from waypost.data.pipeline import SEPARATORS, Pipeline

LONGEST_LINE = 1 << 20
"""Bytes of the first line; Arrow reads no longer lines."""
SAMPLE_BYTES = 1 << 16
"""Bytes used to find the separator."""
SAMPLE_LINES = 50
UNPACK_BYTES = 1 << 22
CODECS = {".gz": "gzip", ".zst": "zstd"}
DATES = (csv.ISO8601, "%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M")
"""Formats of time stamps; dates with ambiguous day and month stay texts."""
WITH_COMMA, WITH_POINT = re.compile(r"[-+]?\d+,\d+([eE][-+]?\d+)?"), re.compile(r"[-+]?\d+\.\d+([eE][-+]?\d+)?")


def read_csv(path: Path, stream: IO[bytes], pipeline: Pipeline) -> tuple[Any, Sequence[str]]:
    """The table of a file, and the decisions made to read it."""
    content = _unpacked(path, stream) if path.suffix.lower() in CODECS else stream
    beginning = content.read(LONGEST_LINE)
    size = Claims(path).size if content is stream else content.seek(0, io.SEEK_END)
    content.seek(0)
    encoding = "utf-8" if _is_utf8(beginning) else "latin-1"
    lines = beginning[:SAMPLE_BYTES].decode(encoding, "replace").lstrip("\N{ZERO WIDTH NO-BREAK SPACE}").splitlines()
    separator = SEPARATORS.get(pipeline.separator) or find_separator(lines[:SAMPLE_LINES])
    decimal = {"point": ".", "comma": ","}.get(pipeline.decimal) or find_decimal(lines[:SAMPLE_LINES], separator)
    few_fields(beginning.partition(b"\n")[0].count(separator.encode()))
    # A digit and a separator can become a number of eight bytes.
    Claims(path, size).add("its table", 4 * size, size)
    usual = csv.ConvertOptions()
    words = [entry.rpartition("=")[2] for entry in pipeline.missing_values]
    table = csv.read_csv(
        content,
        csv.ReadOptions(encoding=encoding),
        csv.ParseOptions(delimiter=separator),
        csv.ConvertOptions(
            decimal_point=decimal,
            timestamp_parsers=list(DATES),
            null_values=[*usual.null_values, *(word for word in words if not _is_number(word))],
            strings_can_be_null=True,
        ),
    )
    return table, _decided(separator, decimal, encoding, pipeline)


def _unpacked(path: Path, stream: IO[bytes]) -> IO[bytes]:
    """The content of a compressed file, as long as its size is plausible."""
    claims, content = Claims(path), io.BytesIO()
    with pa.CompressedInputStream(pa.PythonFile(stream, "r"), CODECS[path.suffix.lower()]) as packed:
        while block := packed.read(UNPACK_BYTES):
            claims.add("its table", len(block), 0 if content.tell() else claims.size)
            content.write(block)
    content.seek(0)
    return content


def find_separator(lines: Sequence[str]) -> str:
    """The separator that splits most lines into as many cells as the first line, at least two."""
    rows = [line for line in lines if line.strip()]

    def divides(separator: str) -> tuple[float, int]:
        counts = [_outside_quotes(row).count(separator) for row in rows]
        agreeing = sum(count == counts[0] for count in counts) / len(counts)
        return (agreeing, counts[0]) if counts[0] else (0.0, 0)

    # A decimal comma splits all lines but the first, which has names; the order breaks ties.
    return max(SEPARATORS.values(), key=divides) if rows else ","


def find_decimal(lines: Sequence[str], separator: str) -> str:
    """A comma, if some numbers have one and none has a point."""
    cells = [cell.strip().strip('"') for line in lines[1:] for cell in line.split(separator)]
    commas = sum(WITH_COMMA.fullmatch(cell) is not None for cell in cells)
    points = sum(WITH_POINT.fullmatch(cell) is not None for cell in cells)
    return "," if separator != "," and commas > 0 and points == 0 else "."


def _outside_quotes(line: str) -> str:
    return re.sub(r'"[^"]*"', "", line)


def _is_utf8(content: bytes) -> bool:
    try:
        # The last character may be cut in two.
        content[: content.rfind(b"\n") + 1 or None].decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _decided(separator: str, decimal: str, encoding: str, pipeline: Pipeline) -> Sequence[str]:
    found = [f"separator {separator!r}"] if separator != "," and pipeline.separator == "auto" else []
    found += ["decimal comma"] if decimal == "," and pipeline.decimal == "auto" else []
    found += ["encoding latin-1"] if encoding != "utf-8" else []
    return [f"read with {', '.join(found)}; --separator and --decimal set this"] if found else []
