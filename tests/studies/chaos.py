"""A comparison on Ray as a process of its own: its workers, and itself, can be killed."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import waypost.recording  # noqa: F401 (data made here are known by name)
from waypost.data.dataset import Dataset
from waypost.data.sources import load, save
from waypost.envs.tasks import Protocol
from waypost.files import write_text
from waypost.studies.comparison import Comparison, as_csv, compare
from waypost.studies.workers import HERE, OnRay, Runner
from waypost.training.callbacks import Callback

SETTINGS: dict[str, Any] = {"hidden": (8,), "batch_size": 8, "preset": "none", "log_every": 20}
MEMORY = 80_000_000
"""Bytes of Ray's shared memory: the least it takes."""


class Slow(Callback):
    """A training that takes its time, but no processor's, so that it can be killed in the middle."""

    seconds = 0.1

    def advance(self, stage: str, step: int) -> None:
        time.sleep(self.seconds)


def make_data(folder: Path, count: int) -> list[str]:
    """Data sets of the same shape, so that one compiled program serves all."""
    usual, files = load("t-maze"), []
    for number in range(count):
        files.append(str(folder / f"maze-{number:02}.npz"))
        factor = 1 + number / 100
        changed = {name: getattr(usual, name) * factor for name in ("observations", "next_observations")}
        rows = {name: getattr(usual, name) for name in ("actions", "rewards", "terminals", "timeouts")}
        save(Dataset.from_arrays(**changed, **rows), files[-1])
    return files


def trained(data: Sequence[str], out: Path, runner: Runner = HERE, steps: int = 200) -> Comparison:
    """Short trainings, one for each data set, evaluated, and so saved, on their way."""
    protocol, asked = Protocol(every=40, episodes=1), {"bc": SETTINGS}
    return compare(
        data, ["bc"], out=out, env="t-maze", seeds=1, steps=steps, evaluation=protocol, settings=asked, runner=runner
    )


if __name__ == "__main__":
    place, data, workers, steps = Path(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    found = trained(data, place, OnRay(workers, cpus=0.5, watcher=Slow, memory=MEMORY), steps)
    write_text(place / "results.csv", as_csv(found))
