"""Where and when trials are trained: one after the other in this process, or many at once on Ray.

The run directories decide what is left to do. Ray only runs `carry_out` somewhere: if a worker or a node dies, its
trial continues from its last checkpoint on another one; if the process that started everything dies, the same call
continues.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol

from waypost.data.dataset import Dataset
from waypost.data.large import stays_in_files
from waypost.data.sources import load
from waypost.errors import DirectoryError, InterruptedRun, WaypostError
from waypost.resources import CORES, XLA_CORES, require
from waypost.studies.results import NotTrained
from waypost.studies.trials import Status, Trial, carry_out, saved_at, status
from waypost.training.callbacks import Callback, in_turn
from waypost.training.runs import Run
from waypost.training.tracking import Kind

Outcome = Run | WaypostError
"""The outcome of a trial: its run, or why there is none."""
DONE = object()
"""Instead of a trial: there are no more."""
ATTEMPTS = 10
"""How often in a row a worker may die in a trial without saving anything."""
POLL_SECONDS = 0.5
"""Between two checks of the trials' progress."""
STOP_SECONDS = 60.0
"""How long workers may take to save when asked to stop."""


Feed = Iterable[Trial | None]
"""Trials in the order they start. They are taken one by one, when there is room, so the next one may depend on earlier
outcomes; None means that one of these must be waited for."""


class Runner(Protocol):
    """Trains trials, and yields each outcome as soon as it is known."""

    def __call__(self, trials: Feed, callback: Callback) -> Iterator[tuple[Trial, Outcome]]:
        """A directory that cannot be used ends everything: it says nothing about the trial."""
        ...


class Board:
    """Shows the progress of all trials; this one shows nothing."""

    def begin(self, count: int | None) -> None:
        """Start with the number of trials, if known."""

    def running(self, trial: Trial, at: Status) -> None: ...

    def ended(self, trial: Trial, words: str) -> None: ...

    def close(self) -> None: ...


def only_read(trials: Feed, callback: Callback) -> Iterator[tuple[Trial, Outcome]]:
    """Train nothing: the outcome of an unfinished trial is its progress."""
    for trial in trials:
        if trial is not None:
            yield trial, _read(trial)


@dataclass(frozen=True)
class Here:
    """One trial after the other, in this process."""

    missing_only: bool = False
    """Skip trials that other processes work on, instead of waiting for them."""
    track: tuple[Kind, ...] = ()

    def __call__(self, trials: Feed, callback: Callback) -> Iterator[tuple[Trial, Outcome]]:
        for trial in in_turn(trials, "training", callback) if isinstance(trials, Sequence) else trials:
            if trial is None:
                continue
            try:
                yield trial, carry_out(trial, callback, not self.missing_only, self.track)
            except InterruptedRun as stop:
                if trial.until is None or stop.step < trial.until:
                    raise
                yield trial, NotTrained(f"paused at step {stop.step}")
            except DirectoryError:
                raise
            except WaypostError as error:
                yield trial, error


HERE = Here()


@dataclass(frozen=True)
class OnRay:
    """Many trials at once, on a Ray of its own on this machine or on a cluster."""

    workers: int | None = None
    """Trials at once; by default as many as the cluster has room for."""
    address: str | None = None
    """Of a cluster: auto or HOST:PORT; without one Ray is started here, and stopped at the end."""
    cpus: float = 1.0
    """Cores of each trial."""
    gpus: float = 0.0
    """GPUs of each trial; 0.25 lets four share one."""
    missing_only: bool = False
    """Skip trials that other processes work on, instead of waiting for them."""
    track: tuple[Kind, ...] = ()
    watcher: type[Callback] = Callback
    """Created in the worker for each trial: it may write the page of a run."""
    board: Board = Board()  # noqa: RUF009 (it has no state)
    memory: int | None = None
    """Bytes of shared memory for data, for a Ray started here; by default as Ray chooses."""

    def __post_init__(self) -> None:
        for name, value, least in (("workers", self.workers, 1), ("cpus per trial", self.cpus, 0.001)):
            if value is not None and not least <= value <= 10_000:
                raise WaypostError(f"{name} must be from {least:g} to 10000, got {value:g}")
        if not 0 <= self.gpus <= 1_000:
            raise WaypostError(f"gpus per trial must be from 0 to 1000, got {self.gpus:g}")

    def __call__(self, trials: Feed, callback: Callback) -> Iterator[tuple[Trial, Outcome]]:
        count = len(trials) if isinstance(trials, Sized) else None
        with ExitStack() as connection:
            work = _Work(self, lambda: connection.enter_context(self._connected(callback)), callback)
            yield from work.outcomes(iter(trials), count)

    @contextmanager
    def _connected(self, callback: Callback) -> Iterator[Any]:
        ray = require("ray", "ray", "training with --workers or --address")
        options: dict[str, Any] = {"runtime_env": {"env_vars": self._variables()}, "log_to_driver": False}
        options["logging_level"] = "ERROR"
        if self.address is None:
            workers = self.workers or 1
            callback.note(f"starting Ray for {workers} workers")
            options |= {"num_cpus": max(1, round(workers * self.cpus)), "include_dashboard": False}
            options |= {} if self.memory is None else {"object_store_memory": self.memory}
        else:
            callback.note(f"connecting to Ray at {self.address}")
        try:
            # What a program reads stays free of what Ray has to say.
            with redirect_stdout(sys.stderr), _signals_kept(), _started_apart(ray):
                ray.init(address=self.address or "local", **options)
        except (ConnectionError, ValueError, RuntimeError) as error:
            reason = str(error).strip().splitlines()[0]
            raise WaypostError(f"Ray at {self.address or 'this machine'} cannot be used: {reason}") from None
        try:
            if self.address is None and ray.cluster_resources().get("GPU", 0) < self.gpus:
                raise WaypostError(f"each trial needs {self.gpus:g} GPUs, this machine has fewer")
            yield ray
        finally:
            ray.shutdown()

    def _variables(self) -> dict[str, str]:
        """Environment variables that keep a worker to its share of a machine."""
        found = dict.fromkeys((CORES, XLA_CORES), str(max(1, int(self.cpus))))
        if 0 < self.gpus < 1:  # by default JAX takes most of a GPU's memory
            found["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{0.9 * self.gpus:.3f}"
        return found


@contextmanager
def _signals_kept() -> Iterator[None]:
    """SIGTERM still ends the command as before: Ray has a handler of its own, which only exits."""
    kept = signal.getsignal(signal.SIGTERM)
    try:
        yield
    except SystemExit:  # by Ray's handler, while Ray starts
        raise KeyboardInterrupt from None
    finally:
        if kept is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, kept)


@contextmanager
def _started_apart(ray: Any) -> Iterator[None]:
    """Ray's own processes get new sessions: a signal to this one's process group does not end them.

    `timeout` and a closed terminal send such signals. Only this process must get them, because Ray has to run until the
    workers have saved. Ray has no option for this, so the class that it starts processes with is replaced. If a later
    Ray has no such class, only this is lost.
    """
    services: Any = getattr(getattr(ray, "_private", None), "services", None)
    usual = getattr(services, "ConsolePopen", None)
    if usual is None or sys.platform == "win32":
        yield
        return
    services.ConsolePopen = partial(usual, start_new_session=True)
    try:
        yield
    finally:
        services.ConsolePopen = usual


class _Work:
    """Trials in progress on Ray."""

    def __init__(self, settings: OnRay, connect: Callable[[], Any], callback: Callback):
        self.settings, self.connect, self.callback = settings, connect, callback
        self.again: deque[Trial] = deque()
        """Trials whose workers have died."""
        self.running: dict[Any, tuple[Trial, int]] = {}
        """By Ray's reference: the trial, and when it was last saved before this attempt."""
        self.fruitless: dict[Path, int] = {}
        self.data: dict[tuple[str, Any, Any], Any] = {}
        """What is in shared memory, by its name and how it was read."""

    @cached_property
    def ray(self) -> Any:
        """Connected when there is something to train."""
        return self.connect()

    @cached_property
    def remote(self) -> Any:
        resources = {"num_cpus": self.settings.cpus, "num_gpus": self.settings.gpus}
        # Retries are decided here, where it is known whether an attempt made progress.
        return self.ray.remote(_in_worker).options(max_retries=0, **resources)

    @property
    def room(self) -> bool:
        """Whether another trial may start. A cluster gets twice what it has room for: it may want to grow."""
        if not self.running:
            return True
        most = self.settings.workers or 2 * max(1, self.ray.cluster_resources().get("CPU", 0) // self.settings.cpus)
        return len(self.running) < most

    def outcomes(self, trials: Iterator[Trial | None], count: int | None) -> Iterator[tuple[Trial, Outcome]]:
        board = self.settings.board
        board.begin(count)
        try:
            more = True
            while more or self.running or self.again:
                while self.room:
                    trial = self.again.popleft() if self.again else next(trials, DONE)
                    more = more and trial is not DONE
                    if not isinstance(trial, Trial):
                        break
                    outcome = _read(trial) if trial.finished else self._submit(trial)
                    if outcome is not None:
                        yield self._ended(trial, outcome)
                for trial, outcome in self._ready():
                    yield self._ended(trial, outcome)
        finally:
            self._stop()
            board.close()

    def _ready(self) -> Iterator[tuple[Trial, Outcome]]:
        """The trials that have ended, after waiting a while for one."""
        if not self.running:
            return
        for reference in self.ray.wait([*self.running], timeout=POLL_SECONDS)[0]:
            trial, saved = self.running.pop(reference)
            outcome = self._outcome(reference, trial, saved)
            if outcome is not None:
                yield trial, outcome
        for trial, _ in self.running.values():
            self.settings.board.running(trial, status(trial))

    def _ended(self, trial: Trial, outcome: Outcome) -> tuple[Trial, Outcome]:
        self.settings.board.ended(trial, "finished" if isinstance(outcome, Run) else str(outcome))
        return trial, outcome

    def _submit(self, trial: Trial) -> WaypostError | None:
        """Start a trial; errors in its data are returned at once."""
        remote, settings = self.remote, self.settings
        try:
            shared = self._shared(trial)
        except WaypostError as error:
            return error
        small = replace(trial, data=trial.plan.data)  # the rows are sent separately
        wait = not settings.missing_only
        reference = remote.remote(small, shared, str(Path.cwd()), settings.watcher, wait, settings.track)
        self.running[reference] = trial, saved_at(trial)
        return None

    def _shared(self, trial: Trial) -> Any:
        """The data in memory shared by all workers of a node, or the name of files that each of them streams."""
        planned, source = trial.plan, trial.data
        if isinstance(source, Dataset):
            key: tuple[str, Any, Any] = source.fingerprint(), None, None
        else:
            if stays_in_files(source, planned.columns, planned.stream, planned.pipeline):
                return str(source)
            key = str(source), planned.columns, planned.pipeline
        if key not in self.data:
            if not isinstance(source, Dataset):
                source = load(source, planned.columns, self.callback.recording, pipeline=planned.pipeline)
            self.data[key] = self.ray.put(source)
        return self.data[key]

    def _outcome(self, reference: Any, trial: Trial, saved: int) -> Outcome | None:
        """The outcome of an attempt; None if the trial waits for the next one."""
        errors = self.ray.exceptions
        gone = ("WorkerCrashedError", "NodeDiedError", "LocalRayletDiedError", "OutOfMemoryError", "ObjectLostError")
        lost = tuple(getattr(errors, name) for name in gone)
        try:
            kind, told = self.ray.get(reference)
        except lost as error:
            return self._again(trial, saved, type(error).__name__)
        if kind == "disk":
            raise OSError(*told)
        if kind == "directory":
            raise DirectoryError(told)
        if kind == "interrupted" and (trial.until is None or told < trial.until):
            return self._again(trial, saved, "told to stop")
        if kind == "interrupted":
            return NotTrained(f"paused at step {told}")
        return {"held": NotTrained, "mistake": WaypostError}[kind](told) if kind != "finished" else _read(trial)

    def _again(self, trial: Trial, saved: int, why: str) -> WaypostError | None:
        count = 0 if saved_at(trial) > saved else self.fruitless.get(trial.place, 0) + 1
        self.fruitless[trial.place] = count
        if count >= ATTEMPTS:
            log = trial.place.with_name(f"{trial.place.name}.log")
            return WaypostError(f"{count} workers died in it before anything was saved ({why}); see {log}")
        self.callback.note(f"{trial.name}: its worker died ({why}); continuing from {status(trial).words}")
        self.again.append(trial)
        return None

    def _stop(self) -> None:
        """Make the workers save their trials."""
        if not self.running:
            return
        self.callback.note(f"stopping {len(self.running)} trainings; each saves before it ends")
        for reference in self.running:
            self.ray.cancel(reference, force=False, recursive=False)
        until, left = time.monotonic() + STOP_SECONDS, [*self.running]
        # If Ray is gone it reports nothing, but the leases tell who still works.
        while left and time.monotonic() < until and any(self._at_work(reference) for reference in left):
            left = self.ray.wait(left, num_returns=len(left), timeout=POLL_SECONDS)[1]

    def _at_work(self, reference: Any) -> bool:
        return status(self.running[reference][0]).state == "running"


def _in_worker(
    trial: Trial, data: str | Dataset, folder: str, watcher: type[Callback], wait: bool, track: tuple[Kind, ...]
) -> tuple[str, Any]:
    """Run a trial, and return how it ended.

    folder   where the work was started: paths are relative to it, on every node
    """
    try:
        os.chdir(folder)
    except OSError:
        return "directory", f"{folder}: is not on {socket.gethostname()}; start from a folder that all nodes share"
    try:
        carry_out(replace(trial, data=data), watcher(), wait, track)
    except InterruptedRun as stop:
        return "interrupted", stop.step
    except NotTrained as error:
        return "held", str(error)
    except DirectoryError as error:
        return "directory", str(error)
    except WaypostError as error:
        return "mistake", str(error)
    except OSError as error:
        return "disk", (error.errno, error.strerror or str(error), error.filename)
    return "finished", None


def _read(trial: Trial) -> Outcome:
    """The run of a finished trial, after checking that it has the requested plan."""
    if not trial.finished:
        return NotTrained(status(trial).words)
    return carry_out(trial, Callback())
