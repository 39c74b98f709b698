"""One row of a log as an observation: the pipeline of the files, applied to the columns of a controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from waypost.data.encoding import as_words, encoded
from waypost.data.missing import marked
from waypost.data.pipeline import MISSING as WAYS, PERIODS, Reading, asked_for, by_column, cyclic_columns
from waypost.data.table import Table, absent, is_text
from waypost.data.times import seconds
from waypost.errors import WaypostError


def observe(row: Mapping[str, Any], names: Sequence[str], reading: Reading, history: int = 1) -> np.ndarray:
    """The numbers of an observation in the order of `names`, from the columns of a log; with a history, for one row."""
    names = names[len(names) - len(names) // history :]
    if not names:
        raise WaypostError("the agent's data had no column names; give observations as numbers")
    fields = list(dict.fromkeys(_field(name, reading) for name in names))
    pipeline, columns = reading.pipeline, {}
    categories = pipeline.learned.categories if pipeline.learned else {}
    choices = by_column(pipeline.missing, WAYS, "missing")
    for field in [field for field in fields if field not in PERIODS]:
        if field not in row:
            raise WaypostError(f"the row has no {field!r}; it needs {', '.join(f for f in fields if f not in PERIODS)}")
        value = row[field]
        text = isinstance(value, str) or (value is None and field in categories)
        values = np.array([value], object) if text else np.array([np.nan if value is None else value], np.float64)
        values = as_words(field, marked(field, values, pipeline), pipeline)
        if absent(values)[0]:
            means = pipeline.learned.means if pipeline.learned else {}
            if asked_for(field, choices) != "mean" or field not in means or is_text(values):
                raise WaypostError(f"{field!r} is missing, and the agent's data had no mean for it (--missing mean)")
            values = np.array([means[field]])
        columns[field] = values
    clock = row.get(reading.columns.time or "")
    time = None if clock is None else seconds(np.asarray([clock], None if _is_number(clock) else "datetime64[ns]"))
    table = Table("the row", columns, np.ones(1, bool), time=time)
    found = dict(encoded(table, [field for field in fields if field in columns], pipeline))
    return np.array([found[name][0] for name in names], np.float32)


def in_words(numbers: Any, names: Sequence[str], meanings: Sequence[Mapping[float, str]]) -> dict[str, Any]:
    """An action by the names of the log's columns; `meanings` are what the numbers of a choice stand for."""
    values = np.asarray(numbers, np.float32).reshape(-1)
    if len(values) != len(meanings):
        raise WaypostError(f"an action has {len(meanings)} numbers, got {len(values)}")
    found: dict[str, Any] = {}
    for i, (value, words) in enumerate(zip(values.tolist(), meanings, strict=True)):
        name = names[i] if names else f"action {i}"
        if words and value not in words:
            known = ", ".join(f"{number:g}" for number in list(words)[:10])
            raise WaypostError(f"{name} must be one of {known}, got {value:g}")
        found[name] = _as_number(words[value]) if words else value
    return found


def _as_number(word: str) -> str | int | float:
    """A category as the log has it: a number if it is one."""
    try:
        return int(word)
    except ValueError:
        pass
    try:
        return float(word)
    except ValueError:
        return word


def by_name(observations: Any) -> list[Mapping[str, Any]]:
    """The rows of observations with named columns: a mapping, or a pandas row or table; none for others."""
    if isinstance(observations, Mapping):
        return [observations]
    names = observations.keys() if hasattr(observations, "to_dict") else [None]
    if not all(isinstance(name, str) for name in names):
        return []
    return [observations.to_dict()] if observations.ndim == 1 else observations.to_dict("records")


def far_outside(rows: np.ndarray, low: np.ndarray, high: np.ndarray, names: Sequence[str]) -> str:
    """Which column is farther outside its range than the range is wide, in words; empty if none is."""
    width = np.where(high > low, high - low, np.maximum(1.0, np.abs(low)))
    beyond = np.maximum(low - rows, rows - high) / width
    row, column = np.unravel_index(beyond.argmax(), beyond.shape)
    if beyond[row, column] <= 1.0:
        return ""
    name = names[column] if names else f"column {column}"
    return f"{name} is {rows[row, column]:.6g}, in the data it was {low[column]:.6g} to {high[column]:.6g}"


def with_means(rows: np.ndarray, names: Sequence[str], reading: Reading | None) -> np.ndarray:
    """The rows with means in place of NaN where the policy was trained so; any other NaN is an error."""
    if np.isfinite(rows).all():
        return rows
    pipeline = reading.pipeline if reading else None
    choices = by_column(pipeline.missing, WAYS, "missing") if pipeline else {}
    means = pipeline.learned.means if pipeline and pipeline.learned else {}
    known = [name.partition("[-")[0] for name in names] or [f"column {i}" for i in range(rows.shape[1])]
    usual = [means.get(name, np.nan) if asked_for(name, choices) == "mean" else np.nan for name in known]
    rows = np.where(np.isnan(rows), np.asarray(usual, np.float32), rows)
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=0))
    if len(bad):
        raise WaypostError(f"observations are NaN or infinite in {', '.join(known[i] for i in bad[:5])}")
    return rows


def _field(name: str, reading: Reading) -> str:
    """The log's column that a column of the observation was made from."""
    learned = reading.pipeline.learned
    for field, words in (learned.categories if learned else {}).items():
        if name in (f"{field}={word}" for word in words):
            return field
    for field in cyclic_columns(reading.pipeline.cyclic):
        if name in (f"{field}_sin", f"{field}_cos"):
            return field
    return name


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number)
