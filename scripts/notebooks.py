"""Write the notebooks of docs/notebooks from the lessons of docs/learn.

python scripts/notebooks.py

Text becomes Markdown cells, Python becomes code cells, commands become `!` lines, and outputs are left out. A block of
Python that begins with a file's name becomes a file.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LESSONS, NOTEBOOKS = ROOT / "docs" / "learn", ROOT / "docs" / "notebooks"
NAMES = {"first-policy": "four-rooms", "own-log": "own-log", "new-task": "adapt"}
"""The notebook of each lesson."""
INSTALL = "%pip install -q 'waypost[tables]'"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(text: str) -> list[tuple[str, str]]:
    """The parts of a page in order: ("", text) or (language, code)."""
    parts = BLOCK.split(text)
    found = [("", parts[0])]
    for language, inside, after in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        found += [(language, inside), ("", after)]
    return found


def commands(block: str) -> list[str]:
    """The commands of a console block, without their output; lines continued by a backslash are joined."""
    whole = block.replace("\\\n", " ")
    return [" ".join(line[2:].split("  #")[0].split()) for line in whole.splitlines() if line.startswith("$ ")]


def file_name(code: str) -> str | None:
    """The name of the file that a block of Python is saved as."""
    match = re.match(r"# (\w+\.py)\n", code)
    return match[1] if match else None


def cells(page: str) -> list[dict[str, Any]]:
    title, _, rest = page.partition("\n")
    found = [_cell("markdown", title), _cell("code", INSTALL)]
    for language, inside in blocks(rest):
        if language == "python":
            name = file_name(inside)
            found.append(_cell("code", f"%%writefile {name}\n{inside}" if name else inside))
        elif language == "console":
            lines = [f"!{line}" for line in commands(inside) if not line.startswith("pip ")]
            found += [_cell("code", "\n".join(lines))] if lines else []
        elif not language:
            # A notebook is opened alone, so links and images of the site do not work.
            text = re.sub(r"!\[[^]]*\]\([^)]*\)\n*", "", inside)
            text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).strip()
            found += [_cell("markdown", text)] if text else []
    return found


def _cell(kind: str, source: str) -> dict[str, Any]:
    more = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, "metadata": {}, "source": source.strip().splitlines(keepends=True), **more}


def notebook(page: str) -> str:
    numbered = [{"id": f"cell-{number}", **each} for number, each in enumerate(cells(page))]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    record = {"cells": numbered, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    NOTEBOOKS.mkdir(exist_ok=True)
    for lesson, name in NAMES.items():
        (NOTEBOOKS / f"{name}.ipynb").write_text(notebook((LESSONS / f"{lesson}.md").read_text()))
        print(NOTEBOOKS / f"{name}.ipynb", file=sys.stderr)


if __name__ == "__main__":
    main()
