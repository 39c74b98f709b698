"""How two sides are compared: each in its own process, in turns, on a calm machine. README.md says why."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
CALM = 0.1
"""A round is undisturbed if other processes use less than this share of the machine."""


def timed(run: Callable[[], Any], seconds: float) -> float:
    """Seconds per run, over as many runs as fill the given time."""
    begun, runs = time.perf_counter(), 0
    while (passed := time.perf_counter() - begun) < seconds or not runs:
        run()
        runs += 1
    return passed / runs


class Worker(Protocol):
    """A process that sleeps until one of its methods is called."""

    process: Any

    def call(self, method: str, *args: Any) -> Any: ...

    def answer(self) -> Any: ...


class Remote:
    """A worker in its own process; once built it sleeps until one of its methods is called."""

    def __init__(self, kind: type, *args: Any, cores: int = CORES, environment: dict[str, str] | None = None):
        context = multiprocessing.get_context("spawn")  # a fork would share the libraries' threads
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, kind, args, cores, environment or {}), daemon=True)
        self.process.start()
        theirs.close()

    def call(self, method: str, *args: Any) -> Any:
        self.pipe.send((method, args))
        return self.answer()

    def answer(self) -> Any:
        try:
            good, answer = self.pipe.recv()
        except EOFError:
            raise RuntimeError("a worker process died") from None
        if not good:
            raise RuntimeError(answer)
        return answer


def _serve(pipe: Connection, kind: type, args: tuple[Any, ...], cores: int, environment: dict[str, str]) -> None:
    # Before the import of the libraries, which read both only once.
    os.environ |= environment
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    try:
        worker = kind(*args)
        pipe.send((True, None))
        while True:
            method, arguments = pipe.recv()
            pipe.send((True, getattr(worker, method)(*arguments)))
    except (EOFError, KeyboardInterrupt):
        pass  # the benchmark is over
    except Exception:
        pipe.send((False, traceback.format_exc()))


Times = dict[str, np.ndarray]
"""Seconds per update or evaluation of each side, one number per round."""
Side = tuple[Worker, str]
"""A worker and what it times."""


class Bench:
    """Lets sides take turns, and shows progress."""

    def __init__(self, workers: dict[str, Worker], rounds: int, seconds: float, patience: float, progress: Progress):
        """A turn lasts `seconds` at least; each measurement waits up to `patience` seconds for a calm machine."""
        self.workers, self.rounds, self.seconds = workers, rounds, seconds
        self.patience, self.progress = patience, progress
        self.disturbance: list[float] = []
        """The share of the machine that other processes used in each round that counts."""

    def times(self, title: str, sides: dict[str, Side]) -> Times:
        """Seconds per update or evaluation of each side, one number per round.

        The least disturbed rounds count, chosen by the load of other processes and not by any time measured.
        """
        task = self.progress.add_task(f"{title}: warming up", total=None)
        for worker, what in sides.values():
            worker.call("time", what, 0)
        rounds: list[tuple[float, dict[str, float]]] = []
        waited = 0.0
        while (missing := self.rounds - sum(others < CALM for others, _ in rounds)) > 0:
            if waited > self.patience and len(rounds) >= self.rounds:
                break
            begun, before = time.perf_counter(), self._cpu()
            if waited <= self.patience:
                self.progress.update(task, description=f"{title}: {missing} rounds to go, waiting for a calm machine")
                time.sleep(0.3)
                if self._others(before) > CALM:
                    waited += time.perf_counter() - begun
                    continue
            self.progress.update(task, description=f"{title}: {missing} rounds to go")
            # Forwards, then backwards: a drift of the machine's speed cancels out.
            order = list(sides)[:: 1 if len(rounds) % 2 == 0 else -1]
            begun, before = time.perf_counter(), self._cpu()
            times = {name: sides[name][0].call("time", sides[name][1], self.seconds) for name in order}
            rounds.append((self._others(before), times))
            if rounds[-1][0] > CALM:
                waited += time.perf_counter() - begun
        self.progress.update(task, description=title, total=1, completed=1)
        rounds = sorted(rounds, key=lambda each: each[0])[: self.rounds]
        self.disturbance += [others for others, _ in rounds]
        return {name: np.array([times[name] for _, times in rounds]) for name in sides}

    def _others(self, before: np.ndarray) -> float:
        """The share of the machine that other processes have used since then."""
        used, ours, capacity = self._cpu() - before
        return float(max(0.0, used - ours) / max(capacity, 1e-9))

    def _cpu(self) -> np.ndarray:
        """CPU ticks used by all processes, used by us, and available; known on Linux only."""
        machine = Path("/proc/stat")
        if not machine.exists():
            return np.array([0.0, 0.0, time.perf_counter()])
        numbers = [int(number) for number in machine.read_text().split("\n")[0].split()[1:9]]
        idle = numbers[3] + numbers[4]
        processes = (os.getpid(), *(worker.process.pid for worker in self.workers.values()))
        stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in processes]
        # Including children that have ended.
        ours = sum(int(ticks) for stat in stats for ticks in stat[11:15])
        return np.array([sum(numbers) - idle, ours, sum(numbers)], np.float64)


def quartiles(values: np.ndarray) -> tuple[float, float]:
    low, high = np.percentile(values, (25, 75))
    return float(low), float(high)


class Figures:
    """The table."""

    def __init__(self) -> None:
        self.table = Table("figure", "value", "quartiles", "what it is")

    def time(self, name: str, seconds: np.ndarray, meaning: str) -> None:
        low, high = quartiles(seconds * 1e3)
        self.table.add_row(name, f"{np.median(seconds) * 1e3:.3f} ms", f"{low:.3f} – {high:.3f}", meaning)

    def ratio(self, name: str, times: Times, above: str, below: str, meaning: str, headline: bool = False) -> float:
        """Ratio of the medians, with the quartiles of the rounds' own ratios."""
        low, high = quartiles(times[above] / times[below])
        value = float(np.median(times[above]) / np.median(times[below]))
        style = "bold" if headline else None
        self.table.add_row(name, f"{value:.3f}", f"{low:.3f} – {high:.3f}", meaning, style=style)
        return value

    def speed(self, name: str, work: int, seconds: np.ndarray, meaning: str) -> None:
        low, high = quartiles(work / seconds / 1e9)
        self.table.add_row(name, f"{work / np.median(seconds) / 1e9:.0f} GFLOP/s", f"{low:.0f} – {high:.0f}", meaning)

    def number(self, name: str, value: str, meaning: str) -> None:
        self.table.add_row(name, value, "", meaning)

    def line(self) -> None:
        self.table.add_section()

    def finish(self, bench: Bench, results: dict[str, Any]) -> None:
        """Print how busy the machine was, the table, and the results as one line of JSON."""
        others = f"{np.median(bench.disturbance):.0%}, at most {np.max(bench.disturbance):.0%}"
        meaning = f"their share of the {CORES} cores; under {CALM:.0%} is calm"
        self.number("other processes", others, meaning)
        Console(width=max(Console().width, 110)).print(self.table)
        print(json.dumps(results))
