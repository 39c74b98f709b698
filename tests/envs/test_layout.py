"""Layouts of the mazes: what is drawn is where a body can and cannot be."""

from __future__ import annotations

import numpy as np
import pytest

from waypost.envs.mazes import ANT_SCALE, MAZES, POINT_SCALE, layout


@pytest.mark.parametrize("scale", [ANT_SCALE, POINT_SCALE])
@pytest.mark.parametrize("name", MAZES)
def test_walls_cover_every_cell_that_is_not_free_and_no_other(name: str, scale: float) -> None:
    maze = MAZES[name]
    drawn = layout(maze, scale, maze.start, maze.ant_goal)

    def walled(x: float, y: float) -> bool:
        return any(a < x < a + width and b < y < b + height for a, b, width, height in drawn.walls)

    for row, marks in enumerate(maze.rows):
        for column, mark in enumerate(marks):
            assert walled(*maze.centre((row, column), scale)) == (mark == "#")
    x0, x1, y0, y1 = drawn.extent
    assert (x1 - x0, y1 - y0) == (scale * len(maze.rows[0]), scale * len(maze.rows))
    for box, cell in ((drawn.start, maze.start), (drawn.goal, maze.ant_goal)):
        assert box is not None
        assert np.allclose([box[0] + box[2] / 2, box[1] + box[3] / 2], maze.centre(cell, scale))


def test_a_maze_without_a_fixed_start_draws_none() -> None:
    assert layout(MAZES["umaze"], POINT_SCALE, None, MAZES["umaze"].point_goal).start is None
