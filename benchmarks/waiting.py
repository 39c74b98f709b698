"""What a person waits for besides the updates: `python benchmarks/waiting.py`. README.md explains the figures.

Evaluation and recording now against how they were before, one Gymnasium environment after the other, with the same
results; and how long a training takes to start if its programs were compiled before.

The last line of standard output is one JSON object with the headline figures.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from measuring import Bench, Figures, Remote
from rich.console import Console
from rich.progress import Progress

MAZE, EPISODES, SEED = "antmaze-medium-play", 100, 12_345
RECORDED = {"hopper-medium": 120_000, "halfcheetah-medium": 120_000, "walker2d-medium": 120_000, MAZE: 80_000}
FIRST_STEPS = """
import os, sys, time
from waypost.cli import main
from waypost.console import bar
def begun(*_):
    print(time.time(), flush=True)
    os._exit(0)
bar.TrainingBar.advance = begun
main(["demo", "--out", sys.argv[1]])
"""
"""A demo that ends after its first updates, and prints the time."""


class EvaluationWorker:
    """An agent that has cloned some of the data, in the maze."""

    def __init__(self, episodes: int) -> None:
        import waypost
        from waypost.envs.tasks import TASKS

        self.episodes, self.task = episodes, TASKS[MAZE]
        self.agent = waypost.train("bc", f"{MAZE}-20000", env="none", steps=3000).policy.agent

    def evaluate(self, what: str) -> Any:
        from waypost.training.evaluation import rollouts

        task = self.task if what == "now" else replace(self.task, stepping="sync")
        return rollouts([self.agent], task, self.episodes, SEED)

    def check(self) -> int:
        """The number of steps, after checking that both ways end every episode alike."""
        now, before = self.evaluate("now"), self.evaluate("before")
        if now.returns.tolist() != before.returns.tolist() or now.lengths.tolist() != before.lengths.tolist():
            raise AssertionError("the two ways of evaluating differ")
        return int(now.lengths.sum())

    def time(self, what: str, seconds: float) -> float:
        return seconds_of(lambda: self.evaluate(what)) if seconds else 0.0


class RecordingWorker:
    """Replicas, recorded by one process per core."""

    def record(self, what: str) -> Any:
        from waypost.recording.replicas import collect

        way, name = what.split()
        return collect(name, RECORDED[name]) if way == "now" else collect_alone(name, RECORDED[name])

    def check(self) -> None:
        for name in RECORDED:
            if self.record(f"now {name}").fingerprint() != self.record(f"before {name}").fingerprint():
                raise AssertionError(f"the two ways of recording {name} differ")

    def time(self, what: str, seconds: float) -> float:
        return seconds_of(lambda: self.record(what)) if seconds else 0.0


def collect_alone(name: str, transitions: int) -> Any:
    """`collect` as it was before: every unit alone, in its own Gymnasium environment."""
    from waypost.recording import replicas

    honest, together = replicas.sharing, replicas.TOGETHER
    replicas.TOGETHER = 1
    replicas.sharing = lambda function, count: honest(f"{Path(__file__).stem}:record_unit", count)
    try:
        return replicas.collect(name, transitions)
    finally:
        replicas.sharing, replicas.TOGETHER = honest, together


def record_unit(name: str, stage: int, unit: int, seed: int, leasts: list[int]) -> dict[str, np.ndarray]:
    """A unit's columns: whole episodes until there are enough rows."""
    from waypost.envs import simulators
    from waypost.recording.replicas import replica_named

    _, scene = replica_named(name).stages[stage]
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(crc32(scene.key.encode()), unit)))
    env, actor = simulators.make(scene.env_id), scene.actor(rng)
    reset_seed: int | None = int(rng.integers(2**31))
    rows: list[tuple[Any, ...]] = []
    with closing(env):
        while len(rows) < leasts[0]:
            position = actor.begin()
            options = None if position is None else {"position": position}
            observation = env.reset(seed=reset_seed, options=options)[0].astype(np.float32)
            reset_seed, ended = None, False
            while not ended:
                action = type(actor).act([actor], observation[None])[0]
                result, reward, terminated, truncated, _ = env.step(action)
                following = result.astype(np.float32)
                ended = terminated or truncated or actor.arrived(following)
                rows.append((observation, following, action, reward, terminated, ended and not terminated))
                observation = following
    names = ("observations", "next_observations", "actions", "rewards", "terminals", "timeouts")
    columns = {name: np.array(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)}
    return columns | {"rewards": columns["rewards"].astype(np.float32)}


class StartWorker:
    """`waypost demo` from the command to the end of its first 500 updates."""

    def __init__(self, cache: str) -> None:
        self.environment = {**os.environ, "WAYPOST_CACHE": cache}
        self.time("first", 1)  # the one that compiles

    def time(self, what: str, seconds: float) -> float:
        with tempfile.TemporaryDirectory() as folder:
            begun = time.time()
            command = [sys.executable, "-c", FIRST_STEPS, f"{folder}/run"]
            run = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=True)
        return float(run.stdout) - begun


def seconds_of(run: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def evaluation(bench: Bench, figures: Figures) -> dict[str, float]:
    worker = bench.workers["evaluation"]
    steps = worker.call("check")
    times = bench.times("evaluation", {name: (worker, name) for name in ("before", "now")})
    figures.number("episodes", f"{EPISODES}", f"of {MAZE}, {steps} steps in all, the same both ways")
    figures.time("one after the other", times["before"], "Gymnasium's environments in Python")
    figures.time("as a batch", times["now"], "all cores; finished episodes rest")
    name = "ant_evaluation_speedup"
    return {name: figures.ratio(name, times, "before", "now", "one after the other over a batch", True)}


def recording(bench: Bench, figures: Figures) -> dict[str, float]:
    worker, speedups = bench.workers["recording"], []
    worker.call("check")
    for name, rows in RECORDED.items():
        times = bench.times(name, {way: (worker, f"{way} {name}") for way in ("before", "now")})
        figures.time(f"{name}, {rows}", times["now"], "recording this many transitions")
        speedups.append(figures.ratio("... speed-up", times, "before", "now", "units one by one over together"))
    figures.number("collect_speedup", f"{np.median(speedups):.3f}", "the median of these; all give the same bytes")
    return {"collect_speedup": float(np.median(speedups))}


def start(bench: Bench, figures: Figures) -> dict[str, float]:
    times = bench.times("second start", {"second": (bench.workers["start"], "second")})["second"]
    figures.time("second_start_seconds", times, "`waypost demo` to the end of its first 500 updates, compiled before")
    return {"second_start_seconds": float(np.median(times))}


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what a person waits for; see benchmarks/README.md.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--patience", type=float, default=20.0, metavar="S", help="how long to wait for a calm machine")
    parser.add_argument("--parts", nargs="+", default=["evaluation", "recording", "start"])
    arguments = parser.parse_args()
    figures, results = Figures(), {}
    with tempfile.TemporaryDirectory() as cache, Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("starting and compiling", total=None)
        kinds = {
            "evaluation": (EvaluationWorker, EPISODES),
            "recording": (RecordingWorker,),
            "start": (StartWorker, cache),
        }
        workers = {}
        for part in arguments.parts:
            workers[part] = Remote(*kinds[part])
            workers[part].answer()
        bench = Bench(workers, arguments.rounds, 1.0, arguments.patience, progress)
        progress.update(task, total=1, completed=1)
        parts = {"evaluation": evaluation, "recording": recording, "start": start}
        for part in arguments.parts:
            results |= parts[part](bench, figures)
            figures.line()
    figures.finish(bench, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
