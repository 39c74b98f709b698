"""Environments with observations or actions of several parts, flattened for agents."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorActionWrapper, VectorEnv, VectorObservationWrapper
from gymnasium.vector.utils import batch_space

from waypost.spaces import ActionPart, assembler, flattener


class Flat(VectorObservationWrapper[Any, Any, Any, Any]):
    """Observations as rows of numbers, in the order of `names` where the environment has columns of these names.

    Otherwise all columns come in declared order.
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any], names: tuple[str, ...], task: str):
        super().__init__(envs)
        self.flat, columns = flattener(envs.single_observation_space, (), f"task {task}")
        known = bool(names) and set(names) <= set(columns)
        self.order = np.array([columns.index(name) for name in names]) if known else np.arange(len(columns))
        self.single_observation_space = spaces.Box(-np.inf, np.inf, (len(self.order),), np.float32)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)

    def observations(self, observations: Any) -> np.ndarray:
        return self.flat(observations)[:, self.order].astype(np.float32)


def flat(envs: VectorEnv[Any, Any, Any], names: tuple[str, ...], task: str) -> VectorEnv[Any, Any, Any]:
    """The environments, with vectors as observations."""
    space = envs.single_observation_space
    return envs if isinstance(space, spaces.Box) and len(space.shape) == 1 else Flat(envs, names, task)


class Assembled(VectorActionWrapper[Any, Any, Any, Any]):
    """Actions with parts, given as rows of numbers, in the order of `names` where the parts have these names."""

    def __init__(self, envs: VectorEnv[Any, Any, Any], names: tuple[str, ...], task: str):
        super().__init__(envs)
        self.assemble, parts = assembler(envs.single_action_space, f"task {task}")
        own = [part.name for part in parts]
        known = sorted(names) == sorted(own)
        self.order = np.array([names.index(name) for name in own]) if known else np.arange(len(parts))
        self.parts: tuple[ActionPart, ...] = tuple(parts[i] for i in np.argsort(self.order))
        """What each number of a row is."""
        self.single_action_space = spaces.Box(-np.inf, np.inf, (len(parts),), np.float32)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def actions(self, actions: np.ndarray) -> Any:
        return self.assemble(actions[:, self.order])


def assembled(envs: VectorEnv[Any, Any, Any], names: tuple[str, ...], task: str) -> VectorEnv[Any, Any, Any]:
    """The environments, with actions that are numbers of choices or vectors."""
    plain = isinstance(envs.single_action_space, spaces.Box | spaces.Discrete)
    return envs if plain else Assembled(envs, names, task)
