"""Recorded episodes for the page of a run without a simulator: the recorded actions beside the policy's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from waypost.data.dataset import Dataset
from waypost.data.in_file import in_memory
from waypost.data.large import obtain
from waypost.data.rewards import learning_rewards
from waypost.data.stream import sample
from waypost.training.plan import Plan
from waypost.types import Convention

ROWS = 4_000
"""Approximate number of rows in all."""
LONGEST = 500
"""Rows of an episode; a longer one is cut."""
SCALED: tuple[Convention, ...] = ("recorded", "standard", "return-range")
"""Conventions that only change the unit of the rewards."""


@dataclass(frozen=True)
class Picked:
    """An episode to look at closely."""

    words: str
    """What it is: a good episode, ..."""
    place: int
    """Its index among the episodes shown."""
    earned: float | None
    """Its return as recorded, if the rewards were only scaled; otherwise as learned from."""


@dataclass(frozen=True, eq=False)
class Shown:
    """Some of the episodes, held-out ones if there are any."""

    dataset: Dataset
    """With the rewards used for learning."""
    picked: tuple[Picked, ...]
    """A good one, a typical one and a bad one; any three if there are no rewards."""
    held_out: bool
    scale: float | None
    """Divide the rewards by this to get the recorded ones; None if they differ in more than scale."""


def reward_scale(recorded: Dataset, learned: Dataset, convention: Convention) -> float | None:
    """The factor the recorded rewards were multiplied by; None if they changed in other ways, or there are none."""
    if convention not in SCALED or recorded.rewards is None or learned.rewards is None:
        return None
    before, after = in_memory(recorded.rewards), in_memory(learned.rewards)
    row = int(np.argmax(np.abs(before)))
    return float(after[row] / before[row]) if before[row] else 1.0


def some_episodes(dataset: Dataset, held_out: bool, scale: float | None) -> Shown:
    """A good, a typical and a bad episode, and others at random."""
    count, lengths = len(dataset.episode_starts), dataset.episode_lengths
    returns = None if dataset.rewards is None else dataset.episode_returns
    # A short piece that was cut off has a small return, which says nothing about how good it was.
    ended = dataset.terminals[dataset.episode_starts + lengths - 1]
    whole = np.flatnonzero(ended | (lengths >= np.median(lengths) / 2))
    order = whole if returns is None else whole[np.argsort(-returns[whole], kind="stable")]
    words = ("an early episode", "a middle one", "a late one")
    if returns is not None:
        words = ("a good episode", "a typical one", "a bad one")
    # A tenth from either end: the very best and the very worst are often accidents.
    tenth = len(order) // 10
    three = dict.fromkeys(int(order[place]) for place in (tenth, len(order) // 2, len(order) - 1 - tenth))
    lengths = np.minimum(lengths, LONGEST)
    others = [each for each in np.random.default_rng(0).permutation(count) if each not in three]
    wanted = np.array([*three, *others])
    enough = max(len(three), int(np.searchsorted(np.cumsum(lengths[wanted]), ROWS)) + 1)
    chosen = np.sort(wanted[:enough])
    within = np.arange(len(dataset)) - dataset.episode_starts[dataset.episode_of]
    kept = dataset.keep(np.isin(dataset.episode_of, chosen) & (within < LONGEST))
    factor = scale or 1.0
    picked = [
        Picked(name, int(np.searchsorted(chosen, each)), None if returns is None else float(returns[each]) / factor)
        for name, each in zip(words, three, strict=False)
    ]
    return Shown(kept, tuple(picked), held_out, scale)


def shown_again(planned: Plan[Any]) -> Shown:
    """The same for a run that was read back, if its data are still there."""
    recorded, streamed = obtain(planned.data, planned.columns, planned.stream, lambda: None, None, planned.pipeline)
    learned = learning_rewards(recorded, planned.convention, getattr(planned.config, "discount", 0.99))
    scale = reward_scale(recorded, learned, planned.convention)
    if streamed:
        return some_episodes(sample(learned), False, scale)
    held = learned.split(planned.hold_out)[1] if planned.hold_out else None
    return some_episodes(learned if held is None else held, held is not None, scale)
