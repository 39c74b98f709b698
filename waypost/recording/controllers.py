"""What acts while a replica is recorded: bodies with their policies, and an ant or a point mass on a route."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from waypost.envs.grid import Cell, neighbours
from waypost.envs.locomotion import BODIES
from waypost.envs.mazes import ANT_SCALE, MAZES, POINT_SCALE, RADIUS, Maze, next_cell
from waypost.recording.behaviours import behaviour
from waypost.types import Floats

Position = NDArray[np.float64]

ANT_STEPS = 2_600_000
"""Steps of training of the ant's stored policy."""
NOISE = 0.2
"""Standard deviation of the action noise in mazes: D4RL's."""
SPREAD = 0.25
"""Distance of an ant's start and goal from a cell's centre, in cells."""
JITTER = 0.125
"""Largest distance of a waypoint from a cell's centre, in cells."""
PASSED = 0.2
"""Distance within which a waypoint counts as passed, in cells."""
STIFFNESS, DAMPING = 10.0, 1.0
"""Gains of the point's controller on distance and velocity."""
POINT_REACHED = 0.1
"""Distance to its target at which the point chooses another."""


class Actor:
    """Acts in one episode after another of one environment."""

    rng: np.random.Generator

    def begin(self) -> Position | None:
        """The start of the next episode, or None for the environment's own."""
        return None

    @classmethod
    @abstractmethod
    def act(cls, actors: Sequence[Self], observations: Floats) -> Floats:
        """The next action of each of several controllers of one kind, computed together except for random numbers."""

    def arrived(self, observation: Floats) -> bool:
        """Whether recording stops here although the task continues."""
        return False


@dataclass
class Runner(Actor):
    """A body's policy after some steps of training; after 0 steps, uniform random actions."""

    body: str
    steps: int
    mean: bool
    """Whether the policy acts with its mean instead of sampling actions."""
    rng: np.random.Generator

    @classmethod
    def act(cls, actors: Sequence[Self], observations: Floats) -> Floats:
        one, size = actors[0], BODIES[actors[0].body].actions
        if not one.steps:
            return np.stack([each.rng.uniform(-1, 1, size) for each in actors]).astype(np.float32)
        noise = None if one.mean else np.stack([each.rng.standard_normal(size, np.float32) for each in actors])
        return behaviour(one.body, one.steps).act(observations, noise)


class Route:
    """A shortest path through a maze to a target, by points near the centres of its cells.

    The points are sampled again for every route, so that many routes cover the floor, not only the centre line.
    """

    def __init__(self, maze: Maze, scale: float, goal: Position, rng: np.random.Generator) -> None:
        self.maze, self.scale, self.goal = maze, scale, goal
        self.target = maze.cell_of(goal, scale)
        offsets = rng.uniform(-JITTER * scale, JITTER * scale, (len(maze.free), 2))
        self.points = {cell: maze.centre(cell, scale) + offset for cell, offset in zip(maze.free, offsets, strict=True)}
        self.points[self.target] = goal
        self.next: Cell | None = None

    def aim(self, position: Position) -> Position:
        """The point to head for from here; off the path, a new one begins."""
        here = self.maze.cell_of(position, self.scale)
        if self.next is None or here not in (self.next, *neighbours(self.next)):
            self.next = next_cell(self.maze, here, self.target)
        while self.next != self.target and _near(position, self.points[self.next], PASSED * self.scale):
            self.next = next_cell(self.maze, self.next, self.target)
        return self.points[self.next]


@dataclass
class Ant(Actor):
    """The ant on its way from one of some cells to one of others, or from the fixed start to the fixed goal."""

    maze: Maze
    starts: tuple[Cell, ...]
    goals: tuple[Cell, ...]
    homing: float
    """Share of the journeys that go to the evaluation's goal, wherever they start."""
    rng: np.random.Generator
    route: Route = field(init=False)

    def begin(self) -> Position | None:
        """Choose start and goal; without a choice, the environment's own."""
        home = self.maze.centre(self.maze.ant_goal, ANT_SCALE)
        if not self.starts:
            self.route = Route(self.maze, ANT_SCALE, home, self.rng)
            return None
        start = self.starts[self.rng.integers(len(self.starts))]
        # Without a share no random number is drawn: data without one keep their bytes.
        if self.homing and self.rng.random() < self.homing:
            goal = home
        else:
            goals = [cell for cell in self.goals if cell != start]
            goal = self._somewhere_in(goals[self.rng.integers(len(goals))])
        self.route = Route(self.maze, ANT_SCALE, goal, self.rng)
        return self._somewhere_in(start)

    @classmethod
    def act(cls, actors: Sequence[Self], observations: Floats) -> Floats:
        """The behaviour's action towards the next point of each route, with noise."""
        policy, positions = behaviour("ant", ANT_STEPS), observations[:, :2].astype(np.float64)
        away = (
            np.stack([each.route.aim(position) for each, position in zip(actors, positions, strict=True)]) - positions
        )
        headings = away / np.maximum(4.0, [[np.linalg.norm(each)] for each in away])
        told = np.concatenate([observations[:, 2:], headings], axis=1).astype(np.float32)
        drawn = np.stack([each.rng.standard_normal((2, policy.action_size), np.float32) for each in actors], axis=1)
        return np.clip(policy.act(told, drawn[0]) + NOISE * drawn[1], -1, 1).astype(np.float32)

    def arrived(self, observation: Floats) -> bool:
        return _near(observation[:2], self.route.goal, RADIUS)

    def _somewhere_in(self, cell: Cell) -> Position:
        return self.maze.centre(cell, ANT_SCALE) + self.rng.uniform(-SPREAD * ANT_SCALE, SPREAD * ANT_SCALE, 2)


@dataclass
class Point(Actor):
    """The point mass pushed from one random target to the next until the episode ends."""

    maze: Maze
    rng: np.random.Generator
    route: Route | None = None

    def begin(self) -> None:
        self.route = None

    @classmethod
    def act(cls, actors: Sequence[Self], observations: Floats) -> Floats:
        return np.stack([each.push(*row) for each, row in zip(actors, observations.reshape(-1, 2, 2), strict=True)])

    def push(self, position: NDArray[Any], velocity: NDArray[Any]) -> Floats:
        """A spring to the next point of the route, a damper, and noise."""
        position, velocity = position.astype(np.float64), velocity.astype(np.float64)
        if self.route is None or _near(position, self.route.goal, POINT_REACHED):
            here = self.maze.cell_of(position, POINT_SCALE)
            cells = [cell for cell in self.maze.free if cell != here]
            centre = self.maze.centre(cells[self.rng.integers(len(cells))], POINT_SCALE)
            self.route = Route(self.maze, POINT_SCALE, centre + self.rng.uniform(-0.1, 0.1, 2), self.rng)
        force = STIFFNESS * (self.route.aim(position) - position) - DAMPING * velocity
        return np.clip(force + NOISE * self.rng.standard_normal(2), -1, 1).astype(np.float32)


def _near(position: NDArray[Any], place: Position, distance: float) -> bool:
    return float(np.linalg.norm(position - place)) <= distance


class Scene(NamedTuple):
    """An environment and the controller in it."""

    key: str
    """The key from which the seeds of its units are derived: with another key the same seed gives other data."""
    env_id: str
    actor: Callable[[np.random.Generator], Actor]


def running(body: str, steps: int, mean: bool = False) -> Scene:
    """A body moved by its policy after some steps of training; after 0 steps, by random actions."""
    key = f"{body}/{steps}/{'mean' if mean else 'drawn'}"
    return Scene(key, BODIES[body].env_id, partial(Runner, body, steps, mean))


def ant_travelling(name: str, journeys: str, homing: float = 0.0) -> Scene:
    """The ant on journeys through a maze, chosen as in D4RL.

    fixed    from the start to the goal of the evaluation
    play     from any cell to one of a few hand-picked ones
    diverse  from any cell to any other
    No journey starts in the cell of the evaluation's goal. In `play` and `diverse`, a share `homing` goes to it.
    """
    maze = MAZES[name]
    goals = {"fixed": (), "play": maze.play_goals, "diverse": maze.free}[journeys]
    taken = {maze.ant_goal, *(goals if journeys == "play" else ())}
    starts = tuple(cell for cell in maze.free if cell not in taken) if goals else ()
    actor = partial(Ant, maze, starts, goals, homing)
    return Scene(f"ant/{ANT_STEPS}/{name}/{journeys}", f"waypost/AntMaze-{name}-v0", actor)


def point_travelling(name: str) -> Scene:
    """The point mass on its way from one random target to the next."""
    return Scene(f"point/{name}", f"waypost/PointMaze-{name}-v0", partial(Point, MAZES[name]))
