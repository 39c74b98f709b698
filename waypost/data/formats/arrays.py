"""Files that hold plain arrays, one entry per row: ours, D4RL's and OGBench's conventions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from waypost.data.columns import Columns, build, fold_arrivals, judged
from waypost.data.dataset import Dataset

ROWS = ("observations", "actions", "rewards", "next_observations", "terminals", "timeouts", "next_valid")
"""The arrays a file of ours holds, one entry per row."""
BOUNDS = ("action_low", "action_high")


def from_arrays(arrays: Mapping[str, Any], columns: Columns, name: str, facts: dict[str, Any] | None = None) -> Dataset:
    """A Dataset of a file's arrays; `facts` are those of `facts_of`, if the file is one of ours."""
    if facts is not None and not columns.roles:
        values: dict[str, Any] = {role: np.asarray(arrays[role]) for role in ROWS if role in arrays}
        bounds: dict[str, Any] = {bound: np.asarray(arrays[bound]) for bound in BOUNDS if bound in arrays}
        return Dataset.from_arrays(**values, **bounds, **read_facts(facts), name=name, finite=False, copy=False)
    if not columns.roles and "observations" in arrays:
        if "masks" in arrays or ("qpos" in arrays and "terminals" in arrays and "rewards" not in arrays):
            return _ogbench(arrays, name)
        if "maze2d" in name.lower() and "timeouts" in arrays:
            return _maze2d(arrays, name)
    known: dict[str, Any] = {field: np.asarray(arrays[field]) for field in (*BOUNDS, "next_valid") if field in arrays}
    return build(arrays, columns, name, **known, **known_count(facts, columns))


# -- what a file of ours says besides its rows -------------------------------------------------------


def facts_of(dataset: Dataset) -> dict[str, Any]:
    """What there is to know of the data besides the rows, as JSON."""
    return {
        "task": dataset.task,
        "observation_names": list(dataset.observation_names),
        "action_count": dataset.action_count,
    }


def read_facts(record: Any) -> dict[str, Any]:
    """The facts of a file, as arguments of `Dataset.from_arrays`."""
    if isinstance(record, str | bytes):
        record = json.loads(record)
    task, names, count = record.get("task"), record.get("observation_names", ()), record.get("action_count")
    if not isinstance(task, str | None) or not all(isinstance(name, str) for name in names):
        raise ValueError("task and observation_names must be text")
    if not isinstance(count, int | None) or isinstance(count, bool):
        raise ValueError("action_count must be a whole number")
    return {"task": task, "observation_names": tuple(names), "action_count": count}


def known_count(record: Any, columns: Columns) -> dict[str, Any]:
    """How many numbered actions a file of ours has, where they are still its actions though other roles are chosen."""
    return {} if record is None or columns.actions else {"action_count": read_facts(record)["action_count"]}


def task_of(record: Any) -> str | None:
    return read_facts(record)["task"]


def rows_of(dataset: Dataset) -> dict[str, np.ndarray]:
    """The arrays to write, by name."""
    return {name: getattr(dataset, name) for name in (*ROWS, *BOUNDS) if getattr(dataset, name) is not None}


# -- the conventions of others -----------------------------------------------------------------------


def _ogbench(arrays: Mapping[str, Any], name: str) -> Dataset:
    """OGBench: `terminals` end a trajectory and say nothing of the task; `masks` are 0 where the task succeeded.

    Files without next states hold one more state than actions: the row marked terminal is where a trajectory arrived.
    """
    roles: dict[str, Any] = {
        role: np.asarray(arrays[role]) for role in ("observations", "actions", "rewards") if role in arrays
    }
    rows = len(roles["observations"])
    ends = np.asarray(arrays["terminals"]) != 0 if "terminals" in arrays else np.zeros(rows, bool)
    roles["timeouts"] = ends
    if "masks" in arrays:
        roles["terminals"] = np.asarray(arrays["masks"]) == 0
    if "next_observations" in arrays:
        roles["next_observations"] = np.asarray(arrays["next_observations"])
    elif ends.shape == (rows,) and rows:
        starts = np.append(True, ends[:-1])
        roles = fold_arrivals(roles, ends & ~starts, name)
    notes = ("read as OGBench: terminals end trajectories, masks say where the task ended",)
    dataset = Dataset.from_arrays(**roles, name=name, notes=notes, finite=False, copy=False)
    return judged(dataset, "actions" in roles and roles["actions"].dtype.kind in "iub")


def _maze2d(arrays: Mapping[str, Any], name: str) -> Dataset:
    """D4RL's maze2d: a timeout says that a goal was reached and the next one set; the ball rolls on."""
    roles: dict[str, Any] = {
        role: np.asarray(arrays[role]) for role in ("observations", "actions", "rewards") if role in arrays
    }
    observations = roles["observations"]
    last = np.arange(len(observations)) == len(observations) - 1
    following = np.append(observations[1:], observations[-1:], axis=0)
    return Dataset.from_arrays(
        **roles,
        next_observations=following,
        timeouts=np.asarray(arrays["timeouts"]),
        next_valid=~last,
        name=name,
        notes=("read as D4RL's maze2d: timeouts mark goals reached, the next state is real there",),
        finite=False,
        copy=False,
    )
