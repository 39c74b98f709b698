"""The machine: cores, memory, devices and writable folders."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from waypost.doctor.checks import Check, Level

LITTLE = 1 << 30
"""Bytes of free memory below which even small trainings may fail."""
_UNKNOWN = 1 << 60
_DRIVERS = {"proc/driver/nvidia/version": "NVIDIA", "dev/kfd": "AMD"}
"""Files that only a machine with such a GPU and its driver has."""
_VARIABLES = ("JAX_PLATFORMS", "XLA_FLAGS", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")
_INSTALL_JAX = "to use it: https://docs.jax.dev/en/latest/installation.html"


def devices() -> list[Check]:
    """The processor, the memory, and the devices of JAX."""
    import jax

    from waypost.resources import available_memory, cores, device_memory

    found = [Check("cores", f"{cores()} of {os.cpu_count()}"), memory(available_memory())]
    for device in jax.local_devices():
        free = device_memory(device)
        more = "" if free is None else f", {_size(free)} free"
        found.append(Check(f"device {device.id}", f"{device.device_kind} ({device.platform}){more}"))
    threads = _xla_threads()
    if threads:
        found.append(Check("XLA threads", str(threads)))
    found += [Check(name, os.environ[name]) for name in _VARIABLES if os.environ.get(name)]
    return [*found, *unused_gpus({device.platform for device in jax.local_devices()})]


def memory(free: int) -> Check:
    if free >= _UNKNOWN:
        return Check("memory", "unknown", "note")
    if free < LITTLE:
        return Check("memory", f"{_size(free)} free", "warning", "even small trainings may fail; close other programs")
    return Check("memory", f"{_size(free)} free")


def unused_gpus(platforms: set[str], root: Path = Path("/")) -> list[Check]:
    """GPUs that JAX does not use."""
    if platforms != {"cpu"}:
        return []
    advice = "JAX_PLATFORMS keeps JAX on the CPU" if os.environ.get("JAX_PLATFORMS") else _INSTALL_JAX
    return [
        Check("GPU", f"{kind} GPU present, JAX uses the CPU only", "note", advice)
        for file, kind in _DRIVERS.items()
        if (root / file).exists()
    ]


def places() -> list[Check]:
    """The folders where files are kept."""
    import jax

    from waypost.data.sources import data_folder
    from waypost.training.compilation import programs_folder

    found = [folder("data", data_folder(), "warning", "set WAYPOST_DATA to a folder that can be written to")]
    programs, of_jax = programs_folder(), getattr(jax.config, "jax_compilation_cache_dir", None)
    if programs is not None:
        advice = "every training compiles again; set WAYPOST_CACHE to a folder that can be written to"
        found.append(folder("compiled programs", programs, "warning", advice))
    elif of_jax:
        found.append(Check("compiled programs", f"{of_jax}, as set for JAX itself"))
    else:
        found.append(Check("compiled programs", "not kept: WAYPOST_CACHE=off", "note", "every training compiles again"))
    found.append(folder("runs", Path.cwd(), "warning", "name another folder with --out", count=False))
    temporary = Path(tempfile.gettempdir())
    found.append(folder("temporary files", temporary, "error", "set TMPDIR to another folder", count=False))
    return found


def folder(what: str, path: Path, level: Level, advice: str, count: bool = True) -> Check:
    """Used and free space of a folder; `level` and `advice` apply if it cannot be written to."""
    from waypost.files import writable

    try:
        writable(path / "waypost")
        free = shutil.disk_usage(next(each for each in (path, *path.parents) if each.exists())).free
        held = f"{_size(_held(path))} used, " if count else ""
    except OSError as error:
        return Check(what, f"{path}: {error.strerror}", level, advice)
    return Check(what, f"{path}: {held}{_size(free)} free")


def _held(path: Path) -> int:
    files = (Path(place, name) for place, _, names in os.walk(path) for name in names)
    return sum(file.lstat().st_size for file in files)


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"


def _xla_threads() -> int:
    """The number of XLA's threads, if the system says."""
    names = [file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm")]
    return sum(name.startswith("tf_XLAEigen") for name in names)
