"""What reaches a terminal or a pipe: names without control characters, and one line when something fails."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress

from waypost.console.screen import Screen, plain, screen

_STDOUT = "standard output"


def say(text: str) -> None:
    """A line on stdout, for programs."""
    with saying():
        print(text)


@contextmanager
def saying() -> Iterator[None]:
    """Whatever is printed on stdout inside arrives there, or the error says where it could not be written."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), _STDOUT) from None


@contextmanager
def results(as_json: bool) -> Iterator[Screen]:
    """Where a command's results are printed for people."""
    if as_json:
        yield screen
        return
    with saying():
        yield Screen()


@contextmanager
def streams() -> Iterator[None]:
    """Streams that can be written to: what the shell has closed leads nowhere, and output on stdout is then an error.

    Otherwise the next file that is opened would take the number of the closed one, and all output would land in it.
    """
    closed = sys.stdout is None
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123
    if closed:
        sys.stdout = _Closed(sys.stdout)
    yield
    with saying():
        pass


class _Closed(io.StringIO):
    """A stdout that is not there; the null device that keeps its place stays open with it."""

    def __init__(self, place: object):
        super().__init__()
        self.place = place

    def write(self, text: str) -> int:
        raise OSError(9, os.strerror(9), _STDOUT)


@contextmanager
def harmless(arguments: Sequence[str]) -> Iterator[None]:
    """What a parser says about arguments that hold control characters is said without them."""
    if all(plain(argument) == argument for argument in arguments):
        yield
        return
    help_text, errors = io.StringIO(), io.StringIO()
    try:
        with redirect_stdout(help_text), redirect_stderr(errors):
            yield
    finally:
        for said, stream in ((help_text, sys.stdout), (errors, sys.stderr)):
            stream.write(plain(said.getvalue(), kept="\n"))


def reason(error: BaseException) -> str:
    """What went wrong, in one line: for a file that fails its name and the system's reason, then the error's notes."""
    if isinstance(error, OSError):
        words = error.strerror or str(error) or type(error).__name__
        words = words if error.filename is None else f"{_name(error.filename)}: {words}"
    elif isinstance(error, MemoryError):
        words = f"out of memory ({error})" if str(error) else "out of memory"
    elif isinstance(error, RecursionError):
        words = "something is nested too deeply to be read"
    elif isinstance(error, UnicodeError):
        words = f"a name or a text cannot be read or written as such ({error})"
    else:
        words = str(error)
    return "; ".join([words, *getattr(error, "__notes__", ())])


def _name(file: object) -> str:
    return os.fsdecode(file) if isinstance(file, bytes) else str(file)


def end(words: str, code: int) -> int:
    """Say how the command ended, if there is still somewhere to say it."""
    with suppress(OSError):
        print(f"waypost: {plain(' '.join(words.split()))}", file=sys.stderr, flush=True)
    return code


def close() -> None:
    """Leave nothing for Python to flush at its end: what could not be written then would be a second error."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
