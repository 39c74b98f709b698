"""From a name or a file to a Dataset, and back to a file."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from waypost.checkpoint import write_bytes
from waypost.data.collect import four_rooms
from waypost.data.dataset import Dataset
from waypost.data.t_maze import collect_t_maze
from waypost.errors import WaypostError

BUILT_IN: dict[str, tuple[str, Callable[[], Dataset]]] = {
    "four-rooms": ("100 000 transitions of a goal-reaching controller and a random policy", four_rooms),
    "four-rooms-river": ("the same transitions, rewarded by the river task", lambda: four_rooms("four-rooms-river")),
    "four-rooms-key": ("the same transitions with and without the key", lambda: four_rooms("four-rooms-key")),
    "t-maze": ("80 journeys past the junction of a T, 20 from the other side to the goal", collect_t_maze),
}
"""Data sets made on the spot, by name: what they are, and how."""

_ARRAYS = ("observations", "actions", "rewards", "next_observations", "terminals", "timeouts", "next_valid")
_BOUNDS = ("action_low", "action_high")


def load(source: str | Path | Dataset) -> Dataset:
    """The data of that name or file.

    A built-in name (`waypost list` shows them) or an `.npz` file with the arrays `observations` and, as far as
    there are any, `actions`, `rewards`, `next_observations`, `terminals`, `timeouts`, `next_valid`,
    `action_low`, `action_high`.
    """
    if isinstance(source, Dataset):
        return source
    if str(source) in BUILT_IN:
        return BUILT_IN[str(source)][1]()
    path = Path(source)
    if path.suffix != ".npz":
        raise WaypostError(
            f"{source}: neither a built-in data set ({', '.join(BUILT_IN)}) nor an .npz file (see `waypost list`)"
        )
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            if "observations" not in file:
                raise WaypostError(
                    f"{path}: has no array 'observations'; it has {', '.join(sorted(file)) or 'nothing'}"
                )
            arrays = {name: file[name] for name in (*_ARRAYS, *_BOUNDS) if name in file}
            task = str(file["task"]) if "task" in file else None
    except FileNotFoundError:
        raise WaypostError(f"{path}: there is no such file") from None
    except (zipfile.BadZipFile, ValueError, OSError, EOFError) as error:
        raise WaypostError(f"{path}: damaged or not an .npz file ({error})") from None
    return Dataset.from_arrays(**arrays, name=str(source), task=task)


def save(dataset: Dataset, path: str | Path) -> None:
    """Write an `.npz` file that `load` reads back as it was."""
    path = Path(path)
    if path.suffix != ".npz":
        raise WaypostError(f"{path}: data are saved as .npz; choose such a name")
    arrays = {name: getattr(dataset, name) for name in (*_ARRAYS, *_BOUNDS, "task")}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{name: values for name, values in arrays.items() if values is not None})
    write_bytes(path, buffer.getvalue())
