"""Minari's folders, read and written with Minari's own storage."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import minari
import numpy as np
from gymnasium import registry, spaces
from minari.data_collector import EpisodeBuffer
from minari.dataset.minari_storage import MinariStorage
from minari.serialization import deserialize_space
from minari.storage.datasets_root_dir import get_dataset_path

from waypost.data.columns import unchecked
from waypost.data.dataset import Dataset
from waypost.data.formats import inside, minari_folder
from waypost.data.formats.arrays import MARK, facts_of, read_facts, task_of
from waypost.data.formats.hdf5 import Unfailing, claim, visit_arrays
from waypost.data.formats.sizes import Claims
from waypost.data.pipeline import Pipeline
from waypost.data.roles import Columns
from waypost.data.table import Reward
from waypost.data.validation import MOST_ACTIONS
from waypost.errors import WaypostError
from waypost.files import make_folder, remove_folders, unused_name
from waypost.spaces import flattener
from waypost.types import Count

GOAL_KEYS = {"achieved_goal", "desired_goal", "observation"}
REACHED = 0.45
"""Distance within which the goal counts as reached in Gymnasium-Robotics' mazes."""
LARGEST_METADATA = 1 << 24
"""Bytes; a space has two bounds for every number of a state."""
MOST_FILES = 1_000_000
"""Files of a folder, or entries of a file."""
CONTACT_SIZE = 105
"""Size of the ant's state in version 5 with contact forces."""
MAZES = {"antmaze": ("achieved_goal", "observation"), "pointmaze": ("observation", "desired_goal")}
"""Parts of the state in a maze: D4RL's 29 numbers for the ant; for the ball its state and its goal."""


def place(name: str) -> Path:
    """The folder of a set in Minari's local store, whether it exists or not."""
    return Path(get_dataset_path(name))


def stored(name: str) -> Path:
    """The folder of a set in Minari's local store; Minari's own client downloads it if it is missing."""
    folder = place(name)
    if minari_folder(folder) is None:
        try:
            minari.download_dataset(name)
        except Exception as error:
            reason = " ".join(str(error).split())[:200]
            raise WaypostError(
                f"{name}: not a file, not in Minari's store ({folder}), and it could not be downloaded ({reason}); "
                "see `minari list remote` for all names"
            ) from None
    return folder


def read(path: Path, columns: Columns, pipeline: Pipeline, reward: Reward | None) -> Dataset:
    folder, metadata = _metadata(path)
    for space in ("observation_space", "action_space"):
        # Minari would make the environment to find out, which may run any code.
        if not isinstance(metadata.get(space), str):
            raise WaypostError(f"{folder / 'metadata.json'}: has no {space}; write the data set again with it")
        _check_space(json.loads(metadata[space]))
    for role in ("rewards", "actions"):
        if getattr(columns, role):
            raise WaypostError(f"{path}: in a Minari data set only --columns.observations can be chosen, not {role}")
    size = _check_files(path, folder)
    Claims(path, size).add("its steps", 4 * int(metadata.get("total_steps", 0)), size)
    storage, claims = MinariStorage.read(folder), Claims(path, size)
    episodes: list[dict[str, Any]] = []
    for episode in storage.get_episodes(range(storage.total_episodes)):
        # Several episodes may be links to the same one.
        claims.add(f"episode {len(episodes)}", _bytes(episode), size)
        episodes.append(episode)
    if not episodes:
        raise WaypostError(f"{path}: has no episodes")
    if MARK in metadata and not columns.roles:
        return _ours(episodes, metadata[MARK], storage.action_space, str(path))
    states = _as_declared(storage.observation_space, json.loads(metadata["observation_space"]))
    return _others(episodes, states, storage.action_space, columns, str(path), _environment(metadata))


def task(path: Path) -> str | None:
    """The environment the data were recorded in, or their task if Waypost wrote them."""
    _, metadata = _metadata(path)
    if MARK in metadata:
        return task_of(metadata[MARK])
    if not isinstance(metadata.get("observation_space"), str):
        return None
    _check_space(json.loads(metadata["observation_space"]))
    return _task(_environment(metadata), deserialize_space(metadata["observation_space"]))


def _metadata(path: Path) -> tuple[Path, dict[str, Any]]:
    """The folder with the files, and its metadata."""
    folder = inside(path, minari_folder(path) or path)
    file = inside(path, folder / "metadata.json")
    if file.stat().st_size > LARGEST_METADATA:
        raise ValueError(f"metadata.json has {file.stat().st_size} bytes")
    metadata = json.loads(file.read_text())
    if not isinstance(metadata, dict):
        raise ValueError(f"metadata.json holds a {type(metadata).__name__}, not an object with names")
    return folder, metadata


def _check_space(record: Any) -> None:
    """Refuse spaces that are too large before they are made: some allocate arrays of their size."""
    if not isinstance(record, dict):
        raise ValueError(f"a space is a {type(record).__name__}, not an object with names")
    subspaces = record.get("subspaces") or ()
    for part in subspaces.values() if isinstance(subspaces, dict) else subspaces:
        _check_space(part)
    sizes = [record.get("shape", ()), record.get("n", ())]
    if any(math.prod(np.atleast_1d(size).tolist()) > MOST_ACTIONS for size in sizes):
        raise ValueError(f"a space of more than {MOST_ACTIONS} numbers or choices")


def _check_files(path: Path, folder: Path) -> int:
    """Bytes of the files, after checking that all are in the folder and that none claims more than it has."""
    size = 0
    for number, file in enumerate(folder.rglob("*")):
        if number > MOST_FILES:
            raise ValueError(f"more than {MOST_FILES} files")
        if inside(path, file).is_dir():
            continue
        if not file.is_file():
            raise WaypostError(f"{file}: is a pipe or a device; a regular file is needed")
        size += file.stat().st_size
        if file.suffix == ".hdf5":
            with h5py.File(file, "r") as opened:
                claims = Claims(file)
                visit_arrays(opened, file, partial(claim, claims), MOST_FILES)
    return size


def _bytes(values: Any) -> int:
    """Bytes of the arrays in an episode."""
    if isinstance(values, dict | list | tuple):
        return sum(map(_bytes, values.values() if isinstance(values, dict) else values))
    return getattr(values, "nbytes", 8)


def _task(env: dict[str, Any], states: Any) -> str | None:
    """The environment to evaluate in, if its name alone is enough to make it."""
    plain = not env.get("kwargs") and not env.get("additional_wrappers")
    known = isinstance(env.get("id"), str) and env["id"] in registry
    return env["id"] if plain and known and isinstance(states, spaces.Box) else None


def _environment(metadata: dict[str, Any]) -> dict[str, Any]:
    env = json.loads(metadata["env_spec"]) if isinstance(metadata.get("env_spec"), str) else {}
    return env if isinstance(env, dict) else {}


def _as_declared(space: Any, record: dict[str, Any]) -> Any:
    """The space with the keys of a Dict in the order they were written; Gymnasium sorts them when it reads one."""
    if isinstance(space, spaces.Dict):
        parts = record["subspaces"].items()
        return spaces.Dict([(key, _as_declared(space.spaces[key], part)) for key, part in parts])
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([_as_declared(*each) for each in zip(space.spaces, record["subspaces"], strict=True)])
    return space


def _ours(episodes: list[dict[str, Any]], record: dict[str, Any], actions: Any, name: str) -> Dataset:
    """A set written by `write`: infos hold what Minari does not store."""
    parts = []
    for episode in episodes:
        part = _rows(episode, np.asarray(episode["observations"]), name)
        part["next_valid"] = np.ones(len(part["rewards"]), bool)
        infos = episode["infos"] or {}
        part |= {field: np.asarray(infos[field]) for field in ("next_valid", "next_observations") if field in infos}
        parts.append(part)
    rows, facts = _joined(parts), read_facts(record)
    facts |= {"action_low": actions.low, "action_high": actions.high} if facts["action_count"] is None else {}
    for field in ("actions", "rewards"):
        if not record[field]:
            del rows[field]
    return unchecked(**rows, **facts, name=name)


def _others(
    episodes: list[dict[str, Any]], states: Any, actions: Any, columns: Columns, name: str, env: dict[str, Any]
) -> Dataset:
    """A set that Waypost did not write."""
    words = (str(env.get("id", "")) + name).lower().replace("_", "").replace("-", "")
    # Whether this is a maze that continues after success, and which.
    goals = isinstance(states, spaces.Dict) and set(states.spaces) == GOAL_KEYS
    maze = next((maze for maze in MAZES if goals and maze in words), None)
    flat, names = flattener(states, columns.observations or (MAZES[maze] if maze else ()), name)
    if isinstance(states, spaces.Box):
        names = ()  # its numbers have no names of their own
    if not isinstance(actions, spaces.Box | spaces.Discrete):
        raise WaypostError(f"{name}: actions are {actions}; a Box of numbers or Discrete is needed")
    parts = [_rows(episode, flat(episode["observations"]), name) for episode in episodes]
    notes: tuple[str, ...] = ()
    if maze:
        recorded = sum(len(part["rewards"]) for part in parts)
        pairs = zip(parts, episodes, strict=True)
        parts = [_ended_by_success(part, episode["observations"]) for part, episode in pairs]
        left_out = recorded - sum(len(part["rewards"]) for part in parts)
        ends = f"the task ends where the goal is reached; {left_out} rows that begin there are left out"
        notes = (f"read as {maze} that never ends: {ends}",)
    rows = _joined(parts)
    if isinstance(actions, spaces.Discrete):
        rows["action_count"] = int(actions.n)
        if actions.start != 0:
            rows["actions"] = rows["actions"] - actions.start
            notes += (f"discrete actions are 0 and up here, {actions.start} and up in the file and its environment",)
    else:
        rows |= {"action_low": actions.low.reshape(-1), "action_high": actions.high.reshape(-1)}
    if maze == "antmaze" and states["observation"].shape == (CONTACT_SIZE,):
        notes += (f"the ant's state has {CONTACT_SIZE} numbers, with contact forces; D4RL's has 27",)
    return unchecked(**rows, name=name, task=_task(env, states), observation_names=names, notes=notes)


def _rows(episode: dict[str, Any], seen: np.ndarray, name: str) -> dict[str, np.ndarray]:
    """One row per step: an episode of T steps has T + 1 states, so every next state is real."""
    steps = len(episode["rewards"])
    if len(seen) != steps + 1:
        raise WaypostError(
            f"{name}: episode {episode['id']} has {len(seen)} states for {steps} steps; one more than steps is needed"
        )
    return {
        "observations": seen[:-1],
        "next_observations": seen[1:],
        "actions": np.asarray(episode["actions"]).reshape(steps, -1),
        "rewards": np.asarray(episode["rewards"], np.float64),
        "terminals": np.asarray(episode["terminations"]).reshape(-1) != 0,
        "timeouts": (np.asarray(episode["truncations"]).reshape(-1) != 0) | (np.arange(steps) == steps - 1),
    }


def _joined(parts: list[dict[str, np.ndarray]]) -> dict[str, Any]:
    return {field: np.concatenate([part[field] for part in parts]) for field in parts[0]}


def _ended_by_success(rows: dict[str, np.ndarray], seen: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The rows with a terminal where the goal is reached, and without those that began there."""
    at, goal = np.asarray(seen["achieved_goal"]), np.asarray(seen["desired_goal"])[:-1]
    reached = np.linalg.norm(at[1:] - goal, axis=1) <= REACHED
    kept = np.linalg.norm(at[:-1] - goal, axis=1) > REACHED
    rows = rows | {"terminals": rows["terminals"] | reached}
    return {field: values[kept] for field, values in rows.items()}


def write(dataset: Dataset, path: Path, progress: Count | None = None) -> None:
    """A folder that Minari reads; missing columns are written as NaN, so that they are not taken for zeros."""
    size, count = dataset.action_size or 1, dataset.action_count
    low = -np.ones(size, np.float32) if dataset.action_low is None else dataset.action_low
    high = np.ones(size, np.float32) if dataset.action_high is None else dataset.action_high
    path = path.absolute()  # Minari needs an absolute path
    made, temporary = make_folder(path.parent), unused_name(path)
    # A version is part of the set's name in Minari.
    name = path.name if path.name.rpartition("-v")[2].isdigit() else f"{path.name}-v0"
    present = {"actions": dataset.actions is not None, "rewards": dataset.rewards is not None}
    try:
        temporary.mkdir()
        storage = MinariStorage.new(
            temporary / "data",
            observation_space=spaces.Box(-np.inf, np.inf, (dataset.observation_size,), np.float32),
            action_space=spaces.Discrete(count) if count else spaces.Box(low, high, dtype=np.float32),
        )
        record = {"dataset_id": name, "minari_version": minari.__version__, MARK: facts_of(dataset) | present}
        storage.update_metadata(record)
        with (temporary / "data" / "main_data.hdf5").open("rb+", buffering=0) as stream:
            storage._file_path = careful = Unfailing(stream)
            storage.update_episodes(_buffers(dataset, size, progress, careful))
            careful.check()
        temporary.replace(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        remove_folders(made)
        raise


def _buffers(dataset: Dataset, action_size: int, progress: Count | None, file: Unfailing) -> Iterator[EpisodeBuffer]:
    rows, inside = len(dataset), ~dataset.ends[:-1]
    actions = np.full((rows, action_size), np.nan, np.float32) if dataset.actions is None else dataset.actions
    actions = actions[:, 0].astype(np.int64) if dataset.action_count else actions
    rewards = np.full(rows, np.nan, np.float32) if dataset.rewards is None else dataset.rewards
    # Minari has one state between two steps: where the next state differs slightly from the next row's, both are kept.
    exact = np.array_equal(dataset.next_observations[:-1][inside], dataset.observations[1:][inside])
    for first, length in zip(dataset.episode_starts, dataset.episode_lengths, strict=True):
        part = slice(first, first + length)
        kept = {"next_valid": not dataset.next_valid[part].all(), "next_observations": not exact}
        infos = {column: getattr(dataset, column)[part] for column, needed in kept.items() if needed}
        yield EpisodeBuffer(
            observations=np.append(dataset.observations[part], dataset.next_observations[part][-1:], axis=0),
            actions=actions[part],
            rewards=rewards[part],
            terminations=dataset.terminals[part],
            truncations=dataset.timeouts[part],
            infos=infos,
        )
        file.check()
        if progress is not None:
            progress(int(first + length), rows)
