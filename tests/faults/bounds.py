"""What every refusal keeps to: one line, exit code 2, little time, little memory."""

from __future__ import annotations

import contextlib
import io
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from waypost.cli import main

SECONDS = 10
BYTES = 1 << 30


class Hung(BaseException):
    """Not an Exception: nobody who catches those may keep it."""


class Answer(NamedTuple):
    code: int
    out: str
    err: str
    seconds: float
    memory: int
    """Bytes at the highest point beyond what there was before."""

    def refuses(self, *words: object) -> str:
        """The one line of a refusal, which holds these words; what was printed before it is progress and notes."""
        lines = [line for line in self.err.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("waypost: error: ")]
        assert "Traceback" not in self.err, self.err
        assert self.code == 2, (self.code, self.err, self.out)
        assert len(errors) == 1, self.err
        assert lines[-1] == errors[0], self.err
        assert errors[0].isprintable(), repr(errors[0])
        for word in words:
            assert str(word) in errors[0], f"{word} is not in: {errors[0]}"
        return errors[0]


@contextmanager
def bounded(seconds: float = SECONDS) -> Iterator[None]:
    """Stop what hangs."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Hung(f"took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def ask(words: Sequence[object], out: str | None = None) -> Answer:
    """A command in this process, within bounds; `out` is a file that takes the place of stdout."""
    # As a terminal takes it: what is no text is an error on stdout, and escaped on stderr.
    told, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", errors) for errors in ("strict", "backslashreplace"))
    told = Path(out).open("w") if out else told  # noqa: SIM115
    peak = Peak()
    begun, code = time.monotonic(), None
    with bounded(), contextlib.redirect_stdout(told), contextlib.redirect_stderr(err):
        try:
            main([str(word) for word in words])
        except SystemExit as stop:
            code = stop.code
    seconds, memory = time.monotonic() - begun, peak.grown()
    assert memory < BYTES, f"{memory / 1e9:.1f} GB"
    if out:
        with contextlib.suppress(OSError):
            told.close()
        return Answer(int(code or 0), "", _text(err), seconds, memory)
    return Answer(int(code or 0), _text(told), _text(err), seconds, memory)


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


class Peak:
    """How much memory this process needs from here on, at the highest point."""

    def __init__(self) -> None:
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # forget earlier highest points
        self.before = _memory("VmRSS")

    def grown(self) -> int:
        return _memory("VmHWM") - self.before


def _memory(kind: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(kind):
            return int(line.split()[1]) * 1024
    return 0
