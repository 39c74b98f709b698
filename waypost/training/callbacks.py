"""What a training tells those who watch it."""

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
"""Reading what is finished takes less."""


class Callback:
    """Told what a training is doing, and may stop it; this one does nothing."""

    def start(self, plan: Plan, total: int, done: int) -> None: ...

    def advance(self, stage: str, step: int) -> None: ...

    def logged(self, step: int, rows: list[dict[str, Any]]) -> None:
        """New rows of metrics.csv, one per seed."""

    def recording(self, done: int, total: int) -> None: ...

    def evaluated(self, step: int, rows: list[dict[str, Any]]) -> None:
        """New rows of evaluations.csv, one per seed."""

    def alarmed(self, alarm: Alarm) -> None:
        """Something should not be as it is; it is also a `note`."""

    def wants_stop(self) -> str:
        """Asked after every log: why the training shall end here as if it were finished; empty to go on."""
        return ""

    @property
    def may_stop(self) -> bool:
        """Whether it could ever want that; evaluations are then waited for, so that a run always stops at one step."""
        return type(self).wants_stop is not Callback.wants_stop

    def wants_pause(self, step: int) -> bool:
        """Asked after every log: whether to save here and leave the rest to a resumed run, as an interruption does."""
        return False

    def note(self, text: str) -> None: ...

    def finished(self, run: Run) -> None:
        """All is trained and saved; the run counts as finished once this returns."""

    def stop(self) -> None: ...


class Callbacks(Callback):
    """Several that are told the same, one after the other."""

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
    """The items one after the other, each announced, with the time the rest will take if it is like what was done.

    What takes a moment was finished before and only read, and says nothing about the others.
    """
    took: list[float] = []
    for place, item in enumerate(items, 1):
        left = np.mean(took) * (len(items) - place + 1) / 60 if took else None
        progress.note(f"{what} {place} of {len(items)}" + ("" if left is None else f", about {left:.0f} min to go"))
        begun = time.monotonic()
        yield item
        seconds = time.monotonic() - begun
        took += [seconds] if seconds > READ_SECONDS else []
