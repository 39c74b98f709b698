"""A table as a CSV file and, for a page, as Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from waypost.files import write_text


def write_table(file: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """The Markdown; what a row has beyond the header shares the last column."""
    sheet = io.StringIO()
    csv.writer(sheet, lineterminator="\n").writerows([header, *rows])
    write_text(file, sheet.getvalue())
    last = len(header) - 1
    cells = [[*map(str, row[:last]), ", ".join(map(str, row[last:]))] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, ["---"] * len(header), *cells))
