"""What the tests of figures draw."""

from __future__ import annotations

import numpy as np
import pytest

from waypost.envs.layout import Layout
from waypost.figures.maps import World


@pytest.fixture(scope="session")
def world() -> World:
    axis = np.linspace(0.1, 3.9, 20)
    x, y = np.meshgrid(axis, axis)
    value = np.where((x > 1.5) & (x < 2.5) & (y < 3), np.nan, x - 4)
    points = np.array([[0.5, 0.5], [0.5, 3.5], [3.5, 3.5]])
    targets = points + np.array([[0.0, 0.02], [0.01, 0.0], [0.0, 0.0]])
    rollouts = [np.linspace([0.4, 0.4], [3.4, 0.4], 31), np.linspace([0.5, 0.5], [0.5, 3.5], 11), np.zeros((1, 2))]
    layout = Layout((0.0, 4.0, 0.0, 4.0), [(1.5, 0.0, 1.0, 3.0)], (0.2, 0.2, 0.5, 0.5), (3.2, 0.2, 0.5, 0.5))
    return World(layout, axis, axis, value, points, targets, rollouts, [True, False, False])


@pytest.fixture(scope="session")
def metrics() -> dict[str, np.ndarray]:
    """Two seeds and two stages, each with a metric of its own."""
    nan = np.nan
    return {
        "step": np.tile([10, 20, 30, 40], 2),
        "seed": np.repeat([0, 1], 4),
        "v_loss": np.array([4, 2, nan, nan, 2, np.inf, nan, nan]),
        "pi_loss": np.array([nan, nan, 5, 6] * 2),
        "stage": np.array(["value", "value", "executor", "executor"] * 2),
    }
