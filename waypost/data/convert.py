"""Convert data from one format to another, and leave out what was asked for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from waypost.data.dataset import Dataset
from waypost.data.formats import writing
from waypost.data.in_place import in_place, refusal
from waypost.data.mapped import NpzWriter, is_mapped, map_npz
from waypost.data.names import joined
from waypost.data.pipeline import Pipeline
from waypost.data.roles import Columns
from waypost.data.sources import Source, learn, load, parts as parts_of, recorded_task, writer
from waypost.data.splitting import PartFormat, Splitter
from waypost.data.table import Reward
from waypost.errors import WaypostError
from waypost.files import expanded, make_folder, remove_folders, unused_name
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
    parts: int | None = None,
    part_rows: int | None = None,
    part_format: PartFormat = "npz",
    progress: Count | None = None,
) -> int:
    """Write the data of a source to `out`, in the format its name asks for; return the number of transitions.

    - `source`, `columns`, `pipeline` and `reward`: as in `load`
    - `out` and `overwrite`: as in `save`
    - `slice`: only the transitions from one share of the data to another; `(0.3, 0.7)` is the middle 40 %
    - `top`: only this share of the episodes, the best by return; chosen after `slice`
    - `drop_actions`, `drop_rewards`: leave these columns out
    - `parts`: write so many files into the folder `out`; or `part_rows`: files of about so many transitions. Parts
      that are there already are kept, so the same call goes on where it was interrupted
    - `part_format`: what the parts are written as
    - `progress`: called with the number of transitions or files written so far, and their total

    Several files that go into one .npz or into parts without `slice` or `top` are read one at a time, so they need not
    fit in memory together. Files that can be streamed are not held in memory at all on their way there.
    """
    split = None
    if parts is not None or part_rows is not None:
        split = Splitter(out, parts, part_rows, part_format, overwrite)
    write = writer(out, overwrite) if split is None else None

    def dropped(dataset: Dataset) -> Dataset:
        dataset = dataset.without_actions() if drop_actions else dataset
        return dataset.without_rewards() if drop_rewards else dataset

    def one_at_a_time(path: Path) -> int:
        with writing(out), NpzWriter(path) as together:
            for done, name in enumerate(names, 1):
                together.append(dropped(load(name, columns, **how)))
                if progress is not None:
                    progress(done, len(names))
        return together.rows

    source = joined(source) if isinstance(source, list | tuple) else source
    names = parts_of(source) if isinstance(source, str | Path) else []
    if split is not None and any(split.holds(expanded(name)) for name in names):
        raise WaypostError(f"{out}: is where the data come from; choose another folder")
    columns = columns or Columns()
    how: dict[str, Any] = {"pipeline": learn(names, columns, pipeline or Pipeline()), "reward": reward}
    as_it_is = not columns.roles and how["pipeline"].plain and reward is None
    several = len(names) > 1 and len({recorded_task(name) for name in names}) == 1 and slice is None and top is None
    to_npz = split is None and Path(out).suffix == ".npz"
    stays = bool(names) and as_it_is and (split is not None or (to_npz and several)) and not any(map(refusal, names))
    if to_npz and several and not stays:
        return one_at_a_time(expanded(out))
    with ExitStack() as temporary:
        if stays:
            dataset = columns.declared(in_place(names, str(source)))
        elif split is not None and several:
            together = temporary.enter_context(_beside(split.folder)) / "all.npz"
            one_at_a_time(together)
            dataset = map_npz(together)
        else:
            dataset = load(source, columns, **how)
        dataset = dataset if slice is None else dataset.slice(*slice)
        dataset = dropped(dataset if top is None else dataset.top(top))
        if split is not None:
            split.write(dataset, progress)
        elif is_mapped(dataset.observations) and to_npz:
            with writing(out), NpzWriter(out) as whole:
                whole.append(dataset, progress)
        elif write is not None:
            write(dataset, Path(out), progress)
    return len(dataset)


@contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    """A folder for a moment, next to another one."""
    with writing(folder):
        made, place = make_folder(folder.parent), unused_name(folder)
        place.mkdir()
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        remove_folders(made)
