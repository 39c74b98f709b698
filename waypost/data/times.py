"""Time stamps of a log: merge repeated ones, cut at gaps, resample to one rate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from waypost.data.pipeline import Pipeline
from waypost.data.table import Table, is_text
from waypost.errors import WaypostError
from waypost.types import Doubles, Flags

MOST_GROWTH = 100
"""Largest factor by which resampling may multiply the rows."""


def seconds(values: np.ndarray) -> Doubles | None:
    """Time stamps as seconds; None for texts that are not dates."""
    if values.dtype.kind in "Mm":
        nothing = np.isnat(values)
        unit = "datetime64[ns]" if values.dtype.kind == "M" else "timedelta64[ns]"
        return np.where(nothing, np.nan, values.astype(unit).astype(np.int64) / 1e9)
    return values.astype(np.float64) if values.dtype.kind in "fiub" else None


def tidy(table: Table, pipeline: Pipeline, rewards: Sequence[str]) -> Table:
    """The table with regular time stamps: repeated ones merged, episodes cut at gaps, resampled if asked."""
    if table.time is None:
        if pipeline.resample is not None:
            raise WaypostError(
                f"{table.name}: --resample needs time stamps; name a column of numbers or dates with --columns.time"
            )
        return table
    table = _noted(_cut(_merged(table, pipeline), pipeline), pipeline)
    return table if pipeline.resample is None else _resampled(table, pipeline.resample, rewards)


def usual_step(table: Table) -> float | None:
    """The median step of time inside episodes; None if there is none."""
    assert table.time is not None
    steps = np.diff(table.time)[~table.ends[:-1]]
    steps = steps[np.isfinite(steps) & (steps > 0)]
    return float(np.median(steps)) if len(steps) else None


def _noted(table: Table, pipeline: Pipeline) -> Table:
    """The table with notes about irregularities that are left as they are."""
    usual = usual_step(table)
    if usual is None or pipeline.resample is not None:
        return table
    assert table.time is not None
    steps = np.diff(table.time)[~table.ends[:-1]]
    same, notes = int((steps == 0).sum()), []
    if same:
        notes.append(f"{same} rows repeat a time stamp of their episode and are kept; --duplicates merges them")
    steps = steps[steps > 0]
    uneven = float((np.abs(steps - usual) > 0.2 * usual).mean())
    if uneven > 0.05:
        low, high = np.quantile(steps, (0.05, 0.95))
        said = f"steps of time inside episodes are uneven, mostly {low:.4g} to {high:.4g} s"
        notes.append(f"{said}; --resample {usual:.4g} gives rows at one rate")
    return table.noting(*notes)


def _merged(table: Table, pipeline: Pipeline) -> Table:
    """One row for each time stamp of an episode, as `duplicates` asks."""
    how, time = pipeline.duplicates, table.time
    assert time is not None
    same = np.append(False, np.diff(time) == 0) & ~table.starts
    if how == "keep" or not same.any():
        return table
    if how == "identical":
        same &= _copies(table)
    # The last row of a time stamp is followed by a row of another one.
    dropped = np.append(same[1:], False) if how in ("last", "mean") else same
    if not same.any():
        return table
    merged = table if how == "identical" else _together(table, same, means=how == "mean")
    merged = merged.without(dropped, cut=False)
    what = "copies left out" if how == "identical" else f"{how} of each kept"
    return merged.noting(f"{same.sum()} rows repeat a time stamp of their episode: {what}")


def _copies(table: Table) -> Flags:
    """Rows that are exact copies of the row before."""
    copies = np.ones(len(table), bool)
    copies[0] = False
    for values in (*table.columns.values(), *table.marks.values()):
        if is_text(values):
            equal = values[1:] == values[:-1]
        else:
            flat = values.reshape(len(values), -1)
            equal = (flat[1:] == flat[:-1]).all(axis=1)
        copies[1:] &= equal
    return copies


def _together(table: Table, same: Flags, means: bool) -> Table:
    """The table with flags shared by all rows of a time stamp; with `means`, also the means of its numbers."""
    group, columns = np.cumsum(~same) - 1, dict(table.columns)
    count = np.bincount(group)
    for name, values in table.columns.items():
        if means and values.dtype.kind in "fiu":
            total = np.add.reduceat(values.astype(np.float64), np.flatnonzero(~same), axis=0)
            columns[name] = (total / count.reshape(-1, *[1] * (values.ndim - 1)))[group]
    marks = {name: np.logical_or.reduceat(values, np.flatnonzero(~same))[group] for name, values in table.marks.items()}
    return Table(table.name, columns, table.breaks, marks, table.time, table.notes)


def _cut(table: Table, pipeline: Pipeline) -> Table:
    """The table with episodes cut at gaps in time."""
    usual = usual_step(table)
    if usual is None or not pipeline.max_gap:
        return table
    assert table.time is not None
    gaps = np.append(np.diff(table.time) > pipeline.max_gap * usual, False) & ~table.ends
    if not gaps.any():
        return table
    said = f"episodes cut at {gaps.sum()} gaps of more than {pipeline.max_gap:g} usual steps of time ({usual:g} s)"
    cut = Table(table.name, table.columns, table.breaks | gaps, table.marks, table.time, table.notes)
    return cut.noting(f"{said}; --max-gap sets this")


def _resampled(table: Table, step: float, rewards: Sequence[str]) -> Table:
    """Rows at equal steps from the start of each episode: the last known values, and rewards as means in between."""
    time, ends = table.time, np.flatnonzero(table.ends)
    assert time is not None
    if not np.isfinite(time).all():
        raise WaypostError(f"{table.name}: {(~np.isfinite(time)).sum()} rows have no time stamp; --resample needs all")
    starts = np.append(0, ends[:-1] + 1)
    counts = np.floor((time[ends] - time[starts]) / step + 1e-9).astype(np.int64) + 1
    if counts.sum() > MOST_GROWTH * len(table):
        raise WaypostError(
            f"{table.name}: --resample {step:g} would make {counts.sum()} rows of {len(table)}; choose a longer step"
        )
    first = np.repeat(np.append(0, np.cumsum(counts)[:-1]), counts)
    episode = np.repeat(np.arange(len(ends)), counts)
    grid = time[starts][episode] + (np.arange(counts.sum()) - first) * step
    # Episodes are moved apart so that time never goes back, and all are searched at once.
    apart = np.cumsum(np.append(0.0, time[ends] - time[starts] + 2 * step))
    shift = np.repeat(apart[:-1] - time[starts], ends - starts + 1)
    place = np.searchsorted(time + shift, grid + (apart[:-1] - time[starts])[episode] + 1e-9 * step, "right") - 1
    last = np.append(episode[1:] != episode[:-1], True)
    sampled = table.rows(place, last)
    # From each row to the one before the next sampled row.
    until = np.where(last, ends[episode] + 1, np.append(place[1:], 0))
    for name in rewards:
        earned = np.append(0.0, np.cumsum(table.columns[name].astype(np.float64)))
        passed = np.maximum(until - place, 1)
        held = table.columns[name][place]
        sampled.columns[name] = np.where(until > place, (earned[until] - earned[place]) / passed, held)
    for name in ("terminals", "timeouts", "final"):
        if name in table.marks:
            sampled.marks[name] = table.marks[name][ends][episode] & last
    columns = sampled.columns
    done = Table(table.name, columns, last, sampled.marks, grid, table.notes)
    return done.noting(f"{len(table)} rows resampled to {len(grid)}, one every {step:g} s")
