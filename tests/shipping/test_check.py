"""What counts as the same answer."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from waypost.agents.agent import Agent
from waypost.errors import WaypostError
from waypost.shipping.check import check

ROWS = np.array([[1.0, 1.0], [3.0, 2.0], [2.0, 3.0]], np.float32)


class Larger(Agent):
    """Takes the column with the larger number."""

    def act(self, observations: Any, memory: Any = ()) -> Any:
        return jnp.argmax(observations, axis=-1), memory


class Scaled(Agent):
    """Gives numbers of very different sizes."""

    def act(self, observations: Any, memory: Any = ()) -> Any:
        return observations * jnp.array([1e6, 1.0]), memory


def tried(agent: Agent, action: Any) -> float:
    return check(agent, lambda given: {"action": action}, ROWS, np.random.default_rng(0))


def test_either_action_will_do_where_rounding_decides() -> None:
    assert tried(Larger(), np.array([0, 0, 1], np.int32)) == 0.0
    assert tried(Larger(), np.array([1, 0, 1], np.int32)) == 0.0
    with pytest.raises(WaypostError, match="action differs"):
        tried(Larger(), np.array([0, 1, 1], np.int32))


def test_differences_are_relative_to_a_columns_size() -> None:
    right = ROWS * np.array([1e6, 1.0], np.float32)
    assert tried(Scaled(), right + np.array([1.0, 0.0], np.float32)) == pytest.approx(1 / 3e6)
    with pytest.raises(WaypostError, match="action differs"):
        tried(Scaled(), right + np.array([0.0, 1e-4], np.float32))


def test_numbers_that_are_none_are_not_the_same() -> None:
    with pytest.raises(WaypostError, match="action differs"):
        tried(Scaled(), ROWS * np.float32(np.nan))


def test_another_shape_or_type_is_refused() -> None:
    with pytest.raises(WaypostError, match=r"gives float32 \(3, 1\) instead of float32 \(3, 2\)"):
        tried(Scaled(), ROWS[:, :1])
    with pytest.raises(WaypostError, match="gives float64"):
        tried(Scaled(), ROWS.astype(np.float64))
