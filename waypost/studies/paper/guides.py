"""Shared by the experiments that look into guides: POR's as in the paper, or Waypoint's, which has the same parts.

Waypoint's guides look several steps ahead, and some move a state in slow directions only. Tables that are not about POR
alone have columns that say so, and texts and captions follow these columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from waypost.agents.space import Space
from waypost.studies.paper.benchmark import NAMES
from waypost.studies.paper.experiment import Context, Row
from waypost.studies.paper.words import many
from waypost.training.runs import Run

OURS = "Waypoint is our own method and has the same three parts; the paper is about POR."
NOTE = (
    "horizon: the recorded states s' are that many steps ahead of s, or the last of their episodes; slow_directions: "
    "distances are in that many slow directions of the state, because goals move in no others, 0: in all columns."
)


def columns(context: Context, trained: Run, space: Space | None) -> dict[str, str | int]:
    """What tells guides apart; nothing if all are POR's.

    space   the guide's slow directions (`waypost.studies.diagnosis.slow_space`)
    """
    if context.algorithms == ("por",):
        return {}
    slow = 0 if space is None or space.projection is None else len(space.projection.lift)
    plan = trained.plan
    return {"algorithm": NAMES[plan.algorithm], "horizon": plan.config.horizon, "slow_directions": slow}


def present(rows: Sequence[Row], *names: str) -> tuple[str, ...]:
    """Those of the columns that the rows have."""
    return tuple(name for name in names if name in rows[0])


def by_algorithm(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each algorithm, by its name in the paper; where none is named, all are POR's."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(str(row.get("algorithm", NAMES["por"])), []).append(row)
    return found


def named(algorithm: str, name: str) -> str:
    """The name of a file or run directory; POR's are plain."""
    return name if algorithm == "por" else f"{algorithm}-{name}"


# -- words -----------------------------------------------------------------------------------------


def whose(row: Mapping[str, Any]) -> str:
    """ " of Waypoint", if the algorithm of a row is named."""
    return f" of {row['algorithm']}" if "algorithm" in row else ""


def title(row: Mapping[str, Any]) -> str:
    """The data of a row, and the algorithm if it is named."""
    return f"{row['data']} ({row['algorithm']})" if "algorithm" in row else str(row["data"])


def recorded(row: Mapping[str, Any], what: str = "state") -> str:
    """What a goal is compared with: a recorded next state, or one further ahead."""
    steps = row.get("horizon", 1)
    return f"recorded next {what}" if steps == 1 else f"recorded {what} {steps} steps ahead"


def slowly(row: Mapping[str, Any]) -> str:
    """The directions in which goals move, in words; empty if they move in all columns."""
    slow = row.get("slow_directions", 0)
    return many(slow, "slow direction") if slow else ""


def distances(row: Mapping[str, Any]) -> str:
    """A sentence about how distances are measured; empty if in all columns."""
    return f"Distances are in {slowly(row)} of the state: goals move in no others." if slowly(row) else ""


def ours(rows: Sequence[Row]) -> str:
    """A sentence about Waypoint, if rows are about it."""
    return OURS if NAMES["waypoint"] in by_algorithm(rows) else ""


def caption(words: str, rows: Sequence[Row]) -> str:
    """The caption of a table, with the meaning of the columns about guides if it has them."""
    return f"{words.replace('recorded next state', 'recorded state')} {NOTE}" if "horizon" in rows[0] else words
