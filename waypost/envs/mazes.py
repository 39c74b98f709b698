"""D4RL's mazes for an ant and for a point mass: maps, shortest paths, and the tasks in them.

The bodies and walls are Gymnasium-Robotics' AntMaze and PointMaze, and so are the coordinates, with the middle of the
maze at (0, 0). The tasks are D4RL's: observations as one flat vector, a fixed goal, success within 0.5 of it. The
simulator is imported when an environment is made, so that naming a task costs nothing.
"""

from __future__ import annotations

import io
import tomllib
from abc import abstractmethod
from contextlib import redirect_stderr
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike

from waypost.envs.grid import Cell, neighbours, steps_to
from waypost.envs.layout import Layout, Rectangle
from waypost.errors import WaypostError
from waypost.resources import require
from waypost.types import Doubles, Flags, Floats

RADIUS = 0.5
"""Distance to the goal that counts as success: D4RL's, for both bodies."""
ANT_SCALE = 4.0
"""Side of a cell in an ant's maze."""
POINT_SCALE = 1.0
"""Side of a cell in a point's maze."""


@dataclass(frozen=True)
class Maze:
    """A map of cells, `#` for wall, and the places D4RL uses.

    A cell is (row, column), counted from the upper left corner.
    """

    name: str
    rows: tuple[str, ...]
    ant_goal: Cell
    """The ant's goal in an evaluation."""
    point_goal: Cell
    """The point's goal in an evaluation."""
    play_goals: tuple[Cell, ...]
    """The hand-picked goals of the ant in `play` data."""
    ant_steps: int
    """Longest episode of the ant."""
    point_steps: int
    """Length of an episode of the point."""
    start: Cell = (1, 1)
    """Where the ant starts in an evaluation."""

    @property
    def free(self) -> tuple[Cell, ...]:
        """The free cells, row by row."""
        return tuple((r, c) for r, row in enumerate(self.rows) for c, mark in enumerate(row) if mark != "#")

    def centre(self, cell: Cell, scale: float) -> Doubles:
        """The position of a cell's centre."""
        row, column = cell
        x = (column + 0.5 - len(self.rows[0]) / 2) * scale
        y = (len(self.rows) / 2 - row - 0.5) * scale
        return np.array([x, y])

    def cell_of(self, position: ArrayLike, scale: float) -> Cell:
        """The cell of a position."""
        x, y = np.asarray(position, np.float64)
        return int(np.floor(len(self.rows) / 2 - y / scale)), int(np.floor(len(self.rows[0]) / 2 + x / scale))


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


MAZES: dict[str, Maze] = {
    name: Maze(name, **{field: _tuples(value) for field, value in maze.items()})
    for name, maze in tomllib.loads(Path(__file__).with_name("mazes.toml").read_text()).items()
}


def layout(maze: Maze, scale: float, start: Cell | None, goal: Cell) -> Layout:
    """The drawing: a square for every wall."""
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
    )


@cache
def distances(maze: Maze, target: Cell) -> dict[Cell, int]:
    """Steps from every free cell to the target."""
    return steps_to(target, set(maze.free))


def next_cell(maze: Maze, cell: Cell, target: Cell) -> Cell:
    """The cell after this one on a shortest path to the target; the target itself once there.

    A position inside a wall, which a body leaning over its edge can have, leads to a free neighbour.
    """
    field = distances(maze, target)
    if cell == target:
        return cell
    options = [beside for beside in neighbours(cell) if beside in field]
    return min(options, key=field.__getitem__) if options else target


def at_goal(positions: Floats, goal: Floats) -> Flags:
    """Whether positions, (..., 2), have reached the goal."""
    return np.asarray(((positions - goal) ** 2).sum(axis=-1) <= RADIUS**2)


class MazeEnv(gym.Env[Floats, Floats]):
    """A body in a maze with a fixed goal: reward 1 and success there. `reset` takes the option "position".

    Observations are positions and then velocities, as in D4RL. Gymnasium keeps the time limit.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012
    body: ClassVar[str]
    scale: ClassVar[float]
    sizes: ClassVar[tuple[int, int]]
    """Size of an observation and of an action."""
    ends_at_goal: ClassVar[bool]
    inner: ClassVar[tuple[str, str, dict[str, bool]]]
    """Module, class and options of Gymnasium-Robotics' environment."""

    def __init__(self, maze: str = "umaze", render_mode: str | None = None) -> None:
        if maze not in MAZES:
            raise WaypostError(f"there is no maze {maze!r}; choose from {', '.join(MAZES)}")
        self.maze = MAZES[maze]
        self.render_mode = render_mode
        self._goal_cell: Cell = getattr(self.maze, f"{self.body}_goal")
        self.goal = self.maze.centre(self._goal_cell, self.scale).astype(np.float32)
        self._inner = self._make_inner()
        self.simulation = getattr(self._inner, f"{self.body}_env")
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, self.sizes[:1], np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, self.sizes[1:], np.float32)

    def _make_inner(self) -> Any:
        """Make it without leaving a model file behind and without noise on the chosen cells."""
        module, name, options = self.inner
        purpose = f"environment 'waypost/{type(self).__name__}-{self.maze.name}-v0'"
        # Gymnasium-Robotics prints a notice about environments that are not used here.
        with redirect_stderr(io.StringIO()):
            for needed in ("mujoco", "gymnasium_robotics"):
                require(needed, "mujoco", purpose)
            make = getattr(import_module(f"gymnasium_robotics.envs.maze.{module}"), name)
        walls = [[int(mark == "#") for mark in row] for row in self.maze.rows]
        inner = make(render_mode=self.render_mode, maze_map=walls, **options)
        Path(inner.tmp_xml_file_path).unlink(missing_ok=True)
        inner.position_noise_range = 0.0
        return inner

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """Start at the fixed start, or at a given position."""
        super().reset(seed=seed)
        self._inner.reset(options={"goal_cell": np.array(self._goal_cell), "reset_cell": np.array(self.maze.start)})
        self.simulation.set_state(*self.start(self.np_random, (options or {}).get("position")))
        observation, arrived = self._observe()
        return observation, {"success": arrived}

    @abstractmethod
    def start(self, rng: np.random.Generator, position: ArrayLike | None) -> tuple[Doubles, Doubles]:
        """Initial positions and velocities."""

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Move, and check whether the goal is reached."""
        self._inner.step(np.asarray(action, np.float64))
        observation, arrived = self._observe()
        return observation, float(arrived), arrived and self.ends_at_goal, False, {"success": arrived}

    def _observe(self) -> tuple[Floats, bool]:
        data = self.simulation.data
        observation = np.concatenate([data.qpos, data.qvel]).astype(np.float32)
        return observation, bool(at_goal(observation[:2], self.goal))

    def render(self) -> Any:
        """The current image, if the environment was made to render."""
        return None if self.render_mode is None else self._inner.render()

    def close(self) -> None:
        """Close the simulator."""
        self._inner.close()


class AntMaze(MazeEnv):
    """An ant from the fixed start to the fixed goal, where the episode ends.

    The 29 numbers of an observation are x, y, z, orientation as a quaternion, 8 joint angles, and the velocities.
    A fallen ant stays where it is: only the goal and the time limit end an episode.
    """

    body, scale, sizes, ends_at_goal = "ant", ANT_SCALE, (29, 8), True
    inner = ("ant_maze_v5", "AntMazeEnv", {"continuing_task": False, "include_cfrc_ext_in_observation": False})

    def start(self, rng: np.random.Generator, position: ArrayLike | None) -> tuple[Doubles, Doubles]:
        """With D4RL's small noise on everything."""
        positions, velocities = self.simulation.init_qpos.copy(), self.simulation.init_qvel.copy()
        positions[:2] = self.maze.centre(self.maze.start, self.scale) if position is None else position
        positions += rng.uniform(-0.1, 0.1, positions.shape)
        velocities += 0.1 * rng.standard_normal(velocities.shape)
        return positions, velocities


class PointMaze(MazeEnv):
    """A point mass from anywhere to the fixed goal; every step spent there pays the reward, up to the time limit.

    Observations are (x, y, x velocity, y velocity), actions forces.
    """

    body, scale, sizes, ends_at_goal = "point", POINT_SCALE, (4, 2), False
    inner = ("point_maze", "PointMazeEnv", {"continuing_task": True, "reset_target": False})

    def start(self, rng: np.random.Generator, position: ArrayLike | None) -> tuple[Doubles, Doubles]:
        """Near the centre of a free cell, at rest."""
        cell = self.maze.free[rng.integers(len(self.maze.free))]
        drawn = self.maze.centre(cell, self.scale) + rng.uniform(-0.1, 0.1, 2)
        return drawn if position is None else np.asarray(position, np.float64), np.zeros(2)


for _maze in MAZES.values():
    for _env, _steps in ((AntMaze, _maze.ant_steps), (PointMaze, _maze.point_steps)):
        _id = f"waypost/{_env.__name__}-{_maze.name}-v0"
        if _id not in gym.registry:
            gym.register(_id, f"{__name__}:{_env.__name__}", max_episode_steps=_steps, kwargs={"maze": _maze.name})
