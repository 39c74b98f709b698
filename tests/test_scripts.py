"""The examples that compute something of their own."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from samples import TINY

import waypost
from waypost.envs.mazes import ANT_SCALE


@pytest.fixture
def ants(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = spec_from_file_location("ant_failures", Path(__file__).parents[1] / "scripts" / "ant_failures.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "ant_failures", module)
    spec.loader.exec_module(module)
    return module


def ant(x: float, angle: float) -> np.ndarray:
    """An episode that ends at (x, 0), turned by so much around its own x axis and then around the vertical."""
    path = np.zeros((3, 29), np.float32)
    rolled = np.array([np.cos(angle / 2), np.sin(angle / 2), 0, 0])
    w, i, j, k = np.cos(0.5), 0.0, 0.0, np.sin(0.5)
    turned = [
        w * rolled[0] - i * rolled[1],
        w * rolled[1] + i * rolled[0],
        j * rolled[0] + k * rolled[1],
        k * rolled[0] - j * rolled[1],
    ]
    path[-1, 0], path[-1, 3:7] = x, turned
    return path


def test_ants_that_fell_are_told_from_ants_that_stand(ants: ModuleType) -> None:
    near, far = 0.9 * ANT_SCALE, 1.1 * ANT_SCALE
    paths = [ant(0.0, 0.0), ant(near, np.pi), ant(far, 0.6 * np.pi), ant(near, 0.4 * np.pi), ant(far, 0.0)]
    found = ants.fates(paths, np.array([True, False, False, False, False]), np.zeros(2))
    assert found == {"arrived": 1, "on their backs": 2, "near the goal": 1, "elsewhere": 1}


def test_actions_are_compared_with_those_recorded(ants: ModuleType) -> None:
    dataset = waypost.load("t-maze")
    policy = waypost.train("por", dataset, steps=2, env="none", **TINY).policy
    assert dataset.actions is not None
    found = ants.errors(policy, dataset)
    rows = np.random.default_rng(0).choice(len(dataset), min(4096, len(dataset)), replace=False)
    act = policy.act(dataset.observations[rows])
    assert found["error"] == pytest.approx(((act - dataset.actions[rows]) ** 2).mean(), rel=1e-5)
    assert found["error, told s'"] != found["error"]
    cloned = waypost.train("bc", dataset, steps=2, env="none", hidden=(8,), batch_size=8).policy
    assert ants.errors(cloned, dataset)["error, told s'"] is None
