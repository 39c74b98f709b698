"""Missing values of a log: what marks them, and how they are handled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from waypost.data.pipeline import MISSING, Pipeline, asked_for, by_column
from waypost.data.table import Table, absent, is_text
from waypost.errors import WaypostError
from waypost.types import Flags

FEW = "few"
"""Where few cells are empty, a state keeps the value before, and rows without an action or a reward are left out.
Where many are empty, it is an error."""
MOST_EMPTY = 0.05
"""Share of the rows that counts as few."""


def marked(name: str, values: np.ndarray, pipeline: Pipeline) -> np.ndarray:
    """A column with empty cells in place of the values that mean 'missing'."""
    for entry in pipeline.missing_values:
        column, _, word = entry.rpartition("=")
        if column and column != name:
            continue
        if is_text(values):
            values = np.array([None if value == word else value for value in values], object)
            continue
        try:
            number = float(word)
        except ValueError:
            continue
        if values.dtype.kind in "fiu" and (values == number).any():
            values = np.where(values == number, np.nan, values)
    return values


def filled(table: Table, pipeline: Pipeline, needed: Mapping[str, str], states: Sequence[str]) -> Table:
    """The table with its empty cells handled; the check of the data finds those that stay.

    needed   the columns that need values, each with the default way to handle empty cells: error, or `FEW`
    states   those that are also needed in a row that only holds the final state of an episode
    """
    choices = by_column(pipeline.missing, MISSING, "missing")
    final = table.marks.get("final", np.zeros(len(table), bool))
    empty: dict[str, Flags] = {}
    ways: dict[str, str] = {}
    for name, usual in needed.items():
        how = asked_for(name, choices) or usual
        if how == "error":
            continue
        found = absent(table.columns[name])
        found = found if name in states else found & ~final
        if found.any():
            empty[name], ways[name] = found, how
    few = [name for name, how in ways.items() if how == FEW]
    rare = np.logical_or.reduce([empty[name] for name in few]) if few else np.zeros(len(table), bool)
    usable = rare.sum() <= MOST_EMPTY * len(table)
    for name in few:
        ways[name] = "error" if not usable else "hold" if name in states else "drop"
    notes, columns, dropped = [], dict(table.columns), np.zeros(len(table), bool)
    for name, how in ways.items():
        if how == "drop":
            dropped |= empty[name]
        elif how != "error":
            columns[name] = _with_values(table, name, empty[name], how, pipeline)
            notes.append(f"{name}: {empty[name].sum()} missing values filled ({how}); --missing sets this")
    table = replace(table, columns=columns)
    if dropped.any():
        table = table.without(dropped, cut=True)
        notes.append(f"{dropped.sum()} rows with missing values left out, episodes cut there; --missing sets this")
    return table.noting(*notes)


def _with_values(table: Table, name: str, empty: Flags, how: str, pipeline: Pipeline) -> np.ndarray:
    values = table.columns[name]
    if how == "mean":
        means = pipeline.learned.means if pipeline.learned else {}
        if name not in means:
            raise WaypostError(f"{table.name}: {name!r} has no mean to fill missing values with; use hold or drop")
        return np.where(empty, means[name], values)
    episode, rows = np.cumsum(table.starts), np.arange(len(values))
    before = np.maximum.accumulate(np.where(empty, -1, rows))
    after = np.minimum.accumulate(np.where(empty, len(rows), rows)[::-1])[::-1]
    # Values of other episodes say nothing about this one.
    has_before = (before >= 0) & (episode[before] == episode)
    has_after = (after < len(rows)) & (episode[np.minimum(after, len(rows) - 1)] == episode)
    before, after = np.where(has_before, before, after), np.where(has_after, after, before)
    known = has_before | has_after
    before, after = np.where(known, before, rows), np.where(known, after, rows)
    if how == "hold":
        return values[before]
    if is_text(values) or values.ndim > 1:
        raise WaypostError(f"{table.name}: {name!r} cannot be interpolated; use --missing {name}=hold")
    place = rows.astype(np.float64) if table.time is None else table.time
    way = place[after] - place[before]
    share = np.where(way > 0, (place - place[before]) / np.where(way > 0, way, 1.0), 0.0)
    return np.where(empty, values[before] + share * (values[after] - values[before]), values)
