"""The coordinates of a waypoint, and the way back to a state."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from oracles import walks
from test_waypoint import SETTINGS, begin, small

from waypost.agents.space import Space


def space(**settings: Any) -> Space:
    return begin(small(**settings), walks())[2].agent.guide_part.space  # type: ignore[union-attr]


@pytest.mark.parametrize("name", SETTINGS)
def test_decoding_an_encoded_goal_gives_its_coordinates_back(name: str) -> None:
    here, goals, subject = walks().observations, walks().next_observations, space(**SETTINGS[name])
    decoded = subject.decode(here, subject.encode(here, goals))
    assert np.allclose(subject.coordinates(decoded), subject.coordinates(goals), atol=1e-4)
    if subject.projection is None:
        assert np.allclose(decoded, goals, atol=1e-4)
    else:
        assert np.allclose(subject.rest(decoded), subject.rest(here), atol=1e-4)
        assert not np.allclose(decoded, goals, atol=0.1)


def test_named_columns_are_the_coordinates_and_the_rest_is_what_they_leave() -> None:
    here = jnp.asarray(walks().observations)
    subject = space(waypoint_columns=(2, 0))
    moved = here.at[:, jnp.array([2, 0])].add(3.0)
    assert np.allclose(subject.rest(moved), subject.rest(here), atol=1e-5)
    assert np.allclose(subject.rest(here)[:, [0, 2]], 0, atol=1e-5)
    assert np.allclose(subject.coordinates(here.at[:, 1].add(3.0)), subject.coordinates(here))
    assert np.allclose(np.asarray(subject.coordinates(here)).std(axis=0), 1, atol=1e-4)
