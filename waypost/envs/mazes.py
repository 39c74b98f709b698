"""D4RL's mazes for an ant and for a point mass: maps, shortest ways through them, and the tasks to be judged on.

The bodies and walls are Gymnasium-Robotics' AntMaze and PointMaze; its coordinates are kept, with the middle of the
maze at (0, 0). What is asked of them is D4RL's: observations as one flat vector, a fixed goal, success within 0.5
of it. The simulator is imported when an environment is made, so that naming a task costs nothing.
"""

from __future__ import annotations

import io
from collections import deque
from contextlib import redirect_stderr
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike, NDArray

from waypost.envs.layout import Layout, Rectangle
from waypost.errors import WaypostError
from waypost.types import Floats

Cell = tuple[int, int]
"""Row and column, counted from the upper left corner."""

RADIUS = 0.5
"""How near the goal counts as success: D4RL's, for both bodies."""
ANT_SCALE = 4.0
"""Side of a cell in an ant's maze."""
POINT_SCALE = 1.0
"""Side of a cell in a point's maze."""


# -- maps ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Maze:
    """A map of cells, `#` for wall, and the places D4RL gives a meaning to."""

    name: str
    rows: tuple[str, ...]
    start: Cell
    """Where the ant is judged from."""
    ant_goal: Cell
    """Where the ant is judged to."""
    point_goal: Cell
    """Where the point is judged to."""
    play_goals: tuple[Cell, ...]
    """The hand-picked places the ant is sent to in `play` data."""
    ant_steps: int
    """Longest episode of the ant."""
    point_steps: int
    """Length of an episode of the point."""

    @property
    def free(self) -> tuple[Cell, ...]:
        """The cells that are not wall, row by row."""
        return tuple((r, c) for r, row in enumerate(self.rows) for c, mark in enumerate(row) if mark != "#")

    def centre(self, cell: Cell, scale: float) -> NDArray[np.float64]:
        """The position of a cell's centre."""
        row, column = cell
        x = (column + 0.5 - len(self.rows[0]) / 2) * scale
        y = (len(self.rows) / 2 - row - 0.5) * scale
        return np.array([x, y])

    def cell_of(self, position: ArrayLike, scale: float) -> Cell:
        """The cell a position lies in."""
        x, y = np.asarray(position, np.float64)
        row = int(np.floor(len(self.rows) / 2 - y / scale))
        column = int(np.floor(len(self.rows[0]) / 2 + x / scale))
        return row, column


MAZES: dict[str, Maze] = {
    maze.name: maze
    for maze in (
        Maze(
            "umaze",
            ("#####", "#...#", "###.#", "#...#", "#####"),
            start=(1, 1),
            ant_goal=(3, 1),
            point_goal=(1, 1),
            play_goals=((3, 1),),
            ant_steps=700,
            point_steps=300,
        ),
        Maze(
            "medium",
            (
                "########",
                "#..##..#",
                "#..#...#",
                "##...###",
                "#..#...#",
                "#.#..#.#",
                "#...#..#",
                "########",
            ),
            start=(1, 1),
            ant_goal=(6, 6),
            point_goal=(6, 6),
            play_goals=((2, 6), (5, 1), (6, 5)),
            ant_steps=1000,
            point_steps=600,
        ),
        Maze(
            "large",
            (
                "############",
                "#....#.....#",
                "#.##.#.#.#.#",
                "#......#...#",
                "#.####.###.#",
                "#..#.#.....#",
                "##.#.#.#.###",
                "#..#...#...#",
                "############",
            ),
            start=(1, 1),
            ant_goal=(7, 9),
            point_goal=(7, 9),
            play_goals=((1, 6), (3, 5), (3, 10), (5, 2), (7, 4), (7, 6), (7, 9)),
            ant_steps=1000,
            point_steps=800,
        ),
    )
}


def layout(maze: Maze, scale: float, start: Cell | None, goal: Cell) -> Layout:
    """What there is to draw: a square for every wall."""
    height, width = len(maze.rows) * scale, len(maze.rows[0]) * scale

    def square(cell: Cell, side: float) -> Rectangle:
        x, y = maze.centre(cell, scale)
        return x - side / 2, y - side / 2, side, side

    cells = ((r, c) for r, row in enumerate(maze.rows) for c in range(len(row)))
    return Layout(
        extent=(-width / 2, width / 2, -height / 2, height / 2),
        walls=[square(cell, scale) for cell in cells if cell not in maze.free],
        start=None if start is None else square(start, scale / 2),
        goal=square(goal, 2 * RADIUS),
        river=[],
        key=None,
    )


def maze_named(name: str) -> Maze:
    """The maze of that name."""
    if name not in MAZES:
        raise WaypostError(f"there is no maze {name!r}; choose from {', '.join(MAZES)}")
    return MAZES[name]


def neighbours(cell: Cell) -> tuple[Cell, ...]:
    """The cells that share a side with a cell."""
    row, column = cell
    return (row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)


@cache
def distances(maze: Maze, target: Cell) -> dict[Cell, int]:
    """Steps from every free cell to the target, by breadth-first search."""
    free = set(maze.free)
    found = {target: 0}
    queue = deque([target])
    while queue:
        cell = queue.popleft()
        for cell_beside in neighbours(cell):
            if cell_beside in free and cell_beside not in found:
                found[cell_beside] = found[cell] + 1
                queue.append(cell_beside)
    return found


def next_cell(maze: Maze, cell: Cell, target: Cell) -> Cell:
    """The cell after this one on a shortest way to the target; the target itself once there.

    A position measured in a wall, which a body leaning over its edge can have, is led to a free neighbour.
    """
    field = distances(maze, target)
    if cell == target:
        return cell
    options = [beside for beside in neighbours(cell) if beside in field]
    return min(options, key=field.__getitem__) if options else target


# -- environments --------------------------------------------------------------------------------------


def at_goal(positions: Floats, goal: Floats) -> NDArray[np.bool_]:
    """Whether positions, (..., 2), count as having reached the goal."""
    return np.asarray(((positions - goal) ** 2).sum(axis=-1) <= RADIUS**2)


class AntMaze(gym.Env[Floats, Floats]):
    """An ant from the fixed start to the fixed goal: reward 1, success and the end of the episode there.

    The 29 numbers of an observation are D4RL's: the positions (x, y, z, orientation as a quaternion, 8 joint angles)
    and then the velocities. `reset` takes the option "position", a place to start from. An ant that has fallen over
    is left to lie: only the goal and the time limit, which Gymnasium keeps, end an episode.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012

    def __init__(self, maze: str = "umaze", render_mode: str | None = None) -> None:
        self.maze = maze_named(maze)
        self.render_mode = render_mode
        self.goal = self.maze.centre(self.maze.ant_goal, ANT_SCALE).astype(np.float32)
        self._inner = _make_ant(self.maze, render_mode)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (29,), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (8,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """Stand at the start, or at a position asked for, with D4RL's small noise on everything."""
        super().reset(seed=seed)
        ant = self._inner.ant_env
        self._inner.reset(options={"goal_cell": np.array(self.maze.ant_goal), "reset_cell": np.array(self.maze.start)})
        position, velocity = ant.init_qpos.copy(), ant.init_qvel.copy()
        position[:2] = _asked(options, self.maze.centre(self.maze.start, ANT_SCALE))
        position += self.np_random.uniform(-0.1, 0.1, position.shape)
        velocity += 0.1 * self.np_random.standard_normal(velocity.shape)
        ant.set_state(position, velocity)
        observation = _flat(ant.data)
        return observation, {"success": bool(at_goal(observation[:2], self.goal))}

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Move, and see whether that was the goal."""
        self._inner.step(np.asarray(action, np.float64))
        observation = _flat(self._inner.ant_env.data)
        arrived = bool(at_goal(observation[:2], self.goal))
        return observation, float(arrived), arrived, False, {"success": arrived}

    def render(self) -> Any:
        """The current picture, if the environment was made to draw."""
        return None if self.render_mode is None else self._inner.render()

    def close(self) -> None:
        """Let go of the simulator."""
        self._inner.close()


class PointMaze(gym.Env[Floats, Floats]):
    """A point mass from anywhere to the fixed goal: reward 1 in every step spent there, for the whole episode.

    Observations are (x, y, x velocity, y velocity), actions forces. `reset` takes the option "position".
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012

    def __init__(self, maze: str = "umaze", render_mode: str | None = None) -> None:
        self.maze = maze_named(maze)
        self.render_mode = render_mode
        self.goal = self.maze.centre(self.maze.point_goal, POINT_SCALE).astype(np.float32)
        self._inner = _make_point(self.maze, render_mode)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """Stand near the centre of a free cell, or at a position asked for."""
        super().reset(seed=seed)
        point, free = self._inner.point_env, self.maze.free
        self._inner.reset(
            options={"goal_cell": np.array(self.maze.point_goal), "reset_cell": np.array(self.maze.start)}
        )
        drawn = self.maze.centre(free[self.np_random.integers(len(free))], POINT_SCALE)
        drawn += self.np_random.uniform(-0.1, 0.1, 2)
        point.set_state(_asked(options, drawn), np.zeros(2))
        observation = _flat(point.data)
        return observation, {"success": bool(at_goal(observation[:2], self.goal))}

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Push, and see whether that is at the goal."""
        self._inner.step(np.asarray(action, np.float64))
        observation = _flat(self._inner.point_env.data)
        arrived = bool(at_goal(observation[:2], self.goal))
        return observation, float(arrived), False, False, {"success": arrived}

    def render(self) -> Any:
        """The current picture, if the environment was made to draw."""
        return None if self.render_mode is None else self._inner.render()

    def close(self) -> None:
        """Let go of the simulator."""
        self._inner.close()


def _asked(options: dict[str, Any] | None, otherwise: NDArray[np.float64]) -> NDArray[np.float64]:
    """The position the options ask for."""
    position = None if options is None else options.get("position")
    return otherwise if position is None else np.asarray(position, np.float64)


def _flat(data: Any) -> Floats:
    """Positions, then velocities: D4RL's order for both bodies."""
    return np.concatenate([data.qpos, data.qvel]).astype(np.float32)


def _make_ant(maze: Maze, render_mode: str | None) -> Any:
    modules = _robotics()
    return _made(
        lambda: modules.ant_maze_v5.AntMazeEnv(
            render_mode=render_mode,
            maze_map=_map(maze),
            continuing_task=False,
            include_cfrc_ext_in_observation=False,
        )
    )


def _make_point(maze: Maze, render_mode: str | None) -> Any:
    modules = _robotics()
    return _made(
        lambda: modules.point_maze.PointMazeEnv(
            render_mode=render_mode, maze_map=_map(maze), continuing_task=True, reset_target=False
        )
    )


def _map(maze: Maze) -> list[list[int]]:
    return [[int(mark == "#") for mark in row] for row in maze.rows]


def _made(make: Any) -> Any:
    """The inner environment, without the model file it leaves behind and without noise on the cells asked for."""
    inner = make()
    Path(inner.tmp_xml_file_path).unlink(missing_ok=True)
    inner.position_noise_range = 0.0
    return inner


@cache
def _robotics() -> Any:
    try:
        # It greets with a notice about environments that are not used here.
        with redirect_stderr(io.StringIO()):
            from gymnasium_robotics.envs import maze
            from gymnasium_robotics.envs.maze import ant_maze_v5, point_maze  # noqa: F401
    except ImportError as error:
        raise WaypostError(f"mazes need gymnasium-robotics ({error}): pip install gymnasium-robotics") from None
    return maze


for _maze in MAZES.values():
    for _body, _steps in (("AntMaze", _maze.ant_steps), ("PointMaze", _maze.point_steps)):
        _id = f"waypost/{_body}-{_maze.name}-v0"
        if _id not in gym.registry:
            gym.register(
                _id,
                entry_point=f"waypost.envs.mazes:{_body}",
                kwargs={"maze": _maze.name},
                max_episode_steps=_steps,
            )
