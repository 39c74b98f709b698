"""The machine's memory and cores, and optional packages, with a clear error if one is missing."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waypost.errors import WaypostError

if TYPE_CHECKING:
    import jax

_CGROUPS = {
    "": ("sys/fs/cgroup", "memory.max", "memory.current", ""),
    "memory": ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
}
"""For each kind of control group: its folder, the files of its limit and its usage, the prefix of its statistics."""


CORES = "WAYPOST_CORES"
"""The variable that limits how many cores a process takes for itself, where it may use more."""
XLA_CORES = "NPROC"
"""The variable that XLA reads for the number of its threads, when JAX starts."""


def require(module: str, extra: str, purpose: str) -> Any:
    """Import an optional module; if it is missing, the error names the extra to install.

    `purpose` begins the message: require("pyarrow", "tables", "log.parquet: reading Parquet").
    """
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise WaypostError(f"{purpose} needs {module.partition('.')[0]}; pip install 'waypost[{extra}]'") from None


def cpu_name() -> str:
    """A short hash of this processor's model and features."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = [platform.processor()]
    told = sorted({line for line in lines if line.startswith(("model name", "flags", "Features")) or len(lines) == 1})
    return hashlib.sha256("\n".join((platform.machine(), *told)).encode()).hexdigest()[:8]


def available_memory() -> int:
    """Bytes this process may still allocate: what the machine has free, within the limits set for it."""
    return max(0, min([_machine(), *_control_groups(Path("/")), *_process()]))


def device_memory(device: jax.Device) -> int | None:
    """Free bytes on a device with its own memory; None if the device does not report them."""
    statistics = device.memory_stats()
    if not statistics or "bytes_limit" not in statistics:
        return None
    return statistics["bytes_limit"] - statistics.get("bytes_in_use", 0)


def cores() -> int:
    """The processor cores this process may use."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get(CORES, "")
    return min(found, max(1, int(limit))) if limit.isdecimal() else found


def open_files() -> int:
    """Files this process may still open (`ulimit -n`)."""
    try:
        import resource
    except ImportError:  # no such thing on Windows
        return 1 << 31
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return 1 << 31
    opened = Path("/proc/self/fd")
    return max(0, limit - (len(list(opened.iterdir())) if opened.is_dir() else 0))


@contextmanager
def enough_memory(name: str) -> Iterator[None]:
    """If NumPy or XLA run out of memory, say so in one line, with what to do."""
    import jax

    try:
        yield
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        exhausted = "RESOURCE_EXHAUSTED" in str(error) or "out of memory" in str(error).lower()
        if not isinstance(error, MemoryError) and not exhausted:
            raise
        way_out = f"stream it from a file: `waypost convert {name} OUT.npz`, then --stream always"
        raise WaypostError(f"{name}: does not fit in memory; {way_out}") from None


def _machine() -> int:
    found = _table(Path("/proc/meminfo")).get("MemAvailable")
    if found is not None:
        return found * 1024
    with suppress(AttributeError, ValueError, OSError):  # not every system reports it
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 1 << 62


def _process() -> list[int]:
    """What is left of this process's own limits (`ulimit -d`, `ulimit -v`)."""
    try:
        import resource
    except ImportError:  # no such thing on Windows
        return []
    used = _table(Path("/proc/self/status"))
    left = []
    for kind, line in ((resource.RLIMIT_DATA, "VmData"), (resource.RLIMIT_AS, "VmSize")):
        limit = resource.getrlimit(kind)[0]
        if limit != resource.RLIM_INFINITY:
            left.append(limit - used.get(line, 0) * 1024)
    return left


def _control_groups(root: Path) -> list[int]:
    """What is left in each control group this process belongs to; cached files count as free."""
    left = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, kind, place = line.split(":", 2)
        if kind not in _CGROUPS:
            continue
        top, limit_file, used_file, prefix = _CGROUPS[kind]
        group = root / top / place.strip("/")
        for folder in (each for each in (group, *group.parents) if each.is_relative_to(root / top)):
            limit, used = (_text(folder / name).strip() for name in (limit_file, used_file))
            if limit.isdecimal() and used.isdecimal():
                statistics = _table(folder / "memory.stat")
                cached = sum(statistics.get(f"{prefix}{each}_file", 0) for each in ("active", "inactive"))
                left.append(int(limit) - int(used) + cached)
    return left


def _table(path: Path) -> dict[str, int]:
    """The numbers of a file with a name and a number on each line."""
    rows = [line.replace(":", " ").split() for line in _text(path).splitlines()]
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdecimal()}


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
