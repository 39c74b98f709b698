"""Data from one format to another, with what was asked for left out on the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from waypost.data.columns import Columns
from waypost.data.sources import Source, load, writer


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

    `slice` is taken first, then the best episodes of what is left.
    """
    write = writer(out, overwrite)
    dataset = load(source, columns)
    if slice is not None:
        dataset = dataset.slice(*slice)
    if top is not None:
        dataset = dataset.top(top)
    if drop_actions:
        dataset = dataset.without_actions()
    if drop_rewards:
        dataset = dataset.without_rewards()
    write(dataset, Path(out), progress)
    return len(dataset)
