"""Data recorded here, by controllers and policies acting in our environments; `load` knows their names."""

from __future__ import annotations

from functools import partial

from waypost.data.dataset import Dataset
from waypost.data.sources import RECIPES, Recipe
from waypost.recording import four_rooms, replicas, t_maze
from waypost.types import Count

_ROOMS = {
    "four-rooms": "nearly 100 000 transitions of a goal-reaching controller and a random policy",
    "four-rooms-river": "the same transitions, rewarded by the river task",
    "four-rooms-key": "the same transitions with and without the key",
}
_JOURNEYS = "80 journeys past the junction of a T, 20 from the other side to the goal"


def _replica(name: str, transitions: int | None, progress: Count | None) -> Dataset:
    return replicas.collect(name, transitions, progress=progress)


RECIPES |= {name: Recipe(name, summary, partial(four_rooms.record, name)) for name, summary in _ROOMS.items()}
RECIPES["t-maze"] = Recipe("t-maze", _JOURNEYS, lambda transitions, progress: t_maze.record())
RECIPES |= {
    name: Recipe(name, replica.summary, partial(_replica, name), replica.transitions)
    for name, replica in replicas.REPLICAS.items()
}
