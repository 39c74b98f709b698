"""What is judged in the calibration: on each task a data set, episodes to judge by, policies and their true values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import numpy as np
import sepsis

import waypost
from waypost.agents.agent import Agent
from waypost.data.dataset import Dataset
from waypost.envs import native, t_maze
from waypost.envs.mazes import MAZES
from waypost.recording import t_maze as journeys
from waypost.training.policy import Policy

DISCOUNT = 0.99
EPISODES = 100
"""Rollouts that a true value is the mean of."""
LONGEST = 1_000
"""Steps of a rollout: later ones hardly count with that discount."""
FIRST_EPISODE = 10_000
"""Seed of the first rollout, far from those of the recordings."""

Truth = dict[str, float]
"""`true` as `judge` defines it, `true_return` undiscounted within the task's time limit, and their standard errors."""


@dataclass(frozen=True)
class Case:
    """A task with policies of varied quality."""

    name: str
    learned: Callable[[int], Any]
    """The data that policies learn from, given a seed."""
    judged: Callable[[int], Dataset]
    """Episodes they did not learn from, recorded by the same behaviour."""
    trained: dict[str, tuple[int, ...]]
    """Numbers of updates by algorithm."""
    truth: Callable[[Policy], Truth]
    given: Callable[[Dataset, int], dict[str, Policy]] = lambda _data, _seed: {}
    """Policies that nobody trains."""
    hold_out: float | None = None
    settings: dict[str, Any] | None = None

    def names(self) -> list[tuple[str, int]]:
        """Algorithm and updates of the trained ones."""
        return [(algorithm, updates) for algorithm, several in self.trained.items() for updates in several]

    def policies(self, seed: int, runs: Path) -> dict[str, Policy]:
        """All policies; finished trainings are read."""
        found = {}
        for place, (algorithm, updates) in enumerate(self.names()):
            name = f"{algorithm}-{updates}"
            run = waypost.train(
                algorithm,
                self.learned(seed),
                steps=updates,
                seeds=[seed + place],
                hold_out=self.hold_out,
                evaluation=waypost.Protocol(every=0, episodes=1),
                out=runs / self.name / str(seed) / name,
                resume=True,
                progress=False,
                **({} if self.settings is None else self.settings),
            )
            found[name] = replace(run.policy, algorithm=name)
        return found | self.given(self.judged(seed), seed)


def values(rewards: np.ndarray, horizon: int) -> Truth:
    """Of rewards by step and episode, zero after the end."""
    discounted = (DISCOUNT ** np.arange(len(rewards)) @ rewards)[:, None]
    both = np.concatenate([discounted, rewards[:horizon].sum(axis=0)[:, None]], axis=1)
    means, errors = both.mean(axis=0), both.std(axis=0, ddof=1) / np.sqrt(len(both))
    names = ("true", "true_return", "true_error", "true_return_error")
    return dict(zip(names, map(float, (*means, *errors)), strict=True))


def rollout(agent: Agent, envs: Any, goal: Any) -> np.ndarray:
    """Rewards by step and episode."""
    act = jax.jit(lambda observations, memory: agent.act(observations, memory))
    observations, _ = envs.reset(seed=FIRST_EPISODE)
    memory, running, rewards = agent.start(EPISODES, goal), np.ones(EPISODES, bool), np.zeros((LONGEST, EPISODES))
    for step in range(LONGEST):
        actions, memory = act(np.asarray(observations, np.float32), memory)
        observations, earned, terminated, _, _ = envs.step(np.asarray(actions, np.float32))
        memory = agent.receive(memory, np.asarray(earned, np.float32))
        rewards[step] = earned * running
        running &= ~terminated
        if not running.any():
            break
    return rewards


def simulated(env_id: str, horizon: int, policy: Policy) -> Truth:
    """By a simulator without a time limit: the one of the recordings is no part of a discounted value."""
    envs = native.make(env_id, EPISODES)
    try:
        return values(rollout(policy.actor, envs, None), horizon)
    finally:
        envs.close()


# -- the T-maze ------------------------------------------------------------------------------------


class Corridors:
    """Many T-mazes at once, begun where the journeys of the data begin: most at the start, others in the west."""

    def reset(self, seed: int) -> tuple[np.ndarray, dict[str, Any]]:
        rng = np.random.default_rng(seed)
        west = np.arange(EPISODES) % 5 == 4
        begun = np.where(west[:, None], t_maze.WEST, t_maze.START) + rng.uniform(-0.4, 0.4, (EPISODES, 2))
        self.positions = begun.astype(np.float32)
        return self.positions, {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, None, None]:
        self.positions = t_maze.move(self.positions, actions)
        arrived = t_maze.in_goal(self.positions)
        return self.positions, arrived.astype(np.float64), arrived, None, None


def t_maze_truth(policy: Policy) -> Truth:
    return values(rollout(policy.actor, Corridors(), waypost.task("t-maze").goal), t_maze.MAX_STEPS)


# -- all tasks -------------------------------------------------------------------------------------

ENDLESS = "waypost/EndlessPointMaze-umaze-v0"
if ENDLESS not in gym.registry:
    gym.register(ENDLESS, "waypost.envs.mazes:PointMaze", max_episode_steps=LONGEST, kwargs={"maze": "umaze"})


def held_out(data: str, share: float, _seed: int) -> Dataset:
    return waypost.load(data).split(share)[1]


CASES = {
    case.name: case
    for case in (
        Case(
            "t-maze",
            lambda seed: journeys.record(seed=seed),
            lambda seed: journeys.record(seed=seed + 50),
            {"bc": (100, 2_000), "bc10": (500,), "iql": (300, 1_000, 5_000), "td3bc": (2_000,), "por": (1_000, 5_000)},
            t_maze_truth,
        ),
        Case(
            "pointmaze-umaze",
            lambda _seed: "pointmaze-umaze-100000",
            partial(held_out, "pointmaze-umaze-100000", 0.3),
            {
                "bc": (200, 5_000),
                "bc10": (3_000,),
                "iql": (500, 2_000, 8_000),
                "td3bc": (3_000,),
                "por": (1_000, 6_000),
            },
            partial(simulated, ENDLESS, MAZES["umaze"].point_steps),
            hold_out=0.3,
        ),
        Case(
            "hopper-medium-replay",
            lambda _seed: "hopper-medium-replay",
            partial(held_out, "hopper-medium-replay", 0.25),
            {"bc": (300, 5_000), "bc10": (500, 5_000), "iql": (1_000, 8_000), "td3bc": (1_000, 5_000), "por": (4_000,)},
            partial(simulated, "Hopper-v5", 1_000),
            hold_out=0.25,
        ),
        Case(
            "icu-sepsis",
            lambda seed: sepsis.record(seed=seed),
            lambda seed: sepsis.record(seed=seed + 50),
            {"bc": (300, 3_000), "bc10": (2_000,), "cql-discrete": (500, 2_000)},
            sepsis.truth,
            given=sepsis.ladder,
            settings={"env": "none"},
        ),
    )
}
