"""Tasks: scores and environments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from waypost.agents.agent import Agent, Array, Memory
from waypost.envs import t_maze
from waypost.envs.mazes import AntMaze
from waypost.envs.tasks import TASKS, Protocol, Task, common_suite, task
from waypost.errors import WaypostError
from waypost.training.evaluation import rollouts


def test_scores() -> None:
    assert Task("x", "x", reference=(10.0, 30.0)).score(15.0) == 25
    assert Task("x", "x").score(15.0) is None


@pytest.mark.parametrize("name", TASKS)
def test_every_task_makes_its_environment(name: str) -> None:
    envs = task(name).make(3)
    observations, _ = envs.reset(seed=0)
    assert observations.shape[0] == 3
    observations, rewards, *_ = envs.step(np.zeros(envs.action_space.shape, np.float32))
    assert observations.shape == (3, *envs.single_observation_space.shape)
    assert rewards.shape == (3,)
    envs.close()
    assert task(name).reference is not None
    assert task(name).horizon is not None


@pytest.mark.parametrize("name", [name for name, task in TASKS.items() if task.suite == "waypost"])
def test_tasks_on_the_plane_can_be_drawn(name: str) -> None:
    layout = TASKS[name].layout
    assert layout is not None
    assert layout().walls


def test_tasks_of_the_replicas() -> None:
    assert {t.suite for t in TASKS.values()} == {"waypost", "replica"}
    for name, low, high, horizon in (
        ("hopper-medium", -20.272305, 3234.3, 1000),
        ("halfcheetah-random", -280.178953, 12135.0, 1000),
        ("walker2d-medium-expert", 1.629008, 4592.3, 1000),
        ("antmaze-umaze-diverse", 0, 1, 700),
        ("antmaze-medium-play", 0, 1, 1000),
        ("antmaze-large-diverse", 0, 1, 1000),
        ("pointmaze-umaze", 23.85, 161.86, 300),
        ("pointmaze-medium", 13.13, 277.39, 600),
        ("pointmaze-large", 6.7, 273.99, 800),
    ):
        found = TASKS[name]
        assert (found.suite, found.reference, found.horizon) == ("replica", (low, high), horizon)
        locomotion = "maze" not in name
        assert found.convention == ("return-range" if locomotion else "goal")
        assert found.protocol.episodes == (10 if locomotion else 100)


class Still(Agent):
    """Does nothing."""

    actions: Array

    def act(self, observations: Array, memory: Memory = ()) -> tuple[Array, Memory]:
        return jnp.broadcast_to(self.actions, (len(observations), len(self.actions))), memory


class Near(AntMaze):
    """An ant that begins at the goal in every second episode, elsewhere in the others."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        aside = np.array([4.0 * ((seed or 0) % 2), 0.0])
        return super().reset(seed=seed, options={"position": self.goal + aside})


gym.register("waypost-test/NearAnt-v0", entry_point=Near, max_episode_steps=3)


def test_success_of_the_ant_is_its_score() -> None:
    near = replace(TASKS["antmaze-umaze"], env_id="waypost-test/NearAnt-v0", stepping="sync")
    episodes = rollouts([Still(jnp.zeros(8))], near, 4)
    assert episodes.successes is not None
    assert episodes.successes.tolist() == [[True, False, True, False]]
    assert episodes.lengths.tolist() == [[1, 3, 1, 3]]
    (measures,) = episodes.measures(near)
    assert (measures["score"], measures["success_rate"]) == (50.0, 0.5)


def test_a_body_is_evaluated_by_its_return() -> None:
    episodes = rollouts([Still(jnp.zeros(3))], TASKS["hopper-medium"], 3)
    assert episodes.successes is None
    (measures,) = episodes.measures(TASKS["hopper-medium"])
    assert measures["return"] == pytest.approx(episodes.returns.mean())
    assert 0 < measures["score"] < 10


def test_scores_are_compared_within_one_suite() -> None:
    assert common_suite(["replica", "replica"]) == "replica"
    for suites in (["replica", "d4rl"], ["replica", None], [None, None], []):
        with pytest.raises(WaypostError, match="cannot be compared"):
            common_suite(suites)


def test_any_gymnasium_environment_is_a_task_without_scores() -> None:
    pendulum = task("Pendulum-v1")
    assert pendulum.suite is None
    assert pendulum.score(1.0) is None
    with pytest.raises(WaypostError, match="no task or Gymnasium environment is called 'Pendulum-v99'"):
        task("Pendulum-v99")


def test_a_module_can_bring_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "brings_a_pendulum.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('MyPendulum-v0', 'gymnasium.envs.classic_control:PendulumEnv', max_episode_steps=7)\n"
    )
    mine = task("brings_a_pendulum:MyPendulum-v0")
    assert mine.horizon == 7
    assert rollouts([Still(jnp.zeros(1))], mine, 2).lengths.tolist() == [[7, 7]]
    with pytest.raises(WaypostError, match="'no_such_module:MyPendulum-v0' cannot be made: No module named"):
        task("no_such_module:MyPendulum-v0")


def test_protocols_are_checked() -> None:
    with pytest.raises(WaypostError, match="evaluation episodes must be at least 1, got 0"):
        Protocol(episodes=0)


def test_the_t_maze_is_a_sound_environment() -> None:
    check_env(gym.make("waypost/TMaze-v0").unwrapped)


def test_the_t_maze_blocks_at_walls_and_opens_at_the_junction() -> None:
    up = np.array([0.0, 0.25], np.float32)
    assert t_maze.move(np.array([3.0, 0.4], np.float32), up).tolist() == pytest.approx([3.0, 0.4])
    assert t_maze.move(np.array([0.2, 0.4], np.float32), up).tolist() == pytest.approx([0.2, 0.65])
    slide = t_maze.move(np.array([3.0, 0.4], np.float32), np.array([-0.25, 0.25], np.float32))
    assert slide.tolist() == pytest.approx([2.75, 0.4])
    fast = t_maze.move(np.array([0.0, 0.0], np.float32), np.array([0.0, 9.0], np.float32))
    assert fast.tolist() == pytest.approx([0.0, 0.25])
    # What is drawn as wall is not free, and the start is.
    rng = np.random.default_rng(0)
    x0, x1, y0, y1 = t_maze.layout().extent
    points = rng.uniform((x0, y0), (x1, y1), (500, 2))
    walled = np.zeros(500, bool)
    for x, y, width, height in t_maze.layout().walls:
        walled |= ((points > (x, y)) & (points < (x + width, y + height))).all(axis=1)
    assert not t_maze.is_free(points[walled]).any()
    assert walled.sum() > 100
