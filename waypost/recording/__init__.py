"""Data recorded here, by controllers and policies acting in our environments; `load` knows their names."""

from __future__ import annotations

from waypost.data.sources import RECIPES, Recipe
from waypost.recording import four_rooms, replicas, t_maze

_ROOMS = {
    "four-rooms": "nearly 100 000 transitions of a goal-reaching controller and a random policy",
    "four-rooms-river": "the same transitions, rewarded by the river task",
    "four-rooms-key": "the same transitions with and without the key",
}
RECIPES |= {
    name: Recipe(name, summary, lambda _, progress, name=name: four_rooms.record(name, progress=progress))
    for name, summary in _ROOMS.items()
}
RECIPES["t-maze"] = Recipe(
    "t-maze",
    "80 journeys past the junction of a T, 20 from the other side to the goal",
    lambda _, progress: t_maze.record(),
)
RECIPES |= {
    replica.name: Recipe(
        replica.name,
        replica.summary,
        lambda transitions, progress, name=replica.name: replicas.collect(name, transitions, progress=progress),
        replica.transitions,
    )
    for replica in replicas.REPLICAS.values()
}
