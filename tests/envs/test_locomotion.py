"""The bodies: names for their numbers."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from waypost.envs.locomotion import BODIES, Body
from waypost.envs.simulators import make


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_every_number_has_a_name_and_every_motor_a_bound(body: Body) -> None:
    env = make(body.env_id)
    assert env.observation_space.shape == (len(body.observation_names),)
    assert env.action_space == gym.spaces.Box(-1.0, 1.0, (body.actions,), np.float32)
    assert env.spec is not None
    assert env.spec.max_episode_steps == 1000
    joints = [env.unwrapped.model.joint(i).name for i in range(env.unwrapped.model.njnt)]
    assert len(joints) == len(body.joints)
    for theirs, ours in zip(joints[3:], body.joints[3:], strict=True):
        part = theirs.removesuffix("_joint").removesuffix("_left")
        assert ours.split()[-1] in (part, part[1:])
