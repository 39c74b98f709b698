"""Processes that are killed at any moment: what they leave is whole, and a resumed run ends with the same bytes."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bounds import ask
from command_table import TABLE
from failing_disk import Calls
from leftovers import contents

import waypost
from waypost.files import read_arrays

OPTIONS: dict[str, Any] = {"steps": 6, "log_every": 2, "hidden": (8,), "batch_size": 8, "preset": "none", "seeds": 2}
KILLED = 6
"""Moments of the default run, spread over all there are."""
RANDOM_RUNS, RANDOM_KILLS = 10, 10

pytestmark = pytest.mark.usefixtures("cheap")


def train(out: Path) -> waypost.Run:
    return waypost.train(
        "bc", "t-maze", out=out, resume=True, evaluation=waypost.Protocol(every=2, episodes=1), **OPTIONS
    )


def moments(work: Path, kept: Path, job: Any) -> int:
    """Do a job once, and keep what a kill would leave before each call that changes the disk; how many there are.

    What is written but not handed to the system yet is lost to a killed process, and is not in the copies either.
    """
    count = 0

    def keep(kind: str, number: int, path: str) -> None:
        nonlocal count
        shutil.copytree(work, kept / str(count))
        count += 1

    with Calls(work, keep).watched():
        job()
    return count


def outcome(folder: Path) -> dict[str, Any]:
    """Everything a run leaves, but its times."""
    found: dict[str, Any] = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if name == "result.json":
            found[name] = {**json.loads(path.read_text()), "seconds": 0}
        elif path.suffix == ".safetensors":
            found[name] = {key: values.tobytes() for key, values in read_arrays(path)[0].items()}
        elif path.is_file():
            found[name] = None if path.suffix == ".html" else path.read_bytes()
    return found


def spread(count: int, chosen: int) -> list[int]:
    return sorted({round(i * (count - 1) / (chosen - 1)) for i in range(chosen)})


def resumed_from(tmp_path: Path, chosen: int | None) -> None:
    work, kept = tmp_path / "work", tmp_path / "kept"
    work.mkdir()
    count = moments(work, kept, lambda: train(work / "run"))
    assert count > 20
    expected = outcome(work / "run")
    for number in spread(count, chosen) if chosen else range(count):
        train(kept / str(number) / "run")
        assert outcome(kept / str(number) / "run") == expected, f"killed before call {number} of {count}"


def test_a_run_killed_at_some_calls_ends_with_the_same_bytes(tmp_path: Path) -> None:
    resumed_from(tmp_path, KILLED)


@pytest.mark.slow
def test_a_run_killed_at_any_call_ends_with_the_same_bytes(tmp_path: Path) -> None:
    resumed_from(tmp_path, None)


@pytest.mark.parametrize(
    "name", ["report", "inspect", "collect", "convert to .npz", "convert to .hdf5", "convert a mixture"]
)
def test_a_file_is_the_old_one_or_the_new_one(name: str, places: dict[str, Path], tmp_path: Path) -> None:
    work, kept = tmp_path / "work", tmp_path / "kept"
    work.mkdir()
    out = work / TABLE[name].out
    out.write_bytes(b"old")
    count = moments(work, kept, lambda: ask(TABLE[name].words(out, places, again=True)))
    assert out.read_bytes() != b"old"
    for number in range(count):
        assert (kept / str(number) / out.name).read_bytes() in (b"old", out.read_bytes()), number


def test_parts_that_were_killed_at_some_calls_are_completed(places: dict[str, Path], tmp_path: Path) -> None:
    work, kept = tmp_path / "work", tmp_path / "kept"
    work.mkdir()
    words = TABLE["convert to parts"].words
    count = moments(work, kept, lambda: ask(words(work / "parts", places)))
    expected = contents(work)
    assert len(expected) == 3
    for number in spread(count, 8):
        answer = ask(words(kept / str(number) / "parts", places))
        assert answer.code == 0, answer.err
        assert contents(kept / str(number)) == expected, f"killed before call {number} of {count}"


# -- real kills ------------------------------------------------------------------------------------

PROGRAM = f"""
import os, signal, sys
from pathlib import Path
import conftest, waypost
from failing_disk import Calls
work, last = Path(sys.argv[1]), int(sys.argv[2])

def kill(kind, number, path):
    global last
    last -= 1
    if last == 0:
        os.kill(os.getpid(), signal.SIGKILL)

with Calls(work, kill).watched():
    waypost.train("bc", "t-maze", out=work / "run", resume=True, evaluation=waypost.Protocol(every=2, episodes=1),
                  **{OPTIONS!r})
"""


def run_until(work: Path, last: int) -> int:
    """A process that kills itself before the n-th call that changes the disk; its exit code."""
    tests = Path(__file__).parents[1]
    paths = [str(tests.parent), str(tests), str(tests / "faults")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(work), str(last)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


@pytest.mark.slow
@pytest.mark.parametrize("number", range(RANDOM_RUNS))
def test_a_run_killed_at_random_again_and_again_ends_with_the_same_bytes(number: int, tmp_path: Path) -> None:
    whole, work = tmp_path / "whole", tmp_path / "work"
    work.mkdir()
    whole.mkdir()
    assert run_until(whole, 0) == 0
    chance = random.Random(number)
    for _ in range(RANDOM_KILLS):
        run_until(work, chance.randint(1, 40))
    assert run_until(work, 0) == 0
    assert outcome(work / "run") == outcome(whole / "run")
