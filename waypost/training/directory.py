"""A run directory on disk: claimed by one process at a time, never overwritten, never half-written."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from waypost.errors import WaypostError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


@contextmanager
def claimed(directory: Path, resume: bool) -> Iterator[None]:
    """The directory for this process alone, once it is certain that nothing in it gets lost."""
    if directory.exists() and not directory.is_dir():
        raise WaypostError(f"{directory}: is a file; a run needs a directory")
    names = {path.name for path in directory.iterdir()} if directory.is_dir() else set()
    if names - {".lock"} and "config.json" not in names:
        raise WaypostError(f"{directory}: is not a run directory; choose another --out")
    if (directory / "result.json").is_file() and not resume:
        raise WaypostError(f"{directory}: holds a finished run; choose another --out, or --resume to see its result")
    directory.mkdir(parents=True, exist_ok=True)
    # The file stays: were it deleted, one process could hold the deleted file and another a new one.
    with (directory / ".lock").open("w") as lock:
        try:
            _lock(lock)
        except (BlockingIOError, PermissionError):
            raise WaypostError(f"{directory}: another process is training there") from None
        if (directory / "config.json").is_file() and not resume:
            raise WaypostError(
                f"{directory}: holds an unfinished run; continue it with --resume or choose another --out"
            )
        for leftover in (*directory.glob(".*.*"), *directory.glob("checkpoint/.*"), *directory.glob("policy/.*")):
            leftover.unlink()  # what a killed process was writing
        yield


def _lock(file: IO[str]) -> None:
    """Hold the file until it is closed; raises at once where another process does."""
    if sys.platform == "win32":
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
