"""Held-out episodes of a training: the losses on them, and the agents with the lowest of these."""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

import jax
import numpy as np

from waypost.agents.agent import Algorithm, Array, Arrays, Stage
from waypost.data.dataset import Dataset
from waypost.errors import WaypostError
from waypost.training.loop import Learner
from waypost.training.policy import Policy, load_policies, save_policies
from waypost.training.stopping import EarlyStopping

ROWS = 2048
"""Rows on which the losses are computed, at least one batch; the same each time."""
PREFIX = "held_out_"
BEST = "best"
"""The folder of the best agents in a run directory."""


FEWEST_EPISODES = 5
"""Held-out episodes from which on `waypost judge` can say how sure it is."""


def split(dataset: Dataset, share: float, streamed: bool) -> tuple[Dataset, Dataset | None]:
    """The data to learn from and the held-out data: the same episodes for every training on these data."""
    if not share:
        return dataset, None
    if streamed:
        raise WaypostError(f"{dataset.name}: streamed data cannot be split; hold out a file of its own")
    return dataset.split(share)


class HeldOut:
    """Losses on held-out rows: the algorithm's own update is computed, and its changes are dropped."""

    def __init__(self, algorithm: Algorithm, columns: Arrays):
        self.algorithm, self._columns = algorithm, columns
        size, count = algorithm.config.batch_size, len(next(iter(columns.values())))
        self._rows = np.random.default_rng(0).integers(count, size=(max(1, ROWS // size), size)).astype(np.int32)
        self._on_device: dict[Any, dict[str, Array]] = {}
        self._program = lru_cache(maxsize=None)(self._compiled)

    def names(self, learned: list[str]) -> list[str]:
        """The names of the held-out versions of these metrics' losses."""
        return [PREFIX + name for name in learned if name.endswith("_loss")]

    def measure(self, stage: Stage, learner: Learner) -> dict[str, np.ndarray]:
        """The mean of each loss, one number per seed."""
        found = [self._losses(stage, state) for state in learner.states]
        return {PREFIX + name: np.array([float(each[name]) for each in found]) for name in found[0]}

    def _losses(self, stage: Stage, state: Any) -> dict[str, Array]:
        device = next(iter(jax.tree.leaves(state)[0].devices()))
        if device not in self._on_device:
            self._on_device[device] = jax.device_put(self._columns, device)
        return self._program(stage)(state, self._on_device[device], self._rows)

    def _compiled(self, stage: Stage) -> Any:
        def losses(state: Any, columns: dict[str, Array], batches: Array) -> dict[str, Array]:
            key = jax.random.key(0)

            def one(rows: Array) -> dict[str, Array]:
                _, metrics = self.algorithm.update(stage, state, self.algorithm.batch(columns, rows, key), key)
                return {name: value for name, value in metrics.items() if name.endswith("_loss")}

            return {name: values.mean() for name, values in jax.lax.map(one, batches).items()}

        return jax.jit(losses)


class Stalled(EarlyStopping):
    """Ends a training once a held-out loss has not fallen for `patience` rows.

    Only the last stage counts: an agent without all its parts would be of no use.
    """

    def __init__(self, column: str, patience: int, stage: str, known: list[str]):
        """`known` are the held-out losses of the last stage."""
        if column not in known:
            raise WaypostError(f"stop_early must be a held-out loss, one of {', '.join(known)}; got {column!r}")
        super().__init__(column, patience, better="lower")
        self.stage = stage

    def logged(self, step: int, rows: list[dict[str, Any]]) -> None:
        if rows[0]["stage"] == self.stage:
            super().logged(step, rows)

    def recall(self, metrics: list[dict[str, Any]]) -> None:
        """Count the rows of a run from before it was resumed."""
        for step, rows in groupby(metrics, key=lambda row: row["step"]):
            self.logged(step, list(rows))

    def evaluated(self, step: int, rows: list[dict[str, Any]]) -> None:
        """Evaluations do not hold losses."""


class Best:
    """The agents with the lowest value of a column of metrics.csv, kept in RUN/best during the training."""

    def __init__(self, column: str, known: list[str], directory: Path | None):
        if directory is None:
            raise WaypostError("keep_best needs a run directory; name it with out")
        if column not in known:
            raise WaypostError(f"keep_best must be a column of metrics.csv, one of {', '.join(known)}; got {column!r}")
        self.column, self.folder = column, directory / BEST
        self._kept: dict[int, Policy] = {}

    def look(self, earlier: list[dict[str, Any]], rows: list[dict[str, Any]], policies: Any) -> None:
        """Keep the agents whose rows are better than all earlier ones; `policies()` gives the current ones."""
        lowest = {row["seed"]: row[self.column] for row in best_rows(earlier, self.column)}
        better = {
            row["seed"]
            for row in rows
            if row.get(self.column) is not None and row[self.column] < lowest.get(row["seed"], np.inf)
        }
        if not better:
            return
        if not self._kept and lowest:
            self._kept = {policy.seed: policy for policy in load_policies(self.folder)}
        self._kept |= {policy.seed: policy for policy in policies() if policy.seed in better}
        save_policies(list(self._kept.values()), self.folder)

    def record(self, metrics: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Seed, step and value of the best agents."""
        return [{name: row[name] for name in ("seed", "step", self.column)} for row in best_rows(metrics, self.column)]


def best_rows(metrics: list[dict[str, Any]], column: str) -> list[dict[str, Any]]:
    """The row with the lowest value for each seed, the first if there are several."""
    lowest: dict[int, dict[str, Any]] = {}
    for row in metrics:
        value = row.get(column)
        if value is not None and (row["seed"] not in lowest or value < lowest[row["seed"]][column]):
            lowest[row["seed"]] = row
    return list(lowest.values())
