"""Signals that ask a training to stop: it saves first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def signals() -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether a stop was requested; a second Ctrl-C stops at once."""
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        if number == signal.SIGINT:  # `timeout` sends SIGTERM twice, to the process and to its group
            signal.signal(number, previous[signal.SIGINT])

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in previous:
        signal.signal(number, ask)
    try:
        yield lambda: asked
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
