"""Compiled programs, cached between processes: the second training of the same shape starts without compiling."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

import jax

from waypost.resources import cpu_name

LARGEST = 1 << 30
"""Bytes kept; beyond that, the least recently used programs are deleted."""


@cache
def keep_programs() -> Path | None:
    """Let JAX cache compiled programs in the user's cache directory; call it before anything is compiled.

    $WAYPOST_CACHE names another directory; `off` disables the cache. A cache set up for JAX itself is left alone.
    Returns the folder, or None if nothing is cached.
    """
    folder = programs_folder()
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _trim(folder)
    except OSError:
        return None  # a home that is read-only costs time, nothing else
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")
    return folder


def programs_folder() -> Path | None:
    """Where `keep_programs` caches programs; None if that is disabled or set up for JAX itself."""
    wanted = os.environ.get("WAYPOST_CACHE", "")
    if wanted == "off" or getattr(jax.config, "jax_compilation_cache_dir", None):
        return None
    # A program holds machine code for the processor it was compiled on.
    return (Path(wanted).expanduser() if wanted else _user_cache()) / f"jax-{jax.__version__}-{cpu_name()}"


def _user_cache() -> Path:
    """The cache directory of this system."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "waypost"


def _trim(folder: Path) -> None:
    files = sorted((file.stat().st_atime, file.stat().st_size, file) for file in folder.iterdir() if file.is_file())
    total = sum(size for _, size, _ in files)
    for _, size, file in files:
        if total <= LARGEST:
            break
        file.unlink(missing_ok=True)
        total -= size
