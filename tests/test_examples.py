"""The examples run as their first lines say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from runpy import run_path

import pytest
from pages import shorten
from samples import TINY, walk

import waypost
from waypost.agents import ALGORITHMS
from waypost.training.policy import Policy

EXAMPLES = Path(__file__).parents[1] / "examples"
SAID = {
    "train_and_act.py": ("success rate", "waypoint", "the same action"),
    "own_log.py": ("10 000 transitions in 200 episodes", "at +1, standing still"),
    "new_task.py": ("value and guide took", "new way"),
    "onnx_service.py": ("-> action, value, waypoint at http://127.0.0.1:", 'answer: {"action": [['),
}


def exported() -> list[str]:
    chosen, config = ALGORITHMS["por"].load(), ALGORITHMS["por"].config_type(**TINY)
    _, spec = chosen.prepare(config, walk())
    waypost.export(Policy("por", config, spec, chosen.build(config, spec)), "policy.onnx", data=walk())
    return ["policy.onnx"]


NEEDS = {"onnx_service.py": exported}
"""What must be there first, and the arguments that name it."""


def test_every_example_is_tried() -> None:
    assert {file.name for file in EXAMPLES.glob("*.py")} == set(SAID)


@pytest.mark.parametrize("name", SAID)
def test_an_example_runs_in_its_quick_form(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shorten(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [name, *NEEDS.get(name, list)(), "--quick"])
    run_path(str(EXAMPLES / name), run_name="__main__")
    said = capsys.readouterr().out
    for words in SAID[name]:
        assert words in said


@pytest.mark.slow
def test_the_cart_is_pushed_back_by_what_was_learned_from_the_log(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, EXAMPLES / "own_log.py"], cwd=tmp_path, capture_output=True, text=True)
    pushes = [float(line.split()[-1]) for line in done.stdout.splitlines() if line.startswith("at ")]
    assert pushes[0] < -0.3
    assert abs(pushes[1]) < 0.3
    assert pushes[2] > 0.3


def test_the_service_needs_neither_waypost_nor_jax() -> None:
    code = "import sys, onnx_service; assert not {'jax', 'waypost', 'onnx'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=EXAMPLES, check=True)
