"""Trainings from data to run directory: contents, refusals, interruptions."""

from __future__ import annotations

import csv
import errno
import fcntl
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest
import safetensors.numpy
from samples import TINY, walk

import waypost
import waypost.data.large as large
import waypost.training.runs
from waypost.data.stream import Stream
from waypost.errors import WaypostError
from waypost.files import read_arrays, write_arrays
from waypost.training.callbacks import Callback
from waypost.training.plan import plan
from waypost.training.train import train

SMALL: dict[str, Any] = {**TINY, "steps": 40, "log_every": 10, "preset": "none"}
SCHEMA = {
    "algorithm", "data", "task", "suite", "steps", "per_seed", "mean", "std", "iqm", "range", "interval", "seconds",
    "versions",
}  # fmt: skip
MEASURES = {"return", "score", "success_rate", "episode_length"}


def small(out: Path | None = None, **options: Any) -> waypost.Run:
    protocol = waypost.Protocol(every=20, episodes=2)
    return waypost.train("por", "t-maze", out=out, evaluation=protocol, **{**SMALL, **options})


def table(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> waypost.Run:
    return small(tmp_path_factory.mktemp("runs") / "run", seeds=[3, 4])


# -- what a run leaves ---------------------------------------------------------------------------


def test_a_run_directory_holds_what_it_promises(finished: waypost.Run) -> None:
    folder = finished.directory
    assert folder is not None
    assert {path.name for path in folder.iterdir()} == {
        "config.json", "metrics.csv", "evaluations.csv", "result.json", "checkpoint", "policy", "report.html", ".lock",
    }  # fmt: skip
    config = json.loads((folder / "config.json").read_text())
    assert config["algorithm"] == "por"
    assert config["seeds"] == [3, 4]
    assert config["config"]["batch_size"] == 16
    metrics = table(folder / "metrics.csv")
    assert [(row["step"], row["seed"]) for row in metrics] == [(str(s), i) for s in (10, 20, 30, 40) for i in "34"]
    assert all(
        np.isfinite(float(row[name])) for row in metrics for name in ("value_loss", "guide_loss", "executor_loss")
    )
    assert [row["step"] for row in table(folder / "evaluations.csv")] == ["20", "20", "40", "40"]
    assert {path.name for path in (folder / "policy").iterdir()} == {
        "policy.json", "seed-3.safetensors", "seed-4.safetensors",
    }  # fmt: skip
    assert "t-maze" in (folder / "report.html").read_text()


def test_the_result_has_its_schema_and_its_numbers(finished: waypost.Run) -> None:
    result = json.loads((finished.directory / "result.json").read_text())
    assert result == finished.result
    assert set(result) == SCHEMA | {"alarms"}
    assert [set(each) for each in result["per_seed"]] == [MEASURES | {"seed"}] * 2
    last = [row for row in finished.evaluations if row["step"] == 40]
    for measure in MEASURES:
        values = [each[measure] for each in result["per_seed"]]
        assert values == [row[measure] for row in last]
        assert result["mean"][measure] == pytest.approx(np.mean(values))
    assert result["suite"] == "waypost"
    assert result["seconds"] > 0


def test_the_result_is_the_mean_of_the_last_evaluations() -> None:
    run = waypost.train("bc", "t-maze", steps=6, hidden=(4,), evaluation=waypost.Protocol(every=1, episodes=2, last=3))
    lengths = [row["episode_length"] for row in run.evaluations]
    assert len(lengths) == 6
    assert run.result["per_seed"][0]["episode_length"] == pytest.approx(np.mean(lengths[-3:]))


def test_saved_policies_act_exactly_as_trained(finished: waypost.Run) -> None:
    observations = np.random.default_rng(0).normal(size=(7, 2)).astype(np.float32)
    for policy in finished.policies:
        loaded = waypost.Policy.load(finished.directory, policy.seed)
        for question in ("act", "guide", "value"):
            answer = getattr(policy, question)(observations)
            assert np.array_equal(answer, getattr(loaded, question)(observations))
            assert np.allclose(answer[2], getattr(loaded, question)(observations[2]), atol=1e-6)
    assert not np.array_equal(*(policy.act(observations) for policy in finished.policies))
    with pytest.raises(WaypostError, match="no policy of seed 9"):
        waypost.Policy.load(finished.directory, 9)
    with pytest.raises(WaypostError, match=r"must have shape \(2,\) or \(batch, 2\)"):
        finished.policy.act(np.zeros(3))


def test_a_policy_can_be_saved_alone_and_holds_no_code(finished: waypost.Run, tmp_path: Path) -> None:
    finished.policy.save(tmp_path / "mine")
    assert {path.name for path in (tmp_path / "mine").iterdir()} == {"policy.json", "seed-3.safetensors"}
    assert np.array_equal(waypost.Policy.load(tmp_path / "mine").act([0.0, 0.0]), finished.policy.act([0.0, 0.0]))
    weights = tmp_path / "mine" / "seed-3.safetensors"
    weights.write_bytes(weights.read_bytes()[:-50])
    with pytest.raises(WaypostError, match=r"seed-3.safetensors: damaged"):
        waypost.Policy.load(tmp_path / "mine")


def test_evaluating_a_run_again_gives_the_same_numbers(finished: waypost.Run) -> None:
    for subject in (finished, finished.directory):
        again = waypost.evaluate(subject)
        assert set(again) == SCHEMA
        assert again["per_seed"] == finished.result["per_seed"]
    alone = waypost.evaluate(finished.policies[1], "t-maze", episodes=2, seed=12_345)
    assert alone["per_seed"] == finished.result["per_seed"][1:]


def test_without_a_simulator_there_are_no_scores(tmp_path: Path) -> None:
    run = waypost.train("por", walk(), out=tmp_path / "run", **SMALL)
    assert run.result["per_seed"] == [{"seed": 0, **dict.fromkeys(sorted(MEASURES))}]
    assert run.result["suite"] is None
    assert (tmp_path / "run" / "report.html").is_file()
    with pytest.raises(WaypostError, match="--env"):
        waypost.evaluate(tmp_path / "run")


def test_reward_conventions_reach_the_learner() -> None:
    raw = small(rewards="recorded").metrics[-1]
    shifted = small(rewards="goal").metrics[-1]
    assert small().metrics[-1] == shifted
    assert raw["value"] != shifted["value"]


# -- parts from another run ----------------------------------------------------------------------


@pytest.mark.slow
def test_guide_and_executor_trained_apart_act_together(tmp_path: Path) -> None:
    data = walk()
    executor = waypost.train("por", data.without_rewards(), out=tmp_path / "pi", training="executor", **SMALL)
    with pytest.raises(WaypostError, match="no trained guide"):
        executor.policy.act([0.0, 0.0])
    lonely = waypost.train("por", data.without_actions(), training="guide", **SMALL)
    with pytest.raises(WaypostError, match="no trained executor"):
        lonely.policy.act([0.0, 0.0])
    both = waypost.train(
        "por", data.without_actions(), out=tmp_path / "both", init=tmp_path / "pi", training="guide", **SMALL
    )
    for policy in (both.policy, waypost.Policy.load(tmp_path / "both")):
        assert policy.act([0.0, 0.0]).shape == (2,)
        trained = jax.tree.leaves(executor.policy.agent.executor)
        assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(policy.agent.executor), trained, strict=True))
    assert np.array_equal(both.policy.guide([0.5, 0.0]), lonely.policy.guide([0.5, 0.0]))
    with pytest.raises(WaypostError, match="other settings"):
        waypost.train("por", data, init=tmp_path / "pi", training="guide", **{**SMALL, "executor_hidden": (5,)})


# -- refusals ------------------------------------------------------------------------------------


def test_a_finished_run_is_refused_and_resuming_it_only_shows_it(finished: waypost.Run) -> None:
    before = snapshot(finished.directory)
    with pytest.raises(WaypostError, match="finished run"):
        small(finished.directory, seeds=[3, 4])
    again = small(finished.directory, seeds=[3, 4], resume=True)
    assert again.result == finished.result
    assert again.metrics == finished.metrics
    assert snapshot(finished.directory) == before


def test_other_settings_are_refused_by_name(finished: waypost.Run) -> None:
    for change, message in (
        ({"tau": 0.8}, "config.tau = 0.7, got 0.8"),
        ({"steps": 50}, "steps = 40, got 50"),
        ({"seeds": 1}, "seeds"),
    ):
        with pytest.raises(WaypostError, match=message):
            small(finished.directory, resume=True, **{"seeds": [3, 4], **change})


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(WaypostError, match="another process"):
            small(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_a_directory_of_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("everything")
    with pytest.raises(WaypostError, match="choose another --out"):
        small(tmp_path)
    assert snapshot(tmp_path) == {"thesis.tex": b"everything"}
    with pytest.raises(WaypostError, match="is a file"):
        small(tmp_path / "thesis.tex")


def test_mistakes_leave_nothing_behind(tmp_path: Path) -> None:
    for options, message in (
        ({"steps": -1}, "steps must be 0 or more, got -1"),
        ({"seeds": [1, 1]}, "different"),
        ({"tau": 2.0}, "tau"),
        ({"env": "nowhere"}, "nowhere"),
        ({"env": "four-rooms-key"}, "3 observations"),
        ({"preset": "hopper"}, "no preset 'hopper'"),
        ({"colour": 3}, "colour"),
        ({"init": tmp_path / "none"}, "policy.json"),
        ({"log_every": 0}, "log_every"),
    ):
        with pytest.raises(WaypostError, match=message):
            small(tmp_path / "run", **options)
        assert not (tmp_path / "run").exists(), message


def test_divergence_keeps_the_last_good_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(waypost.DivergenceError, match="step"):
        small(tmp_path / "run", value_learning_rate=1e30, log_every=20)
    with pytest.raises(WaypostError, match="unfinished run"):
        small(tmp_path / "run", value_learning_rate=1e30, log_every=20)


# -- interruptions -------------------------------------------------------------------------------

COMMAND = [
    sys.executable, "-m", "waypost", "train", "por", "--data", "t-maze", "--preset", "none", "--steps", "3000",
    "--seeds", "2", "--batch-size", "16", "--value-hidden", "8", "8", "--guide-hidden", "8", "8",
    "--executor-hidden", "8", "8", "--evaluate-every", "150", "--episodes", "1", "--log-every", "50",
    "--guide-objective", "constrained", "--behaviour-steps", "300",
]  # fmt: skip


def start(out: Path, *more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*COMMAND, "--out", str(out), *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def saved_step(out: Path) -> int:
    file = out / "checkpoint" / "state.safetensors"
    return read_arrays(file)[1]["step"] if file.is_file() else 0


def wait_for(process: subprocess.Popen[bytes], out: Path, step: int) -> None:
    deadline = time.monotonic() + 120
    while saved_step(out) < step and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)


def weights(out: Path) -> dict[str, bytes]:
    return {name: values.tobytes() for name, values in read_arrays(out / "checkpoint" / "state.safetensors")[0].items()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "run"
    process = start(out)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors.decode()
    return out


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    """A run that Ctrl-C has stopped."""
    out = tmp_path / "interrupted"
    process = start(out)
    wait_for(process, out, 300)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    text = errors.decode()
    assert process.returncode == 130, text
    assert "--resume" in text
    assert "Traceback" not in text
    step = saved_step(out)
    assert f"step {step}" in text
    assert 300 <= step < 3300
    return out


@pytest.mark.slow  # tests/faults/test_kills.py has the short version
def test_an_interrupted_run_that_is_killed_later_resumes_to_the_same_bits(undisturbed: Path, interrupted: Path) -> None:
    kill_and_finish(interrupted, undisturbed, (saved_step(interrupted) + 150,))


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_bits(undisturbed: Path, tmp_path: Path) -> None:
    kill_and_finish(tmp_path / "run", undisturbed, (0, 300, 1500))


def kill_and_finish(out: Path, undisturbed: Path, kills: tuple[int, ...]) -> None:
    """Kill a run after each of these steps, let it finish, and compare it with one that was left alone."""
    for kill_after in kills:
        process = start(out, *(["--resume"] if out.exists() else []))
        wait_for(process, out, max(kill_after, 1) if kill_after else 1)
        time.sleep(0.07 * (kill_after % 7))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL, "the run ended before it could be killed"
        assert not (out / "result.json").exists()
    process = start(out, "--resume")
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors.decode()
    assert weights(out) == weights(undisturbed)
    for name in ("metrics.csv", "evaluations.csv", "policy/policy.json"):
        assert (out / name).read_bytes() == (undisturbed / name).read_bytes(), name
    results = [json.loads((folder / "result.json").read_text()) for folder in (out, undisturbed)]
    assert results[0]["per_seed"] == results[1]["per_seed"]
    assert [path.name for path in out.rglob(".*") if path.is_file()] == [".lock"]


# -- damaged files and failing disks -------------------------------------------------------------

LAST, BEFORE = Path("checkpoint/state.safetensors"), Path("checkpoint/previous.safetensors")


class Stop(Callback):
    """Ctrl-C after so many steps."""

    def __init__(self, step: int):
        self.at = step

    def advance(self, stage: str, step: int) -> None:
        if step >= self.at:
            os.kill(os.getpid(), signal.SIGINT)


class Listen(Callback):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def bare(out: Path, callback: Callback | None = None, **options: Any) -> waypost.Run:
    """The same training as `finished`, without its page."""
    usual = {**SMALL, "seeds": [3, 4], "evaluation": waypost.Protocol(every=20, episodes=2)}
    return train("por", "t-maze", out=out, callback=callback, **{**usual, **options})


def stopped(out: Path, step: int = 30, **options: Any) -> Path:
    """A run that was stopped after so many steps; its checkpoint before the last is of step 20."""
    with pytest.raises(waypost.InterruptedRun):
        bare(out, Stop(step), **options)
    return out


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stopped(tmp_path_factory.mktemp("half") / "run")


@pytest.fixture
def unfinished(half: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(half, tmp_path / "run"))


def flip(file: Path) -> None:
    """Flip a bit of the last number."""
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def test_a_damaged_checkpoint_gives_way_to_the_one_before(finished: waypost.Run, unfinished: Path) -> None:
    out, heard = unfinished, Listen()
    assert [read_arrays(out / file)[1]["step"] for file in (LAST, BEFORE)] == [30, 20]
    flip(out / LAST)
    resumed = bare(out, heard, resume=True)
    warning = "damaged (its checksum does not match); continuing from the previous checkpoint, of step 20"
    assert [note for note in heard.notes if warning in note]
    assert same(resumed, finished)
    assert resumed.metrics == finished.metrics
    assert weights(out) == weights(finished.directory)


def test_a_damaged_checkpoint_never_takes_the_place_of_the_whole_one(unfinished: Path) -> None:
    out = unfinished
    flip(out / LAST)
    stopped(out, step=21, resume=True)
    assert [read_arrays(out / file)[1]["step"] for file in (LAST, BEFORE)] == [30, 20]


def test_two_damaged_checkpoints_are_said_in_one_line(unfinished: Path) -> None:
    out = unfinished
    flip(out / LAST)
    (out / BEFORE).write_bytes(b"no")
    with pytest.raises(WaypostError, match=r"state.safetensors: damaged .*; so is the previous checkpoint: .*previous"):
        bare(out, resume=True)


def test_a_checkpoint_that_was_being_replaced_is_found(finished: waypost.Run, unfinished: Path) -> None:
    out = unfinished
    (out / LAST).replace(out / BEFORE)  # as where there are no hard links, and the process was killed just then
    assert same(bare(out, resume=True), finished)


def test_the_checkpoint_of_another_run_is_refused(unfinished: Path, tmp_path: Path) -> None:
    one = unfinished
    protocol = waypost.Protocol(every=20, episodes=2, seed=9)
    other = stopped(tmp_path / "other", evaluation=protocol)
    shutil.copy(other / LAST, one / LAST)
    with pytest.raises(WaypostError, match=r"state.safetensors: belongs to another run"):
        bare(one, resume=True)
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | {"streamed": True}))
    with pytest.raises(
        WaypostError, match=r"state.safetensors: belongs to another run, or config.json has been changed"
    ):
        bare(other, evaluation=protocol, resume=True)


def test_a_checkpoint_of_an_older_version_goes_on(finished: waypost.Run, unfinished: Path) -> None:
    out = unfinished
    arrays, record = read_arrays(out / LAST)
    del record["run"]
    (out / LAST).write_bytes(safetensors.numpy.save(arrays, metadata={"record": json.dumps(record)}))
    (out / BEFORE).unlink()
    assert same(bare(out, resume=True), finished)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"arrays": lambda arrays: {}}, "its checkpoint does not belong to this run"),
        ({"arrays": lambda a: {n: v.astype(np.float64) for n, v in a.items()}}, "is saved as float64, expected"),
        ({"record": None}, "not a checkpoint of this version of Waypost"),
        (
            {"record": {"step": 1, "seconds": 1.0, "metrics": "x", "evaluations": []}},
            "metrics must be a list, each a table",
        ),
    ],
)
def test_a_checkpoint_that_holds_something_else_is_refused(change: Any, words: str, unfinished: Path) -> None:
    out = unfinished
    arrays, record = read_arrays(out / LAST)
    arrays = change["arrays"](arrays) if "arrays" in change else arrays
    write_arrays(out / LAST, arrays, change.get("record", record))
    with pytest.raises(WaypostError, match=words):
        bare(out, resume=True)


def test_a_finished_run_with_a_damaged_checkpoint_is_read_from_the_one_before(
    finished: waypost.Run, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    shutil.copytree(finished.directory, out)
    flip(out / LAST)
    assert waypost.load_run(out).metrics == finished.metrics
    _, record = read_arrays(out / BEFORE)
    write_arrays(out / BEFORE, {}, record | {"metrics": record["metrics"][:-1]})
    with pytest.raises(WaypostError, match=r"state.safetensors: damaged .*; metrics.csv, .* are intact"):
        waypost.load_run(out)


@pytest.mark.parametrize("nth", [0, 4, 10])
def test_a_full_disk_says_what_is_saved_and_loses_nothing(
    nth: int, finished: waypost.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, calls, write = tmp_path / "run", itertools.count(), Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        if next(calls) < nth:
            return write(path, content)
        write(path, content[: len(content) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(OSError, match="No space left") as caught:
            bare(out)
    assert Path(caught.value.filename).is_relative_to(out)
    assert "partial" not in caught.value.filename
    if nth == 0:
        assert not out.exists()
        return
    assert not [path for path in out.rglob(".*") if path.name != ".lock"]
    kept = {4: "step 20", 10: "step 40"}[nth]
    assert caught.value.__notes__ == [f"the checkpoint of {kept} is kept; a resumed run continues from there"]
    assert same(bare(out, resume=True), finished)


def test_a_directory_that_vanishes_is_noticed(tmp_path: Path) -> None:
    class Move(Callback):
        def advance(self, stage: str, step: int) -> None:
            if step == 10:
                (tmp_path / "run").rename(tmp_path / "moved")

    with pytest.raises(WaypostError, match="run: was deleted or replaced during training"):
        bare(tmp_path / "run", Move())
    assert not (tmp_path / "run").exists()


def test_a_finished_run_is_shown_where_nothing_can_be_written(
    finished: waypost.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patch:
        for call in ("open", "mkdir", "replace", "unlink"):
            patch.setattr(os, call, read_only)
        again = bare(finished.directory, resume=True)
    assert again.result == finished.result


def test_data_that_changed_are_noticed(tmp_path: Path) -> None:
    file = tmp_path / "data.npz"
    waypost.save(walk(), file)
    options = {**SMALL, "out": tmp_path / "run"}
    main = os.getpid()

    class Stop(waypost.training.callbacks.Callback):
        def advance(self, stage: str, step: int) -> None:
            os.kill(main, signal.SIGINT)

    with pytest.raises(waypost.InterruptedRun):
        waypost.train("por", file, callbacks=[Stop()], **options)
    waypost.save(walk(seed=1), file, overwrite=True)
    with pytest.raises(WaypostError, match="has changed"):
        waypost.train("por", file, resume=True, **options)


# -- data read from their file -------------------------------------------------------------------


def parameters(run: waypost.Run) -> list[np.ndarray]:
    return [np.asarray(leaf) for policy in run.policies for leaf in jax.tree.leaves(policy.agent)]


def same(one: waypost.Run, other: waypost.Run) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(parameters(one), parameters(other), strict=True))


def in_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of two or three blocks, four to an epoch, for 7 updates each."""

    def small(*arguments: Any) -> Stream:
        return Stream(*arguments, block_rows=24, window_rows=60, updates=7)

    monkeypatch.setattr(waypost.training.trainer, "Stream", small)


@pytest.mark.parametrize("rewards", ["recorded", "return-range"])
def test_streamed_data_that_fit_in_one_window_give_the_same_weights(rewards: Any, tmp_path: Path) -> None:
    waypost.save(walk(), tmp_path / "data.npz")
    runs = [
        waypost.train("por", tmp_path / "data.npz", stream=stream, rewards=rewards, **SMALL)
        for stream in ("never", "always")
    ]
    assert same(*runs)
    assert runs[0].metrics == runs[1].metrics


@pytest.mark.slow
def test_a_streamed_run_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_windows(monkeypatch)
    waypost.save(walk(240), tmp_path / "data.npz")
    straight = waypost.train("por", tmp_path / "data.npz", stream="always", out=tmp_path / "straight", **SMALL)
    main = os.getpid()

    class Stop(waypost.training.callbacks.Callback):
        def advance(self, stage: str, step: int) -> None:
            if step == 20:
                os.kill(main, signal.SIGINT)

    options = {**SMALL, "out": tmp_path / "run", "stream": "always"}
    with pytest.raises(waypost.InterruptedRun):
        waypost.train("por", tmp_path / "data.npz", callbacks=[Stop()], **options)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("window")]
    resumed = waypost.train("por", tmp_path / "data.npz", resume=True, **options)
    assert same(straight, resumed)
    assert straight.metrics == resumed.metrics
    in_memory = waypost.train("por", tmp_path / "data.npz", stream="never", **SMALL)
    assert not same(straight, in_memory)


@pytest.mark.slow
def test_discrete_actions_stream_resume_and_save_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = walk(240)
    taken = np.random.default_rng(0).integers(0, 3, 240)
    recorded = {"rewards": data.rewards, "terminals": data.terminals, "timeouts": data.timeouts}
    choosing = waypost.Dataset.from_arrays(
        data.observations, data.next_observations, taken, **recorded, action_count=4, name="choosing"
    )
    waypost.save(choosing, tmp_path / "data.npz")
    settings: dict[str, Any] = {"steps": 40, "log_every": 10, "hidden": (8,), "batch_size": 16}
    never, always = (
        waypost.train("bc", tmp_path / "data.npz", stream=stream, **settings) for stream in ("never", "always")
    )
    assert same(never, always)
    in_windows(monkeypatch)
    options = {**settings, "out": tmp_path / "run", "stream": "always"}
    straight = waypost.train("bc", tmp_path / "data.npz", stream="always", **settings)
    assert not same(straight, always)
    main = os.getpid()

    class Stop(waypost.training.callbacks.Callback):
        def advance(self, stage: str, step: int) -> None:
            if step == 20:
                os.kill(main, signal.SIGINT)

    with pytest.raises(waypost.InterruptedRun):
        waypost.train("bc", tmp_path / "data.npz", callbacks=[Stop()], **options)
    resumed = waypost.train("bc", tmp_path / "data.npz", resume=True, **options)
    assert same(straight, resumed)
    assert straight.metrics == resumed.metrics
    loaded = waypost.Policy.load(tmp_path / "run")
    assert loaded.spec.action_count == 4
    answer = loaded.act(data.observations)
    assert answer.dtype.kind == "i"
    assert answer.shape == (240,)
    assert np.array_equal(answer, straight.policy.act(data.observations))
    assert loaded.act(data.observations[3]) == answer[3]


@pytest.mark.slow
def test_a_run_goes_on_as_it_began_however_much_memory_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_windows(monkeypatch)
    waypost.save(walk(240), tmp_path / "data.npz")
    main, notes = os.getpid(), []

    class Stop(waypost.training.callbacks.Callback):
        def advance(self, stage: str, step: int) -> None:
            os.kill(main, signal.SIGINT)

    class Listen(waypost.training.callbacks.Callback):
        def note(self, text: str) -> None:
            notes.append(text)

    options = {**SMALL, "out": tmp_path / "run"}
    with monkeypatch.context() as small:
        small.setattr(large, "available_memory", lambda: 1000)
        with pytest.raises(waypost.InterruptedRun):
            waypost.train("por", tmp_path / "data.npz", callbacks=[Stop()], **options)
    assert json.loads((tmp_path / "run" / "config.json").read_text())["streamed"] is True
    waypost.train("por", tmp_path / "data.npz", callbacks=[Listen()], resume=True, **options)
    assert any("240 rows streamed in 4 windows of 7 updates" in note for note in notes)


def test_too_little_memory_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(waypost.training.trainer, "obtain", full)
    for out in (None, tmp_path / "run"):
        with pytest.raises(WaypostError, match=r"walk: does not fit in memory"):
            waypost.train("por", walk(), out=out, **SMALL)
    assert list(tmp_path.iterdir()) == []


# -- planning ------------------------------------------------------------------------------------


def test_presets_go_with_the_data_unless_told_otherwise() -> None:
    assert plan("por", "four-rooms").config.guide_target == "displacement"
    assert plan("por", "four-rooms").preset == "four-rooms"
    paper = plan("por", "four-rooms", preset="paper/four-rooms")
    assert paper.config.guide_target == "state"
    assert paper.config.value_hidden == (64, 64)
    assert plan("por", "four-rooms", preset="none").config == type(paper.config)()
    assert plan("por", "four-rooms", tau=0.8).config.tau == 0.8
    assert plan("por", "four-rooms", steps=7).steps == 7


def test_what_the_package_offers_stays_what_it_is() -> None:
    """No function has the name of a module, which would take its place once it is imported."""
    for _ in range(2):
        for name in waypost.__all__:
            assert not isinstance(getattr(waypost, name), ModuleType), name
