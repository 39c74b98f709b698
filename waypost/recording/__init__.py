"""Data recorded by controllers and policies in Waypost's environments; `load` knows their names."""

from __future__ import annotations

from functools import partial

from waypost.data.dataset import Dataset
from waypost.data.sources import RECIPES, Recipe
from waypost.recording import four_rooms, replicas, t_maze
from waypost.recording.replicas import CATALOGUE, REPLICAS
from waypost.types import Count


def _replica(name: str, transitions: int | None, progress: Count | None) -> Dataset:
    return replicas.collect(name, transitions, progress=progress)


for _name, _summary in CATALOGUE["rooms"].items():
    RECIPES[_name] = Recipe(_name, _summary, partial(four_rooms.record, _name))
RECIPES["t-maze"] = Recipe("t-maze", CATALOGUE["t-maze"], lambda transitions, progress: t_maze.record())
for _name, _each in REPLICAS.items():
    RECIPES[_name] = Recipe(_name, _each.summary, partial(_replica, _name), _each.transitions, _each.row_size)
