"""Gymnasium spaces as rows of numbers, in the same way for data and for environments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gymnasium import spaces

from waypost.errors import WaypostError

MOST_ONE_HOT = 4096
"""The most values a discrete observation may have; each becomes a column."""


def flattener(space: Any, keys: tuple[str, ...], name: str) -> tuple[Callable[[Any], np.ndarray], tuple[str, ...]]:
    """A function that turns a batch of observations into rows of numbers, and the names of the columns.

    The parts of a Dict come in declared order, or only those in `keys`. A column is named after its part, with an
    index if the part has several: `arm.position.0`.
    """
    if keys and not isinstance(space, spaces.Dict):
        raise WaypostError(f"{name}: observations have no named parts, so {', '.join(keys)} cannot be chosen")
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
            raise WaypostError(f"{name}: observations have {space.n} values; at most {MOST_ONE_HOT} are supported")
        names = tuple(str(space.start + i) for i in range(space.n))
        return lambda values: np.eye(space.n, dtype=np.float32)[np.asarray(values).reshape(-1) - space.start], names
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        size = int(np.prod(space.shape))
        names = tuple(str(i) for i in range(size)) if size > 1 else ("",)
        return lambda values: np.asarray(values).reshape(len(values), size), names
    raise WaypostError(f"{name}: observations must be Box, Discrete, MultiBinary, Dict or Tuple, got {space}")


@dataclass(frozen=True)
class ActionPart:
    """A column of an action."""

    name: str
    choices: int = 0
    """Number of choices; 0 if it is continuous."""
    start: int = 0
    """The first choice."""


def assembler(space: Any, name: str) -> tuple[Callable[[np.ndarray], Any], tuple[ActionPart, ...]]:
    """A function that turns rows of numbers into a batch of actions of a space, and the columns.

    The parts of a Dict come in declared order and are named like those of an observation.
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
        raise WaypostError(f"{name}: actions must be {kinds}, got {space}")
    size = int(np.prod(space.shape))
    counts, starts = np.zeros(size, int), np.zeros(size, int)
    if isinstance(space, spaces.MultiDiscrete):
        counts, starts = space.nvec.reshape(-1), space.start.reshape(-1)
    elif isinstance(space, spaces.MultiBinary):
        counts = np.full(size, 2)
    names = [str(i) for i in range(size)] if size > 1 else [""]
    parts = tuple(ActionPart(*each) for each in zip(names, counts.tolist(), starts.tolist(), strict=True))
    return lambda rows: rows.reshape(len(rows), *space.shape).astype(space.dtype), parts
