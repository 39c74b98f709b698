"""What `--workers` brings: `python benchmarks/workers.py`. README.md explains the figures.

The same trainings in one process, on Ray with one worker, and on Ray with two, each time into a new folder, with one
core's worth of threads for each. All have the weights of the others, byte for byte, which is checked. One more process
trains with the threads of all cores, as a command without `--workers` does.

The last line of standard output is one JSON object with the headline figures.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from waypost.resources import CORES, XLA_CORES

MEMORY = 200_000_000
"""Bytes of Ray's shared memory."""


def side(workers: int, asked: argparse.Namespace, out: Path) -> dict[str, Any]:
    """Train in this process: what it took from the call, and from the first training's begin, to the end."""
    import waypost.recording  # noqa: F401 (data made here are known by name)
    from waypost.envs.tasks import Protocol
    from waypost.studies.trials import Trial, identity
    from waypost.studies.workers import HERE, OnRay
    from waypost.training.callbacks import Callback
    from waypost.training.plan import plan

    trials = []
    for seed in range(asked.trainings):
        options: dict[str, Any] = {"steps": asked.steps, "seeds": (seed,), "log_every": max(1, asked.steps // 20)}
        planned = plan(asked.algo, asked.data, evaluation=Protocol(every=0, episodes=10), **options)
        trials.append(Trial(planned, asked.data, out / identity(planned)))
    out.mkdir(parents=True)
    begun = time.time()
    runner = OnRay(workers, memory=MEMORY) if workers else HERE
    outcomes = dict(runner(trials, Callback()))
    ended = time.time()
    weights = hashlib.sha256()
    for trial in trials:
        assert trial.finished, outcomes[trial]
        weights.update((trial.place / "policy" / f"seed-{trial.plan.seeds[0]}.safetensors").read_bytes())
    first = min((trial.place / "config.json").stat().st_mtime for trial in trials)
    return {"all": ended - begun, "work": ended - first, "weights": weights.hexdigest()}


def in_process(workers: int, words: list[str], threads: int | None = 1) -> dict[str, Any]:
    """A side in a process of its own, with this many threads where it is not Ray that decides."""
    limits = {} if workers or threads is None else dict.fromkeys((CORES, XLA_CORES), str(threads))
    with tempfile.TemporaryDirectory() as folder:
        line = [sys.executable, __file__, *words, "--side", str(workers), "--out", f"{folder}/out"]
        done = subprocess.run(line, env=os.environ | limits, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainings", type=int, default=8)
    parser.add_argument("--steps", type=int, default=5_000, help="updates of each")
    parser.add_argument("--algo", default="iql")
    parser.add_argument("--data", default="four-rooms")
    parser.add_argument("--workers", type=int, default=2, help="to compare with one")
    parser.add_argument("--side", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.side is not None:
        print(json.dumps(side(asked.side, asked, asked.out)))
        return
    words = [f"--{name}={getattr(asked, name)}" for name in ("trainings", "steps", "algo", "data")]
    for threads in (1, None):
        in_process(0, [*words[1:], "--trainings=1"], threads)  # the programs are compiled, and kept
    found = {workers: in_process(workers, words) for workers in (0, 1, asked.workers)}
    assert len({each["weights"] for each in found.values()}) == 1, "the weights differ"
    here, one, several = (found[workers] for workers in (0, 1, asked.workers))
    free = in_process(0, words, None)
    results = {
        "throughput_ratio": one["work"] / several["work"],
        "throughput_ratio_with_start": one["all"] / several["all"],
        "throughput_against_all_threads": free["work"] / several["work"],
        "ray_start_seconds": one["all"] - one["work"],
        "ray_overhead_per_trial_seconds": (one["work"] - here["work"]) / asked.trainings,
        "trial_seconds": here["work"] / asked.trainings,
    }
    table = Table("figure", "value", "what it is")
    trained = f"{asked.trainings} trainings, 1 and {asked.workers} workers of one core"
    table.add_row(
        "throughput_ratio",
        f"{results['throughput_ratio']:.2f}",
        f"{trained}, 1 and {asked.workers} workers of one core",
    )
    table.add_row("... with Ray's start", f"{results['throughput_ratio_with_start']:.2f}", "from the call to the end")
    against = f"one process with the threads of all cores, and {asked.workers} workers"
    table.add_row("... against all threads", f"{results['throughput_against_all_threads']:.2f}", against)
    table.add_row("Ray's start", f"{results['ray_start_seconds']:.1f} s", "until the first training begins")
    table.add_row("overhead", f"{results['ray_overhead_per_trial_seconds']:.2f} s", "of Ray with one worker, per trial")
    table.add_row("a training", f"{results['trial_seconds']:.1f} s", "without Ray, one after the other")
    Console(width=max(Console().width, 100)).print(table)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
