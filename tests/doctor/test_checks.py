"""A look that fails is a finding, and the others go on."""

from __future__ import annotations

import pytest

from waypost.doctor import examination
from waypost.doctor.checks import Check, Checkup, attempted
from waypost.errors import InterruptedRun


def broken() -> list[Check]:
    raise ImportError("no such\nlibrary")


def interrupted() -> list[Check]:
    raise InterruptedRun(3)


def test_a_look_that_fails_is_a_problem() -> None:
    assert attempted("devices", broken) == [Check("devices", "failed: ImportError: no such library", "error")]
    with pytest.raises(KeyboardInterrupt):
        attempted("self-test", interrupted)


def test_only_errors_are_problems() -> None:
    well = Checkup({"a": [Check("x", "1"), Check("y", "2", "warning", "do this")]})
    assert well.to_json()["ok"] is True
    ill = Checkup({**well.sections, "b": [Check("z", "3", "error", "do that")]})
    assert [str(problem) for problem in ill.problems] == ["z: 3; do that"]
    assert ill.to_json()["sections"]["b"] == [{"what": "z", "found": "3", "level": "error", "advice": "do that"}]


def test_one_broken_section_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("system", "packages", "extras", "places"):
        monkeypatch.setattr(examination, name, lambda: [Check("x", "1")])
    monkeypatch.setattr(examination, "devices", broken)
    told: list[str] = []
    found = examination.examine(self_test=False, tell=told.append)
    assert told == [*found.sections] == ["system", "packages", "extras", "devices", "places"]
    assert [problem.what for problem in found.problems] == ["devices"]
