"""What a failed command may leave: what was there before, and files that are whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import onnx

import waypost
from waypost.files import read_arrays
from waypost.shipping.numpy_policy import Policy


def furnished(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "notes.txt").write_text("mine")
    (folder / ".notes.txt").write_text("mine too")
    (folder / ".git.x").mkdir()
    (folder / ".git.x" / "config").write_text("also mine")
    return folder


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every file with its bytes, and every folder."""
    paths = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes() for path in paths}


def check_kept(before: dict[str, bytes | None], folder: Path) -> None:
    """What was there is there, bit for bit; what is new is whole."""
    after = contents(folder)
    assert {name: after.get(name, b"gone") for name in before} == before
    for name in after.keys() - before.keys():
        assert not Path(name).name.startswith(".") or Path(name).name == ".lock", f"{name} is left behind"
        check_whole(folder / name)


def check_whole(path: Path) -> None:
    """A file can be read to its end."""
    ends: dict[str, Callable[[bytes], bool]] = {
        ".html": lambda content: content.rstrip().endswith(b"</html>"),
        ".csv": lambda content: content.endswith(b"\n"),
        ".md": lambda content: content.endswith(b"\n"),
        ".log": lambda content: not content or content.endswith(b"\n"),
        ".svg": lambda content: content.rstrip().endswith(b"</svg>"),
        ".png": lambda content: len(content) == 20_008,
        ".json": lambda content: json.loads(content) is not None,
        ".safetensors": lambda content: read_arrays(path) is not None,
        ".onnx": lambda content: len(onnx.load_from_string(content).graph.output) > 0,
        ".py": lambda content: content.endswith(b"\n"),
    }
    if path.is_file() and path.name != ".lock":
        if path.suffix in ends:
            assert ends[path.suffix](path.read_bytes()), f"{path.name} is cut short"
        elif path.name == "policy.npz":
            assert Policy(path).nodes
        else:
            assert len(waypost.load(path)) > 0
