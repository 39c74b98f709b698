"""Read requests to a service as rows of numbers; errors name the column."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from waypost.schema import shown
from waypost.types import Floats

MOST_ROWS = 4096
"""The most observations in one request."""


class BadQuestion(Exception):
    """A bad request: the reason, the column if it is about one, and the HTTP status."""

    def __init__(self, reason: str, column: str | None = None, status: int = 422):
        super().__init__(reason)
        self.reason, self.column, self.status = reason, column, status


def read_question(content: bytes, columns: tuple[str, ...]) -> tuple[Floats, bool]:
    """The observations of a JSON request, (rows, columns), and whether it had a single one.

    A request is {"observation": X}, where X is a row or a list of rows; a row is a list, or {"column": number, ...}.
    """
    try:
        question = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BadQuestion(f"not JSON: {error}") from None
    if not isinstance(question, dict) or set(question) != {"observation"}:
        raise BadQuestion('must be an object with one field, "observation"')
    given = question["observation"]
    single = isinstance(given, dict) or (isinstance(given, list) and bool(given) and not _is_row(given[0]))
    rows = [given] if single else given
    if not isinstance(rows, list) or not rows:
        raise BadQuestion("observation must be a row of numbers or a list of one or more rows")
    if len(rows) > MOST_ROWS:
        raise BadQuestion(f"observation must have at most {MOST_ROWS} rows, got {len(rows)}")
    rows = [_in_order(row, place, columns) for place, row in enumerate(rows)]
    return _numbers(rows, columns), single


def _is_row(value: Any) -> bool:
    return isinstance(value, list | dict)


def _in_order(row: Any, place: int, columns: tuple[str, ...]) -> list[Any]:
    """The numbers of a row, in the order of the columns."""
    if isinstance(row, dict):
        for name in columns:
            if name not in row:
                raise BadQuestion(f"row {place}: {name} is missing", name)
        for name in row:
            if name not in columns:
                raise BadQuestion(f"row {place}: {shown(name)} is not a column; use {', '.join(columns)}", name)
        return [row[name] for name in columns]
    if not isinstance(row, list):
        raise BadQuestion(f"row {place}: must be a list of numbers or an object with the columns' names")
    if len(row) != len(columns):
        missing = columns[len(row)] if len(row) < len(columns) else None
        wanted = f"{len(columns)} numbers ({', '.join(columns)})"
        raise BadQuestion(f"row {place}: must have {wanted}, got {len(row)}", missing)
    return row


def _numbers(rows: list[list[Any]], columns: tuple[str, ...]) -> Floats:
    kinds = {type(value) for row in rows for value in row}
    numbers = _single(rows) if kinds <= {int, float} else None
    if numbers is not None and np.isfinite(numbers).all():
        return numbers
    for place, row in enumerate(rows):
        for name, value in zip(columns, row, strict=True):
            if type(value) not in (int, float):
                raise BadQuestion(f"row {place}: {name} must be a number, got {shown(value)}", name)
            if not np.isfinite(_single(value)):
                raise BadQuestion(f"row {place}: {name} must be a finite 32-bit number, got {shown(value)}", name)
    raise AssertionError("unreachable: a number was invalid, but none is")


def _single(numbers: Any) -> Floats:
    """As 32-bit numbers; numbers that are too large become infinite."""
    with np.errstate(over="ignore"):
        try:
            return np.array(numbers, np.float32)
        except OverflowError:  # an integer of hundreds of digits
            return np.array(np.inf, np.float32)
