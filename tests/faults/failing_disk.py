"""A disk that fails on request.

Two ways: calls of Python that are counted and made to fail at the n-th (`Calls`), and what the system itself refuses,
for libraries in C too: a small file system, a limit on the size of files, folders without permission.
"""

from __future__ import annotations

import builtins
import ctypes
import errno
import io
import os
import resource
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

KINDS = ("open", "write", "rename", "fsync", "mkdir")
"""What a program does to a disk, as far as it can fail."""
Act = Callable[[str, int, str], None]
"""Told of a call before it is made: its kind, how many of them there were, and the path."""
BALLAST = "everything-else"
"""The file that fills a disk."""
_LIBC = ctypes.CDLL(None, use_errno=True)

# -- counted calls ---------------------------------------------------------------------------------


class Calls:
    """Counts what Python does to the files below a folder; `act` is told before each call, and may raise."""

    def __init__(self, folder: Path, act: Act = lambda kind, number, path: None):
        self.folder, self.act = str(folder.resolve()), act
        self.counts: Counter[str] = Counter()

    def meet(self, kind: str, path: str) -> None:
        if path.startswith(self.folder):
            self.counts[kind] += 1
            self.act(kind, self.counts[kind], path)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @contextmanager
    def watched(self) -> Iterator[Calls]:
        """Put the counting in place of the lowest functions that Python's files are made with."""
        with ExitStack() as patches:
            real_open = io.open

            def opening(file: Any, mode: str = "r", buffering: int = -1, *more: Any, **others: Any) -> Any:
                path = _path(file)
                if not set(mode) & set("wax+") or not path.startswith(self.folder):
                    return real_open(file, mode, buffering, *more, **others)
                if not isinstance(file, int) and others.get("opener") is None:
                    self.meet("open", path)
                return self._file(file, mode, buffering, *more, **others)

            for module in (io, builtins):
                patches.enter_context(patch.object(module, "open", opening))
            self._replace(patches, os, "open", self._opened)
            self._replace(patches, os, "mkdir", lambda path, *_, **__: None if _exists(path) else ("mkdir", path))
            self._replace(patches, os, "write", lambda number, *_: ("write", number))
            self._replace(patches, os, "ftruncate", lambda number, *_: ("write", number))
            for name in ("fsync", "fdatasync"):
                self._replace(patches, os, name, lambda number: ("fsync", number))
            for name in ("rename", "replace", "link"):
                self._replace(patches, os, name, lambda _, target, **__: ("rename", target))
            yield self

    def _replace(self, patches: ExitStack, module: Any, name: str, sort: Callable[..., Any]) -> None:
        real = getattr(module, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            event = sort(*arguments, **options)
            if event is not None:
                self.meet(event[0], _path(event[1]))
            return real(*arguments, **options)

        patches.enter_context(patch.object(module, name, counted))

    def _opened(self, path: Any, flags: int, *_: Any, **options: Any) -> tuple[str, Any] | None:
        return ("open", path) if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and not options.get("dir_fd") else None

    def _file(
        self, file: Any, mode: str, buffering: int, encoding: Any = None, errors: Any = None, newline: Any = None,
        closefd: bool = True, opener: Any = None,
    ) -> Any:  # fmt: skip
        """What `open` would return, on top of a file whose writes are counted."""
        raw = _CountedFile(file, mode.replace("b", "").replace("t", ""), closefd, opener)
        raw.calls = self
        if buffering == 0:
            return raw
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)


class _CountedFile(io.FileIO):
    calls: Calls

    def write(self, content: Any) -> int:
        self.calls.meet("write", _path(self.name))
        return super().write(content)


def _path(file: Any) -> str:
    """The absolute path of a file that is named or open."""
    if isinstance(file, int):
        try:
            return str(Path(f"/proc/self/fd/{file}").readlink())
        except OSError:
            return ""
    # Without following links: a link is what is created or replaced.
    return str(Path(os.fsdecode(file)).absolute())


def _exists(path: Any) -> bool:
    return Path(os.fsdecode(path)).is_dir()


def failing(kind: str, number: int, code: int) -> Act:
    """Fail at the n-th call of a kind; a disk that is full or read-only stays so."""

    def act(met: str, count: int, path: str) -> None:
        if met == kind and (count == number or (count > number and code != errno.EIO)):
            # An error of an open file does not know its name.
            names = () if kind in ("write", "fsync") else (path,)
            raise OSError(code, os.strerror(code), *names)

    return act


# -- what the system refuses -------------------------------------------------------------------------


def _mount(*arguments: Any) -> None:
    if _LIBC.mount(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _may_mount() -> bool:
    if not hasattr(_LIBC, "mount") or os.geteuid() != 0:
        return False
    with tempfile.TemporaryDirectory() as folder:
        try:
            with small_disk(Path(folder)):
                return True
        except OSError:
            return False


@contextmanager
def small_disk(folder: Path, size: int = 1 << 22) -> Iterator[None]:
    """A file system of so many bytes at an empty folder."""
    _mount(b"tmpfs", str(folder).encode(), b"tmpfs", 0, f"size={size}".encode())
    try:
        yield
    finally:
        _LIBC.umount2(str(folder).encode(), 2)  # also if something is still open there


MOUNTS = _may_mount()
"""Whether a file system of our own can be used; elsewhere limits and permissions of the process take its place."""


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """No file grows larger than this; Python is told by an error, not by a signal."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def no_permission(folder: Path) -> Iterator[None]:
    """A folder that may be read but not written to, by root neither."""
    mode = folder.stat().st_mode
    folder.chmod(0o555)
    try:
        with _as_anybody():
            yield
    finally:
        folder.chmod(mode)


@contextmanager
def _as_anybody() -> Iterator[None]:
    """This thread without root's right to ignore permissions."""
    header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if os.geteuid() != 0 or _LIBC.capget(header, data) != 0:
        yield
        return
    before = data[0]
    data[0] = before & ~0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    _LIBC.capset(header, data)
    try:
        yield
    finally:
        data[0] = before
        _LIBC.capset(header, data)


@contextmanager
def full(folder: Path, room: int) -> Iterator[None]:
    """A disk with so many bytes left."""
    if not MOUNTS:
        with file_size_limit(room):
            yield
        return
    ballast = folder / BALLAST
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    # Files take whole pages.
    os.truncate(ballast, ballast.stat().st_size - room // 4096 * 4096)
    try:
        yield
    finally:
        ballast.unlink()


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """A disk that can only be read."""
    if not MOUNTS:
        with no_permission(folder):
            yield
        return
    remount, nothing_written = 32, 1
    _mount(b"tmpfs", str(folder).encode(), b"tmpfs", remount | nothing_written, b"")
    try:
        yield
    finally:
        _mount(b"tmpfs", str(folder).encode(), b"tmpfs", remount, b"")
