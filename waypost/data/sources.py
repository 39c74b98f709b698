"""From a name, a file or a table to a Dataset, and back to a file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from waypost.data.columns import Columns, build
from waypost.data.dataset import Dataset, concatenate
from waypost.errors import WaypostError
from waypost.types import Count

if TYPE_CHECKING:
    from waypost.data.formats import Writer

Source = Any
"""A name, a file, a folder, a mapping of arrays, a pandas or pyarrow table, or a Dataset."""


@dataclass(frozen=True)
class Recipe:
    """How data of some name are made here."""

    name: str
    summary: str
    make: Callable[[int | None, Count | None], Dataset]
    """Makes so many transitions, by default as many as the set has."""
    transitions: int | None = None
    """How many that are, for data that take long to make: they are kept in a file, and NAME-NUMBER is a shorter set."""


RECIPES: dict[str, Recipe] = {}
"""Data that can be made here, by name; `waypost.recording` puts in its own."""


def load(source: Source, columns: Columns | None = None, progress: Count | None = None) -> Dataset:
    """The data of a source, checked: see `read` for what it may be."""
    return read(source, columns, progress).checked()


def read(source: Source, columns: Columns | None = None, progress: Count | None = None) -> Dataset:
    """The data of a source, as far as they are well-formed; NaN and infinities may still be in them.

    a name      built in (`waypost list`), of a replica (`hopper-medium`: recorded on first use and kept in the folder
                $WAYPOST_DATA; `hopper-medium-20000` is one of so many transitions), of a Minari data set
                (`D4RL/antmaze/umaze-v1`), or of a D4RL one (`hopper-medium-v2`) whose file lies where D4RL keeps it
                or in $WAYPOST_DATA
    a file      .npz, .hdf5, .parquet or .csv
    a folder    of a Minari data set, or of such files, taken in the order of their names
    a+b         both, one after the other
    in memory   a mapping of arrays, a pandas or pyarrow table

    `columns` says which fields play which role, where their names do not.
    """
    columns = columns or Columns()
    if isinstance(source, Dataset):
        return source
    if not isinstance(source, str | Path):
        return as_said(_in_memory(source, columns), columns)
    parts = [_one(part, columns, progress) for part in _parts(str(source))]
    return parts[0] if len(parts) == 1 else concatenate(parts, str(source))


def parts(source: str | Path) -> list[str]:
    """The single names and files a source is made of: the members of a mixture, the files of a folder."""
    found = []
    for name in _parts(str(source)):
        path = Path(name).expanduser()
        plain = name not in RECIPES and path.is_dir() and not _is_minari(path)
        found += [str(file) for file in _files(path)] if plain else [name]
    return found


def save(dataset: Dataset, path: str | Path, overwrite: bool = False) -> None:
    """Write the data in the format the name asks for; a name without a suffix makes a Minari folder.

    `load` reads back what was saved, bit for bit.
    """
    writer(path, overwrite)(dataset, Path(path), None)


def writer(path: str | Path, overwrite: bool = False) -> Writer:
    """What writes the format the name asks for; an error where nothing may be written, before any work is done."""
    from waypost.data.formats import FORMATS

    path = Path(path)
    minari = not path.suffix or _looks_like_id(path.name)
    suffix = path.suffix.lower()
    write = next((each.write for each in FORMATS if suffix in each.suffixes or (minari and not each.suffixes)), None)
    if write is None:
        kinds = ", ".join(suffix for each in FORMATS if each.write for suffix in each.suffixes[:1])
        raise WaypostError(f"{path}: data are written as {kinds}, or as a Minari folder without any suffix")
    if path.is_dir() or (path.exists() and not overwrite):
        way_out = "choose another name" if path.is_dir() else "choose another name or --overwrite"
        raise WaypostError(f"{path}: is there already; {way_out}")

    def careful(dataset: Dataset, path: Path, progress: Any) -> None:
        with writing(path):
            write(dataset, path, progress)

    return careful


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """A full disk or a folder that may not be written to, in one line."""
    try:
        yield
    except OSError as error:
        raise WaypostError(f"{path}: cannot be written ({error.strerror or error})") from None


def recorded_task(source: str | Path) -> str | None:
    """The task a file or a Minari set says its rewards belong to, without reading the rows."""
    from waypost.data.formats import BY_SUFFIX, minari

    made = recipe_of(str(source))
    if made is not None:
        return made[0].name
    path = Path(source).expanduser()
    if path.is_file() and path.suffix.lower() in BY_SUFFIX:
        return BY_SUFFIX[path.suffix.lower()].task(path)
    if _looks_like_id(str(source)) and str(source) not in D4RL and not path.exists():
        path = minari.place(str(source))
    return minari.task(path) if _is_minari(path) else None


# -- files and folders -------------------------------------------------------------------------------


def _parts(source: str) -> list[str]:
    """The members of a mixture; a file whose name has a plus in it is one."""
    return [source] if "+" not in source or Path(source).exists() else [part.strip() for part in source.split("+")]


def _one(name: str, columns: Columns, progress: Count | None) -> Dataset:
    made = recipe_of(name)
    if made is not None:
        return _made(*made, progress).named(name)
    path = Path(name).expanduser()
    if path.is_dir():
        return _folder(path, columns)
    if path.is_file() or path.suffix.lower() in _suffixes():
        return _file(path, columns)
    if name in D4RL:
        return _d4rl(name, columns)
    if _looks_like_id(name):
        return _minari(name, columns)
    built_in = ", ".join(name for name, recipe in RECIPES.items() if recipe.transitions is None)
    raise WaypostError(
        f"{name}: neither a file nor a data set of that name; built in are {built_in}; `waypost list` shows replicas, "
        f"files end in {', '.join(_suffixes())}, Minari's names in a version (-v0)"
    )


def _file(path: Path, columns: Columns) -> Dataset:
    from waypost.data.formats import BY_SUFFIX

    if not path.exists():
        raise WaypostError(f"{path}: there is no such file")
    chosen = BY_SUFFIX.get(path.suffix.lower())
    if chosen is None:
        raise WaypostError(f"{path}: not a data file; known are {', '.join(_suffixes())}")
    return as_said(chosen.read(path, columns), columns)


def as_said(dataset: Dataset, columns: Columns) -> Dataset:
    """The data with actions of the kind that was asked for."""
    return dataset if columns.choices is None else dataset.numbered(columns.choices)


def _folder(path: Path, columns: Columns) -> Dataset:
    if _is_minari(path):
        from waypost.data.formats import minari

        return as_said(minari.read(path, columns), columns)
    return concatenate([_file(file, columns) for file in _files(path)], str(path))


def _files(folder: Path) -> list[Path]:
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in _suffixes() and file.is_file())
    if not files:
        raise WaypostError(f"{folder}: holds no data; expected a Minari data set or files {', '.join(_suffixes())}")
    return files


def _suffixes() -> tuple[str, ...]:
    from waypost.data.formats import BY_SUFFIX

    return tuple(BY_SUFFIX)


def _in_memory(source: Any, columns: Columns) -> Dataset:
    if isinstance(source, Mapping):
        arrays = {str(name): np.asarray(values) for name, values in source.items()}
        return build(arrays, columns, "arrays")
    from waypost.data.formats.tables import from_table

    if hasattr(source, "column_names") and hasattr(source, "schema"):
        return from_table(source, columns, "table")
    if hasattr(source, "columns") and hasattr(source, "to_numpy"):
        import pyarrow as pa

        try:
            return from_table(pa.Table.from_pandas(source, preserve_index=False), columns, "table")
        except (pa.ArrowException, TypeError) as error:
            raise WaypostError(f"table: {' '.join(str(error).split())}") from None
    raise WaypostError(
        f"cannot read data from a {type(source).__name__}; give a name, a path, a mapping of arrays, a pandas or "
        "pyarrow table, or a Dataset"
    )


# -- names of others ---------------------------------------------------------------------------------


def _d4rl_files() -> dict[str, str]:
    files = {
        f"{robot}-{quality}-v{version}": f"{robot}_{quality.replace('-', '_')}-v{version}.hdf5"
        for robot in ("hopper", "halfcheetah", "walker2d", "ant")
        for quality in ("random", "medium", "expert", "medium-replay", "medium-expert", "full-replay")
        for version in (1, 2)
    }
    for name, maze, starts, goals in (
        ("umaze", "u-maze", False, False),
        ("umaze-diverse", "u-maze", True, True),
        ("medium-play", "big-maze", True, False),
        ("medium-diverse", "big-maze", True, True),
        ("large-play", "hardest-maze", True, False),
        ("large-diverse", "hardest-maze", True, True),
    ):
        files[f"antmaze-{name}-v2"] = f"Ant_maze_{maze}_noisy_multistart_{starts}_multigoal_{goals}_sparse_fixed.hdf5"
    for size in ("umaze", "medium", "large"):
        files[f"maze2d-{size}-v1"] = f"maze2d-{size}-sparse-v1.hdf5"
        files[f"maze2d-{size}-dense-v1"] = f"maze2d-{size}-dense-v1.hdf5"
    return files


D4RL = _d4rl_files()
"""D4RL's data sets and the files they come in."""


def data_folder() -> Path:
    """Where replicas are kept and files are looked for by name: $WAYPOST_DATA, or a folder of the user's."""
    return Path(os.environ.get("WAYPOST_DATA") or "~/.waypost/data").expanduser()


def data_folders() -> list[Path]:
    """Where D4RL's files are looked for: our folder, then its own."""
    own = os.environ.get("D4RL_DATASET_DIR") or "~/.d4rl/datasets"
    return [data_folder(), Path(own).expanduser()]


def recipe_of(name: str) -> tuple[Recipe, int | None] | None:
    """How the data of a name are made and how many transitions of them are meant; None if they are not made here.

    hopper-medium is the whole set, hopper-medium-20000 one of 20 000 transitions.
    """
    if name in RECIPES:
        return RECIPES[name], None
    whole, _, number = name.rpartition("-")
    short = whole in RECIPES and RECIPES[whole].transitions and re.fullmatch("[1-9][0-9]*", number)
    return (RECIPES[whole], int(number)) if short else None


def kept_file(name: str, transitions: int | None = None, seed: int = 0) -> Path:
    """Where data that take long to make are kept; the plain name is that of the whole set with seed 0."""
    usual = transitions in (None, RECIPES[name].transitions)
    return data_folder() / f"{name}{'' if usual else f'-{transitions}'}{f'-seed{seed}' if seed else ''}.npz"


def _made(recipe: Recipe, transitions: int | None, progress: Count | None) -> Dataset:
    """Made on the spot, or once and kept."""
    if recipe.transitions is None:
        return recipe.make(None, progress)
    file = kept_file(recipe.name, transitions)
    if not file.is_file():
        save(recipe.make(transitions, progress), file)
    return _file(file, Columns())


def _d4rl(name: str, columns: Columns) -> Dataset:
    for folder in data_folders():
        for file in (folder / D4RL[name], folder / f"{name}.hdf5"):
            if file.is_file():
                return _file(file, columns).named(name)
    raise WaypostError(
        f"{name}: a D4RL data set whose file is not here; put {D4RL[name]} into {data_folders()[-1]} or into a folder "
        "that the variable WAYPOST_DATA names"
    )


def _looks_like_id(name: str) -> bool:
    return re.fullmatch(r"[-\w]+(/[-\w]+)*-v\d+", name) is not None


def _is_minari(path: Path) -> bool:
    from waypost.data.formats.minari import is_minari

    return is_minari(path)


def _minari(name: str, columns: Columns) -> Dataset:
    """From Minari's local store, or downloaded into it by Minari's own client."""
    from waypost.data.formats import minari

    folder = minari.stored(name)
    return as_said(minari.read(folder, columns), columns).named(name)
