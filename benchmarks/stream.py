"""What streaming data from a file costs: `python benchmarks/stream.py`. README.md explains the figures.

Writes ten million transitions to a temporary folder, as one file and as 16 parts, then trains POR on them in worker
processes that take turns: one has all data in memory; the others stream them from the one file, from .npz parts and
from Parquet parts, with a cap on their own memory. Another process shows the error of loading all data under that cap.

The last line of standard output is one JSON object with the headline figures.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from bench import BATCH, STEPS
from measuring import CALM, CORES, Bench, Figures, Remote
from rich.console import Console
from rich.progress import Progress

OBSERVATION, ACTION, EPISODE, BLOCK = 27, 8, 1000, 250_000
NETWORKS = {"paper": ((256, 256), (256, 256), (1024, 1024)), "small": ((64, 64), (64, 64), (64, 64))}
"""Hidden layers of V, guide and executor."""
WINDOW_ROWS = {"paper": 1 << 18, "small": 1 << 20}
"""A paper-sized update is slow: a smaller window, which serves fewer updates, makes the turns shorter."""
CHUNK = 500
"""Updates per call of `Learner.advance`, as in a training."""
WINDOWS_PER_TURN = 2
PARTS = 16
WAYS = {"streamed": "data.npz", "npz parts": "npz", "parquet parts": "parquet", "in memory": "data.npz"}
"""How the data are read, and their place in the folder."""


def write(path: Path, rows: int, progress: Progress) -> None:
    """Random walks in episodes of 1000 steps, block by block."""
    from waypost.data.dataset import Dataset
    from waypost.data.mapped import NpzWriter

    rng = np.random.default_rng(0)
    task = progress.add_task("writing the data", total=rows)
    with NpzWriter(path) as writer:
        while writer.rows < rows:
            count = min(BLOCK, rows - writer.rows)
            episodes = -(-count // EPISODE)
            steps = rng.standard_normal((episodes, EPISODE + 1, OBSERVATION), np.float32)
            states = np.cumsum(steps, axis=1) / np.float32(EPISODE**0.5)
            writer.append(
                Dataset.from_arrays(
                    states[:, :-1].reshape(-1, OBSERVATION)[:count],
                    states[:, 1:].reshape(-1, OBSERVATION)[:count],
                    rng.uniform(-1, 1, (count, ACTION)),
                    rng.standard_normal(count, np.float32),
                    timeouts=np.arange(1, count + 1) % EPISODE == 0,
                    action_low=-np.ones(ACTION),
                    action_high=np.ones(ACTION),
                )
            )
            progress.update(task, completed=writer.rows)


def split(folder: Path, progress: Progress) -> None:
    """The same data as folders of parts."""
    from waypost.data.convert import convert

    for kind in ("npz", "parquet"):
        task = progress.add_task(f"writing {PARTS} parts, {kind}", total=None)
        convert(
            folder / "data.npz",
            folder / kind,
            parts=PARTS,
            part_format=kind,  # type: ignore[arg-type]
            progress=lambda done, total, task=task: progress.update(task, completed=done, total=total),
        )


def own_memory() -> int:
    """Bytes of memory private to this process now, without mapped files, which others could share."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["RssAnon"].split()[0]) * 1024


def learner(dataset: Any, way: str, size: str) -> Any:
    from waypost.agents.por import POR, Config
    from waypost.data.stream import Stream, sample
    from waypost.training.loop import Learner

    value, guide, executor = NETWORKS[size]
    config = Config(value_hidden=value, guide_hidden=guide, executor_hidden=executor, batch_size=BATCH)
    columns: Any
    if way != "in memory":
        like, spec = POR.prepare(config, sample(dataset))
        rows = WINDOW_ROWS[size]
        columns = Stream(dataset, lambda block: POR.prepare(config, block)[0], like, BATCH, window_rows=rows)
    else:
        columns, spec = POR.prepare(config, dataset)
    return Learner(POR(config, spec, STEPS), columns, (0,))


class Worker:
    """POR on the data of a file or a folder, in one of the ways."""

    def __init__(self, path: Path, way: str, size: str, cap: int | None):
        if cap is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (cap, cap))
        self.peak = 0
        threading.Thread(target=self._watch, daemon=True).start()
        begun = time.perf_counter()
        from waypost.data.large import obtain
        from waypost.data.roles import Columns

        dataset, _ = obtain(path, Columns(), "never" if way == "in memory" else "always", lambda: None)
        self.opening = time.perf_counter() - begun
        self.learner = learner(dataset, way, size)

    def _watch(self) -> None:
        while True:
            self.peak = max(self.peak, own_memory())
            time.sleep(0.01)

    def time(self, updates: int, seconds: float) -> float:
        """Seconds per update, over the updates of some windows, including the wait for the window after the last."""
        begun = time.perf_counter()
        for _ in range(updates // CHUNK):
            self.learner.advance(self.learner.algorithm.stages[0], CHUNK)
        ahead = getattr(self.learner.source, "_ahead", None)
        if ahead is not None:
            ahead.window.result()
        return (time.perf_counter() - begun) / updates

    def updates(self) -> int:
        """Updates a window serves."""
        return self.learner.source.updates

    def facts(self) -> tuple[int, float]:
        """Its peak private memory, and the seconds it took to open the data."""
        return self.peak, self.opening


class Refused:
    """A training with the data in memory."""

    def __init__(self, path: Path, cap: int):
        resource.setrlimit(resource.RLIMIT_DATA, (cap, cap))
        self.path = path

    def train(self) -> str:
        import waypost

        try:
            waypost.train("por", self.path, stream="never", env="none", preset="none", steps=1)
        except waypost.WaypostError as error:
            return str(error).replace(str(self.path), self.path.name)
        raise AssertionError("the data fit in memory under the cap: choose a smaller cap")


def refused(path: Path, cap: int) -> str:
    """The error of a training with the data in memory under the cap."""
    worker = Remote(Refused, path, cap)
    worker.answer()
    message = worker.call("train")
    end(worker)
    return message


def end(worker: Remote) -> None:
    worker.process.terminate()
    worker.process.join()


def measure(
    folder: Path, sizes: list[str], cap: int, rounds: int, patience: float, progress: Progress
) -> tuple[Figures, dict[str, Any]]:
    figures, results, disturbance = Figures(), {}, []
    message = refused(folder / "data.npz", cap)
    facts: dict[str, list[tuple[int, float]]] = {way: [] for way in WAYS}
    for size in sizes:
        # New processes for each size, like a training.
        # Arrow's own allocator reserves a gigabyte of addresses, which counts towards the cap.
        plain = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
        workers = {
            way: Remote(Worker, folder / place, way, size, None if way == "in memory" else cap, environment=plain)
            for way, place in WAYS.items()
        }
        for worker in workers.values():
            worker.answer()
        bench = Bench(workers, rounds, 0.0, patience, progress)
        updates = workers["streamed"].call("updates")
        sides: Any = {way: (worker, WINDOWS_PER_TURN * updates) for way, worker in workers.items()}
        times = bench.times(f"{size} size", sides)
        disturbance += bench.disturbance
        for way, worker in workers.items():
            figures.time(f"{way}, {size}", times[way], "an update")
            facts[way].append(worker.call("facts"))
            end(worker)
        key = "stream_vs_memory" if size == "paper" else f"stream_vs_memory_{size}"
        meaning = f"streamed over in memory; {WINDOWS_PER_TURN} windows of {updates} updates per turn"
        results[key] = figures.ratio(key, times, "streamed", "in memory", meaning, size == "paper")
        for kind in ("npz", "parquet"):
            key = f"{kind}_parts_vs_one_file" + ("" if size == "paper" else f"_{size}")
            results[key] = figures.ratio(key, times, f"{kind} parts", "streamed", f"{PARTS} parts over one file")
        figures.line()
    keys = {"streamed": "stream", "npz parts": "npz_parts", "parquet parts": "parquet_parts", "in memory": "memory"}
    for way, key in keys.items():
        peak, opening = (max(numbers) for numbers in zip(*facts[way], strict=True))
        results[f"peak_memory_mb_{key}"] = round(peak / 1e6)
        figures.number(f"peak memory, {way}", f"{peak / 1e6:.0f} MB", f"of its own; {opening:.1f} s to open the data")
    results["cap_mb"] = round(cap / 1e6)
    figures.number("cap", f"{cap / 1e6:.0f} MB", f"in memory under it: {message}")
    others = f"{np.median(disturbance):.0%}, at most {np.max(disturbance):.0%}"
    figures.number("other processes", others, f"their share of the {CORES} cores; under {CALM:.0%} is calm")
    return figures, results


def read_windows(folder: Path, rounds: int, progress: Progress) -> tuple[Figures, dict[str, Any]]:
    """Processor seconds to prepare a window from each source, in turns, without learning."""
    from waypost.agents.por import POR, Config
    from waypost.data.large import obtain
    from waypost.data.roles import Columns
    from waypost.data.stream import Stream, sample

    config, figures, results = Config(), Figures(), {}
    ways = [way for way in WAYS if way != "in memory"]
    streams: dict[str, Stream] = {}
    for way in ways:
        dataset, _ = obtain(folder / WAYS[way], Columns(), "always", lambda: None)
        like, _ = POR.prepare(config, sample(dataset))
        streams[way] = Stream(dataset, lambda block: POR.prepare(config, block)[0], like, BATCH, window_rows=1 << 18)
    times: dict[str, Any] = {way: [] for way in ways}
    task = progress.add_task("windows", total=rounds * len(ways))
    for index in range(rounds):
        for way in ways:
            begun = time.process_time()
            streams[way].take(index)
            times[way].append(time.process_time() - begun)
            progress.advance(task)
    times = {way: np.array(seconds) for way, seconds in times.items()}
    for way in ways:
        figures.time(f"{way}, a window", times[way], "processor time, 262 144 rows")
    for kind in ("npz", "parquet"):
        key = f"{kind}_window_vs_one_file"
        results[key] = figures.ratio(key, times, f"{kind} parts", "streamed", f"{PARTS} parts over one file")
    return figures, results


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what streaming costs; see benchmarks/README.md.")
    parser.add_argument("--rows", type=int, default=10_000_000, help="transitions in the file")
    parser.add_argument("--cap", type=int, default=1500, metavar="MB", help="memory the streaming process may have")
    parser.add_argument("--reading", action="store_true", help="only how long windows take, without learning")
    parser.add_argument("--sizes", nargs="+", choices=NETWORKS, default=list(NETWORKS), help="networks to time")
    parser.add_argument("--rounds", type=int, default=8, help="turns of each side")
    parser.add_argument("--patience", type=float, default=60.0, metavar="S", help="how long to wait for a calm machine")
    arguments = parser.parse_args()
    # Ending it early must not leave gigabytes in the temporary folder.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with Progress(console=Console(stderr=True)) as progress, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        write(path, arguments.rows, progress)
        size = path.stat().st_size
        split(Path(folder), progress)
        os.sync()
        cap, rounds = arguments.cap * 10**6, arguments.rounds
        if arguments.reading:
            figures, results = read_windows(Path(folder), rounds, progress)
        else:
            figures, results = measure(Path(folder), arguments.sizes, cap, rounds, arguments.patience, progress)
    Console(width=max(Console().width, 130)).print(
        f"{arguments.rows} transitions, {size / 1e9:.2f} GB, {OBSERVATION} numbers each state, {ACTION} each action",
        figures.table,
    )
    print(json.dumps(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
