"""Which fields of a source play which role, and what becomes of them.

A source is a mapping from field names to arrays of one length: the columns of a table, the arrays of an HDF5 or .npz
file. `Columns` says which of them are observations, actions, rewards and so on; what it leaves open is found by the
names people use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from waypost.data.dataset import Dataset
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

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) for field in fields(self))


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


def build(source: Mapping[str, Any], columns: Columns, name: str, **known: Any) -> Dataset:
    """A Dataset of a source's fields; NaN and infinities are left for `checked` to find.

    A last row of an episode that has a state but no action (all NaN) is where the episode arrived: it becomes the
    next state of the row before.
    """
    chosen, notes = choose(list(source), columns, name)
    roles: dict[str, Any] = {role: _values(source, names, role, name) for role, names in chosen.items()}
    rows = len(roles["observations"])
    for role, values in roles.items():
        if len(values) != rows:
            raise WaypostError(f"{name}: {role} have {len(values)} rows, observations {rows}; they must agree")
    named = known.pop("observation_names", None)
    if named is None:
        named = _names(chosen["observations"], roles["observations"])
    notes += list(known.pop("notes", ()))
    episode, time = roles.pop("episode", None), roles.pop("time", None)
    if rows and (episode is not None or time is not None):
        order = _order(episode, time, rows)
        if order is not None:
            roles = {role: values[order] for role, values in roles.items()}
            episode = None if episode is None else episode[order]
            notes.append(
                "rows put in order: by episode" + (f", then by {chosen['time'][0]}" if "time" in chosen else "")
            )
        if episode is not None:
            changes = np.append(episode[1:] != episode[:-1], True)
            flags = roles.get("timeouts")
            roles["timeouts"] = changes if flags is None else changes | (np.asarray(flags).reshape(rows, -1)[:, 0] != 0)
    arrived = _arrivals(roles, rows)
    if arrived.any():
        roles = fold_arrivals(roles, arrived, name)
    return Dataset.from_arrays(**roles, **known, observation_names=named, notes=tuple(notes), name=name, finite=False)


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


def _arrivals(roles: dict[str, Any], rows: int) -> np.ndarray:
    """Rows that only say where an episode arrived: the last of their episode, not the first, and without any action."""
    actions = roles.get("actions")
    if actions is None or actions.dtype.kind != "f" or "next_observations" in roles:
        return np.zeros(rows, bool)
    ends = np.zeros(rows, bool)
    for role in ("terminals", "timeouts"):
        if role in roles:
            ends |= np.asarray(roles[role]).reshape(rows, -1)[:, 0] != 0
    ends[-1:] = True
    starts = np.append(True, ends[:-1])
    return ends & ~starts & np.isnan(actions.reshape(rows, -1)).all(axis=1)


def fold_arrivals(roles: dict[str, Any], arrived: np.ndarray, name: str) -> dict[str, Any]:
    """Rows of states and where episodes arrived as transitions: an arrival is the next state of the row before it."""
    kept = ~arrived
    if not kept.any():
        raise WaypostError(f"{name}: no transitions; every row is the end of an episode")
    before = np.append(arrived[1:], False)
    rows = len(arrived)
    observations = np.asarray(roles["observations"]).reshape(rows, -1)
    flags: dict[str, Any] = {
        role: np.asarray(roles[role]).reshape(rows, -1)[:, 0] != 0
        for role in ("terminals", "timeouts")
        if role in roles
    }
    ends = np.logical_or.reduce([np.zeros(rows, bool), *flags.values()])
    ends[-1] = True
    following = np.append(observations[1:], observations[-1:], axis=0)
    following[ends] = observations[ends]
    moved = {role: values | (before & np.append(values[1:], False)) for role, values in flags.items()}
    moved["timeouts"] = moved.get("timeouts", np.zeros(rows, bool)) | before
    folded: dict[str, Any] = {**roles, **moved, "next_observations": following, "next_valid": ~ends}
    return {role: values[kept] for role, values in folded.items()}
