"""MuJoCo environments stepped as a batch: one model, a state for each environment, all cores at once.

Threads call MuJoCo, which releases the interpreter's lock while it steps. Each environment of the batch makes the same
calls on the same numbers as Gymnasium's environment, so results are the same, bit for bit. Observations, rewards and
ends are computed for all environments together. One whose episode is over is not stepped until it is reset.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from waypost.envs.locomotion import BODIES
from waypost.envs.mazes import MAZES, MazeEnv, PointMaze, at_goal
from waypost.envs.simulators import make as make_one
from waypost.resources import cores, require
from waypost.types import Doubles, Flags

IDS = frozenset(
    [body.env_id for body in BODIES.values()]
    + [f"waypost/{kind}-{maze}-v0" for kind in ("AntMaze", "PointMaze") for maze in MAZES]
)
"""The environments that can step as a batch."""


class Outcome(NamedTuple):
    """The result of a step of all environments."""

    rewards: Doubles
    terminated: Flags
    success: Flags | None
    """None where the task has no goal."""


class Batch(gym.vector.VectorEnv[Any, Any, Any]):
    """Environments of one kind that step together; the caller resets them."""

    rests = True
    """The others can step before finished ones are reset."""

    def __init__(self, env: gym.Env[Any, Any], num_envs: int, threads: int | None = None):
        """`env` is one such environment: all use its model, spaces and rules."""
        mujoco = require("mujoco", "mujoco", "stepping a batch")
        self._step, self._forward, self._clear = mujoco.mj_step, mujoco.mj_forward, mujoco.mj_resetData
        self.env, self.num_envs = env, num_envs
        simulation = self.simulation
        self.model, self.frame_skip, self.dt = simulation.model, simulation.frame_skip, simulation.dt
        self.metadata = {"autoreset_mode": AutoresetMode.DISABLED}
        self.single_observation_space, self.single_action_space = env.observation_space, env.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._data = [mujoco.MjData(self.model) for _ in range(num_envs)]
        # Views into MuJoCo's memory, whose address does not change.
        self._views = [[getattr(data, name) for data in self._data] for name in ("qpos", "qvel", "ctrl")]
        self._positions, self._velocities = np.zeros((num_envs, self.model.nq)), np.zeros((num_envs, self.model.nv))
        self._generators: list[np.random.Generator | None] = [None] * num_envs
        self._limit = (env.spec and env.spec.max_episode_steps) or np.inf
        self._elapsed, self._over = np.zeros(num_envs, np.int64), np.ones(num_envs, bool)
        self._threads = min(num_envs, threads or cores())
        self._pool = ThreadPoolExecutor(self._threads, "simulation") if self._threads > 1 else None

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode everywhere, or where the option "reset_mask" says; "position" gives a start for each."""
        if seed is None or isinstance(seed, int):
            seed = [None if seed is None else seed + i for i in range(self.num_envs)]
        mask, positions = (options or {}).get("reset_mask"), (options or {}).get("position")
        mask = np.ones(self.num_envs, bool) if mask is None else mask
        for i in np.flatnonzero(mask).tolist():
            generator = self._generators[i]
            if seed[i] is not None or generator is None:
                generator = self._generators[i] = seeding.np_random(seed[i])[0]
            data = self._data[i]
            self._clear(self.model, data)
            data.qpos[:], data.qvel[:] = self.start(generator, None if positions is None else positions[i])
            self._forward(self.model, data)
            self._positions[i], self._velocities[i] = data.qpos, data.qvel
        self._elapsed[mask], self._over[mask] = 0, False
        observations = self.observe(self._positions, self._velocities)
        return observations, {"success": np.zeros(self.num_envs, bool)}

    def step(self, actions: Any) -> tuple[Any, Doubles, Flags, Flags, dict[str, Any]]:
        """Step every environment whose episode is not over."""
        moved, actions, before = ~self._over, np.asarray(actions), self._positions.copy()
        running = np.flatnonzero(moved).tolist()
        waiting = iter(running)
        if self._pool is None:
            self._advance(waiting, actions)
        else:
            # A free thread takes the next one: some take longer than others.
            list(self._pool.map(self._advance, [waiting] * self._threads, [actions] * self._threads))
        self._elapsed += moved
        rewards, terminated, success = self.outcome(before, self._positions, self._velocities, actions)
        terminated, truncated = terminated & moved, (self._elapsed >= self._limit) & moved
        self._over |= terminated | truncated
        infos = {} if success is None else {"success": success & moved}
        observations = self.observe(self._positions, self._velocities)
        return observations, np.where(moved, rewards, 0.0), terminated, truncated, infos

    def _advance(self, waiting: Iterator[int], actions: NDArray[Any]) -> None:
        positions, velocities, controls = self._views
        for i in waiting:
            self.before_step(self._data[i], velocities[i])
            controls[i][:] = actions[i]
            self._step(self.model_at(positions[i]), self._data[i], self.frame_skip)
            self._positions[i], self._velocities[i] = positions[i], velocities[i]

    def close_extras(self, **kwargs: Any) -> None:
        if self._pool is not None:
            self._pool.shutdown()
        self.env.close()

    # -- what a kind of environment defines ------------------------------------------------------------

    @property
    def simulation(self) -> Any:
        """Gymnasium's own environment, which holds the model."""
        return self.env.unwrapped

    def before_step(self, data: Any, velocities: Doubles) -> None:
        """Prepare a state before it is stepped."""

    def model_at(self, position: Doubles) -> Any:
        """The model to step a state with: it must hold everything a body in this position could touch."""
        return self.model

    @abstractmethod
    def start(self, rng: np.random.Generator, position: ArrayLike | None) -> tuple[Doubles, Doubles]:
        """Initial positions and velocities."""

    @abstractmethod
    def observe(self, positions: Doubles, velocities: Doubles) -> Any:
        """Observations of all environments."""

    @abstractmethod
    def outcome(self, before: Doubles, positions: Doubles, velocities: Doubles, actions: Any) -> Outcome:
        """The result of moving from `before` with these actions."""


class Mazes(Batch):
    """Ants or point masses in a maze."""

    def __init__(self, env: gym.Env[Any, Any], num_envs: int, threads: int | None = None):
        super().__init__(env, num_envs, threads)
        self._is_point = isinstance(self.maze, PointMaze)
        self._models: dict[tuple[int, int], Any] = {}

    @property
    def maze(self) -> MazeEnv:
        env = self.env.unwrapped
        assert isinstance(env, MazeEnv)
        return env

    @property
    def simulation(self) -> Any:
        return self.maze.simulation

    def before_step(self, data: Any, velocities: Doubles) -> None:
        if self._is_point:  # as Gymnasium-Robotics does, or the velocity would grow without bound
            np.clip(velocities, -5.0, 5.0, out=velocities)
            self._forward(self.model, data)

    def model_at(self, position: Doubles) -> Any:
        """For an ant, one with only the walls around its cell: contacts with the others take long to check.

        The nearest other wall is one cell away, four metres; a step takes a twentieth of a second.
        """
        if self._is_point:
            return self.model
        cell = (round(position[0] / self.maze.scale), round(position[1] / self.maze.scale))
        if cell not in self._models:
            self._models[cell] = self._model_around(np.multiply(cell, self.maze.scale))
        return self._models[cell]

    def _model_around(self, place: Doubles) -> Any:
        model, mujoco = copy(self.model), require("mujoco", "mujoco", "stepping a batch")
        walls = np.flatnonzero((model.geom_bodyid == 0) & (model.geom_type == mujoco.mjtGeom.mjGEOM_BOX))
        away = np.abs(model.geom_pos[walls, :2] - place).max(axis=1) - model.geom_size[walls, :2].max(axis=1)
        far = walls[away > 1.5 * self.maze.scale]
        model.geom_contype[far] = model.geom_conaffinity[far] = 0
        model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_MIDPHASE)  # it costs more than so few walls do
        return model

    def start(self, rng: np.random.Generator, position: ArrayLike | None) -> tuple[Doubles, Doubles]:
        return self.maze.start(rng, position)

    def observe(self, positions: Doubles, velocities: Doubles) -> Any:
        return np.concatenate([positions, velocities], axis=1).astype(np.float32)

    def outcome(self, before: Doubles, positions: Doubles, velocities: Doubles, actions: Any) -> Outcome:
        arrived = at_goal(positions[:, :2].astype(np.float32), self.maze.goal)
        return Outcome(arrived.astype(np.float64), arrived & self.maze.ends_at_goal, arrived)


class Runners(Batch):
    """Gymnasium's hoppers, half cheetahs or walkers: rewarded for speed minus effort, ended by a fall."""

    def start(self, rng: np.random.Generator, position: ArrayLike | None) -> tuple[Doubles, Doubles]:
        rules, noise = self.simulation, self.simulation._reset_noise_scale
        positions = rules.init_qpos + rng.uniform(-noise, noise, self.model.nq)
        if self._falls:
            return positions, rules.init_qvel + rng.uniform(-noise, noise, self.model.nv)
        return positions, rules.init_qvel + noise * rng.standard_normal(self.model.nv)

    @property
    def _falls(self) -> bool:
        return hasattr(self.simulation, "_healthy_z_range")

    def observe(self, positions: Doubles, velocities: Doubles) -> Any:
        return np.concatenate([positions[:, 1:], np.clip(velocities, -10, 10) if self._falls else velocities], axis=1)

    def outcome(self, before: Doubles, positions: Doubles, velocities: Doubles, actions: Any) -> Outcome:
        rules = self.simulation
        speed = (positions[:, 0] - before[:, 0]) / self.dt
        effort = rules._ctrl_cost_weight * np.square(actions).sum(axis=1)
        if not self._falls:
            return Outcome(rules._forward_reward_weight * speed - effort, np.zeros(self.num_envs, bool), None)
        healthy = np.ones(self.num_envs, bool)
        checked = [(positions[:, 1:2], rules._healthy_z_range), (positions[:, 2:3], rules._healthy_angle_range)]
        if hasattr(rules, "_healthy_state_range"):
            checked.append((np.concatenate([positions[:, 2:], velocities], axis=1), rules._healthy_state_range))
        for numbers, (low, high) in checked:
            healthy &= ((low < numbers) & (numbers < high)).all(axis=1)
        rewards = rules._forward_reward_weight * speed + healthy * rules._healthy_reward
        return Outcome(rewards - effort, ~healthy, None)


def make(env_id: str, num_envs: int, threads: int | None = None) -> Batch:
    """That many environments of an id, on that many threads; by default one per core."""
    env = make_one(env_id)
    return (Mazes if isinstance(env.unwrapped, MazeEnv) else Runners)(env, num_envs, threads)
