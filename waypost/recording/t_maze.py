"""The recorded journeys of the T-maze: most pass the junction from the start to the west, few turn up to the goal."""

from __future__ import annotations

from typing import Any

import numpy as np

from waypost.data.dataset import Dataset
from waypost.envs import t_maze


def record(passing: int = 80, turning: int = 20, seed: int = 0) -> Dataset:
    """`passing` journeys from the start to the west end, `turning` ones from the west end up to the goal."""
    rng = np.random.default_rng(seed)
    journeys = [_journey(rng, [t_maze.START, t_maze.EAST, t_maze.WEST]) for _ in range(passing)]
    journeys += [_journey(rng, [t_maze.WEST, np.zeros(2), t_maze.GOAL]) for _ in range(turning)]
    next_observations = np.concatenate([states[1:] for states, _ in journeys])
    arrived = t_maze.in_goal(next_observations)
    timeouts = np.concatenate([np.arange(len(actions)) == len(actions) - 1 for _, actions in journeys])
    states = np.concatenate([states[:-1] for states, _ in journeys])
    actions = np.concatenate([actions for _, actions in journeys])
    about: dict[str, Any] = {"action_low": np.full(2, -t_maze.SPEED), "action_high": np.full(2, t_maze.SPEED)}
    about |= {"name": "t-maze", "task": "t-maze", "observation_names": ("x", "y")}
    rewards = arrived.astype(np.float32)
    return Dataset.from_arrays(states, next_observations, actions, rewards, arrived, timeouts, **about)


def _journey(rng: np.random.Generator, stops: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """From near the first stop along the others to the last one: the states passed and the actions taken."""
    position = (stops[0] + rng.uniform(-0.4, 0.4, 2)).astype(np.float32)
    states, actions = [position], []
    for stop in stops[1:]:
        aim = stop + rng.uniform(-0.3, 0.3, 2)
        while np.abs(aim - position).max() > 0.15:
            action = np.clip(aim - position + rng.normal(0, 0.05, 2), -t_maze.SPEED, t_maze.SPEED).astype(np.float32)
            position = t_maze.move(position, action)
            states.append(position)
            actions.append(action)
            if t_maze.in_goal(position):
                break
    return np.stack(states), np.stack(actions)
