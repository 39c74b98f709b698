"""What every reader does at the border: a stranger's file may be damaged, or claim to be larger than it is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from waypost.errors import WaypostError

MOST_PACKED = 1100
"""No packing in use makes data smaller than by this factor; what claims more is damaged."""


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Whatever goes wrong while a file is parsed becomes one line that names it."""
    if not path.exists():
        raise WaypostError(f"{path}: there is no such file")
    try:
        yield
    except WaypostError:
        raise
    except MemoryError:
        raise WaypostError(f"{path}: does not fit in memory; convert it in parts, or see docs/large-data.md") from None
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise WaypostError(f"{path}: damaged or not {kind} ({reason})") from None


def plausible(path: Path, field: str, claimed: int, stored: int) -> None:
    """Refuse what cannot be true or cannot be held, before any memory is asked for."""
    if claimed > MOST_PACKED * max(stored, 1) + 4096:
        raise WaypostError(f"{path}: damaged: {field} claims {claimed} bytes, the file holds {stored} for it")
    room = available_memory()
    if claimed > room:
        raise WaypostError(
            f"{path}: {field} needs {claimed / 1e9:.1f} GB, {room / 1e9:.1f} GB are free; "
            "see docs/large-data.md on data larger than memory"
        )


def available_memory() -> int:
    """Bytes this process may still ask for: what the machine has free, within the limits set for it."""
    room = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 1 << 62
    meminfo = Path("/proc/meminfo")
    if meminfo.is_file():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                room = int(line.split()[1]) * 1024
    with suppress(ImportError):  # no such thing on Windows
        import resource

        limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
        room = min([room, *(limit for limit in limits if limit != resource.RLIM_INFINITY)])
    return room
