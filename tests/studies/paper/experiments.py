"""Experiments made small, and what they wrote."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from waypost.data.dataset import Dataset
from waypost.data.sources import RECIPES, load
from waypost.studies.paper import EXPERIMENTS
from waypost.studies.paper.experiment import Context

SMALL: dict[str, Any] = {"value_hidden": (8,), "guide_hidden": (8,), "executor_hidden": (8,), "batch_size": 16}


SLOW = "[waypoint]\nhorizon = 5\nwaypoint_columns = [0]\n"
"""Settings for guides that look 5 steps ahead and move x only."""


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
    """The same where all but the names of data and algorithm are numbers."""
    words = ("data", "algorithm")
    return [{key: value if key in words else float(value) for key, value in row.items()} for row in rows(folder, name)]


def ahead(dataset: Dataset, row: int, steps: int) -> np.ndarray:
    """The recorded state that many steps after a row, or the last of its episode."""
    for _ in range(steps - 1):
        if dataset.timeouts[row] or dataset.terminals[row] or not dataset.next_valid[row + 1]:
            break
        row += 1
    return dataset.next_observations[row]
