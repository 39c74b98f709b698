"""What the trials of a sweep are ranked by: a simulator's measure, a held-out loss, or the value of `waypost judge`."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from waypost.envs.tasks import task as find_task
from waypost.errors import WaypostError
from waypost.files import reading
from waypost.studies.judge.runs import VALUE, held_out, judge_runs
from waypost.training.evaluation import MEASURES
from waypost.training.plan import Plan
from waypost.training.policy import load_policies
from waypost.training.runs import Run

LOSSES = "held_out_"
"""Prefix of metrics.csv columns with losses on held-out episodes."""


MEMBERS, UPDATES = 5, 3_000
"""Of the evaluators of each trial: fewer than `waypost judge` has, because there are many trials."""


@dataclass(frozen=True)
class Measure:
    """The name of a measure, and where its values come from."""

    name: str

    def __post_init__(self) -> None:
        if self.name not in (*MEASURES, VALUE) and not self.name.startswith(LOSSES):
            known = f"{', '.join(MEASURES)}, {VALUE} (by `waypost judge`), or a column {LOSSES}... of metrics.csv"
            raise WaypostError(f"measure must be one of {known}; got {self.name}")

    @property
    def lower(self) -> bool:
        """Whether lower is better."""
        return self.name.startswith(LOSSES) or self.name == "episode_length"

    @property
    def simulated(self) -> bool:
        return self.name in MEASURES

    def prepared(self, planned: Plan[Any]) -> Plan[Any]:
        """The plan with what this measure needs."""
        if not self.simulated:
            return held_out(planned) if self.name == VALUE else held_out(planned, 1)
        if planned.task is None:
            raise WaypostError(f"{planned.data} has no simulator to measure the {self.name} in; name one with --env")
        if self.name == "score" and find_task(planned.task).score(0.0) is None:
            raise WaypostError(f"{planned.task} has no scores; use --measure return")
        return planned

    def of(self, run: Run) -> list[float]:
        """One value for each seed of a finished run."""
        if self.name == VALUE:
            return _judged(run)
        if self.simulated:
            return [each[self.name] for each in run.result["per_seed"] if each[self.name] is not None]
        return self._last(run.metrics, len(run.plan.seeds))

    def so_far(self, planned: Plan[Any], place: Path) -> float | None:
        """The mean over the seeds of a paused run; None if there is nothing yet."""
        if self.name == VALUE:
            values = _judged(Run(planned, {}, load_policies(place), [], [], place))
        else:
            rows = _table(place / ("evaluations.csv" if self.simulated else "metrics.csv"))
            values = self._last(rows, len(planned.seeds))
        return float(np.mean(values)) if values else None

    def _last(self, rows: Sequence[Mapping[str, Any]], seeds: int) -> list[float]:
        """The values of the last rows that have any, one per seed."""
        if rows and self.name not in rows[-1] and not any(self.name in row for row in rows):
            losses = sorted({name for row in rows for name in row if name.startswith(LOSSES)})
            raise WaypostError(f"there is no {self.name}; choose from {', '.join(losses) or 'nothing'}")
        known = [row[self.name] for row in rows if row.get(self.name) not in (None, "")]
        return [float(value) for value in known[-seeds:]]


def usual(planned: Plan[Any]) -> Measure:
    """The score, the return if the task has no scores, the value of `waypost judge` if there is no task."""
    if planned.task is None:
        return Measure(VALUE)
    return Measure("return" if find_task(planned.task).score(0.0) is None else "score")


def _judged(run: Run) -> list[float]:
    values, _ = judge_runs([run], members=MEMBERS, steps=UPDATES)
    return values.get(run.plan.algorithm, [])


def _table(path: Path) -> list[dict[str, str]]:
    with reading(path, "a table"):
        return list(csv.DictReader(path.read_text("utf-8").splitlines()))
