"""Small replicas and cheap evaluations for the experiments that train."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import waypost
from waypost.envs.tasks import TASKS
from waypost.studies.paper.benchmark import row_of
from waypost.studies.paper.experiment import Context
from waypost.training.evaluation import MEASURES
from waypost.training.plan import plan
from waypost.training.runs import Run, result

SIZES = {"hopper": (11, 3), "halfcheetah": (17, 6), "walker2d": (17, 6), "antmaze": (29, 8)}
"""Columns of observations and actions."""


@pytest.fixture
def replicas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Record named replicas: random rows of the right shape, in episodes of 10."""
    monkeypatch.setenv("WAYPOST_DATA", str(tmp_path / "data"))

    def record(*names: str, rows: int = 200) -> None:
        for name in names:
            rng = np.random.default_rng(len(name))
            seen, done = SIZES[name.split("-")[0]]
            states = rng.normal(size=(rows, 2, seen))
            end = np.arange(1, rows + 1) % 10 == 0
            states[:-1][~end[:-1], 1] = states[1:][~end[:-1], 0]
            dataset = waypost.Dataset.from_arrays(
                states[:, 0],
                states[:, 1],
                rng.uniform(-1, 1, (rows, done)),
                rng.uniform(size=rows),
                timeouts=end,
                action_low=np.full(done, -1.0),
                action_high=np.full(done, 1.0),
                name=row_of(name),
                task=row_of(name),
            )
            waypost.save(dataset, tmp_path / "data" / f"{name}.npz")

    return record


@pytest.fixture
def cheap_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents are evaluated by their weights: no simulator, and other agents still get other scores."""

    class Evaluated:
        def __init__(self, agents: list[Any], task: Any, *args: Any, **options: Any):
            self.agents = agents

        def measures(self, task: Any) -> list[dict[str, float]]:
            return [{**dict.fromkeys(MEASURES, 1.0), "score": self.score(agent)} for agent in self.agents]

        def score(self, agent: Any) -> float:
            return float(sum(np.asarray(leaf, float).sum() for leaf in jax.tree.leaves(agent)) % 100)

    monkeypatch.setattr("waypost.training.beside.rollouts", Evaluated)
    monkeypatch.setattr("waypost.training.trainer.check", lambda agent, task: None)


def made_up(algorithm: str, data: str, scores: list[float], steps: int = 100, directory: Path | None = None) -> Run:
    """A run that never was: two evaluations of each seed, the last with these scores."""
    planned = plan(algorithm, data, steps=steps, seeds=len(scores))
    task = TASKS[data]
    per_seed = [{"seed": seed, **dict.fromkeys(MEASURES, score)} for seed, score in enumerate(scores)]
    evaluations = [
        {"step": step, "seed": seed, "score": score * step / steps}
        for step in (steps // 2, steps)
        for seed, score in enumerate(scores)
    ]
    return Run(planned, result(algorithm, data, task, steps, per_seed, 1.0), [], [], evaluations, directory)


@pytest.fixture
def made() -> Callable[..., Run]:
    return made_up


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str, str], Any]], list[tuple[str, str]]]:
    """Train nothing: `give(data, kind)` says each score, or raises; what was asked for is listed."""

    def install(give: Callable[[str, str], Any]) -> list[tuple[str, str]]:
        asked: list[tuple[str, str]] = []

        def train(self: Context, algorithm: str, data: Any, *, label: str, **options: Any) -> Run:
            name, kind = label.split("/")[:2]
            asked.append((name, kind))
            return made_up(algorithm, name, [give(name, kind) + seed for seed in range(self.size.seeds)])

        monkeypatch.setattr(Context, "train", train)
        return asked

    return install
