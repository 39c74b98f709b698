"""Columns of a log as numbers for a network: text as categories, cyclic columns as sine and cosine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from waypost.data.pipeline import (
    CATEGORIES,
    MISSING,
    PERIODS,
    Learned,
    Pipeline,
    asked_for,
    by_column,
    cyclic_columns,
)
from waypost.data.table import Table, absent, is_text
from waypost.data.validation import printable
from waypost.errors import WaypostError

MOST_CATEGORIES = 100
"""Different texts of a column; a column with more holds names or numbers, not categories."""

Encoded = list[tuple[str, np.ndarray]]
"""Names and values of columns; a field with several columns has one name."""


def as_words(name: str, values: np.ndarray, pipeline: Pipeline) -> np.ndarray:
    """A column; numbers become texts if the column is declared a category."""
    how = by_column(pipeline.categories, CATEGORIES, "categories", ordered=True).get(name)
    if is_text(values) or how in (None, "error") or values.ndim > 1:
        return values
    return np.array([None if value != value else f"{value:g}" for value in values.astype(np.float64)], object)


def learn(columns: Iterable[tuple[str, np.ndarray]], pipeline: Pipeline) -> Learned:
    """The categories and means of columns, which arrive part by part."""
    choices = by_column(pipeline.categories, CATEGORIES, "categories", ordered=True)
    averaged = by_column(pipeline.missing, MISSING, "missing")
    texts: dict[str, set[str]] = {}
    sums: dict[str, tuple[float, int]] = {}
    for name, values in columns:
        known = values[~absent(values)]
        if not is_text(values):
            total, count = sums.get(name, (0.0, 0))
            if values.ndim == 1 and asked_for(name, averaged) == "mean":
                sums[name] = total + float(known.sum(dtype=np.float64)), count + len(known)
            continue
        texts.setdefault(name, set()).update(map(str, known))
        if len(texts[name]) > MOST_CATEGORIES:
            raise WaypostError(
                f"{name!r} holds more than {MOST_CATEGORIES} different texts, such as "
                f"{printable(str(known[0])[:40])!r}; leave it out, or name those that mean 'missing': --missing-values"
            )
    ordered = {name: asked_for(name, choices) or "" for name in texts}
    categories = {
        name: tuple(how.split("<")) if "<" in (how := ordered[name]) else tuple(_in_order(found))
        for name, found in texts.items()
    }
    return Learned(categories, {name: total / count for name, (total, count) in sums.items() if count})


def _in_order(words: Iterable[str]) -> list[str]:
    """Texts by the alphabet, numbers by their size."""
    try:
        return sorted(words, key=float)
    except ValueError:
        return sorted(words)


def as_logged(values: np.ndarray) -> np.ndarray:
    """A column of texts that all are numbers, as numbers: what `as_words` was given."""
    try:
        return np.array([np.nan if value is None else float(value) for value in values]) if is_text(values) else values
    except ValueError:
        return values


def encoded(table: Table, fields: Sequence[str], pipeline: Pipeline, known_as: Sequence[str] = ()) -> Encoded:
    """The fields as numbers: text by its categories, cyclic columns as two.

    `known_as` are the names of the state's columns, where the fields hold the next state.
    """
    choices = by_column(pipeline.categories, CATEGORIES, "categories", ordered=True)
    periods = cyclic_columns(pipeline.cyclic)
    found: Encoded = []
    for field, name in zip(fields, known_as or fields, strict=True):
        values = table.columns[field]
        if name in periods and not is_text(values):
            found += _circle(name, values.astype(np.float64), periods[name])
        elif is_text(values):
            how = asked_for(name, choices) or "error"
            numbers, words = codes(table.name, name, values, pipeline)
            if how != "one-hot":
                found.append((name, numbers))
            else:
                found += [(f"{name}={word}", np.where(numbers == i, 1.0, 0.0)) for i, word in enumerate(words)]
        else:
            found.append((field, values))
    strange = [name for name in periods if name not in PERIODS and name not in (known_as or fields)]
    if strange:
        raise WaypostError(f"{table.name}: --cyclic {strange[0]}: the observations have no such column")
    for name in [name for name in periods if name in PERIODS]:
        if table.time is None:
            raise WaypostError(f"{table.name}: --cyclic {name} needs time stamps; name their column: --columns.time")
        found += _circle(name, _of_the_week(table.time) if name == "weekday" else table.time, periods[name])
    return found


def codes(source: str, name: str, values: np.ndarray, pipeline: Pipeline) -> tuple[np.ndarray, tuple[str, ...]]:
    """The number of each text, NaN where there is none, and the texts."""
    learned = pipeline.learned.categories if pipeline.learned else {}
    if name not in learned:
        raise WaypostError(f"{source}: {name!r} holds text, numbers are needed; use --categories one-hot or ordinal")
    number = {word: float(i) for i, word in enumerate(learned[name])}
    empty = absent(values)
    strange = {str(value) for value in values[~empty]} - number.keys()
    if strange:
        raise WaypostError(
            f"{source}: {name!r} holds {printable(min(strange)[:40])!r}, which is not a known category: "
            f"{', '.join(learned[name][:10])}"
        )
    found = [np.nan if nothing else number[str(value)] for value, nothing in zip(values, empty, strict=True)]
    return np.array(found, np.float64), learned[name]


def _circle(name: str, values: np.ndarray, period: float) -> Encoded:
    angle = 2 * np.pi * (values % period) / period
    return [(f"{name}_sin", np.sin(angle)), (f"{name}_cos", np.cos(angle))]


def _of_the_week(time: np.ndarray) -> np.ndarray:
    """Seconds counted from a Monday; Unix time begins on a Thursday."""
    return time + 3 * 86_400.0
