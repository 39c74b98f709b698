"""Convert data from one format to another, and leave out what was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from waypost.data.dataset import Dataset
from waypost.data.formats import writing
from waypost.data.mapped import NpzWriter
from waypost.data.names import joined
from waypost.data.pipeline import Pipeline
from waypost.data.roles import Columns
from waypost.data.sources import Source, learn, load, parts, recorded_task, writer
from waypost.data.table import Reward
from waypost.types import Count


def convert(
    source: Source,
    out: str | Path,
    *,
    columns: Columns | None = None,
    pipeline: Pipeline | None = None,
    reward: Reward | None = None,
    top: float | None = None,
    slice: tuple[float, float] | None = None,
    drop_actions: bool = False,
    drop_rewards: bool = False,
    overwrite: bool = False,
    progress: Count | None = None,
) -> int:
    """Write the data of a source to `out`, in the format its name asks for; return the number of transitions.

    - `source`, `columns`, `pipeline` and `reward`: as in `load`
    - `out` and `overwrite`: as in `save`
    - `slice`: only the transitions from one share of the data to another; `(0.3, 0.7)` is the middle 40 %
    - `top`: only this share of the episodes, the best by return; chosen after `slice`
    - `drop_actions`, `drop_rewards`: leave these columns out
    - `progress`: called with the number of transitions or files written so far, and their total

    Several files that go into one .npz without `slice` or `top` are read one at a time. They need not fit in memory
    together.
    """
    write = writer(out, overwrite)

    def dropped(dataset: Dataset) -> Dataset:
        dataset = dataset.without_actions() if drop_actions else dataset
        return dataset.without_rewards() if drop_rewards else dataset

    source = joined(source) if isinstance(source, list | tuple) else source
    members = parts(source) if isinstance(source, str | Path) else []
    how: dict[str, Any] = {"pipeline": learn(members, columns or Columns(), pipeline or Pipeline()), "reward": reward}
    one_task = len({recorded_task(member) for member in members}) == 1
    if len(members) > 1 and one_task and Path(out).suffix == ".npz" and slice is None and top is None:
        with writing(out), NpzWriter(out) as together:
            for done, member in enumerate(members, 1):
                together.append(dropped(load(member, columns, **how)))
                if progress is not None:
                    progress(done, len(members))
        return together.rows
    dataset = load(source, columns, **how)
    dataset = dataset if slice is None else dataset.slice(*slice)
    dataset = dropped(dataset if top is None else dataset.top(top))
    write(dataset, Path(out), progress)
    return len(dataset)
