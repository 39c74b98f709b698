"""Observations that are more than a vector, as rows of numbers: the same in data and in environments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

from waypost.errors import WaypostError

MOST_ONE_HOT = 4096
"""Values of a discrete observation, each of which becomes a column."""


def flattener(space: Any, keys: tuple[str, ...], name: str) -> tuple[Callable[[Any], np.ndarray], tuple[str, ...]]:
    """How a batch of states becomes rows of numbers, and what the columns are called.

    The parts of a Dict come in declared order, or only those in `keys`. A column is called after its part, with its
    number where the part has several: `arm.position.0`.
    """
    if keys and not isinstance(space, spaces.Dict):
        raise WaypostError(f"{name}: observations have no parts to choose {', '.join(keys)} from")
    if isinstance(space, spaces.Dict | spaces.Tuple):
        inside: dict[Any, Any] = dict(space.spaces if isinstance(space, spaces.Dict) else enumerate(space.spaces))
        missing = [key for key in keys if key not in inside]
        if missing:
            raise WaypostError(f"{name}: has no observation {missing[0]!r}; it has {', '.join(inside)}")
        parts = [(key, *flattener(inside[key], (), name)) for key in keys or inside]
        names = tuple(f"{key}.{each}" if each else str(key) for key, _, inner in parts for each in inner)
        return lambda values: np.concatenate([flat(values[key]) for key, flat, _ in parts], axis=1), names
    if isinstance(space, spaces.Discrete):
        if space.n > MOST_ONE_HOT:
            raise WaypostError(f"{name}: observations are one of {space.n}; at most {MOST_ONE_HOT} are possible")
        names = tuple(str(space.start + i) for i in range(space.n))
        return lambda values: np.eye(space.n, dtype=np.float32)[np.asarray(values).reshape(-1) - space.start], names
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        size = int(np.prod(space.shape))
        names = tuple(str(i) for i in range(size)) if size > 1 else ("",)
        return lambda values: np.asarray(values).reshape(len(values), size), names
    raise WaypostError(f"{name}: observations are {space}; Box, Discrete, MultiBinary, Dict or Tuple is needed")
