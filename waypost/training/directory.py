"""A run directory on disk: used by one process at a time, never overwritten, never half-written.

Nothing heavy is imported here: waiting for a directory must not need JAX.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from waypost.errors import DirectoryError, WaypostError
from waypost.files import discard_partials, is_partial, make_folder, remove_folders
from waypost.locks import lock

LOCK = ".lock"
ATTEMPTS = 100
"""How often the lock file may be replaced by another one before it is locked."""


class Claim:
    """A directory that belongs to this process while it holds the lock in it."""

    def __init__(self, directory: Path):
        self.directory, self._descriptor = directory, _open(directory / LOCK)

    @property
    def held(self) -> bool:
        """Whether the locked file is still the one in the directory."""
        try:
            there = (self.directory / LOCK).lstat()
        except OSError:
            return False
        return os.path.samestat(there, os.fstat(self._descriptor))

    def check(self) -> None:
        """Raise if someone has deleted or replaced the directory: anything written now would be half a run."""
        if not self.held:
            raise DirectoryError(f"{self.directory}: was deleted or replaced during training; choose another --out")

    def lock(self) -> None:
        """Lock the file until it is closed; raises at once if another process holds the lock."""
        try:
            held = lock(self._descriptor)
        except OSError as error:  # not every file system has locks
            raise OSError(error.errno, error.strerror, str(self.directory / LOCK)) from None
        if not held:
            raise _busy(self.directory)

    def close(self) -> None:
        os.close(self._descriptor)


@contextmanager
def claimed(directory: Path, resume: bool) -> Iterator[Claim]:
    """The directory for this process alone, after checking that nothing in it can get lost."""
    if directory.exists() and not directory.is_dir():
        raise DirectoryError(f"{directory}: is a file; a run needs a directory")
    made: list[Path] = []
    try:
        claim = _claim(directory, resume, made)
    except BaseException:
        remove_folders(made)
        raise
    try:
        # Before the lock was held, another process may have started a run, or finished one.
        _refuse_others(directory, resume)
        if (directory / "config.json").is_file() and not resume:
            raise DirectoryError(
                f"{directory}: holds an unfinished run; continue it with --resume or choose another --out"
            )
        for folder in (directory, directory / "checkpoint", directory / "policy", directory / "best"):
            discard_partials(folder)
        yield claim
    finally:
        try:
            _tidy_up(claim, made)
        finally:
            claim.close()


def _tidy_up(claim: Claim, made: list[Path]) -> None:
    """Remove a directory that was made for this claim if nothing was saved in it.

    A process waiting for the old lock file notices that it is gone, see `_claim`.
    """
    if made and claim.held and [path.name for path in claim.directory.iterdir()] == [LOCK]:
        with suppress(OSError):
            (claim.directory / LOCK).unlink()
        remove_folders(made)


def _claim(directory: Path, resume: bool, made: list[Path]) -> Claim:
    """Make the directory and lock it; folders that did not exist before are added to `made`."""
    gone: OSError | None = None
    for _ in range(ATTEMPTS):
        _refuse_others(directory, resume)
        try:
            made += make_folder(directory)
            claim = Claim(directory)
        except FileNotFoundError as error:  # deleted by another process at this moment
            gone = error
            continue
        try:
            claim.lock()
        except BaseException:
            claim.close()
            raise
        # The file may have been deleted after it was opened: another process could then lock a new one.
        if claim.held:
            return claim
        claim.close()
    raise gone or _busy(directory)


@contextmanager
def blaming_the_directory() -> Iterator[None]:
    """Turn errors raised inside into errors of the directory, not of the data or the algorithm."""
    try:
        yield
    except DirectoryError:
        raise
    except WaypostError as error:
        raise DirectoryError(str(error)) from None


def _refuse_others(directory: Path, resume: bool) -> None:
    """Raise if the directory holds something that is not a run, or a finished run."""
    try:
        inside = list(directory.iterdir())
    except FileNotFoundError:
        return
    others = [path for path in inside if path.name != LOCK and not is_partial(path)]
    if others and not (directory / "config.json").is_file():
        raise DirectoryError(f"{directory}: is not a run directory; choose another --out")
    if (directory / "result.json").is_file() and not resume:
        raise DirectoryError(f"{directory}: holds a finished run; choose another --out, or --resume to see its result")


def _open(lock: Path) -> int:
    """Open the lock file, which must be a regular file: a pipe could block forever, a link could lead anywhere."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    odd = DirectoryError(f"{lock}: is not a regular file; delete it or choose another --out")
    try:
        descriptor = os.open(lock, flags, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise odd from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise odd
    return descriptor


def _busy(directory: Path) -> DirectoryError:
    return DirectoryError(f"{directory}: another process is training there; wait for it or choose another --out")
