"""What a training tells those who watch it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from waypost.training.plan import Plan
    from waypost.training.runs import Run

Item = TypeVar("Item")
READ_SECONDS = 3.0
"""Reading what is finished takes less."""


class Callback:
    """Told what a training is doing; this one does nothing with it."""

    def start(self, plan: Plan, total: int, done: int) -> None: ...

    def advance(self, stage: str, step: int) -> None: ...

    def recording(self, done: int, total: int) -> None: ...

    def evaluated(self, step: int, rows: list[dict[str, Any]]) -> None: ...

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

        for event in ("start", "advance", "recording", "evaluated", "note", "finished", "stop"):
            setattr(self, event, told(event))


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
