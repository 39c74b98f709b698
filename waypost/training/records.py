"""The JSON records of a run directory, checked against their types when read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from waypost.errors import WaypostError
from waypost.files import reading
from waypost.schema import conform

UNFINISHED = "the run is not finished; continue it with `waypost train ... --resume`"

LARGEST = 64 << 20
"""The most bytes of a record; a run of thousands of seeds has a hundredth of it."""

Row = TypedDict(
    "Row",
    {
        "return": float | None,
        "score": float | None,
        "success_rate": float | None,
        "episode_length": float | None,
        "seed": NotRequired[int],
    },
)
"""The measures of one seed, or a statistic over all."""


class Moment(TypedDict):
    """A row of a table of a training; there are more columns."""

    step: int
    seed: int


class Stopped(TypedDict):
    """Where and why a callback ended a training before its last step."""

    step: int
    reason: str


class Alarm(TypedDict):
    """Something that looked wrong during a training."""

    step: int
    seed: int
    what: str
    """The kind: values, losses, weights, policy or validation."""
    text: str
    """One line, with the options that may help."""


class Result(TypedDict):
    """The contents of result.json; see `waypost.training.runs.result`."""

    algorithm: str
    data: str | None
    task: str | None
    suite: str | None
    steps: int | None
    per_seed: list[Row]
    mean: Row
    std: Row
    iqm: Row
    seconds: float
    versions: NotRequired[dict[str, str]]
    stopped: NotRequired[Stopped]
    alarms: NotRequired[list[Alarm]]
    best: NotRequired[list[Moment]]


class Config(TypedDict):
    """The contents of config.json: the fields of a `Plan`, of which these are required, and facts about the data."""

    algorithm: str
    config: dict[str, Any]
    waypost: NotRequired[str]
    fingerprint: NotRequired[str]
    streamed: NotRequired[bool]


class Checkpoint(TypedDict):
    """The contents of a checkpoint besides its arrays."""

    step: int
    seconds: float
    metrics: list[Moment]
    evaluations: list[Moment]
    run: NotRequired[str]
    alarms: NotRequired[list[Alarm]]


def read_config(directory: Path) -> dict[str, Any]:
    """The config.json of a run directory: the plan, see `read_plan`, and facts about the data."""
    file = directory / "config.json"
    if not file.is_file():
        raise WaypostError(f"{directory}: not a run directory (no config.json)")
    return read_record(file, Config)


def read_result(directory: Path) -> dict[str, Any]:
    """The result.json of a run directory."""
    return read_record(directory / "result.json", Result)


def checkpoint_record(record: Any, path: Path) -> dict[str, Any]:
    """The record of a checkpoint, with the tables of its run."""
    try:
        found = conform(record, Checkpoint, "")
    except WaypostError as error:
        raise WaypostError(f"{path}: not a checkpoint of this version of Waypost ({error})") from None
    rows = [*found["metrics"], *found["evaluations"]]
    if not all(value is None or isinstance(value, int | float | str) for row in rows for value in row.values()):
        raise WaypostError(f"{path}: its tables hold something that is neither a number nor text")
    return found


def read_record(path: Path, kind: Any) -> Any:
    """A JSON file as a value of this type; see `conform`."""
    with reading(path, "a JSON file"):
        if path.stat().st_size > LARGEST:
            raise WaypostError(f"{path}: has {path.stat().st_size} bytes, expected {LARGEST} or fewer")
        value = json.loads(path.read_text("utf-8"), object_pairs_hook=_once)
    try:
        return conform(value, kind, "")
    except WaypostError as error:
        raise WaypostError(f"{path}: {error}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a repeated name, which could mean either value."""
    record: dict[str, Any] = {}
    for name, value in pairs:
        if name in record:
            raise ValueError(f"{name} appears twice")
        record[name] = value
    return record
