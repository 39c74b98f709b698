"""The rooms of the house and the order in which they may be imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "waypost"
ROOMS = (
    ("errors",),
    ("types",),
    ("schema",),
    ("statistics", "files", "resources", "spaces", "summaries"),
    ("locks",),
    ("data",),
    ("envs",),
    ("recording",),
    ("agents",),
    ("training",),
    ("shipping",),
    ("figures",),
    ("studies",),
    ("report",),
    ("doctor",),
    ("console",),
    ("api",),
    ("cli",),
    ("__main__",),
)
"""In import order: a module may import from its own room and from those above it, also inside functions."""
ORDER = {name: place for place, names in enumerate(ROOMS) for name in names}
KNOWS_NOTHING_OF = {"envs": {"data"}}
"""What a room must not import although it stands above it."""


def modules() -> Iterator[tuple[str, str]]:
    """Every module: where it is, and its room."""
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE).with_suffix("").parts
        if parts != ("__init__",):
            yield str(file.relative_to(PACKAGE)), parts[0]


def imported(source: str, inside: tuple[str, ...] = ()) -> Iterator[tuple[int, str]]:
    """Line and room of every import from the package; `inside` is the package a relative import starts from."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            base = (*inside[: len(inside) - node.level + 1], *([node.module] if node.module else []))
            names = [".".join((*base, alias.name)) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "waypost":
            names = [f"waypost.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "waypost":
                yield node.lineno, parts[1] if len(parts) > 1 else "the whole package"


def wrong_way(source: str, room: str, inside: tuple[str, ...] = ()) -> list[str]:
    """Imports that go against the order, as "line 3: studies"."""
    return [
        f"line {line}: {other}"
        for line, other in imported(source, inside)
        if ORDER.get(other, len(ROOMS)) > ORDER[room] or other in KNOWS_NOTHING_OF.get(room, ())
    ]


@pytest.mark.parametrize(("file", "room"), list(modules()), ids=lambda each: each.replace("/", "."))
def test_every_module_imports_one_way_only(file: str, room: str) -> None:
    assert room in ORDER, f"{room} has no place in the order yet"
    assert wrong_way((PACKAGE / file).read_text(), room, ("waypost", *Path(file).parts[:-1])) == []


@pytest.mark.parametrize(
    ("source", "room", "found"),
    [
        ("from waypost.report.run import RunPage", "studies", ["line 1: report"]),
        ("def late():\n    import waypost.cli", "data", ["line 2: cli"]),
        ("from waypost import figures", "training", ["line 1: figures"]),
        ("from ..report import page", "studies", ["line 1: report"]),
        ("import waypost", "data", ["line 1: the whole package"]),
        ("from waypost.data.dataset import Dataset", "envs", ["line 1: data"]),
        ("from waypost.data.dataset import Dataset\nfrom .nets import MLP", "agents", []),
    ],
)
def test_an_import_against_the_order_is_found(source: str, room: str, found: list[str]) -> None:
    assert wrong_way(source, room, ("waypost", room)) == found
