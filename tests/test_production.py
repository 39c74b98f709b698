"""docs/production.md: every command of the page, from a log to a policy that runs without Waypost.

It takes most of a minute, so it is slow. The lesson of the own log (tests/docs) goes the same way with shorter
trainings.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path
from typing import Any

import jax
import numpy as np
import pytest

import waypost
from waypost.cli import main

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "production.md").read_text()
ALONE = """
import pathlib, runpy, sys
sys.argv = sys.argv[1:]
sys.path.insert(0, str(pathlib.Path(sys.argv[0]).parent))
runpy.run_path(sys.argv[0], run_name="__main__")
assert not {"waypost", "jax", "onnx"} & set(sys.modules)
"""
"""Runs a script, and fails if it needed more than onnxruntime and NumPy."""


def commands() -> list[list[str]]:
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.replace("\\\n", " ").splitlines()]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder after all commands but the last, which acts."""
    folder = tmp_path_factory.mktemp("production")
    before, argv = Path.cwd(), sys.argv
    os.chdir(folder)
    jax.config.update("jax_disable_most_optimizations", False)  # compiled as users do
    try:
        for program, *arguments in commands()[:-1]:
            if program == "python":
                sys.argv = [str(ROOT / arguments[0]), *arguments[1:]]
                run_path(sys.argv[0], run_name="__main__")
            elif program == "waypost":
                with pytest.raises(SystemExit) as done:
                    main(arguments)
                assert done.value.code == 0, arguments
        jax.config.update("jax_disable_most_optimizations", True)
        yield folder
    finally:
        os.chdir(before)
        sys.argv = argv


def test_the_page_goes_all_the_way() -> None:
    asked = [" ".join(command[:2]) for command in commands()]
    for step in ("waypost inspect", "waypost train", "waypost judge", "waypost export", "python examples/tank/act.py"):
        assert step in asked
    assert sum(command[:2] == ["waypost", "train"] for command in commands()) == 3


@pytest.mark.slow
def test_the_judgement_takes_what_is_best(place: Path) -> None:
    judged = json.loads((place / "runs/judge/judge.json").read_text())
    assert judged["take"] == "waypoint seed 0"
    assert judged["verdict"].split(":")[0] in PAGE


@pytest.mark.slow
def test_the_policy_that_was_taken_is_better_than_the_log_without_waypost(place: Path) -> None:
    script, file = commands()[-1][1:]
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(ROOT / script), file], cwd=place, capture_output=True, text=True, check=True
    )
    found = re.findall(r"return (-?\d+), (\d+) trips", done.stdout)
    (log, log_trips), (policy, policy_trips) = ((int(earned), int(trips)) for earned, trips in found)
    assert policy > log + 80
    assert policy_trips < log_trips / 2


@pytest.mark.slow
def test_its_page_says_what_can_be_said_without_a_simulator(place: Path) -> None:
    page = (place / "runs/waypoint/report.html").read_text()
    for words in ("Take waypoint seed 0", "Compared with the log", "held-out episodes", "A good episode", "A bad one"):
        assert words in page
    for axis in ("valve", "heater", "inflow_temperature"):
        assert re.search(rf"<text[^>]*>{axis}</text>", page), axis
    assert "waypost judge runs/waypoint" not in page


@pytest.mark.slow
def test_a_sound_agent_is_called_sound(place: Path) -> None:
    found = json.loads((place / "runs/waypoint/diagnosis/diagnosis.json").read_text())
    assert found["sound"]
    assert found["worse"] < 1
    assert found["findings"] == []


@pytest.mark.slow
def test_the_weights_are_laid_out_as_their_page_says(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/weights.md").read_text(), re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(place)
    page: dict[str, Any] = {}
    exec(code, page)
    policy = waypost.Policy.load(place / "runs/bc")
    low, high = np.array(policy.spec.observation_low), np.array(policy.spec.observation_high)
    states = np.random.default_rng(0).uniform(low, high, (50, 4)).astype(np.float32)
    assert page["act"](states) == pytest.approx(policy.act(states), rel=1e-4, abs=1e-2)
