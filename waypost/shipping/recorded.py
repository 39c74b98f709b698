"""Recorded and random observations on which an exported policy is checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from waypost.agents.agent import Spec
from waypost.data.dataset import Dataset
from waypost.data.large import obtain
from waypost.data.pipeline import Reading
from waypost.errors import WaypostError
from waypost.training.plan import read_plan, read_reading
from waypost.training.policy import Policy
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


def recorded(run: Path | None, data: Any, policy: Policy, most: int, generator: np.random.Generator) -> Recorded:
    """Observations of `data`, by default the run's, read as the policy's own were; given data must exist and fit."""
    spec = policy.spec
    unnamed = spec.observation_names or tuple(f"observation {i}" for i in range(spec.observation_size))
    none = np.empty((0, spec.observation_size), np.float32)
    how, named = policy.reading or Reading(), data is not None
    if data is None:
        if run is None or not (run / "config.json").is_file():
            return Recorded(none, unnamed, "a policy alone does not know its data; pass them with --data")
        data = read_plan(run).data
        how = policy.reading or read_reading(run)
    try:
        dataset = data
        if not isinstance(data, Dataset):
            dataset = obtain(data, how.columns, "auto", lambda: None, pipeline=how.pipeline)[0]
        _check_columns(dataset, spec)
    except WaypostError as error:
        if named:
            raise
        return Recorded(none, unnamed, f"the run's data cannot be read ({error}); pass them with --data")
    rows = np.sort(generator.permutation(len(dataset))[:most])
    chosen = np.asarray(dataset.observations[rows], np.float32)
    return Recorded(generator.permutation(chosen), spec.observation_names or dataset.observation_names or unnamed)


def _check_columns(dataset: Dataset, spec: Spec) -> None:
    """Raise unless the agent reads such observations."""
    if dataset.observation_size != spec.observation_size:
        raise WaypostError(
            f"{dataset.name}: observations have {dataset.observation_size} columns, "
            f"the agent's have {spec.observation_size}; pass the data it was trained on with --data"
        )
    names, own = dataset.observation_names, spec.observation_names
    if names and own and names != own:
        where = next(i for i, pair in enumerate(zip(names, own, strict=True)) if pair[0] != pair[1])
        raise WaypostError(
            f"{dataset.name}: column {where + 1} of observations is {names[where]!r}, the agent's is {own[where]!r}; "
            "pass the data it was trained on with --data"
        )
