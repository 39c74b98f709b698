"""Docstrings of the package as reStructuredText: they are plain text with `code`, lists, examples and arguments.

Arguments are lines of a name, two or more spaces, and a meaning; their further lines are indented below the meaning.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

ARGUMENT = re.compile(r"^(\w[\w, ]*?) {2,}(\S.*)$")


def to_rst(lines: list[str]) -> list[str]:
    """The lines of a docstring, marked up."""
    found: list[str] = []
    for block in _blocks(lines):
        if ARGUMENT.match(block[0]):
            found += _arguments(block)
        elif all(line.startswith("    ") for line in block):
            found += ["::", "", *block]
        else:
            found += [_words(line) for line in block]
        found.append("")
    return found


def _blocks(lines: list[str]) -> list[list[str]]:
    """What blank lines separate, and arguments apart from the text before and after them."""
    blocks: list[list[str]] = [[]]
    for line in lines:
        last = blocks[-1]
        among = bool(last) and bool(ARGUMENT.match(last[0]))
        begins = bool(ARGUMENT.match(line)) or not line.startswith(" ")
        if not line.strip() or (last and begins and among != bool(ARGUMENT.match(line))):
            blocks.append([])
        if line.strip():
            blocks[-1].append(line)
    return [block for block in blocks if block]


def _arguments(block: list[str]) -> list[str]:
    found: list[str] = []
    for line in block:
        match = ARGUMENT.match(line)
        found += [f"``{match[1]}``", f"   {_words(match[2])}"] if match else [f"   {_words(line.strip())}"]
    return found


def _words(line: str) -> str:
    """Code in double backticks, and nothing else marked up."""
    indent = line[: len(line) - len(line.lstrip())]
    bullet = "- " if line.lstrip().startswith("- ") else ""
    parts = re.split(r"`+([^`]+)`+", line[len(indent) + len(bullet) :])
    plain = [re.sub(r"([*_|\\])", r"\\\1", part) for part in parts[::2]]
    code = [f"``{part}``\\ " for part in parts[1::2]]
    words = "".join(a + b for a, b in zip(plain, [*code, ""], strict=True))
    return indent + bullet + words


def _process(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    lines[:] = to_rst(lines)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
