"""Trials: trainings identified by their plan, whose run directories hold their progress.

Beside the run directory NAME of a trial are NAME.log, what happened in it, and .NAME.lease while a worker runs it.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from waypost.data.dataset import Dataset
from waypost.errors import InterruptedRun, WaypostError
from waypost.studies.lease import Lease, holder_of, leased
from waypost.studies.results import NotTrained
from waypost.studies.updates import total_updates
from waypost.training.callbacks import Callback, Callbacks
from waypost.training.plan import Plan
from waypost.training.runs import Run
from waypost.training.state import CHECKPOINT
from waypost.training.tracking import Kind, Tracking
from waypost.training.trainer import execute


@dataclass(frozen=True, eq=False)
class Trial:
    """A training and its run directory."""

    plan: Plan[Any]
    data: str | Path | Dataset
    place: Path
    until: int | None = None
    """The update after which it pauses, with the schedule of its full length; None: it is trained to the end."""
    label: str = ""
    """What people call it, if the names of its folders do not say much."""

    @property
    def name(self) -> str:
        return self.label or f"{self.place.parent.name}/{self.place.name}"

    @cached_property
    def total(self) -> int:
        """Updates in all."""
        return total_updates(self.plan)

    @property
    def finished(self) -> bool:
        return (self.place / "result.json").is_file()


def identity(planned: Plan[Any]) -> str:
    """A digest of everything in a plan that affects learning or measures: the name of its directory."""
    record = planned.to_json()
    record["evaluation"].pop("workers")
    told = {name: value for name, value in record.items() if name not in ("preset", "stream")}
    return hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=8).hexdigest()


# -- progress ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Status:
    """The progress of a trial, from its directory."""

    state: Literal["finished", "running", "interrupted", "missing"]
    step: int
    total: int
    where: str = ""
    """The host and the process that run it."""

    @property
    def words(self) -> str:
        if self.state in ("finished", "missing"):
            return {"finished": "finished", "missing": "not trained yet"}[self.state]
        return f"{self.state} at step {self.step} of {self.total}" + (f", {self.where}" if self.where else "")


def status(trial: Trial) -> Status:
    total = trial.total
    if trial.finished:
        return Status("finished", total, total)
    holder, step = holder_of(trial.place), _last_step(trial.place)
    if holder is not None:
        where = f"{holder['host']} {holder['pid']}"
        return Status("running", max(step, holder.get("step", 0)), holder.get("total", total), where)
    return Status("interrupted", step, total) if step else Status("missing", 0, total)


def saved_at(trial: Trial) -> int:
    """When its last checkpoint was written, by the clock of the disk; 0 if there is none."""
    try:
        return (trial.place / CHECKPOINT).stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _last_step(place: Path) -> int:
    """The step of the last row of its metrics, in the first column."""
    try:
        last = (place / "metrics.csv").read_text("utf-8").splitlines()[-1]
    except (OSError, UnicodeError, IndexError):
        return 0
    step = last.partition(",")[0]
    return int(step) if step.isdecimal() else 0


# -- running ----------------------------------------------------------------------------------------


def carry_out(trial: Trial, callback: Callback, wait: bool = True, track: Sequence[Kind] = ()) -> Run:
    """Train it in this process, from its last checkpoint on; a finished one is only read.

    wait    whether to wait if another process works on it; otherwise raise `NotTrained`
    track   tracking tools that receive every number
    A trial with `until` stops there with an `InterruptedRun`.
    """
    callback = Callbacks(callback, *(Tracking(kind, trial.place) for kind in track))
    with ExitStack() as open_until_then:
        if not trial.finished:
            lease = open_until_then.enter_context(leased(trial.place, lambda: wait and not trial.finished))
            if lease is not None:
                log = _Log(trial.place)
                open_until_then.enter_context(log.saying_how_it_ends())
                callback = Callbacks(callback, _Kept(lease, log, trial.until))
            elif not trial.finished:
                raise NotTrained(status(trial).words)
            if trial.until is not None and not trial.finished and _last_step(trial.place) >= trial.until:
                raise InterruptedRun(_last_step(trial.place))
        return execute(trial.plan, trial.data, trial.place, resume=True, callback=callback)


class _Kept(Callback):
    """Keeps a training's lease and log, and pauses it at `until`."""

    def __init__(self, lease: Lease, log: _Log, until: int | None):
        self.lease, self.log, self.until = lease, log, until
        self.total = 0

    def start(self, plan: Plan, total: int, done: int) -> None:
        self.total = total
        self.lease.is_at(done, total)
        self.lease.beat()
        self.log.begin(f"{plan.algorithm} on {plan.data}: from step {done} of {total}")

    def advance(self, stage: str, step: int) -> None:
        self.lease.check()
        self.lease.is_at(step, self.total)

    def evaluated(self, step: int, rows: list[dict[str, Any]]) -> None:
        self.log.note(f"step {step}: {json.dumps(rows)}")

    def note(self, text: str) -> None:
        self.log.note(text)

    def wants_pause(self, step: int) -> bool:
        return self.until is not None and step >= self.until

    def finished(self, run: Run) -> None:
        self.log.note("finished")


class _Log:
    """Lines with the time, after those of earlier attempts. The file is created when a training starts.

    A failing disk is reported by the training itself.
    """

    def __init__(self, place: Path):
        self.file = place.with_name(f"{place.name}.log")
        self.begun = False

    def write(self, text: str) -> None:
        with suppress(OSError), self.file.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {' '.join(text.split())}\n")

    def begin(self, text: str) -> None:
        self.begun = True
        self.write(text)

    def note(self, text: str) -> None:
        if self.begun:
            self.write(text)

    @contextmanager
    def saying_how_it_ends(self) -> Iterator[None]:
        try:
            yield
        except (InterruptedRun, WaypostError) as error:
            self.note(str(error))
            raise
        except Exception as error:
            self.note(f"{type(error).__name__}: {error}")
            raise
