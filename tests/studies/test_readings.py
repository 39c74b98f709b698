"""Runs and policies remember how their data were read, and read new files the same way."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from samples import TINY

import waypost
from waypost import Columns, Pipeline, WaypostError
from waypost.cli import main
from waypost.report.page import Report, render_report
from waypost.report.run import write_report
from waypost.training.plan import read_plan

COLUMNS = Columns(observations=("temp", "mode"), actions=("heat",), episode="batch")
PIPELINE = Pipeline(categories=("one-hot",), missing=("temp=mean",), history=2, reward="-abs(temp - 50) - 20*trip")
ROLES = ["--columns.observations", "temp", "mode", "--columns.actions", "heat", "--columns.episode", "batch"]
LINE = [*ROLES, "--categories", "one-hot", "--missing", "temp=mean", "--history", "2"]


def write(path: Path, seed: int, words: tuple[str, ...] = ("auto", "hand"), heat: bool = True) -> Path:
    rng, lines = np.random.default_rng(seed), ["batch,temp,mode,trip" + ",heat" * heat]
    for batch in range(3):
        for row in range(12):
            temp = "" if row == 5 else f"{rng.normal(40, 5):.2f}"
            rest = f",{rng.uniform(0, 100):.1f}" if heat else ""
            lines.append(f"{batch},{temp},{words[row % len(words)]},{int(row == 11)}{rest}")
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two days of a log, a third one, and a run trained on the first two."""
    folder = tmp_path_factory.mktemp("plant")
    for day in (1, 2):
        write(folder / "logs" / f"day{day}.csv", day)
    write(folder / "new.csv", 3, ("hand",))
    write(folder / "seen.csv", 4, heat=False)
    options = {"steps": 2, "log_every": 2, "batch_size": 8} | TINY
    waypost.train("por", f"{folder}/logs/*.csv", columns=COLUMNS, pipeline=PIPELINE, out=folder / "run", **options)
    return folder


def test_config_and_policy_hold_names_and_what_was_learned(folder: Path) -> None:
    planned, policy = read_plan(folder / "run"), waypost.Policy.load(folder / "run")
    assert planned.columns == COLUMNS
    assert planned.pipeline.learned is not None
    assert planned.pipeline.learned.categories == {"mode": ("auto", "hand")}
    assert list(planned.pipeline.learned.means) == ["temp"]
    assert policy.reading is not None
    assert (policy.reading.columns, policy.reading.pipeline) == (planned.columns, planned.pipeline)
    assert policy.spec.observation_names[3:] == ("temp", "mode=auto", "mode=hand")
    assert policy.spec.action_names == ("heat",)
    record = json.loads((folder / "run" / "policy" / "policy.json").read_text())
    assert record["spec"]["history"] == 2


def test_the_page_of_a_run_has_the_names(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Report] = []
    monkeypatch.setattr("waypost.report.run.render_report", lambda report: shown.append(report) or "")
    write_report(waypost.load_run(folder / "run"), folder / "page.html")
    assert dict(shown[0].names)["action"] == "heat"
    page = render_report(replace(shown[0], metrics={}))
    assert "Action: heat" in page
    assert "temp[-1], mode=auto[-1], mode=hand[-1], temp, mode=auto, mode=hand" in page


def test_the_policy_acts_on_single_rows_and_says_what_it_expects(folder: Path) -> None:
    policy = waypost.Policy.load(folder / "run")
    first = policy.observation({"temp": 41.0, "mode": "hand"})
    second = policy.observation({"temp": None, "mode": "auto"})
    assert first.tolist() == [41, 0, 1]
    memory = policy.start(1)
    one, memory = policy.act_with_memory(first[None], memory)
    two, memory = policy.act_with_memory(second[None], memory)
    np.testing.assert_allclose(one[0], policy.act(np.concatenate([first, first])), rtol=1e-5)
    np.testing.assert_allclose(two[0], policy.act(np.concatenate([first, second])), rtol=1e-5)
    with pytest.raises(WaypostError, match=r"must have shape \(6,\).*2 rows of 3 side by side.*act_with_memory"):
        policy.act(first)
    holes = np.concatenate([first, second])
    holes[0] = np.nan
    filled = np.concatenate([second[:1], holes[1:]])
    np.testing.assert_array_equal(policy.act(holes), policy.act(filled))
    with pytest.raises(WaypostError, match="NaN or infinite in mode=auto"):
        policy.act(np.full(6, np.nan))


def test_resuming_a_finished_run_needs_nothing_learned(folder: Path) -> None:
    options = {"steps": 2, "log_every": 2, "batch_size": 8} | TINY
    data = f"{folder}/logs/*.csv"
    run = waypost.train("por", data, columns=COLUMNS, pipeline=PIPELINE, out=folder / "run", resume=True, **options)
    assert run.plan.pipeline.learned is not None
    with pytest.raises(WaypostError, match=r"was started with pipeline.history = 2, got 1"):
        other = replace(PIPELINE, history=1)
        waypost.train("por", data, columns=COLUMNS, pipeline=other, out=folder / "run", resume=True, **options)


def test_new_files_are_read_as_the_run_read_its_own(folder: Path) -> None:
    diagnosis = waypost.diagnose(folder / "run", folder / "new.csv", states=10, neighbours=2)
    assert len(diagnosis.measures["gap"]) == 10
    # No heat is needed to learn where to go; the reward may be another.
    adapted = waypost.adapt(folder / "run", folder / "seen.csv", reward="-abs(temp - 30)", steps=1)
    assert adapted.run.plan.pipeline.history == 2
    assert adapted.run.plan.pipeline.reward == "-abs(temp - 30)"


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    return int(stop.value.code or 0)


def test_every_command_that_takes_data_takes_a_mapping(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "new.npz"
    assert call("convert", folder / "new.csv", out, "--columns-from", folder / "run") == 0
    data = waypost.load(out)
    # The run's categories, though the new file has one of them only.
    assert data.observation_names[3:] == ("temp", "mode=auto", "mode=hand")
    assert data.action_names == ("heat",)
    assert data.history == 2
    assert data.rewards is not None
    assert data.rewards[11] < -20
    days = [folder / "logs" / f"day{day}.csv" for day in (1, 2)]
    absent = ["--missing-values", "-9999", "temp=-1"]
    assert call("inspect", *days, *LINE, *absent, "--reward", "-abs(temp - 50)") == 0
    assert call("inspect", folder / "new.csv", "--columns-from", folder / "run", "--history", 3) == 0
    quick = ["--states", 10, "--neighbours", 2, "--out", tmp_path / "diagnosis"]
    assert call("diagnose", folder / "run", "--data", *days, *quick) == 0
    bc = ["--steps", 1, "--hidden", 4, "--env", "none", "--out", tmp_path / "bc"]
    assert call("train", "bc", "--data", *days, "--columns-from", folder / "run", *bc) == 0
    assert read_plan(tmp_path / "bc").pipeline == read_plan(folder / "run").pipeline
    options = ["--steps", 1, "--out", tmp_path / "adapted", "--env", "none"]
    assert call("adapt", folder / "run", "--reward", "-abs(next_temp - 30)", *options) == 0
    assert read_plan(tmp_path / "adapted").pipeline.reward == "-abs(next_temp - 30)"


def test_a_window_is_kept_while_an_agent_is_evaluated(tmp_path: Path) -> None:
    how = {"pipeline": Pipeline(history=2), "steps": 2, "hidden": (4,), "preset": "none"}
    run = waypost.train("bc", "t-maze", evaluation=waypost.Protocol(episodes=1), out=tmp_path / "run", **how)
    assert run.policy.spec.observation_size == 4
    assert run.result["mean"]["return"] is not None
    assert waypost.evaluate(tmp_path / "run")["per_seed"] == run.result["per_seed"]


def test_a_comparison_reads_logs_as_it_is_told(tmp_path: Path) -> None:
    data = waypost.load("t-maze")
    lines = ["east,north,dx,dy,won,over"]
    for row in range(60):
        cells = [*data.observations[row], *data.actions[row], data.rewards[row], int(data.ends[row])]
        lines.append(",".join(f"{cell:g}" for cell in cells))
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    roles = {"observations": ("east", "north"), "actions": ("dx", "dy"), "timeouts": "over"}
    found = waypost.compare(
        [f"{tmp_path}/l*.csv"],
        ["bc"],
        out=tmp_path / "out",
        env="t-maze",
        seeds=1,
        steps=1,
        columns=Columns(**roles),
        pipeline=Pipeline(reward="won"),
        evaluation=waypost.Protocol(episodes=1),
        settings={"bc": {"hidden": (4,)}},
    )
    assert [entry.note for entry in found.entries] == ["", ""]
