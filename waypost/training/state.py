"""The state of a training on disk: its last two checkpoints.

A new checkpoint replaces the last one, which is kept as the previous one: they take twice the space of one, and at any
moment at least one is intact. Training depends on the step alone, so it ends with the same bits whichever one it
continues from. Checkpoints of older versions have neither the identity of their run nor a checksum, and are not
checked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from waypost.errors import DamagedFile, WaypostError
from waypost.files import read_arrays, reading, table, write_arrays, write_bytes
from waypost.training.records import checkpoint_record

CHECKPOINT = Path("checkpoint") / "state.safetensors"
PREVIOUS = Path("checkpoint") / "previous.safetensors"
State = tuple[dict[str, np.ndarray], dict[str, Any]]
"""The arrays of a checkpoint, and the rest."""


def identity(config: dict[str, Any]) -> str:
    """Tells a run from others: a hash of its plan and its data in config.json."""
    told = {name: value for name, value in config.items() if name != "waypost"}
    return hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=16).hexdigest()


def save_state(directory: Path, arrays: dict[str, np.ndarray], record: dict[str, Any]) -> None:
    write_arrays(directory / CHECKPOINT, arrays, record, keep=directory / PREVIOUS)


def load_state(directory: Path, run: str, note: Callable[[str], None]) -> State | None:
    """The last checkpoint of the run with this identity; the previous one, with a note, if the last is damaged.

    None if there is none yet.
    """
    last, previous = directory / CHECKPOINT, directory / PREVIOUS
    if not last.exists():
        return _read(previous, run) if previous.exists() else None
    try:
        return _read(last, run)
    except DamagedFile as damage:
        if not previous.exists():
            raise
        try:
            arrays, record = _read(previous, run)
        except DamagedFile as other:
            raise DamagedFile(f"{damage}; so is the previous checkpoint: {other}") from None
        note(f"warning: {damage}; continuing from the previous checkpoint, of step {record['step']}")
    # The next save makes the last one the previous: if it were damaged, no intact one would exist for a moment.
    write_bytes(last, previous.read_bytes())
    return arrays, record


def last_arrays(directory: Path, run: str) -> dict[str, np.ndarray]:
    """The arrays of the last checkpoint of a run, read only."""
    if not (directory / CHECKPOINT).is_file():
        raise WaypostError(f"{directory}: has no checkpoint to continue from; give a run directory")
    return _read(directory / CHECKPOINT, run)[0]


def load_tables(directory: Path, run: str) -> dict[str, Any]:
    """The record of the last checkpoint of a finished run: its metrics and evaluations."""
    try:
        return _read(directory / CHECKPOINT, run)[1]
    except DamagedFile as damage:
        record = _same_tables(directory, run)
        if record is None:
            raise DamagedFile(f"{damage}; metrics.csv, evaluations.csv and the policies are intact") from None
        return record


def _same_tables(directory: Path, run: str) -> dict[str, Any] | None:
    """The record of the previous checkpoint, if it is of the last step too, as metrics.csv shows."""
    try:
        record = _read(directory / PREVIOUS, run)[1]
        with reading(directory / "metrics.csv", "a table"):
            saved = (directory / "metrics.csv").read_text(encoding="utf-8")
            same = table(saved.partition("\n")[0].split(","), record["metrics"]) == saved
    except WaypostError:
        return None
    return record if same else None


def _read(path: Path, run: str | None = None) -> State:
    arrays, record = read_arrays(path)
    record = checkpoint_record(record, path)
    if run is not None and record.get("run", run) != run:
        raise WaypostError(f"{path}: belongs to another run, or config.json has been changed; choose another --out")
    return arrays, record
