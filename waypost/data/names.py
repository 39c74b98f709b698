"""Names of sources: several as one, patterns, and short names for data. Nothing slow is imported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tyro.constructors import PrimitiveConstructorSpec

from waypost.errors import WaypostError
from waypost.files import expanded

PATTERN = "*?["
"""Characters that make a name a pattern."""
PACKED = (".gz", ".zst")
"""Suffixes of compressed files."""


def joined(sources: Sequence[str | Path]) -> str:
    """Several sources as one name."""
    names = list(map(str, sources))
    if len(names) > 1 and any("+" in name and expanded(name).exists() for name in names):
        raise WaypostError(f"{next(name for name in names if '+' in name)}: rename it; + joins several sources")
    return "+".join(names)


def members(source: str | Path) -> list[str]:
    """The names of a mixture's members."""
    # A file may have a plus in its name.
    single = "+" not in str(source) or expanded(source).exists()
    return [str(source)] if single else [part.strip() for part in str(source).split("+")]


def is_pattern(name: str) -> bool:
    return any(sign in name for sign in PATTERN)


def short_name(source: str | Path) -> str:
    """A short name for data: that of their file, or of the folder of a pattern."""
    path = Path(source)
    while is_pattern(path.name):
        path = path.parent
    return Path(path.stem).stem if path.suffix in PACKED else path.stem or "data"


SEVERAL = PrimitiveConstructorSpec[str](
    nargs="*",
    metavar="SOURCE [SOURCE ...]",
    instance_from_str=joined,
    is_instance=lambda value: isinstance(value, str | None),
    str_from_instance=lambda value: [str(value)],
)
"""How the command line reads one or more sources."""
