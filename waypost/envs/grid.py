"""What tasks on a plane share: moves that stop at walls, and paths through a grid of cells."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Set

import numpy as np
from numpy.typing import ArrayLike

from waypost.types import Flags, Floats

Cell = tuple[int, int]


def slide(positions: Floats, actions: ArrayLike, speed: np.float32, is_wall: Callable[[Floats], Flags]) -> Floats:
    """The positions after actions: x moves first, then y; a move into a wall is not made."""
    steps = np.clip(np.asarray(actions, np.float32), -speed, speed)
    moved = np.array(positions, np.float32)
    for axis in (0, 1):
        tried = moved.copy()
        tried[..., axis] += steps[..., axis]
        moved = np.where(is_wall(tried)[..., None], moved, tried)
    return moved


def neighbours(cell: Cell) -> tuple[Cell, ...]:
    """The cells that share a side with a cell."""
    row, column = cell
    return (row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)


def steps_to(target: Cell, free: Set[Cell]) -> dict[Cell, int]:
    """Steps to the target from every free cell that can reach it, by breadth-first search."""
    found = {target: 0}
    queue = deque([target])
    while queue:
        cell = queue.popleft()
        for beside in neighbours(cell):
            if beside in free and beside not in found:
                found[beside] = found[cell] + 1
                queue.append(beside)
    return found
