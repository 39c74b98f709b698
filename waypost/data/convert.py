"""Data from one format to another, with what was asked for left out on the way."""

from __future__ import annotations

from pathlib import Path

from waypost.data.dataset import Dataset
from waypost.data.formats import writing
from waypost.data.mapped import NpzWriter
from waypost.data.roles import Columns
from waypost.data.sources import Source, load, parts, recorded_task, writer
from waypost.types import Count


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
    progress: Count | None = None,
) -> int:
    """Write the data of a source to `out`, in the format its name asks for; return the number of transitions.

    - `source` and `columns`: as in `load`
    - `out` and `overwrite`: as in `save`
    - `slice`: only the transitions from one share of the data to another; `(0.3, 0.7)` is the middle 40 %
    - `top`: only this share of the episodes, the best by return; chosen after `slice`
    - `drop_actions`, `drop_rewards`: leave these columns out
    - `progress`: called with how many transitions or files are written, and of how many

    Several files that go into one .npz without `slice` or `top` are read one at a time, so they need not fit in
    memory together.
    """
    write = writer(out, overwrite)

    def dropped(dataset: Dataset) -> Dataset:
        dataset = dataset.without_actions() if drop_actions else dataset
        return dataset.without_rewards() if drop_rewards else dataset

    members = parts(source) if isinstance(source, str | Path) else []
    one_task = len({recorded_task(member) for member in members}) == 1
    if len(members) > 1 and one_task and Path(out).suffix == ".npz" and slice is None and top is None:
        with writing(out), NpzWriter(out) as joined:
            for done, member in enumerate(members, 1):
                joined.append(dropped(load(member, columns)))
                if progress is not None:
                    progress(done, len(members))
        return joined.rows
    dataset = load(source, columns)
    dataset = dataset if slice is None else dataset.slice(*slice)
    dataset = dropped(dataset if top is None else dataset.top(top))
    write(dataset, Path(out), progress)
    return len(dataset)
