"""The tank of examples/tank: its log is as logs are, and a tuned controller beats the one that wrote it."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import waypost
from waypost.data.inspection import inspect

FILE = Path(__file__).parents[1] / "examples" / "tank" / "tank.py"


@pytest.fixture(scope="module")
def tank() -> ModuleType:
    spec = spec_from_file_location("tank", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["tank"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def logs(tank: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tank")
    assert -300 < tank.write_logs(folder) < -200
    return folder


def columns(tank: ModuleType) -> waypost.Columns:
    roles = {"rewards": "reward", "terminals": "trip", "episode": "batch", "time": "time"}
    return waypost.Columns(observations=tank.OBSERVATIONS, actions=tank.ACTIONS, **roles)


def test_the_log_is_read_with_nothing_but_the_names_of_its_columns(tank: ModuleType, logs: Path) -> None:
    data = waypost.load(f"{logs}/*.csv", columns(tank))
    assert len(data.parts) == 12
    assert 18_000 < len(data) < 22_000
    assert 144 < len(data.episode_starts) < 180
    assert 5 <= data.terminals.sum() <= 20
    assert 1.2e5 < data.observations[:, 3].mean() < 1.3e5
    assert any("gaps" in note for note in data.notes)
    assert any("missing values" in note for note in data.notes)
    assert {finding.what for finding in inspect(data).findings} == {"extreme-scale", "time-gaps", "reader"}


def test_a_tuned_controller_is_much_better_than_the_logs(tank: ModuleType) -> None:
    log, trips = tank.true_return(tank.Mediocre(200, np.random.default_rng(0)), 200)
    tuned, none = tank.true_return(tank.PI(200), 200)
    assert -290 < log < -220
    assert -80 < tuned < -60
    assert none == 0 < trips
    assert tank.true_return(tank.PI(200), 200) == (tuned, none)


def test_a_policy_is_given_its_columns_in_its_own_order(tank: ModuleType, logs: Path) -> None:
    names = waypost.Columns(**{**vars(columns(tank)), "observations": tank.OBSERVATIONS[::-1]})
    data = waypost.load(logs / "day-01.csv", names, pipeline=waypost.Pipeline(history=2))
    run = waypost.train("bc", data, steps=2, hidden=(4,))
    seen: list[np.ndarray] = []
    act = run.policy.act_with_memory

    class Watched:
        spec, start = run.policy.spec, run.policy.start

        def act_with_memory(self, observations: np.ndarray, memory: object) -> object:
            seen.append(observations)
            return act(observations, memory)

    with pytest.warns(UserWarning, match="far outside the training data"):  # after two updates it boils the tank
        earned, trips = tank.true_return(Watched(), 3)
    assert earned < 0
    assert 0 <= trips <= 3
    assert (seen[0][:, 0] > 1e5).all()
