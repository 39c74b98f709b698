"""Leases: a file beside a run directory says which process works on it, even on a shared file system.

A lease ends with its holder. On the holder's machine this shows at once: its process is gone. On other machines it
shows when the lease has not changed for a while by the clock of the waiting process, so clocks need not agree. No file
system locks are needed: a lease is created by a hard link, or by creating a file that must not exist, and an expired
one is moved away before it is replaced. A holder that was suspended and lost its lease notices that before it writes
again.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NotRequired, TypedDict

from waypost.errors import DirectoryError, WaypostError
from waypost.files import make_folder, remove_folders, unused_name
from waypost.schema import conform

BEAT_SECONDS = 2.0
"""How often a holder changes its lease."""
EXPIRY_SECONDS = 60.0
"""A lease that has not changed for this long has no holder any more. Shared file systems may show changes late."""
WAIT_SECONDS = 0.3
"""Between two attempts to get a lease that another process holds."""
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""Errors of file systems without hard links."""
SIZE = 1024
"""Bytes of a lease, always the same: it is changed in place, in one write."""


class Holder(TypedDict):
    """Who holds a lease, and the progress of the work."""

    token: str
    host: str
    machine: str
    """Identifies the running system and its process namespace; empty if unknown."""
    pid: int
    started: str
    """When the process started: its number may be reused later."""
    beat: int
    step: NotRequired[int]
    total: NotRequired[int]


def lease_file(place: Path) -> Path:
    """The file beside the directory itself, with links resolved."""
    place = Path(os.path.realpath(place))
    return place.with_name(f".{place.name}.lease")


def holder_of(place: Path) -> Holder | None:
    """Who works on a directory, as far as can be told at once; None if nobody does."""
    content = _content(lease_file(place))
    holder = None if content is None else _parsed(content)
    return None if holder is None or _gone(holder) else holder


class Lease:
    """The lease of one directory, as one process sees it."""

    def __init__(self, place: Path, clock: Callable[[], float] = time.monotonic):
        self.place, self.file, self.clock = place, lease_file(place), clock
        self.holder: Holder = {
            "token": secrets.token_hex(8),
            "host": socket.gethostname(),
            "machine": _machine(),
            "pid": os.getpid(),
            "started": _started(os.getpid()) or "",
            "beat": 0,
        }
        self._descriptor: int | None = None
        self._guard = threading.Lock()
        self._seen: tuple[bytes, float] | None = None
        """The lease of another process, and since when it has been unchanged."""

    def take(self) -> bool:
        """Try to get it; False if another process holds it. Repeated calls notice when it has expired."""
        content = _content(self.file)
        if content is not None and not (self._expired(content) and self._removed(content)):
            return False
        return self._create()

    @property
    def held(self) -> bool:
        """Whether the file in place is still this one."""
        try:
            return self._descriptor is not None and os.path.samestat(self.file.lstat(), os.fstat(self._descriptor))
        except OSError:
            return False

    def check(self) -> None:
        """Raise if another process has taken over: writing now would mix with its files."""
        if not self.held:
            raise DirectoryError(f"{self.place}: another worker has taken over, because this one did not respond")

    def is_at(self, step: int, total: int) -> None:
        """Set the progress that the next beat writes."""
        with self._guard:
            self.holder |= {"step": step, "total": total}

    def beat(self) -> None:
        """Write that the holder is alive, and its progress. A brief disk failure does no harm."""
        with self._guard, suppress(OSError):
            if self._descriptor is None:
                return
            self.holder["beat"] += 1
            # If the file was moved away, this write has no effect for anyone.
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            os.write(self._descriptor, _written(self.holder))
            os.fsync(self._descriptor)  # other machines then see it before it is closed

    def give_back(self) -> None:
        held = self.held
        self._close()
        if held:
            self.file.unlink(missing_ok=True)

    def _expired(self, content: bytes) -> bool:
        holder = _parsed(content)
        if holder is not None and _gone(holder):
            return True
        if self._seen is None or self._seen[0] != content:
            self._seen = content, self.clock()
        return self.clock() - self._seen[1] > EXPIRY_SECONDS

    def _removed(self, content: bytes) -> bool:
        """Move an expired lease away; False if it was no longer the expired one."""
        aside = unused_name(self.file)
        try:
            self.file.rename(aside)
        except FileNotFoundError:
            return True
        expired = _content(aside) == content
        if not expired:  # another process was faster and holds it: put its lease back
            try:
                os.link(aside, self.file)
            except FileExistsError:
                pass
            except OSError:
                aside.rename(self.file)
        aside.unlink(missing_ok=True)
        return expired

    def _create(self) -> bool:
        whole = unused_name(self.file)
        try:
            self._write_new(whole)
            os.link(whole, self.file)
        except FileExistsError:
            self._close()
            return False
        except OSError as error:
            self._close()
            if error.errno in NO_LINKS:
                return self._create_exclusively()
            raise OSError(error.errno, error.strerror, str(self.file)) from None
        finally:
            whole.unlink(missing_ok=True)
        return True

    def _create_exclusively(self) -> bool:
        try:
            self._write_new(self.file)
        except FileExistsError:
            return False
        except OSError as error:
            if self._descriptor is not None:
                self.file.unlink(missing_ok=True)
            self._close()
            raise OSError(error.errno, error.strerror, str(self.file)) from None
        return True

    def _write_new(self, file: Path) -> None:
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        os.write(self._descriptor, _written(self.holder))

    def _close(self) -> None:
        with self._guard:
            descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


@contextmanager
def leased(place: Path, wait: Callable[[], bool] = lambda: False) -> Iterator[Lease | None]:
    """Hold the lease of a directory, with a thread that keeps it alive; None if another process holds it.

    wait   called repeatedly while another process holds it: whether to keep waiting
    """
    lease = Lease(place)
    made = make_folder(lease.file.parent)
    try:
        while not lease.take():
            if not wait():
                yield None
                return
            time.sleep(WAIT_SECONDS)
        with _kept_alive(lease):
            yield lease
    finally:
        lease.give_back()
        remove_folders(made)


@contextmanager
def _kept_alive(lease: Lease) -> Iterator[None]:
    """A thread that renews the lease."""
    ended = threading.Event()

    def keep_alive() -> None:
        while not ended.wait(BEAT_SECONDS):
            lease.beat()

    thread = threading.Thread(target=keep_alive, name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _content(file: Path) -> bytes | None:
    """The contents of the file; opening it makes a shared file system refresh it."""
    try:
        return file.read_bytes()[:SIZE]
    except FileNotFoundError:
        return None


def _written(holder: Holder) -> bytes:
    return json.dumps(holder).encode().ljust(SIZE)[:SIZE]


def _parsed(content: bytes) -> Holder | None:
    """None if it is half-written or not a lease: it then expires like one whose process cannot be checked."""
    try:
        return conform(json.loads(content), Holder, "")
    except (ValueError, WaypostError):
        return None


# -- processes -------------------------------------------------------------------------------------


def _gone(holder: Holder) -> bool:
    """Whether the holder's process has certainly ended."""
    return bool(holder["machine"]) and holder["machine"] == _machine() and _started(holder["pid"]) != holder["started"]


def _machine() -> str:
    """This running system and its process namespace: a container numbers processes on its own."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """When a process started, in ticks of its system; None if it has ended or is a zombie."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if after_name[0] in "ZX" else after_name[19]
