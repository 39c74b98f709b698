"""Four rooms as Gymnasium environments: one agent, or many stepped at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from waypost.envs import four_rooms as rooms
from waypost.envs.four_rooms.picture import draw
from waypost.errors import WaypostError
from waypost.types import Flags, Floats

Options = dict[str, Any]
_METADATA: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 30}


def _spaces(variant: str) -> tuple[gym.Space[Any], gym.Space[Any]]:
    low, high = ([-18, -18, 0], [18, 18, 1]) if variant == rooms.Variant.KEY else ([-18, -18], [18, 18])
    observations = gym.spaces.Box(np.array(low, np.float32), np.array(high, np.float32))
    return observations, gym.spaces.Box(-rooms.SPEED, rooms.SPEED, (2,), np.float32)


def _starts(generators: Sequence[np.random.Generator], position: ArrayLike | None) -> Floats:
    """One start per generator: drawn from the start box, or the given position."""
    if position is None:
        return np.array([rooms.START + g.uniform(-rooms.BOX, rooms.BOX, 2) for g in generators], np.float32)
    positions = np.array(np.broadcast_to(np.asarray(position, np.float32), (len(generators), 2)))
    if not np.isfinite(positions).all() or rooms.is_wall(positions).any():
        raise WaypostError(f"cannot start at {position}: it is in a wall or off the map")
    return positions


def _check_render_mode(render_mode: str | None) -> str | None:
    if render_mode not in (None, *_METADATA["render_modes"]):
        raise WaypostError(f"four rooms cannot render as {render_mode!r}; choose 'rgb_array' or None")
    return render_mode


class FourRooms(gym.Env[Floats, Floats]):
    """One agent in the four rooms. `reset` takes the option "position"; `info` always has "success".

    Time limits are left to Gymnasium, so an environment not built by `gymnasium.make` never truncates.
    """

    metadata = _METADATA

    def __init__(self, variant: str = rooms.Variant.PLAIN, render_mode: str | None = None) -> None:
        self.variant = rooms.Variant(variant)
        self.render_mode = _check_render_mode(render_mode)
        self.observation_space, self.action_space = _spaces(self.variant)
        self._observations = rooms.begin(self.variant, rooms.START[None])

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> tuple[Floats, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        starts = _starts([self.np_random], (options or {}).get("position"))
        self._observations = rooms.begin(self.variant, starts)
        return self._observations[0].copy(), {"success": False}

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Move, and apply the task's rules."""
        self._observations = rooms.advance(self.variant, self._observations, np.asarray(action)[None])
        labels = rooms.label(self.variant, self._observations)
        reward, terminated = float(labels.rewards[0]), bool(labels.terminals[0])
        return self._observations[0].copy(), reward, terminated, False, {"success": reward > 0}

    def render(self) -> NDArray[np.uint8] | None:
        """The current image, if the environment was made to render."""
        return None if self.render_mode is None else draw(self.variant, self._observations[0])


class FourRoomsVector(gym.vector.VectorEnv[Floats, Floats, NDArray[Any]]):
    """Many agents stepped at once; environment i behaves like a single one with the same seed.

    Seeds, automatic resets and infos follow `gymnasium.vector.SyncVectorEnv`. The option "position" is one position
    for all or one per environment. The time limit is kept here, since `gymnasium.make_vec` only passes it on.
    """

    def __init__(
        self,
        num_envs: int = 1,
        variant: str = rooms.Variant.PLAIN,
        render_mode: str | None = None,
        max_episode_steps: int | None = rooms.MAX_STEPS,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
    ) -> None:
        self.num_envs = num_envs
        self.variant = rooms.Variant(variant)
        self.render_mode = _check_render_mode(render_mode)
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**_METADATA, "autoreset_mode": self.autoreset_mode}
        self.single_observation_space, self.single_action_space = _spaces(self.variant)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        # -1 is how `gymnasium.make` spells "no limit".
        self._limit = np.inf if max_episode_steps in (None, -1) else max_episode_steps
        self._generators = [seeding.np_random()[0] for _ in range(num_envs)]
        self._observations = rooms.begin(self.variant, np.tile(rooms.START, (num_envs, 1)))
        self._elapsed = np.zeros(num_envs, np.int64)
        self._finished = np.zeros(num_envs, bool)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Options | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Start an episode everywhere, or where the option "reset_mask" says."""
        options = options or {}
        if seed is None or isinstance(seed, int):
            seed = [None if seed is None else seed + i for i in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(f"{len(seed)} seeds for {self.num_envs} environments; they must agree")
        mask = _reset_mask(options.get("reset_mask"), self.num_envs)
        for i in np.flatnonzero(mask).tolist():
            if seed[i] is not None:
                self._generators[i] = seeding.np_random(seed[i])[0]
        self._restart(mask, options.get("position"))
        return self._observations.copy(), {"success": np.zeros(self.num_envs, bool), "_success": mask}

    def step(self, actions: Floats) -> tuple[Floats, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Step every environment, except where an episode ended in the last step and has to start again."""
        mode, over = self.autoreset_mode, self._finished
        assert mode != AutoresetMode.DISABLED or not over.any(), f"environments {np.flatnonzero(over)} need a reset"
        self._observations = rooms.advance(self.variant, self._observations, actions)
        self._elapsed += 1
        rewards, terminations = rooms.label(self.variant, self._observations)
        truncations = self._elapsed >= self._limit
        if mode == AutoresetMode.NEXT_STEP:
            self._restart(over)
            rewards[over], terminations[over], truncations[over] = 0, False, False
        self._finished = terminations | truncations
        success = rewards > 0
        infos: dict[str, Any] = {}
        if mode == AutoresetMode.SAME_STEP and self._finished.any():
            # The final observations of episodes that end now, before they are replaced by the first ones.
            over, last = self._finished, np.full(self.num_envs, None, object)
            for i in np.flatnonzero(over):
                last[i] = self._observations[i].copy()
            ended = {"success": success & over, "_success": over.copy()}
            infos = {"final_obs": last, "_final_obs": over.copy(), "final_info": ended, "_final_info": over.copy()}
            success = success & ~self._finished
            self._restart(self._finished)
        infos |= {"success": success, "_success": np.ones(self.num_envs, bool)}
        return self._observations.copy(), rewards.astype(np.float64), terminations, truncations, infos

    def render(self) -> tuple[Any, ...] | None:
        """The current image of each environment, if they were made to render."""
        return None if self.render_mode is None else tuple(draw(self.variant, row) for row in self._observations)

    def _restart(self, mask: Flags, position: ArrayLike | None = None) -> None:
        chosen = np.flatnonzero(mask).tolist()
        if not chosen:
            return
        if position is not None:
            position = np.broadcast_to(position, (self.num_envs, 2))[chosen]
        starts = _starts([self._generators[i] for i in chosen], position)
        self._observations[chosen] = rooms.begin(self.variant, starts)
        self._elapsed[chosen] = 0
        # A new array: the caller holds the flags of the last step.
        self._finished = self._finished & ~mask


def _reset_mask(mask: Any, num_envs: int) -> Flags:
    if mask is None:
        return np.ones(num_envs, bool)
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
        raise TypeError("reset_mask must be a NumPy array of booleans")
    if mask.shape != (num_envs,) or not mask.any():
        raise ValueError(f"reset_mask must have shape ({num_envs},) and mark at least one environment, got {mask}")
    return mask.copy()
