"""What makes a plan the same as one that was saved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from waypost.data.pipeline import Learned, Pipeline
from waypost.data.roles import Columns
from waypost.envs.tasks import Protocol
from waypost.errors import WaypostError
from waypost.files import write_json
from waypost.training.plan import plan, read_plan, same_plan, seeds_from


@pytest.mark.parametrize("name", ["data", "init"])
def test_a_path_may_be_spelled_in_several_ways(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    asked = plan("bc", "t-maze")
    write_json(tmp_path / "run" / "config.json", replace(asked, **{name: "../donor"}).to_json())
    for same in ("../donor", ".././donor", str(tmp_path / "donor")):
        same_plan(replace(asked, **{name: same}), tmp_path / "run")
    for other in ("donor", str(tmp_path / "donor" / "more")):
        with pytest.raises(WaypostError, match=f"was started with {name} = '../donor'"):
            same_plan(replace(asked, **{name: other}), tmp_path / "run")


def test_runs_that_knew_of_no_pipeline_can_be_resumed(tmp_path: Path) -> None:
    asked = plan("bc", "t-maze")
    older = asked.to_json()
    del older["pipeline"]
    write_json(tmp_path / "run" / "config.json", older)
    same_plan(asked, tmp_path / "run")
    assert read_plan(tmp_path / "run").pipeline.max_gap == 0
    write_json(tmp_path / "run" / "config.json", asked.to_json())
    with pytest.raises(WaypostError, match=r"was started with pipeline.history = 1, got 2"):
        same_plan(replace(asked, pipeline=Pipeline(history=2)), tmp_path / "run")
    learned = Pipeline(missing=("mean",), learned=Learned(means={"x": 1.0}))
    write_json(tmp_path / "run" / "config.json", replace(asked, pipeline=learned).to_json())
    same_plan(replace(asked, pipeline=Pipeline(missing=("mean",))), tmp_path / "run")


def test_nothing_is_not_the_same_as_something(tmp_path: Path) -> None:
    asked = plan("bc", "t-maze")
    write_json(tmp_path / "run" / "config.json", asked.to_json())
    same_plan(asked, tmp_path / "run")
    with pytest.raises(WaypostError, match="was started with init = None, got 'donor'"):
        same_plan(replace(asked, init="donor"), tmp_path / "run")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 10**20}, "steps must have fewer than 20 digits, got 100000000000000000000"),
        ({"steps": 2**31}, "steps must be 2147483647 or less, got 2147483648"),
        ({"steps": 20.5}, "steps must be a whole number, got 20.5"),
        ({"log_every": True}, "log_every must be a whole number, got True"),
        ({"seeds": 10**9}, "seeds must be a number from 1 to 10000, got 1000000000"),
        ({"seeds": 0}, "seeds must be a number from 1 to 10000, got 0"),
        ({"seeds": [2**32]}, "seeds must be 4294967295 or less, got 4294967296"),
        ({"seeds": ["x"]}, "seeds[0] must be a whole number, got 'x'"),
        ({"stream": "perhaps"}, "stream must be auto or always or never, got 'perhaps'"),
        ({"batch_size": "x"}, "batch_size must be a whole number, got 'x'"),
        ({"evaluation": Protocol}, "evaluation must be a table of names and values"),
    ],
)
def test_a_plan_that_cannot_be_meant_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(WaypostError) as caught:
        plan("bc", "t-maze", **options)
    assert str(caught.value).startswith(message)


def test_seeds_count_up_from_the_first() -> None:
    assert seeds_from(2, 7) == (7, 8)
    with pytest.raises(WaypostError, match="the first seed must be from 0 to 4294967295, got 99999999999999999999"):
        seeds_from(1, 10**20 - 1)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("episodes", 10**14, "evaluation episodes must be at most 1000000"),
        ("every", 2**40, "evaluation every must be at most 2147483647"),
        ("seed", 2**32, "evaluation seed must be at most 4294967295"),
        ("last", 1.5, "last must be a whole number, got 1.5"),
    ],
)
def test_a_protocol_that_cannot_be_meant_is_refused(field: str, value: Any, message: str) -> None:
    with pytest.raises(WaypostError, match=message):
        Protocol(**{field: value})


def test_columns_are_names(tmp_path: Path) -> None:
    with pytest.raises(WaypostError, match="observations must be a list, each a text, got 'x'"):
        Columns(observations="x")  # type: ignore[arg-type]
    with pytest.raises(WaypostError, match=r"columns\.choices must be 1000000 or less"):
        Columns(choices=2**62)
