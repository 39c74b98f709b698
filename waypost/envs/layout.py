"""The drawing of a task on a plane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Rectangle = tuple[float, float, float, float]


@dataclass(frozen=True)
class Layout:
    """The map as shapes for drawing; rectangles are (x, y, width, height) from the lower left corner."""

    extent: tuple[float, float, float, float]
    """x from, x to, y from, y to."""
    walls: Sequence[Rectangle]
    start: Rectangle | None
    """Where episodes begin; None: anywhere."""
    goal: Rectangle
    river: Sequence[Rectangle] = ()
    """Areas that must not be entered."""
    key: tuple[float, float, float] | None = None
    """x, y and the radius within which it is picked up."""
