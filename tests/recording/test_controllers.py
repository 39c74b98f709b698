"""Who is sent where: the numbers of a recipe do what they say, and without them nothing changes."""

from __future__ import annotations

import numpy as np
import pytest

from waypost.envs.mazes import ANT_SCALE, MAZES
from waypost.recording.controllers import Ant, ant_travelling
from waypost.recording.replicas import CATALOGUE

UMAZE = MAZES["umaze"]
HOME = UMAZE.centre(UMAZE.ant_goal, ANT_SCALE)


def ant(seed: int, **recipe: float) -> Ant:
    made = ant_travelling("umaze", "diverse", **recipe).actor(np.random.default_rng(seed))
    assert isinstance(made, Ant)
    return made


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_share_of_the_ants_is_sent_to_the_goal_of_the_evaluation(share: float) -> None:
    one, sent = ant(0, homing=share), []
    for _ in range(400):
        start = one.begin()
        assert start is not None
        assert UMAZE.cell_of(start, ANT_SCALE) != UMAZE.ant_goal
        sent.append((one.route.goal == HOME).all())
    assert np.mean(sent) == pytest.approx(share, abs=0.08)


def test_without_a_share_an_ant_draws_start_and_goal_as_ever() -> None:
    one, rng = ant(3), np.random.default_rng(3)
    cells = [cell for cell in UMAZE.free if cell != UMAZE.ant_goal]
    first = cells[rng.integers(len(cells))]
    others = [cell for cell in UMAZE.free if cell != first]
    goal = UMAZE.centre(others[rng.integers(len(others))], ANT_SCALE) + rng.uniform(-1, 1, 2)
    start = one.begin()
    assert start is not None
    assert UMAZE.cell_of(start, ANT_SCALE) == first
    assert (one.route.goal == goal).all()


def test_only_one_maze_departs_from_the_plain_recipe() -> None:
    # What other mazes' seeds stand for has not changed since they were first recorded.
    own = {name: {key for key in recipe if key != "summary"} for name, recipe in CATALOGUE["ant"].items()}
    assert {name for name, keys in own.items() if keys} == {"umaze-diverse"}
