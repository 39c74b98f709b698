"""The bodies: names for their numbers, and MuJoCo kept from writing where the person happens to be."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import mujoco
import numpy as np
import pytest

from waypost.envs import locomotion
from waypost.envs.locomotion import BODIES, STEPS, Body
from waypost.envs.tasks import TASKS
from waypost.errors import WaypostError


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_every_number_has_a_name_and_every_motor_a_bound(body: Body) -> None:
    env = locomotion.make(body)
    assert env.observation_space.shape == (len(body.observation_names),)
    assert env.action_space == gym.spaces.Box(-1.0, 1.0, (body.actions,), np.float32)
    assert env.spec is not None
    assert env.spec.max_episode_steps == STEPS
    joints = [env.unwrapped.model.joint(i).name for i in range(env.unwrapped.model.njnt)]
    assert len(joints) == len(body.joints)
    for theirs, ours in zip(joints[3:], body.joints[3:], strict=True):
        part = theirs.removesuffix("_joint").removesuffix("_left")
        assert ours.split()[-1] in (part, part[1:])


def test_mujoco_writes_nothing_when_environments_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    locomotion.make(BODIES["halfcheetah"]).close()
    TASKS["halfcheetah-medium"].make(2).close()
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")
    assert mujoco.get_mju_user_warning() is None


def test_an_environment_that_cannot_be_made_is_named() -> None:
    with pytest.raises(WaypostError, match="environment 'Gecko-v5' cannot be made"):
        locomotion.make(Body("gecko", "Gecko-v5", (0.0, 1.0), (), 0))
