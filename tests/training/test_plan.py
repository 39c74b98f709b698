"""What makes a plan the same as one that was saved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from waypost.errors import WaypostError
from waypost.files import write_json
from waypost.training.plan import plan, same_plan


@pytest.mark.parametrize("name", ["data", "init"])
def test_a_path_may_be_spelled_in_several_ways(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    asked = plan("bc", "t-maze")
    write_json(tmp_path / "run" / "config.json", replace(asked, **{name: "../donor"}).to_json())
    for same in ("../donor", ".././donor", str(tmp_path / "donor")):
        same_plan(replace(asked, **{name: same}), tmp_path / "run")
    for other in ("donor", str(tmp_path / "donor" / "more")):
        with pytest.raises(WaypostError, match=f"began with {name} = '../donor'"):
            same_plan(replace(asked, **{name: other}), tmp_path / "run")


def test_nothing_is_not_the_same_as_something(tmp_path: Path) -> None:
    asked = plan("bc", "t-maze")
    write_json(tmp_path / "run" / "config.json", asked.to_json())
    same_plan(asked, tmp_path / "run")
    with pytest.raises(WaypostError, match="began with init = None, asked for 'donor'"):
        same_plan(replace(asked, init="donor"), tmp_path / "run")
