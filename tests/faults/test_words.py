"""What people and files say: options, settings, records and policies that are wrong get one line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bounds import ask
from leftovers import contents
from samples import TINY, walk

from waypost.agents.waypoint import Config, Waypoint
from waypost.files import read_arrays, write_arrays
from waypost.training.policy import Policy

HUGE = "99999999999999999999"
DEEP = "[" * 100_000 + "]" * 100_000
DIGITS = "9" * 5_000

pytestmark = pytest.mark.usefixtures("cheap")

# -- options ---------------------------------------------------------------------------------------

OPTIONS: dict[str, list[str]] = {
    "train bc --data {data}": [
        f"--first-seed {HUGE}", "--first-seed -1", f"--seeds {HUGE}", "--seeds 99999999999", "--seeds 0",
        f"--steps {HUGE}", "--steps -1", f"--log-every {HUGE}", f"--episodes {HUGE}", "--episodes 99999999999999",
        f"--evaluate-every {HUGE}", "--evaluate-every -1", f"--average-last {HUGE}", f"--evaluation-seed {HUGE}",
        "--learning-rate inf", "--learning-rate nan", "--learning-rate -1", f"--batch-size {HUGE}",
        "--hidden 99999999999", f"--hidden {HUGE}", "--hidden -1", "--data ~nouser/log.npz",
        "--init ~nouser/run", "--data ..", "--data /", "--data .", f"--columns.choices {HUGE}",
        "--columns.choices -1", "--init /dev/zero", "--preset [/red]", "--env [/red]", "--env nobody:Nothing-v0",
    ],
    "train por --data {data}": [
        "--value-hidden 99999999999", "--horizon 99999999999999", "--horizon 0", "--tau inf", "--tau nan",
        "--discount inf", "--inverse-temperature inf", f"--behaviour-steps {HUGE}",
    ],
    "train waypoint --data {data}": [
        "--drift 2", "--drift nan", "--backup -1", f"--backup {HUGE}", "--action-noise -1", "--action-noise inf",
        "--waypoint-columns 9", f"--waypoint-columns {HUGE}", "--executor-inputs 9",
    ],
    "demo --out {out}": [f"--steps {HUGE}", "--seeds 0", f"--seeds {HUGE}"],
    "compare --algos bc --steps 2 --out {out}": [
        "--data ..", "--data /", "--data t-maze t-maze", f"--data t-maze --seeds {HUGE}", "--data t-maze --seeds 0",
        f"--data t-maze --first-seed {HUGE}", f"--data t-maze --steps {HUGE}", "--data t-maze --algos nothing",
        "--data t-maze --settings /dev/zero", "--data t-maze --settings ~nouser/x.toml",
        f"--data t-maze --episodes {HUGE}",
        "--data t-maze --settings .", "--data t-maze --settings {out}/none.toml",
    ],
    "paper stitching --out {out}": [f"--seeds {HUGE}", "--seeds 0", "--seeds -1", "--steps 3", "--data t-maze"],
    "evaluate {run}": [
        "--episodes 99999999999999", f"--episodes {HUGE}", "--episodes 0", f"--seed {HUGE}", "--seed -1",
        "--env [/red]", "--env nobody:Nothing-v0",
    ],
    "adapt {run} --out {out}": [
        f"--steps {HUGE}", "--steps -1", "--tau nan", "--tau 2", "--inverse-temperature inf", "--data ..",
        "--reward nothing", "--reward {out}/none.py:f", "--reward nobody.knows:f", "--reward /dev/zero:f",
        "--reward .:f", "--reward :f", "--reward {out}: --data {data}",
    ],
    "diagnose {run} --data {data} --out {out}": [
        "--states 0", "--states -1", "--neighbours 0", f"--states {HUGE} --neighbours -1", "--neighbours 99999999999",
    ],
    "collect hopper-random --out {out}.npz": [
        f"--transitions {HUGE}", "--transitions 0", "--transitions -1", f"--seed {HUGE} --transitions 5",
        "--seed -1 --transitions 5", "--workers 0 --transitions 5", "--workers -1 --transitions 5",
    ],
    "convert {data} {out}.npz": [
        "--top nan", "--top inf", "--top -1", "--top 0", "--slice 1 0", "--slice nan nan", "--slice 0 inf",
        f"--columns.choices {HUGE}",
    ],
    "inspect": ["..", "/", ".", "~nouser", "/dev/zero", "/dev/null", "+", "t-maze+"],
    "report": ["/dev/zero", "..", "~nouser"],
}  # fmt: skip


def spelled(line: str) -> str:
    return line.replace(HUGE, "20-digits")


@pytest.mark.parametrize(
    ("line", "option"),
    [pytest.param(line, option, id=spelled(f"{line} {option}")) for line, all_ in OPTIONS.items() for option in all_],
)
def test_options_that_cannot_be(line: str, option: str, places: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    if "--out" not in line and line.startswith("train") and "--out" not in option:
        line += " --out {out}"
    before = contents(tmp_path)
    ask([word.format(out=out, **places) for word in f"{line} {option}".split()]).refuses()
    assert contents(tmp_path) == before


@pytest.mark.parametrize("words", [["--data", ""], ["--data", " "], ["--data", "", "t-maze"], ["--data", "a\nb"]])
def test_data_without_a_name(words: list[str], tmp_path: Path) -> None:
    for command in (["compare", "--algos", "bc"], ["train", "bc"]):
        if command[0] == "compare" or len(words) == 2:
            ask([*command, *words, "--out", tmp_path / "out"]).refuses()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["list", "list --json", "inspect {data} --json", "evaluate {run} --json"])
def test_output_that_cannot_be_written(command: str, places: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """What a program reads from stdout must be whole, or the exit code says otherwise."""
    answer = ask([word.format(**places) for word in command.split()], out="/dev/full")
    answer.refuses()


# -- settings files --------------------------------------------------------------------------------

COMPARE = [
    "compare",
    *["--data", "t-maze", "--algos", "bc", "--steps", "2", "--seeds", "1", "--episodes", "1", "--settings"],
]
SETTINGS = {
    "true for a number": "[bc]\nbatch_size = true\n",
    "half a step": "[bc]\nsteps = 20.5\n",
    "text for a number": '[bc]\nbatch_size = "8"\n',
    "infinity": "[bc]\nlearning_rate = inf\n",
    "not a number": "[bc]\nlearning_rate = nan\n",
    "a list for a number": "[bc]\nbatch_size = [8]\n",
    "a number for a list": "[bc]\nhidden = 8\n",
    "lists of lists": "[bc]\nhidden = [[8]]\n",
    "text in a list": '[bc]\nhidden = ["8"]\n',
    "a date": "[bc]\nbatch_size = 2020-01-01\n",
    "a table": "[bc.batch_size]\nx = 1\n",
    "no table": "bc = 1\n",
    "a list of tables": "[[bc]]\nbatch_size = 8\n",
    "an unknown algorithm": "[nothing]\nx = 1\n",
    "an unknown setting": "[bc]\nnothing = 1\n",
    "nesting": f"bc = {DEEP}\n",
    "nesting of tables": "[" + ".".join(["a"] * 20_000) + "]\n",
    "5 000 digits": f"[bc]\nbatch_size = {DIGITS}\n",
    "20 digits": f"[bc]\nbatch_size = {HUGE}\n",
    "a huge layer": "[bc]\nhidden = [99999999999]\n",
    "too many layers": f"[bc]\nhidden = [{'8,' * 300_000}]\n",
    "a negative number": "[bc]\nbatch_size = -1\n",
    "no TOML": "\x00\x01",
}


@pytest.mark.parametrize("what", SETTINGS)
def test_settings_files(what: str, tmp_path: Path) -> None:
    file, out = tmp_path / "settings.toml", tmp_path / "out"
    file.write_text(SETTINGS[what])
    ask([*COMPARE, file, "--out", out]).refuses()
    assert not out.exists()


@pytest.mark.parametrize("kind", ["pipe", "zeros", "not UTF-8", "folder"])
def test_settings_that_are_no_file(kind: str, tmp_path: Path) -> None:
    file, out = tmp_path / "settings.toml", tmp_path / "out"
    in_place_of(file, kind)
    ask([*["compare", "--data", "t-maze", "--algos", "bc", "--steps", "2", "--settings"], file, "--out", out]).refuses(
        file
    )
    assert not out.exists()


def in_place_of(file: Path, kind: str) -> None:
    make: dict[str, Callable[[], Any]] = {
        "pipe": lambda: os.mkfifo(file),
        "zeros": lambda: file.symlink_to("/dev/zero"),
        "not UTF-8": lambda: file.write_bytes(b"\xff\xfe\x00"),
        "folder": lambda: file.mkdir(),
        "empty": lambda: file.write_bytes(b""),
    }
    make[kind]()


# -- records of a run ------------------------------------------------------------------------------

RECORDS = {
    "list": "[]", "null": "null", "number": "1", "text": '"config"', "true": "true", "nothing in it": "{}",
    "nested": DEEP, "nested in a field": '{"algorithm": ' + DEEP + "}", "digits": f'{{"steps": {DIGITS}}}',
    "empty": "", "not JSON": "{", "no number": '{"seconds": NaN}', "surrogate": '{"algorithm": "\\ud800"}',
}  # fmt: skip
READERS = {
    "config.json": ("evaluate {run} --episodes 1", "report {run}", "train por --out {run} --resume"),
    "result.json": ("report {run}", "train por --out {run} --resume"),
    "policy/policy.json": ("evaluate {run} --episodes 1", "train por --data {data} --init {run} --training guide"),
}


@pytest.mark.parametrize("what", RECORDS)
@pytest.mark.parametrize("file", READERS)
def test_records_of_another_kind(file: str, what: str, places: dict[str, Path]) -> None:
    (places["run"] / file).write_text(RECORDS[what])
    before = contents(places["run"])
    for line in READERS[file]:
        ask([word.format(**places) for word in line.split()]).refuses(places["run"])
    assert contents(places["run"]) == before


@pytest.mark.parametrize("kind", ["pipe", "zeros", "not UTF-8", "folder", "empty"])
@pytest.mark.parametrize(
    "file",
    ["config.json", "result.json", "policy/policy.json", "policy/seed-0.safetensors", "checkpoint/state.safetensors"],
)
def test_records_that_are_no_file(file: str, kind: str, places: dict[str, Path]) -> None:
    (places["run"] / file).unlink()
    in_place_of(places["run"] / file, kind)
    answer = ask(["report", places["run"]])
    # The checkpoint before the last takes the place of one that is damaged.
    if not (answer.code == 0 and file.startswith("checkpoint")):
        answer.refuses(places["run"])


# -- a stranger's policy ---------------------------------------------------------------------------

POLICIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a million seeds": lambda record: record.update(seeds=list(range(1_000_000))),
    "seeds that lead elsewhere": lambda record: record.update(seeds=["../../../secret"]),
    "the same seed twice": lambda record: record.update(seeds=[0, 0]),
    "no seeds": lambda record: record.update(seeds=[]),
    "300 000 layers": lambda record: record["config"].update(value_hidden=[8] * 300_000),
    "a huge layer": lambda record: record["config"].update(value_hidden=[99999999999]),
    "a negative layer": lambda record: record["config"].update(value_hidden=[-8]),
    "nested layers": lambda record: record["config"].update(value_hidden=[[8]]),
    "huge observations": lambda record: record["spec"].update(observation_size=10**12),
    "negative observations": lambda record: record["spec"].update(observation_size=-2),
    "huge actions": lambda record: record["spec"].update(action_size=10**12),
    "2**62 choices": lambda record: record["spec"].update(action_count=2**62),
    "text for bounds": lambda record: record["spec"].update(action_low=["a", "b"]),
    "infinite settings": lambda record: record["config"].update(tau=float("inf")),
    "missing everything": lambda record: record.update(missing=["value", "guide", "executor", "nothing"]),
    "another algorithm": lambda record: record.update(algorithm="bc"),
    "a nested algorithm": lambda record: record.update(algorithm=["por"]),
    "another format": lambda record: record.update(format=99),
}


@pytest.mark.parametrize("what", POLICIES)
def test_a_policy_that_cannot_be(what: str, places: dict[str, Path]) -> None:
    path = places["run"] / "policy" / "policy.json"
    record = json.loads(path.read_text())
    POLICIES[what](record)
    path.write_text(json.dumps(record))
    ask(["evaluate", places["run"], "--episodes", 1]).refuses(places["run"])


WAYPOINTS: dict[str, dict[str, Any]] = {
    "no numbers": {"mean": [], "std": [], "directions": [], "lift": []},
    "mean alone": {"std": None, "directions": None, "lift": None},
    "more means": {"mean": [0.0, 0.0]},
    "fewer deviations": {"std": []},
    "a deviation of 0": {"std": [0.0]},
    "more directions": {"directions": [1.0, 0.0, 0.0]},
    "no directions": {"directions": None},
    "no inverse": {"lift": None},
    "text": {"directions": ["a", "b"]},
    "not a number": {"lift": [float("nan"), 0.0]},
    "a coordinate without directions": {"directions": None, "lift": None},
    "none at all": dict.fromkeys(("mean", "std", "directions", "lift")),
}


@pytest.fixture
def waypoint(places: dict[str, Path]) -> Path:
    """The run's policy is one whose waypoint has a single coordinate."""
    config = Config(**TINY, waypoint_columns=(0,))
    spec = Waypoint.prepare(config, walk())[1]
    path = places["run"] / "policy" / "policy.json"
    Policy("waypoint", config, spec, Waypoint.build(config, spec)).save(path.parent)
    return path


@pytest.mark.parametrize("what", WAYPOINTS)
def test_coordinates_that_cannot_be(what: str, waypoint: Path, places: dict[str, Path]) -> None:
    record = json.loads(waypoint.read_text())
    statistics = record["spec"]["statistics"]
    assert len(statistics["waypoint_mean"]) == 1
    statistics |= {f"waypoint_{name}": numbers for name, numbers in WAYPOINTS[what].items()}
    record["spec"]["statistics"] = {name: numbers for name, numbers in statistics.items() if numbers is not None}
    waypoint.write_text(json.dumps(record))
    ask(["evaluate", places["run"], "--episodes", 1]).refuses(places["run"])


def test_coordinates_that_can_be(waypoint: Path, places: dict[str, Path]) -> None:
    assert Policy.load(waypoint.parent).agent.value_part.space.projection is not None  # type: ignore[attr-defined]
    assert ask(["evaluate", places["run"], "--episodes", 1]).code == 0


WEIGHTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "not a number": lambda values: np.full_like(values, np.nan),
    "infinite": lambda values: np.full_like(values, np.inf),
    "double": lambda values: values.astype(np.float64),
    "whole numbers": lambda values: values.astype(np.int32),
    "another shape": lambda values: values[..., None],
    "none": lambda values: values[:0],
}


@pytest.mark.parametrize("what", WEIGHTS)
def test_weights_that_cannot_be(what: str, places: dict[str, Path]) -> None:
    path = places["run"] / "policy" / "seed-0.safetensors"
    arrays, record = read_arrays(path)
    first = next(name for name, values in arrays.items() if values.ndim == 2)
    write_arrays(path, {**arrays, first: WEIGHTS[what](arrays[first])}, record)
    ask(["evaluate", places["run"], "--episodes", 1]).refuses(path)
