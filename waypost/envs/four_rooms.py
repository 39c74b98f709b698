"""Continuous four rooms: one map, three tasks, as a Gymnasium environment and as pure functions.

The map is 19 x 19 cells; cell (i, j) is the unit square centred at (i, j). Everything that decides what happens
works on whole arrays of positions, so the single environment, the vector environment and the relabelling of
recorded data cannot disagree.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from typing import Any, NoReturn

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from waypost.envs.layout import Layout, Rectangle
from waypost.errors import WaypostError
from waypost.types import Flags, Floats, Labels


class Variant(StrEnum):
    """The tasks on the map."""

    PLAIN = "four-rooms"
    """Reaching the goal pays 1 and ends the episode."""
    RIVER = "four-rooms-river"
    """Falling into a river also ends it, and costs 1."""
    KEY = "four-rooms-key"
    """With rivers, and the goal counts only once the key is held."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise WaypostError(f"there is no four-rooms task {value!r}; choose from {', '.join(cls)}")


SIZE = 19
SPEED = np.float32(0.1)
MAX_STEPS = 500
DOORS = ((9, 4), (9, 14), (4, 9), (14, 9))
START = np.array([2, 2], np.float32)
GOAL = np.array([16, 16], np.float32)
BOX = np.float32(1)
"""Half the side of the start and goal boxes."""
KEY = np.array([15, 3], np.float32)
KEY_REACH = 1.0

WALLS: Flags = np.zeros((SIZE, SIZE), bool)
WALLS[[0, 9, 18]] = WALLS[:, [0, 9, 18]] = True
for _door in DOORS:
    WALLS[_door] = False
WALLS.setflags(write=False)

RIVER: Flags = np.zeros((SIZE, SIZE), bool)
RIVER[5:9, 12] = RIVER[12, 5:9] = True
RIVER.setflags(write=False)


# -- the rules: functions of positions, (..., 2), or observations, (n, 2 or 3) -----------------------


def cell_of(positions: Floats) -> NDArray[np.int64]:
    """The cell of each position; places off the map count as the border, which is wall."""
    return np.clip(np.rint(positions), 0, SIZE - 1).astype(np.int64)


def is_wall(positions: Floats) -> Flags:
    """Whether each position lies in a wall."""
    cells = cell_of(positions)
    return WALLS[cells[..., 0], cells[..., 1]]


def in_river(positions: Floats) -> Flags:
    """Whether each position lies in a river."""
    cells = cell_of(positions)
    return RIVER[cells[..., 0], cells[..., 1]]


def in_goal(positions: Floats) -> Flags:
    """Whether each position lies in the goal box."""
    return _in_box(positions, GOAL)


def takes_key(positions: Floats) -> Flags:
    """Whether the key can be picked up at each position."""
    return _in_disc(positions, KEY, KEY_REACH)


def move(positions: Floats, actions: ArrayLike) -> Floats:
    """Where actions lead: x first, then y; an axis whose move would enter a wall stays as it is."""
    steps = np.clip(np.asarray(actions, np.float32), -SPEED, SPEED)
    moved = np.array(positions, np.float32)
    for axis in (0, 1):
        tried = moved.copy()
        tried[..., axis] += steps[..., axis]
        moved = np.where(is_wall(tried)[..., None], moved, tried)
    return moved


def begin(variant: str, positions: Floats) -> Floats:
    """The first observations of episodes that start at these positions."""
    if variant != Variant.KEY:
        return np.array(positions, np.float32)
    return np.concatenate([positions, takes_key(positions)[:, None]], axis=1, dtype=np.float32)


def advance(variant: str, observations: Floats, actions: ArrayLike) -> Floats:
    """The observations that follow: the position moves, and a key once taken is kept."""
    following = begin(variant, move(observations[:, :2], actions))
    following[:, 2:] = np.maximum(following[:, 2:], observations[:, 2:])
    return following


def judge(variant: str, next_observations: Floats) -> Labels:
    """Rewards and terminals of the transitions that led to these observations."""
    variant = Variant(variant)
    wins = in_goal(next_observations[:, :2])
    drowns = np.zeros_like(wins) if variant == Variant.PLAIN else in_river(next_observations[:, :2])
    if variant == Variant.KEY:
        wins &= next_observations[:, 2] > 0.5
    return Labels(wins.astype(np.float32) - drowns.astype(np.float32), wins | drowns)


def _in_box(positions: Floats, centre: Floats) -> Flags:
    return np.asarray((np.abs(positions - centre) <= BOX).all(axis=-1))


def _in_disc(positions: Floats, centre: Floats, radius: float) -> Flags:
    return np.asarray(((positions - centre) ** 2).sum(axis=-1) <= radius**2)


# -- the map -----------------------------------------------------------------------------------------


def free_positions(rng: np.random.Generator, n: int) -> Floats:
    """Positions drawn uniformly from the floor."""
    cells = np.argwhere(~WALLS)[rng.integers(np.count_nonzero(~WALLS), size=n)]
    # Not quite half a cell: float32 would round the outermost offsets into the neighbouring wall.
    return (cells + rng.uniform(-0.4999, 0.4999, (n, 2))).astype(np.float32)


@cache
def distances(target_cell: tuple[int, int]) -> Floats:
    """Steps from every cell to the target by way of free cells side by side; infinite for walls."""
    if WALLS[target_cell]:
        raise WaypostError(f"cell {target_cell} is wall: no path leads there")
    field = np.full(WALLS.shape, np.inf, np.float32)
    field[target_cell] = 0
    queue = deque([target_cell])
    while queue:
        x, y = queue.popleft()
        for cell in ((x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)):
            if not WALLS[cell] and np.isinf(field[cell]):
                field[cell] = field[x, y] + 1
                queue.append(cell)
    field.setflags(write=False)
    return field


def layout(variant: str) -> Layout:
    """What there is to draw in a task."""
    variant = Variant(variant)
    return Layout(
        extent=(-0.5, SIZE - 0.5, -0.5, SIZE - 0.5),
        walls=_rectangles(WALLS),
        start=_box(START),
        goal=_box(GOAL),
        river=[] if variant == Variant.PLAIN else _rectangles(RIVER),
        key=(float(KEY[0]), float(KEY[1]), KEY_REACH) if variant == Variant.KEY else None,
    )


def _box(centre: Floats) -> Rectangle:
    x, y = (centre - BOX).tolist()
    return x, y, 2 * float(BOX), 2 * float(BOX)


def _rectangles(cells: Flags) -> list[Rectangle]:
    """The marked cells as few rectangles: each grows upwards as far as it can, then to the right."""
    left = cells.copy()
    found: list[Rectangle] = []
    for x, y in np.argwhere(cells).tolist():
        if left[x, y]:
            width = height = 1
            while y + height < SIZE and left[x, y + height]:
                height += 1
            while x + width < SIZE and left[x + width, y : y + height].all():
                width += 1
            left[x : x + width, y : y + height] = False
            found.append((x - 0.5, y - 0.5, float(width), float(height)))
    return found


# -- the picture -------------------------------------------------------------------------------------

PIXELS = 20
"""Pixels per cell."""


@cache
def _pixel_positions() -> Floats:
    """The place on the map of each pixel's centre, (height, width, 2), y upwards."""
    across = (np.arange(SIZE * PIXELS) + 0.5) / PIXELS - 0.5
    return np.stack(np.meshgrid(across, across[::-1]), axis=-1).astype(np.float32)


@cache
def _background(variant: str) -> NDArray[np.uint8]:
    places = _pixel_positions()
    picture = np.full((*places.shape[:2], 3), 255, np.uint8)
    picture[_in_box(places, START)] = (190, 235, 190)
    picture[in_goal(places)] = (250, 185, 185)
    picture[is_wall(places)] = (70, 70, 70)
    if variant != Variant.PLAIN:
        picture[in_river(places)] = (80, 140, 225)
    picture.setflags(write=False)
    return picture


def draw(variant: str, observation: Floats) -> NDArray[np.uint8]:
    """The map with the agent where the observation says, as an RGB image."""
    variant, places = Variant(variant), _pixel_positions()
    picture = _background(variant).copy()
    if variant == Variant.KEY and not observation[2]:
        picture[_in_disc(places, KEY, 0.4)] = (230, 180, 30)
    picture[_in_disc(places, observation[:2], 0.3)] = (30, 30, 60)
    return picture


# -- Gymnasium ---------------------------------------------------------------------------------------


_METADATA: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 30}


def _spaces(variant: Variant) -> tuple[gym.Space[Any], gym.Space[Any]]:
    low, high = ([-18, -18, 0], [18, 18, 1]) if variant == Variant.KEY else ([-18, -18], [18, 18])
    observations = gym.spaces.Box(np.array(low, np.float32), np.array(high, np.float32))
    return observations, gym.spaces.Box(-SPEED, SPEED, (2,), np.float32)


def _starts(generators: Sequence[np.random.Generator], options: dict[str, Any] | None) -> Floats:
    """One start per generator: drawn from the start box, or the position asked for."""
    if options is None or options.get("position") is None:
        return np.array([START + g.uniform(-BOX, BOX, 2) for g in generators], np.float32)
    positions = np.array(np.broadcast_to(np.asarray(options["position"], np.float32), (len(generators), 2)))
    if not np.isfinite(positions).all() or is_wall(positions).any():
        raise WaypostError(f"cannot start at {options['position']}: it is in a wall or off the map")
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

    def __init__(self, variant: str = Variant.PLAIN, render_mode: str | None = None) -> None:
        self.variant = Variant(variant)
        self.render_mode = _check_render_mode(render_mode)
        self.observation_space, self.action_space = _spaces(self.variant)
        self._observations = begin(self.variant, START[None])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        self._observations = begin(self.variant, _starts([self.np_random], options))
        return self._observations[0].copy(), {"success": False}

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Move, and have the task judge it."""
        self._observations = advance(self.variant, self._observations, np.asarray(action)[None])
        outcome = judge(self.variant, self._observations)
        reward, terminated = float(outcome.rewards[0]), bool(outcome.terminals[0])
        return self._observations[0].copy(), reward, terminated, False, {"success": reward > 0}

    def render(self) -> NDArray[np.uint8] | None:
        """The current picture, if the environment was made to draw."""
        return None if self.render_mode is None else draw(self.variant, self._observations[0])


class FourRoomsVector(gym.vector.VectorEnv[Floats, Floats, NDArray[Any]]):
    """Many agents stepped at once; environment i does what a single one reset with its seed would do.

    Seeds, automatic resets and infos follow `gymnasium.vector.SyncVectorEnv`. The option "position" is one place
    for all or one per environment. The time limit is kept here, because `gymnasium.make_vec` only passes it on.
    """

    def __init__(
        self,
        num_envs: int = 1,
        variant: str = Variant.PLAIN,
        render_mode: str | None = None,
        max_episode_steps: int | None = MAX_STEPS,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
    ) -> None:
        self.num_envs = num_envs
        self.variant = Variant(variant)
        self.render_mode = _check_render_mode(render_mode)
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**_METADATA, "autoreset_mode": self.autoreset_mode}
        self.single_observation_space, self.single_action_space = _spaces(self.variant)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        # -1 is how `gymnasium.make` spells "no limit".
        self._limit = np.inf if max_episode_steps in (None, -1) else max_episode_steps
        self._generators: list[np.random.Generator | None] = [None] * num_envs
        self._observations = begin(self.variant, np.tile(START, (num_envs, 1)))
        self._elapsed = np.zeros(num_envs, np.int64)
        self._finished = np.zeros(num_envs, bool)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Start an episode everywhere, or where the option "reset_mask" says."""
        if seed is None or isinstance(seed, int):
            seed = [None if seed is None else seed + i for i in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(f"{len(seed)} seeds for {self.num_envs} environments; they must agree")
        mask = _reset_mask(options, self.num_envs)
        for i in np.flatnonzero(mask).tolist():
            if seed[i] is not None:
                self._generators[i] = seeding.np_random(seed[i])[0]
        self._restart(mask, options)
        return self._observations.copy(), {"success": np.zeros(self.num_envs, bool), "_success": mask}

    def step(self, actions: Floats) -> tuple[Floats, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Move everywhere, except where an episode that ended in the last step has to begin again."""
        mode, over = self.autoreset_mode, self._finished
        assert mode != AutoresetMode.DISABLED or not over.any(), f"environments {np.flatnonzero(over)} need a reset"
        self._observations = advance(self.variant, self._observations, actions)
        self._elapsed += 1
        rewards, terminations = judge(self.variant, self._observations)
        truncations = self._elapsed >= self._limit
        if mode == AutoresetMode.NEXT_STEP:
            self._restart(over)
            rewards[over], terminations[over], truncations[over] = 0, False, False
        self._finished = terminations | truncations
        success = rewards > 0
        infos: dict[str, Any] = {}
        if mode == AutoresetMode.SAME_STEP and self._finished.any():
            infos = self._final_infos(success)
            success = success & ~self._finished
            self._restart(self._finished)
        infos |= {"success": success, "_success": np.ones(self.num_envs, bool)}
        return self._observations.copy(), rewards.astype(np.float64), terminations, truncations, infos

    def render(self) -> tuple[Any, ...] | None:
        """The current picture of each environment, if they were made to draw."""
        return None if self.render_mode is None else tuple(draw(self.variant, row) for row in self._observations)

    def _restart(self, mask: Flags, options: dict[str, Any] | None = None) -> None:
        chosen = np.flatnonzero(mask).tolist()
        if options is not None and options.get("position") is not None:
            options = {"position": np.broadcast_to(options["position"], (self.num_envs, 2))[chosen]}
        if chosen:
            self._observations[chosen] = begin(self.variant, _starts([self._generator(i) for i in chosen], options))
            self._elapsed[chosen] = 0
            # A new array, because the flags of the last step are in the caller's hands.
            self._finished = self._finished & ~mask

    def _generator(self, i: int) -> np.random.Generator:
        generator = self._generators[i] or seeding.np_random()[0]
        self._generators[i] = generator
        return generator

    def _final_infos(self, success: Flags) -> dict[str, Any]:
        """How the episodes that end now ended, before their first observations take their place."""
        over = self._finished
        observations = np.full(self.num_envs, None, object)
        for i in np.flatnonzero(over):
            observations[i] = self._observations[i].copy()
        return {
            "final_obs": observations,
            "_final_obs": over.copy(),
            "final_info": {"success": success & over, "_success": over.copy()},
            "_final_info": over.copy(),
        }


def _reset_mask(options: dict[str, Any] | None, num_envs: int) -> Flags:
    mask = (options or {}).get("reset_mask")
    if mask is None:
        return np.ones(num_envs, bool)
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
        raise TypeError("reset_mask must be a NumPy array of booleans")
    if mask.shape != (num_envs,) or not mask.any():
        raise ValueError(f"reset_mask must have shape ({num_envs},) and mark at least one environment, not {mask}")
    return mask.copy()


IDS = {
    Variant.PLAIN: "waypost/FourRooms-v0",
    Variant.RIVER: "waypost/FourRoomsRiver-v0",
    Variant.KEY: "waypost/FourRoomsKey-v0",
}

for _variant, _id in IDS.items():
    if _id not in gym.registry:
        gym.register(
            _id,
            entry_point=f"{__name__}:FourRooms",
            vector_entry_point=f"{__name__}:FourRoomsVector",
            max_episode_steps=MAX_STEPS,
            kwargs={"variant": _variant.value},
        )
