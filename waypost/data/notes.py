"""The notes of readers about several files, put together."""

from __future__ import annotations

import re
from collections.abc import Iterable

_COUNTED = re.compile(r"\b(\d+)(?= (?:rows|missing values|gaps)\b)")


def together(notes: Iterable[str]) -> tuple[str, ...]:
    """Notes of several parts, each once; counts are added up."""
    counts: dict[tuple[str, str], int] = {}
    for note in notes:
        before, number, after = (*_COUNTED.split(note, maxsplit=1), "", "")[:3]
        counts[before, after] = counts.get((before, after), 0) + int(number or 0)
    return tuple(f"{before}{count or ''}{after}" for (before, after), count in counts.items())
