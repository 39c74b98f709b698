"""The command line: parse, call the library, print."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, make_dataclass, replace
from functools import cache, reduce
from operator import or_
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table

from waypost.data.columns import Columns
from waypost.errors import InterruptedRun, WaypostError


@dataclass(frozen=True)
class EvaluationOptions:
    """How agents are judged; what is not given is as the task says."""

    evaluate_every: int | None = None
    """Steps between evaluations; 0 = only at the end."""
    episodes: int | None = None
    """Episodes per evaluation and seed."""
    average_last: int | None = None
    """The result is the mean over this many last evaluations."""
    evaluation_seed: int | None = None
    """Seed of the evaluation's environments."""

    def on_top_of(self, usual: Any) -> Any:
        """A `Protocol` with what is given here, and the rest as usual."""
        given = {
            "every": self.evaluate_every,
            "episodes": self.episodes,
            "last": self.average_last,
            "seed": self.evaluation_seed,
        }
        return replace(usual, **{name: value for name, value in given.items() if value is not None})


@dataclass(frozen=True)
class TrainOptions:
    """What to train on and where to put it."""

    data: str = "four-rooms"
    """A built-in name (`waypost list`), a Minari or D4RL one, a file (.npz .hdf5 .parquet .csv), a folder, or A+B."""
    env: str | None = None
    """Task to judge on: a name of `waypost list`, any Gymnasium id, or none; by default the data's own."""
    out: Path | None = None
    """Run directory; by default runs/ALGO-DATA."""
    steps: int | None = None
    """Updates of each agent; by default the preset's."""
    seeds: int = 1
    """How many agents to train at once, each with its own seed."""
    first_seed: int = 0
    """Their seeds count up from here."""
    resume: bool = False
    """Go on with what the directory holds: an unfinished run, a finished one, or nothing yet."""
    preset: str | None = None
    """Settings to start from, see `waypost list`; by default those that go with the data; none = plain defaults."""
    rewards: Literal["task", "recorded", "goal", "centred-goal", "return-range"] = "task"
    """Reward convention: the task's; as recorded; r - 1, failures costly; 4 (r - 0.5); scaled by returns."""
    init: Path | None = None
    """Run whose agent provides the parts this training leaves out."""
    log_every: int = 500
    """Updates per row of metrics.csv."""
    stream: Literal["auto", "always", "never"] = "auto"
    """Read the data from the disk in shuffled parts while training; auto: only if they would not fit in memory."""
    json: bool = False
    """Print the result as one JSON object, the last line on stdout."""
    evaluation: tyro.conf.OmitArgPrefixes[EvaluationOptions] = field(default_factory=EvaluationOptions)


@dataclass(frozen=True)
class Compare:
    """Train and judge several algorithms on the same data, and rank them: tables, curves and a page.

    What is finished already is skipped, so the same command goes on where it was interrupted.
    """

    data: tuple[str, ...]
    """Data sets, as for `train --data`; their tasks must be of one suite."""
    algos: tuple[str, ...] = ("all",)
    """Algorithms, see `waypost list`; all = every one."""
    env: str | None = None
    """Task to judge on; by default the data's own."""
    seeds: int = 3
    """How many agents of each."""
    first_seed: int = 0
    """Their seeds count up from here."""
    steps: int | None = None
    """Updates each agent gets in all, whatever the stages of its training; by default each preset's."""
    settings: Path | None = None
    """TOML file with settings on top of the presets: a table [ALGORITHM] for each."""
    out: Path = Path("runs/compare")
    """Folder with a run directory for each training, and results.csv, results.md and compare.html."""
    json: bool = False
    """Print the results as one JSON object, the last line on stdout."""
    evaluation: tyro.conf.OmitArgPrefixes[EvaluationOptions] = field(default_factory=EvaluationOptions)


@dataclass(frozen=True)
class Paper:
    """Do an experiment of the paper again: figures, numbers, a text beside the paper's claim, and a page of them all.

    What is trained already is only read, so the same command goes on where it was interrupted.
    """

    name: tyro.conf.Positional[str]
    """Which one; list shows them."""
    quick: bool = False
    """Minutes instead of hours: fewer seeds and steps, nothing else."""
    out: Path = Path("runs/paper")
    """Folder with a folder for each experiment, and paper.html."""
    seeds: int | None = None
    """Agents of each kind, or draws where nothing is trained; by default the experiment's."""
    steps: int | None = None
    """Updates each agent gets in all; by default the experiment's."""
    data: tuple[str, ...] = ()
    """Only these data sets, for experiments that have several; hopper-medium-v2 is D4RL's file of hopper-medium."""
    algos: tuple[str, ...] = ()
    """Only these algorithms, for experiments that compare several."""
    json: bool = False
    """Print the record, or the list, as one JSON object, the last line on stdout."""


@dataclass(frozen=True)
class Demo:
    """Collect four-room data, train POR on it, judge it and write a report: a first look in minutes."""

    out: Path = Path("runs/demo")
    """Run directory."""
    steps: int | None = None
    """Updates; by default the preset's."""
    seeds: int = 1
    """How many agents to train at once."""
    resume: bool = False
    """Go on with what the directory holds: an unfinished demo, a finished one, or nothing yet."""
    json: bool = False
    """Print the result as one JSON object, the last line on stdout."""


@dataclass(frozen=True)
class Evaluate:
    """Judge the agents of a finished run anew; the run is left as it is."""

    run: tyro.conf.Positional[Path]
    """Run directory."""
    env: str | None = None
    """Task to judge on, if not the run's own."""
    episodes: int | None = None
    """Episodes per seed; by default the run's."""
    seed: int | None = None
    """Seed of the environments; by default the run's."""
    json: bool = False
    """Print the result as one JSON object, the last line on stdout."""


@dataclass(frozen=True)
class Report:
    """Write a finished run's report.html again."""

    run: tyro.conf.Positional[Path]
    """Run directory."""
    out: Path | None = None
    """File to write; by default RUN/report.html."""


@dataclass(frozen=True)
class Adapt:
    """Teach a POR run a new task: V and guide learn anew, from a new reward or other data, the executor stays."""

    run: tyro.conf.Positional[Path]
    """Run directory of a POR run with an executor."""
    data: str | None = None
    """Data to learn from, as for `train --data`, actions not needed; by default the run's own."""
    reward: str | None = None
    """FILE.py:FUNCTION or MODULE:FUNCTION, (observations, actions, next_observations) -> waypost.Labels."""
    env: str | None = None
    """Task to judge on; by default the data's own, and none for a new reward."""
    rewards: Literal["task", "recorded", "goal", "centred-goal", "return-range"] | None = None
    """Reward convention; by default the run's, or that of the data's task if it is another one."""
    out: Path | None = None
    """Directory of the new run; by default RUN-adapted."""
    steps: int | None = None
    """Updates of V and guide; by default the run's."""
    tau: float | None = None
    """Expectile of V; by default the run's."""
    inverse_temperature: float | None = None
    """Weight of value against staying close to the data; by default the run's."""
    resume: bool = False
    """Go on with what the directory holds."""
    json: bool = False
    """Print the result as one JSON object, the last line on stdout."""


@dataclass(frozen=True)
class Diagnose:
    """Say why a POR agent's actions may be wrong: the guide beyond the data, its aim, or the executor.

    Theorem 1 of the paper, measured on the run's data without a simulator.
    """

    run: tyro.conf.Positional[Path]
    """Run directory."""
    data: str | None = None
    """Data to measure on, as for `train --data`; by default the run's."""
    states: int = 2_000
    """States of the data to look at."""
    neighbours: int = 20
    """Recorded transitions that stand for what else could have been done in a state."""
    out: Path | None = None
    """Folder for the figure, the table and the text; by default RUN/diagnosis."""
    json: bool = False
    """Print the numbers as one JSON object, the last line on stdout."""


@dataclass(frozen=True)
class Collect:
    """Record one of D4RL's data sets anew, with the policies that come with Waypost; nothing is downloaded."""

    name: tyro.conf.Positional[str]
    """Which one, see `waypost list`: hopper-medium, antmaze-umaze, ..."""
    transitions: int | None = None
    """How many; by default as many as D4RL's has."""
    seed: int = 0
    """The same seed gives the same data."""
    out: Path | None = None
    """File to write; by default where `--data NAME` looks for it: in $WAYPOST_DATA or ~/.waypost/data."""
    workers: int | None = None
    """Processes that share the work; by default one per core."""
    overwrite: bool = False
    """Replace the file if it is there."""
    json: bool = False
    """Print the set's figures as one JSON object, the last line on stdout."""


@dataclass(frozen=True)
class Inspect:
    """Look at data before training on them: what is in them, what is wrong, what they are good for."""

    source: tyro.conf.Positional[str]
    """A name, file or folder, as for `train --data`."""
    out: Path | None = None
    """Also write the findings as a page with plots, for example data.html."""
    json: bool = False
    """Print the findings as one JSON object, the last line on stdout."""
    columns: Columns = field(default_factory=Columns)


@dataclass(frozen=True)
class Convert:
    """Write data in another format: .npz, .hdf5, .parquet, or a Minari folder (a name without a suffix).

    What is read back is the same, bit for bit. Rows can be chosen and columns dropped on the way.
    """

    source: tyro.conf.Positional[str]
    """A name, file or folder, as for `train --data`."""
    out: tyro.conf.Positional[Path]
    """File to write; its suffix says the format."""
    top: float | None = None
    """Keep only this share of the episodes, the best by return: 0.1 for the top 10 %."""
    slice: tuple[float, float] | None = None
    """Keep only the transitions from one share of the data to another: 0.3 0.7."""
    drop_actions: bool = False
    """Leave the actions out."""
    drop_rewards: bool = False
    """Leave the rewards out."""
    overwrite: bool = False
    """Replace the file if it is there."""
    columns: Columns = field(default_factory=Columns)


@dataclass(frozen=True)
class List:
    """Show algorithms with their presets, tasks and data sets."""

    json: bool = False
    """Print one JSON object instead of tables."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point; exits with 2 after a mistake the user can mend, 130 after an interruption."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _dispatch(arguments)
    except WaypostError as error:
        print(f"waypost: error: {' '.join(str(error).split())}", file=sys.stderr)
        code = 2
    except InterruptedRun as stop:
        more = "" if arguments[0] in ("compare", "paper") else " and --resume"
        print(f"waypost: stopped and saved at step {stop.step}; go on with the same command{more}", file=sys.stderr)
        code = 130
    except KeyboardInterrupt:
        print("waypost: stopped", file=sys.stderr)
        code = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)


def _dispatch(arguments: list[str]) -> int:
    command = tyro.cli(_commands(), prog="waypost", description=_DESCRIPTION, args=arguments, config=_STYLE)
    if isinstance(command, Demo):
        _demo(command)
    elif isinstance(command, Evaluate):
        _evaluate(command)
    elif isinstance(command, Compare):
        _compare(command)
    elif isinstance(command, Paper):
        _paper(command)
    elif isinstance(command, Report):
        _report(command)
    elif isinstance(command, Adapt):
        _adapt(command)
    elif isinstance(command, Diagnose):
        _diagnose(command)
    elif isinstance(command, List):
        _list(command)
    elif isinstance(command, Collect):
        _collect(command)
    elif isinstance(command, Inspect):
        return _inspect(command)
    elif isinstance(command, Convert):
        _convert(command)
    else:
        _train(command, arguments)
    return 0


_DESCRIPTION = (
    "Offline reinforcement learning: from logged data to a policy that says where to go and how to get there."
)
_STYLE = (tyro.conf.OmitSubcommandPrefixes, tyro.conf.HelptextFromCommentsOff)


def _commands() -> Any:
    subcommand = tyro.conf.subcommand
    train = [Annotated[_train_type(name), subcommand(name, description=a.title)] for name, a in _algorithms().items()]
    every_train = make_dataclass(
        "Train", [("algorithm", reduce(or_, train))], namespace={"__doc__": "Train agents of an algorithm on data."}
    )
    return (
        Annotated[Demo, subcommand("demo")]
        | Annotated[every_train, subcommand("train")]
        | Annotated[Compare, subcommand("compare")]
        | Annotated[Paper, subcommand("paper")]
        | Annotated[Evaluate, subcommand("evaluate")]
        | Annotated[Report, subcommand("report")]
        | Annotated[Adapt, subcommand("adapt")]
        | Annotated[Diagnose, subcommand("diagnose")]
        | Annotated[Collect, subcommand("collect")]
        | Annotated[Inspect, subcommand("inspect")]
        | Annotated[Convert, subcommand("convert")]
        | Annotated[List, subcommand("list")]
    )


def _algorithms() -> dict[str, Any]:
    from waypost.agents import ALGORITHMS

    return ALGORITHMS


@cache
def _train_type(name: str) -> type:
    """Options of `train NAME`: where and how long, and every field of the algorithm's Config."""
    config = _algorithms()[name].config_type
    flat = tyro.conf.OmitArgPrefixes
    return make_dataclass(
        f"Train_{name}",
        [
            ("options", flat[TrainOptions], field(default_factory=TrainOptions)),
            ("columns", Columns, field(default_factory=Columns)),
            ("config", flat[config], field(default_factory=config)),
        ],
        namespace={"__doc__": _algorithms()[name].title, "algorithm": name},
        frozen=True,
    )


# -- train and demo --------------------------------------------------------------------------------


def _train(command: Any, arguments: list[str]) -> None:
    """Two readings of the line: the first says which settings to start from, the second puts the line's on top."""
    from waypost import presets
    from waypost.data.sources import recorded_task
    from waypost.plans import read_plan
    from waypost.runs import execute

    kind = type(command.algorithm)
    name = kind.algorithm
    options: TrainOptions = command.algorithm.options
    columns: Columns = command.algorithm.columns
    out = options.out or Path("runs") / f"{name}-{Path(options.data).stem}"
    if options.resume and (out / "config.json").is_file():
        saved = read_plan(out)
        options, columns, config = _options_of(saved, options), saved.columns, saved.config
    else:
        config_type = _algorithms()[name].config_type
        task = options.env or recorded_task(options.data)
        _, steps, settings = presets.find(name, config_type, options.preset, options.data, task)
        options, config = replace(options, steps=options.steps or steps), config_type(**settings)
    start = kind(options, columns, config)
    chosen = tyro.cli(kind, args=arguments[2:], default=start, prog=f"waypost train {name}", config=_STYLE)
    planned = _plan(name, chosen.options, chosen.columns, chosen.config)
    _run(lambda progress: execute(planned, chosen.options.data, out, options.resume, progress), options.json)


def _plan(name: str, options: TrainOptions, columns: Columns, config: Any) -> Any:
    from waypost.plans import plan

    asked = plan(
        name,
        options.data,
        env=options.env,
        rewards=options.rewards,
        steps=options.steps,
        seeds=range(options.first_seed, options.first_seed + options.seeds),
        preset=options.preset,
        log_every=options.log_every,
        init=options.init,
        config=config,
        columns=columns,
        stream=options.stream,
    )
    return replace(asked, evaluation=options.evaluation.on_top_of(asked.evaluation))


def _options_of(saved: Any, options: TrainOptions) -> TrainOptions:
    """The options a saved run was started with."""
    protocol = saved.evaluation
    return replace(
        options,
        data=saved.data,
        env=saved.task or "none",
        steps=saved.steps,
        seeds=len(saved.seeds),
        first_seed=saved.seeds[0],
        preset=saved.preset or "none",
        rewards=saved.rewards,
        init=Path(saved.init) if saved.init else None,
        log_every=saved.log_every,
        stream=saved.stream,
        evaluation=EvaluationOptions(protocol.every, protocol.episodes, protocol.last, protocol.seed),
    )


def _demo(command: Demo) -> None:
    from waypost.runs import train

    def start(progress: Any) -> Any:
        return train(
            "por",
            "four-rooms",
            steps=command.steps,
            seeds=command.seeds,
            out=command.out,
            resume=command.resume,
            progress=progress,
        )

    _run(start, command.json)


def _run(start: Callable[[Any], Any], as_json: bool) -> None:
    from waypost.screen import TrainingBar, screen, show

    run = start(TrainingBar())
    show(run.result)
    screen.print(f"report: {run.directory / 'report.html'}", soft_wrap=True)
    if as_json:
        print(json.dumps(run.result))


def _compare(command: Compare) -> None:
    from waypost.comparison import compare, read_settings
    from waypost.screen import TrainingBar, screen, show_comparison

    comparison = compare(
        command.data,
        None if command.algos == ("all",) else command.algos,
        env=command.env,
        out=command.out,
        seeds=range(command.first_seed, command.first_seed + command.seeds),
        steps=command.steps,
        evaluation=command.evaluation.on_top_of,
        settings=read_settings(command.settings) if command.settings else None,
        progress=TrainingBar(),
    )
    show_comparison(comparison)
    screen.print(f"page: {command.out / 'compare.html'}", soft_wrap=True)
    if command.json:
        print(json.dumps(comparison.to_json()))


def _paper(command: Paper) -> None:
    from waypost.paper import EXPERIMENTS
    from waypost.paper.run import finished, run
    from waypost.screen import TrainingBar, counting_bar, screen

    if command.name != "list":
        record = run(
            command.name,
            command.out,
            quick=command.quick,
            seeds=command.seeds,
            steps=command.steps,
            data=command.data,
            algorithms=command.algos,
            progress=TrainingBar(),
            counting=counting_bar,
        )
        screen.print(Markdown(record.text))
        screen.print(f"files: {command.out / command.name}", soft_wrap=True)
        screen.print(f"page: {command.out / 'paper.html'}", soft_wrap=True)
        if command.json:
            print(json.dumps(asdict(record)))
        return
    done = finished(command.out)
    forms = {name: "quick" if record.quick else "full" for name, record in done.items()}
    if command.json:
        listing = [
            {"name": name, "title": e.title, "place": e.place, "claim": e.claim} for name, e in EXPERIMENTS.items()
        ]
        print(json.dumps([{**each, "form": forms.get(each["name"])} for each in listing]))
        return
    table = Table("name", "what it is", "in the paper", f"in {command.out}")
    for name, each in EXPERIMENTS.items():
        table.add_row(name, each.title, each.place, forms.get(name, "-"))
    Console().print(table)


# -- the other commands ----------------------------------------------------------------------------


def _evaluate(command: Evaluate) -> None:
    from waypost.runs import evaluate
    from waypost.screen import counting_bar, show

    with counting_bar("episodes") as progress:
        outcome = evaluate(command.run, command.env, episodes=command.episodes, seed=command.seed, progress=progress)
    show(outcome)
    if command.json:
        print(json.dumps(outcome))


def _report(command: Report) -> None:
    from waypost.report.build import write_report
    from waypost.runs import load_run

    run = load_run(command.run)
    print(write_report(run, command.out or command.run / "report.html"))


def _adapt(command: Adapt) -> None:
    from waypost.adaptation import adapt
    from waypost.screen import TrainingBar, screen, show

    out = command.out or Path(f"{command.run}-adapted")
    changed = {name: getattr(command, name) for name in ("tau", "inverse_temperature")}
    adapted = adapt(
        command.run,
        command.data,
        reward=command.reward,
        out=out,
        resume=command.resume,
        env=command.env,
        rewards=command.rewards,
        steps=command.steps,
        progress=TrainingBar(),
        **{name: value for name, value in changed.items() if value is not None},
    )
    show(adapted.run.result)
    screen.print(adapted.words(), f"report: {out / 'report.html'}", sep="\n", soft_wrap=True)
    if command.json:
        print(json.dumps(adapted.to_json()))


def _diagnose(command: Diagnose) -> None:
    from waypost.diagnosis import diagnose
    from waypost.report.diagnosis import write_diagnosis
    from waypost.screen import show_diagnosis

    with Console(stderr=True).status("measuring"):
        found = diagnose(command.run, command.data, states=command.states, neighbours=command.neighbours)
        folder = write_diagnosis(found, command.out or command.run / "diagnosis")
    show_diagnosis(found)
    print(folder)
    if command.json:
        print(json.dumps(found.to_json()))


def _collect(command: Collect) -> None:
    from waypost.data.inspect import inspect
    from waypost.data.replicas import collect, replica_named
    from waypost.data.sources import replica_file, writer
    from waypost.report.inspection import supports
    from waypost.screen import counting_bar, screen, show_inspection

    replica_named(command.name)
    out = command.out or replica_file(command.name, command.transitions, command.seed)
    write = writer(out, command.overwrite)
    with counting_bar("transitions") as progress:
        dataset = collect(command.name, command.transitions, command.seed, command.workers, progress)
    write(dataset, out, None)
    inspection = inspect(dataset, supports(dataset))
    show_inspection(inspection)
    screen.print(f"data: {out}", soft_wrap=True)
    if command.json:
        print(json.dumps(inspection.to_json() | {"file": str(out)}))


def _inspect(command: Inspect) -> int:
    """Exit code 2 says that training would refuse the data."""
    from waypost.data.inspect import inspect
    from waypost.data.sources import read
    from waypost.report.inspection import supports, write_inspection
    from waypost.screen import screen, show_inspection

    dataset = read(command.source, command.columns)
    inspection = inspect(dataset, supports(dataset))
    show_inspection(inspection)
    if command.out is not None:
        write_inspection(inspection, dataset, command.out)
        screen.print(f"page: {command.out}", soft_wrap=True)
    if command.json:
        print(json.dumps(inspection.to_json()))
    return 2 if any(finding.level == "error" for finding in inspection.findings) else 0


def _convert(command: Convert) -> None:
    from waypost.data.convert import convert
    from waypost.screen import counting_bar, screen

    with counting_bar("transitions") as progress:
        rows = convert(
            command.source,
            command.out,
            columns=command.columns,
            top=command.top,
            slice=command.slice,
            drop_actions=command.drop_actions,
            drop_rewards=command.drop_rewards,
            overwrite=command.overwrite,
            progress=progress,
        )
    screen.print(f"{rows} transitions: {command.out}", soft_wrap=True)


def _list(command: List) -> None:
    from waypost.data.replicas import REPLICAS
    from waypost.data.sources import BUILT_IN
    from waypost.envs.tasks import TASKS
    from waypost.presets import presets

    listing = {
        "algorithms": [
            {"name": name, "title": a.title, "presets": list(presets(name))} for name, a in _algorithms().items()
        ],
        "tasks": [{"name": t.name, "title": t.summary, "suite": t.suite, "env": t.env_id} for t in TASKS.values()],
        "data": [{"name": name, "title": what} for name, (what, _) in BUILT_IN.items()],
        "replicas": [{"name": name, "title": replica.summary} for name, replica in REPLICAS.items()],
    }
    if command.json:
        print(json.dumps(listing))
        return
    output = Console()
    for kind, entries in listing.items():
        table = Table("name", "what it is", title=kind, title_justify="left", title_style="bold")
        for entry in entries:
            table.add_row(entry["name"], entry["title"])
        output.print(table)
    for entry in listing["algorithms"]:
        if entry["presets"]:
            output.print(f"presets of {entry['name']}: {', '.join(entry['presets'])}", soft_wrap=False)


if __name__ == "__main__":
    main()
