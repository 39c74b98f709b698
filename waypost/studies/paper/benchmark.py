"""The paper's benchmark: its 15 data sets, and the scores it prints for them (published.toml).

All published scores are for D4RL's data and environments (suite `d4rl`); agents trained here are evaluated in ours
(suite `replica`). The names are the same, the data are not: levels can be shown side by side, but not compared.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import NamedTuple

from waypost.data.sources import D4RL, recipe_of

_PRINTED = tomllib.loads((files(__package__) / "published.toml").read_text("utf-8"))

GROUPS: dict[str, tuple[str, ...]] = {group: tuple(rows) for group, rows in _PRINTED["table1"].items()}
ANT_MAZE = GROUPS["AntMaze"]
DATA = tuple(name for names in GROUPS.values() for name in names)
COLUMNS: dict[str, tuple[str, ...]] = {column: tuple(names) for column, names in _PRINTED["columns"].items()}
"""The columns of Table 1 and ours beside them; with several algorithms, the best on each data set counts."""
PUBLISHED = tuple(column for column in COLUMNS if column not in _PRINTED["unpublished"])
"""The columns in the paper."""
NAMES: dict[str, str] = {name: known for names in _PRINTED["columns"].values() for name, known in names.items()}
"""The algorithms' names in the paper."""
KINDS: dict[str, str] = _PRINTED["kinds"]
"""How the paper groups the columns."""


class Published(NamedTuple):
    """A printed score."""

    mean: float
    std: float | None = None
    by: str | None = None
    """Its algorithm, in a column of several."""


def _row(text: str, columns: Iterable[str]) -> dict[str, Published]:
    cells = {}
    for column, cell in zip(columns, text.split("|"), strict=True):
        number, _, by = cell.strip().partition(" ")
        mean, _, std = number.partition("±")
        cells[column] = Published(float(mean), float(std) if std else None, by or None)
    return cells


TABLE_1 = {data: _row(text, PUBLISHED) for rows in _PRINTED["table1"].values() for data, text in rows.items()}
PRINTED_MEANS = {group: _row(text, PUBLISHED) for group, text in _PRINTED["means"].items()}
"""The mean rows of Table 1."""
TABLE_2 = {data: _row(text, ("POR", "POR-sparse")) for data, text in _PRINTED["table2"].items()}
ABLATION: dict[str, dict[tuple[str, str], float]] = {
    group: {(data, size): mean for data, sizes in table.items() for size, mean in sizes.items()}
    for group, table in _PRINTED["ablation"].items()
}
"""The ablation's table: by data and size of the executor."""


def row_of(name: str) -> str:
    """The data set of the benchmark a name stands for.

    hopper-medium-v2 is D4RL's file of hopper-medium, hopper-medium-20000 a replica of fewer transitions.
    """
    if name in D4RL:
        return re.sub(r"-v\d+$", "", name)
    made = recipe_of(name)
    return made[0].name if made else name


def grouped(data: Sequence[str]) -> dict[str, list[str]]:
    """The given data sets by group, without empty groups."""
    found = {group: [name for name in data if row_of(name) in members] for group, members in GROUPS.items()}
    return {group: names for group, names in found.items() if names}


def origin(name: str) -> str:
    """Where the data of that name come from."""
    return "d4rl" if name in D4RL else "replica"
