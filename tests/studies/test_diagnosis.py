"""Theorem 1 measured, against loops over a world whose inverse dynamics are known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import waypost
from waypost.agents.agent import Spec
from waypost.agents.guided import GuidedAgent
from waypost.agents.nets import Continuous, Direction, Scaling
from waypost.agents.por import Config, Executor
from waypost.agents.space import Projection, Space
from waypost.cli import main
from waypost.data.dataset import Dataset
from waypost.report.diagnosis import write_diagnosis
from waypost.studies.diagnosis import diagnose, nearest
from waypost.studies.findings import Diagnosis
from waypost.training.policy import Policy

ROWS, STATES, NEIGHBOURS = 300, 40, 6
SPEED = 0.1
LOW, HIGH = np.array([-1.0, 0.0], np.float32), np.array([1.0, 4.0], np.float32)


class Exact(eqx.Module):
    """The inverse dynamics themselves, with a mistake if one is wanted."""

    mistake: float = eqx.field(static=True, default=0.0)

    def mode(self, inputs: Any) -> Any:
        return (inputs[:, 2:] - inputs[:, :2]) / SPEED + self.mistake


class East(eqx.Module):
    """A guide that goes east as far as one can."""

    def __call__(self, observations: Any) -> Any:
        return observations + jnp.array([SPEED, 0.0])


class Far(eqx.Module):
    """The further east and the further north, the better."""

    def __call__(self, observations: Any) -> Any:
        return observations[:, 0] + 0.1 * observations[:, 1]


@pytest.fixture
def world() -> Dataset:
    rng = np.random.default_rng(0)
    states = rng.uniform(0, (1.0, 3.0), (ROWS, 2)).astype(np.float32)
    scaled = rng.uniform(-1, 1, (ROWS, 2)).astype(np.float32)
    actions = LOW + (scaled + 1) / 2 * (HIGH - LOW)
    return Dataset.from_arrays(
        states,
        states + SPEED * scaled,
        actions,
        rng.normal(0, 0.05, ROWS).astype(np.float32),
        np.arange(ROWS) % 10 == 9,
        np.zeros(ROWS, bool),
        action_low=LOW,
        action_high=HIGH,
        name="world",
    )


def policy(mistake: float = 0.0) -> Policy:
    identity = Scaling(np.zeros(2), np.ones(2))
    net: Any = Exact(mistake)
    executor = Executor(net, Continuous(LOW, HIGH), (0, 1), identity, Direction(identity, "state"))
    parts: Any = (Far(), East(), executor)
    return Policy("por", Config(inverse_temperature=7.0), Spec(2, 2, tuple(LOW), tuple(HIGH)), GuidedAgent(*parts))


def measured(data: Dataset, mistake: float = 0.0) -> Diagnosis:
    return diagnose(policy(mistake), data, states=STATES, neighbours=NEIGHBOURS, seed=3)


def oracle(data: Dataset, mistake: float) -> dict[str, list[float]]:
    """Every number once more, one state at a time."""
    asked = np.random.default_rng(3).permutation(ROWS)[:STATES]
    scale = data.observations.astype(np.float64).std(axis=0)
    s, following = data.observations.astype(np.float64), data.next_observations.astype(np.float64)
    a = 2 * (data.require("actions") - LOW) / (HIGH - LOW) - 1
    worth = data.require("rewards") + np.where(data.terminals, 0, 0.99) * (following[:, 0] + 0.1 * following[:, 1])
    found: dict[str, list[float]] = {name: [] for name in ("l1", "l2", "l3", "gap", "guide_distance", "guide_to_data")}
    for i in asked:
        goal = s[i] + [SPEED, 0]
        others = sorted(set(range(ROWS)) - {i}, key=lambda j: np.linalg.norm((s[i] - s[j]) / scale))[:NEIGHBOURS]
        slopes = [
            np.linalg.norm(a[i] - a[j])
            / (np.linalg.norm((s[i] - s[j]) / scale) + np.linalg.norm((following[i] - following[j]) / scale))
            for j in others
        ]
        best = a[max(others, key=lambda j: worth[j])]
        aim = a[min(others, key=lambda j: np.linalg.norm((following[j] - s[j] - goal + s[i]) / scale))]
        distance = np.linalg.norm((goal - following[i]) / scale)
        found["guide_distance"].append(float(distance))
        found["guide_to_data"].append(min(np.linalg.norm((goal - each) / scale) for each in following))
        found["l1"].append(float((max(slopes) + scale.max() / SPEED) * distance))
        found["l2"].append(float(np.linalg.norm(aim - best)))
        found["l3"].append(float(np.linalg.norm(np.clip(a[i] + mistake, -1, 1) - a[i])))
        found["gap"].append(float(np.linalg.norm(np.clip([1 + mistake, mistake], -1, 1) - best)))
    return found


@pytest.mark.parametrize("mistake", [0.0, 0.3])
def test_every_measure_is_that_of_a_loop(world: Dataset, mistake: float) -> None:
    found = measured(world, mistake)
    for name, numbers in oracle(world, mistake).items():
        assert np.allclose(found.measures[name], numbers, rtol=1e-3, atol=1e-3), name
    parts = [found.measures[name] for name in ("l1", "l2", "l3")]
    assert np.allclose(found.measures["bound"], np.sum(parts, axis=0))
    assert found.holds == 1.0
    assert found.inverse_temperature == 7.0


class Coordinates(East):
    """The same guide, which speaks of the first two columns of three and leaves the last as it is."""

    space: Space

    def __call__(self, observations: Any) -> Any:
        return observations + jnp.array([SPEED, 0.0, 0.0])


def test_a_guide_that_speaks_of_some_coordinates_is_measured_in_these(world: Dataset) -> None:
    """A third column that jumps about changes no distance between next states and goals, and no slope."""
    jumps = np.random.default_rng(5).normal(0, 50, (2, ROWS, 1)).astype(np.float32)
    wide = Dataset.from_arrays(
        np.hstack([world.observations, jumps[0]]), np.hstack([world.next_observations, jumps[1]]), world.actions,
        world.rewards, world.terminals, world.timeouts, action_low=LOW, action_high=HIGH, name="wide",
    )  # fmt: skip
    scaling = Scaling(*wide.observation_moments)
    directions = jnp.asarray(np.eye(3)[:, :2], jnp.float32)
    space = Space(scaling, Scaling(np.zeros(2), np.ones(2)), Projection(directions, directions.T), "displacement")
    plain = policy()
    agent: Any = GuidedAgent(plain.agent.value_part, Coordinates(space), plain.agent.executor)  # type: ignore[attr-defined]
    subject = Policy("por", plain.config, replace(plain.spec, observation_size=3), agent)
    found = diagnose(subject, wide, states=STATES, neighbours=NEIGHBOURS, seed=3).measures
    expected = measured(world).measures
    for name in ("guide_distance", "guide_to_data", "data_to_data", "executor_slope", "l3", "value_gain"):
        assert np.allclose(found[name], expected[name], rtol=1e-3, atol=1e-4), name
    # What could be done in a state depends on all of it: neighbours are still those in all columns.
    assert not np.allclose(found["inverse_slope"], expected["inverse_slope"], rtol=0.1)


def test_goals_in_the_data_are_near_and_goals_outside_are_not(world: Dataset) -> None:
    assert 0 < measured(world).near < 1
    moved = world.observations + np.float32([5.0, 0.0])
    away = diagnose(policy(), Dataset.from_arrays(
        moved, world.next_observations, world.actions, world.rewards, world.terminals, world.timeouts,
        action_low=LOW, action_high=HIGH, name="away",
    ), states=STATES)  # fmt: skip
    assert away.near == 0.0


def test_the_nearest_points_are_those_of_a_full_search() -> None:
    rng = np.random.default_rng(1)
    queries, points = rng.normal(size=(30, 4)), rng.normal(size=(50, 4))
    distances = np.linalg.norm(queries[:, None] - points[None], axis=-1)
    found, lengths = nearest(queries, points, 5, block=7)
    assert (found == distances.argsort(axis=1)[:, :5]).all()
    assert np.allclose(lengths, np.sort(distances, axis=1)[:, :5])
    itself, _ = nearest(points, points, 1, own=np.arange(50))
    assert (itself[:, 0] != np.arange(50)).all()


def test_the_reading_names_the_largest_part() -> None:
    ones = np.ones(4)
    names = ("guide_distance", "guide_to_data", "data_to_data", "inverse_slope", "executor_slope", "recorded_gap")
    names = (*names, "action_spread")
    for largest in ("l1", "l2", "l3"):
        parts = {name: ones * (3 if name == largest else 1) for name in ("l1", "l2", "l3")}
        rest = {"bound": 5 * ones, "gap": ones, "value_gain": -ones}
        words = Diagnosis({**dict.fromkeys(names, ones), **parts, **rest}, 3.0).reading()
        assert f"the largest is {largest}." in words
        assert "1 lower at the goals than at the recorded next states" in words


def test_a_run_is_diagnosed_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = dict.fromkeys(("value_hidden", "guide_hidden", "executor_hidden"), (8,))
    waypost.save(waypost.load("t-maze").slice(0.7, 0.8), tmp_path / "few.npz")
    waypost.train("por", tmp_path / "few.npz", steps=20, out=tmp_path / "run", env="none", **small)
    with pytest.raises(SystemExit) as done:
        main(["diagnose", str(tmp_path / "run"), "--states", "50", "--json"])
    assert done.value.code == 0
    record = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert record["states"] == 50
    folder = tmp_path / "run" / "diagnosis"
    assert {path.name for path in folder.iterdir()} == {
        f"diagnosis.{end}" for end in ("json", "csv", "md", "png", "svg")
    }
    assert json.loads((folder / "diagnosis.json").read_text()) == record
    assert waypost.train("bc", "t-maze", steps=2, out=tmp_path / "bc", env="none", hidden=(4,)).directory
    with pytest.raises(SystemExit) as stopped:
        main(["diagnose", str(tmp_path / "bc")])
    assert stopped.value.code == 2
    assert "has no guide and executor" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"states": 0}, "states must be from 1 to 100000, got 0"),
        ({"states": 10**9}, "states must be from 1 to 100000, got 1000000000"),
        ({"neighbours": 0}, "neighbours must be from 1 to 1000, got 0"),
        ({"neighbours": 2.5}, "neighbours must be a whole number, got 2.5"),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused(world: Dataset, options: dict[str, Any], message: str) -> None:
    with pytest.raises(waypost.WaypostError, match=message):
        diagnose(policy(), world, **options)


def test_data_of_other_columns_are_refused() -> None:
    with pytest.raises(waypost.WaypostError, match=r"four-rooms-key: .* \(3, 2\) columns, the agent's have \(2, 2\)"):
        diagnose(policy(), "four-rooms-key")


def test_what_cannot_be_diagnosed_is_refused(world: Dataset, tmp_path: Path) -> None:
    with pytest.raises(waypost.WaypostError, match="does not know its data"):
        diagnose(policy())
    with pytest.raises(waypost.WaypostError, match="has no rewards"):
        diagnose(policy(), world.without_rewards())
    with pytest.raises(waypost.WaypostError, match="more than 400 are needed"):
        diagnose(policy(), world, neighbours=400)
    whole = policy()
    lacking = eqx.tree_at(lambda agent: agent.guide_part, whole.agent, None, is_leaf=lambda x: isinstance(x, East))
    with pytest.raises(waypost.WaypostError, match="no guide; a diagnosis needs all three"):
        diagnose(Policy("por", whole.config, whole.spec, lacking), world)
    assert write_diagnosis(measured(world), tmp_path / "new" / "folder").is_dir()
