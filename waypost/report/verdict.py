"""The result of `waypost judge` for the page of a run: kept in the run directory as judge.json."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from waypost.files import write_json
from waypost.report.page import DASH
from waypost.studies.judge.judgement import Judgement
from waypost.training.records import read_record
from waypost.training.runs import Run
from waypost.training.validation import BEST

FILE = "judge.json"
HEADER = ("Policy", "Value", "90 % interval", "Gain over data", "Unusual actions", "Verdict")


class Interval(TypedDict):
    """A number with its two ends; there are more entries."""

    value: float
    low: float
    high: float


class Distance(TypedDict):
    """Distance of actions from the data."""

    outside: float


class Candidate(TypedDict):
    """One policy in the result of `waypost judge`."""

    name: str
    run: str | None
    verdict: str
    value: Interval | None
    gain: Interval | None
    distance: Distance | None
    note: NotRequired[str]


class Record(TypedDict):
    """The part of judge.json that the page needs."""

    data: str
    episodes: int
    discount: float
    verdict: str
    candidates: list[Candidate]
    own: list[str]
    """Names of the candidates of this run, and of the data's own policy."""


@dataclass(frozen=True)
class Verdict:
    """How good the policies of a run are, as far as known."""

    words: str
    caption: str = ""
    header: tuple[str, ...] = HEADER
    rows: tuple[tuple[str, ...], ...] = ()
    command: str = ""
    """The command that estimates it."""


def keep_verdicts(judgement: Judgement) -> list[Path]:
    """Write the result to every run directory it is about, if writable; returns these directories."""
    homes = dict.fromkeys(_home(Path(each.run)) for each in judgement.candidates if each.run is not None)
    kept = [home for home in homes if (home / "config.json").is_file() and os.access(home, os.W_OK)]
    for home in kept:
        own = [each.name for each in judgement.candidates if each.run is None or _home(Path(each.run)) == home]
        write_json(home / FILE, judgement.to_json() | {"own": own})
    return kept


def verdict_of(run: Run) -> Verdict:
    """What `waypost judge` found for a run, or how to run it."""
    place = run.directory
    if place is None or not (place / FILE).is_file():
        data = "" if run.plan.hold_out else " --data HELD_OUT"
        words = "Not evaluated yet. To estimate how good its policies are from episodes they did not learn from, run:"
        return Verdict(words, command=f"waypost judge {place or 'RUN'}{data}")
    record: Record = read_record(place / FILE, Record)
    mine = [each for each in record["candidates"] if each["name"] in record["own"]]
    caption = f"Values of the start states of {record['episodes']} episodes of {record['data']}"
    return Verdict(
        record["verdict"],
        f"{caption}, discounted by {record['discount']:g}, in units of the recorded rewards.",
        rows=tuple(map(_row, mine)),
    )


def _row(each: Candidate) -> tuple[str, ...]:
    value, gain, distance = each["value"], each["gain"], each["distance"]
    own = each["run"] is None
    return (
        each["name"],
        f"{value['value']:.4g}" if value else DASH,
        _span(value) if value else DASH,
        f"{gain['value']:.3g} ({_span(gain)})" if gain and not own else DASH,
        f"{distance['outside']:.0%}" if distance else DASH,
        each["verdict"],
    )


def _span(interval: Mapping[str, Any]) -> str:
    return f"{interval['low']:.4g} to {interval['high']:.4g}"


def _home(folder: Path) -> Path:
    """The run directory; that of its best agents is the parent."""
    return folder.parent if folder.name == BEST and not (folder / "config.json").is_file() else folder
