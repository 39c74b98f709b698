"""Rows that are the end of an episode, and the next states they leave to the rows before."""

from __future__ import annotations

from typing import Any

import numpy as np

from waypost.data import validation
from waypost.errors import WaypostError


def _ends(roles: dict[str, Any], rows: int) -> np.ndarray:
    """Rows marked as the last of an episode, and the last of all."""
    ends = np.zeros(rows, bool) | roles.get("terminals", False) | roles.get("timeouts", False)
    ends[-1:] = True
    return ends


def merge_final_states(roles: dict[str, Any], final: np.ndarray, name: str) -> dict[str, Any]:
    """The roles without rows that only hold a final state: it becomes the next state of the row before."""
    if final.all():
        raise WaypostError(f"{name}: no transitions; every row is the end of an episode")
    before = np.append(final[1:], False)
    ends = _ends(roles, len(final))
    flags = {role: roles[role] for role in ("terminals", "timeouts") if role in roles}
    moved = {role: values | (before & np.append(values[1:], False)) for role, values in flags.items()}
    moved["timeouts"] = moved.get("timeouts", False) | before
    return _with_next_states(roles | moved, known=~ends, kept=~final)


def without_runs(roles: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """The rows without those that begin where the task was already over, and how many these are.

    AntMaze goes on recording while the ant stands in the goal, so that terminals come in runs. Only the first of a
    run ends an episode, and there the next state is real; the others are left out.
    """
    rows, terminals = len(roles["observations"]), roles.get("terminals")
    observations, ends = roles["observations"].reshape(rows, -1), _ends(roles, rows)
    inside = np.flatnonzero(~ends[:-1])
    if terminals is None or not len(inside):
        return roles, 0
    goes_on = terminals & ~(roles.get("timeouts", False) | np.zeros(rows, bool)) & np.append(terminals[1:], False)
    if goes_on.any():
        # No reset lies between rows that are as near as neighbours inside an episode are.
        usual = max(_steps(observations, part).max() for _, part in validation.blocks(inside))
        goes_on[goes_on] = _steps(observations, np.flatnonzero(goes_on)) <= usual
    if not goes_on.any():
        return roles, 0
    begins_ended = np.append(False, goes_on[:-1])
    return _with_next_states(roles, known=~ends | goes_on, kept=~begins_ended), int(begins_ended.sum())


def _with_next_states(roles: dict[str, Any], known: np.ndarray, kept: np.ndarray) -> dict[str, Any]:
    """The kept rows; the next state is the following row's state where that is known to have followed."""
    observations = roles["observations"].reshape(len(kept), -1)
    next_observations = np.append(observations[1:], observations[-1:], axis=0)
    next_observations[~known] = observations[~known]
    valid = known & roles.get("next_valid", True)
    filled = roles | {"next_observations": next_observations, "next_valid": valid}
    return {role: values[kept] for role, values in filled.items()}


def _steps(observations: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """How far it is from each of these rows to the next, by the column that moves most."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.nan_to_num(np.abs(observations[rows + 1] - observations[rows])).max(axis=1)
