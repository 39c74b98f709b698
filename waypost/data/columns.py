"""Which fields of a source play which role, and what becomes of them.

A source is a mapping from field names to arrays of one length: the columns of a table, the arrays of an HDF5 or .npz
file. `Columns` says which of them are observations, actions, rewards and so on; what it leaves open is found by the
names people use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from waypost.data.dataset import BLOCK, WHOLE, Dataset
from waypost.errors import WaypostError


@dataclass(frozen=True)
class Columns:
    """Which fields of a source play which role; for columns of a table, arrays of a file, keys of a Minari set."""

    observations: tuple[str, ...] = ()
    """Fields that make up the state, in this order; `imu_*` stands for all that begin so."""
    actions: tuple[str, ...] = ()
    """Fields that make up the action."""
    rewards: str | None = None
    """The reward of each row."""
    next_observations: tuple[str, ...] = ()
    """Fields that make up the next state; by default the following row's state."""
    terminals: str | None = None
    """1 where the task ended: reached, fallen, broken. Not where recording merely stopped."""
    timeouts: str | None = None
    """1 where recording stopped although the task had not ended."""
    episode: str | None = None
    """A number or name that is the same in all rows of an episode."""
    time: str | None = None
    """Rows of an episode are put in this order; by default they are taken as they come."""
    choices: int | None = None
    """How many actions there are to choose from, if each is the number of one, from 0; 0 = they are sizes."""

    def __bool__(self) -> bool:
        return self.choices is not None or self.roles

    @property
    def roles(self) -> bool:
        """Whether any field is given a role."""
        return any(getattr(self, role) for role in USUAL)


def columns_from_json(record: dict[str, Any]) -> Columns:
    roles: dict[str, Any] = {role: tuple(value) if isinstance(value, list) else value for role, value in record.items()}
    return Columns(**roles)


USUAL: dict[str, tuple[str, ...]] = {
    "observations": ("observations", "observation", "observation.state", "obs", "state", "states"),
    "actions": ("actions", "action"),
    "rewards": ("rewards", "reward", "next.reward"),
    "next_observations": ("next_observations", "next_observation", "next_obs", "next_state", "next_states"),
    "terminals": ("terminals", "terminal", "terminated", "terminations", "done", "dones", "next.done"),
    "timeouts": ("timeouts", "timeout", "truncated", "truncations"),
    "episode": ("episode", "episode_id", "episode_index", "episodes"),
    "time": (),
}
"""Names a role goes by where nobody says otherwise, best first."""
_PREFIXES = {
    "observations": ("observations.", "observation.", "observation_", "obs_", "state_"),
    "actions": ("actions.", "action.", "action_"),
    "next_observations": ("next_observations.", "next_observation.", "next_observation_", "next_obs_", "next_state_"),
}
"""Where a role has no field of its own: what the names of its single columns begin with."""
_WIDE = ("observations", "actions", "next_observations")
MOST_JUDGED = 1000
"""Whole actions that reach this are not taken for numbers of choices unless somebody says so."""


def build(source: Mapping[str, Any], columns: Columns, name: str, **known: Any) -> Dataset:
    """A Dataset of a source's fields; NaN and infinities are left for `checked` to find.

    A last row of an episode that has a state but no action (all NaN) is where the episode arrived: it becomes the
    next state of the row before. `known` are arguments of `Dataset.from_arrays` that need no choosing.
    """
    chosen, notes = choose(list(source), columns, name)
    roles: dict[str, Any] = {role: _values(source, names, role, name) for role, names in chosen.items()}
    rows = len(roles["observations"])
    for role, values in roles.items():
        if len(values) != rows:
            raise WaypostError(f"{name}: {role} have {len(values)} rows, observations {rows}; they must agree")
    if "next_valid" in known:
        roles["next_valid"] = _flag(known.pop("next_valid"), rows, "next_valid", name)
    names = _names(chosen["observations"], roles["observations"])
    whole = "actions" in roles and _whole(source, chosen["actions"], roles["actions"])
    episode, time = roles.pop("episode", None), roles.pop("time", None)
    if rows and (episode is not None or time is not None):
        order = _order(episode, time, rows)
        if order is not None:
            roles = {role: values[order] for role, values in roles.items()}
            episode = None if episode is None else episode[order]
            notes.append(
                "rows put in order: by episode" + (f", then by {chosen['time'][0]}" if "time" in chosen else "")
            )
    for role in ("terminals", "timeouts"):
        if role in roles:
            roles[role] = _flag(roles[role], rows, role, name)
    if rows and episode is not None:
        changes = np.append(episode[1:] != episode[:-1], True)
        roles["timeouts"] = roles.get("timeouts", False) | changes
    if rows and "next_observations" not in roles:
        arrived = _arrivals(roles, rows)
        if arrived.any():
            roles = fold_arrivals(roles, arrived, name)
        else:
            roles, left_out = _without_runs(roles)
            if left_out:
                notes.append(f"{left_out} rows left out that began where the task was already over (runs of terminals)")
    dataset = Dataset.from_arrays(
        **roles, **known, observation_names=names, notes=tuple(notes), name=name, finite=False, copy=False
    )
    return judged(dataset, whole) if columns.choices is None else dataset


def judged(dataset: Dataset, whole: bool) -> Dataset:
    """The data with actions taken as numbers of choices where they are `whole`: stored as integers or truth values.

    That is how everybody stores choices, in a single column, and hardly anybody a size.
    """
    actions = dataset.actions
    if not whole or actions is None or actions.shape[1] != 1 or dataset.action_count is not None:
        return dataset
    lowest, largest = np.fmin.reduce(actions[:, 0]), np.fmax.reduce(actions[:, 0])
    if lowest >= 0 and largest < MOST_JUDGED:
        return dataset.numbered(max(2, int(largest) + 1), said=False)
    if lowest >= 0:
        note = f"{WHOLE} up to {largest:.0f}: taken as sizes; if they are numbers of choices, say --columns.choices N"
        return replace(dataset, notes=(*dataset.notes, note))
    return dataset


def choose(available: list[str], columns: Columns, name: str) -> tuple[dict[str, list[str]], list[str]]:
    """The fields of each role that has any, and what had to be guessed."""
    asked = {role: getattr(columns, role) for role in USUAL if getattr(columns, role)}
    chosen = {
        role: _asked([names] if isinstance(names, str) else names, available, role, name)
        for role, names in asked.items()
    }
    notes: list[str] = []
    for role in USUAL:
        taken = {field for names in chosen.values() for field in names}
        found = _usual(role, [field for field in available if field not in taken])
        if role not in chosen and found:
            chosen[role] = found
            if "done" in found[0]:
                notes.append(
                    f"{found[0]!r} taken as the end of the task; if it marks time limits, say --columns.timeouts"
                )
    if "observations" not in chosen:
        listed = ", ".join(available[:20]) + (", ..." if len(available) > 20 else "")
        raise WaypostError(
            f"{name}: no field looks like observations; it has {listed or 'nothing'}. "
            "Name them: --columns.observations A B ... (in Python: columns=Columns(observations=(...)))"
        )
    return chosen, notes


def _asked(asked: Iterable[str], available: list[str], role: str, name: str) -> list[str]:
    found: list[str] = []
    for pattern in asked:
        matches = [pattern] if pattern in available else [each for each in available if fnmatchcase(each, pattern)]
        if not matches:
            listed = ", ".join(available[:20]) + (", ..." if len(available) > 20 else "")
            raise WaypostError(f"{name}: has no field {pattern!r} for {role}; it has {listed or 'nothing'}")
        found += [each for each in matches if each not in found]
    if role not in _WIDE and len(found) > 1:
        raise WaypostError(f"{name}: {role} needs one field, {asked} gives {len(found)}: {', '.join(found[:5])}")
    return found


def _usual(role: str, available: list[str]) -> list[str]:
    for usual in USUAL[role]:
        if usual in available:
            return [usual]
    for prefix in _PREFIXES.get(role, ()):
        found = [each for each in available if each.startswith(prefix)]
        if found:
            return found
    return []


def _values(source: Mapping[str, Any], names: list[str], role: str, name: str) -> np.ndarray:
    """The fields of a role side by side, as the rows of one array."""
    parts = []
    for each in names:
        values = np.asarray(source[each])
        if values.ndim == 0:
            raise WaypostError(f"{name}: {each!r} holds one value, not one per row")
        if role in ("episode", "time"):
            return values
        if values.dtype.kind not in "fiub":
            raise WaypostError(f"{name}: {each!r} holds {_kind(values)}, for {role} numbers are needed")
        if values.ndim > 2:
            raise WaypostError(f"{name}: {each!r} has shape {values.shape}; flatten each row to a vector")
        parts.append(values)
    if len(parts) == 1:
        return parts[0]
    lengths = {len(part) for part in parts}
    if len(lengths) > 1:
        raise WaypostError(f"{name}: the fields of {role} have {' and '.join(map(str, sorted(lengths)))} rows")
    return np.concatenate([part if part.ndim == 2 else part[:, None] for part in parts], axis=1)


def _whole(source: Mapping[str, Any], names: list[str], values: np.ndarray) -> bool:
    """Whether a role is stored as integers or truth values; a table knows it also of a column with empty cells."""
    told = getattr(source, "whole", None)
    return values.dtype.kind in "iub" if told is None else all(map(told, names))


def _kind(values: np.ndarray) -> str:
    return "text" if values.dtype.kind in "USO" else f"{values.dtype}"


def _names(names: list[str], values: np.ndarray) -> tuple[str, ...]:
    """The fields' names where every field is one column; a field of several columns tells nothing about each."""
    return tuple(names) if values.ndim == 2 and len(names) == values.shape[1] and len(names) > 1 else ()


def _order(episode: np.ndarray | None, time: np.ndarray | None, rows: int) -> np.ndarray | None:
    """How to arrange the rows so that episodes are together and in order of time; None if they are already."""
    order = np.arange(rows)
    if time is not None:
        order = order[np.argsort(time, kind="stable")]
    if episode is not None:
        _, first, inverse = np.unique(episode, return_index=True, return_inverse=True)
        order = order[np.argsort(first[inverse][order], kind="stable")]
    return None if (order[1:] > order[:-1]).all() else order


def _flag(values: Any, rows: int, role: str, name: str) -> np.ndarray:
    """One truth per row, once it is certain that the values are nothing else."""
    values = np.asarray(values)
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.shape != (rows,) or values.dtype.kind not in "fiub" or not np.isin(values, (0, 1)).all():
        raise WaypostError(f"{name}: {role} must be one 0 or 1 per row")
    return values != 0


def _ends(roles: dict[str, Any], rows: int) -> np.ndarray:
    """Rows marked as the last of an episode, and the last of all."""
    ends = np.zeros(rows, bool)
    for role in ("terminals", "timeouts"):
        ends |= roles.get(role, False)
    ends[-1:] = True
    return ends


def _arrivals(roles: dict[str, Any], rows: int) -> np.ndarray:
    """Rows that only say where an episode arrived: the last of their episode, not the first, and without any action."""
    actions = roles.get("actions")
    if actions is None or actions.dtype.kind != "f":
        return np.zeros(rows, bool)
    ends = _ends(roles, rows)
    starts = np.append(True, ends[:-1])
    return ends & ~starts & np.isnan(actions.reshape(rows, -1)).all(axis=1)


def fold_arrivals(roles: dict[str, Any], arrived: np.ndarray, name: str) -> dict[str, Any]:
    """Rows of states and where episodes arrived as transitions: an arrival is the next state of the row before it."""
    kept = ~arrived
    if not kept.any():
        raise WaypostError(f"{name}: no transitions; every row is the end of an episode")
    before = np.append(arrived[1:], False)
    ends = _ends(roles, len(arrived))
    flags = {role: roles[role] for role in ("terminals", "timeouts") if role in roles}
    moved = {role: values | (before & np.append(values[1:], False)) for role, values in flags.items()}
    moved["timeouts"] = moved.get("timeouts", False) | before
    return _following(roles | moved, known=~ends, kept=kept)


def _without_runs(roles: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """The rows without those that begin where the task was already over, and how many these are.

    AntMaze goes on recording while the ant stands in the goal, so that terminals come in runs. Only the first of a
    run ends an episode, and there the next state is real; the others are left out.
    """
    observations, terminals = roles["observations"], roles.get("terminals")
    rows = len(observations)
    if terminals is None:
        return roles, 0
    ends = _ends(roles, rows)
    goes_on = terminals & ~(roles.get("timeouts", False) | np.zeros(rows, bool)) & np.append(terminals[1:], False)
    goes_on[goes_on] = _one_trajectory(observations.reshape(rows, -1), ends, np.flatnonzero(goes_on))
    if not goes_on.any():
        return roles, 0
    begins_ended = np.append(False, goes_on[:-1])
    return _following(roles, known=~ends | goes_on, kept=~begins_ended), int(begins_ended.sum())


def _following(roles: dict[str, Any], known: np.ndarray, kept: np.ndarray) -> dict[str, Any]:
    """The kept rows, each with the following row's state as its next one where that is known to be it."""
    observations = roles["observations"].reshape(len(kept), -1)
    following = np.append(observations[1:], observations[-1:], axis=0)
    following[~known] = observations[~known]
    valid = known & roles.get("next_valid", True)
    filled = roles | {"next_observations": following, "next_valid": valid}
    return {role: values[kept] for role, values in filled.items()}


def _one_trajectory(observations: np.ndarray, ends: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Whether the row after each of these is as near as neighbours inside an episode are: no reset lies between."""
    inside = np.flatnonzero(~ends[:-1])
    if not len(rows) or not len(inside):
        return np.zeros(len(rows), bool)
    usual = max(_steps(observations, part).max() for part in np.array_split(inside, 1 + len(inside) // BLOCK))
    return _steps(observations, rows) <= usual


def _steps(observations: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """How far it is from each of these rows to the next, by the column that moves most."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.nan_to_num(np.abs(observations[rows + 1] - observations[rows])).max(axis=1)
