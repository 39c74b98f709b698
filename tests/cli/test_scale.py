"""Options of commands that train many times, and what they show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from waypost.cli import main
from waypost.cli.scale import ScaleOptions
from waypost.console.trials import TrialsBar
from waypost.data.dataset import Dataset
from waypost.errors import WaypostError
from waypost.studies.trials import Status, Trial
from waypost.studies.workers import Here, OnRay, only_read
from waypost.training.plan import plan


def test_options_say_who_trains() -> None:
    assert ScaleOptions().runner() == Here()
    assert ScaleOptions(missing_only=True).runner() == Here(missing_only=True)
    assert ScaleOptions(workers=4, status=True).runner() is only_read
    found = ScaleOptions(workers=4, cpus_per_trial=2, gpus_per_trial=0.5, track=("trackio",)).runner()
    assert isinstance(found, OnRay)
    assert (found.workers, found.address, found.cpus, found.gpus, found.track) == (4, None, 2, 0.5, ("trackio",))
    assert ScaleOptions(address="auto").runner().workers is None
    with pytest.raises(WaypostError, match="are for Ray: add --workers or --address"):
        ScaleOptions(cpus_per_trial=2).runner()


def test_a_missing_ray_is_named_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    line = f"compare --data t-maze --algos bc --steps 4 --workers 2 --out {tmp_path / 'out'}"
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == 2
    assert "--workers or --address needs ray; pip install 'waypost[ray]'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_status_trains_nothing_and_says_how_far_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = f"compare --data t-maze --algos bc --steps 4 --status --json --out {tmp_path / 'out'}"
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    said = capsys.readouterr()
    assert ended.value.code == 0
    assert '"note": "not trained yet"' in said.out
    assert "bc on t-maze: not trained yet" in said.err
    assert not (tmp_path / "out" / "t-maze" / "bc").exists()


def test_many_trainings_are_on_one_screen(dataset: Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    trial: Any = Trial(plan("bc", dataset, steps=100), dataset, Path("walk/bc"))
    board = TrialsBar()
    board.begin(2)
    board.running(trial, Status("missing", 0, 100))
    assert [row.description for row in board.bar.tasks] == ["trainings", "walk/bc (starting)"]
    board.running(trial, Status("running", 40, 100))
    assert [(row.description, row.completed, row.total) for row in board.bar.tasks] == [
        ("trainings", 0, 2),
        ("walk/bc", 40, 100),
    ]
    board.ended(trial, "paused at step 40")
    assert [(row.completed, row.total) for row in board.bar.tasks] == [(1, 2)]
    board.running(trial, Status("running", 60, 100))
    assert [(row.completed, row.total) for row in board.bar.tasks] == [(0, 2), (60, 100)], "it goes on"
    board.ended(trial, "finished")
    assert [(row.completed, row.total) for row in board.bar.tasks] == [(1, 2)]
    board.close()
    assert "walk/bc: finished" in capsys.readouterr().err
