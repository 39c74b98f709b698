"""The table of development tasks: its simulators and logs, one tiny training, and what the verdicts say."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import waypost

development: Any = import_module("development")
simulators: Any = import_module("simulators")
QUICK = sorted(set(simulators.TASKS) - {"lunarlander"})
"""Those that need nothing but Gymnasium itself."""
EPISODES = 4


def returns(name: str, skill: float) -> np.ndarray:
    task, rng = simulators.TASKS[name], np.random.default_rng(1)
    return simulators.simulate(task, simulators.Behaviour(task, np.full(EPISODES, skill), rng), EPISODES, rng).returns


@pytest.mark.parametrize("name", QUICK)
def test_the_good_controller_is_far_better_than_random_actions_and_always_the_same(name: str) -> None:
    good, bad = returns(name, 1.0), returns(name, 0.0)
    assert good.mean() > bad.mean() + 0.1 * abs(bad.mean())
    assert np.array_equal(good, returns(name, 1.0))


def test_a_seed_gives_the_same_log_byte_for_byte(tmp_path: Path) -> None:
    logs = [development.write_set("motor-mixed", tmp_path / str(i), rows=300, seed=i // 2) for i in range(3)]
    first, again, other = (Path(log.files).read_bytes() for log in logs)
    assert first == again != other
    data = waypost.load(logs[0].files, logs[0].columns)
    assert len(data) == 300
    assert data.observation_names == simulators.Motor.names
    assert logs[0].mean_return < -50


def test_a_training_leaves_a_result_that_is_read_until_settings_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny: dict[str, Any] = {"episodes": EPISODES, "rows": 100, "steps": 2, "batch_size": 8, "hidden": (4,)}

    def train(**changed: Any) -> None:
        development.train_on("cartpole-mixed", ["bc", "td3bc"], [100, 101], tmp_path, **tiny | changed)

    train()
    folder = tmp_path / "cartpole-mixed"
    # TD3+BC is for continuous actions only.
    assert {file.name for file in folder.iterdir()} == {"log.json", "bc-100.json", "bc-101.json"}
    found = json.loads((folder / "bc-101.json").read_text())
    assert (found["seed"], found["settings"]["steps"], found["settings"]["hidden"]) == (101, 2, [4])
    assert 1 <= found["return"] <= 500
    assert development.score(folder, "bc", [100, 101]).seeds == 2
    assert development.write_table(tmp_path, [100, 101]) in (tmp_path / "table.md").read_text()
    assert (tmp_path / "table.csv").read_text().startswith("set,rows,log,good,random,bc,por,")
    asked: list[list[int]] = []
    monkeypatch.setattr(waypost, "train", lambda *_, seeds, **__: asked.append(seeds) or pytest.fail("trained again"))
    train()
    assert asked == []
    (folder / "bc-100.json").unlink()
    with pytest.raises(pytest.fail.Exception, match="trained again"):
        train()
    with pytest.raises(pytest.fail.Exception, match="trained again"):
        train(steps=3)
    assert asked == [[100], [100, 101]]


@pytest.mark.parametrize(
    ("algorithm", "mean", "alarms", "told"),
    [
        ("por", 60.0, (), "holds"),
        ("por", 55.0, (), "holds"),  # BC has 57, and two standard errors are 2.8
        ("por", 53.0, (), "below BC"),
        ("waypoint", 91.0, (), "holds"),  # the log has 95, but the good controller is hardly better
        ("waypoint", 89.0, (), "below the log"),
        ("iql", 45.0, (), "holds"),
        ("iql", 40.0, (), "far below BC"),
        ("iql", 40.0, ("values",), "holds (alarm)"),
    ],
)
def test_verdicts(algorithm: str, mean: float, alarms: tuple[str, ...], told: str) -> None:
    log = {"return": 95.0 if mean > 80 else 50.0, "good": {"return": 100.0}, "random": {"return": 0.0}}
    own, bc = development.Score(mean, 1.0, 2, alarms), development.Score(57.0, 1.0, 2, ())
    assert development.verdict(algorithm, own, bc, log) == told


def test_the_error_of_two_seeds_that_differ_is_that_of_their_means(tmp_path: Path) -> None:
    for seed, mean in ((0, 10.0), (1, 30.0)):
        record = {"return": mean, "error": 1.0, "alarms": ["policy"] * seed, "settings": {}}
        (tmp_path / f"por-{seed}.json").write_text(json.dumps(record))
    assert development.score(tmp_path, "por", (0, 1, 2)) == (20.0, pytest.approx(10.0), 2, ("policy",))
    assert development.score(tmp_path, "por", (0,)) == (10.0, 1.0, 1, ())
    assert development.score(tmp_path, "iql", (0,)) is None


def test_the_plants_log_has_a_goal_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / development.PLANT
    folder.mkdir()
    log = {"return": -250.0, "ended": 0.06, "rows": 9, "good": {"return": -70.0}, "random": {"return": -400.0}}
    (folder / "log.json").write_text(json.dumps(log))
    for seed, (earned, ended) in enumerate([(-189.0, 0.0), (-191.0, 0.0), (-100.0, 0.07)]):
        found = {"return": earned, "error": 1.0, "ended": ended, "alarms": []}
        (folder / f"waypoint-{seed}.json").write_text(json.dumps(found))
    assert [row["holds"] for row in development.plant_rows(tmp_path)] == ["yes", "no", "no"]
    page = tmp_path / "page.md"
    page.write_text(f"above\n{development.BEGIN}earlier\n{development.END}below\n")
    development.put_into(page, development.write_table(tmp_path, [0]))
    text = page.read_text()
    assert text.startswith("above\n")
    assert text.endswith("below\n")
    assert "| tank-plant | waypoint | 2 | -100 | 7% | 83% | no |" in text
    assert "earlier" not in text
