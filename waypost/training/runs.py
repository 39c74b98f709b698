"""The result of a training: in memory, or read back from its run directory.

A run directory holds
    config.json       the plan: enough to train again
    metrics.csv       training metrics, one row per seed and chunk
    evaluations.csv   one row per seed and evaluation
    checkpoint/       everything the training needs to continue: state.safetensors is the last checkpoint,
                      previous.safetensors the one before it, in case the last is damaged
    policy/           the agents, one safetensors file per seed, and policy.json
    best/             the same for the agents with the lowest loss so far, with --keep-best
    report.html       the results as one page
    result.json       the outcome; a run that has it is finished
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from waypost.envs.tasks import Factory, Task, task as find_task
from waypost.errors import WaypostError
from waypost.schema import shown
from waypost.statistics import summarise
from waypost.summaries import Summarised, Summary, number
from waypost.training.compilation import keep_programs
from waypost.training.evaluation import MEASURES, rollouts
from waypost.training.plan import Plan, read_plan
from waypost.training.policy import Policy, load_policies
from waypost.training.records import UNFINISHED, read_config, read_result
from waypost.training.shown import Shown
from waypost.training.state import identity, load_tables
from waypost.types import Count


@dataclass(frozen=True, eq=False, repr=False)
class Run(Summarised):
    """The result of a training."""

    plan: Plan[Any]
    result: dict[str, Any]
    policies: list[Policy]
    """One per seed."""
    metrics: list[dict[str, Any]]
    """Rows of metrics.csv."""
    evaluations: list[dict[str, Any]]
    """Rows of evaluations.csv."""
    directory: Path | None = None
    shown: Shown | None = None
    """Some recorded episodes for its page; None if there is a simulator, or if the run was read back."""

    @property
    def policy(self) -> Policy:
        """The policy of the first seed."""
        return self.policies[0]

    def report(self, out: str | Path | None = None) -> Path:
        """Write the page of the run; by default report.html in its directory."""
        if out is None and self.directory is None:
            raise WaypostError("the run has no directory; give a file for its report")
        return write_page(self, Path(out) if out is not None else Path(str(self.directory)) / "report.html")

    def summary(self) -> Summary:
        plan, mean = self.plan, self.result["mean"]
        found = [f"{name.replace('_', ' ')} {mean[name]:.2f}" for name in MEASURES if mean[name] is not None]
        line = f"Run {plan.algorithm} on {plan.data}, {plan.steps} steps, seeds {', '.join(map(str, plan.seeds[:10]))}"
        losses = last_losses(self.metrics)
        if not found and losses:
            names = list(dict.fromkeys(name for each in losses.values() for name in each))
            cells = [(str(seed), *(f"{each[name]:.4g}" for name in names)) for seed, each in losses.items()]
            return Summary(line, ("seed", *names), cells)
        rows = [
            (str(each["seed"]), *(number(each[measure], 2) for measure in MEASURES)) for each in self.result["per_seed"]
        ]
        return Summary("; ".join([line, *found]), ("seed", *MEASURES), rows)


def _no_page(run: Run, path: Path) -> Path:
    raise WaypostError("waypost.report is not loaded, which writes the page of a run: import waypost")


write_page: Callable[[Run, Path], Path] = _no_page
"""Writes the page of a run. Set by `waypost.report`, a layer to the right of this one."""


def directory_of(run: str | Path | Run) -> Path:
    """Where a run lies."""
    if isinstance(run, str | Path):
        return Path(run)
    if not isinstance(run, Run):
        raise WaypostError(f"a run must be a waypost.Run or its directory, got {shown(run)}")
    if run.directory is None:
        raise WaypostError("this run is in memory only; train it with out=FOLDER, so that it can be read again")
    return run.directory


def load_run(directory: str | Path) -> Run:
    """A finished run from its directory."""
    directory = Path(directory)
    planned = read_plan(directory)
    if not (directory / "result.json").is_file():
        raise WaypostError(f"{directory}: {UNFINISHED}")
    tables = load_tables(directory, identity(read_config(directory)))
    outcome = read_result(directory)
    return Run(planned, outcome, load_policies(directory), tables["metrics"], tables["evaluations"], directory)


def evaluate(
    subject: Run | Policy | str | Path,
    env: str | Factory | None = None,
    *,
    episodes: int | None = None,
    seed: int | None = None,
    workers: int | None = None,
    progress: Count | None = None,
) -> dict[str, Any]:
    """Evaluate the agents of a run, a run directory or a policy; the result has the schema of result.json.

    The task, the number of episodes, their seed and the workers default to those of the run. `env` may also be a
    function or class that makes an environment; parts of a Dict observation are put in the order of the agent's
    columns if the names agree. Nothing is written.
    """
    keep_programs()
    planned = None
    if not isinstance(subject, Run | Policy | str | Path):
        raise WaypostError(f"expected a run, its directory or a policy to evaluate, got {shown(subject)}")
    if isinstance(subject, str | Path):
        planned, policies = read_plan(Path(subject)), load_policies(subject)
    elif isinstance(subject, Run):
        planned, policies = subject.plan, subject.policies
    else:
        policies = [subject]
    name = env or (planned.task if planned else None)
    if name is None:
        raise WaypostError("no task to evaluate on; name one with --env (in Python: env=...)")
    spec = policies[0].spec
    task = replace(find_task(name), names=spec.names_in_time, action_names=spec.action_names)
    given = {"episodes": episodes, "seed": seed, "workers": workers}
    protocol = replace(
        planned.evaluation if planned else task.protocol, **{key: n for key, n in given.items() if n is not None}
    )
    begun = time.monotonic()
    found = rollouts(
        [policy.actor for policy in policies],
        task,
        protocol.episodes,
        protocol.seed,
        progress=progress,
        workers=protocol.workers,
    )
    per_seed = [{"seed": policy.seed, **each} for policy, each in zip(policies, found.measures(task), strict=True)]
    data, steps = (planned.data, planned.steps) if planned else (None, None)
    return result(policies[0].algorithm, data, task, steps, per_seed, time.monotonic() - begun)


def result(
    algorithm: str,
    data: str | None,
    task: Task | None,
    steps: int | None,
    per_seed: list[dict[str, Any]],
    seconds: float,
) -> dict[str, Any]:
    """The outcome of a training or an evaluation, as in result.json and `--json`."""
    summaries = {measure: summarise([each[measure] for each in per_seed]) for measure in MEASURES}
    return {
        "algorithm": algorithm,
        "data": data,
        "task": task.name if task else None,
        "suite": task.suite if task else None,
        "steps": steps,
        "per_seed": per_seed,
        **{
            statistic: {measure: summaries[measure][statistic] for measure in MEASURES}
            for statistic in next(iter(summaries.values()))
        },
        "seconds": round(seconds, 3),
        "versions": {name: version(name) for name in ("waypost", "jax", "equinox", "optax", "gymnasium", "numpy")},
    }


def last_evaluations(evaluations: list[dict[str, Any]], planned: Plan[Any]) -> list[dict[str, Any]]:
    """For each seed the mean over the last evaluations that the protocol counts; None without a simulator."""
    per_seed = []
    for seed in planned.seeds:
        rows = [row for row in evaluations if row["seed"] == seed][-planned.evaluation.last :]
        means = {
            measure: float(np.mean([row[measure] for row in rows])) if rows and rows[0][measure] is not None else None
            for measure in MEASURES
        }
        per_seed.append({"seed": seed, **means})
    return per_seed


def last_losses(metrics: list[dict[str, Any]]) -> dict[int, dict[str, float]]:
    """Each seed's last value of every loss, held-out losses included."""
    last: dict[int, dict[str, float]] = {}
    for row in metrics:
        losses = {name: value for name, value in row.items() if name.endswith("_loss") and value is not None}
        last.setdefault(row["seed"], {}).update(losses)
    return {seed: losses for seed, losses in last.items() if losses}
