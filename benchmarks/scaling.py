"""How the cost of POR's update grows: `python benchmarks/scaling.py [OUT.png]`. README.md explains the figure.

Every point is its own process, which measures the time of its updates and its peak memory. From one common size, one
thing at a time is varied: width, batch, size of an observation, rows of data, seeds.

The last line of standard output is one JSON object with all points.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

COMMON = {"width": 256, "batch": 256, "observation": 11, "rows": 100_000, "seeds": 1}
VARIED: dict[str, tuple[int, ...]] = {
    "width": (32, 64, 128, 256, 512, 1024),
    "batch": (32, 64, 128, 256, 512, 1024, 2048),
    "observation": (4, 11, 29, 105, 300, 1000),
    "rows": (100_000, 1_000_000, 10_000_000),
    "seeds": (1, 2, 5, 10),
}
TITLES = {
    "width": "units of both hidden layers",
    "batch": "rows of a batch",
    "observation": "size of an observation",
    "rows": "rows of data",
    "seeds": "seeds at once",
}
ACTION, TURNS, SECONDS = 3, 7, 0.4


def measure(width: int, batch: int, observation: int, rows: int, seeds: int) -> dict[str, Any]:
    """Milliseconds per update of all seeds, with quartiles, and the peak memory of this process."""
    from waypost.agents.por import POR, Config
    from waypost.data.dataset import Dataset
    from waypost.training.loop import Learner

    rng = np.random.default_rng(0)
    dataset = Dataset.from_arrays(
        rng.standard_normal((rows, observation), np.float32),
        rng.standard_normal((rows, observation), np.float32),
        actions=rng.uniform(-1, 1, (rows, ACTION)).astype(np.float32),
        rewards=rng.standard_normal(rows, np.float32),
        terminals=rng.random(rows) < 0.01,
        action_low=-np.ones(ACTION, np.float32),
        action_high=np.ones(ACTION, np.float32),
    )
    hidden = (width, width)
    config = Config(value_hidden=hidden, guide_hidden=hidden, executor_hidden=hidden, batch_size=batch)
    columns, spec = POR.prepare(config, dataset)
    del dataset
    learner = Learner(POR(config, spec, 1_000_000), columns, range(seeds))
    del columns
    stage, steps = learner.algorithm.stages[0], 4
    # As many updates per call as fill a turn, found by doubling.
    while True:
        learner.advance(stage, steps)
        begun = time.perf_counter()
        learner.advance(stage, steps)
        if (passed := time.perf_counter() - begun) > SECONDS / 2:
            break
        steps *= max(2, int(SECONDS / max(passed, 1e-3)))
    times = []
    for _ in range(TURNS):
        begun = time.perf_counter()
        learner.advance(stage, steps)
        times.append((time.perf_counter() - begun) / steps * 1e3)
    low, middle, high = np.percentile(times, (25, 50, 75))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"ms": float(middle), "quartiles": [float(low), float(high)], "peak_mb": float(memory)}


def points() -> list[tuple[str, dict[str, int]]]:
    return [(what, COMMON | {what: value}) for what, values in VARIED.items() for value in values]


def draw(found: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, len(VARIED), figsize=(15, 5.6), sharex="col", sharey="row", layout="constrained")
    for column, what in enumerate(VARIED):
        each = [point for point in found if point["varied"] == what]
        values = [point[what] for point in each]
        for row, (name, label) in enumerate((("ms", "ms per update"), ("peak_mb", "peak memory, MB"))):
            axis = axes[row, column]
            axis.plot(values, [point[name] for point in each], "o-", color="#2b6cb0", markersize=4)
            if name == "ms":
                low, high = np.array([point["quartiles"] for point in each]).T
                axis.fill_between(values, low, high, color="#2b6cb0", alpha=0.25, linewidth=0)
            axis.set(xscale="log", yscale="log")
            axis.yaxis.set_major_formatter("{x:g}")
            axis.axvline(COMMON[what], color="0.8", linewidth=1, zorder=0)
            axis.grid(alpha=0.3)
            if column == 0:
                axis.set_ylabel(label)
        axes[1, column].set_xlabel(TITLES[what])
    figure.suptitle("POR's update: one thing varied at a time from the size at the grey lines")
    figure.savefig(path, dpi=110)


def main() -> int:
    parser = argparse.ArgumentParser(description="How POR's update scales; see benchmarks/README.md.")
    parser.add_argument("out", nargs="?", type=Path, default=Path("scaling.png"), help="the figure")
    parser.add_argument("--point", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.point:
        print(json.dumps(measure(**arguments.point)))
        return 0
    found = []
    for what, size in track(points(), "measuring", console=Console(stderr=True)):
        command = [sys.executable, __file__, "--point", json.dumps(size)]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append({"varied": what, **size, **json.loads(run.stdout.splitlines()[-1])})
    table = Table("varied", "value", "ms per update", "quartiles", "peak MB")
    for point in found:
        low, high = point["quartiles"]
        cells = (f"{point['ms']:.3f}", f"{low:.3f} - {high:.3f}", f"{point['peak_mb']:.0f}")
        table.add_row(point["varied"], f"{point[point['varied']]:,}", *cells)
    Console().print(table)
    draw(found, arguments.out)
    print(json.dumps({"points": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
