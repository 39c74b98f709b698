"""Minari's folders, read and written by Minari's own storage."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from waypost.data.columns import Columns
from waypost.data.dataset import Dataset
from waypost.data.formats.arrays import facts_of, read_facts, task_of
from waypost.data.formats.reading import plausible, reading
from waypost.errors import WaypostError

MARK = "waypost"
GOAL_KEYS = {"achieved_goal", "desired_goal", "observation"}
REACHED = 0.45
"""How near the goal an ant or a ball has reached it, in Gymnasium-Robotics' mazes."""
CONTACT_SIZE = 105
"""Numbers of the ant's state in version 5, unless its contact forces are left out."""
MAZES = {"antmaze": ("achieved_goal", "observation"), "pointmaze": ("observation", "desired_goal")}
"""What makes up the state in a maze: D4RL's 29 numbers for the ant; for the ball, its state and where to go."""


def is_minari(path: Path) -> bool:
    return path.is_dir() and _data(path).joinpath("metadata.json").is_file()


def _data(path: Path) -> Path:
    """Minari keeps the files of a set in a folder `data`; both that and the folder around it may be named."""
    return path / "data" if (path / "data" / "metadata.json").is_file() else path


def place(name: str) -> Path:
    """Where Minari's local store has the set of that name, or would have it."""
    from minari.storage.datasets_root_dir import get_dataset_path

    return Path(get_dataset_path(name))


def stored(name: str) -> Path:
    """The folder of a set in Minari's local store; downloaded by Minari's own client if it is not there."""
    folder = place(name)
    if not is_minari(folder):
        import minari

        try:
            minari.download_dataset(name)
        except Exception as error:
            reason = " ".join(str(error).split())[:200]
            raise WaypostError(
                f"{name}: neither a file, nor in Minari's store ({folder}), nor could it be downloaded ({reason}); "
                "see `minari list remote` for what there is"
            ) from None
    return folder


# -- reading -----------------------------------------------------------------------------------------


def read(path: Path, columns: Columns) -> Dataset:
    with reading(path, "a Minari data set"):
        folder = _data(path)
        metadata = json.loads((folder / "metadata.json").read_text())
        for space in ("observation_space", "action_space"):
            # Minari would make the environment to find out, and that may run anything.
            if not isinstance(metadata.get(space), str):
                raise WaypostError(f"{folder / 'metadata.json'}: has no {space}; write the data set again with it")
        for given, allowed in (("rewards", columns.rewards), ("actions", columns.actions)):
            if allowed:
                raise WaypostError(
                    f"{path}: in a Minari data set only --columns.observations can be chosen, not {given}"
                )
        stored = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        plausible(path, "its steps", 4 * int(metadata.get("total_steps", 0)), stored)
        from minari.dataset.minari_storage import MinariStorage

        storage = MinariStorage.read(folder)
        episodes = list(storage.get_episodes(range(storage.total_episodes)))
        if not episodes:
            raise WaypostError(f"{path}: has no episodes")
        if MARK in metadata and not columns.roles:
            return _ours(episodes, metadata, storage.action_space, str(path))
        env = _environment(metadata)
        states = _as_declared(storage.observation_space, json.loads(metadata["observation_space"]))
        return _episodes(episodes, states, storage.action_space, columns, str(path), env)


def task(path: Path) -> str | None:
    """The environment the data were recorded in, or the task they belong to if they are ours."""
    with reading(path, "a Minari data set"):
        metadata = json.loads((_data(path) / "metadata.json").read_text())
        if MARK in metadata:
            return task_of(metadata[MARK])
        from minari.serialization import deserialize_space

        if not isinstance(metadata.get("observation_space"), str):
            return None
        return _task(_environment(metadata), deserialize_space(metadata["observation_space"]))


def _as_declared(space: Any, record: dict[str, Any]) -> Any:
    """The space with the keys of a Dict in the order they were written in; Gymnasium sorts them when it reads one."""
    import gymnasium as gym

    if isinstance(space, gym.spaces.Dict):
        parts = record["subspaces"].items()
        return gym.spaces.Dict([(key, _as_declared(space.spaces[key], part)) for key, part in parts])
    if isinstance(space, gym.spaces.Tuple):
        parts = zip(space.spaces, record["subspaces"], strict=True)
        return gym.spaces.Tuple([_as_declared(each, part) for each, part in parts])
    return space


def _environment(metadata: dict[str, Any]) -> dict[str, Any]:
    env = json.loads(metadata["env_spec"]) if isinstance(metadata.get("env_spec"), str) else {}
    return env if isinstance(env, dict) else {}


def _episodes(
    episodes: list[dict[str, Any]], states: Any, actions: Any, columns: Columns, name: str, env: dict[str, Any]
) -> Dataset:
    """One row per step: an episode of T steps has T + 1 states, so every next state is real."""
    import gymnasium as gym

    maze = _maze(states, name, env)
    keys = columns.observations or (MAZES[maze] if maze else ())
    flat, names = _flattener(states, keys, name)
    if isinstance(states, gym.spaces.Box):
        names = ()  # its numbers have no names of their own
    if not isinstance(actions, gym.spaces.Box | gym.spaces.Discrete):
        raise WaypostError(f"{name}: actions are {actions}; a Box of numbers or Discrete is needed")
    parts: list[dict[str, np.ndarray]] = []
    left_out = 0
    for episode in episodes:
        seen = flat(episode["observations"])
        part = _rows(episode, seen, name)
        if maze:
            part, dropped = _ended_by_success(part, episode["observations"])
            left_out += dropped
        parts.append(part)
    rows: dict[str, Any] = {field: np.concatenate([part[field] for part in parts]) for field in parts[0]}
    notes: tuple[str, ...] = ()
    if maze:
        notes = (
            f"read as {maze} that never ends: the task ends where the goal is reached; "
            f"{left_out} rows that began there left out",
        )
    known: dict[str, Any]
    if isinstance(actions, gym.spaces.Discrete):
        known = {"action_count": int(actions.n)}
        if actions.start != 0:
            rows["actions"] = rows["actions"] - actions.start
            notes += (f"actions are numbered from 0 here, from {actions.start} in the file and its environment",)
    else:
        known = {"action_low": actions.low.reshape(-1), "action_high": actions.high.reshape(-1)}
    if maze == "antmaze" and states["observation"].shape == (CONTACT_SIZE,):
        notes += (f"the ant's state has {CONTACT_SIZE} numbers, with contact forces; D4RL's has 27",)
    return Dataset.from_arrays(
        **rows,
        **known,
        name=name,
        task=_task(env, states),
        observation_names=names,
        notes=notes,
        finite=False,
        copy=False,
    )


def _rows(episode: dict[str, Any], seen: np.ndarray, name: str) -> dict[str, np.ndarray]:
    steps = len(episode["rewards"])
    if len(seen) != steps + 1:
        raise WaypostError(
            f"{name}: episode {episode['id']} has {len(seen)} states for {steps} steps; one more than steps is needed"
        )
    last = np.arange(steps) == steps - 1
    terminals = np.asarray(episode["terminations"]).reshape(-1) != 0
    return {
        "observations": seen[:-1],
        "next_observations": seen[1:],
        "actions": np.asarray(episode["actions"]).reshape(steps, -1),
        "rewards": np.asarray(episode["rewards"], np.float64),
        "terminals": terminals,
        "timeouts": (np.asarray(episode["truncations"]).reshape(-1) != 0) | last,
    }


def _maze(states: Any, name: str, env: dict[str, Any]) -> str | None:
    """Which of the mazes that go on after success this is, if any."""
    import gymnasium as gym

    if not isinstance(states, gym.spaces.Dict) or set(states.spaces) != GOAL_KEYS:
        return None
    words = (str(env.get("id", "")) + name).lower().replace("_", "").replace("-", "")
    return next((maze for maze in MAZES if maze in words), None)


def _ended_by_success(rows: dict[str, np.ndarray], seen: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], int]:
    """The rows with a terminal where the goal is reached, and without those that began there."""
    at, goal = np.asarray(seen["achieved_goal"]), np.asarray(seen["desired_goal"])[:-1]
    there = np.linalg.norm(at[1:] - goal, axis=1) <= REACHED
    kept = np.linalg.norm(at[:-1] - goal, axis=1) > REACHED
    rows = rows | {"terminals": rows["terminals"] | there}
    return {field: values[kept] for field, values in rows.items()}, int((~kept).sum())


def _task(env: dict[str, Any], states: Any) -> str | None:
    """The environment to judge in, where it can be made as it was from its name alone."""
    import gymnasium as gym

    plain = not env.get("kwargs") and not env.get("additional_wrappers")
    known = isinstance(env.get("id"), str) and env["id"] in gym.registry
    return env["id"] if plain and known and isinstance(states, gym.spaces.Box) else None


def _flattener(space: Any, keys: tuple[str, ...], name: str) -> tuple[Callable[[Any], np.ndarray], tuple[str, ...]]:
    """How a state becomes one row of numbers: the parts of a Dict in declared order, or those asked for."""
    import gymnasium as gym

    if isinstance(space, gym.spaces.Dict):
        chosen = keys or tuple(space.spaces)
        missing = [key for key in chosen if key not in space.spaces]
        if missing:
            raise WaypostError(f"{name}: has no observation {missing[0]!r}; it has {', '.join(space.spaces)}")
        parts = [(key, *_flattener(space.spaces[key], (), name)) for key in chosen]
        names = tuple(f"{key}.{each}" if each else key for key, _, inner in parts for each in inner)
        return lambda values: np.concatenate([flat(values[key]) for key, flat, _ in parts], axis=1), names
    if keys:
        raise WaypostError(f"{name}: observations have no parts to choose {', '.join(keys)} from")
    if isinstance(space, gym.spaces.Tuple):
        tuple_parts = [_flattener(each, (), name) for each in space.spaces]
        inner_names = tuple(
            f"{i}.{each}" if each else str(i) for i, (_, inner) in enumerate(tuple_parts) for each in inner
        )
        return (
            lambda values: np.concatenate([p[0](v) for p, v in zip(tuple_parts, values, strict=True)], axis=1),
            inner_names,
        )
    if isinstance(space, gym.spaces.Discrete):
        names = tuple(str(space.start + i) for i in range(space.n))
        return lambda values: np.eye(space.n, dtype=np.float32)[np.asarray(values).reshape(-1) - space.start], names
    if isinstance(space, gym.spaces.Box | gym.spaces.MultiBinary):
        size = int(np.prod(space.shape))
        names = tuple(str(i) for i in range(size)) if size > 1 else ("",)
        return lambda values: np.asarray(values).reshape(len(values), size), names
    raise WaypostError(f"{name}: observations are {space}; Box, Discrete, MultiBinary, Dict or Tuple is needed")


def _ours(episodes: list[dict[str, Any]], metadata: dict[str, Any], actions: Any, name: str) -> Dataset:
    """A set written by `write`: infos hold what Minari has no place for."""
    record = metadata[MARK]
    parts = []
    for episode in episodes:
        part = _rows(episode, np.asarray(episode["observations"]), name)
        part["next_valid"] = np.ones(len(part["rewards"]), bool)
        infos = episode["infos"] or {}
        part |= {field: np.asarray(infos[field]) for field in ("next_valid", "next_observations") if field in infos}
        parts.append(part)
    rows: dict[str, Any] = {field: np.concatenate([part[field] for part in parts]) for field in parts[0]}
    facts = read_facts(record)
    bounds: dict[str, Any] = {}
    if facts["action_count"] is None:
        bounds = {"action_low": actions.low, "action_high": actions.high}
    for field in ("actions", "rewards"):
        if not record[field]:
            del rows[field]
    return Dataset.from_arrays(**rows, **bounds, **facts, name=name, finite=False, copy=False)


# -- writing -----------------------------------------------------------------------------------------


def write(dataset: Dataset, path: Path, progress: Callable[[int, int], None] | None = None) -> None:
    """A folder that Minari reads; what is absent is written as NaN, so that nobody takes it for zeros."""
    import gymnasium as gym
    from minari.dataset.minari_storage import MinariStorage

    size = dataset.action_size or 1
    low = np.full(size, -1, np.float32) if dataset.action_low is None else dataset.action_low
    high = np.full(size, 1, np.float32) if dataset.action_high is None else dataset.action_high
    count = dataset.action_count
    path = path.resolve()  # Minari loses its way with a relative one
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        storage = MinariStorage.new(
            temporary / "data",
            observation_space=gym.spaces.Box(-np.inf, np.inf, (dataset.observation_size,), np.float32),
            action_space=gym.spaces.Discrete(count) if count else gym.spaces.Box(low, high, dtype=np.float32),
        )
        present = {"actions": dataset.actions is not None, "rewards": dataset.rewards is not None}
        storage.update_metadata(
            {"dataset_id": _id(path), "minari_version": _version(), MARK: facts_of(dataset) | present}
        )
        storage.update_episodes(_buffers(dataset, size, progress))
        temporary.chmod(0o755)
        temporary.replace(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _buffers(dataset: Dataset, action_size: int, progress: Callable[[int, int], None] | None) -> Iterator[Any]:
    from minari.data_collector import EpisodeBuffer

    rows = len(dataset)
    actions = np.full((rows, action_size), np.nan, np.float32) if dataset.actions is None else dataset.actions
    actions = actions[:, 0].astype(np.int64) if dataset.action_count else actions
    rewards = np.full(rows, np.nan, np.float32) if dataset.rewards is None else dataset.rewards
    # What the following row says where the next state is only nearly the same, and ends Minari cannot express.
    exact = np.array_equal(
        dataset.next_observations[:-1][~dataset.ends[:-1]], dataset.observations[1:][~dataset.ends[:-1]]
    )
    for first, length in zip(dataset.episode_starts, dataset.episode_lengths, strict=True):
        part = slice(first, first + length)
        infos: dict[str, Any] = {}
        if not dataset.next_valid[part].all():
            infos["next_valid"] = dataset.next_valid[part]
        if not exact:
            infos["next_observations"] = dataset.next_observations[part]
        yield EpisodeBuffer(
            observations=np.append(dataset.observations[part], dataset.next_observations[part][-1:], axis=0),
            actions=actions[part],
            rewards=rewards[part],
            terminations=dataset.terminals[part],
            truncations=dataset.timeouts[part],
            infos=infos,
        )
        if progress is not None:
            progress(int(first + length), rows)


def _id(path: Path) -> str:
    """The name Minari knows the set by: a version is part of it."""
    return path.name if path.name.rpartition("-v")[2].isdigit() else f"{path.name}-v0"


def _version() -> str:
    from importlib.metadata import version

    return version("minari")
