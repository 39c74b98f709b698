"""Tasks by name: environment, scores, reward convention and protocol of an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from waypost.envs import four_rooms, mazes, native, simulators, t_maze
from waypost.envs.flat import assembled, flat
from waypost.envs.layout import Layout
from waypost.envs.locomotion import BODIES
from waypost.envs.mazes import ANT_SCALE, MAZES, POINT_SCALE
from waypost.errors import WaypostError
from waypost.schema import conform_fields, meant, shown
from waypost.types import Convention


@dataclass(frozen=True)
class Protocol:
    """How a policy is evaluated while it trains and at the end."""

    every: int = 5_000
    """Steps between evaluations; 0 = only at the end."""
    episodes: int = 10
    """Episodes per evaluation and seed."""
    last: int = 1
    """The result is the mean over this many last evaluations."""
    seed: int = 12_345
    """Seed of the evaluation's environments: episode j starts from seed + j."""
    workers: int = 0
    """Processes that step environments without a batch form; 0 = this process steps them one by one."""

    def __post_init__(self) -> None:
        conform_fields(self)
        bounds = {"every": (0, 2**31 - 1), "episodes": (1, 10**6), "last": (1, 10**6), "seed": (0, 2**32 - 1)}
        bounds["workers"] = (0, 1_000)
        for name, (least, most) in bounds.items():
            if getattr(self, name) < least:
                raise WaypostError(f"evaluation {name} must be at least {least}, got {getattr(self, name)}")
            if getattr(self, name) > most:
                raise WaypostError(f"evaluation {name} must be at most {most}, got {getattr(self, name)}")


OPTIONS = {
    "every": "evaluate_every",
    "episodes": "episodes",
    "last": "average_last",
    "seed": "evaluation_seed",
    "workers": "evaluation_workers",
}
"""Names of the fields of `Protocol` in commands."""


Factory = Callable[[], gym.Env[Any, Any]]
Stepping = Literal["vector", "simulation", "sync"]
"""How environments step together.

vector      the environment has its own batch form, which takes `autoreset_mode`
simulation  a batch of MuJoCo environments, `waypost.envs.native`
sync        one after the other, or each in its own process
"""


@dataclass(frozen=True)
class Task:
    """What policies are evaluated on."""

    name: str
    env_id: str
    summary: str = ""
    suite: str | None = None
    """Which benchmark a score belongs to; `common_suite` refuses to compare scores of different ones.

    waypost  environments of our own        replica  data recorded here, Gymnasium's and our environments
    d4rl, minari, ogbench                   theirs
    """
    reference: tuple[float, float] | None = None
    """The returns that count as score 0 and 100."""
    convention: Convention = "recorded"
    protocol: Protocol = Protocol()
    goal: tuple[float, ...] | None = None
    """The goal, for tasks that have one: the first columns of an observation there."""
    layout: Callable[[], Layout] | None = None
    """The drawing, for tasks on a plane."""
    stepping: Stepping = "sync"
    factory: Factory | None = None
    """Makes one environment, if it is not in Gymnasium's registry."""
    names: tuple[str, ...] = ()
    """The agent's names for the columns of its observations; parts of a Dict are put in this order."""
    action_names: tuple[str, ...] = ()
    """The agent's names for the columns of its actions."""

    def make(self, environments: int, workers: bool = False) -> gym.vector.VectorEnv:
        """That many environments that step together; the caller resets each one when it is done.

        With `workers`, environments that would step one by one in this process get a process each.
        """
        return assembled(flat(self._make(environments, workers), self.names, self.name), self.action_names, self.name)

    def _make(self, environments: int, workers: bool) -> gym.vector.VectorEnv:
        by_hand: dict[str, Any] = {"autoreset_mode": AutoresetMode.DISABLED}
        if self.factory is not None:
            several = [self.factory] * environments
            if workers:
                return gym.vector.AsyncVectorEnv(several, context="spawn", **by_hand)
            return gym.vector.SyncVectorEnv(several, **by_hand)
        with simulators.making(self.env_id):
            if self.stepping == "vector":
                return gym.make_vec(self.env_id, environments, "vector_entry_point", **by_hand)
            if self.stepping == "simulation":
                return native.make(self.env_id, environments)
            if workers:
                # A forked process would hold JAX's locks, but not the threads that release them.
                return gym.make_vec(self.env_id, environments, "async", vector_kwargs={**by_hand, "context": "spawn"})
            return gym.make_vec(self.env_id, environments, "sync", vector_kwargs=by_hand)

    @property
    def horizon(self) -> int | None:
        """Steps of the longest episode, if there is a limit."""
        return gym.spec(self.env_id).max_episode_steps

    def score(self, returns: np.ndarray | float) -> Any:
        """100 (return - low) / (high - low), or None where the task has no reference."""
        if self.reference is None:
            return None
        low, high = self.reference
        return 100.0 * (returns - low) / (high - low)


_ROOMS = {
    "four-rooms": "reach the goal through the doors of four rooms",
    "four-rooms-river": "the same, without falling into a river",
    "four-rooms-key": "with rivers, and only with the key does the goal count",
}
_LOCOMOTION_DATA = ("random", "medium", "medium-replay", "medium-expert", "expert")
_ANT_DATA = ("umaze", "umaze-diverse", "medium-play", "medium-diverse", "large-play", "large-diverse")
_POINT_REFERENCES = {"umaze": (23.85, 161.86), "medium": (13.13, 277.39), "large": (6.7, 273.99)}
"""D4RL's, of maze2d v1."""
_goal_task = partial(Task, reference=(0.0, 1.0), convention="goal", protocol=Protocol(every=10_000, episodes=100))


def _catalogue() -> Iterator[Task]:
    """Data sets recorded with the same body share one environment."""
    ours = partial(_goal_task, suite="waypost")
    replica = partial(_goal_task, suite="replica", stepping="simulation")
    for name, summary in _ROOMS.items():
        env_id, layout = four_rooms.IDS[four_rooms.Variant(name)], partial(four_rooms.layout, name)
        yield ours(name, env_id, summary, goal=_place(four_rooms.GOAL), layout=layout, stepping="vector")
    few = Protocol(every=0, episodes=20)
    summary = "join the halves of two recorded journeys: stitching can, cloning cannot"
    yield ours("t-maze", "waypost/TMaze-v0", summary, protocol=few, goal=_place(t_maze.GOAL), layout=t_maze.layout)
    protocol = Protocol(every=5_000, episodes=10, last=10)
    paper: dict[str, Any] = {"convention": "return-range", "protocol": protocol, "stepping": "simulation"}
    for body in BODIES.values():
        for data in _LOCOMOTION_DATA:
            name, summary = f"{body.name}-{data}", f"run with {body.name} data"
            yield Task(name, body.env_id, summary, suite="replica", reference=body.reference, **paper)
    for data in _ANT_DATA:
        maze = MAZES[data.split("-")[0]]
        summary, goal = f"lead an ant through the {maze.name} maze", _place(maze.centre(maze.ant_goal, ANT_SCALE))
        layout = partial(mazes.layout, maze, ANT_SCALE, maze.start, maze.ant_goal)
        yield replica(f"antmaze-{data}", f"waypost/AntMaze-{maze.name}-v0", summary, goal=goal, layout=layout)
    for size, maze in MAZES.items():
        name, env_id = f"pointmaze-{size}", f"waypost/PointMaze-{size}-v0"
        summary, reference = f"push a point to the goal of the {size} maze and keep it there", _POINT_REFERENCES[size]
        goal = _place(maze.centre(maze.point_goal, POINT_SCALE))
        layout = partial(mazes.layout, maze, POINT_SCALE, None, maze.point_goal)
        yield replica(name, env_id, summary, reference=reference, goal=goal, layout=layout)


def _place(position: np.ndarray) -> tuple[float, ...]:
    return tuple(position.tolist())


TASKS: dict[str, Task] = {task.name: task for task in _catalogue()}


OWN: dict[str, Task] = {}
"""Tasks whose environments were given as functions, by the name of the function."""


def task(name: str | Factory) -> Task:
    """The task of that name, or one without scores for any registered Gymnasium environment.

    "module:id" imports the module first, which registers the environment. A function or class that makes an
    environment is also a task, and known by its name from then on.
    """
    if not isinstance(name, str):
        return _own(name)
    if name in TASKS or name in OWN:
        return TASKS.get(name) or OWN[name]
    module, _, env_id = name.rpartition(":")
    if module:
        with simulators.making(name):
            import_module(module)
            gym.spec(env_id)
        return Task(name, env_id)
    if name in gym.registry:
        return Task(name, name, stepping="simulation" if name in native.IDS else "sync")
    raise WaypostError(
        f"no task or Gymnasium environment is called {name!r}; tasks here: {', '.join(TASKS)} (see `waypost list`)"
        f"{meant(name, [*TASKS, *gym.registry])}"
    )


def _own(factory: Any) -> Task:
    if isinstance(factory, gym.Env) or not callable(factory):
        given = "an environment" if isinstance(factory, gym.Env) else shown(factory)
        raise WaypostError(
            f"env must be a name or a function that makes an environment, got {given}; several are made, so give "
            "the class or `lambda: MyEnv()`"
        )
    words = getattr(factory, "__module__", ""), getattr(factory, "__qualname__", type(factory).__name__)
    name = ".".join(filter(None, words))
    OWN[name] = Task(name, name, factory=factory)
    return OWN[name]


def common_suite(suites: Iterable[str | None]) -> str:
    """The common suite of scores that are to be compared; an error if they have different ones, or none.

    D4RL's hopper, Gymnasium's v5 and Minari's are three tasks: 80 on one says nothing about 80 on another.
    """
    found = sorted({suite or "no suite" for suite in suites})
    if len(found) != 1 or found[0] == "no suite":
        raise WaypostError(
            f"scores of {' and '.join(found) or 'no suite'} cannot be compared; compare within one suite only"
        )
    return found[0]
