"""What formats share: arrays with one entry per row, in Waypost's, D4RL's or OGBench's conventions."""

from __future__ import annotations

from collections.abc import Callable, Container
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from waypost.data.columns import Fields, build, infer_discrete, unchecked
from waypost.data.dataset import Dataset
from waypost.data.endings import merge_final_states
from waypost.data.pipeline import Pipeline
from waypost.data.roles import Columns
from waypost.data.table import Reward
from waypost.data.validation import MOST_ACTIONS, Choices
from waypost.schema import conform

MARK = "waypost"
"""Name of the facts in a file written by Waypost; other files have none."""
ROWS = ("observations", "actions", "rewards", "next_observations", "terminals", "timeouts", "next_valid")
"""The arrays of a file written by Waypost, one entry per row."""
BOUNDS = ("action_low", "action_high")


def readers(
    opened: Callable[[Path, Pipeline], AbstractContextManager[tuple[Fields, Any]]],
) -> tuple[Callable[[Path, Columns, Pipeline, Reward | None], Dataset], Callable[[Path], str | None]]:
    """The functions `read` and `task` of a format, where `opened` gives a file's arrays and facts."""

    def read(path: Path, columns: Columns, pipeline: Pipeline, reward: Reward | None) -> Dataset:
        with opened(path, pipeline) as (arrays, facts):
            return from_arrays(arrays, columns, str(path), facts, pipeline, reward)

    def task(path: Path) -> str | None:
        with opened(path, Pipeline()) as (_, facts):
            return task_of(facts)

    return read, task


def from_arrays(
    arrays: Fields, columns: Columns, name: str, facts: Any, pipeline: Pipeline, reward: Reward | None
) -> Dataset:
    """A Dataset from a file's arrays; `facts` are those of `facts_of`, if Waypost wrote the file."""
    if facts is not None and not columns.roles:
        return ours(arrays, facts, name)
    if not columns.roles and "observations" in arrays:
        if "masks" in arrays or ("qpos" in arrays and "terminals" in arrays and "rewards" not in arrays):
            return _ogbench(arrays, name)
        if "maze2d" in name.lower() and "timeouts" in arrays:
            return _maze2d(arrays, name)
    known = _present(arrays, *BOUNDS, "next_valid")
    known |= known_count(facts, columns)
    return build(arrays, columns, name, pipeline=pipeline, reward=reward, **known)


def _present(arrays: Fields, *names: str) -> dict[str, Any]:
    return {name: np.asarray(arrays[name]()) for name in names if name in arrays}


def ours(arrays: Fields, facts: Any, name: str, **bounds: Any) -> Dataset:
    """A Dataset as it was written; `bounds` are those of the actions, if they are not among the arrays."""
    known = read_facts(facts)
    complete(facts, {*arrays, *bounds})
    return unchecked(**_present(arrays, *ROWS, *BOUNDS), **bounds, **known, name=name)


def rows_of(dataset: Dataset) -> dict[str, np.ndarray]:
    """The arrays to write, by name."""
    return {name: getattr(dataset, name) for name in (*ROWS, *BOUNDS) if getattr(dataset, name) is not None}


def facts_of(dataset: Dataset) -> dict[str, Any]:
    """What is known about the data besides the rows, as JSON."""
    facts: dict[str, Any] = {
        "task": dataset.task,
        "observation_names": list(dataset.observation_names),
        "action_count": dataset.action_count,
        "columns": list(rows_of(dataset)),
    }
    facts |= {"action_names": list(dataset.action_names)} if dataset.action_names else {}
    facts |= {"action_choices": [list(words) for words in dataset.action_choices]} if dataset.action_choices else {}
    facts |= {"goes_on": True} if dataset.goes_on else {}
    return facts | ({"history": dataset.history} if dataset.history > 1 else {})


def complete(facts: Any, arrays: Container[str]) -> None:
    """Raise if an array that was written is missing: with a damaged name it looks as if it had never been there."""
    columns = facts.get("columns", ())
    missing = [name for name in (*ROWS, *BOUNDS) if name in columns and name not in arrays]
    if missing:
        raise ValueError(f"it was written with {missing[0]}, which is missing")


def read_facts(facts: Any) -> dict[str, Any]:
    """The facts of a file, as arguments of `Dataset.from_arrays`."""
    if not isinstance(facts, dict):
        raise ValueError("its facts are not a JSON object")
    task, count, history = facts.get("task"), facts.get("action_count"), facts.get("history", 1)
    names: dict[str, tuple[str, ...]] = {}
    for side in ("observation_names", "action_names"):
        found = facts.get(side, [])
        if not isinstance(task, str | None) or not isinstance(found, list):
            raise ValueError(f"task and {side} must be text")
        if not all(isinstance(name, str) for name in found):
            raise ValueError(f"task and {side} must be text")
        names[side] = tuple(found)
    if not isinstance(history, int) or isinstance(history, bool):
        raise ValueError("history must be a whole number")
    if task is not None and ":" in task:
        # Gymnasium imports the module before a colon; a file must not choose code to run.
        raise ValueError(f"the task {task[:80]!r} names a module; name it yourself with --env")
    if not isinstance(count, int | None) or isinstance(count, bool):
        raise ValueError("action_count must be a whole number")
    if count is not None and abs(count) > MOST_ACTIONS:
        raise ValueError(f"action_count must be at most {MOST_ACTIONS}")
    choices = conform(facts.get("action_choices", []), Choices, "action_choices")
    known = {"action_count": count, "history": history, "action_choices": choices}
    return {"task": task, **names, **known, "goes_on": facts.get("goes_on") is True}


def known_count(facts: Any, columns: Columns) -> dict[str, Any]:
    """The discrete actions recorded in the file, unless another column is chosen for actions."""
    if facts is None or columns.actions:
        return {}
    known = read_facts(facts)
    return {name: known[name] for name in ("action_count", "action_choices")}


def task_of(facts: Any) -> str | None:
    return None if facts is None else read_facts(facts)["task"]


def _ogbench(arrays: Fields, name: str) -> Dataset:
    """OGBench: `terminals` end a trajectory but not the task; `masks` are 0 where the task succeeded.

    Files without next states hold one more state than actions: the row marked terminal is the trajectory's last state.
    """
    roles = _present(arrays, "observations", "actions", "rewards", "next_observations")
    rows = len(roles["observations"])
    ends = np.asarray(arrays["terminals"]()) != 0 if "terminals" in arrays else np.zeros(rows, bool)
    roles["timeouts"] = ends
    if "masks" in arrays:
        roles["terminals"] = np.asarray(arrays["masks"]()) == 0
    if "next_observations" not in roles and ends.shape == (rows,) and rows:
        starts = np.append(True, ends[:-1])
        roles = merge_final_states(roles, ends & ~starts, name)
    note = "read as OGBench: terminals end trajectories, masks say where the task ended"
    integers = "actions" in roles and roles["actions"].dtype.kind in "iub"
    return infer_discrete(unchecked(**roles, name=name, notes=(note,)), integers)


def _maze2d(arrays: Fields, name: str) -> Dataset:
    """D4RL's maze2d: a timeout marks a goal that was reached and replaced by the next; the ball rolls on."""
    roles = _present(arrays, "observations", "actions", "rewards", "timeouts")
    states = roles["observations"]
    roles["next_observations"] = np.append(states[1:], states[-1:], axis=0)
    roles["next_valid"] = np.arange(len(states)) < len(states) - 1
    note = "read as D4RL's maze2d: timeouts mark goals reached, the next state is real there"
    return unchecked(**roles, name=name, notes=(note,))
