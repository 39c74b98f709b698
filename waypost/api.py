"""The functions of `import waypost` that write reports and show progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from waypost.console.screen import watched
from waypost.console.trials import TrialsBar
from waypost.console.watching import counted, watcher
from waypost.data.large import Choice
from waypost.data.pipeline import Pipeline
from waypost.data.roles import Columns
from waypost.data.table import Reward
from waypost.envs.tasks import Factory, Protocol
from waypost.errors import WaypostError
from waypost.report.comparison import write_comparison
from waypost.report.finished import RunPage
from waypost.report.gallery import write_gallery
from waypost.report.sweep import write_sweep
from waypost.schema import shown
from waypost.studies import adaptation, comparison, sweep as sweeping
from waypost.studies.adaptation import Adaptation
from waypost.studies.comparison import Comparison
from waypost.studies.paper import run as experiments
from waypost.studies.paper.run import Record
from waypost.studies.sweep import Sweep
from waypost.studies.workers import HERE, OnRay, Runner
from waypost.training import runs, train as training
from waypost.training.callbacks import Callback, Callbacks
from waypost.training.policy import Policy
from waypost.training.runs import Run, load_run as load_run
from waypost.types import Convention, Count


def train(
    algorithm: str = "por",
    data: Any = "four-rooms",
    *,
    steps: int | None = None,
    seeds: int | Iterable[int] = 1,
    env: str | Factory | None = None,
    columns: Columns | None = None,
    pipeline: Pipeline | None = None,
    reward: Reward | str | None = None,
    rewards: Convention | Literal["task"] | None = None,
    preset: str | None = None,
    config: Any = None,
    evaluation: Protocol | None = None,
    log_every: int | None = None,
    stream: Choice | None = None,
    init: str | Path | None = None,
    hold_out: float | None = None,
    keep_best: str | None = None,
    stop_early: str | None = None,
    patience: int | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    strict: bool = False,
    callbacks: Callback | Sequence[Callback] = (),
    progress: bool = True,
    **settings: Any,
) -> Run:
    given = {
        "steps": steps,
        "env": env,
        "columns": columns,
        "pipeline": pipeline,
        "reward": reward,
        "rewards": rewards,
        "preset": preset,
        "config": config,
        "evaluation": evaluation,
        "log_every": log_every,
        "stream": stream,
        "init": init,
        "hold_out": hold_out,
        "keep_best": keep_best,
        "stop_early": stop_early,
        "patience": patience,
    }
    options = {name: value for name, value in given.items() if value is not None} | settings
    watching = _watching(progress, callbacks)
    return training.train(
        algorithm, data, seeds=seeds, out=out, resume=resume, strict=strict, callback=watching, **options
    )


def evaluate(
    subject: Run | Policy | str | Path,
    env: str | Factory | None = None,
    *,
    episodes: int | None = None,
    seed: int | None = None,
    workers: int | None = None,
    progress: bool | Count = True,
) -> dict[str, Any]:
    with counted(progress, "episodes") as count:
        return runs.evaluate(subject, env, episodes=episodes, seed=seed, workers=workers, progress=count)


def compare(
    data: str | Path | Sequence[str | Path],
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
    runner: Runner = HERE,
    callbacks: Callback | Sequence[Callback] = (),
    progress: bool = True,
) -> Comparison:
    several = [data] if isinstance(data, str | Path) else data
    if not isinstance(several, Sequence) or not all(isinstance(each, str | Path) for each in several):
        raise WaypostError(
            f"compare needs names or files of data, got a {type(data).__name__}; write it to a file with waypost.save"
        )
    found = comparison.compare(
        several,
        algorithms,
        out=out,
        env=env,
        seeds=seeds,
        steps=steps,
        evaluation=evaluation,
        settings=settings,
        columns=columns,
        pipeline=pipeline,
        callback=_watching(progress, callbacks),
        runner=_with_pages(runner, progress),
    )
    write_comparison(found, Path(out))
    return found


def sweep(
    algorithm: str,
    data: str | Path,
    grid: Mapping[str, Sequence[Any]],
    *,
    out: str | Path,
    runner: Runner = HERE,
    callbacks: Callback | Sequence[Callback] = (),
    progress: bool = True,
    **options: Any,
) -> Sweep:
    watching = _watching(progress, callbacks)
    asked = {"out": out, "callback": watching, "runner": _with_pages(runner, progress), **options}
    found = sweeping.sweep(algorithm, data, grid, **asked)
    write_sweep(found, Path(out))
    return found


def adapt(
    run: str | Path | Run,
    data: Any = None,
    *,
    reward: str | Callable[..., Any] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    env: str | Factory | None = None,
    rewards: Convention | Literal["task"] | None = None,
    steps: int | None = None,
    seeds: int | Sequence[int] | None = None,
    columns: Columns | None = None,
    pipeline: Pipeline | None = None,
    callbacks: Callback | Sequence[Callback] = (),
    progress: bool = True,
    **settings: Any,
) -> Adaptation:
    return adaptation.adapt(
        run,
        data,
        reward=reward,
        out=out,
        resume=resume,
        env=env,
        rewards=rewards,
        steps=steps,
        seeds=seeds,
        columns=columns,
        pipeline=pipeline,
        callback=_watching(progress, callbacks),
        **settings,
    )


def paper(
    name: str, out: str | Path, *, callbacks: Callback | Sequence[Callback] = (), progress: bool = True, **options: Any
) -> Record:
    record = experiments.run(name, out, callback=_watching(progress, callbacks), **options)
    write_gallery(Path(out))
    return record


def _with_pages(runner: Runner, progress: bool) -> Runner:
    """Ray with workers that write the pages of runs, and with bars in a terminal or notebook."""
    if not isinstance(runner, OnRay):
        return runner
    board = TrialsBar() if progress and watched() else runner.board
    return replace(runner, watcher=RunPage if runner.watcher is Callback else runner.watcher, board=board)


def _watching(progress: bool, callbacks: Callback | Sequence[Callback]) -> Callback:
    several = list(callbacks) if isinstance(callbacks, Iterable) else [callbacks]
    for each in several:
        if not isinstance(each, Callback):
            raise WaypostError(f"callbacks must be instances of waypost.Callback, got {shown(each)}")
    return Callbacks(watcher(progress), *several)


_BAR = """
    progress    show a progress bar in a terminal or a notebook; False for none
    """
train.__doc__, evaluate.__doc__ = f"{(training.train.__doc__ or '').rstrip()}{_BAR}", runs.evaluate.__doc__
compare.__doc__, adapt.__doc__ = comparison.compare.__doc__, adaptation.adapt.__doc__
paper.__doc__, sweep.__doc__ = experiments.run.__doc__, sweeping.sweep.__doc__
