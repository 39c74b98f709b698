"""What `waypost judge` said about a run, for its page: kept in the run directory as judge.json."""

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
    """A number with its two ends, and more beside them."""

    value: float
    low: float
    high: float


class Distance(TypedDict):
    """How far actions are from the data."""

    outside: float


class Candidate(TypedDict):
    """One policy of a judgement."""

    name: str
    run: str | None
    verdict: str
    value: Interval | None
    gain: Interval | None
    distance: Distance | None
    note: NotRequired[str]


class Record(TypedDict):
    """What the page needs of a judgement."""

    data: str
    episodes: int
    discount: float
    verdict: str
    candidates: list[Candidate]
    own: list[str]
    """Names of the candidates that are of this run, and of what recorded the data."""


@dataclass(frozen=True)
class Verdict:
    """What is known of how good the policies of a run are."""

    words: str
    caption: str = ""
    header: tuple[str, ...] = HEADER
    rows: tuple[tuple[str, ...], ...] = ()
    command: str = ""
    """How to find out."""


def keep_verdicts(judgement: Judgement) -> list[Path]:
    """Leave the judgement in every run directory that it is about and that can be written to; these directories."""
    homes = dict.fromkeys(_home(Path(each.run)) for each in judgement.candidates if each.run is not None)
    kept = [home for home in homes if (home / "config.json").is_file() and os.access(home, os.W_OK)]
    for home in kept:
        own = [each.name for each in judgement.candidates if each.run is None or _home(Path(each.run)) == home]
        write_json(home / FILE, judgement.to_json() | {"own": own})
    return kept


def verdict_of(run: Run) -> Verdict:
    """What was judged about a run, or how to get it judged."""
    place = run.directory
    if place is None or not (place / FILE).is_file():
        data = "" if run.plan.hold_out else " --data HELD_OUT"
        words = "Not judged yet. How good its policies are, by recorded episodes they did not learn from, is said by:"
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
    """The run directory: that of its best agents is the one around them."""
    return folder.parent if folder.name == BEST and not (folder / "config.json").is_file() else folder
