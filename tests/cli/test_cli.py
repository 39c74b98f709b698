"""The command line as a newcomer meets it."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from samples import walk

import waypost
from waypost.agents import ALGORITHMS
from waypost.cli import main
from waypost.cli.options import COMMANDS

TINY = ["--steps", "30", "--log-every", "10", "--episodes", "2", "--preset", "none", "--batch-size", "8"]
NETS = ["--value-hidden", "8", "--guide-hidden", "8", "--executor-hidden", "8"]


def call(capfd: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    out, err = capfd.readouterr()
    assert "Traceback" not in err
    return int(stop.value.code or 0), out, err


def test_train_evaluate_report_list(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run = tmp_path / "run"
    code, out, err = call(capfd, "train", "por", "--data", "t-maze", "--out", run, "--seeds", 2, "--json", *TINY, *NETS)
    assert code == 0
    result = json.loads(out.splitlines()[-1])
    assert result == json.loads((run / "result.json").read_text())
    assert [each["seed"] for each in result["per_seed"]] == [0, 1]
    assert "report.html" in err
    assert "iqm" in err

    code, out, _ = call(capfd, "evaluate", run, "--episodes", 2, "--json")
    assert code == 0
    again = json.loads(out.splitlines()[-1])
    assert again.keys() == result.keys() - {"alarms"}
    assert again["per_seed"] == result["per_seed"]

    page = run / "report.html"
    page.unlink()
    assert call(capfd, "report", run)[0] == 0
    assert page.is_file()

    code, out, _ = call(capfd, "list", "--json")
    listing = json.loads(out)
    assert {entry["name"] for entry in listing["algorithms"]} == set(ALGORITHMS)
    for kind in ("tasks", "data"):
        assert {"four-rooms", "four-rooms-river", "four-rooms-key"} <= {entry["name"] for entry in listing[kind]}
    assert call(capfd, "list")[0] == 0


def test_the_preset_is_the_ground_and_options_lie_on_top(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = ["--data", "t-maze", "--steps", 5, "--episodes", 1, "--tau", 0.8, "--seeds", 1, "--first-seed", 7]
    assert call(capfd, "train", "por", "--out", tmp_path / "run", *options)[0] == 0
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["config"]["tau"] == 0.8
    assert config["config"]["guide_target"] == "displacement"
    assert config["preset"] == "t-maze"
    assert config["seeds"] == [7]
    # Resuming needs nothing but the directory; what disagrees is refused.
    code, _, err = call(capfd, "train", "por", "--out", tmp_path / "run", "--resume")
    assert (code, "already finished" in err) == (0, True)
    code, _, err = call(capfd, "train", "por", "--out", tmp_path / "run", "--resume", "--tau", 0.6)
    assert (code, "config.tau = 0.8, got 0.6" in err.replace("\n", " ")) == (2, True)
    code, _, err = call(capfd, "train", "bc", "--out", tmp_path / "run", "--resume")
    assert (code, "was started with algorithm = 'por', got 'bc'" in err.replace("\n", " ")) == (2, True)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_setting_is_in_the_help(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capfd, "train", name, "--help")
    assert code == 0
    for field in dataclasses.fields(ALGORITHMS[name].config_type):
        assert f"--{field.name.replace('_', '-')}" in out
    for option in ("data", "env", "steps", "seeds", "out", "resume", "evaluate-every", "episodes", "json"):
        assert f"--{option}" in out


@pytest.mark.parametrize("command", ["train", *COMMANDS])
def test_every_command_has_help(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert command in call(capfd, "--help")[1]
    shown = call(capfd, command, "--help")[1]
    assert "usage" in shown
    # What a run takes from its data is nobody's option.
    assert "learned" not in shown.partition("\n")[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "por", "--data", "nowhere"], "nowhere: neither a file nor a data set"),
        (["train", "por", "--data", "missing.npz"], "missing.npz: there is no such file"),
        (["train", "por", "--env", "nowhere"], "nowhere"),
        (["train", "por", "--tau", "2"], "tau must be in (0, 1), got 2"),
        (["train", "por", "--tau", "high"], "tau"),
        (["train", "nothing"], "nothing"),
        (["train", "por", "--preset", "nothing"], "no preset 'nothing'"),
        (["evaluate", "nowhere"], "nowhere: not a run directory"),
        (["report", "nowhere"], "nowhere: not a run directory"),
        (["train", "por", "--nonsense", "1"], "nonsense"),
        (["train", "por", "--seeds", "0"], "seeds"),
        (["train", "por", "--steps", "-3"], "steps must be 0 or more, got -3"),
        (["train", "por", "--episodes", "0"], "episodes"),
        (["train", "bc", "--init", "nowhere"], "nowhere"),
    ],
)
def test_mistakes_get_one_clear_word_and_exit_code_2(
    arguments: list[str],
    message: str,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capfd, *arguments)
    assert code == 2
    assert message in err
    assert out == ""
    assert list(tmp_path.iterdir()) == []


def damage(path: Path, how: str) -> None:
    data = walk()
    arrays = {name: np.array(values) for name, values in data.columns.items()}
    arrays.pop("ends")
    if how == "truncated":
        np.savez(path, **arrays)
        path.write_bytes(path.read_bytes()[:400])
        return
    if how == "text":
        path.write_text("not an archive")
        return
    if how == "objects":
        arrays["observations"] = np.array([{"a": 1}] * 60, dtype=object)
    elif how == "missing":
        del arrays["observations"]
    elif how == "nan":
        arrays["observations"][7, 1] = np.nan
    elif how == "lengths":
        arrays["actions"] = arrays["actions"][:-1]
    elif how == "shape":
        arrays["next_observations"] = arrays["next_observations"][:, :1]
    elif how == "empty":
        arrays = {name: values[:0] for name, values in arrays.items()}
    elif how == "flags":
        arrays["terminals"] = arrays["terminals"] + 2
    elif how == "no rewards":
        del arrays["rewards"]
    elif how == "no actions":
        del arrays["actions"]
    np.savez(path, **arrays)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("truncated", "damaged"),
        ("text", "damaged"),
        ("objects", "damaged"),
        ("missing", "no field looks like observations"),
        ("nan", "observations are NaN or infinite in 1 of 60 rows (7)"),
        ("lengths", "actions have 59 rows, observations 60"),
        ("shape", "next_observations have shape (60, 1)"),
        ("empty", "no transitions"),
        ("flags", "terminals must be one 0 or 1 per row"),
        ("no rewards", "has no rewards"),
        ("no actions", "has no actions"),
    ],
)
def test_bad_files_are_named_before_any_work(
    how: str, message: str, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    damage(tmp_path / "log.npz", how)
    code, _, err = call(capfd, "train", "por", "--data", tmp_path / "log.npz", "--out", tmp_path / "run", *TINY, *NETS)
    assert code == 2
    assert "log.npz" in err
    assert message in " ".join(err.split())
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["log.npz"]


@pytest.mark.slow
def test_the_readme_example_runs_as_written(tmp_path: Path) -> None:
    """In a fresh interpreter; tests/docs runs the same words in its own."""
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    example = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert example is not None
    # The same words with fewer steps, so that the test takes seconds.
    code = "import waypost.training.train as r; p = r.plan; r.plan = lambda *a, **k: p(*a, **{**k, 'steps': 20})\n"
    done = subprocess.run([sys.executable, "-c", code + example[1]], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_version_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    assert waypost.__version__.count(".") == 2
    assert call(capfd, "--version") == (0, f"waypost {waypost.__version__}\n", "")


def test_results_are_on_stdout_unless_a_program_reads_it(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    waypost.save(walk(), tmp_path / "log.npz")
    code, out, err = call(capfd, "inspect", tmp_path / "log.npz")
    assert code == 0
    assert "transitions" in out
    assert err == ""
    code, out, err = call(capfd, "inspect", tmp_path / "log.npz", "--json")
    assert json.loads(out)["rows"] == 60
    assert "transitions" in err


def test_a_robots_log_trains_with_one_command(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """No environment, no known names: a column mapping is all it takes."""
    data = walk(200)
    lines = ["t,x,y,vx,vy,score,trip"]
    for row in range(200):
        numbers = [*data.observations[row], *data.actions[row], data.rewards[row]]
        lines.append(",".join([str(row), *map(str, numbers), f"trip-{data.episode_of[row]}"]))
    (tmp_path / "robot.csv").write_text("\n".join(lines) + "\n")
    mapping = ["--columns.observations", "x", "y", "--columns.actions", "v?", "--columns.rewards", "score"]
    mapping += ["--columns.episode", "trip"]
    run = tmp_path / "run"
    train = ["train", "por", "--data", tmp_path / "robot.csv", "--out", run, *TINY, *NETS, "--json"]
    code, out, _ = call(capfd, *train, *mapping)
    assert code == 0
    assert json.loads(out.splitlines()[-1])["task"] is None
    policy = waypost.Policy.load(run)
    assert policy.act(data.observations[0]).shape == (2,)
    assert (run / "report.html").is_file()
    # The mapping is part of the run: the same command goes on without it, and another one is refused.
    assert call(capfd, "train", "por", "--out", run, "--resume")[0] == 0
    code, _, err = call(capfd, *train, *mapping, "--columns.rewards", "t", "--resume")
    assert code == 2
    assert "columns.rewards" in err


@pytest.mark.slow
def test_a_log_of_choices_trains_with_one_command(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A column of whole numbers in a text is one of choices; a word is enough if they are sizes, or more than seen."""
    lines = [f"{np.sin(row):.3f},{row % 3},{row // 10}" for row in range(60)]
    log, small = tmp_path / "log.csv", ["--steps", 30, "--hidden", 8, "--batch-size", 8, "--json"]
    log.write_text("\n".join(["obs_0,action,episode", *lines]) + "\n")
    code, out, err = call(capfd, "inspect", log, "--json")
    assert code == 0
    assert json.loads(out.splitlines()[-1])["action_count"] == 3
    assert "3 discrete" in err
    code, _, err = call(capfd, "train", "bc", "--data", log, "--out", tmp_path / "run", *small)
    assert code == 0
    assert "taken as 3 discrete actions; if they are continuous, say --columns.choices 0" in " ".join(err.split())
    policy = waypost.Policy.load(tmp_path / "run")
    assert policy.spec.action_count == 3
    assert policy.act([0.5]) in (0, 1, 2)
    assert (tmp_path / "run" / "report.html").is_file()
    # What was said is part of the run.
    run = tmp_path / "five"
    assert call(capfd, "train", "bc", "--data", log, "--out", run, *small, "--columns.choices", 5)[0] == 0
    assert waypost.Policy.load(run).spec.action_count == 5
    assert call(capfd, "train", "bc", "--out", run, "--resume")[0] == 0
    code, _, err = call(capfd, "train", "bc", "--data", log, "--out", run, *small, "--columns.choices", 0, "--resume")
    assert (code, "columns.choices = 5, got 0" in err) == (2, True)
    code, _, err = call(capfd, "train", "bc", "--data", log, "--out", tmp_path / "x", "--columns.choices", 2, *small)
    assert code == 2
    assert "action 2 in row 2; 2 discrete actions are whole numbers from 0 to 1" in err


def test_convert_transforms_on_the_way(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "a.parquet"
    assert call(capfd, "convert", "t-maze", out, "--slice", 0.1, 0.9, "--top", 0.2, "--drop-actions")[0] == 0
    expected = waypost.load("t-maze").slice(0.1, 0.9).top(0.2).without_actions()
    assert waypost.load(out).fingerprint() == expected.fingerprint()
    assert call(capfd, "convert", "t-maze", out)[0] == 2
    assert waypost.load(out).fingerprint() == expected.fingerprint()
    assert call(capfd, "convert", "t-maze", out, "--drop-rewards", "--overwrite")[0] == 0
    assert waypost.load(out).rewards is None
    assert call(capfd, "convert", "t-maze", tmp_path / "b.npz", "--top", 0)[0] == 2
    assert not (tmp_path / "b.npz").exists()


def test_convert_joins_files_one_at_a_time(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    whole = waypost.load("t-maze")
    for i, part in enumerate(whole.split(0.4)):
        waypost.save(part, folder / f"{i}{('.parquet', '.hdf5')[i]}")
    assert call(capfd, "convert", folder, tmp_path / "all.npz")[0] == 0
    joined = waypost.load(tmp_path / "all.npz")
    assert joined.fingerprint() == waypost.load(folder).fingerprint()
    assert joined.task == "t-maze"
    assert joined.observation_names == ("x", "y")
    # Parts of different tasks belong to none.
    assert call(capfd, "convert", f"t-maze+{folder / '0.parquet'}+four-rooms", tmp_path / "mixed.npz")[0] == 0
    assert waypost.load(tmp_path / "mixed.npz").task is None


def test_inspect_says_what_training_would_refuse(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, err = call(capfd, "inspect", "t-maze", "--json", "--out", tmp_path / "page.html")
    assert code == 0
    found = json.loads(out.splitlines()[-1])
    assert found["rows"] == len(waypost.load("t-maze"))
    assert {each["algorithm"] for each in found["supports"]} == set(ALGORITHMS)
    assert (tmp_path / "page.html").is_file()
    assert "episodes" in err
    data = walk()
    rewards = data.rewards.copy()
    rewards[[3, 9]] = np.nan
    np.savez(tmp_path / "log.npz", observations=data.observations, actions=data.actions, rewards=rewards)
    code, out, _ = call(capfd, "inspect", tmp_path / "log.npz", "--json")
    assert code == 2
    finding = json.loads(out.splitlines()[-1])["findings"][0]
    assert (finding["level"], finding["what"], finding["rows"]) == ("error", "not-finite", [3, 9])
    assert call(capfd, "inspect", tmp_path / "nothing.npz")[0] == 2


def test_doubts_are_printed_once_before_training(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    data = walk()
    kept = {name: getattr(data, name) for name in ("observations", "actions", "terminals", "timeouts")}
    np.savez(tmp_path / "log.npz", rewards=0 * data.rewards, **kept)
    train = ["train", "bc", "--data", tmp_path / "log.npz", "--out", tmp_path / "run", *TINY, "--hidden", 8]
    code, _, err = call(capfd, *train)
    assert code == 0
    assert " ".join(err.split()).count("warning: ") == 1
    assert "rewards" in err.split("warning: ")[1]
    clean = call(capfd, "train", "bc", "--data", "t-maze", "--out", tmp_path / "clean", *TINY, "--hidden", 8)[2]
    assert "warning" not in clean


def test_collect_records_a_replica(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAYPOST_DATA", str(tmp_path / "kept"))
    code, out, err = call(capfd, "collect", "hopper-random", "--transitions", 300, "--json")
    assert code == 0
    file = tmp_path / "kept" / "hopper-random-300.npz"
    assert json.loads(out.splitlines()[-1])["file"] == str(file)
    data = waypost.load(file)
    assert (len(data), data.task) == (300, "hopper-random")
    assert str(file) in err
    before = file.read_bytes()
    assert call(capfd, "collect", "hopper-random", "--transitions", 300)[0] == 2
    assert call(capfd, "collect", "hopper-random", "--transitions", 300, "--workers", 1, "--overwrite")[0] == 0
    assert file.read_bytes() == before
    assert (
        call(capfd, "collect", "hopper-random", "--transitions", 300, "--seed", 1, "--out", tmp_path / "a.hdf5")[0] == 0
    )
    assert waypost.load(tmp_path / "a.hdf5").fingerprint() != data.fingerprint()
    code, _, err = call(capfd, "collect", "hopper-nothing")
    assert code == 2
    assert "hopper-medium" in err
    assert call(capfd, "collect", "hopper-random", "--transitions", 0)[0] == 2


def test_joining_onto_a_full_disk_says_so(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("waypost.data.mapped.NpzWriter.append", full)
    code, _, err = call(capfd, "convert", "t-maze+t-maze", tmp_path / "all.npz")
    assert code == 2
    assert "No space left" in err
    assert list(tmp_path.iterdir()) == []


WITHOUT_JAX = """
import sys
from waypost.cli import main
for line in sys.stdin:
    try:
        main(line.split())
    except SystemExit as stop:
        heavy = [name for name in ("jax", "matplotlib", "mujoco", "minari") if name in sys.modules]
        print(stop.code or 0, *heavy, "after", line.strip(), file=sys.stderr)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_being_terminated_is_being_stopped(
    number: signal.Signals, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by Ctrl-C, so that what was being written is cleaned up; what is then cleaned up is not interrupted again."""
    cleaned = []

    def terminated(_: object) -> None:
        try:
            os.kill(os.getpid(), number)
            time.sleep(1)
        finally:
            os.kill(os.getpid(), number)
            cleaned.append("up")

    monkeypatch.setattr("waypost.cli.handlers.run_list", terminated)
    before = signal.signal(number, signal.SIG_DFL)  # the tests themselves may run under nohup
    try:
        assert call(capfd, "list") == (130, "", "waypost: stopped\n")
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)
    assert cleaned == ["up"]


def test_nohup_is_respected(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        monkeypatch.setattr("waypost.cli.handlers.run_list", lambda _: os.kill(os.getpid(), signal.SIGHUP))
        assert call(capfd, "list") == (0, "", "")
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_interrupted_training_says_how_to_continue(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def stopped(*_: object) -> None:
        raise waypost.InterruptedRun(7)

    monkeypatch.setattr("waypost.training.trainer.execute", stopped)
    code, _, errors = call(capfd, "demo", "--out", tmp_path / "run")
    assert (code, errors.splitlines()[-1]) == (
        130,
        "waypost: stopped and saved at step 7; continue with the same command and --resume",
    )


def test_help_list_inspect_and_convert_do_without_jax(tmp_path: Path) -> None:
    """They answer at once; a training would load it."""
    lines = ["--help", "train --help", "list --json", "inspect t-maze", f"convert t-maze {tmp_path / 'out.npz'}"]
    done = subprocess.run([sys.executable, "-c", WITHOUT_JAX], input="\n".join(lines), capture_output=True, text=True)
    assert [line for line in done.stderr.splitlines() if " after " in line] == [f"0 after {line}" for line in lines]


def test_the_package_can_be_run_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "waypost", "list", "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {entry["name"] for entry in json.loads(done.stdout)["algorithms"]} == set(ALGORITHMS)
