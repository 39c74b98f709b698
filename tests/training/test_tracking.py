"""What other tools are told of a training; TensorBoard's files and trackio's data base are read back."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tensorboardX.proto.event_pb2 import Event

import waypost
from waypost.cli import main
from waypost.errors import WaypostError
from waypost.training.plan import plan
from waypost.training.tracking import Tracking

ONE = [{"step": 10, "stage": "policy", "seed": 0, "policy_loss": 0.5, "note": None}]
TWO = [{"step": 20, "seed": seed, "score": float(seed), "success_rate": None} for seed in (3, 4)]


def tell(tracking: Tracking, done: int = 0, rows: list[dict[str, Any]] = ONE) -> None:
    tracking.start(plan("bc", "t-maze"), 100, done)
    tracking.logged(rows[0]["step"], rows)
    tracking.evaluated(20, TWO)
    tracking.stop()
    tracking.stop()


def events(folder: Path) -> Iterator[tuple[str, int, float]]:
    """Every number in the event files: records of a length, its checksum, an event and its checksum."""
    for file in sorted(folder.glob("events*")):
        content, place = file.read_bytes(), 0
        while place < len(content):
            (size,) = struct.unpack_from("<Q", content, place)
            event = Event.FromString(content[place + 12 : place + 12 + size])
            place += 16 + size
            yield from ((each.tag, event.step, each.simple_value) for each in event.summary.value)


def test_tensorboard_finds_the_numbers_in_the_run_directory(tmp_path: Path) -> None:
    tell(Tracking("tensorboard", tmp_path / "run"))
    assert list(events(tmp_path / "run" / "tensorboard")) == [
        ("metrics/policy_loss", 10, 0.5),
        ("evaluations/score/seed-3", 20, 3.0),
        ("evaluations/score/seed-4", 20, 4.0),
    ]


def test_trackio_keeps_the_numbers_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    storage = import_module("trackio.sqlite_storage")
    for module in [each for name, each in sys.modules.items() if name.startswith("trackio")]:
        if hasattr(module, "TRACKIO_DIR"):
            monkeypatch.setattr(module, "TRACKIO_DIR", tmp_path)
    tell(Tracking("trackio", tmp_path / "tank"))
    tell(Tracking("trackio", tmp_path / "tank"), done=10, rows=[{**ONE[0], "step": 15}])
    logs = storage.SQLiteStorage.get_logs("waypost", "tank")
    told = {(row["step"], name): value for row in logs for name, value in row.items() if "/" in name}
    assert told == {
        (10, "metrics/policy_loss"): 0.5,
        (15, "metrics/policy_loss"): 0.5,
        (20, "evaluations/score/seed-3"): 3.0,
        (20, "evaluations/score/seed-4"): 4.0,
    }
    assert capfd.readouterr().out == ""


def test_wandb_counts_our_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    class Run:
        def log(self, values: dict[str, float]) -> None:
            told.append(values)

        def define_metric(self, *names: str, **options: str) -> None:
            told.append((*names, options))

        def finish(self) -> None:
            print("finished")
            told.append("finished")

    def init(**options: Any) -> Run:
        told.append(options)
        return Run()

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    tell(Tracking("wandb", tmp_path / "tank"))
    begun, *rest = told
    assert (begun["project"], begun["name"], begun["resume"]) == ("waypost", "tank", "allow")
    assert begun["config"]["algorithm"] == "bc"
    assert rest == [
        ("step", {}),
        ("*", {"step_metric": "step"}),
        {"metrics/policy_loss": 0.5, "step": 10},
        {"evaluations/score/seed-3": 3.0, "evaluations/score/seed-4": 4.0, "step": 20},
        "finished",
    ]
    told.clear()
    tell(Tracking("wandb", tmp_path / "tank"), done=10)
    assert told[0]["id"] == begun["id"], "a resumed run continues where it was"


@pytest.mark.parametrize(
    ("kind", "module"), [("tensorboard", "tensorboardX"), ("wandb", "wandb"), ("trackio", "trackio")]
)
def test_a_missing_tool_is_named_before_anything_is_read(
    kind: Any, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(WaypostError, match=rf"needs {module}; pip install 'waypost\[{kind}\]'"):
        Tracking(kind, tmp_path)


def test_an_unknown_tool_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WaypostError, match="tracking must be one of tensorboard, wandb, trackio, got 'paper'"):
        Tracking("paper", tmp_path)  # type: ignore[arg-type]


def test_a_training_is_tracked_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("waypost.report.finished.RunPage.finished", lambda *_: None)  # no page is drawn
    line = "train bc --data t-maze --env none --steps 4 --log-every 2 --hidden 8 --batch-size 8 --track tensorboard"
    with pytest.raises(SystemExit) as stop:
        main([*line.split(), "--out", str(tmp_path / "run")])
    assert stop.value.code == 0, capfd.readouterr().err
    run = waypost.load_run(tmp_path / "run")
    told = {(name, step): value for name, step, value in events(tmp_path / "run" / "tensorboard")}
    assert told == {
        (f"metrics/{name}", row["step"]): pytest.approx(row[name])
        for row in run.metrics
        for name in row.keys() - {"step", "seed", "stage"}
    }
