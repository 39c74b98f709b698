"""The four-rooms data: a goal-reaching controller between random places, and a random policy."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from waypost.data.dataset import Dataset
from waypost.data.joining import concatenate
from waypost.envs import four_rooms as rooms
from waypost.errors import WaypostError
from waypost.types import Count, Flags, Floats

Policy = Callable[[Floats], NDArray[np.float64]]

TRANSITIONS = 100_000
REACHED = 0.3
"""Distance to the target at which an episode of the controller ends."""
NOISE = 0.03
"""Standard deviation of the controller's action noise."""
RANDOM_STEPS = 100
"""Length of an episode of the random policy."""
JITTER = 0.45
"""Largest distance of a waypoint from a cell's centre."""
BATCH = 256
"""Episodes run in parallel; a seed gives other data with another number."""

_NEIGHBOURS = np.array([(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1)])


class Episodes(NamedTuple):
    """Episodes run in parallel; only the first `lengths` steps of each belong to it."""

    positions: Floats
    """(episodes, steps + 1, 2)"""
    actions: Floats
    """(episodes, steps, 2)"""
    lengths: NDArray[np.int64]
    reached: Flags
    """The episode ended at its target."""


def record(
    variant: str = rooms.Variant.PLAIN, transitions: int | None = None, progress: Count | None = None, seed: int = 0
) -> Dataset:
    """Record the data, by default all of them, and label them for a task."""
    variant = rooms.Variant(variant)
    return label(collect(TRANSITIONS if transitions is None else transitions, seed, progress=progress), variant)


def collect(
    transitions: int = TRANSITIONS, seed: int = 0, random_share: float = 0.2, progress: Count | None = None
) -> Dataset:
    """Exactly that many transitions of (x, y), without rewards, the same for the same seed.

    Whole episodes of the controller come first, then those of the random policy up to the last row, where the
    episode is cut.
    """
    if transitions < 1:
        raise WaypostError(f"transitions must be at least 1, got {transitions}")
    if not 0 <= random_share <= 1:
        raise WaypostError(f"random_share must be in [0, 1], got {random_share}")
    rng = np.random.default_rng(seed)
    parts: list[tuple[np.ndarray, ...]] = []
    done = 0
    for run, until in ((controller_episodes, round(transitions * (1 - random_share))), (random_episodes, transitions)):
        while done < until:
            parts.append(_rows(run(rng, BATCH), until - done))
            done += len(parts[-1][0])
            if progress is not None:
                progress(min(done, transitions), transitions)
    observations, actions, next_observations, ends = (np.concatenate(c)[:transitions] for c in zip(*parts, strict=True))
    about: dict[str, Any] = {"action_low": np.full(2, -rooms.SPEED), "action_high": np.full(2, rooms.SPEED)}
    about |= {"name": "four-rooms", "observation_names": ("x", "y")}
    return Dataset.from_arrays(observations, next_observations, actions, timeouts=ends, **about)


def controller_episodes(rng: np.random.Generator, count: int) -> Episodes:
    """Episodes from anywhere to anywhere along a shortest path, with noise on the actions.

    The controller aims at a point in the next cell. The point is sampled again in every episode, so that the data
    cover the floor. Among equally short paths it chooses at random. It takes a diagonal only where both cells beside
    it are free, so that the straight line never meets a corner.
    """
    starts, targets = rooms.free_positions(rng, count), rooms.free_positions(rng, count)
    every, shape = np.arange(count), rooms.WALLS.shape
    target_cells = rooms.cell_of(targets)
    fields = np.stack([rooms.distances((x, y)) for x, y in target_cells.tolist()])
    waypoints = np.indices(shape).transpose(1, 2, 0) + rng.uniform(-JITTER, JITTER, (count, *shape, 2))
    waypoints[every, target_cells[:, 0], target_cells[:, 1]] = targets
    preference = rng.random((count, len(_NEIGHBOURS)))
    passable = _passable()

    def policy(positions: Floats) -> NDArray[np.float64]:
        cells = rooms.cell_of(positions)
        x, y = cells.T
        around = cells[:, None] + _NEIGHBOURS
        here, there = fields[every, x, y], fields[every[:, None], around[..., 0], around[..., 1]]
        nearer = passable[x, y] & (there < here[:, None])
        chosen = around[every, np.where(nearer, preference, np.inf).argmin(axis=1)]
        chosen = np.where((here == 0)[:, None], cells, chosen)
        heading = waypoints[every, chosen[:, 0], chosen[:, 1]] - positions
        return np.clip(heading, -rooms.SPEED, rooms.SPEED) + rng.normal(0, NOISE, heading.shape)

    return _run(starts, policy, rooms.MAX_STEPS, targets)


def random_episodes(rng: np.random.Generator, count: int) -> Episodes:
    """Episodes of uniform random actions from anywhere."""
    starts = rooms.free_positions(rng, count)
    return _run(starts, lambda positions: rng.uniform(-rooms.SPEED, rooms.SPEED, positions.shape), RANDOM_STEPS)


def _run(starts: Floats, policy: Policy, steps: int, targets: Floats | None = None) -> Episodes:
    count = len(starts)
    positions = np.zeros((count, steps + 1, 2), np.float32)
    actions = np.zeros((count, steps, 2), np.float32)
    lengths = np.full(count, steps)
    reached = np.zeros(count, bool)
    positions[:, 0] = starts
    for t in range(steps):
        actions[:, t] = np.clip(policy(positions[:, t]).astype(np.float32), -rooms.SPEED, rooms.SPEED)
        positions[:, t + 1] = rooms.move(positions[:, t], actions[:, t])
        if targets is not None:
            arrives = (np.linalg.norm(positions[:, t + 1] - targets, axis=1) <= REACHED) & ~reached
            lengths[arrives] = t + 1
            reached |= arrives
            if reached.all():
                break
    return Episodes(positions, actions, lengths, reached)


def _rows(episodes: Episodes, least: int) -> tuple[np.ndarray, ...]:
    """Observations, actions, next observations and ends of the first episodes with at least `least` rows."""
    enough = np.searchsorted(np.cumsum(episodes.lengths), least) + 1
    positions, actions, lengths, _ = (values[:enough] for values in episodes)
    step = np.arange(actions.shape[1])
    inside, ends = step < lengths[:, None], step == lengths[:, None] - 1
    return positions[:, :-1][inside], actions[inside], positions[:, 1:][inside], ends[inside]


@cache
def _passable() -> Flags:
    """For each cell and neighbour, whether the straight line there is free, (19, 19, 8)."""
    passable = np.zeros((*rooms.WALLS.shape, len(_NEIGHBOURS)), bool)
    for x, y in np.argwhere(~rooms.WALLS):
        for k, (dx, dy) in enumerate(_NEIGHBOURS):
            passable[x, y, k] = not (rooms.WALLS[x + dx, y] or rooms.WALLS[x, y + dy] or rooms.WALLS[x + dx, y + dy])
    return passable


def label(dataset: Dataset, variant: str) -> Dataset:
    """The data as a task sees them, with its rewards and terminals.

    Rows that begin where the task is already over are left out: the task does not continue inside a river or the goal.
    Inside the goal every row would be an end with a step in a random direction, and a guide fitted to many such rows
    stands still beside the goal.
    For the key task every episode appears twice, once starting without the key and once holding it: how (x, y)
    moves does not depend on the key, so both are valid.
    """
    variant = rooms.Variant(variant)
    if dataset.observation_size != 2:
        raise WaypostError(f"{dataset.name}: has {dataset.observation_size} columns per state; four rooms needs (x, y)")
    if variant == rooms.Variant.KEY:
        dataset = _with_key(dataset)
    dataset = dataset.keep(~rooms.label(variant, dataset.observations).terminals)
    labelled = dataset.relabel(lambda _, __, next_observations: rooms.label(variant, next_observations))
    return labelled.named(variant.value, task=variant.value)


def _with_key(dataset: Dataset) -> Dataset:
    """Every episode with the key found on the way, then every episode holding the key from the start."""
    starts = dataset.episode_starts
    first = np.zeros(len(dataset), bool)
    first[starts] = True
    at_start = rooms.takes_key(dataset.observations) & first
    found = np.cumsum(at_start | rooms.takes_key(dataset.next_observations))
    before = np.concatenate([[0], found])[starts]
    after = found > before[dataset.episode_of]
    held = np.where(first, at_start, np.roll(after, 1))

    def holding(key: Flags, next_key: Flags) -> Dataset:
        states = np.column_stack([dataset.observations, key])
        next_states = np.column_stack([dataset.next_observations, next_key])
        about = {name: getattr(dataset, name) for name in ("next_valid", "action_low", "action_high", "name")}
        about |= {"timeouts": dataset.ends, "observation_names": ("x", "y", "key")}
        return Dataset.from_arrays(states, next_states, dataset.actions, **about)

    always = np.ones_like(held)
    return concatenate([holding(held, after), holding(always, always)])
