"""The state of a training on disk: its last two checkpoints.

A new checkpoint replaces the last one, which stays as the one before it until the next: they take twice the room of
one, and at any moment at least one is whole. Training depends on the step alone, so it ends with the same bits
whichever it continues from. Checkpoints of older versions know neither their run nor a checksum, and are taken as
they are.
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
    """What tells a run from others: its plan and its data, as config.json has them."""
    told = {name: value for name, value in config.items() if name != "waypost"}
    return hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=16).hexdigest()


def save_state(directory: Path, arrays: dict[str, np.ndarray], record: dict[str, Any]) -> None:
    write_arrays(directory / CHECKPOINT, arrays, record, keep=directory / PREVIOUS)


def load_state(directory: Path, run: str, note: Callable[[str], None]) -> State | None:
    """The last checkpoint of the run with that identity; the one before it, with a note, if the last is damaged.

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
            raise DamagedFile(f"{damage}; so is the checkpoint before it: {other}") from None
        note(f"warning: {damage}; continuing from the checkpoint before it, of step {record['step']}")
    # At the next save the last becomes the one before: were it damaged, there would be no whole one for a moment.
    write_bytes(last, previous.read_bytes())
    return arrays, record


def last_arrays(directory: Path, run: str) -> dict[str, np.ndarray]:
    """The arrays of the last checkpoint of a run that is only read."""
    if not (directory / CHECKPOINT).is_file():
        raise WaypostError(f"{directory}: has no checkpoint to continue from; give the directory of a run")
    return _read(directory / CHECKPOINT, run)[0]


def load_tables(directory: Path, run: str) -> dict[str, Any]:
    """What the last checkpoint of a finished run says: its metrics and evaluations."""
    try:
        return _read(directory / CHECKPOINT, run)[1]
    except DamagedFile as damage:
        record = _same_tables(directory, run)
        if record is None:
            raise DamagedFile(f"{damage}; metrics.csv, evaluations.csv and the policies are still there") from None
        return record


def _same_tables(directory: Path, run: str) -> dict[str, Any] | None:
    """What the checkpoint before the last says, if it is of the last step, too, as metrics.csv shows."""
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
