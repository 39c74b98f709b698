"""A corridor in the shape of a T, the smallest task that needs stitching of two recorded halves.

The bar runs from the west end to the east end, the stem from its middle up to the goal. At the east end the bar turns
up into a niche, where the task starts. Most recorded journeys go down from there and west past the junction; the others
come from the west and turn up to the goal. None goes from the start to the goal. A method with a value function joins
the halves at the junction; one that copies actions continues to the west. The best recorded journeys never saw the
east: above the bar they only go up, and a method that copies only them stays in the niche.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from waypost.envs.grid import slide
from waypost.envs.layout import Layout
from waypost.types import Flags, Floats

ARM = 5.0
"""Length of each arm."""
HALF_WIDTH = 0.5
SPEED = np.float32(0.25)
MAX_STEPS = 100
NICHE = 2.0
"""How far up the niche goes."""
START, EAST, WEST, GOAL = (np.array(place, np.float32) for place in ((ARM, NICHE), (ARM, 0), (-ARM, 0), (0, ARM)))


def is_free(positions: Floats) -> Flags:
    x, y = positions[..., 0], positions[..., 1]
    bar = (np.abs(y) <= HALF_WIDTH) & (np.abs(x) <= ARM + HALF_WIDTH)
    stem = (np.abs(x) <= HALF_WIDTH) & (y >= -HALF_WIDTH) & (y <= ARM + HALF_WIDTH)
    niche = (np.abs(x - ARM) <= HALF_WIDTH) & (y >= -HALF_WIDTH) & (y <= NICHE + HALF_WIDTH)
    return bar | stem | niche


def move(positions: Floats, actions: Floats) -> Floats:
    """The positions after actions."""
    return slide(positions, actions, SPEED, lambda tried: ~is_free(tried))


def in_goal(positions: Floats) -> Flags:
    return positions[..., 1] >= ARM - HALF_WIDTH


class TMaze(gym.Env[Floats, Floats]):
    """Reward 1 and the end of the episode at the goal; 100 steps at most."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-ARM - 1, ARM + 1, (2,), np.float32)
        self.action_space = gym.spaces.Box(-SPEED, SPEED, (2,), np.float32)
        self.position = START

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        super().reset(seed=seed)
        self.position = (START + self.np_random.uniform(-0.4, 0.4, 2)).astype(np.float32)
        return self.position, {"success": False}

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        self.position = move(self.position, action)
        arrived = bool(in_goal(self.position))
        return self.position, float(arrived), arrived, False, {"success": arrived}


def layout() -> Layout:
    return Layout(
        extent=(-ARM - 1, ARM + 1, -1.5, ARM + 1),
        walls=[
            (-ARM - 1, HALF_WIDTH, ARM + 1 - HALF_WIDTH, ARM + 1),
            (HALF_WIDTH, HALF_WIDTH, ARM - 2 * HALF_WIDTH, ARM + 1),
            (ARM - HALF_WIDTH, NICHE + HALF_WIDTH, 1 + HALF_WIDTH, ARM + 1),
            (ARM + HALF_WIDTH, -1.5, 1 - HALF_WIDTH, ARM + 1),
            (-ARM - 1, -1.5, 2 * ARM + 2, 1.5 - HALF_WIDTH),
        ],
        start=(ARM - 0.4, NICHE - 0.4, 0.8, 0.8),
        goal=(-HALF_WIDTH, ARM - HALF_WIDTH, 2 * HALF_WIDTH, 2 * HALF_WIDTH),
    )


if "waypost/TMaze-v0" not in gym.registry:
    gym.register("waypost/TMaze-v0", entry_point="waypost.envs.t_maze:TMaze", max_episode_steps=MAX_STEPS)
