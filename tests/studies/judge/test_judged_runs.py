"""A comparison where there is no simulator."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import chain
import pytest

import waypost
from waypost.errors import WaypostError
from waypost.report.comparison import write_comparison
from waypost.studies import comparison
from waypost.studies.judge import judging
from waypost.studies.judge.runs import held_out, judge_runs
from waypost.training.plan import Plan, plan

SMALL = {"hidden": (8,), "batch_size": 32, "learning_rate": 0.02}


def test_algorithms_are_ranked_by_held_out_episodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "chain.npz"
    waypost.save(chain.record(100), file)
    monkeypatch.setattr(comparison, "judge_runs", partial(judge_runs, members=5, steps=100, hidden=(8,), horizon=0))
    monkeypatch.setattr(judging, "learn", None)  # with a horizon of 0 no model is learned
    options = {"seeds": 1, "steps": 60, "settings": {"bc": SMALL, "bc10": {**SMALL, "top": 0.5}}}
    found = comparison.compare([file], ["bc", "bc10", "td3bc"], out=tmp_path / "out", **options)
    by_name = {entry.algorithm: entry for entry in found.entries}
    assert by_name["bc"].measure == by_name["data"].measure == "value"
    assert by_name["bc"].run is not None
    assert by_name["bc"].run.plan.hold_out == 0.1
    assert len(by_name["bc"].values) == 1
    assert sorted(entry.rank for entry in found.entries if entry.rank) in ([1.0, 2.0], [1.5, 1.5])
    assert by_name["data"].mean is not None
    assert "it learns only continuous ones" in by_name["td3bc"].note
    write_comparison(found, tmp_path / "out")
    page = (tmp_path / "out" / "compare.html").read_text()
    assert "estimated on held-out episodes" in page
    assert page.count("<svg") == 1


def test_enough_episodes_are_held_out_or_a_log_is_refused_before_any_training(tmp_path: Path) -> None:
    def planned(episodes: int) -> Plan[Any]:
        file = tmp_path / f"{episodes}.npz"
        waypost.save(chain.record(episodes), file)
        return plan("bc", str(file))

    assert held_out(planned(100)).hold_out == 0.1
    few = held_out(planned(20))
    assert few.hold_out == 0.25, "five of twenty"
    assert held_out(replace(few, hold_out=0.5)).hold_out == 0.5
    assert held_out(planned(4), 1).hold_out == 0.25
    with pytest.raises(WaypostError, match=r"9\.npz: 9 episodes; at least 10 are needed, 5 of them to judge by"):
        held_out(planned(9))
