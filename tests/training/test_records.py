"""The records of a run directory: whatever is in them, one line says what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import waypost
from waypost.errors import WaypostError
from waypost.training.plan import plan, read_plan, same_plan
from waypost.training.records import LARGEST, checkpoint_record, read_config, read_result
from waypost.training.runs import result

DAMAGED = {
    "[]": "it must be a table of names and values, got []",
    "null": "it must be a table of names and values, got None",
    "[" * 100_000: "recursion",
    '{"a": 1, "a": 2}': "a appears twice",
    "{}": "algorithm is missing",
    "9" * 5_000: "5000 digits",
    "\xff": "can't decode byte 0xff",
}


@pytest.mark.parametrize("text", DAMAGED, ids=lambda text: text[:12])
@pytest.mark.parametrize(("name", "read"), [("config.json", read_config), ("result.json", read_result)])
def test_a_record_that_is_none_says_why(name: str, read: Any, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    with pytest.raises(WaypostError) as caught:
        read(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / name}: ")
    assert DAMAGED[text] in str(caught.value)


def test_a_huge_record_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "config.json").open("wb") as file:
        file.truncate(LARGEST + 1)
    with pytest.raises(WaypostError, match=f"has {LARGEST + 1} bytes"):
        read_config(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("config", {"batch_size": True}, "config.batch_size must be a whole number, got True"),
        ("config", {"batch_size": 0}, "config: batch_size must be 1 or more, got 0"),
        ("config", {"size": 1}, "config has unknown fields: 'size'"),
        ("config", [], "config must be a table of names and values, got []"),
        ("algorithm", ["bc"], "algorithm must be a text, got ['bc']"),
        ("algorithm", "xx", "no algorithm is called 'xx'"),
        ("steps", 20.5, "steps must be a whole number, got 20.5"),
        ("seeds", 3, "seeds must be a list, each a whole number, got 3"),
        ("seeds", [2**40], "seeds must be 4294967295 or less, got 1099511627776"),
        ("evaluation", {"episodes": "x"}, "evaluation.episodes must be a whole number, got 'x'"),
        ("columns", {"actions": "x"}, "columns.actions must be a list, each a text, got 'x'"),
        ("rewards", "x", "rewards must be"),
        ("streamed", "x", "streamed must be true or false, got 'x'"),
    ],
)
def test_a_field_of_another_type_is_named(name: str, value: Any, message: str, tmp_path: Path) -> None:
    asked = plan("bc", "t-maze")
    (tmp_path / "config.json").write_text(json.dumps({**asked.to_json(), name: value}))
    for read in (read_plan, lambda directory: same_plan(asked, directory)):
        with pytest.raises(WaypostError) as caught:
            read(tmp_path)
        assert str(caught.value).startswith(f"{tmp_path / 'config.json'}: ")
        assert message in str(caught.value)


def test_a_plan_is_read_back_and_may_have_company(tmp_path: Path) -> None:
    asked = plan("por", "t-maze", seeds=[3, 5], columns=waypost.Columns(actions=("a", "b"), choices=0))
    deep: Any = 1
    for _ in range(900):
        deep = {"a": deep}
    (tmp_path / "config.json").write_text(json.dumps({**asked.to_json(), "later": deep}))
    assert read_plan(tmp_path) == asked
    assert same_plan(asked, tmp_path)["seeds"] == [3, 5]


HEAD = {"step": 1, "seconds": 0.5}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (None, "it must be a table of names and values, got None"),
        ({**HEAD, "metrics": []}, "evaluations is missing"),
        ({"metrics": [], "evaluations": []}, "step is missing"),
        ({**HEAD, "metrics": [{"step": 1}], "evaluations": []}, "metrics[0].seed is missing"),
        ({**HEAD, "metrics": [{"step": 1, "seed": 0, "loss": []}], "evaluations": []}, "neither a number nor text"),
    ],
)
def test_the_tables_of_a_checkpoint_are_checked(record: Any, message: str) -> None:
    with pytest.raises(WaypostError) as caught:
        checkpoint_record(record, Path("state"))
    assert str(caught.value).startswith("state: ")
    assert message in str(caught.value)
    row = {"step": 1, "seed": 0, "loss": 0.5, "stage": "all", "score": None}
    whole = {**HEAD, "metrics": [row], "evaluations": []}
    assert checkpoint_record(whole, Path("state")) == whole


def test_an_outcome_is_read_back(tmp_path: Path) -> None:
    row = {"return": 1.0, "score": None, "success_rate": 0.5, "episode_length": 3.0}
    outcome = result("bc", "t-maze", None, 5, [{"seed": 0, **row}], 1.5)
    (tmp_path / "result.json").write_text(json.dumps({**outcome, "later": [1]}))
    assert read_result(tmp_path) == {**outcome, "later": [1]}
    for name, value, message in (
        ("seconds", "x", "seconds must be a finite number, got 'x'"),
        ("per_seed", [[]], "per_seed[0] must be a table of names and values, got []"),
        ("mean", {}, "mean.return is missing"),
    ):
        (tmp_path / "result.json").write_text(json.dumps({**outcome, name: value}))
        with pytest.raises(WaypostError) as caught:
            read_result(tmp_path)
        assert str(caught.value) == f"{tmp_path / 'result.json'}: {message}"
