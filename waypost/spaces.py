"""Observations and actions that are more than a vector, as rows of numbers: the same in data and in environments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class ActionPart:
    """A column of an action."""

    name: str
    choices: int = 0
    """How many choices there are; 0 where it is continuous."""
    start: int = 0
    """The first of them."""


def assembler(space: Any, name: str) -> tuple[Callable[[np.ndarray], Any], tuple[ActionPart, ...]]:
    """How rows of numbers become a batch of actions of a space, and what the columns are.

    The parts of a Dict come in declared order; they are called as those of an observation.
    """
    if isinstance(space, spaces.Dict | spaces.Tuple):
        inside: dict[Any, Any] = dict(space.spaces if isinstance(space, spaces.Dict) else enumerate(space.spaces))
        found = [(key, *assembler(each, name)) for key, each in inside.items()]
        named = [
            replace(part, name=f"{key}.{part.name}" if part.name else str(key))
            for key, _, parts in found
            for part in parts
        ]

        def assembled(rows: np.ndarray) -> Any:
            pieces = np.split(rows, np.cumsum([len(parts) for _, _, parts in found])[:-1], axis=1)
            values = {key: each(piece) for (key, each, _), piece in zip(found, pieces, strict=True)}
            return values if isinstance(space, spaces.Dict) else tuple(values.values())

        return assembled, tuple(named)
    if isinstance(space, spaces.Discrete):
        part = ActionPart("", int(space.n), int(space.start))
        return lambda rows: rows[:, 0].astype(space.dtype), (part,)
    if not isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        kinds = "Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple"
        raise WaypostError(f"{name}: actions are {space}; {kinds} is needed")
    size = int(np.prod(space.shape))
    counts, starts = np.zeros(size, int), np.zeros(size, int)
    if isinstance(space, spaces.MultiDiscrete):
        counts, starts = space.nvec.reshape(-1), space.start.reshape(-1)
    elif isinstance(space, spaces.MultiBinary):
        counts = np.full(size, 2)
    names = [str(i) for i in range(size)] if size > 1 else [""]
    parts = tuple(ActionPart(*each) for each in zip(names, counts.tolist(), starts.tolist(), strict=True))
    return lambda rows: rows.reshape(len(rows), *space.shape).astype(space.dtype), parts
