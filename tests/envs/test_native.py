"""A batch does, bit for bit, what single environments do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from waypost.envs import native, simulators
from waypost.envs.tasks import TASKS

IDS = [
    "Hopper-v5",
    "HalfCheetah-v5",
    "Walker2d-v5",
    "waypost/AntMaze-umaze-v0",
    "waypost/PointMaze-umaze-v0",
]


def actions_of(envs: Any, rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(-1, 1, envs.action_space.shape).astype(np.float32)


@pytest.mark.parametrize("env_id", IDS)
def test_a_batch_does_what_gymnasium_does(env_id: str) -> None:
    """From the same seeds with the same actions, to the end of the episodes and a second one of the first."""
    batch, alone = native.make(env_id, 3, threads=2), [simulators.make(env_id) for _ in range(3)]
    rng = np.random.default_rng(0)
    observations, _ = batch.reset(seed=[5, 6, 7])
    for i, env in enumerate(alone):
        assert np.array_equal(env.reset(seed=5 + i)[0], observations[i])
    over = np.zeros(3, bool)
    for _ in range(320):
        actions = actions_of(batch, rng)
        observations, rewards, terminated, truncated, infos = batch.step(actions)
        for i, env in enumerate(alone):
            if over[i]:
                assert (rewards[i], terminated[i], truncated[i]) == (0, False, False)
                continue
            expected = env.step(actions[i])
            assert np.array_equal(expected[0], observations[i])
            assert expected[1:4] == (rewards[i], terminated[i], truncated[i])
            assert expected[4].get("success") == (infos["success"][i] if infos else None)
            over[i] = terminated[i] or truncated[i]
        if over.all():
            break
    assert over.all() or env_id in ("HalfCheetah-v5", "waypost/AntMaze-umaze-v0")
    # Another episode of the first alone; the others rest.
    observations, _ = batch.reset(seed=[9, None, None], options={"reset_mask": np.array([True, False, False])})
    assert np.array_equal(alone[0].reset(seed=9)[0], observations[0])
    actions = actions_of(batch, rng)
    assert np.array_equal(alone[0].step(actions[0])[0], batch.step(actions)[0][0])
    # Without a seed a generator goes on.
    assert np.array_equal(alone[0].reset()[0], batch.reset(options={"reset_mask": np.arange(3) < 1})[0][0])
    for env in (batch, *alone):
        env.close()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_number_of_threads_changes_nothing(threads: int) -> None:
    batch, rng = native.make("HalfCheetah-v5", 4, threads), np.random.default_rng(1)
    batch.reset(seed=3)
    seen = [batch.step(actions_of(batch, rng))[0] for _ in range(20)]
    assert np.array_equal(seen[-1], reference_steps()[-1])
    batch.close()


def reference_steps() -> list[np.ndarray]:
    by_hand: dict[str, Any] = {"autoreset_mode": gym.vector.AutoresetMode.DISABLED}
    with simulators.making("HalfCheetah-v5"):
        envs, rng = gym.make_vec("HalfCheetah-v5", 4, "sync", vector_kwargs=by_hand), np.random.default_rng(1)
    envs.reset(seed=3)
    return [np.array(envs.step(actions_of(envs, rng))[0]) for _ in range(20)]


def test_ants_start_where_they_are_asked_to() -> None:
    batch = native.make("waypost/AntMaze-umaze-v0", 2)
    observations, _ = batch.reset(seed=0, options={"position": [(4.0, 0.0), (-4.0, 4.0)]})
    assert np.abs(observations[:, :2] - [(4.0, 0.0), (-4.0, 4.0)]).max() <= 0.1
    batch.close()


def test_tasks_of_bodies_step_by_the_simulation() -> None:
    for name in ("hopper-medium", "antmaze-umaze", "pointmaze-large"):
        envs = TASKS[name].make(2)
        assert isinstance(envs, native.Batch)
        envs.close()
    envs = replace(TASKS["hopper-medium"], stepping="sync").make(2)
    assert not isinstance(envs, native.Batch)
    envs.close()
