"""Recorded and random observations on which an exported policy is checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from waypost.agents.agent import Spec
from waypost.data.dataset import Dataset
from waypost.data.large import obtain
from waypost.data.roles import Columns
from waypost.errors import WaypostError
from waypost.training.plan import read_plan
from waypost.types import Floats

BEYOND = 0.5
"""How far random observations go beyond the recorded ones, relative to the range of a column."""


@dataclass(frozen=True)
class Recorded:
    """Some observations of the data, in random order, and the names of their columns."""

    observations: Floats
    names: tuple[str, ...]
    note: str = ""
    """If there are no observations, the reason."""

    def random(self, count: int, spec: Spec, generator: np.random.Generator) -> Floats:
        """Random observations within the recorded range and beyond it, with independent columns."""
        if len(self.observations):
            low, high = self.observations.min(axis=0), self.observations.max(axis=0)
        else:
            zeros, ones = [0.0] * spec.observation_size, [1.0] * spec.observation_size
            mean = np.array(spec.statistics.get("observation_mean", zeros))
            std = np.array(spec.statistics.get("observation_std", ones))
            low, high = mean - 2.0 * std, mean + 2.0 * std
        width = np.maximum(high - low, 1e-3)
        drawn = generator.uniform(low - BEYOND * width, high + BEYOND * width, (count, spec.observation_size))
        return drawn.astype(np.float32)


def recorded(run: Path | None, data: Any, spec: Spec, most: int, generator: np.random.Generator) -> Recorded:
    """Observations of `data`, by default the run's; data that are given must exist and fit the agent."""
    unnamed = tuple(f"observation {i}" for i in range(spec.observation_size))
    none = np.empty((0, spec.observation_size), np.float32)
    columns, named = Columns(), data is not None
    if data is None:
        if run is None or not (run / "config.json").is_file():
            return Recorded(none, unnamed, "a policy alone does not know its data; pass them with --data")
        planned = read_plan(run)
        data, columns = planned.data, planned.columns
    try:
        dataset = data if isinstance(data, Dataset) else obtain(data, columns, "auto", lambda: None)[0]
        if dataset.observation_size != spec.observation_size:
            raise WaypostError(
                f"{dataset.name}: observations have {dataset.observation_size} columns, "
                f"the agent's have {spec.observation_size}; pass the data it was trained on with --data"
            )
    except WaypostError as error:
        if named:
            raise
        return Recorded(none, unnamed, f"the run's data cannot be read ({error}); pass them with --data")
    rows = np.sort(generator.permutation(len(dataset))[:most])
    chosen = np.asarray(dataset.observations[rows], np.float32)
    return Recorded(generator.permutation(chosen), dataset.observation_names or unnamed)
