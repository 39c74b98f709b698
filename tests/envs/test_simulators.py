"""Making environments: MuJoCo kept quiet, and one line where something is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import mujoco
import pytest

from waypost.envs.mazes import AntMaze
from waypost.envs.simulators import make
from waypost.envs.tasks import TASKS
from waypost.errors import WaypostError
from waypost.recording.replicas import collect


def test_mujoco_writes_nothing_when_environments_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make("HalfCheetah-v5").close()
    TASKS["halfcheetah-medium"].make(2).close()
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")
    assert mujoco.get_mju_user_warning() is None


def test_an_environment_that_cannot_be_made_is_named() -> None:
    with pytest.raises(WaypostError, match="environment 'Gecko-v5' cannot be made"):
        make("Gecko-v5")


@pytest.mark.parametrize(
    ("task", "env_id", "missing"),
    [
        ("hopper-medium", "Hopper-v5", "mujoco"),
        ("antmaze-umaze", "waypost/AntMaze-umaze-v0", "mujoco"),
        ("antmaze-umaze", "waypost/AntMaze-umaze-v0", "gymnasium_robotics"),
        ("pointmaze-large", "waypost/PointMaze-large-v0", "gymnasium_robotics"),
    ],
)
def test_without_a_simulator_the_extra_is_named(
    task: str, env_id: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    line = f"environment '{env_id}' needs {missing}; pip install 'waypost[mujoco]'"
    for attempt in (lambda: make(env_id), lambda: TASKS[task].make(2), lambda: collect(task, 10, workers=1)):
        with pytest.raises(WaypostError) as raised:
            attempt()
        assert str(raised.value) == line


def test_a_maze_made_by_hand_names_the_extra_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium_robotics", None)
    with pytest.raises(
        WaypostError, match=r"AntMaze-medium-v0' needs gymnasium_robotics; pip install 'waypost\[mujoco\]'"
    ):
        AntMaze("medium")


def test_naming_tasks_and_recordings_loads_no_simulator_and_draws_nothing() -> None:
    program = """
import sys
for name in ("mujoco", "gymnasium_robotics", "matplotlib"):
    sys.modules[name] = None
import waypost.recording
from waypost.envs.tasks import TASKS, task
from waypost.recording.replicas import REPLICAS
assert set(REPLICAS) < set(TASKS)
layouts = [each.layout() for each in TASKS.values() if each.layout is not None]
print(len(layouts), task("hopper-medium").horizon, [name for name in ("jax", "scipy", "pandas") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("13 1000 []", "")
