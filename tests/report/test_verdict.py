"""What `waypost judge` said, on the page of the run it is about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from waypost.errors import WaypostError
from waypost.files import write_json
from waypost.report.verdict import keep_verdicts, verdict_of
from waypost.studies.judge.judgement import Judged, Judgement, difference, estimate
from waypost.studies.judge.support import Distance
from waypost.training.plan import plan
from waypost.training.runs import Run

MEMBERS = np.array([1.0, 1.1, 0.9, 1.05, 0.95])


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    made = []
    for name in ("one", "two"):
        planned = plan("bc", "log.npz", env="none", hold_out=0.1)
        write_json(tmp_path / name / "config.json", planned.to_json())
        made.append(Run(planned, {}, [], [], [], tmp_path / name))
    return made


def judged(name: str, run: Path | None, lead: float) -> Judged:
    members = MEMBERS + lead
    known = Judged(name, "bc" if run else None, str(run) if run else None, 0 if run else None, members=members, rank=1)
    gain = difference(members, MEMBERS)
    return replace(
        known, value=estimate(members), gain=gain, distance=Distance(0.1, 0.1, 0.07, 0.05), members=members, rank=1
    )


def test_a_run_that_nobody_judged_says_how(runs: list[Run]) -> None:
    assert verdict_of(runs[0]).command == f"waypost judge {runs[0].directory}"
    fresh = replace(runs[0], directory=None, plan=replace(runs[0].plan, hold_out=0.0))
    assert verdict_of(fresh).command == "waypost judge RUN --data HELD_OUT"


def test_every_run_keeps_what_was_said_about_it(runs: list[Run], tmp_path: Path) -> None:
    one, best = tmp_path / "one", tmp_path / "one" / "best"
    best.mkdir()
    candidates = (
        judged("one seed 0", one, 2.0),
        judged("one/best seed 0", best, 1.0),
        judged("data", None, 0.0),
        Judged("two seed 0", "bc", str(tmp_path / "two"), 0, note="unlike any"),
        judged("gone seed 0", tmp_path / "gone", -1.0),
    )
    kept = keep_verdicts(Judgement("log.npz", 9, 90, 0.99, 3.0, 2.5, candidates, (1,), 0.0))
    assert kept == [one, tmp_path / "two"]
    first, second = map(verdict_of, runs)
    assert first.words.startswith("Take one seed 0")
    assert [row[0] for row in first.rows] == ["one seed 0", "one/best seed 0", "data"]
    assert first.rows[0][1:] == ("3", "2.831 to 3.169", "2 (2 to 2)", "7%", "better than the data")
    assert first.rows[2][3] == "\N{EN DASH}"
    assert "9 episodes of log.npz" in first.caption
    assert [(row[0], row[-1]) for row in second.rows] == [("data", "the log itself"), ("two seed 0", "cannot tell")]


def test_a_damaged_record_is_refused_by_name(runs: list[Run]) -> None:
    assert runs[0].directory is not None
    (runs[0].directory / "judge.json").write_text('{"data": 3}')
    with pytest.raises(WaypostError, match=r"judge\.json"):
        verdict_of(runs[0])
