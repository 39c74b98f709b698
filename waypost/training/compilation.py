"""Compiled programs, kept between processes: the second training of the same shape starts without compiling."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

import jax

from waypost.resources import cpu_name

LARGEST = 1 << 30
"""Bytes kept; above that the programs that were not used for longest go."""


@cache
def keep_programs() -> Path | None:
    """Have JAX keep what it compiles in the user's cache directory; to be called before anything is compiled.

    $WAYPOST_CACHE names another directory; `off` keeps nothing. A cache that was set up for JAX itself is left alone.
    The answer is the folder, or None where nothing is kept.
    """
    folder = programs_folder()
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _trim(folder)
    except OSError:
        return None  # a home that cannot be written to costs time, nothing else
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")
    return folder


def programs_folder() -> Path | None:
    """Where `keep_programs` would keep what is compiled; None if that is turned off or set up for JAX itself."""
    wanted = os.environ.get("WAYPOST_CACHE", "")
    if wanted == "off" or getattr(jax.config, "jax_compilation_cache_dir", None):
        return None
    # A program holds machine code of the processor it was compiled for.
    return (Path(wanted).expanduser() if wanted else _user_cache()) / f"jax-{jax.__version__}-{cpu_name()}"


def _user_cache() -> Path:
    """Where this system keeps what can be made again."""
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
