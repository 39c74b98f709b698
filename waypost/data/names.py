"""Names of sources: several as one, patterns, and what to call data after them. Nothing slow is imported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tyro.constructors import PrimitiveConstructorSpec

from waypost.errors import WaypostError
from waypost.files import expanded

PATTERN = "*?["
"""What makes a name a pattern."""
PACKED = (".gz", ".zst")
"""What the name of a packed file ends in."""


def joined(sources: Sequence[str | Path]) -> str:
    """Several sources as one."""
    names = list(map(str, sources))
    if len(names) > 1 and any("+" in name and expanded(name).exists() for name in names):
        raise WaypostError(f"{next(name for name in names if '+' in name)}: rename it; + joins several sources")
    return "+".join(names)


def members(source: str | Path) -> list[str]:
    """The members of a mixture, as they are named."""
    # A file whose name has a plus in it is one.
    single = "+" not in str(source) or expanded(source).exists()
    return [str(source)] if single else [part.strip() for part in str(source).split("+")]


def is_pattern(name: str) -> bool:
    return any(sign in name for sign in PATTERN)


def short_name(source: str | Path) -> str:
    """What to call data after their source: the name of a file, or of the folder that a pattern is about."""
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
"""How the command line reads a source that may be several."""
