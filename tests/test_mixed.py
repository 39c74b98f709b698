"""A valve beside a heater: from a log to a policy that acts, is evaluated, shipped and judged."""

from __future__ import annotations

import csv
import json
import os
import signal
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from starlette.testclient import TestClient

import waypost
from waypost import Columns
from waypost.cli import main
from waypost.errors import WaypostError
from waypost.shipping.service import Service

STEPS = 12
COLUMNS = Columns(
    observations=("level", "temp"), actions=("heater", "valve"), episode="batch", rewards="reward", discrete=("valve",)
)
NAMED = "--columns.observations level temp --columns.actions heater valve --columns.episode batch"
SMALL: dict[str, Any] = {"steps": 600, "batch_size": 64, "progress": False}
POR = {"value_hidden": (32,), "guide_hidden": (32,), "executor_hidden": (32,), "guide_target": "displacement"}


class Tank(gym.Env[np.ndarray, Any]):
    """A level that only the valve moves, up or down, and a temperature that only the heater moves; both cost."""

    observation_space = spaces.Box(-9, 9, (2,), np.float32)
    action_space: Any = spaces.Dict({"valve": spaces.Discrete(2), "heater": spaces.Box(0, 100, (1,))})

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps, self.state = 0, self.np_random.uniform(-1, 1, 2)
        return self.state.astype(np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.state = moved(self.state, int(action["valve"]), float(action["heater"][0]))
        self.steps += 1
        return self.state.astype(np.float32), cost(self.state), False, self.steps == STEPS, {}


class Pair(Tank):
    """The same with the parts in a Tuple, in the log's order, and a valve that is 1 or 2."""

    action_space: Any = spaces.Tuple((spaces.Box(0, 100, (1,)), spaces.Discrete(2, start=1)))

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return super().step({"heater": action[0], "valve": action[1] - 1})


def moved(state: np.ndarray, valve: int, heater: float) -> np.ndarray:
    return state + np.array([0.2 if valve else -0.2, (heater - 50) / 100])


def cost(state: np.ndarray) -> float:
    return -float((state**2).sum())


def controller(state: np.ndarray) -> tuple[float, str]:
    return float(np.clip(50 - 100 * state[1], 0, 100)), "open" if state[0] < 0 else "closed"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a controller did that is often not at its best."""
    rng, place = np.random.default_rng(0), tmp_path_factory.mktemp("mixed") / "log.csv"
    with place.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("batch", "level", "temp", "heater", "valve", "reward"))
        for batch in range(60):
            state = rng.uniform(-1, 1, 2)
            for _ in range(STEPS):
                heater, valve = controller(state)
                if rng.random() < 0.15:
                    valve = str(rng.choice(["open", "closed"]))
                heater = float(np.clip(heater + 8 * rng.normal(), 0, 100))
                after = moved(state, valve == "open", heater)
                rows.writerow((batch, *np.round(state, 5), round(heater, 3), valve, round(cost(after), 5)))
                state = after
    return place


@pytest.fixture(scope="module")
def data(log: Path) -> waypost.Dataset:
    return waypost.load(log, COLUMNS)


@pytest.fixture(scope="module")
def bc(log: Path) -> waypost.Run:
    out = log.parent / "bc"
    return waypost.train("bc", log, columns=COLUMNS, out=out, hidden=(32, 32), **SMALL)


@pytest.fixture(scope="module")
def por(data: waypost.Dataset) -> waypost.Run:
    return waypost.train("por", data, **POR, **SMALL)


def test_the_log_is_read_with_its_choices(data: waypost.Dataset) -> None:
    assert data.action_choices == ((), ("closed", "open"))
    assert data.action_names == ("heater", "valve")
    assert set(np.unique(data.require("actions")[:, 1])) == {0.0, 1.0}
    assert data.action_low is not None
    assert data.action_high is not None
    assert (data.action_low[1], data.action_high[1]) == (0, 1)
    assert "1 discrete of 2 choices and 1 continuous" in repr(data)


def returns(policy: waypost.Policy, constant: dict[int, float] | None = None) -> float:
    """Of a policy, also with one of its actions always the same."""
    states, total = np.random.default_rng(1).uniform(-1, 1, (20, 2)), 0.0
    for _ in range(STEPS):
        actions = np.array(policy.act(states))
        for column, value in (constant or {}).items():
            actions[:, column] = value
        named = [policy.action(action) for action in actions]
        states = np.stack(
            [moved(state, each["valve"] == "open", each["heater"]) for state, each in zip(states, named, strict=True)]
        )
        total += float(np.mean([cost(state) for state in states]))
    return total


@pytest.mark.parametrize("name", ["bc", "por"])
@pytest.mark.filterwarnings("ignore:an observation is far outside")
def test_both_the_choice_and_the_number_are_learned(
    name: str, data: waypost.Dataset, request: pytest.FixtureRequest
) -> None:
    policy, logged = request.getfixturevalue(name).policy, float(data.episode_returns.mean())
    assert returns(policy) > logged
    assert max(returns(policy, {1: valve}) for valve in (0.0, 1.0)) < 5 * logged
    assert returns(policy, {0: 80.0}) < 5 * logged


def test_a_policy_speaks_the_words_of_the_log(bc: waypost.Run) -> None:
    policy = waypost.Policy.load(bc.directory)
    found = policy.action(policy.act({"level": -0.8, "temp": 0.3}))
    assert list(found) == ["heater", "valve"]
    assert found["valve"] == "open"
    assert 5 < found["heater"] < 35
    assert policy.action(policy.act([0.8, 0.3]))["valve"] == "closed"
    record = json.loads((bc.directory / "policy" / "policy.json").read_text())
    assert record["spec"]["action_names"] == ["heater", "valve"]
    assert record["spec"]["action_choices"] == [[], ["closed", "open"]]
    with pytest.raises(WaypostError, match=r"valve must be one of 0, 1, got 0.5"):
        policy.action([20.0, 0.5])
    with pytest.raises(WaypostError, match="an action has 2 numbers, got 1"):
        policy.action([20.0])


@pytest.mark.parametrize("env", [Tank, Pair])
def test_it_acts_in_environments_with_parts_whatever_their_order(env: type[Tank], bc: waypost.Run) -> None:
    found = waypost.evaluate(bc, env=env, episodes=20, progress=False)
    assert found["mean"]["return"] > -1.0


def test_an_environment_with_other_actions_says_what_differs(bc: waypost.Run) -> None:
    class Other(Tank):
        action_space = spaces.MultiDiscrete([2, 3])

    with pytest.raises(WaypostError, match=r"takes actions of 0: one of 2, 1: one of 3; the agent gives a number, one"):
        waypost.evaluate(bc, env=Other, episodes=1)

    class Graph(Tank):
        action_space = spaces.Dict({"valve": spaces.Text(3)})

    with pytest.raises(WaypostError, match="must be Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple"):
        waypost.evaluate(bc, env=Graph, episodes=1)


def test_an_exported_policy_does_the_same(bc: waypost.Run, data: waypost.Dataset, tmp_path: Path) -> None:
    for name in ("policy.onnx", "policy.npz"):
        found = waypost.export(bc, tmp_path / name)
        assert found["difference"] < 1e-5
        assert found["action_names"] == ["heater", "valve"]
        assert found["action_choices"] == [{}, {"closed": 0.0, "open": 1.0}]
    from waypost.shipping.numpy_policy import Policy

    rows = data.observations[:50]
    np.testing.assert_allclose(Policy(tmp_path / "policy.npz").act(rows), bc.policy.act(rows), atol=1e-3)


def test_a_service_answers_in_the_words_of_the_log(bc: waypost.Run) -> None:
    client = TestClient(Service(bc.directory, reload_seconds=0).app)
    answer = client.post("/act", json={"observation": {"level": -0.8, "temp": 0.3}}).json()
    assert answer["named_action"]["valve"] == "open"
    assert answer["named_action"]["heater"] == pytest.approx(answer["action"][0])
    several = client.post("/act", json={"observation": [[-0.8, 0.3], [0.8, 0.3]]}).json()
    assert [each["valve"] for each in several["named_action"]] == ["open", "closed"]
    assert client.get("/about").json()["action_names"] == ["heater", "valve"]


def test_a_resumed_training_ends_with_the_same_bits(bc: waypost.Run, log: Path, tmp_path: Path) -> None:
    main_process = os.getpid()

    class Stop(waypost.Callback):
        def advance(self, stage: str, step: int) -> None:
            if step >= 200:
                os.kill(main_process, signal.SIGINT)

    options: dict[str, Any] = {"columns": COLUMNS, "out": tmp_path / "run", "hidden": (32, 32), **SMALL}
    with pytest.raises(waypost.InterruptedRun):
        waypost.train("bc", log, callbacks=[Stop()], **options)
    waypost.train("bc", log, resume=True, **options)
    files = [folder / "policy" / "seed-0.safetensors" for folder in (bc.directory, tmp_path / "run")]
    assert files[0].read_bytes() == files[1].read_bytes()


def exit_code(command: str) -> Any:
    with pytest.raises(SystemExit) as ended:
        main(command.split())
    return ended.value.code


def test_what_cannot_be_done_with_them_is_said_in_a_line(
    log: Path, por: waypost.Run, data: waypost.Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(f"train td3bc --data {log} {NAMED} --columns.discrete valve") == 2
    (line,) = [each for each in capsys.readouterr().err.splitlines() if "cannot learn" in each]
    assert "these can: por, waypoint, bc, bc10, iql" in line
    assert exit_code(f"train bc --data {log} {NAMED}") == 2
    assert "--columns.discrete valve takes it as a choice" in capsys.readouterr().err
    with pytest.raises(WaypostError, match="partly discrete actions cannot be diagnosed"):
        waypost.diagnose(por.policy, data)


def test_an_inspection_knows_choices_from_numbers(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(f"inspect {log} {NAMED} --columns.discrete valve --json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["action_choices"] == [[], ["closed", "open"]]
    columns = {column["name"]: column for column in record["columns"]}
    assert (columns["valve"]["choices"], columns["valve"]["mean"]) == (2, None)
    assert columns["heater"]["choices"] is None
    supported = {each["algorithm"] for each in record["supports"] if each["supported"]}
    assert supported == {"por", "waypoint", "bc", "bc10", "iql", "rvs-r", "rvs-g"}
