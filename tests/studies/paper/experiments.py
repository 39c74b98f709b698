"""Experiments made small, and what they wrote."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from waypost.data.sources import RECIPES, load
from waypost.studies.paper import EXPERIMENTS
from waypost.studies.paper.experiment import Context

SMALL: dict[str, Any] = {"value_hidden": (8,), "guide_hidden": (8,), "executor_hidden": (8,), "batch_size": 16}


def on_the_t_maze(patch: pytest.MonkeyPatch, name: str) -> None:
    """Have an experiment train small networks on a few journeys through the T-maze, and write no reports."""
    train, journeys = Context.train, load("t-maze").slice(0.7, 0.9)
    patch.setitem(EXPERIMENTS, name, replace(EXPERIMENTS[name], data=("t-maze",)))
    patch.setattr(Context, "train", lambda *given, **options: train(*given, **options, **SMALL))
    patch.setitem(RECIPES, "t-maze", replace(RECIPES["t-maze"], make=lambda *_: journeys))


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    """The rows of a table."""
    return list(csv.DictReader((folder / f"{name}.csv").read_text().splitlines()))


def numbers(folder: Path, name: str) -> list[dict[str, Any]]:
    """The same where all but the name of the data are numbers."""
    return [{key: value if key == "data" else float(value) for key, value in row.items()} for row in rows(folder, name)]
