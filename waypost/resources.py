"""How much memory there is, and one clear line where it does not suffice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from waypost.errors import WaypostError

if TYPE_CHECKING:
    import jax

_CGROUPS = {
    "": ("sys/fs/cgroup", "memory.max", "memory.current", ("active_file", "inactive_file")),
    "memory": (
        "sys/fs/cgroup/memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_active_file", "total_inactive_file"),
    ),
}
"""Where each kind of control group says its limit, what is used of it, and what of that is only cached files."""


def available_memory() -> int:
    """Bytes this process may still ask for: what the machine has free, within the limits set for it."""
    return max(0, min([_machine(), *_control_groups(Path("/")), *_process()]))


def device_memory(device: jax.Device) -> int | None:
    """Bytes that are free on a device with memory of its own, as far as it says."""
    statistics = device.memory_stats()
    if not statistics or "bytes_limit" not in statistics:
        return None
    return statistics["bytes_limit"] - statistics.get("bytes_in_use", 0)


def cores() -> int:
    """The processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def enough_memory(name: str) -> Iterator[None]:
    """Whoever runs out of memory, NumPy or XLA, says so in one line with the way out."""
    import jax

    try:
        yield
    except MemoryError:
        raise _too_large(name) from None
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error) and "out of memory" not in str(error).lower():
            raise
        raise _too_large(name) from None


def _too_large(name: str) -> WaypostError:
    return WaypostError(
        f"{name}: does not fit in memory; stream it from a file: `waypost convert {name} OUT.npz`, then --stream always"
    )


def _machine() -> int:
    found = _table(Path("/proc/meminfo")).get("MemAvailable")
    if found is not None:
        return found * 1024
    with suppress(AttributeError, ValueError, OSError):  # as far as the system tells
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 1 << 62


def _process() -> list[int]:
    """What is left of this process's own limits (`ulimit -d`, `ulimit -v`)."""
    try:
        import resource
    except ImportError:  # no such thing on Windows
        return []
    used = _table(Path("/proc/self/status"))
    rooms = []
    for kind, line in ((resource.RLIMIT_DATA, "VmData"), (resource.RLIMIT_AS, "VmSize")):
        limit = resource.getrlimit(kind)[0]
        if limit != resource.RLIM_INFINITY:
            rooms.append(limit - used.get(line, 0) * 1024)
    return rooms


def _control_groups(root: Path) -> list[int]:
    """What is left in each control group this process belongs to; cached files give way when memory is needed."""
    rooms = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, kind, place = line.split(":", 2)
        if kind not in _CGROUPS:
            continue
        top, limit_file, used_file, cached = _CGROUPS[kind]
        folder = root / top / place.strip("/")
        while True:
            limit, used = (_text(folder / name).strip() for name in (limit_file, used_file))
            if limit.isdecimal() and used.isdecimal():
                statistics = _table(folder / "memory.stat")
                rooms.append(int(limit) - int(used) + sum(statistics.get(each, 0) for each in cached))
            if folder == root / top:
                break
            folder = folder.parent
    return rooms


def _table(path: Path) -> dict[str, int]:
    """The numbers of a file with a name and a number in each line."""
    rows = [line.replace(":", " ").split() for line in _text(path).splitlines()]
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdecimal()}


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
