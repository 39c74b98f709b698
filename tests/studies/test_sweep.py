"""Sweeps: what is tried, what is stopped, and what is written."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from waypost.cli import main
from waypost.envs.tasks import Protocol
from waypost.errors import WaypostError
from waypost.files import table, write_text
from waypost.report.sweep import render_sweep, write_sweep
from waypost.studies import measures, workers
from waypost.studies.candidates import Range
from waypost.studies.results import NotTrained
from waypost.studies.sweep import Early, Sweep, sweep
from waypost.studies.trials import Trial, identity, status
from waypost.studies.workers import Feed, Outcome, only_read
from waypost.training.callbacks import Callback
from waypost.training.runs import Run, result

SETTINGS: dict[str, Any] = {"hidden": (8,), "batch_size": 8, "preset": "none", "log_every": 10}
MEASURES = {"return": 2.0, "score": 0.0, "success_rate": 0.5, "episode_length": 3.0}


class Trained:
    """Trains nothing: writes what a run directory would hold, where the score is the batch size at every step."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int | None]] = []
        self.names: list[str] = []

    def __call__(self, trials: Feed, callback: Callback) -> Iterator[tuple[Trial, Outcome]]:
        for trial in trials:
            if trial is not None:
                self.asked.append((trial.plan.config.batch_size, trial.until))
                self.names.append(trial.name)
                yield trial, self.outcome(trial)

    def outcome(self, trial: Trial) -> Outcome:
        step, score = trial.until or trial.total, float(trial.plan.config.batch_size)
        rows = [{"step": step, "seed": seed, **MEASURES, "score": score + seed} for seed in trial.plan.seeds]
        losses = [{"step": step, "seed": seed, "held_out_policy_loss": -score} for seed in trial.plan.seeds]
        for name, own in (("evaluations", rows), ("metrics", losses)):
            write_text(trial.place / f"{name}.csv", table(list(own[0]), own))
        if trial.until is not None:
            return NotTrained(f"paused at step {step}")
        write_text(trial.place / "result.json", "{}")
        outcome = result("bc", "t-maze", None, trial.total, rows, 60.0)
        return Run(trial.plan, outcome, [], losses, rows, trial.place)


def swept(out: Path, runner: Any, sizes: tuple[int, ...] = (8, 16), **options: Any) -> Sweep:
    given = {"seeds": 2, "steps": 900, "settings": SETTINGS, "evaluation": lambda usual: Protocol(every=100)}
    return sweep("bc", "t-maze", {"batch_size": sizes}, out=out, runner=runner, **{**given, **options})


def test_every_combination_is_a_run_directory_and_a_row(tmp_path: Path) -> None:
    runner = Trained()
    grid: dict[str, list[Any]] = {"batch_size": [8, 16], "learning_rate": [0.1, 0.2]}
    found = sweep("bc", "t-maze", grid, out=tmp_path, seeds=2, steps=900, settings=SETTINGS, runner=runner)
    assert [row.label for row in found.rows] == [
        "batch_size=16 learning_rate=0.1",
        "batch_size=16 learning_rate=0.2",
        "batch_size=8 learning_rate=0.1",
        "batch_size=8 learning_rate=0.2",
    ]
    assert [row.rank for row in found.rows] == [1.5, 1.5, 3.5, 3.5]
    best = found.best
    assert best is not None
    assert (best.mean, best.values, best.spread, best.seconds) == (16.5, (16.0, 17.0), [16.0, 17.0], 60.0)
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {row.directory.name for row in found.rows}
    write_sweep(found, tmp_path)
    rows = list(csv.DictReader((tmp_path / "results.csv").read_text().splitlines()))
    assert (rows[0]["batch_size"], rows[0]["learning_rate"], rows[0]["mean"]) == ("16", "0.1", "16.5")
    assert (tmp_path / "results.md").read_text().count("batch_size=") == 4
    record = json.loads((tmp_path / "results.json").read_text())
    assert record["best"] == {"batch_size": 16, "learning_rate": 0.1}
    assert len(record["trials"]) == 4
    assert "4 trials; best: batch_size=16 learning_rate=0.1, score 16.5" in (tmp_path / "sweep.html").read_text()


def test_hopeless_trials_stop_and_stay_stopped(tmp_path: Path) -> None:
    runner, sizes = Trained(), (16, 8, 32)
    found = swept(tmp_path, runner, sizes, early=Early())
    assert runner.names[0] == "batch_size=16"
    assert runner.asked == [(16, 100), (16, 300), (16, None), (8, 100), (32, 100), (32, 300), (32, None)]
    assert [row.label for row in found.rows] == ["batch_size=32", "batch_size=16", "batch_size=8"]
    assert found.rows[-1].note == "stopped at step 100, where its score was 8.5"
    assert "stopped at step 100" in render_sweep(found)
    again = Trained()
    for row in found.rows[:2]:
        (row.directory / "result.json").unlink()
    found = swept(tmp_path, again, sizes, early=Early())
    assert again.asked == [(16, None), (32, None)], "it goes on where it was, and nothing is decided twice"
    assert found.rows[-1].note == "stopped at step 100, where its score was 8.5"
    assert len(swept(tmp_path, Trained(), sizes).rows[-1].values) == 2, "without stopping it is trained to the end"


def test_a_loss_is_better_when_it_is_lower(tmp_path: Path) -> None:
    found = swept(tmp_path, Trained(), measure="held_out_policy_loss", early=Early(first=300))
    assert [(row.label, row.mean) for row in found.rows] == [("batch_size=16", -16.0), ("batch_size=8", -8.0)]
    assert found.rows[0].run is not None
    assert found.rows[0].run.plan.hold_out == 0.1


def test_a_judgement_is_asked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[int] = []

    def judge_runs(runs: list[Run], **options: int) -> Any:
        assert options == {"members": 5, "steps": 3_000}
        judged.append(runs[0].plan.config.batch_size)
        return {None: [0.0], "bc": [1.0 * judged[-1]]}, {}

    monkeypatch.setattr(measures, "judge_runs", judge_runs)
    for _ in range(2):
        found = swept(tmp_path, Trained(), measure="value")
        assert [row.mean for row in found.rows] == [16.0, 8.0]
    assert judged == [8, 16]
    (tmp_path / "trials.json").unlink()
    monkeypatch.setattr(workers, "_read", Trained().outcome)
    shown = swept(tmp_path, only_read, measure="value")
    assert [row.note for row in shown.rows] == ["no value: not estimated yet"] * 2
    assert judged == [8, 16], "looking takes no time"
    monkeypatch.setattr(measures, "judge_runs", lambda runs, **options: ({None: [0.0]}, {"bc": "nobody can tell"}))
    (row, *_) = swept(tmp_path / "unknown", Trained(), measure="value").rows
    assert (row.mean, row.note) == (None, f"no value: `waypost judge {row.directory}` says why")
    monkeypatch.setattr(measures, "judge_runs", judge_runs)
    monkeypatch.setattr(measures, "load_policies", lambda place: [])
    swept(tmp_path / "early", Trained(), measure="value", early=Early(first=300))
    assert judged[2:] == [8, 8, 16, 16], "at the rung and in the end"


def test_optuna_chooses_and_goes_on_after_an_interruption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {"sizes": (8, 16, 32), "ranges": {"learning_rate": Range(0.1, 0.9)}, "trials": 6}
    whole = swept(tmp_path / "whole", Trained(), **asked)
    assert len(whole.rows) == 6

    class Killed(Trained):
        def outcome(self, trial: Trial) -> Outcome:
            if len(self.asked) == 4:
                raise KeyboardInterrupt
            return super().outcome(trial)

    with pytest.raises(KeyboardInterrupt):
        swept(tmp_path / "killed", Killed(), **asked)
    kept = (tmp_path / "killed" / "trials.json").read_text()
    monkeypatch.setattr(workers, "_read", lambda trial: NotTrained("running"))
    shown = swept(tmp_path / "killed", only_read, **asked)
    assert len(shown.rows) == 4, "nothing is suggested only to be shown"
    assert (tmp_path / "killed" / "trials.json").read_text() == kept
    found = swept(tmp_path / "killed", Trained(), **asked)
    assert [row.settings for row in found.rows] == [row.settings for row in whole.rows]
    assert "learning_rate=0." in found.rows[0].label
    assert max(len(row.label) for row in found.rows) < 40, "with few digits"
    with pytest.raises(NotTrained, match="no trials yet"):
        swept(tmp_path / "new", only_read, **asked)


def test_the_state_is_shown_at_any_time(tmp_path: Path) -> None:
    found = swept(tmp_path, only_read)
    assert not (tmp_path / "trials.json").exists()
    assert [row.note for row in found.rows] == ["not trained yet"] * 2
    assert found.best is None
    assert "no results" in render_sweep(found)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sizes": ()}, "nothing to try"),
        ({"sizes": (0,)}, "batch_size must be"),
        ({"ranges": {"tau": Range(0.1, 0.2)}}, "ranges need a search"),
        ({"ranges": {"batch_size": Range(1, 2)}, "trials": 2}, "batch_size: in both --grid and --range"),
        ({"ranges": {"learning_rate": Range(-1.0, 2.0)}, "trials": 2}, "learning_rate must be"),
        ({"measure": "beauty"}, "measure must be one of return, score"),
        ({"early": Early(), "evaluation": lambda usual: Protocol(every=0)}, "add for example --evaluate-every 100"),
        ({"env": "none", "measure": "score"}, "has no simulator to measure the score in"),
    ],
)
def test_mistakes_are_named_before_any_work(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    if options.get("sizes") == ():
        with pytest.raises(WaypostError, match=words):
            sweep("bc", "t-maze", {}, out=tmp_path / "out")
    else:
        with pytest.raises(WaypostError, match=words):
            swept(tmp_path / "out", Trained(), **options)
    assert not (tmp_path / "out").exists()


def test_the_command_trains_and_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text("[bc]\nhidden = [8]\nbatch_size = 8\n")
    line = "sweep bc --data t-maze --grid learning_rate=0.001 --seeds 1 --steps 4 --episodes 1 --json"
    line += f" --evaluate-every 2 --stop-early --first-rung 2 --settings {settings} --out {tmp_path / 'out'}"
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    said = capsys.readouterr()
    assert ended.value.code == 0, said.err
    record = json.loads(said.out.splitlines()[-1])
    (trial,) = record["trials"]
    assert (trial["settings"], trial["steps"], len(trial["values"])) == ({"learning_rate": 0.001}, 4, 1)
    assert (Path(trial["directory"]) / "result.json").is_file()
    assert (tmp_path / "out" / "sweep.html").is_file()
    with pytest.raises(SystemExit) as ended:
        main(f"{line} --trials 3".split())
    assert ended.value.code == 2
    assert "--search optuna needs --trials N" in capsys.readouterr().err


def test_a_measure_that_is_not_there_is_named(tmp_path: Path) -> None:
    trial_runner = Trained()
    with pytest.raises(WaypostError, match="there is no held_out_luck; choose from held_out_policy_loss"):
        swept(tmp_path, trial_runner, measure="held_out_luck")
    assert trial_runner.asked


def test_names_are_those_of_trials(tmp_path: Path) -> None:
    found = swept(tmp_path, Trained())
    for row in found.rows:
        assert row.run is not None
        assert row.directory.name == identity(row.run.plan)
        assert status(Trial(replace(row.run.plan), "t-maze", row.directory)).state == "finished"
