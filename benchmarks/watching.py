"""What watching a training costs: `python benchmarks/watching.py`. README.md explains the figures.

The same updates of POR with nothing beside them, with the alarms that are always on, with losses on held-out episodes,
and with each tracking tool that is installed. The sides take turns, each in a process of its own.

The last line of standard output is one JSON object with the headline figures.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Bench, Figures, Remote, timed
from rich.console import Console
from rich.progress import Progress

ROWS, COLUMNS, ACTIONS = 100_000, 11, 3
LOG_EVERY = 500
FIRST_LOOK = 1_000
"""Updates after which alarms ask the policy for the first time, which compiles its acting: before the time is taken."""
SIZES: dict[str, dict[str, Any]] = {
    "paper": {},
    "small": dict.fromkeys(("value_hidden", "guide_hidden", "executor_hidden"), (64, 64)),
}
"""The authors' networks, and such small ones that what is beside the updates weighs most."""
TOOLS = {"tensorboard": "tensorboardX", "trackio": "trackio"}
SIDES = {
    "bare": "the updates alone, and the rows of metrics.csv",
    "alarms": "with the alarms, which are always on",
    "held out": "with alarms and losses on held-out episodes",
    "tensorboard": "with alarms and --track tensorboard",
    "trackio": "with alarms and --track trackio",
}


class Watched:
    """One training under way, as `waypost train` has it."""

    def __init__(self, side: str, size: str, folder: str):
        os.environ["TRACKIO_DIR"] = f"{folder}/trackio"
        import waypost
        from waypost.training.plan import plan
        from waypost.training.tracking import Tracking
        from waypost.training.trainer import _Training

        rng = np.random.default_rng(0)
        data = waypost.Dataset.from_arrays(
            rng.normal(size=(ROWS, COLUMNS)),
            None,
            rng.uniform(-1, 1, (ROWS, ACTIONS)),
            rng.normal(size=ROWS),
            timeouts=np.arange(1, ROWS + 1) % 1000 == 0,
        )
        place = Path(folder) / f"{size} {side}"
        callback: Any = Tracking(side, place) if side in TOOLS else waypost.Callback()  # type: ignore[arg-type]
        held = {"hold_out": 0.1} if side == "held out" else {}
        options: dict[str, Any] = {"preset": "none", "env": "none", "steps": 10**9, "log_every": LOG_EVERY}
        planned = plan("por", data, **options, **held, **SIZES[size])
        self.training = _Training(planned, data, None, callback)
        if side == "bare":
            self.training.alarms.look = lambda *_: []  # type: ignore[method-assign]
        callback.start(planned, planned.steps, 0)
        for _ in range(FIRST_LOOK // LOG_EVERY + 1):
            self._to_the_next_row()

    def _to_the_next_row(self) -> None:
        stage = self.training.algorithm.stages[0]
        self.training._log(stage, self.training.learner.advance(stage, LOG_EVERY))

    def time(self, what: str, seconds: float) -> float:
        """Seconds per update."""
        return timed(self._to_the_next_row, seconds) / LOG_EVERY


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--seconds", type=float, default=2.0, help="of a turn")
    options.add_argument("--patience", type=float, default=60.0, help="seconds to wait for a calm machine")
    arguments = options.parse_args()
    sides = [side for side in SIDES if side not in TOOLS or find_spec(TOOLS[side])]
    figures, results = Figures(), {}
    with tempfile.TemporaryDirectory() as place, Progress(console=Console(stderr=True)) as progress:
        for size in arguments.sizes:
            workers = {side: Remote(Watched, side, size, place) for side in sides}
            for worker in workers.values():
                worker.answer()
            bench = Bench({**workers}, arguments.rounds, arguments.seconds, arguments.patience, progress)
            times = bench.times(f"{size} size", {side: (worker, "") for side, worker in workers.items()})
            figures.time(f"{size}, an update", times["bare"], SIDES["bare"])
            for side in sides[1:]:
                ratio = figures.ratio(f"{size}, {side}", times, side, "bare", SIDES[side], headline=True)
                results[f"{size}_{side.replace(' ', '_')}_cost"] = ratio - 1.0
            figures.line()
            for worker in workers.values():
                worker.process.kill()
                worker.process.join()
    figures.finish(bench, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
