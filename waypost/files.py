"""Arrays and records on disk: written completely or not at all, read without running any code."""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save

from waypost.errors import WaypostError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file beside `path`; it replaces `path` when it is complete, and is deleted after an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Whatever goes wrong while a file is parsed becomes one line that names it."""
    if not path.exists():
        raise WaypostError(f"{path}: there is no such file")
    if not path.is_file():
        raise WaypostError(
            f"{path}: is a {'folder' if path.is_dir() else 'pipe or a device'}; a regular file is needed"
        )
    try:
        yield
    except WaypostError:
        raise
    except MemoryError:
        raise WaypostError(f"{path}: does not fit in memory; convert it in parts, or see docs/large-data.md") from None
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise WaypostError(f"{path}: damaged or not {kind} ({reason})") from None


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file so that at any moment, even after a crash, either the old or the new one is there, complete."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, content: str) -> None:
    write_bytes(path, content.encode())


def write_json(path: Path, record: Any) -> None:
    write_text(path, json.dumps(record, indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    with reading(path, "a JSON file"):
        return json.loads(path.read_text())


def write_arrays(path: Path, arrays: dict[str, np.ndarray], record: Any = None) -> None:
    """One safetensors file with the arrays and, in its header, a JSON record."""
    contiguous = {name: np.asarray(values, order="C") for name, values in arrays.items()}
    write_bytes(path, save(contiguous, metadata={"record": json.dumps(record)}))


def read_arrays(path: Path) -> tuple[dict[str, np.ndarray], Any]:
    """The arrays and the record of a file by `write_arrays`."""
    with reading(path, "a safetensors file"), safe_open(path, framework="numpy") as file:
        record = json.loads((file.metadata() or {}).get("record", "null"))
        return {name: file.get_tensor(name) for name in file.keys()}, record  # noqa: SIM118


def table(columns: list[str], rows: list[dict[str, Any]]) -> str:
    """Rows as the text of a CSV file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
