"""Environments given as objects, and observations with parts."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import waypost
from waypost.envs.tasks import task
from waypost.errors import WaypostError


class Plant(gym.Env[dict[str, Any], np.ndarray]):
    """Two tanks and a mode; the reward of every one of its three steps is the action."""

    observation_space = spaces.Dict(
        {"level": spaces.Box(-9, 9, (2,)), "mode": spaces.Discrete(2), "temp": spaces.Box(-99, 99, (1,))}
    )
    action_space = spaces.Box(-1, 1, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self.state(), {}

    def step(self, action: np.ndarray) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self.state(), float(action[0]), self.steps == 3, False, {}

    def state(self) -> dict[str, Any]:
        levels = np.array([self.steps, -self.steps], np.float32)
        return {"level": levels, "mode": self.steps % 2, "temp": np.array([50.0], np.float32)}


def log(*names: str) -> waypost.Dataset:
    """What to do depends on the column `level.0` alone."""
    rng = np.random.default_rng(0)
    observations = rng.normal(size=(64, len(names))) * 3.0
    actions = np.clip(observations[:, [names.index("level.0")]], -1, 1)
    timeouts = np.arange(64) % 8 == 7
    return waypost.Dataset.from_arrays(
        observations,
        actions=actions,
        rewards=np.ones(64),
        timeouts=timeouts,
        observation_names=names,
        action_low=[-1],
        action_high=[1],
    )


def test_parts_come_in_declared_order() -> None:
    envs = task(Plant).make(2)
    observations, _ = envs.reset(seed=[0, 1])
    assert observations.tolist() == [[0.0, 0.0, 1.0, 0.0, 50.0]] * 2
    observations = envs.step(np.zeros((2, 1)))[0]
    assert observations.tolist() == [[1.0, -1.0, 0.0, 1.0, 50.0]] * 2
    assert envs.single_observation_space.shape == (5,)
    envs.close()


def test_evaluation_takes_the_order_of_the_data() -> None:
    """The agent reads three of the columns in another order than the environment has them."""
    protocol = waypost.Protocol(every=0, episodes=2)
    options: dict[str, Any] = {"hidden": (16,), "batch_size": 32, "steps": 300, "learning_rate": 0.01}
    run = waypost.train("bc", log("temp", "level.1", "level.0"), env=Plant, evaluation=protocol, **options)
    states = np.array([[50.0, -step, step] for step in range(3)])
    with pytest.warns(UserWarning, match="far outside"):
        expected = run.policy.act(states).sum()
    assert run.result["mean"]["return"] == pytest.approx(expected, abs=1e-4)
    assert run.plan.task == run.result["task"] == f"{__name__}.Plant"
    again = waypost.evaluate(run, env=lambda: Plant(), episodes=3)
    assert again["mean"]["return"] == pytest.approx(expected, abs=1e-4)
    assert waypost.evaluate(run)["task"] == f"{__name__}.Plant"


def test_an_environment_that_is_made_already_is_refused() -> None:
    made: Any = Plant()
    with pytest.raises(WaypostError, match="got an environment; several are made"):
        task(made)
