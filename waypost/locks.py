"""Locks between processes. One process holds a lock at a time, and loses it when it ends for any reason."""

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
"""Time between two attempts to get a lock that another process holds."""


def lock(descriptor: int) -> bool:
    """Lock an open file until it is closed; False if another process holds the lock."""
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
    """Hold the lock of a file, which need not exist; other processes wait for it.

    Without `wait`, the result says whether the lock is held. The lock is a hidden file beside the other one, and is
    deleted at the end.
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
            with suppress(OSError):  # Windows does not delete open files
                file.unlink()
            os.close(descriptor)


def _get(file: Path) -> int | None:
    """The open and locked file; None if another process holds it or has just deleted it."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    try:
        # A lock on a file that was deleted after it was opened excludes nobody.
        if lock(descriptor) and os.path.samestat(file.lstat(), os.fstat(descriptor)):
            return descriptor
    except FileNotFoundError:
        pass
    except OSError as error:  # not every file system has locks
        os.close(descriptor)
        raise OSError(error.errno, error.strerror, str(file)) from None
    os.close(descriptor)
    return None
