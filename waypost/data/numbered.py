"""Data in numbered parts, `part-00003-of-00016.npz`: the names tell whether all are there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from waypost.data.dataset import Dataset
from waypost.data.validation import goes_over
from waypost.errors import WaypostError

_NAME = re.compile(r"part-(\d{5})-of-(\d{5})(\.npz|\.parquet)")
MOST_PARTS = 99_999


def part_name(number: int, total: int, suffix: str) -> str:
    return f"part-{number:05}-of-{total:05}{suffix}"


def is_part(path: str | Path) -> bool:
    """Whether a file has the name of a part."""
    return _NAME.fullmatch(Path(path).name) is not None


def _read(path: Path) -> tuple[int, int, str]:
    """Number, how many there are, and suffix."""
    found = _NAME.fullmatch(path.name)
    assert found is not None
    return int(found[1]), int(found[2]), found[3]


def is_set(files: Sequence[str | Path]) -> bool:
    """Whether these files are all the parts of one set, in their order."""
    paths = [Path(file) for file in files]
    if not paths or not all(map(is_part, paths)) or len({path.parent for path in paths}) > 1:
        return False
    _, total, suffix = _read(paths[0])
    return [path.name for path in paths] == [part_name(number, total, suffix) for number in range(total)]


def check_complete(files: Iterable[Path]) -> None:
    """Raise where a folder holds some parts of a set and not all of them, or anything else besides."""
    folders: dict[Path, list[Path]] = {}
    for file in files:
        folders.setdefault(file.parent, []).append(file)
    for folder, inside in folders.items():
        numbered = sorted(filter(is_part, inside))
        if not numbered or (is_set(numbered) and len(inside) == len(numbered)):
            continue
        first = numbered[0]
        _, total, suffix = _read(first)
        wanted = [folder / part_name(number, total, suffix) for number in range(total)]
        strangers = [path for path in inside if path not in wanted]
        if strangers:
            raise WaypostError(f"{strangers[0]}: is no part of the set that {first.name} belongs to; take it out")
        missing = [path for path in wanted if path not in numbered]
        raise WaypostError(
            f"{missing[0]}: is missing ({len(missing)} of {total} parts are); copy it there, or run the conversion "
            "again, which writes what is missing"
        )


def check_agreement(parts: Sequence[Dataset]) -> None:
    """Raise where the parts of a set are not what one conversion writes."""
    first = parts[0]
    known = _described(first)
    for part in parts[1:]:
        for (what, value), other in zip(known.items(), _described(part).values(), strict=True):
            if value != other:
                raise WaypostError(
                    f"{part.name}: {what} {other}, in {first.name} {value}; the parts of a set must agree: "
                    "one of them is from other data"
                )
    for one, other in pairwise(parts):
        if one.goes_on and not goes_over(one, other):
            raise WaypostError(f"{other.name}: does not begin where {one.name} ends; one of them is from other data")


def _described(part: Dataset) -> dict[str, Any]:
    """What all parts of a set have in common."""
    bounds = {side: getattr(part, side) for side in ("action_low", "action_high")}
    return {
        "columns": widths(part),
        "discrete actions": part.action_count,
        **{side: None if values is None else np.asarray(values).tolist() for side, values in bounds.items()},
        "observation names": part.observation_names,
        "action names": part.action_names,
        "rows side by side": part.history,
        "task": part.task,
    }


def widths(part: Dataset) -> str:
    """The columns and how many numbers each has, in words."""
    return ", ".join(f"{name} {list(values.shape[1:])}" for name, values in part.columns.items())
