"""The paper's benchmark: its 15 data sets, and the scores it prints for them.

All published scores are of D4RL's data and environments (suite `d4rl`); what is trained here is evaluated in ours
(suite `replica`). Same names, other data: levels can be read side by side, but not compared.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from waypost.data.sources import D4RL, recipe_of

ANT_MAZE = (
    "antmaze-umaze",
    "antmaze-umaze-diverse",
    "antmaze-medium-play",
    "antmaze-medium-diverse",
    "antmaze-large-play",
    "antmaze-large-diverse",
)
LOCOMOTION = tuple(
    f"{body}-{quality}"
    for quality in ("medium", "medium-replay", "medium-expert")
    for body in ("halfcheetah", "hopper", "walker2d")
)
DATA = (*ANT_MAZE, *LOCOMOTION)
GROUPS = {"AntMaze": ANT_MAZE, "Locomotion": LOCOMOTION}

COLUMNS: dict[str, tuple[str, ...]] = {
    "10%BC": ("bc10",),
    "One-step": ("onestep",),
    "IQL": ("iql",),
    "DT": ("dt",),
    "RvS": ("rvs-r", "rvs-g"),
    "POR": ("por",),
    "best RL": ("bcq", "bear", "brac", "cql", "td3bc"),
}
"""The columns of Table 1; where there are several algorithms, the best of them on each data set counts."""
NAMES = {name: column for column, members in COLUMNS.items() for name in members}
NAMES |= {name: name.upper() for name in COLUMNS["best RL"]}
NAMES |= {"td3bc": "TD3+BC", "rvs-r": "RvS-R", "rvs-g": "RvS-G"}
"""What the paper calls the algorithms."""


class Published(NamedTuple):
    """A printed score."""

    mean: float
    std: float | None = None
    by: str | None = None
    """Which algorithm it is, in a column of several."""


def _published(text: str) -> dict[str, Published]:
    """One row of numbers like 87.5±2.6 or 89.0 BCQ, in the order of COLUMNS."""
    cells = {}
    for column, cell in zip(COLUMNS, text.split("|"), strict=True):
        number, _, by = cell.strip().partition(" ")
        mean, _, std = number.partition("±")
        cells[column] = Published(float(mean), float(std) if std else None, by or None)
    return cells


TABLE_1: dict[str, dict[str, Published]] = {
    data: _published(text)
    for data, text in {
        "antmaze-umaze": "62.8 | 64.3 | 87.5±2.6 | 59.2 | 65.4 | 90.6±7.1 | 89.0 BCQ",
        "antmaze-umaze-diverse": "50.2 | 60.7 | 66.2±13.8 | 53.0 | 60.9 | 71.3±12.1 | 61.0 BEAR",
        "antmaze-medium-play": "5.4 | 0.3 | 71.2±7.3 | 0 | 58.1 | 84.6±5.6 | 68.0 CQL",
        "antmaze-medium-diverse": "9.8 | 0 | 70.0±10.9 | 0 | 67.3 | 79.2±3.1 | 68.0 CQL",
        "antmaze-large-play": "0 | 0 | 39.6±5.8 | 0 | 32.4 | 58.0±12.4 | 18.8 CQL",
        "antmaze-large-diverse": "0 | 0 | 47.5±9.5 | 0 | 36.9 | 73.4±8.5 | 45.6 CQL",
        "halfcheetah-medium": "42.5 | 48.4±0.1 | 47.4±0.2 | 42.6±0.1 | 41.6 | 48.8±0.5 | 48.3 TD3+BC",
        "hopper-medium": "56.9 | 59.6±2.5 | 66.2±5.7 | 67.6±1.0 | 60.2 | 78.6±7.2 | 59.3 TD3+BC",
        "walker2d-medium": "75.0 | 81.8±2.2 | 78.3±8.7 | 74.0±1.4 | 71.7 | 81.1±2.3 | 83.7 TD3+BC",
        "halfcheetah-medium-replay": "40.6 | 38.1±1.3 | 44.2±1.2 | 36.6±0.8 | 38.0 | 43.5±0.9 | 45.5 CQL",
        "hopper-medium-replay": "75.9 | 97.5±0.7 | 94.7±8.6 | 82.7±7.0 | 73.5 | 98.9±2.1 | 95.0 CQL",
        "walker2d-medium-replay": "62.5 | 49.5±12.0 | 73.8±7.1 | 66.6±3.0 | 60.6 | 76.6±6.9 | 81.8 TD3+BC",
        "halfcheetah-medium-expert": "92.9 | 93.4±1.6 | 86.7±5.3 | 86.8±1.3 | 92.2 | 94.7±2.2 | 91.6 CQL",
        "hopper-medium-expert": "110.9 | 103.3±1.9 | 91.5±14.3 | 107.6±1.8 | 101.7 | 90.0±12.1 | 105.4 CQL",
        "walker2d-medium-expert": "109.0 | 113.0±0.4 | 109.6±1.0 | 108.1±0.2 | 106.0 | 109.1±0.7 | 110.1 TD3+BC",
    }.items()
}
"""Table 1 as printed."""

PRINTED_MEANS = {
    "AntMaze": _published("21.4 | 20.8 | 63.6±8.3 | 18.7 | 53.5 | 76.2±8.1 | 58.4"),
    "Locomotion": _published("55.5 | 58.2±2.0 | 57.6±6.6 | 56±1.4 | 53.7 | 65.6±2.7 | 63.5"),
}
"""The mean rows of Table 1. Those of locomotion are not the means of the nine rows above them: they are sums divided by
12, the number of sets with the three random ones, which the printed table leaves out."""

TABLE_2: dict[str, dict[str, Published]] = {
    data: {"POR": Published(*por), "POR-sparse": Published(*sparse)}
    for data, por, sparse in zip(
        ANT_MAZE,
        ((90.6, 10.7), (71.3, 12.2), (84.6, 5.6), (79.2, 3.1), (58.0, 12.4), (73.4, 8.5)),
        ((95.0, 3.4), (86.3, 6.1), (82.4, 5.5), (71.0, 2.4), (48.8, 4.1), (53.4, 3.6)),
        strict=True,
    )
}
"""Table 2 as printed: POR against POR-sparse."""

_EXECUTORS = (("full", "big"), ("full", "small"), ("partial", "big"), ("partial", "small"))
ABLATION: dict[str, dict[tuple[str, str], float]] = {
    "AntMaze": dict(zip(_EXECUTORS, (76.2, 63.8, 52.4, 41.5), strict=True)),
    "Locomotion": dict(zip(_EXECUTORS, (65.7, 57.0, 60.9, 56.7), strict=True)),
}
"""The ablation's table: data and size of the executor."""


def row_of(name: str) -> str:
    """The data set of the benchmark a name stands for.

    hopper-medium-v2 is D4RL's file of hopper-medium, hopper-medium-20000 a replica of fewer transitions.
    """
    if name in D4RL:
        return re.sub(r"-v\d+$", "", name)
    made = recipe_of(name)
    return made[0].name if made else name


def grouped(data: Sequence[str]) -> dict[str, list[str]]:
    """Those of the data sets that are in each group, without groups that have none."""
    found = {group: [name for name in data if row_of(name) in members] for group, members in GROUPS.items()}
    return {group: names for group, names in found.items() if names}


def origin(name: str) -> str:
    """Where the data of that name come from."""
    return "d4rl" if name in D4RL else "replica"
