"""Run an experiment of the paper and write its results.

The folder of the experiments holds
    NAME/NAME.md            what was run and what it shows about the paper's claim
    NAME/*.png, *.svg       its figures
    NAME/*.csv, *.json      its tables, each in both forms
    NAME/runs/FORM/         run directories, if it trains; FORM is quick or full
    NAME/record.json        how it was run; an experiment that has it is finished
    paper.html              all finished experiments as one page
Every file is written whole or not at all, and the record last.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypedDict

from waypost.envs.tasks import OPTIONS, Protocol
from waypost.errors import WaypostError
from waypost.figures import to_png, to_svg
from waypost.files import json_text, table, writable, write_bytes, write_json
from waypost.studies.budget import check_minutes
from waypost.studies.comparison import read_settings
from waypost.studies.paper import EXPERIMENTS, experiment
from waypost.studies.paper.benchmark import row_of
from waypost.studies.paper.experiment import Context, Counting, Experiment, Outcome, Row
from waypost.studies.paper.words import listed, many
from waypost.studies.results import Results
from waypost.studies.rounds import Rounds
from waypost.studies.workers import Runner
from waypost.training import records
from waypost.training.callbacks import Callback

SEEDS = 3
"""Agents of each kind in a folder of results."""


class FigureWords(TypedDict):
    """The texts of a figure."""

    caption: str
    alt: str


class TableWords(TypedDict):
    """The caption of a table, and whether it is shown."""

    caption: str
    shown: bool


@dataclass(frozen=True)
class Record:
    """How a finished experiment was run, and what it wrote."""

    name: str
    quick: bool
    seeds: int
    steps: int | None
    command: str
    seconds: float
    """Of this run of the experiment; finished trainings were only read."""
    training: float
    """Seconds of all its trainings, whenever they ran."""
    waypost: str
    when: str
    text: str
    """The experiment's text, as Markdown."""
    figures: dict[str, FigureWords]
    """Of NAME.svg and NAME.png."""
    tables: dict[str, TableWords]
    """Of NAME.csv and NAME.json."""
    data: Sequence[str] = ()
    """The chosen data sets; empty: there was no choice."""
    algorithms: Sequence[str] = ()
    """The chosen algorithms; empty: there was no choice."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings that override the presets, for the algorithms that were trained."""
    minutes: float | None = None
    """Minutes on one core for the updates of each agent, if they decide the number of updates."""
    recorded: int | None = None
    """Transitions of each replica; None: as many as D4RL's."""
    episodes: int | None = None
    """Rollouts of each agent in an evaluation; None: as the task says."""

    @property
    def files(self) -> list[str]:
        """All its files except record.json, the text first."""
        pictures = [f"{name}.{suffix}" for name in self.figures for suffix in ("png", "svg")]
        return [f"{self.name}.md", *pictures, *(f"{name}.{end}" for name in self.tables for end in ("csv", "json"))]


@contextmanager
def _silent(what: str) -> Iterator[Callable[[int, int], None]]:
    yield lambda done, total: None


def run(
    name: str,
    out: str | Path,
    *,
    quick: bool = False,
    seeds: int | None = None,
    steps: int | None = None,
    data: Sequence[str] = (),
    algorithms: Sequence[str] = (),
    settings: str | Path | None = None,
    runs: str | Path | None = None,
    minutes: float | None = None,
    results: str | Path | None = None,
    read_only: bool = False,
    evaluation: Mapping[str, int] | None = None,
    callback: Callback | None = None,
    counting: Counting = _silent,
    runner: Runner | None = None,
) -> Record:
    """Run an experiment and write its files; the same call resumes an interrupted one.

    name         see `EXPERIMENTS`
    out          the folder of all experiments
    quick        minutes instead of hours: fewer seeds (of agents and rollouts) and steps (of training and recording);
                 nothing else differs
    seeds, steps instead of the form's
    data, algorithms    these, if the experiment has a choice; by default all, or its default algorithms
    settings     TOML file of settings that override the presets, as for `compare`
    runs         the folder of the run directories, by default NAME/runs/FORM; that of a comparison with the same
                 settings, seeds, steps and evaluations works, its trainings are only read
    minutes      minutes on one core for the updates of each agent, instead of steps; needs `results`
    results      a folder of results (`waypost.studies.results`) instead of run directories; defaults come from this
                 folder's recipe
    read_only    train nothing: tables and figures from what `results` holds
    evaluation   fields of `Protocol` that override the task's
    runner       where and when trainings run (`waypost.studies.workers`); by default here, when they are needed
    """
    chosen, folder, given = experiment(name), Path(out) / name, dict(evaluation or {})
    if not chosen.trains and (steps is not None or minutes is not None or settings or runs or results or given):
        what = "settings, runs and evaluations" if steps is None else "steps"
        raise WaypostError(f"{name}: trains nothing, so {what} cannot be chosen")
    kept = _results(chosen, results, read_only, minutes, steps, runs)
    if runner is not None and (kept is not None or not chosen.trains):
        what = "with --results: start the command several times, and the processes share the folder"
        what = what if chosen.trains else f"for {name}, which trains nothing"
        raise WaypostError(f"--workers, --address, --missing-only, --status and --track do not work {what}")
    wanted = {"seeds": seeds, "steps": steps, "episodes": given.get("episodes")}
    size = replace(chosen.form(quick), **{key: number for key, number in wanted.items() if number is not None})
    tables = read_settings(settings) if settings else {}
    protocol = {**({"episodes": size.episodes} if size.episodes else {}), **given}
    Protocol(**protocol)  # an error shows before any work
    sets = tuple(size.of(each) for each in _chosen(chosen, "data", data, chosen.data, chosen.data))
    names = _chosen(chosen, "algorithms", algorithms, chosen.algorithms, chosen.usual_algorithms)
    if folder.is_file() or folder.parent.is_file():
        raise WaypostError(f"{folder}: is a file, or inside one; choose another --out")
    old = read_record(folder)
    if quick and old is not None and not old.quick:
        raise WaypostError(f"{folder}: holds the full form of {name}; choose another --out for the quick one")
    if kept is not None:
        recipe = kept.agree({"minutes": minutes, "steps": steps, "evaluation": protocol, "settings": tables})
        minutes, protocol, tables = recipe["minutes"], recipe["evaluation"], recipe["settings"]
        length = recipe["steps"] or (None if minutes else size.steps)
        size = replace(size, steps=length, seeds=seeds or min(size.seeds, SEEDS))
    begun, place = time.monotonic(), Path(runs) if runs else folder / "runs" / ("quick" if quick else "full")
    context = Context(
        size,
        place,
        callback or Callback(),
        counting,
        sets,
        names,
        tables,
        lambda usual: replace(usual, **protocol),
        kept,
        minutes,
    )
    outcome = chosen.run(context) if runner is None else _in_rounds(chosen, context, runner)
    options: dict[str, Any] = {"seeds": seeds, "steps": steps, "minutes": minutes, "data": data, "algos": algorithms}
    options |= {"settings": settings, "runs": runs, "results": results}
    record = Record(
        name=name,
        quick=quick,
        **asdict(size),
        command=_command(name, quick, options | {OPTIONS[key]: number for key, number in given.items()}),
        seconds=round(time.monotonic() - begun, 3),
        training=round(sum(context.seconds.values()), 3),
        waypost=version("waypost"),
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        text=outcome.text,
        figures={key: {"caption": each.caption, "alt": each.alt} for key, each in outcome.figures.items()},
        tables={key: {"caption": each.caption, "shown": each.shown} for key, each in outcome.tables.items()},
        data=list(sets),
        algorithms=list(names),
        settings=context.used,
        minutes=minutes,
    )
    write(outcome, record, folder)
    return record


def _in_rounds(chosen: Experiment, context: Context, runner: Runner) -> Outcome:
    """The outcome, after its trainings have run elsewhere."""
    rounds = Rounds(runner, context.callback)
    # Notes about a training belong to the round in which it runs.
    quiet = replace(context, callback=Callback(), rounds=rounds)
    return rounds.until_nothing_is_missing(lambda: chosen.run(quiet))


def _results(
    chosen: Experiment,
    folder: str | Path | None,
    read_only: bool,
    minutes: float | None,
    steps: int | None,
    runs: str | Path | None,
) -> Results | None:
    """The requested folder of results, after checking that the other options agree with it."""
    if folder is None:
        if minutes is not None or read_only:
            raise WaypostError(f"--{'read-only' if read_only else 'minutes'} needs a folder; name it with --results")
        return None
    if not chosen.scores_only:
        raise WaypostError(
            f"{chosen.name}: needs the trained agents, which a folder of results does not hold; use --runs"
        )
    if runs is not None:
        raise WaypostError("--runs and --results are two places for trainings; choose one")
    if minutes is not None:
        if steps is not None:
            raise WaypostError("--minutes and --steps both set the length of training; choose one")
        check_minutes(minutes)
    return Results(Path(folder), read_only)


def _chosen(
    chosen: Experiment, what: str, given: Sequence[str], known: Sequence[str], usual: Sequence[str]
) -> tuple[str, ...]:
    """The requested names, after checking that the experiment has them; by default the usual ones."""
    if given and not known:
        raise WaypostError(f"{chosen.name}: its {what} are fixed and cannot be chosen")
    for each in given:
        if (row_of(each) if what == "data" else each) not in known:
            raise WaypostError(f"{chosen.name}: has no {each} among its {what}; choose from {', '.join(known)}")
    if len({row_of(each) for each in given}) < len(given):
        raise WaypostError(f"{chosen.name}: a name appears twice in {', '.join(given)}")
    return tuple(given or usual)


def _command(name: str, quick: bool, options: Mapping[str, Any]) -> str:
    words = ["waypost", "paper", name, *(["--quick"] if quick else [])]
    for option, given in options.items():
        known = [str(each) for each in (given if isinstance(given, tuple | list) else [given]) if each is not None]
        words += [f"--{option.replace('_', '-')}", *known] if known else []
    return " ".join(words)


def read_record(folder: Path) -> Record | None:
    """The record of a finished experiment; None if it is missing, or this version cannot read it."""
    try:
        record: Record = records.read_record(folder / "record.json", Record)
    except WaypostError:
        return None
    # Files are read and deleted by the names in the record: only those of this folder.
    plain = all(Path(file).name == file for file in record.files)
    return record if record.name == folder.name and plain else None


def finished(out: Path) -> dict[str, Record]:
    """The finished experiments of a folder, in the paper's order."""
    records = {name: read_record(out / name) for name in EXPERIMENTS}
    return {name: record for name, record in records.items() if record is not None}


# -- files -----------------------------------------------------------------------------------------


def write(outcome: Outcome, record: Record, folder: Path) -> None:
    """Write an experiment's files, replacing those of an earlier run."""
    old, files = read_record(folder), _contents(outcome, record)
    # A full disk is noticed while the old files are still complete.
    writable(folder / "record.json", sum(map(len, files.values())))
    # Without a record the experiment counts as unfinished, so old and new files are never read together.
    (folder / "record.json").unlink(missing_ok=True)
    for name in set(old.files if old else ()) - set(record.files):
        (folder / name).unlink(missing_ok=True)
    for name, content in files.items():
        write_bytes(folder / name, content)
    write_json(folder / "record.json", asdict(record))


def _contents(outcome: Outcome, record: Record) -> dict[str, bytes]:
    """The files of an experiment by name, without its record."""
    files: dict[str, bytes] = {}
    for key, drawing in outcome.figures.items():
        files[f"{key}.png"] = to_png(drawing.figure)
        files[f"{key}.svg"] = (to_svg(drawing.figure) + "\n").encode()
    for key, each in outcome.tables.items():
        rows = [dict(row) for row in each.rows]
        files[f"{key}.csv"] = table(list(rows[0]) if rows else [], rows).encode()
        files[f"{key}.json"] = json_text(rows).encode()
    files[f"{record.name}.md"] = as_markdown(EXPERIMENTS[record.name], outcome, record).encode()
    return files


def as_markdown(chosen: Experiment, outcome: Outcome, record: Record) -> str:
    """The text with its figures and the tables that are shown."""
    parts = [f"# {chosen.title}", f"> The paper ({chosen.place}): {chosen.claim}", outcome.text.strip()]
    parts += [f"![{each.alt}]({key}.png)\n\n{each.caption}" for key, each in outcome.figures.items()]
    parts += [f"{each.caption}\n\n{_rows(each.rows)}" for each in outcome.tables.values() if each.shown and each.rows]
    parts.append(f"`{record.command}`, {how(record)}.")
    return "\n\n".join(parts) + "\n"


def how(record: Record) -> str:
    """How an experiment was run, in words."""
    usual = EXPERIMENTS[record.name].form(record.quick)
    size = ["quick form" if record.quick else "full form"]
    size += [many(record.seeds, "seed")] if record.seeds == usual.seeds else []
    size += [many(record.steps, "step")] if record.steps and record.steps == usual.steps else []
    size += [f"replicas of {record.recorded} transitions"] if record.recorded else []
    size += [f"{record.minutes:g} core-minutes each"] if record.minutes else []
    size += [many(record.episodes, "rollout")] if record.episodes else []
    size += changes(record)
    size += [f"settings that override the presets of {listed(record.settings)}"] if record.settings else []
    trained = f" ({record.training:.0f} s of training in all)" if record.training else ""
    return f"{', '.join(size)}, {record.seconds:.1f} s{trained}, Waypost {record.waypost}, {record.when[:10]}"


def changes(record: Record) -> list[str]:
    """What differs from the form, in words: fewer data sets, fewer or other algorithms, other seeds or steps."""
    chosen = EXPERIMENTS[record.name]
    usual = chosen.form(record.quick)
    # A record from before there was a choice names no algorithms: they were the usual ones.
    algorithms = record.algorithms or chosen.usual_algorithms
    kinds = (("data set", record.data, chosen.data), ("algorithm", algorithms, chosen.usual_algorithms))
    words = [f"{len(own)} of {many(len(whole), what)}" for what, own, whole in kinds if len(own) < len(whole)]
    if set(algorithms) - set(chosen.usual_algorithms):
        words.append(f"{listed(algorithms)} instead of {listed(chosen.usual_algorithms)}")
    for what, own, due in (("seed", record.seeds, usual.seeds), ("step", record.steps, usual.steps)):
        if own is not None and own != due:
            words.append(f"{many(own, what)} instead of " + ("the presets'" if due is None else str(due)))
    return words


def _rows(rows: Sequence[Row]) -> str:
    lines = [f"| {' | '.join(rows[0])} |", "|" + "|".join("---:" if n else "---" for n in numeric(rows)) + "|"]
    lines += ["| " + " | ".join(cell(value).replace("|", "/") for value in row.values()) + " |" for row in rows]
    return "\n".join(lines)


def numeric(rows: Sequence[Row]) -> list[bool]:
    """Whether each column holds only numbers."""
    return [all(not isinstance(row[name], str) for row in rows) for name in rows[0]]


def cell(value: Any) -> str:
    """A value as text for people."""
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
