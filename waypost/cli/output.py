"""Output to a terminal or a pipe: no control characters, and one line when something fails."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress

from waypost.console.screen import Screen, plain, screen

_STDOUT = "standard output"


def say(text: str) -> None:
    """Print a line of results on stdout."""
    with saying():
        print(text)


@contextmanager
def saying() -> Iterator[None]:
    """Everything printed to stdout inside is written, or the error names stdout."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), _STDOUT) from None


@contextmanager
def results(as_json: bool) -> Iterator[Screen]:
    """Where a command prints its results for people."""
    if as_json:
        yield screen
        return
    with saying():
        yield Screen()


@contextmanager
def streams() -> Iterator[None]:
    """Make all streams writable: a closed one discards its output, and output on a closed stdout is an error.

    Otherwise the next file opened would get the descriptor of the closed stream, and all output would end up in it.
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
    """A closed stdout; it keeps the null device open that holds its descriptor."""

    def __init__(self, place: object):
        super().__init__()
        self.place = place

    def write(self, text: str) -> int:
        raise OSError(9, os.strerror(9), _STDOUT)


@contextmanager
def harmless(arguments: Sequence[str]) -> Iterator[None]:
    """Parser messages about arguments with control characters are printed without these."""
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
    """An error as one line: for a file that fails its name and the system's reason; then the error's notes."""
    if isinstance(error, OSError):
        words = error.strerror or str(error) or type(error).__name__
        words = words if error.filename is None else f"{_name(error.filename)}: {words}"
    elif isinstance(error, MemoryError):
        words = f"out of memory ({error})" if str(error) else "out of memory"
    elif isinstance(error, RecursionError):
        words = "something is nested too deeply to be read"
    elif isinstance(error, UnicodeError):
        words = f"a text cannot be decoded or encoded ({error})"
    else:
        words = str(error)
    return "; ".join([words, *getattr(error, "__notes__", ())])


def _name(file: object) -> str:
    return os.fsdecode(file) if isinstance(file, bytes) else str(file)


def end(words: str, code: int) -> int:
    """Print how the command ended, if stderr still works."""
    with suppress(OSError):
        print(f"waypost: {plain(' '.join(words.split()))}", file=sys.stderr, flush=True)
    return code


def discard_failing() -> None:
    """Discard what is printed on a terminal that is gone: an error there would keep a command from saving its work."""
    for descriptor in (1, 2):
        try:
            os.write(descriptor, b"")
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def close() -> None:
    """Leave nothing for Python to flush at exit: if that failed, it would be a second error."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
