"""What there is to draw in a task on a plane."""

from __future__ import annotations

from dataclasses import dataclass

Rectangle = tuple[float, float, float, float]


@dataclass(frozen=True)
class Layout:
    """The map as shapes for drawing; rectangles are (x, y, width, height) from the lower left corner."""

    extent: tuple[float, float, float, float]
    """x from, x to, y from, y to."""
    walls: list[Rectangle]
    start: Rectangle | None
    """Where episodes begin; None: anywhere."""
    goal: Rectangle
    river: list[Rectangle]
    key: tuple[float, float, float] | None
    """x, y and the radius within which it is picked up."""
