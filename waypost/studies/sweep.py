"""A sweep over settings of one algorithm: a grid, or a search with Optuna, with early stopping of unpromising trials.

The folder of a sweep holds
    HASH/            a run directory for each trial, named by its settings; HASH.log says what happened
    trials.json      the settings in the order they were tried, and which of them were stopped early
    results.csv, results.md, results.json    the table, best first
    sweep.html       the same as one page, with learning curves
The same call continues after an interruption; a larger grid or more trials add to what is there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np

from waypost import statistics
from waypost.data.pipeline import Pipeline
from waypost.data.roles import Columns
from waypost.envs.tasks import Factory, Protocol
from waypost.errors import WaypostError
from waypost.files import json_text, table, write_text
from waypost.schema import conform
from waypost.studies.candidates import Candidates, Grid, Range, Settings, Suggested
from waypost.studies.halving import Halving
from waypost.studies.judge.runs import VALUE
from waypost.studies.measures import Measure, usual
from waypost.studies.results import NotTrained
from waypost.studies.settings import with_tuples
from waypost.studies.trials import Trial, identity, status
from waypost.studies.updates import total_updates, with_total_updates
from waypost.studies.workers import HERE, Outcome, Runner, only_read
from waypost.summaries import Summarised, Summary
from waypost.training.callbacks import Callback
from waypost.training.plan import Plan, plan
from waypost.training.records import read_record
from waypost.training.runs import Run


class Known(TypedDict):
    """The entry of a trial in trials.json."""

    trial: str
    settings: dict[str, Any]
    rungs: NotRequired[dict[str, float | None]]
    """The value measured at each update where it paused."""
    stopped: NotRequired[int]
    """The update where it was stopped for good."""
    values: NotRequired[dict[str, list[float]]]
    """Values by `waypost judge`, by measure: they take long."""


@dataclass(frozen=True, eq=False)
class Row:
    """The result of one choice of settings."""

    settings: Settings
    directory: Path
    steps: int
    """Its updates."""
    values: tuple[float, ...] = ()
    """The measure of each seed."""
    mean: float | None = None
    std: float | None = None
    spread: list[float] | None = None
    rank: float | None = None
    """1 is the best; ties share a rank."""
    seconds: float | None = None
    note: str = ""
    run: Run | None = None

    @property
    def label(self) -> str:
        return label_of(self.settings)


@dataclass(frozen=True, eq=False, repr=False)
class Sweep(Summarised):
    """The result of a sweep."""

    algorithm: str
    data: str
    measure: str
    names: tuple[str, ...]
    """The settings that were varied."""
    rows: tuple[Row, ...]
    """Best first; those without a result last."""

    @property
    def best(self) -> Row | None:
        return self.rows[0] if self.rows and self.rows[0].mean is not None else None

    @property
    def header(self) -> tuple[str, ...]:
        spread = statistics.spread_name(max((len(row.values) for row in self.rows), default=0))
        return ("settings", self.measure.replace("_", " "), "std", spread, "rank", "updates", "minutes", "seeds")

    def summary(self) -> Summary:
        best = "no results" if self.best is None else f"{self.best.label}, {self.measure} {self.best.mean:.4g}"
        line = f"Sweep of {self.algorithm} on {self.data}, {len(self.rows)} trials; best: {best}"
        return Summary(line, self.header, [tuple(cells(row)) for row in self.rows])

    def to_json(self) -> dict[str, Any]:
        return {
            "algorithm": self.algorithm,
            "data": self.data,
            "measure": self.measure,
            "best": None if self.best is None else self.best.settings,
            "trials": [
                {name: getattr(row, name) for name in ("settings", "steps", "values", "mean", "std", "rank", "note")}
                | {"seconds": row.seconds, "directory": str(row.directory)}
                for row in self.rows
            ],
        }


@dataclass(frozen=True)
class Early:
    """Early stopping of unpromising trials: see `waypost.studies.halving`."""

    factor: int = 3
    first: int | None = None
    """Updates at the first rung."""


def sweep(
    algorithm: str,
    data: str | Path,
    grid: Mapping[str, Sequence[Any]],
    *,
    out: str | Path,
    ranges: Mapping[str, Range] | None = None,
    trials: int | None = None,
    search_seed: int = 0,
    measure: str | None = None,
    early: Early | None = None,
    env: str | Factory | None = None,
    seeds: int | Sequence[int] = 3,
    steps: int | None = None,
    evaluation: Callable[[Protocol], Protocol] = lambda usual: usual,
    settings: Mapping[str, Any] | None = None,
    columns: Columns | None = None,
    pipeline: Pipeline | None = None,
    callback: Callback | None = None,
    runner: Runner = HERE,
) -> Sweep:
    """Train an algorithm with several settings and rank them.

    grid         values by setting: every combination is tried, or those that Optuna chooses
    out          the folder of the sweep: the same call resumes an interrupted one
    ranges       ranges of numbers by setting, for a search
    trials       number of Optuna's suggestions; by default the whole grid is tried
    search_seed  seed of the search
    measure      score, return, success_rate, a loss held_out_..., or value (by `waypost judge`); by default as in a
                 comparison
    early        stop unpromising trials at rungs
    settings     settings of all trials that override the preset
    The other arguments are those of `compare`.
    """
    callback, folder, ranges = callback or Callback(), Path(out), dict(ranges or {})
    if not grid and not ranges:
        raise WaypostError("nothing to try; name settings with --grid tau=0.7,0.9, or --range with --search optuna")
    if ranges and trials is None:
        raise WaypostError("ranges need a search; add --search optuna, or give the values with --grid")
    if set(grid) & set(ranges):
        raise WaypostError(f"{', '.join(set(grid) & set(ranges))}: in both --grid and --range; choose one")
    asked = {"env": env, "seeds": seeds, "columns": columns, "pipeline": pipeline, **with_tuples(settings or {})}

    def planned(chosen: Settings) -> Plan[Any]:
        found = plan(algorithm, str(data), **{**asked, **with_tuples(chosen)})
        found = found if steps is None else with_total_updates(found, conform(steps, int, "steps"))
        return replace(found, evaluation=evaluation(found.evaluation))

    whole = Grid(grid)
    ends = [{name: end} for name, each in ranges.items() for end in each[:2]]
    plans = [planned(chosen) for chosen in [*whole.combinations, *ends]]  # an error shows before any work
    by = usual(plans[0]) if measure is None else Measure(measure)
    held = by.prepared(plans[0]).hold_out
    halving = None if early is None else Halving(total_updates(plans[0]), early.factor, early.first, by.lower)
    if halving and by.simulated and not 0 < plans[0].evaluation.every <= halving.rungs[-1]:
        words = f"early stopping needs evaluations, and there is none before step {halving.rungs[-1]}"
        raise WaypostError(f"{words}; add for example --evaluate-every {halving.rungs[0]}")
    journal = _Journal(folder / "trials.json", read_only=runner is only_read)
    candidates: Candidates = whole
    if trials is not None:
        if journal.read_only:  # what comes next depends on results
            trials = min(conform(trials, int, "trials"), len(journal.known))
            if not trials:
                raise NotTrained(f"{folder}: no trials yet")
        candidates = Suggested(grid, ranges, trials, search_seed, by.lower, journal.settings)
    work = _Trials(
        lambda one: replace(planned(one), hold_out=held), str(data), folder, by, candidates, halving, journal
    )
    for trial, outcome in runner(work, callback):
        work.came_back(trial, outcome, callback)
    return Sweep(algorithm, str(data), by.name, (*grid, *ranges), tuple(_ranked(work.rows(), by.lower)))


class _Journal:
    """trials.json: what the run directories do not hold."""

    def __init__(self, file: Path, read_only: bool = False):
        self.file, self.read_only = file, read_only
        self.known: list[Known] = read_record(file, list[Known]) if file.is_file() else []
        self.saved = json_text(self.known) if self.known else ""

    @property
    def settings(self) -> list[Settings]:
        return [with_tuples(each["settings"]) for each in self.known]

    def of(self, trial: Trial, settings: Settings) -> Known:
        for each in self.known:
            if each["trial"] == trial.place.name:
                return each
        self.known.append({"trial": trial.place.name, "settings": dict(settings)})
        return self.known[-1]

    def save(self) -> None:
        text = json_text(self.known)
        if text != self.saved and not self.read_only:
            write_text(self.file, text)
            self.saved = text


@dataclass(eq=False)
class _Trials:
    """The trials of a sweep in progress, in the order they start."""

    plan: Callable[[Settings], Plan[Any]]
    data: str
    folder: Path
    measure: Measure
    candidates: Candidates
    halving: Halving | None
    journal: _Journal
    found: dict[Path, tuple[Trial, Settings, Outcome | None]] = field(default_factory=dict)
    ready: deque[Trial] = field(default_factory=deque)
    """Trials that continue after a rung."""
    running: int = 0

    def __len__(self) -> int:
        """The settings to try; a trial that pauses comes again."""
        return len(self.candidates)

    def __iter__(self) -> Iterator[Trial | None]:
        while True:
            trial = self.ready.popleft() if self.ready else self._new()
            if trial is not None:
                self.running += 1
                yield trial
            elif self.running or self.ready:
                yield None
            else:
                return

    def _new(self) -> Trial | None:
        """The next settings as a trial; results of trials stopped before are only reported."""
        while (settings := self.candidates.next()) is not None:
            planned = self.plan(settings)
            trial = Trial(planned, self.data, self.folder / identity(planned), label=label_of(settings))
            if trial.place in self.found:  # a search may suggest the same again
                self._tell(trial, settings)
                continue
            self.found[trial.place] = trial, settings, None
            known = self.journal.of(trial, settings)
            self.journal.save()
            if self.halving:
                self.halving.remember({int(rung): value for rung, value in known.get("rungs", {}).items()})
            if "stopped" in known and self.halving and not trial.finished:
                self.found[trial.place] = trial, settings, NotTrained(self._words(known))
                self.candidates.tell(settings, None)
                continue
            return self._until_next(trial, max(map(int, known.get("rungs", {})), default=0))
        return None

    def came_back(self, trial: Trial, outcome: Outcome, callback: Callback) -> None:
        self.running -= 1
        _, settings, _ = self.found[trial.place]
        if isinstance(outcome, NotTrained) and self._at_its_rung(trial) and not self.journal.read_only:
            stopped = self._stopped(trial, settings)
            if stopped is None:
                self.ready.append(self._until_next(trial, trial.until or 0))
                return
            outcome = stopped
        self.found[trial.place] = trial, settings, outcome
        if isinstance(outcome, WaypostError):
            callback.note(f"{trial.name}: {outcome}")
        elif (
            self.measure.name == VALUE and not self.journal.read_only and VALUE not in self.journal.of(trial, settings)
        ):
            callback.note(f"{trial.name}: judging it by held-out episodes")
        self._tell(trial, settings)
        self.journal.save()

    def _until_next(self, trial: Trial, step: int) -> Trial:
        return replace(trial, until=self.halving.next(step) if self.halving else None)

    def _at_its_rung(self, trial: Trial) -> bool:
        at = status(trial)
        return trial.until is not None and at.state == "interrupted" and at.step >= trial.until

    def _stopped(self, trial: Trial, settings: Settings) -> NotTrained | None:
        """Why a trial stops at its rung; None: it continues."""
        assert self.halving is not None
        assert trial.until is not None
        known, value = self.journal.of(trial, settings), self.measure.so_far(trial.plan, trial.place)
        known.setdefault("rungs", {})[str(trial.until)] = value
        goes_on = self.halving.goes_on(trial.until, value)
        if not goes_on:
            known["stopped"] = status(trial).step
        self.journal.save()
        return None if goes_on else NotTrained(self._words(known))

    def _words(self, known: Known) -> str:
        *_, value = known["rungs"].values()
        return f"stopped at step {known['stopped']}, where its {self.measure.name} was {value:.4g}"

    def _tell(self, trial: Trial, settings: Settings) -> None:
        _, first, outcome = self.found[trial.place]
        values = self._values(trial, first, outcome) if isinstance(outcome, Run) else []
        self.candidates.tell(settings, float(np.mean(values)) if values else None)

    def _values(self, trial: Trial, settings: Settings, run: Run) -> list[float]:
        if self.measure.name != VALUE:
            return self.measure.of(run)
        kept = self.journal.of(trial, settings).setdefault("values", {})
        if self.measure.name not in kept and not self.journal.read_only:
            kept[self.measure.name] = self.measure.of(run)
        return kept.get(self.measure.name, [])

    def rows(self) -> Iterator[Row]:
        for trial, settings, outcome in self.found.values():
            row = Row(settings, trial.place, status(trial).step)
            if isinstance(outcome, Run) and not (values := self._values(trial, settings, outcome)):
                why = "not estimated yet" if self.journal.read_only else f"`waypost judge {trial.place}` says why"
                yield replace(row, note=f"no {self.measure.name}: {why}", run=outcome)
            elif isinstance(outcome, Run):
                numbers = statistics.summarise(values)
                known = {name: numbers[name] for name in ("mean", "std")}
                spread = numbers["interval"] or numbers["range"]
                seconds = outcome.result["seconds"]
                yield replace(row, values=tuple(values), **known, spread=spread, seconds=seconds, run=outcome)
            else:
                yield replace(row, note=str(outcome or "not trained yet"))


def _ranked(rows: Iterator[Row], lower: bool) -> list[Row]:
    sign = 1.0 if lower else -1.0
    ordered = sorted(rows, key=lambda row: (row.mean is None, sign * (row.mean or 0.0)))
    means = [row.mean for row in ordered if row.mean is not None]
    # Ties share a rank.
    ranks = {mean: 1 + means.index(mean) + (means.count(mean) - 1) / 2 for mean in means}
    return [replace(row, rank=None if row.mean is None else ranks[row.mean]) for row in ordered]


# -- tables ----------------------------------------------------------------------------------------


def label_of(settings: Settings) -> str:
    """Settings for people: a search suggests numbers with more digits than anyone reads."""
    return " ".join(
        f"{name}={f'{value:.5g}' if isinstance(value, float) else _word(value)}" for name, value in settings.items()
    )


def cells(row: Row) -> list[str]:
    """A row of the table, for people."""

    def number(value: float | None) -> str:
        return "" if value is None else f"{value:.4g}"

    if row.mean is None:
        return [row.label, *[""] * 6, row.note.replace("|", "/")]
    minutes = "" if row.seconds is None else f"{row.seconds / 60:.1f}"
    spread = " to ".join(map(number, row.spread or ()))
    std = number(row.std if len(row.values) > 1 else None)
    seeds = ", ".join(map(number, row.values))
    return [row.label, number(row.mean), std, spread, f"{row.rank:g}", f"{row.steps:,}", minutes, seeds]


def as_csv(found: Sweep) -> str:
    rows = [
        {name: _word(row.settings[name]) for name in found.names}
        | {"measure": found.measure, "mean": row.mean, "std": row.std, "rank": row.rank, "steps": row.steps}
        | {"seconds": row.seconds, "seeds": " ".join(f"{value:.4g}" for value in row.values)}
        | {"note": row.note, "directory": row.directory.name}
        for row in found.rows
    ]
    return table(list(rows[0]), rows)


def _word(value: Any) -> str:
    return f"[{','.join(map(str, value))}]" if isinstance(value, tuple | list) else f"{value}"
