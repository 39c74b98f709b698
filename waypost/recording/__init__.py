"""Data recorded here, by controllers and policies acting in our environments; `load` knows their names."""

from __future__ import annotations

from functools import partial

from waypost.data.dataset import Dataset
from waypost.data.sources import RECIPES, Recipe
from waypost.recording.four_rooms import four_rooms
from waypost.recording.replicas import REPLICAS, collect
from waypost.recording.t_maze import collect_t_maze
from waypost.types import Count


def _rooms(variant: str, transitions: int | None, progress: Count | None) -> Dataset:
    return four_rooms(variant, progress=progress)


_SUMMARIES = {
    "four-rooms": "nearly 100 000 transitions of a goal-reaching controller and a random policy",
    "four-rooms-river": "the same transitions, rewarded by the river task",
    "four-rooms-key": "the same transitions with and without the key",
}
RECIPES |= {name: Recipe(name, summary, partial(_rooms, name)) for name, summary in _SUMMARIES.items()}
RECIPES["t-maze"] = Recipe(
    "t-maze",
    "80 journeys past the junction of a T, 20 from the other side to the goal",
    lambda transitions, progress: collect_t_maze(),
)


def _replica(name: str, transitions: int | None, progress: Count | None) -> Dataset:
    return collect(name, transitions, progress=progress)


RECIPES |= {
    name: Recipe(name, replica.summary, partial(_replica, name), replica.transitions)
    for name, replica in REPLICAS.items()
}
