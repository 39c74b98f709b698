"""The paper's experiments, one file each, in the order of the paper; `waypost paper NAME` runs one.

experiments.toml describes them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from waypost.agents import ALGORITHMS
from waypost.errors import WaypostError
from waypost.studies.paper.benchmark import COLUMNS, GROUPS
from waypost.studies.paper.experiment import Experiment, Size


def _described(name: str, words: Mapping[str, Any]) -> Experiment:
    def members(of: str, groups: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
        return tuple(member for each in words.get(of, ()) for member in groups.get(each, (each,)))

    kinds = ("algorithms", "default_algorithms")
    choices = {kind: tuple(name for name in members(kind, COLUMNS) if name in ALGORITHMS) for kind in kinds}
    choices["data"] = members("data", GROUPS)
    sizes = {form: Size(**words[form]) for form in ("quick", "full")}
    return Experiment(**{"name": name, **words, **choices, **sizes})


_TABLES = tomllib.loads((files(__name__) / "experiments.toml").read_text("utf-8"))
EXPERIMENTS = {name: _described(name, words) for name, words in _TABLES.items()}


def experiment(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in EXPERIMENTS:
        raise WaypostError(f"there is no experiment {name!r}; choose from {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]
