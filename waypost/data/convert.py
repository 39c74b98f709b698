"""Data from one format to another, with what was asked for left out on the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from waypost.data.columns import Columns
from waypost.data.dataset import Dataset
from waypost.data.mapped import NpzWriter
from waypost.data.sources import Source, load, parts, recorded_task, writer, writing


def convert(
    source: Source,
    out: str | Path,
    *,
    columns: Columns | None = None,
    top: float | None = None,
    slice: tuple[float, float] | None = None,
    drop_actions: bool = False,
    drop_rewards: bool = False,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Write the data of a source to `out`, in the format its name asks for; the number of transitions written.

    `slice` is taken first, then the best episodes of what is left. Of several files that go into one .npz as they are,
    only one at a time is in memory.
    """
    write = writer(out, overwrite)
    members = parts(source) if isinstance(source, str | Path) else []
    one_task = len({recorded_task(member) for member in members}) == 1
    if len(members) > 1 and one_task and Path(out).suffix == ".npz" and slice is None and top is None:
        with writing(out), NpzWriter(out) as joined:
            for done, member in enumerate(members, 1):
                joined.append(_without(load(member, columns), drop_actions, drop_rewards))
                if progress is not None:
                    progress(done, len(members))
        return joined.rows
    dataset = load(source, columns)
    if slice is not None:
        dataset = dataset.slice(*slice)
    if top is not None:
        dataset = dataset.top(top)
    dataset = _without(dataset, drop_actions, drop_rewards)
    write(dataset, Path(out), progress)
    return len(dataset)


def _without(dataset: Dataset, actions: bool, rewards: bool) -> Dataset:
    dataset = dataset.without_actions() if actions else dataset
    return dataset.without_rewards() if rewards else dataset
