"""Building blocks of the experiments' texts."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any


def listed(items: Iterable[object], word: str = "and") -> str:
    """Items in words: a, b and c."""
    words = [str(item) for item in items]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {word} {words[-1]}" if words else "none"


def many(count: int, word: str) -> str:
    """A count in words: 1 seed, 2 seeds."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def length(row: Mapping[str, Any]) -> str:
    """A number of updates in words: 20000 updates (the preset has 60000)."""
    less = row["updates"] < row["preset_updates"]
    return many(row["updates"], "update") + (f" (the preset has {row['preset_updates']})" if less else "")


MARKER = re.compile(r" (?=(?:\d+[.)]|[-+*#>]) )")
"""The space before a word that would begin a list or a heading at the start of a line."""


def paragraphs(*texts: str) -> str:
    """Markdown of the texts that are not empty."""
    glue = "\0"  # keeps words on one line
    whole = (MARKER.sub(glue, " ".join(text.split())) for text in texts if text.strip())
    # A line break after a hyphen would put a space into a name.
    lines = (textwrap.fill(text, 120, break_on_hyphens=False).replace(glue, " ") for text in whole)
    return "\n\n".join(lines) + "\n"
