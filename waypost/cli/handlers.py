"""What each command does: `run_NAME` runs the command NAME."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.markdown import Markdown
from rich.table import Table

import waypost.recording  # noqa: F401 (data made here are known by name)
from waypost.cli import options
from waypost.cli.output import say
from waypost.console.screen import plain


def _print_json(wanted: bool, record: Any) -> None:
    """One JSON object, the last line on stdout."""
    if wanted:
        say(json.dumps(_finite(record), allow_nan=False))


def _finite(value: Any) -> Any:
    """The record with none for what is not finite: JSON has no word for it."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def run_train(
    planned: Any, out: Path, resume: bool, as_json: bool, track: tuple[Any, ...] = (), strict: bool = False
) -> None:
    from waypost.cli.judging import show_run
    from waypost.cli.screen import results
    from waypost.console.bar import TrainingBar
    from waypost.training.alarms import Strict
    from waypost.training.callbacks import Callbacks
    from waypost.training.tracking import Tracking
    from waypost.training.trainer import execute

    more = [Tracking(kind, out) for kind in dict.fromkeys(track)]
    watching = Callbacks(TrainingBar(), *more, *([Strict()] if strict else []))
    run = execute(planned, planned.data, out, resume, watching)
    with results(as_json) as to:
        show_run(run, to)
        to.tell(f"report: {out / 'report.html'}")
    _print_json(as_json, run.result)


def run_demo(command: options.Demo) -> None:
    from waypost.training.plan import plan

    planned = plan("waypoint", "four-rooms", steps=command.steps, seeds=command.seeds)
    # The task's own protocol is for longer trainings; the report should show a curve.
    protocol = replace(planned.evaluation, every=2_500)
    run_train(replace(planned, evaluation=protocol), command.out, command.resume, command.json)


def run_compare(command: options.Compare) -> None:
    from waypost.cli.screen import results, show_comparison
    from waypost.console.bar import TrainingBar
    from waypost.report.comparison import write_comparison
    from waypost.studies.comparison import compare, read_settings
    from waypost.training.plan import seeds_from

    comparison = compare(
        command.data,
        None if command.algos == ("all",) else command.algos,
        env=command.env,
        out=command.out,
        seeds=seeds_from(command.seeds, command.first_seed),
        steps=command.steps,
        evaluation=command.evaluation.on_top_of,
        settings=read_settings(command.settings) if command.settings else None,
        **command.reading,
        callback=TrainingBar(),
        runner=command.scale.runner(),
    )
    write_comparison(comparison, command.out)
    with results(command.json) as to:
        show_comparison(comparison, to)
        to.tell(f"page: {command.out / 'compare.html'}")
    _print_json(command.json, comparison.to_json())


def run_sweep(command: options.Sweep) -> None:
    from waypost.cli.sweeping import sweep_and_show

    _print_json(command.json, sweep_and_show(command))


def run_paper(command: options.Paper) -> None:
    from waypost.cli.screen import results
    from waypost.console.bar import TrainingBar
    from waypost.console.screen import counting_bar
    from waypost.report.gallery import write_gallery
    from waypost.studies.paper import EXPERIMENTS
    from waypost.studies.paper.run import changes, finished, run

    if command.name != "list":
        left_out = ("json", "algos", "evaluation", "scale")
        asked = {name: value for name, value in vars(command).items() if name not in left_out}
        record = run(
            **asked,
            algorithms=command.algos,
            evaluation=command.evaluation.given,
            callback=TrainingBar(),
            counting=counting_bar,
            runner=command.scale.runner() if command.scale != options.ScaleOptions() else None,
        )
        write_gallery(command.out)
        with results(command.json) as to:
            to.print(Markdown(record.text))
            to.tell(f"files: {command.out / command.name}")
            to.tell(f"page: {command.out / 'paper.html'}")
        _print_json(command.json, asdict(record))
        return
    done = finished(command.out)
    forms = {name: ", ".join(["quick" if record.quick else "full", *changes(record)]) for name, record in done.items()}
    if command.json:
        listing = [
            {"name": name, "title": e.title, "place": e.place, "claim": e.claim} for name, e in EXPERIMENTS.items()
        ]
        say(json.dumps([{**each, "form": forms.get(each["name"])} for each in listing]))
        return
    table = Table("name", "what it is", "in the paper", f"in {command.out}")
    for name, each in EXPERIMENTS.items():
        table.add_row(name, each.title, each.place, forms.get(name, "-"))
    with results(command.json) as to:
        to.print(table)


def run_evaluate(command: options.Evaluate) -> None:
    from waypost.cli.screen import results, show
    from waypost.console.screen import counting_bar
    from waypost.training.runs import evaluate

    with counting_bar("episodes") as progress:
        given = {"episodes": command.episodes, "seed": command.seed, "workers": command.workers}
        outcome = evaluate(command.run, command.env, **given, progress=progress)
    with results(command.json) as to:
        show(outcome, to)
    _print_json(command.json, outcome)


def run_report(command: options.Report) -> None:
    from waypost.report.run import write_report
    from waypost.training.runs import load_run

    run = load_run(command.run)
    say(plain(write_report(run, command.out or command.run / "report.html")))


def run_adapt(command: options.Adapt) -> None:
    from waypost.cli.judging import show_run
    from waypost.cli.screen import results
    from waypost.console.bar import TrainingBar
    from waypost.studies.adaptation import adapt

    out = command.out or Path(f"{command.run}-adapted")
    about = ("json", "columns_from", "columns", "pipeline")
    given = {name: value for name, value in vars(command).items() if value is not None and name not in about}
    reward = command.pipeline.reward
    reading = replace(command, pipeline=replace(command.pipeline, reward=None)).reading
    adapted = adapt(**{**given, **reading, "reward": reward, "out": out}, callback=TrainingBar())
    with results(command.json) as to:
        show_run(adapted.run, to)
        to.tell(adapted.words())
        to.tell(f"report: {out / 'report.html'}")
    _print_json(command.json, adapted.to_json())


def run_diagnose(command: options.Diagnose) -> None:
    from waypost.cli.screen import results, show_diagnosis
    from waypost.console.screen import screen
    from waypost.report.diagnosis import write_diagnosis
    from waypost.studies.diagnosis import diagnose

    with screen.status("measuring"):
        asked = {"states": command.states, "neighbours": command.neighbours} | command.reading
        found = diagnose(command.run, command.data, **asked)
        folder = write_diagnosis(found, command.out or command.run / "diagnosis")
    with results(command.json) as to:
        show_diagnosis(found, to)
    say(plain(folder))
    _print_json(command.json, found.to_json())


def run_judge(command: options.Judge) -> None:
    from waypost.cli.judging import show_judgement
    from waypost.cli.screen import results
    from waypost.console.screen import counting_bar
    from waypost.files import writable
    from waypost.report.judge import write_judgement
    from waypost.report.verdict import keep_verdicts
    from waypost.studies.judge.judging import judge

    writable(command.out / "judge.html")
    names = ("data", "discount", "members", "steps", "hidden", "rows", "horizon", "seed")
    asked = {name: getattr(command, name) for name in names} | command.reading
    with counting_bar("steps of the evaluation") as progress:
        found = judge(command.runs, **asked, progress=progress)
    write_judgement(found, command.out)
    judged = keep_verdicts(found)
    with results(command.json) as to:
        show_judgement(found, to)
        to.tell(f"page: {command.out / 'judge.html'}")
        for run in judged:
            to.tell(f"on the page of the run: waypost report {run}")
    _print_json(command.json, found.to_json())


def run_export(command: options.Export) -> None:
    from waypost.console.screen import screen
    from waypost.shipping.export import export

    asked = {name: value for name, value in vars(command).items() if name not in ("run", "json")}
    with screen.status("exporting"):
        done = export(command.run, **asked)
    if done["note"]:
        screen.tell(f"checked on random observations only: {done['note']}")
    tried = " and ".join(f"{count} {kind}" for kind, count in done["tried"].items() if count)
    screen.tell(f"largest difference from the agent on {tried} observations: {done['difference']:.2g}")
    for tensors in ("inputs", "outputs"):
        screen.tell(f"{tensors}: {', '.join(each['name'] for each in done[tensors])}")
    for file in done["files"]:
        say(plain(file))
    _print_json(command.json, done)


def run_serve(command: options.Serve) -> None:
    from waypost.console.screen import screen
    from waypost.resources import require

    for module in ("starlette", "uvicorn", "onnx", "onnxruntime"):
        require(module, "serve", "waypost serve")
    from waypost.shipping.server import listening, serve, try_out
    from waypost.shipping.service import Service

    with listening(command.host, command.port) as socket:
        with screen.status("loading the policy"):
            service = Service(command.run, command.seed, command.data, command.reload_seconds)
        if service.policy.note:
            screen.tell(f"answers have no distance: {service.policy.note}")
        if command.check:
            screen.tell(f"answers {', '.join(try_out(service))}")
            return
        host, port = socket.getsockname()[:2]
        say(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        serve(service, socket)


def run_collect(command: options.Collect) -> None:
    from waypost.agents import supports
    from waypost.cli.screen import results, show_inspection
    from waypost.console.screen import counting_bar
    from waypost.data.inspection import inspect
    from waypost.data.sources import kept_file, writer
    from waypost.files import writable
    from waypost.recording.replicas import collect, replica_named

    replica = replica_named(command.name)
    out = command.out or kept_file(command.name, command.transitions, command.seed)
    write = writer(out, command.overwrite)
    writable(out, replica.row_size * (command.transitions or replica.transitions))
    with counting_bar("transitions") as progress:
        dataset = collect(command.name, command.transitions, command.seed, command.workers, progress)
    write(dataset, out, None)
    inspection = inspect(dataset, supports(dataset))
    with results(command.json) as to:
        show_inspection(inspection, to)
        to.tell(f"data: {out}")
    _print_json(command.json, inspection.to_json() | {"file": str(out)})


def run_inspect(command: options.Inspect) -> int:
    """Exit code 2 means that training would refuse the data."""
    from waypost.agents import supports
    from waypost.cli.screen import results, show_inspection
    from waypost.data.inspection import inspect
    from waypost.data.sources import read

    dataset = read(command.source, **command.reading)
    inspection = inspect(dataset, supports(dataset))
    with results(command.json) as to:
        show_inspection(inspection, to)
    if command.out is not None:
        from waypost.report.inspection import write_inspection

        write_inspection(inspection, dataset, command.out)
        to.tell(f"page: {command.out}")
    _print_json(command.json, inspection.to_json())
    return 2 if any(finding.level == "error" for finding in inspection.findings) else 0


def run_convert(command: options.Convert) -> None:
    from waypost.console.screen import counting_bar, screen
    from waypost.data.convert import convert

    with counting_bar("transitions") as progress:
        given = {name: value for name, value in vars(command).items() if name != "columns_from"}
        rows = convert(**{**given, **command.reading}, progress=progress)
    screen.tell(f"{rows} transitions: {command.out}")


def run_list(command: options.List) -> None:
    from waypost.agents import ALGORITHMS
    from waypost.cli.screen import results
    from waypost.data.sources import RECIPES
    from waypost.envs.tasks import TASKS
    from waypost.training import presets

    listing: dict[str, list[dict[str, Any]]] = {
        "algorithms": [
            {"name": name, "title": a.title, "presets": [*presets.names(name)]} for name, a in ALGORITHMS.items()
        ],
        "tasks": [{"name": t.name, "title": t.summary, "suite": t.suite, "env": t.env_id} for t in TASKS.values()],
        "data": [{"name": r.name, "title": r.summary} for r in RECIPES.values() if r.transitions is None],
        "replicas": [{"name": r.name, "title": r.summary} for r in RECIPES.values() if r.transitions is not None],
    }
    if command.json:
        say(json.dumps(listing))
        return
    with results(command.json) as output:
        for kind, entries in listing.items():
            table = Table("name", "what it is", title=kind, title_justify="left", title_style="bold")
            for entry in entries:
                table.add_row(entry["name"], entry["title"])
            output.print(table)
        for entry in listing["algorithms"]:
            if entry["presets"]:
                output.print(f"presets of {entry['name']}: {', '.join(entry['presets'])}", soft_wrap=False)
