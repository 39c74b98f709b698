"""The mazes: D4RL's maps and numbers, shortest ways, and what counts as having arrived."""

from __future__ import annotations

import warnings
from importlib import import_module
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from waypost.envs.mazes import ANT_SCALE, MAZES, POINT_SCALE, AntMaze, Maze, PointMaze, distances, next_cell
from waypost.errors import WaypostError
from waypost.recording.controllers import Route

IDS = [f"waypost/{body}-{maze}-v0" for body in ("AntMaze", "PointMaze") for maze in MAZES]


# -- maps ----------------------------------------------------------------------------------------------


def test_maps_are_those_of_the_simulator() -> None:
    maps = import_module("gymnasium_robotics.envs.maze.maps")
    for maze, theirs in zip(MAZES.values(), (maps.U_MAZE, maps.MEDIUM_MAZE, maps.LARGE_MAZE), strict=True):
        assert [[int(mark == "#") for mark in row] for row in maze.rows] == theirs
    picked = {"medium": maps.MEDIUM_MAZE_DIVERSE_G, "large": maps.LARGE_MAZE_DIVERSE_G}
    for name, theirs in picked.items():
        goals = tuple((r, c) for r, row in enumerate(theirs) for c, mark in enumerate(row) if mark == "g")
        assert MAZES[name].play_goals == goals


@pytest.mark.parametrize("maze", MAZES.values(), ids=MAZES)
def test_places_with_a_meaning_are_free_and_cells_have_positions(maze: Maze) -> None:
    assert {maze.start, maze.ant_goal, maze.point_goal, *maze.play_goals} <= set(maze.free)
    for scale in (ANT_SCALE, POINT_SCALE):
        for cell in maze.free:
            centre = maze.centre(cell, scale)
            for offset in ((0.0, 0.0), (0.49, -0.49), (-0.49, 0.49)):
                assert maze.cell_of(centre + np.array(offset) * scale, scale) == cell


def test_positions_are_those_of_the_simulator() -> None:
    inner = AntMaze("large")._inner.maze
    for cell in MAZES["large"].free:
        assert MAZES["large"].centre(cell, ANT_SCALE) == pytest.approx(inner.cell_rowcol_to_xy(np.array(cell)))


@pytest.mark.parametrize("maze", MAZES.values(), ids=MAZES)
def test_every_way_gets_shorter_with_every_step(maze: Maze) -> None:
    for target in maze.free:
        field = distances(maze, target)
        assert set(field) == set(maze.free), "every cell can be reached"
        for cell in maze.free:
            assert field[next_cell(maze, cell, target)] == max(0, field[cell] - 1)


def test_ways_by_hand() -> None:
    assert distances(MAZES["umaze"], (3, 1))[1, 1] == 6
    assert next_cell(MAZES["umaze"], (1, 3), (3, 1)) == (2, 3)
    assert next_cell(MAZES["umaze"], (2, 1), (3, 1)) in {(1, 1), (3, 1)}, "leaning over a wall"


@pytest.mark.parametrize("maze", MAZES.values(), ids=MAZES)
def test_a_route_leads_to_its_goal_and_back_from_where_one_strays(maze: Maze) -> None:
    rng = np.random.default_rng(0)
    for cell in maze.free:
        target = maze.free[rng.integers(len(maze.free))]
        route = Route(maze, ANT_SCALE, maze.centre(target, ANT_SCALE) + 0.5, rng)
        position = maze.centre(cell, ANT_SCALE)
        for step in range(600):
            if step == 50:
                position = maze.centre(maze.start, ANT_SCALE)
            aim = route.aim(position)
            position = position + 0.3 * (aim - position) / max(0.3, float(np.linalg.norm(aim - position)))
            assert maze.cell_of(position, ANT_SCALE) in maze.free
        assert position == pytest.approx(route.goal)


def test_unknown_mazes_are_named() -> None:
    with pytest.raises(WaypostError, match="there is no maze 'ultra'; choose from umaze, medium, large"):
        AntMaze("ultra")


# -- environments --------------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", IDS)
def test_environments_are_sound(env_id: str) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*infinity.*")
        check_env(gym.make(env_id).unwrapped, skip_render_check=True)


def test_nothing_is_left_behind_in_the_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    AntMaze().close()
    PointMaze().close()
    assert not list(tmp_path.iterdir())


def test_the_29_numbers_are_in_the_order_of_d4rl() -> None:
    env = AntMaze("medium")
    env.reset(seed=0)
    action = np.full(8, 0.3, np.float32)
    observation, *_ = env.step(action)
    theirs = env._inner._get_obs(env._inner.ant_env._get_obs())
    assert observation == pytest.approx(np.concatenate([theirs["achieved_goal"], theirs["observation"]]), abs=1e-5)
    data = env._inner.ant_env.data
    assert observation[:15] == pytest.approx(data.qpos)
    assert observation[15:] == pytest.approx(data.qvel)


def test_the_ant_starts_at_the_start_and_moves_with_its_actions() -> None:
    env = AntMaze("umaze")
    starts = np.array([env.reset(seed=seed)[0] for seed in range(20)])
    assert np.abs(starts[:, :2] - [-4, 4]).max() <= 0.1
    assert starts.std(axis=0).min() > 0.02, "never twice the same"
    assert (env.reset(seed=3)[0] == starts[3]).all()
    asked = env.reset(options={"position": [0.0, 4.0]})[0]
    assert np.abs(asked[:2] - [0, 4]).max() <= 0.1


@pytest.mark.parametrize("maze", MAZES)
def test_the_ant_arrives_within_half_a_metre(maze: str) -> None:
    env = AntMaze(maze)
    for distance, arrives in ((0.2, True), (0.9, False)):
        env.reset(seed=0, options={"position": env.goal + np.array([distance, 0])})
        _, reward, terminated, truncated, info = env.step(np.zeros(8, np.float32))
        assert (reward, terminated, truncated, info["success"]) == (float(arrives), arrives, False, arrives)


def test_the_point_is_paid_for_every_step_at_the_goal() -> None:
    env = gym.make("waypost/PointMaze-umaze-v0")
    env.reset(seed=0, options={"position": [-1.0, 1.0]})
    results = [env.step(np.zeros(2, np.float32)) for _ in range(300)]
    assert [reward for _, reward, *_ in results] == [1.0] * 300
    assert not any(terminated for _, _, terminated, _, _ in results)
    assert [truncated for *_, truncated, _ in results] == [False] * 299 + [True]
    env.reset(seed=0, options={"position": [1.0, 1.0]})
    _, reward, *_, info = env.step(np.ones(2, np.float32))
    assert (reward, info["success"]) == (0.0, False)


def test_the_point_starts_anywhere() -> None:
    env = PointMaze("umaze")
    cells = {MAZES["umaze"].cell_of(env.reset(seed=seed)[0][:2], POINT_SCALE) for seed in range(60)}
    assert cells == set(MAZES["umaze"].free)
