"""Presets: settings for a data set, one TOML file per algorithm.

A preset is a table named after its data set. `steps` is the length of the run, every other entry a field of the
algorithm's Config; `base` names a table of [base] to start from. Names that start with `paper/` hold the settings of
the POR paper's tables and never change; the plain name, if there is one, holds ours. `default.toml` has a table for
each algorithm, the preset `default`: for data without a preset of any algorithm.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from functools import cache
from importlib.resources import files
from typing import Any

from waypost.errors import WaypostError

DEFAULT = "default"
"""The preset for data without one, and the file that holds it."""


@cache
def presets(algorithm: str) -> dict[str, dict[str, Any]]:
    """Every preset of an algorithm, by name."""
    file = files(__name__) / f"{algorithm}.toml"
    if not file.is_file():
        return {}
    tables = tomllib.loads(file.read_text())
    bases = tables.pop("base", {})
    return {name: {**bases.get(table.get("base"), {}), **table} for name, table in tables.items()}


@cache
def names(algorithm: str) -> tuple[str, ...]:
    """The names of all presets of an algorithm."""
    return (*presets(algorithm), *([DEFAULT] if algorithm in _tables(DEFAULT) else []))


@cache
def _tables(file: str) -> dict[str, dict[str, Any]]:
    return tomllib.loads((files(__name__) / f"{file}.toml").read_text())


@cache
def _known_somewhere() -> frozenset[str]:
    """Names of data for which some algorithm has a preset."""
    return frozenset(name for algorithm in _tables(DEFAULT) for name in presets(algorithm))


def find(
    algorithm: str, config_type: type, name: str | None, data: str, task: str | None = None
) -> tuple[str | None, int | None, dict[str, Any]]:
    """The requested preset, or the one for the data: its name, steps and settings.

    Without a name, `data` itself is looked up: plain names are ours, for data made here. For data of D4RL and Minari it
    is `paper/` and their name without version and folders. Then the task of the data is looked up. For data without a
    preset of any algorithm it is `default`, whose 0 steps mean that the number of rows decides. The name "none" means
    no preset.
    """
    known = presets(algorithm)
    if algorithm in _tables(DEFAULT):
        known = {**known, DEFAULT: {"steps": 0, **_tables(DEFAULT)[algorithm]}}
    if name == "none":
        return None, None, {}
    if name is None:
        plain = re.sub(r"^(D4RL|mujoco)/|-v\d+$", "", data).replace("/", "-")
        candidates = (data, f"paper/{plain}", plain, task, f"paper/{task}")
        name = next((candidate for candidate in candidates if candidate in known), None)
        if name is None and DEFAULT in known and _known_somewhere().isdisjoint(candidates):
            name = DEFAULT
        if name is None:
            return None, None, {}
    elif name not in known:
        raise WaypostError(f"{algorithm} has no preset {name!r}; choose from {', '.join(known) or 'none'}")
    settings: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in known[name].items()
    }
    settings.pop("base", None)
    steps = settings.pop("steps", None)
    wrong = set(settings) - {field.name for field in fields(config_type)}
    if wrong:
        raise WaypostError(f"preset {name}: {algorithm} has no setting {', '.join(sorted(wrong))}")
    return name, steps, settings
