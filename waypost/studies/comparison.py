"""Algorithms side by side on the same data: trained, judged and ranked, one run directory each.

The folder of a comparison holds
    DATA/ALGORITHM/   the run directories: every one resumes and is skipped once it is finished
    results.csv       one row per data set and algorithm
    results.md        the same as tables to paste
    compare.html      tables, scores and learning curves as one page
    DATA/scores.png, DATA/curves.png   its pictures
"""

from __future__ import annotations

import csv
import io
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from waypost.agents import ALGORITHMS, algorithm, find_entry
from waypost.agents.agent import Spec
from waypost.data.columns import Columns
from waypost.data.large import obtain
from waypost.envs.tasks import Protocol, common_suite
from waypost.envs.tasks import task as find_task
from waypost.errors import WaypostError
from waypost.training.callbacks import Callback, in_turn
from waypost.training.plan import Plan, plan
from waypost.training.runs import Run
from waypost.training.trainer import execute

BEHAVIOUR = "data"
"""The row of a table that is no algorithm: what the data's own episodes earned."""


@dataclass(frozen=True, eq=False)
class Entry:
    """One algorithm on one data set; without a run, why there is none."""

    data: str
    algorithm: str
    measure: str = "score"
    """What it is judged by: the score, or the return where the task has no scores."""
    values: tuple[float, ...] = ()
    """The measure of each seed."""
    mean: float | None = None
    std: float | None = None
    interval: tuple[float, float] | None = None
    rank: float | None = None
    """1 is the best on these data; equals share theirs."""
    steps: int | None = None
    seconds: float | None = None
    note: str = ""
    run: Run | None = None


@dataclass(frozen=True, eq=False)
class Comparison:
    """What a comparison found."""

    data: tuple[str, ...]
    algorithms: tuple[str, ...]
    suite: str | None
    entries: tuple[Entry, ...]

    def of(self, data: str) -> list[Entry]:
        """The entries of one data set, best first; those without a result last."""
        found = [entry for entry in self.entries if entry.data == data]
        return sorted(found, key=lambda entry: (entry.mean is None, -(entry.mean or 0.0)))

    def to_json(self) -> dict[str, Any]:
        """Everything but the runs."""
        hidden = {"run"}
        return {
            "suite": self.suite,
            "mean_ranks": self.mean_ranks,
            "entries": [
                {each.name: getattr(entry, each.name) for each in fields(entry) if each.name not in hidden}
                for entry in self.entries
            ],
        }

    @property
    def mean_ranks(self) -> dict[str, float]:
        """The mean rank of each algorithm that has a result on every data set, best first."""
        ranks = {name: [e.rank for e in self.entries if e.algorithm == name] for name in self.algorithms}
        whole = {
            name: sum(r for r in found if r is not None) / len(found)
            for name, found in ranks.items()
            if None not in found
        }
        return dict(sorted(whole.items(), key=lambda item: item[1]))


def compare(
    data: Sequence[str | Path],
    algorithms: Sequence[str] | None = None,
    *,
    out: str | Path,
    env: str | None = None,
    seeds: int | Sequence[int] = 3,
    steps: int | None = None,
    evaluation: Protocol | Callable[[Protocol], Protocol] | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    progress: Callback | None = None,
) -> Comparison:
    """Train and judge every algorithm on every data set; what is finished already is only read.

    data         names, files or folders, as for `train`; their tasks must be of one suite
    algorithms   names; by default all
    env          task to judge on; by default the one the data belong to
    out          the folder of the comparison: the same call goes on where it was interrupted
    seeds        how many agents of each, or their seeds
    steps        updates each agent gets in all, divided among the stages of its training as its preset divides them;
                 by default what each preset says
    evaluation   a `Protocol`, or a function that makes one of each task's; by default each task's
    settings     for each algorithm's name, settings on top of its preset
    An algorithm that cannot learn from a data set, or diverges there, gets a note in place of numbers.
    """
    progress = progress or Callback()
    names = tuple(dict.fromkeys(algorithms or ALGORITHMS))
    given = {name: dict((settings or {}).get(name, {})) for name in names}
    for name in (*names, *(settings or {})):
        find_entry(name)
    plans = {
        (str(source), name): plan(name, str(source), env=env, seeds=seeds, **typed(given[name]))
        for source in data
        for name in names
    }
    tasks = {planned.task for planned in plans.values()}
    if None in tasks:
        raise WaypostError(
            "some of the data belong to no task: there is nothing to judge agents by; see `waypost list`"
        )
    found = [find_task(str(name)) for name in tasks]
    suite = common_suite(task.suite for task in found) if len(data) > 1 else found[0].suite
    folder = Path(out)
    if len({Path(source).stem for source in data}) < len(data):
        raise WaypostError(
            f"{', '.join(map(str, data))}: two of these would share a folder; give the files different names"
        )
    found_on: dict[str, list[Entry]] = {}
    for source, name in in_turn(list(plans), "training", progress):
        planned = plans[source, name]
        protocol = evaluation(planned.evaluation) if callable(evaluation) else evaluation
        planned = replace(planned, evaluation=protocol or planned.evaluation)
        if steps is not None:
            planned = shortened(planned, steps)
        try:
            run = execute(planned, source, folder / Path(source).stem / name, resume=True, callback=progress)
            entry = _entry(source, name, run)
        except WaypostError as error:
            progress.note(f"{name} on {source}: {error}")
            entry = Entry(source, name, note=str(error))
        found_on.setdefault(source, []).append(entry)
    entries = [entry for on_these in found_on.values() for entry in _ranked(on_these)]
    entries += [_behaviour(str(source), str(plans[str(source), names[0]].task)) for source in data]
    return Comparison(tuple(map(str, data)), names, suite, tuple(entries))


def shortened(planned: Plan, steps: int) -> Plan:
    """The plan with so many updates in all: every field that counts updates keeps its share."""
    config, total = planned.config, updates(planned)
    counts = [each.name for each in fields(config) if each.name.endswith("_steps")]
    if steps < 1:
        raise WaypostError(f"steps = {steps}: at least 1 is needed")

    def share(count: int) -> int:
        return max(1, round(count * steps / total))

    changed = {name: share(getattr(config, name)) for name in counts if getattr(config, name)}
    return replace(planned, steps=share(planned.steps), config=replace(config, **changed))


def read_settings(path: str | Path) -> dict[str, dict[str, Any]]:
    """Settings for `compare` and `paper` from a TOML file: a table per algorithm, fields of its Config or `steps`."""
    try:
        tables = tomllib.loads(Path(path).read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise WaypostError(f"{path}: cannot be read as TOML ({error})") from None
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise WaypostError(f"{path}: {name} is no table; write [ALGORITHM] and its settings below")
        known = {each.name for each in fields(find_entry(name).config_type)} | {"steps"}
        wrong = set(table) - known
        if wrong:
            raise WaypostError(f"{path}: {name} has no setting {', '.join(sorted(wrong))}")
    return tables


def typed(table: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as the Config wants them: lists of a file are tuples there."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}


# -- entries ---------------------------------------------------------------------------------------


def _entry(data: str, name: str, run: Run) -> Entry:
    outcome = run.result
    measure = "score" if outcome["mean"]["score"] is not None else "return"
    interval = outcome["interval"][measure]
    return Entry(
        data,
        name,
        measure,
        tuple(each[measure] for each in outcome["per_seed"]),
        outcome["mean"][measure],
        outcome["std"][measure],
        None if interval is None else (interval[0], interval[1]),
        steps=updates(run.plan),
        seconds=outcome["seconds"],
        run=run,
    )


def updates(planned: Plan) -> int:
    """How many updates an agent gets in all stages of its training."""
    chosen, blank = algorithm(planned.algorithm), Spec(1, 1, (-1.0,), (1.0,))
    return sum(stage.steps for stage in chosen(planned.config, blank, planned.steps).stages)


def _behaviour(data: str, task: str) -> Entry:
    """What the data's own episodes earned on average."""
    dataset, _ = obtain(data, Columns(), "auto", lambda: None)
    if dataset.rewards is None:
        return Entry(data, BEHAVIOUR, note="the data have no rewards")
    mean = float(dataset.episode_returns.mean())
    score = find_task(task).score(mean)
    return Entry(data, BEHAVIOUR, "return" if score is None else "score", mean=mean if score is None else float(score))


def _ranked(entries: list[Entry]) -> list[Entry]:
    means = [entry.mean for entry in entries if entry.mean is not None]
    return [
        entry
        if entry.mean is None
        else replace(entry, rank=1 + sum(m > entry.mean for m in means) + (means.count(entry.mean) - 1) / 2)
        for entry in entries
    ]


# -- files -----------------------------------------------------------------------------------------

FIELDS = ("data", "algorithm", "measure", "mean", "std", "low", "high", "rank", "steps", "seconds", "seeds", "note")


def as_csv(comparison: Comparison) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(FIELDS)
    for entry in comparison.entries:
        low, high = entry.interval or (None, None)
        seeds = " ".join(f"{value:.4g}" for value in entry.values)
        numbers = (entry.mean, entry.std, low, high, entry.rank, entry.steps, entry.seconds)
        writer.writerow([entry.data, entry.algorithm, entry.measure, *numbers, seeds, entry.note])
    return text.getvalue()


def as_markdown(comparison: Comparison) -> str:
    lines = []
    for data in comparison.data:
        lines += [f"**{data}**", "", f"| {' | '.join(HEADER)} |", "|---|" + "---:|" * (len(HEADER) - 1)]
        lines += [f"| {' | '.join(cells(entry))} |" for entry in comparison.of(data)]
        lines.append("")
    if len(comparison.data) > 1:
        lines += ["| algorithm | mean rank |", "|---|---:|"]
        lines += [f"| {name} | {rank:.1f} |" for name, rank in comparison.mean_ranks.items()]
        lines.append("")
    return "\n".join(lines)


HEADER = ("algorithm", "mean", "std", "95 % interval", "rank", "updates", "minutes", "seeds")


def cells(entry: Entry) -> list[str]:
    """A row of a table people read."""
    digits = 1 if entry.measure == "score" else 2

    def number(value: float | None, places: int = digits) -> str:
        return "" if value is None else f"{value:.{places}f}"

    if entry.mean is None:
        return [entry.algorithm, *[""] * (len(HEADER) - 2), entry.note.replace("|", "/")]
    interval = "" if entry.interval is None else f"{number(entry.interval[0])} to {number(entry.interval[1])}"
    minutes = None if entry.seconds is None else entry.seconds / 60
    name = "mean of the data" if entry.algorithm == BEHAVIOUR else entry.algorithm
    return [
        name,
        number(entry.mean),
        number(entry.std if len(entry.values) > 1 else None),
        interval,
        number(entry.rank, 0 if entry.rank is None or entry.rank == int(entry.rank) else 1),
        "" if entry.steps is None else f"{entry.steps:,}",
        number(minutes, 1),
        ", ".join(number(value) for value in entry.values),
    ]
