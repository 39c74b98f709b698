"""Leases: which process works at a run directory, said in a file beside it, also over a shared file system.

A lease ends with its holder. On the machine of the holder that is seen at once: its process is gone. On others it is
seen once the lease has not changed for a while by the clock of the one who waits, so clocks need not agree. Nothing
here needs locks of the file system: a lease appears by a hard link, or by creating a file that must not be there, and
an expired one is moved away before it is replaced. A holder that was asleep and lost its lease notices that before it
writes again.
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
"""A lease that has not changed for so long has no holder any more. Shared file systems may show changes this late."""
WAIT_SECONDS = 0.3
"""Between two attempts to get a lease that another process holds."""
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""What file systems say that know no hard links."""
SIZE = 1024
"""Bytes of a lease, always: it is changed in place, by one write."""


class Holder(TypedDict):
    """Who holds a lease, and how far the work is."""

    token: str
    host: str
    machine: str
    """Names the running system and the view of its processes; empty where that is not known."""
    pid: int
    started: str
    """When the process began: another one may have its number later."""
    beat: int
    step: NotRequired[int]
    total: NotRequired[int]


def lease_file(place: Path) -> Path:
    """Beside the directory itself, whatever names lead there."""
    place = Path(os.path.realpath(place))
    return place.with_name(f".{place.name}.lease")


def holder_of(place: Path) -> Holder | None:
    """Who works at a directory, as far as can be told at once; None where nobody does."""
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
        """Another's lease, and since when it has been the same."""

    def take(self) -> bool:
        """Try to get it; False where another process holds it. Ask again to learn that it has expired."""
        content = _content(self.file)
        if content is not None and not (self._expired(content) and self._removed(content)):
            return False
        return self._create()

    @property
    def held(self) -> bool:
        """Whether the file that others find there is still this one."""
        try:
            return self._descriptor is not None and os.path.samestat(self.file.lstat(), os.fstat(self._descriptor))
        except OSError:
            return False

    def check(self) -> None:
        """Raise where another process has taken over: what is written now would come between its files."""
        if not self.held:
            raise DirectoryError(f"{self.place}: another worker has taken over, because this one did not answer")

    def is_at(self, step: int, total: int) -> None:
        """How far the work is: what the next beat says."""
        with self._guard:
            self.holder |= {"step": step, "total": total}

    def beat(self) -> None:
        """Say that the holder lives, and how far it is. A disk that fails for a moment changes nothing."""
        with self._guard, suppress(OSError):
            if self._descriptor is None:
                return
            self.holder["beat"] += 1
            # If it was moved away, this changes what is of no use to anyone.
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            os.write(self._descriptor, _written(self.holder))
            os.fsync(self._descriptor)  # other machines see it before it is closed

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
        """Move an expired lease away; False if it was not the expired one any more."""
        aside = unused_name(self.file)
        try:
            self.file.rename(aside)
        except FileNotFoundError:
            return True
        expired = _content(aside) == content
        if not expired:  # another process was faster, and holds it: it must find its own lease again
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
    """Hold the lease of a directory, with a thread that keeps it alive; None where another process holds it.

    wait   asked again and again while another process holds it: whether to go on waiting
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
    """A thread says again and again that the holder lives."""
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
    """What the file holds; opening it makes a shared file system look again."""
    try:
        return file.read_bytes()[:SIZE]
    except FileNotFoundError:
        return None


def _written(holder: Holder) -> bytes:
    return json.dumps(holder).encode().ljust(SIZE)[:SIZE]


def _parsed(content: bytes) -> Holder | None:
    """None for what is half-written, or no lease at all: it expires like one whose process cannot be asked for."""
    try:
        return conform(json.loads(content), Holder, "")
    except (ValueError, WaypostError):
        return None


# -- processes -------------------------------------------------------------------------------------


def _gone(holder: Holder) -> bool:
    """Whether the holder's process has ended, for certain."""
    return bool(holder["machine"]) and holder["machine"] == _machine() and _started(holder["pid"]) != holder["started"]


def _machine() -> str:
    """This running system and this view of its processes: a container counts processes on its own."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """When a process began, in ticks of its system; None if it is gone, or dead and not yet buried."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if after_name[0] in "ZX" else after_name[19]
