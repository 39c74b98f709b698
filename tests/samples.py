"""Small things to learn from, for tests to import."""

from __future__ import annotations

import numpy as np

from waypost.data.dataset import Dataset

TINY = {"value_hidden": (8, 8), "guide_hidden": (8, 8), "executor_hidden": (8, 8), "batch_size": 16}
"""POR networks that compile and run in no time."""


def walk(rows: int = 60, size: int = 2, seed: int = 0, episode: int = 12) -> Dataset:
    """Random steps in a plane, in episodes that end in turn with a terminal and a timeout."""
    rng = np.random.default_rng(seed)
    actions = rng.uniform(-1, 1, (rows, size)).astype(np.float32)
    observations = rng.normal(size=(rows, size)).astype(np.float32)
    following = np.empty_like(observations)
    for row in range(rows):
        if row % episode:
            observations[row] = following[row - 1]
        following[row] = observations[row] + 0.1 * actions[row]
    end = np.arange(1, rows + 1) % episode == 0
    terminal = end & (np.arange(rows) // episode % 2 == 0)
    return Dataset.from_arrays(
        observations,
        following,
        actions,
        rng.normal(size=rows).astype(np.float32),
        terminal,
        end & ~terminal,
        action_low=np.full(size, -1.0),
        action_high=np.full(size, 1.0),
        name="walk",
    )
