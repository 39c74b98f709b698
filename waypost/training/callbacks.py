"""Callbacks: how a training reports its progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from waypost.training.plan import Plan
    from waypost.training.records import Alarm
    from waypost.training.runs import Run

Item = TypeVar("Item")
READ_SECONDS = 3.0
"""Reading a finished run takes less."""


class Callback:
    """Follows a training and may stop it; this one does nothing."""

    def start(self, plan: Plan, total: int, done: int) -> None: ...

    def advance(self, stage: str, step: int) -> None: ...

    def logged(self, step: int, rows: list[dict[str, Any]]) -> None:
        """New rows of metrics.csv, one per seed."""

    def recording(self, done: int, total: int) -> None: ...

    def evaluated(self, step: int, rows: list[dict[str, Any]]) -> None:
        """New rows of evaluations.csv, one per seed."""

    def alarmed(self, alarm: Alarm) -> None:
        """Something looks wrong; every alarm is also a `note`."""

    def wants_stop(self) -> str:
        """Called after every log. A reason ends the training here as if it were finished; empty continues."""
        return ""

    @property
    def may_stop(self) -> bool:
        """Whether `wants_stop` is overridden; evaluations are then waited for, so that a run stops at the same step."""
        return type(self).wants_stop is not Callback.wants_stop

    def wants_pause(self, step: int) -> bool:
        """Called after every log: whether to save here and stop, as an interruption does; a resumed run continues."""
        return False

    def note(self, text: str) -> None: ...

    def finished(self, run: Run) -> None:
        """Everything is trained and, with a directory, saved; the run counts as finished once this returns."""

    def stop(self) -> None: ...


class Callbacks(Callback):
    """Several callbacks, called one after the other."""

    def __init__(self, *members: Callback):
        def told(event: str) -> Callable[..., None]:
            def tell(*news: Any) -> None:
                for each in members:
                    getattr(each, event)(*news)

            return tell

        self.members = members
        for event in ("start", "advance", "logged", "recording", "evaluated", "alarmed", "note", "finished", "stop"):
            setattr(self, event, told(event))

    def wants_stop(self) -> str:
        return next(filter(None, (each.wants_stop() for each in self.members)), "")

    def wants_pause(self, step: int) -> bool:
        return any(each.wants_pause(step) for each in self.members)

    @property
    def may_stop(self) -> bool:
        return any(each.may_stop for each in self.members)


def in_turn(items: Sequence[Item], what: str, progress: Callback) -> Iterator[Item]:
    """The items one after the other, each announced with the estimated time left.

    Items that take only a moment were finished earlier and are only read; they do not count in the estimate.
    """
    took: list[float] = []
    for place, item in enumerate(items, 1):
        left = np.mean(took) * (len(items) - place + 1) / 60 if took else None
        progress.note(f"{what} {place} of {len(items)}" + ("" if left is None else f", about {left:.0f} min to go"))
        begun = time.monotonic()
        yield item
        seconds = time.monotonic() - begun
        took += [seconds] if seconds > READ_SECONDS else []
