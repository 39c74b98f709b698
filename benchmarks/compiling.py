"""How long the first training of each algorithm takes to compile: `python benchmarks/compiling.py [ALGORITHM ...]`.

Every algorithm runs in its own process with an empty cache, at the paper's size, on random transitions of a hopper's
shape. Tracing, lowering and XLA's compilation are JAX's own figures for the start and one chunk of every stage; work
that runs at the same time on another core is counted too.

The last line of standard output is one JSON object: seconds in all for each algorithm.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

PHASES = {
    "/jax/core/compile/jaxpr_trace_duration": "tracing",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lowering",
    "/jax/core/compile/backend_compile_duration": "compiling",
}
ROWS, EPISODE = 4000, 100


def measure(name: str) -> dict[str, float]:
    """Seconds of each phase."""
    import jax

    seconds = dict.fromkeys(PHASES.values(), 0.0)

    def note(event: str, duration: float, **_: object) -> None:
        if event in PHASES:
            seconds[PHASES[event]] += duration

    jax.monitoring.register_event_duration_secs_listener(note)
    from waypost.agents import algorithm
    from waypost.data.dataset import Dataset
    from waypost.training.loop import Learner

    chosen, rng = algorithm(name), np.random.default_rng(0)
    discrete = name == "cql-discrete"
    actions = rng.integers(0, 4, (ROWS, 1)) if discrete else rng.uniform(-1, 1, (ROWS, 3))
    states = rng.standard_normal((ROWS + 1, 11), np.float32)
    dataset = Dataset.from_arrays(
        states[:-1],
        states[1:],
        actions=actions.astype(np.float32),
        rewards=rng.standard_normal(ROWS, np.float32),
        timeouts=np.arange(1, ROWS + 1) % EPISODE == 0,
        **({"action_count": 4} if discrete else {"action_low": -np.ones(3), "action_high": np.ones(3)}),
    )
    config = chosen.config_type()
    columns, spec = chosen.prepare(config, dataset)
    learner = Learner(chosen(config, spec, 1_000_000), columns, [0])
    learner.metric_names(lambda stage: 2)
    for stage in learner.algorithm.stages:
        learner.advance(stage, 2)
    return seconds


def main() -> int:
    from waypost.agents import ALGORITHMS

    parser = argparse.ArgumentParser(description="Compilation times; see benchmarks/README.md.")
    parser.add_argument("algorithms", nargs="*", default=list(ALGORITHMS))
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.alone:
        print(json.dumps(measure(arguments.algorithms[0])))
        return 0
    found = {}
    for name in track(arguments.algorithms, "compiling", console=Console(stderr=True)):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("JAX_")}
        command = [sys.executable, __file__, name, "--alone"]
        run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        found[name] = json.loads(run.stdout.splitlines()[-1])
    table = Table("algorithm", *PHASES.values(), "in all")
    for name, seconds in sorted(found.items(), key=lambda item: -sum(item[1].values())):
        table.add_row(name, *(f"{each:.2f} s" for each in seconds.values()), f"{sum(seconds.values()):.2f} s")
    Console().print(table)
    print(json.dumps({name: round(sum(seconds.values()), 3) for name, seconds in found.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
