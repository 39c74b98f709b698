"""Locks between processes: who holds one is alone, and it ends with the process, however that ends."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from waypost.files import make_folder

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

WAIT_SECONDS = 0.2
"""Between two attempts to get a lock that another process holds."""


def lock(descriptor: int) -> bool:
    """Lock an open file until it is closed; False where another process holds it."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


@contextmanager
def alone(path: Path, wait: bool = True) -> Iterator[bool]:
    """Hold the lock that goes with a file, which need not be there; others wait for it.

    Without `wait` the result says whether the lock is held. The lock is a hidden file beside the other one, and is
    deleted in the end.
    """
    file = path.with_name(f".{path.name}.lock")
    make_folder(file.parent)
    descriptor = _get(file)
    while descriptor is None and wait:
        time.sleep(WAIT_SECONDS)
        descriptor = _get(file)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            with suppress(OSError):  # Windows deletes no open file
                file.unlink()
            os.close(descriptor)


def _get(file: Path) -> int | None:
    """The open and locked file; None where another process holds it, or has deleted it at this moment."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    try:
        # A file that was deleted after it was opened keeps nobody out.
        if lock(descriptor) and os.path.samestat(file.lstat(), os.fstat(descriptor)):
            return descriptor
    except FileNotFoundError:
        pass
    except OSError as error:  # not every file system has locks
        os.close(descriptor)
        raise OSError(error.errno, error.strerror, str(file)) from None
    os.close(descriptor)
    return None
