"""From a name, a file or a table to a Dataset, and back to a file."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from waypost.data import encoding, validation
from waypost.data.columns import Fields, build, choose
from waypost.data.dataset import Dataset
from waypost.data.derive import rewarded, with_history
from waypost.data.expressions import parse
from waypost.data.formats import BY_SUFFIX, FILES, MINARI, SUFFIXES, TABLE, inside, minari_folder, suffix_of, writing
from waypost.data.joining import concatenate
from waypost.data.missing import marked
from waypost.data.names import is_pattern, joined, members
from waypost.data.numbered import check_agreement, check_complete, is_part, is_set
from waypost.data.pipeline import Pipeline, Reading, with_choices
from waypost.data.roles import Columns
from waypost.data.table import Reward
from waypost.errors import WaypostError
from waypost.files import expanded, writable
from waypost.locks import alone
from waypost.resources import available_memory
from waypost.schema import conform
from waypost.types import Count

LEARNED = ("observations", "actions", "rewards", "next_observations")
"""Roles whose columns may have categories and means."""
MOST_ENTRIES = 20_000
"""Most files and folders that are searched for data."""
Source = Any
"""A name, a file, a folder, a pattern, several of these, a mapping of arrays, a table, or a Dataset."""


@dataclass(frozen=True)
class Recipe:
    """How data of a name are generated."""

    name: str
    summary: str
    make: Callable[[int | None, Count | None], Dataset]
    """Generates that many transitions, by default all of the set."""
    transitions: int | None = None
    """Size of the set, for data that take long to record: they are kept in a file, and NAME-NUMBER is a shorter set."""
    row_size: int = 0
    """Approximate bytes per transition in that file."""


RECIPES: dict[str, Recipe] = {}
"""Data that can be generated, by name; `waypost.recording` registers its own."""


def load(
    source: Source,
    columns: Columns | None = None,
    progress: Count | None = None,
    *,
    pipeline: Pipeline | None = None,
    reward: Reward | str | None = None,
) -> Dataset:
    """Read data from a source and check them.

    `source` may be

    - a built-in name (`waypost list` shows all), such as `four-rooms`
    - the name of a replica, such as `hopper-medium`: recorded on first use and kept in the folder `$WAYPOST_DATA`;
      `hopper-medium-20000` has 20 000 transitions
    - the name of a Minari data set, such as `D4RL/antmaze/umaze-v1`
    - the name of a D4RL data set, such as `hopper-medium-v2`, whose file lies where D4RL keeps it or in `$WAYPOST_DATA`
    - a file: `.npz`, `.hdf5`, `.h5`, `.parquet`, `.csv` or `.tsv`, also `.csv.gz` and `.csv.zst`
    - a folder: a Minari data set, or such files, also in folders inside it, in the order of their names
    - a pattern: `logs/*.csv`, `logs/**/*.csv`
    - several of these, joined by `+` or as a list: one after the other
    - a mapping of arrays, a pandas or pyarrow table, or a `Dataset`

    `columns` gives fields their roles where their names do not. `pipeline` says how a log is read: missing values,
    text, time stamps, history. `reward` is an expression over columns ("-abs(temp - 60)"), or a function from the
    columns by name, with `next_NAME` for the next row, to a reward for each row. `progress` is called with the number
    of recorded transitions and their total while a replica is recorded.

    Raises `WaypostError` with one line if something is missing, damaged, NaN or infinite.
    """
    return read(source, columns, progress, pipeline=pipeline, reward=reward).checked()


def read(
    source: Source,
    columns: Columns | None = None,
    progress: Count | None = None,
    *,
    pipeline: Pipeline | None = None,
    reward: Reward | str | None = None,
) -> Dataset:
    """What `load` reads, but NaN and infinities are still in it."""
    columns = conform(columns or Columns(), Columns, "columns")
    pipeline = with_choices(conform(pipeline or Pipeline(), Pipeline, "pipeline"), columns)
    if isinstance(reward, str):
        pipeline, reward = replace(pipeline, reward=reward), None
    if isinstance(source, list | tuple):
        source = joined(source)
    if isinstance(source, Dataset):
        same = source.reading is not None and source.reading.pipeline == pipeline
        return source if same and reward is None else _derived(source, columns, pipeline, reward)
    if isinstance(source, str | Path):
        names = parts(source)
        pipeline = learn(names, columns, pipeline)
        if names == [str(source)]:
            return _one(names[0], columns, pipeline, reward, progress)
        return _several(source, names, columns, pipeline, reward, progress)
    if isinstance(source, Mapping):
        fields = {str(name): partial(np.asarray, values) for name, values in source.items()}
        pipeline = _learned([("arrays", fields)], columns, pipeline)
        dataset = build(fields, columns, "arrays", pipeline=pipeline, reward=reward)
    elif hasattr(source, "columns") and hasattr(source, "to_numpy") and not hasattr(source, "column_names"):
        return read(TABLE.code("reading").of_pandas(source, "table"), columns, pipeline=pipeline, reward=reward)
    elif hasattr(source, "column_names") and hasattr(source, "schema"):
        code = TABLE.code("reading")
        pipeline = _learned([("table", code.fields_of(source, "table"))], columns, pipeline)
        dataset = code.from_table(source, columns, "table", pipeline, reward)
    else:
        raise WaypostError(
            f"cannot read data from a {type(source).__name__}; give a name, a path, a mapping of arrays, a pandas or "
            "pyarrow table, or a Dataset"
        )
    return with_history(columns.declared(dataset), pipeline.history)


def _derived(dataset: Dataset, columns: Columns, pipeline: Pipeline, reward: Reward | None) -> Dataset:
    """The data with what the pipeline derives from states and actions, for data that are not a log."""
    reward = parse(pipeline.reward) if reward is None and pipeline.reward is not None else reward
    dataset = dataset if reward is None else rewarded(dataset, reward)
    dataset = dataset if pipeline.plain else replace(dataset, reading=Reading(columns, pipeline))
    return with_history(dataset, pipeline.history)


def _one(name: str, columns: Columns, pipeline: Pipeline, reward: Reward | None, progress: Count | None) -> Dataset:
    """What a single name, file or Minari folder holds."""
    dataset = _as_recorded(name, columns, pipeline, reward, progress)
    if dataset.reading is None:
        return _derived(dataset, columns, pipeline, reward)
    return with_history(dataset, pipeline.history)


def _several(
    source: str | Path,
    names: list[str],
    columns: Columns,
    pipeline: Pipeline,
    reward: Reward | None,
    progress: Count | None,
) -> Dataset:
    """What several names hold, one after another."""
    one_set = is_set(names)
    # Where episodes go over from one part to the next, only the whole knows what came before a row.
    alone = replace(pipeline, history=1) if one_set else pipeline
    found: list[Dataset] = []
    for name in _affordable(source, names):
        found.append(_one(name, columns, alone, reward, progress))
        validation.same_sizes(found[0], found[-1])
    if not one_set:
        return concatenate(found, str(source))
    check_agreement(found)
    whole = concatenate(found, str(source))
    whole = whole if pipeline.plain else replace(whole, reading=Reading(columns, pipeline))
    return with_history(whole, pipeline.history)


def learn(names: Sequence[str], columns: Columns, pipeline: Pipeline) -> Pipeline:
    """The pipeline with what it must learn from all files first: categories and means."""

    def opened() -> Iterator[tuple[str, Fields]]:
        for name in names:
            path = expanded(name)
            if recipe_of(name) is None and suffix_of(path) in BY_SUFFIX:
                with BY_SUFFIX[suffix_of(path)].fields(path, pipeline) as fields:
                    yield name, fields

    return _learned(opened(), columns, with_choices(pipeline, columns))


def _learned(sources: Iterable[tuple[str, Fields]], columns: Columns, pipeline: Pipeline) -> Pipeline:
    if not pipeline.learns:
        return pipeline

    mentioned = [] if pipeline.reward is None else parse(pipeline.reward).names
    roles = columns if pipeline.reward is None else replace(columns, rewards=None)

    def known() -> Iterator[tuple[str, np.ndarray]]:
        for name, fields in ((name, fields) for name, fields in sources if fields):
            chosen, _ = choose(list(fields), roles, name)
            used = [field for role in LEARNED for field in chosen.get(role, ())]
            used += [field for word in mentioned if (field := word.removeprefix("next_")) in fields]
            for field in dict.fromkeys(used):
                values = marked(field, np.asarray(fields[field]()), pipeline)
                yield field, encoding.as_words(field, values, pipeline)

    return replace(pipeline, learned=encoding.learn(known(), pipeline))


def parts(source: str | Path) -> list[str]:
    """The single names and files a source is made of: members of a mixture, files of a folder or a pattern."""
    found: list[str] = []
    for name in members(source):
        if not name:
            raise WaypostError(f"{str(source)!r}: no data named; give a name, a file, a folder, or several joined by +")
        path = expanded(name)
        if is_pattern(name) and not path.exists():
            matching = sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
            if not matching:
                raise WaypostError(f"{name}: no file matches this pattern")
            found += [each for match in matching for each in (_files(match) if match.is_dir() else [str(match)])]
        elif recipe_of(name) or not path.is_dir() or minari_folder(path):
            found.append(name)
        else:
            found += _files(path)
    return found


def _files(folder: Path) -> list[str]:
    """The files of a folder and its subfolders, sorted by name."""
    if minari_folder(folder):
        return [str(folder)]
    files: list[Path] = []
    looked_at = 0
    for place, folders, names in os.walk(folder):
        looked_at += len(folders) + len(names)
        if looked_at > MOST_ENTRIES:
            raise WaypostError(f"{folder}: holds more than {MOST_ENTRIES} files and folders; name those that hold data")
        folders[:] = [each for each in folders if not each.startswith(".")]
        data = [name for name in names if suffix_of(Path(name)) in BY_SUFFIX and not name.startswith(".")]
        files += [Path(place, name) for name in data]
    if not files:
        raise WaypostError(f"{folder}: holds no data; expected a Minari data set or files {SUFFIXES}")
    check_complete(files)
    return [str(inside(folder, file)) for file in sorted(files)]


def _affordable(source: str | Path, names: list[str]) -> list[str]:
    """The parts, if their files fit in memory together: a folder may hold far too much."""
    paths = map(expanded, names)
    size, free = sum(path.stat().st_size for path in paths if path.is_file()), available_memory()
    if size > free:
        raise WaypostError(
            f"{source}: {len(names)} parts of {size / 1e9:.1f} GB, {free / 1e9:.1f} GB of memory are free; "
            "see docs/large-data.md on data larger than memory"
        )
    return names


def recorded_task(source: str | Path) -> str | None:
    """The task recorded in a file or a Minari set, without reading the rows."""
    made = recipe_of(str(source))
    if made is not None:
        return made[0].name
    path = expanded(source)
    if path.is_dir() and any(map(is_part, path.iterdir())):
        return recorded_task(parts(path)[0])
    if path.is_file() and suffix_of(path) in BY_SUFFIX:
        return BY_SUFFIX[suffix_of(path)].task(path)
    if _looks_like_id(str(source)) and str(source) not in D4RL and not path.exists():
        path = MINARI.code(f"{source}: reading").place(str(source))
    return MINARI.task(path) if minari_folder(path) else None


def _as_recorded(
    name: str, columns: Columns, pipeline: Pipeline, reward: Reward | None, progress: Count | None
) -> Dataset:
    how = columns, pipeline, reward
    made = recipe_of(name)
    if made is not None:
        recipe, transitions = made
        if recipe.transitions is None:
            return _generated(recipe).named(name)
        file = kept_file(recipe.name, transitions)
        if not file.is_file():
            with writing(file):
                writable(file, recipe.row_size * (transitions or recipe.transitions))
            with alone(file):
                # Another process may have recorded it in the meantime.
                if not file.is_file():
                    save(recipe.make(transitions, progress), file, overwrite=True)
        return BY_SUFFIX[".npz"].read(file, Columns()).named(name)
    path = expanded(name)
    if minari_folder(path):
        return MINARI.read(path, *how)
    if suffix_of(path) in BY_SUFFIX:
        return BY_SUFFIX[suffix_of(path)].read(path, *how)
    if path.exists():
        raise WaypostError(f"{path}: not a data file; files end in {SUFFIXES}")
    if name in D4RL:
        own = expanded(os.environ.get("D4RL_DATASET_DIR") or "~/.d4rl/datasets")
        for file in (folder / each for folder in (data_folder(), own) for each in (D4RL[name], f"{name}.hdf5")):
            if file.is_file():
                return BY_SUFFIX[".hdf5"].read(file, *how).named(name)
        raise WaypostError(
            f"{name}: the file of this D4RL data set is missing; put {D4RL[name]} into {own} or into the folder "
            "named by WAYPOST_DATA"
        )
    if _looks_like_id(name):
        return MINARI.read(MINARI.code(f"{name}: reading").stored(name), *how).named(name)
    built_in = ", ".join(name for name, recipe in RECIPES.items() if recipe.transitions is None)
    raise WaypostError(
        f"{name}: neither a file nor a data set of that name; built in are {built_in}; `waypost list` shows replicas, "
        f"files end in {SUFFIXES}, Minari's names in a version (-v0)"
    )


def save(dataset: Dataset, path: str | Path, overwrite: bool = False) -> None:
    """Write data to a file in the format its name asks for: `.npz`, `.hdf5`, `.h5` or `.parquet`.

    A name without a suffix, or with a version at its end (`log-v0`), makes a Minari folder. `load` reads back what was
    saved, bit for bit. An existing file is replaced only with `overwrite`, a folder never. The file appears when it is
    complete; an error leaves the old one.
    """
    writer(path, overwrite)(dataset, Path(path), None)


def writer(path: str | Path, overwrite: bool = False) -> Callable[[Dataset, Path, Count | None], None]:
    """The writer of the format the name asks for; raises where nothing may be written, before any work is done."""
    path = expanded(path)
    chosen = MINARI if not path.suffix or _looks_like_id(path.name) else BY_SUFFIX.get(suffix_of(path))
    if chosen is None or not chosen.writes:
        kinds = ", ".join(each.suffixes[0] for each in FILES if each.writes)
        raise WaypostError(f"{path}: data can be written as {kinds}, or as a Minari folder without a suffix")
    if path.is_dir() or (path.exists() and not overwrite):
        raise WaypostError(f"{path}: already exists; choose another name{'' if path.is_dir() else ' or --overwrite'}")
    chosen.code(f"{path}: writing")

    def careful(dataset: Dataset, path: Path, progress: Count | None) -> None:
        with writing(path):
            chosen.write(dataset, expanded(path), progress)

    return careful


D4RL: dict[str, str] = tomllib.loads(Path(__file__).with_name("d4rl.toml").read_text())
"""D4RL's data sets and their files."""


def data_folder() -> Path:
    """Where replicas are kept and files are found by name: $WAYPOST_DATA, or a folder in the home directory."""
    return expanded(os.environ.get("WAYPOST_DATA") or "~/.waypost/data")


def recipe_of(name: str) -> tuple[Recipe, int | None] | None:
    """The recipe of a name and the number of transitions it asks for; None if there is no recipe.

    hopper-medium is the whole set, hopper-medium-20000 one of 20 000 transitions.
    """
    if name in RECIPES:
        return RECIPES[name], None
    whole, _, number = name.rpartition("-")
    short = whole in RECIPES and RECIPES[whole].transitions and re.fullmatch("[1-9][0-9]{0,9}", number)
    return (RECIPES[whole], int(number)) if short else None


@lru_cache(maxsize=4)
def _generated(recipe: Recipe) -> Dataset:
    """Small data, generated in less than a second; they are read-only, so a process generates them once."""
    return recipe.make(None, None)


def kept_file(name: str, transitions: int | None = None, seed: int = 0) -> Path:
    """The file of data that take long to record; the plain name is the whole set with seed 0."""
    usual = transitions in (None, RECIPES[name].transitions)
    return data_folder() / f"{name}{'' if usual else f'-{transitions}'}{f'-seed{seed}' if seed else ''}.npz"


def _looks_like_id(name: str) -> bool:
    return re.fullmatch(r"[-\w]+(/[-\w]+)*-v\d+", name) is not None
