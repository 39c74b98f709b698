"""The calibration of judge: the sepsis task's exact values, and what is computed from estimates and true values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sepsis
import summary

from waypost.data.dataset import Dataset
from waypost.errors import WaypostError
from waypost.training.replay import candidate

RESULTS = Path(__file__).parents[1] / "results" / "ope"


@pytest.fixture(scope="module")
def patients() -> Dataset:
    return sepsis.record(300, seed=1)


def test_recorded_patients_earn_what_their_treatment_is_worth(patients: Dataset) -> None:
    known = sepsis.tables()
    behaviour = sepsis.EXPERT * known["expert"][: sepsis.ALIVE] + (1 - sepsis.EXPERT) / sepsis.ACTIONS
    moves = np.einsum("sa,sat->st", behaviour, known["moves"][: sepsis.ALIVE, :, : sepsis.ALIVE])
    rewards = (behaviour * known["rewards"][: sepsis.ALIVE]).sum(axis=1)
    exact = known["first"][: sepsis.ALIVE] @ np.linalg.solve(np.eye(sepsis.ALIVE) - moves, rewards)
    assert len(patients.episode_starts) == 300
    assert patients.episode_returns.mean() == pytest.approx(exact, abs=0.08)
    assert set(np.unique(patients.require("rewards"))) == {0.0, 1.0}
    assert patients.require("rewards")[~patients.terminals].max() == 0.0


def test_the_ladder_goes_from_harmful_to_best(patients: Dataset) -> None:
    policies = sepsis.ladder(patients, 0)
    values = {name: sepsis.truth(each)["true"] for name, each in policies.items()}
    order = ["worst-100%", "worst-60%", "worst-30%", "clinicians", "best-30%", "best-60%", "best-100%"]
    assert sorted(order, key=values.__getitem__) == order
    # The table is found again from what is observed.
    acts = candidate(policies["clinicians"], patients).actions[:50, 0].astype(int)
    apart = np.abs(patients.observations[:50, None] - sepsis.tables()["centres"][: sepsis.ALIVE])
    states = apart.sum(axis=-1).argmin(axis=1)
    np.testing.assert_array_equal(acts, sepsis.tables()["expert"][states].argmax(axis=1))


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sepsis, "find_spec", lambda name: None)
    sepsis.tables.cache_clear()
    with pytest.raises(WaypostError, match=r"pip install 'waypost\[ope\]'"):
        sepsis.tables()


def policy(true: float, value: float | None, half: float = 0.5, **others: Any) -> dict[str, Any]:
    told = value is not None
    ends = {"low": value - half, "high": value + half} if value is not None else {"low": None, "high": None}
    return {"true": true, "true_return": 2 * true, "value": value, "verdict": "better" if told else "cannot tell"} | (
        ends | others
    )


ROWS = [
    policy(0.0, 0.1, d3rlpy=3.0),
    policy(1.0, 3.0, d3rlpy=2.0),
    policy(2.0, 2.4, d3rlpy=1.0),
    policy(4.0, None, withheld=9.0, d3rlpy=0.0),
]


def test_measures_of_an_estimator() -> None:
    found = summary.measures("task", ROWS, "judge")
    assert (found["policies"], found["told"], found["range"]) == (4, 3, 4.0)
    assert found["spearman"] == pytest.approx(0.5)
    # The first by the lower end is truly worth 1, the best of all policies 4.
    assert (found["regret1"], found["regret3"]) == (0.75, 0.5)
    assert found["coverage"] == pytest.approx(2 / 3)
    assert found["error"] == pytest.approx((0.1 + 2.0 + 0.4) / 3)
    all_of_them = summary.measures("task", ROWS, "judge, had it said all")
    assert (all_of_them["told"], all_of_them["regret1"]) == (4, 0.0)
    other = summary.measures("task", ROWS, "d3rlpy, all")
    assert other["spearman"] == pytest.approx(-1.0)
    assert other["coverage"] is None


def test_one_command_makes_the_table_and_the_figure(tmp_path: Path) -> None:
    rows = {f"p{place}": row for place, row in enumerate(ROWS)}
    (tmp_path / "t-maze.json").write_text(json.dumps({"policies": rows}))
    (tmp_path / "unfinished.json").write_text(json.dumps({"policies": {"p": {"true": 1.0}}}))
    text = summary.summarise(tmp_path)
    assert text == (tmp_path / "summary.md").read_text()
    assert text.count("\n") == 2 + 2 * len(summary.ESTIMATORS)
    assert "unfinished" not in text
    assert (tmp_path / "calibration.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "policies.csv").read_text().count("\n") == 5


def test_the_table_that_is_kept_is_that_of_the_results_that_are_kept(tmp_path: Path) -> None:
    for file in RESULTS.glob("*.json"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    assert summary.summarise(tmp_path) == (RESULTS / "summary.md").read_text()
    tasks = summary.read(RESULTS)
    assert sum(len(rows) for name, rows in tasks.items() if name != "icu-sepsis") >= 24
