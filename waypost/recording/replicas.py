"""D4RL's data sets remade on the spot, by its recipes, with policies that come with the package.

A replica is recorded in stages, one for each policy that acts in it, and each stage in units of whole episodes. A unit
draws everything from its own seed, so the same name, number and seed give the same bytes however many processes
share the units out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, Protocol
from zlib import crc32

import gymnasium as gym
import numpy as np

from waypost.data.dataset import Dataset
from waypost.envs import locomotion
from waypost.envs.locomotion import BODIES
from waypost.envs.mazes import MAZES, AntMaze, Maze, PointMaze
from waypost.errors import WaypostError
from waypost.recording.behaviours import behaviour
from waypost.recording.controllers import Actor, Ant, Point, Runner
from waypost.recording.workers import Arrays, Request, sharing, usual_count
from waypost.types import Count

UNIT = 5_000
"""Transitions of a unit, not counting the rest of its last episode; part of what a seed stands for."""


# -- who acts in what ----------------------------------------------------------------------------------


class Scene(Protocol):
    """An environment and someone acting in it."""

    @property
    def key(self) -> str:
        """What the seeds of its units are derived from: with another key the same seed gives other data."""

    def open(self, rng: np.random.Generator) -> tuple[gym.Env[Any, Any], Actor]:
        """Both, new; the actor draws from the generator."""


@dataclass(frozen=True)
class Running:
    """A body moved by its policy after some steps of training, or before any by random actions."""

    body: str
    steps: int
    mean: bool = False
    """Whether the policy acts with its mean instead of drawing actions."""

    @property
    def key(self) -> str:
        return f"{self.body}/{self.steps}/{'mean' if self.mean else 'drawn'}"

    def open(self, rng: np.random.Generator) -> tuple[gym.Env[Any, Any], Actor]:
        body = BODIES[self.body]
        policy = behaviour(self.body, self.steps) if self.steps else None
        return locomotion.make(body), Runner(policy, self.mean, body.actions, rng)


@dataclass(frozen=True)
class AntTravelling:
    """The ant on its way through a maze, chosen as in D4RL.

    fixed    from the start to the goal of the evaluation
    play     from any cell to one of a few hand-picked ones
    diverse  from any cell to any other
    No journey begins in the cell of the evaluation's goal.
    """

    maze: str
    journeys: Literal["fixed", "play", "diverse"]

    steps = 2_600_000

    @property
    def key(self) -> str:
        return f"ant/{self.steps}/{self.maze}/{self.journeys}"

    def open(self, rng: np.random.Generator) -> tuple[gym.Env[Any, Any], Actor]:
        maze = MAZES[self.maze]
        env = gym.wrappers.TimeLimit(AntMaze(self.maze), maze.ant_steps)
        starts, goals = self._choices(maze)
        return env, Ant(maze, behaviour("ant", self.steps), rng, starts, goals)

    def _choices(self, maze: Maze) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        elsewhere = tuple(cell for cell in maze.free if cell != maze.ant_goal)
        if self.journeys == "fixed":
            return (), ()
        if self.journeys == "diverse":
            return elsewhere, maze.free
        return tuple(cell for cell in elsewhere if cell not in maze.play_goals), maze.play_goals


@dataclass(frozen=True)
class PointTravelling:
    """The point mass on its way from one random target to the next."""

    maze: str

    @property
    def key(self) -> str:
        return f"point/{self.maze}"

    def open(self, rng: np.random.Generator) -> tuple[gym.Env[Any, Any], Actor]:
        maze = MAZES[self.maze]
        return gym.wrappers.TimeLimit(PointMaze(self.maze), maze.point_steps), Point(maze, rng)


# -- the catalogue -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Replica:
    """How a data set is remade."""

    name: str
    summary: str
    transitions: int
    """As many as D4RL's has."""
    stages: tuple[tuple[float, Scene], ...]
    """The share of the transitions and who records them, in their order."""
    observation_names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """Where it departs from D4RL's recipe."""


@dataclass(frozen=True)
class _Training:
    """Which moments of a body's training play D4RL's roles."""

    ladder: tuple[int, ...]
    """Stored moments up to medium, which is the last."""
    expert: Running
    replay: int
    """Transitions of the replay set."""


_TRAININGS = {
    "hopper": _Training(tuple(range(20_000, 160_001, 20_000)), Running("hopper", 380_000, mean=True), 402_000),
    "halfcheetah": _Training(tuple(range(20_000, 200_001, 20_000)), Running("halfcheetah", 1_350_000), 202_000),
    "walker2d": _Training(tuple(range(25_000, 125_001, 25_000)), Running("walker2d", 1_000_000), 302_000),
}
_MEAN_NOTE = "the expert acts with the mean of its policy: where it draws its actions it often falls"


def _replay(body: str, ladder: tuple[int, ...]) -> tuple[tuple[float, Scene], ...]:
    """Each moment stands for the part of the training nearest to it, the first for random actions."""
    moments = (0, *ladder)
    edges = [0.0, *((a + b) / 2 for a, b in pairwise(moments)), float(ladder[-1])]
    return tuple(
        ((end - begin) / edges[-1], Running(body, steps))
        for steps, (begin, end) in zip(moments, pairwise(edges), strict=True)
    )


def _locomotion(body: str) -> Iterator[Replica]:
    training, names = _TRAININGS[body], BODIES[body].observation_names
    medium, expert = Running(body, training.ladder[-1]), training.expert
    notes = (_MEAN_NOTE,) if expert.mean else ()
    million = 1_000_000
    yield Replica(f"{body}-random", "uniform random actions", million, ((1.0, Running(body, 0)),), names)
    yield Replica(f"{body}-medium", "a policy stopped half-way in training", million, ((1.0, medium),), names)
    yield Replica(
        f"{body}-medium-replay",
        "what a training meets from its first step to the medium policy",
        training.replay,
        _replay(body, training.ladder),
        names,
    )
    yield Replica(
        f"{body}-medium-expert",
        "half of it by the medium policy, half by the expert",
        2 * million,
        ((0.5, medium), (0.5, expert)),
        names,
        notes,
    )
    yield Replica(f"{body}-expert", "a policy trained to the end", million, ((1.0, expert),), names, notes)


_ANT_JOINTS = tuple(f"{joint} {leg}" for leg in range(1, 5) for joint in ("hip", "ankle"))
_ANT_NAMES = (
    *("x", "y", "z", "orientation w", "orientation x", "orientation y", "orientation z", *_ANT_JOINTS),
    *("x velocity", "y velocity", "z velocity", "x rotation", "y rotation", "z rotation"),
    *(f"{joint} velocity" for joint in _ANT_JOINTS),
)
_ANT_NOTE = "an episode ends where the ant was sent to; in D4RL it stays there to the time limit"
_ANT_SETS: tuple[tuple[str, AntTravelling, str], ...] = (
    ("umaze", AntTravelling("umaze", "fixed"), "an ant from the start to the goal of a U-shaped maze"),
    ("umaze-diverse", AntTravelling("umaze", "diverse"), "from anywhere to anywhere in the U"),
    ("medium-play", AntTravelling("medium", "play"), "from anywhere to 3 places of the medium maze"),
    ("medium-diverse", AntTravelling("medium", "diverse"), "from anywhere to anywhere in the medium maze"),
    ("large-play", AntTravelling("large", "play"), "from anywhere to 7 places of the large maze"),
    ("large-diverse", AntTravelling("large", "diverse"), "from anywhere to anywhere in the large maze"),
)
_POINT_SETS = {"umaze": 1_000_000, "medium": 2_000_000, "large": 4_000_000}


def _catalogue() -> Iterator[Replica]:
    for body in BODIES:
        yield from _locomotion(body)
    for name, scene, summary in _ANT_SETS:
        yield Replica(f"antmaze-{name}", summary, 1_000_000, ((1.0, scene),), _ANT_NAMES, (_ANT_NOTE,))
    for name, transitions in _POINT_SETS.items():
        yield Replica(
            f"pointmaze-{name}",
            f"a point mass from target to target in the {name} maze",
            transitions,
            ((1.0, PointTravelling(name)),),
            ("x", "y", "x velocity", "y velocity"),
        )


REPLICAS: dict[str, Replica] = {replica.name: replica for replica in _catalogue()}
"""Every data set that can be remade, by D4RL's name without the version."""


# -- collecting ----------------------------------------------------------------------------------------


def collect(
    name: str,
    transitions: int | None = None,
    seed: int = 0,
    workers: int | None = None,
    progress: Count | None = None,
) -> Dataset:
    """Exactly that many transitions, by default as many as D4RL has; every next state is the one that followed.

    Only the last episode of a stage is cut short, and counts as a timeout. `workers` processes share the work, by
    default one per core; the result does not depend on them. `progress(done, total)` is called as it grows.
    """
    replica = replica_named(name)
    total = replica.transitions if transitions is None else transitions
    workers = usual_count() if workers is None else workers
    for what, value, least in (("transitions", total, 1), ("seed", seed, 0), ("workers", workers, 1)):
        if value < least:
            raise WaypostError(f"{name}: {what} = {value}; at least {least} is needed")
    filling = _Filling(replica, total, seed)
    units = sum(-(-wanted // UNIT) for wanted in filling.wanted)
    with sharing(f"{__name__}:record_unit", min(workers, units)) as run:
        for request, rows in run(filling.requests()):
            filling.take(request["stage"], rows)
            if progress is not None:
                progress(sum(filling.filled), total)
    ones = np.ones(filling.columns["actions"].shape[1], np.float32)
    return Dataset.from_arrays(
        **filling.columns,
        action_low=-ones,
        action_high=ones,
        name=name,
        task=name,
        observation_names=replica.observation_names,
        notes=replica.notes,
    )


def replica_named(name: str) -> Replica:
    """The replica of that name."""
    if name not in REPLICAS:
        raise WaypostError(f"there is no replica {name!r}; choose from {', '.join(REPLICAS)}")
    return REPLICAS[name]


class _Filling:
    """The arrays of a data set while units come in, stage after stage."""

    def __init__(self, replica: Replica, total: int, seed: int) -> None:
        self.replica, self.total, self.seed = replica, total, seed
        shares = np.cumsum([share for share, _ in replica.stages])
        self.starts = [0, *(round(total * share / shares[-1]) for share in shares)]
        self.wanted = [end - start for start, end in pairwise(self.starts)]
        self.filled = [0] * len(self.wanted)
        self.columns: dict[str, Any] = {}

    def requests(self) -> Iterator[Request]:
        """Units as long as a stage needs them: they run to the end of an episode, so the last ones may not be."""
        for stage, wanted in enumerate(self.wanted):
            for unit, before in enumerate(range(0, wanted, UNIT)):
                if self.filled[stage] < wanted:
                    yield {
                        "name": self.replica.name,
                        "stage": stage,
                        "unit": unit,
                        "seed": self.seed,
                        "wanted": min(UNIT, wanted - before),
                    }

    def take(self, stage: int, rows: Arrays) -> None:
        """Put a unit's rows behind the stage's others, as many as it still needs."""
        if not self.columns:
            self.columns = {name: np.zeros((self.total, *v.shape[1:]), v.dtype) for name, v in rows.items()}
        first = self.starts[stage] + self.filled[stage]
        count = min(len(rows["rewards"]), self.wanted[stage] - self.filled[stage])
        for name, values in rows.items():
            self.columns[name][first : first + count] = values[:count]
        self.filled[stage] += count
        if count:
            last = first + count - 1
            self.columns["timeouts"][last] |= ~self.columns["terminals"][last]


def record_unit(name: str, stage: int, unit: int, seed: int, wanted: int) -> Arrays:
    """A unit's columns: whole episodes until there are the wanted rows."""
    _, scene = replica_named(name).stages[stage]
    # By who acts, not by whose data it is: medium-expert begins as medium does, as in D4RL.
    source = np.random.SeedSequence(seed, spawn_key=(crc32(scene.key.encode()), unit))
    rng = np.random.default_rng(source)
    env, actor = scene.open(rng)
    try:
        return _record(env, actor, int(rng.integers(2**31)), wanted)
    finally:
        env.close()


def _record(env: gym.Env[Any, Any], actor: Actor, seed: int | None, wanted: int) -> Arrays:
    states: list[np.ndarray] = []
    following: list[np.ndarray] = []
    actions: list[np.ndarray] = []
    rewards: list[float] = []
    terminals: list[bool] = []
    timeouts: list[bool] = []
    while len(actions) < wanted:
        observation = env.reset(seed=seed, options=actor.begin())[0].astype(np.float32)
        seed, ended = None, False
        while not ended:
            action = actor.act(observation)
            result, reward, terminated, truncated, _ = env.step(action)
            states.append(observation)
            actions.append(action)
            observation = result.astype(np.float32)
            following.append(observation)
            ended = terminated or truncated or actor.arrived(observation)
            rewards.append(float(reward))
            terminals.append(terminated)
            timeouts.append(ended and not terminated)
    return {
        "observations": np.stack(states),
        "next_observations": np.stack(following),
        "actions": np.stack(actions),
        "rewards": np.array(rewards, np.float32),
        "terminals": np.array(terminals),
        "timeouts": np.array(timeouts),
    }
