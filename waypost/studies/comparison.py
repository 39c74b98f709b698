"""Algorithms compared on the same data: trained, evaluated and ranked, one run directory each.

The folder of a comparison holds
    DATA/ALGORITHM/   the run directories: each resumes, and is only read once it is finished
    results.csv       one row per data set and algorithm
    results.md        the same as Markdown tables
    compare.html      tables, scores and learning curves as one page
    DATA/scores.png, DATA/curves.png, profiles.png   its figures
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from waypost import statistics
from waypost.agents import ALGORITHMS, find_entry
from waypost.agents.settings import COUNTER
from waypost.data.large import obtain
from waypost.data.names import short_name
from waypost.data.pipeline import Pipeline
from waypost.data.roles import Columns
from waypost.envs.tasks import Factory, Protocol, common_suite, task as find_task
from waypost.errors import WaypostError
from waypost.files import table
from waypost.schema import conform
from waypost.statistics import Estimate, Profile
from waypost.studies.judge.runs import VALUE, held_out, judge_runs
from waypost.studies.settings import read_settings as read_settings, with_tuples as with_tuples
from waypost.studies.trials import Trial
from waypost.studies.updates import total_updates, with_total_updates
from waypost.studies.workers import HERE, Outcome, Runner
from waypost.summaries import Summarised, Summary
from waypost.training.callbacks import Callback
from waypost.training.plan import Plan, plan
from waypost.training.runs import Run

BEHAVIOUR = "data"
"""The row of a table for the data themselves: the mean return of their episodes."""


@dataclass(frozen=True, eq=False)
class Entry:
    """One algorithm on one data set; without a run, a note says why."""

    data: str
    algorithm: str
    measure: str = "score"
    """What it is ranked by: the score, the return if the task has no scores, the value if there is no task."""
    values: tuple[float, ...] = ()
    """The measure of each seed."""
    mean: float | None = None
    std: float | None = None
    range: list[float] | None = None
    """Of the seeds; None for one seed."""
    interval: list[float] | None = None
    """95 % interval of the mean; None for fewer than five seeds."""
    rank: float | None = None
    """1 is the best on these data; ties share a rank."""
    steps: int | None = None
    seconds: float | None = None
    note: str = ""
    run: Run | None = None

    @property
    def spread(self) -> list[float] | None:
        """What a table shows beside the mean; see `statistics.spread_name`."""
        return self.interval or self.range


class Overall(NamedTuple):
    """One algorithm on all data sets."""

    algorithm: str
    mean_rank: float
    interquartile_mean: Estimate | None
    """Of the scores of all runs; None if the tasks have no scores."""
    optimality_gap: Estimate | None
    """How far runs stay below a score of 100; None if the tasks have no scores."""
    improvement: Estimate | None
    """The probability that one of its runs is better than one of the reference; None for the reference."""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Summarised):
    """The result of a comparison."""

    data: tuple[str, ...]
    algorithms: tuple[str, ...]
    suite: str | None
    entries: tuple[Entry, ...]

    def summary(self) -> Summary:
        best = [next((entry for entry in self.of(data) if entry.rank), None) for data in self.data]
        found = [f"{entry.algorithm} {entry.mean:.1f} on {entry.data}" for entry in best if entry]
        line = f"Comparison of {', '.join(self.algorithms)}; best: {', '.join(found) or 'no results'}"
        rows = [(data, *cells(each)) for data in self.data for each in self.of(data)]
        return Summary(line, ("data", *self.header), rows)

    def of(self, data: str) -> list[Entry]:
        """The entries of one data set, best first; those without a result last."""
        found = [entry for entry in self.entries if entry.data == data]
        return sorted(found, key=lambda entry: (entry.mean is None, -(entry.mean or 0.0)))

    @property
    def header(self) -> tuple[str, ...]:
        """The columns of a table of one data set."""
        spread = statistics.spread_name(max((len(entry.values) for entry in self.entries), default=0))
        return ("algorithm", "mean", "std", spread, "rank", "updates", "minutes", "seeds")

    @property
    def mean_ranks(self) -> dict[str, float]:
        """The mean rank of each algorithm with a result on every data set, best first."""
        ranks = {name: [e.rank for e in self.entries if e.algorithm == name] for name in self.algorithms}
        means = {name: float(np.mean([r for r in found if r])) for name, found in ranks.items() if None not in found}
        return dict(sorted(means.items(), key=lambda item: item[1]))

    @property
    def reference(self) -> str:
        """What the others are compared with: BC if it has a result on every data set, else the best by mean rank."""
        return "bc" if "bc" in self.mean_ranks else next(iter(self.mean_ranks), "")

    @cached_property
    def overall(self) -> list[Overall]:
        """The algorithms with a result on every data set, best mean rank first; empty for a single data set."""
        found = []
        for name, tasks in self._values.items():
            middle = statistics.aggregate_interquartile_mean(tasks) if self._scored else None
            gap = statistics.optimality_gap(tasks) if self._scored else None
            better = statistics.probability_of_improvement(tasks, self._values[self.reference])
            found.append(Overall(name, self.mean_ranks[name], middle, gap, None if name == self.reference else better))
        return found

    @cached_property
    def profiles(self) -> dict[str, Profile]:
        """The performance profile of each algorithm in `overall`, if the tasks have scores."""
        if not (self._values and self._scored):
            return {}
        scores = [score for tasks in self._values.values() for runs in tasks.values() for score in runs]
        thresholds = np.linspace(min(0.0, *scores), max(100.0, *scores), 101)
        return {name: statistics.performance_profile(tasks, thresholds) for name, tasks in self._values.items()}

    @property
    def _values(self) -> dict[str, dict[str, tuple[float, ...]]]:
        """The measure of every run by algorithm and data set, for algorithms with results on all of several sets."""
        whole = self.mean_ranks if len(self.data) > 1 else {}
        return {name: {e.data: e.values for e in self.entries if e.algorithm == name} for name in whole}

    @property
    def _scored(self) -> bool:
        return all(entry.measure == "score" for entry in self.entries if entry.values)

    def to_json(self) -> dict[str, Any]:
        """Everything except the runs."""
        return {
            "suite": self.suite,
            "mean_ranks": self.mean_ranks,
            "entries": [
                {each.name: getattr(entry, each.name) for each in fields(entry) if each.name != "run"}
                for entry in self.entries
            ],
            "overall": {
                "reference": self.reference,
                "algorithms": [
                    {k: v._asdict() if isinstance(v, Estimate) else v for k, v in each._asdict().items()}
                    for each in self.overall
                ],
                "thresholds": next((profile.thresholds.tolist() for profile in self.profiles.values()), []),
                "profiles": {name: profile.shares.tolist() for name, profile in self.profiles.items()},
            },
        }


def compare(
    data: Sequence[str | Path],
    algorithms: Sequence[str] | None = None,
    *,
    out: str | Path,
    env: str | Factory | None = None,
    seeds: int | Sequence[int] = 3,
    steps: int | None = None,
    evaluation: Protocol | Callable[[Protocol], Protocol] | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    columns: Columns | None = None,
    pipeline: Pipeline | None = None,
    callback: Callback | None = None,
    runner: Runner = HERE,
) -> Comparison:
    """Train and evaluate every algorithm on every data set; finished runs are only read.

    data         names, files or folders, as for `train`; their tasks must belong to the same suite
    algorithms   names; by default all
    env          task to evaluate on; by default the data's own; without one, policies are evaluated on a tenth of the
                 episodes, which is held out (docs/judge.md)
    out          the folder of the comparison: the same call resumes an interrupted one
    seeds        number of agents of each algorithm, or their seeds
    steps        updates of each agent, divided among the stages of its training as in its preset; by default each
                 preset's
    evaluation   a `Protocol`, or a function from each task's to another; by default each task's
    settings     for each algorithm's name, settings that override its preset
    columns, pipeline    how the data are read, as for `train`
    runner       where and when trainings run (`waypost.studies.workers`); by default one after the other, here
    An algorithm that cannot learn from a data set, or diverges there, gets a note instead of numbers. A folder that
    cannot be used ends the comparison: another process trains in it, it has other settings, or the disk is full.
    """
    callback = callback or Callback()
    if not data or any(not str(source).strip() for source in data):
        raise WaypostError("no data to compare on; name one or more data sets with --data")
    if steps is not None and not 1 <= conform(steps, int, "steps") <= COUNTER:
        raise WaypostError(f"steps must be from 1 to {COUNTER}, got {steps}")
    names = tuple(dict.fromkeys(algorithms or ALGORITHMS))
    given = settings or {}
    for name in (*names, *given):
        find_entry(name)
    asked: dict[str, Any] = {"env": env, "seeds": seeds, "columns": columns, "pipeline": pipeline}
    plans = {
        (str(source), name): plan(name, str(source), **asked, **with_tuples(given.get(name, {})))
        for source in data
        for name in names
    }
    tasks = {planned.task for planned in plans.values()}
    if None in tasks and len(tasks) > 1:
        raise WaypostError("some of the data have a task and others have none; compare them separately")
    suites = [find_task(name).suite for name in tasks if name]
    suite = None if not suites else common_suite(suites) if len(data) > 1 else suites[0]
    if not suites:
        shares = {str(source): held_out(plans[str(source), names[0]]).hold_out for source in data}
        plans = {key: replace(planned, hold_out=shares[key[0]]) for key, planned in plans.items()}
    if len({short_name(source) for source in data}) < len(data):
        raise WaypostError(
            f"{', '.join(map(str, data))}: two of these would share a folder; give the files different names"
        )
    trials = {key: _trial(planned, evaluation, steps, Path(out)) for key, planned in plans.items()}
    outcomes: dict[Path, Outcome] = {}
    for trial, outcome in runner([*trials.values()], callback):
        outcomes[trial.place] = outcome
        if isinstance(outcome, WaypostError):
            callback.note(f"{trial.plan.algorithm} on {trial.plan.data}: {outcome}")
    found: dict[str, list[Entry]] = {}
    for (source, name), trial in trials.items():
        found.setdefault(source, []).append(_entry(source, name, outcomes[trial.place], bool(suites)))
    if not suites:
        entries = judged(found, callback)
    else:
        entries = [entry for same_data in found.values() for entry in _ranked(same_data)]
        entries += [_behaviour(plans[str(source), names[0]]) for source in data]
    return Comparison(tuple(map(str, data)), names, suite, tuple(entries))


def _trial(
    planned: Plan, evaluation: Protocol | Callable[[Protocol], Protocol] | None, steps: int | None, out: Path
) -> Trial:
    protocol = evaluation(planned.evaluation) if callable(evaluation) else evaluation
    planned = replace(planned, evaluation=protocol or planned.evaluation)
    if steps is not None:
        planned = with_total_updates(planned, steps)
    return Trial(planned, planned.data, out / short_name(planned.data) / planned.algorithm)


# -- entries ---------------------------------------------------------------------------------------


def _entry(source: str, name: str, outcome: Outcome, simulated: bool) -> Entry:
    if isinstance(outcome, WaypostError):
        return Entry(source, name, note=str(outcome))
    measure = "score" if outcome.result["mean"]["score"] is not None else "return"
    values = tuple(each[measure] for each in outcome.result["per_seed"]) if simulated else ()
    spent = {"steps": total_updates(outcome.plan), "seconds": outcome.result["seconds"]}
    return with_values(Entry(source, name, measure, **spent, run=outcome), values)


def _behaviour(planned: Plan) -> Entry:
    """The mean return of the data's own episodes."""
    data = planned.data
    dataset, _ = obtain(data, planned.columns, "auto", lambda: None, pipeline=planned.pipeline)
    if dataset.rewards is None:
        return Entry(data, BEHAVIOUR, note="the data have no rewards")
    mean = float(dataset.episode_returns.mean())
    score = find_task(str(planned.task)).score(mean)
    return Entry(data, BEHAVIOUR, "return" if score is None else "score", mean=mean if score is None else float(score))


def with_values(entry: Entry, values: Sequence[float], **changes: Any) -> Entry:
    """The entry with the measure of each seed and its statistics.

    Computed from the seeds: the result.json of an older run may have intervals for too few seeds.
    """
    summary = {key: number for key, number in statistics.summarise(values).items() if key != "iqm"}
    return replace(entry, values=tuple(values), **summary, **changes)


def judged(found: Mapping[str, Sequence[Entry]], callback: Callback) -> list[Entry]:
    """Without a simulator: entries ranked by their values on held-out episodes, the data's own row last."""
    entries, behaviours = [], []
    for source, same_data in found.items():
        runs = [entry.run for entry in same_data if entry.run is not None]
        if not runs:
            raise WaypostError(same_data[0].note)
        callback.note(f"evaluating the policies on held-out episodes of {source}")
        values, notes = judge_runs(runs)
        behaviours.append(replace(Entry(source, BEHAVIOUR, VALUE), mean=values[None][0]))
        known = [entry for entry in same_data if entry.run is None]
        for entry in same_data:
            if entry.run is not None:
                note = notes.get(entry.algorithm, "")
                known.append(with_values(entry, values.get(entry.algorithm, ()), measure=VALUE, note=note))
        entries += _ranked(known)
    return entries + behaviours


def _ranked(entries: list[Entry]) -> list[Entry]:
    means = [entry.mean for entry in entries if entry.mean is not None]
    ranks = {mean: 1 + sum(other > mean for other in means) + (means.count(mean) - 1) / 2 for mean in means}
    return [replace(entry, rank=None if entry.mean is None else ranks[entry.mean]) for entry in entries]


# -- tables ----------------------------------------------------------------------------------------


def as_csv(comparison: Comparison) -> str:
    rows = []
    for entry in comparison.entries:
        low, high = entry.spread or (None, None)
        row = {name: getattr(entry, name) for name in ("data", "algorithm", "measure", "mean", "std")}
        row |= {"low": low, "high": high, "spread": statistics.spread_name(len(entry.values)) if entry.spread else None}
        row |= {name: getattr(entry, name) for name in ("rank", "steps", "seconds")}
        rows.append(row | {"seeds": " ".join(f"{value:.4g}" for value in entry.values), "note": entry.note})
    return table(list(rows[0]), rows)


def as_markdown(comparison: Comparison) -> str:
    tables: list[tuple[str, Sequence[str], list[list[str]]]] = [
        (data, comparison.header, [cells(entry) for entry in comparison.of(data)]) for data in comparison.data
    ]
    tables += [("all data", *overall_table(comparison))] if len(comparison.data) > 1 else []
    lines = []
    for title, header, rows in tables:
        lines += [f"**{title}**", "", f"| {' | '.join(header)} |", "|---|" + "---:|" * (len(header) - 1)]
        lines += [*(f"| {' | '.join(row)} |" for row in rows), ""]
    return "\n".join(lines)


def overall_table(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table over all data sets; with five seeds or more, 95 % intervals in brackets."""
    columns: dict[str, Callable[[Overall], str]] = {
        "algorithm": lambda each: each.algorithm,
        "mean rank": lambda each: f"{each.mean_rank:.1f}",
    }
    if comparison.profiles:
        columns["interquartile mean"] = lambda each: _estimate(each.interquartile_mean, 1)
        columns["optimality gap"] = lambda each: _estimate(each.optimality_gap, 1)
    if len(comparison.overall) > 1:
        columns[f"P(better than {comparison.reference})"] = lambda each: _estimate(each.improvement, 2)
    return list(columns), [[write(each) for write in columns.values()] for each in comparison.overall]


def _estimate(estimate: Estimate | None, digits: int) -> str:
    if estimate is None:
        return ""
    value, interval = estimate
    return f"{value:.{digits}f}" + (f" ({interval[0]:.{digits}f} to {interval[1]:.{digits}f})" if interval else "")


def cells(entry: Entry) -> list[str]:
    """A row of a table of one data set, for people."""
    digits = 1 if entry.measure == "score" else 2

    def number(value: float | None, places: int = digits) -> str:
        return "" if value is None else f"{value:.{places}f}"

    if entry.mean is None:
        return [entry.algorithm, *[""] * 6, entry.note.replace("|", "/")]
    return [
        "mean of the data" if entry.algorithm == BEHAVIOUR else entry.algorithm,
        number(entry.mean),
        number(entry.std if len(entry.values) > 1 else None),
        " to ".join(map(number, entry.spread or ())),
        number(entry.rank, 0 if entry.rank is None or entry.rank == int(entry.rank) else 1),
        "" if entry.steps is None else f"{entry.steps:,}",
        number(None if entry.seconds is None else entry.seconds / 60, 1),
        ", ".join(map(number, entry.values)),
    ]
