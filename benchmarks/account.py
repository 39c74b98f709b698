"""Where the time of POR's update goes: `python benchmarks/account.py [--rounds N]`. README.md explains the figures.

The full update, the same with plain gradient steps instead of Adam, and its matrix multiplications alone take turns in
one process.

The last line of standard output is one JSON object: milliseconds, medians of the rounds.
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from typing import Any

import numpy as np
import optax
from bench import BATCH, CHUNKS, STEPS, multiplications, problem
from measuring import timed
from rich.console import Console
from rich.progress import track
from rich.table import Table

from waypost.agents.por import POR
from waypost.training.loop import Learner


class Plain(POR):
    """POR with plain gradient steps, without Adam's moments."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.optimisers = dict.fromkeys(self.optimisers, optax.sgd(1e-6))


def main() -> int:
    parser = argparse.ArgumentParser(description="Where the time of an update goes; see benchmarks/README.md.")
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    config, columns, spec = problem("paper")
    steps = CHUNKS["paper"]
    sides: dict[str, Any] = {}
    for name, kind in (("update with plain steps", Plain), ("update", POR)):
        learner = Learner(kind(config, spec, STEPS), columns, [0])
        sides[name] = partial(learner.advance, learner.algorithm.stages[0], steps)
    # After the learners, which decide how many devices JAX has.
    sides["multiplications"] = multiplications("paper", steps, BATCH)
    for run in sides.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in sides}
    for turn in track(range(rounds), "measuring", console=Console(stderr=True)):
        for name in list(sides)[:: 1 if turn % 2 else -1]:
            times[name].append(timed(sides[name], 0.5) / steps * 1e3)
    middle = {name: float(np.median(values)) for name, values in times.items()}
    parts = {
        "matrix multiplications": middle["multiplications"],
        "activations, losses, sampling, target": middle["update with plain steps"] - middle["multiplications"],
        "Adam": middle["update"] - middle["update with plain steps"],
    }
    table = Table("part", "ms", "share")
    for name, value in parts.items():
        table.add_row(name, f"{value:.2f}", f"{value / middle['update']:.0%}")
    table.add_row("update", f"{middle['update']:.2f}", "", style="bold")
    Console().print(table)
    print(json.dumps({name: round(value, 3) for name, value in (parts | {"update": middle["update"]}).items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
