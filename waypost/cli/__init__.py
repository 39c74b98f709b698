"""The command line: parse, call the library, print."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table

import waypost.recording  # noqa: F401
from waypost.cli.options import (
    Adapt,
    Collect,
    Compare,
    Convert,
    Demo,
    Diagnose,
    Evaluate,
    EvaluationOptions,
    Inspect,
    List,
    Paper,
    Report,
    TrainOptions,
    commands,
)
from waypost.data.columns import Columns
from waypost.errors import InterruptedRun, WaypostError


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
    command = tyro.cli(commands(), prog="waypost", description=_DESCRIPTION, args=arguments, config=_STYLE)
    handler = _HANDLERS.get(type(command))
    if handler is not None:
        return handler(command) or 0
    _train(command, arguments)
    return 0


_DESCRIPTION = (
    "Offline reinforcement learning: from logged data to a policy that says where to go and how to get there."
)
_STYLE = (tyro.conf.OmitSubcommandPrefixes, tyro.conf.HelptextFromCommentsOff)


# -- train and demo --------------------------------------------------------------------------------


def _train(command: Any, arguments: list[str]) -> None:
    """Two readings of the line: the first says which settings to start from, the second puts the line's on top."""
    from waypost.agents import ALGORITHMS
    from waypost.data.sources import recorded_task
    from waypost.training import presets
    from waypost.training.plan import read_plan
    from waypost.training.runs import execute

    kind = type(command.algorithm)
    name = kind.algorithm
    options: TrainOptions = command.algorithm.options
    columns: Columns = command.algorithm.columns
    out = options.out or Path("runs") / f"{name}-{Path(options.data).stem}"
    if options.resume and (out / "config.json").is_file():
        saved = read_plan(out)
        options, columns, config = _options_of(saved, options), saved.columns, saved.config
    else:
        config_type = ALGORITHMS[name].config_type
        task = options.env or recorded_task(options.data)
        _, steps, settings = presets.find(name, config_type, options.preset, options.data, task)
        options, config = replace(options, steps=options.steps or steps), config_type(**settings)
    start = kind(options, columns, config)
    chosen = tyro.cli(kind, args=arguments[2:], default=start, prog=f"waypost train {name}", config=_STYLE)
    planned = _plan(name, chosen.options, chosen.columns, chosen.config)
    _run(lambda progress: execute(planned, chosen.options.data, out, options.resume, progress), options.json)


def _plan(name: str, options: TrainOptions, columns: Columns, config: Any) -> Any:
    from waypost.training.plan import plan

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
    from waypost.training.runs import train

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
    from waypost.cli.screen import TrainingBar, screen, show

    run = start(TrainingBar())
    show(run.result)
    screen.print(f"report: {run.directory / 'report.html'}", soft_wrap=True)
    if as_json:
        print(json.dumps(run.result))


def _compare(command: Compare) -> None:
    from waypost.cli.screen import TrainingBar, screen, show_comparison
    from waypost.report.comparison import write_comparison
    from waypost.studies.comparison import compare, read_settings

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
    write_comparison(comparison, command.out)
    show_comparison(comparison)
    screen.print(f"page: {command.out / 'compare.html'}", soft_wrap=True)
    if command.json:
        print(json.dumps(comparison.to_json()))


def _paper(command: Paper) -> None:
    from waypost.cli.screen import TrainingBar, counting_bar, screen
    from waypost.report.gallery import write_gallery
    from waypost.studies.paper import EXPERIMENTS
    from waypost.studies.paper.run import changes, finished, run

    if command.name != "list":
        record = run(
            command.name,
            command.out,
            quick=command.quick,
            seeds=command.seeds,
            steps=command.steps,
            data=command.data,
            algorithms=command.algos,
            settings=command.settings,
            runs=command.runs,
            evaluation=command.evaluation.given,
            progress=TrainingBar(),
            counting=counting_bar,
        )
        write_gallery(command.out)
        screen.print(Markdown(record.text))
        screen.print(f"files: {command.out / command.name}", soft_wrap=True)
        screen.print(f"page: {command.out / 'paper.html'}", soft_wrap=True)
        if command.json:
            print(json.dumps(asdict(record)))
        return
    done = finished(command.out)
    forms = {name: ", ".join(["quick" if record.quick else "full", *changes(record)]) for name, record in done.items()}
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
    from waypost.cli.screen import counting_bar, show
    from waypost.training.runs import evaluate

    with counting_bar("episodes") as progress:
        outcome = evaluate(command.run, command.env, episodes=command.episodes, seed=command.seed, progress=progress)
    show(outcome)
    if command.json:
        print(json.dumps(outcome))


def _report(command: Report) -> None:
    from waypost.report.run import write_report
    from waypost.training.runs import load_run

    run = load_run(command.run)
    print(write_report(run, command.out or command.run / "report.html"))


def _adapt(command: Adapt) -> None:
    from waypost.cli.screen import TrainingBar, screen, show
    from waypost.studies.adaptation import adapt

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
    from waypost.cli.screen import show_diagnosis
    from waypost.report.diagnosis import write_diagnosis
    from waypost.studies.diagnosis import diagnose

    with Console(stderr=True).status("measuring"):
        found = diagnose(command.run, command.data, states=command.states, neighbours=command.neighbours)
        folder = write_diagnosis(found, command.out or command.run / "diagnosis")
    show_diagnosis(found)
    print(folder)
    if command.json:
        print(json.dumps(found.to_json()))


def _collect(command: Collect) -> None:
    from waypost.agents import supports
    from waypost.cli.screen import counting_bar, screen, show_inspection
    from waypost.data.inspection import inspect
    from waypost.data.sources import kept_file, writer
    from waypost.recording.replicas import collect, replica_named

    replica_named(command.name)
    out = command.out or kept_file(command.name, command.transitions, command.seed)
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
    from waypost.agents import supports
    from waypost.cli.screen import screen, show_inspection
    from waypost.data.inspection import inspect
    from waypost.data.sources import read
    from waypost.report.inspection import write_inspection

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
    from waypost.cli.screen import counting_bar, screen
    from waypost.data.convert import convert

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
    from waypost.agents import ALGORITHMS
    from waypost.data.sources import RECIPES
    from waypost.envs.tasks import TASKS
    from waypost.training.presets import presets

    listing: dict[str, list[dict[str, Any]]] = {
        "algorithms": [
            {"name": name, "title": a.title, "presets": list(presets(name))} for name, a in ALGORITHMS.items()
        ],
        "tasks": [{"name": t.name, "title": t.summary, "suite": t.suite, "env": t.env_id} for t in TASKS.values()],
        "data": [{"name": r.name, "title": r.summary} for r in RECIPES.values() if r.transitions is None],
        "replicas": [{"name": r.name, "title": r.summary} for r in RECIPES.values() if r.transitions is not None],
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


_HANDLERS: dict[type, Callable[[Any], int | None]] = {
    Demo: _demo,
    Compare: _compare,
    Paper: _paper,
    Evaluate: _evaluate,
    Report: _report,
    Adapt: _adapt,
    Diagnose: _diagnose,
    Collect: _collect,
    Inspect: _inspect,
    Convert: _convert,
    List: _list,
}
"""Who does what; whatever is not here is a `train` of some algorithm. A handler may give an exit code."""
