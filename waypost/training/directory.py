"""A run directory on disk: claimed by one process at a time, never overwritten, never half-written."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from waypost.errors import WaypostError


@contextmanager
def claimed(directory: Path, resume: bool) -> Iterator[None]:
    """The directory for this process alone, once it is certain that nothing in it gets lost."""
    if directory.exists() and not directory.is_dir():
        raise WaypostError(f"{directory}: is a file; a run needs a directory")
    names = {path.name for path in directory.iterdir()} if directory.is_dir() else set()
    if names - {".lock"} and "config.json" not in names:
        raise WaypostError(f"{directory}: holds files that are no run; choose another --out")
    if (directory / "result.json").is_file() and not resume:
        raise WaypostError(f"{directory}: holds a finished run; choose another --out, or --resume to see its result")
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise WaypostError(f"{directory}: another process is training there") from None
        if (directory / "config.json").is_file() and not resume:
            raise WaypostError(f"{directory}: holds an unfinished run; go on with --resume or choose another --out")
        for leftover in (*directory.glob(".*.*"), *directory.glob("checkpoint/.*"), *directory.glob("policy/.*")):
            leftover.unlink()  # what a killed process was writing
        try:
            yield
        finally:
            (directory / ".lock").unlink(missing_ok=True)
