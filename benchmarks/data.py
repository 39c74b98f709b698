"""Reading and checking a million transitions, beside reading the same files with plain NumPy and h5py.

    python benchmarks/data.py            # a minute
    python benchmarks/data.py --rows 100000

The readers take turns; a figure is the median of the rounds. The last line of standard output is one JSON object with
the seconds of each and their ratios to plain reading.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
from rich.console import Console
from rich.table import Table

import waypost
from waypost.data.inspection import inspect

OBSERVATION, ACTION, EPISODE = 27, 8, 1000


def recording(rows: int) -> waypost.Dataset:
    """Random walks with AntMaze's sizes of states and actions."""
    rng = np.random.default_rng(0)
    episodes = -(-rows // EPISODE)
    walks = np.cumsum(rng.normal(size=(episodes, EPISODE + 1, OBSERVATION), scale=0.1).astype(np.float32), axis=1)
    ends = np.arange(1, EPISODE + 1) == EPISODE
    return waypost.Dataset.from_arrays(
        walks[:, :-1].reshape(-1, OBSERVATION)[:rows],
        walks[:, 1:].reshape(-1, OBSERVATION)[:rows],
        rng.uniform(-1, 1, (rows, ACTION)),
        rng.normal(size=rows),
        timeouts=np.tile(ends, episodes)[:rows],
    )


def packed_d4rl(dataset: waypost.Dataset, path: Path) -> None:
    """In D4RL's layout: compressed, without next states."""
    with h5py.File(path, "w") as file:
        for name in ("observations", "actions", "rewards", "terminals", "timeouts"):
            file.create_dataset(name, data=getattr(dataset, name), compression="gzip", compression_opts=4)


def plain_npz(path: Path) -> None:
    with np.load(path) as file:
        for name in file:
            _ = file[name]


def plain_hdf5(path: Path) -> None:
    with h5py.File(path) as file:
        for name in file:
            _ = file[name][()]


def timed(run: Callable[[], object]) -> float:
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    dataset = recording(arguments.rows)
    screen = Console(stderr=True)
    with tempfile.TemporaryDirectory() as folder, screen.status("writing the files"):
        files = {name: Path(folder) / name for name in ("ours.npz", "ours.hdf5", "d4rl.hdf5", "ours.parquet")}
        for name, path in files.items():
            if name == "d4rl.hdf5":
                packed_d4rl(dataset, path)
            else:
                waypost.save(dataset, path)
        plain = {"ours.npz": plain_npz, "ours.hdf5": plain_hdf5, "d4rl.hdf5": plain_hdf5}
        times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in files}
        for number in range(arguments.rounds):
            for name, path in files.items():
                screen.log(f"round {number + 1} of {arguments.rounds}: {name}")
                if name in plain:
                    times[name][1].append(timed(lambda path=path, name=name: plain[name](path)))
                times[name][0].append(timed(lambda path=path: waypost.load(path)))
        inspection = timed(lambda: inspect(dataset))
    table = Table("file", "Waypost reads and checks", "plain reading", "ratio")
    figures: dict[str, float] = {"rows": arguments.rows}
    for name, (ours, theirs) in times.items():
        seconds = statistics.median(ours)
        figures[name] = round(seconds, 3)
        row = [name, f"{seconds:.2f} s", "-", "-"]
        if theirs:
            beside = statistics.median(theirs)
            figures[f"{name} plain"] = round(beside, 3)
            row[2:] = [f"{beside:.2f} s", f"{seconds / beside:.1f}"]
        table.add_row(*row)
    table.add_row("inspect", f"{inspection:.2f} s", "-", "-")
    screen.print(table)
    print(json.dumps(figures | {"inspect": round(inspection, 3)}))


if __name__ == "__main__":
    main()
