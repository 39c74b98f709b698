"""Make environments: MuJoCo is imported only now, and a failure is one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import gymnasium as gym

from waypost.errors import WaypostError
from waypost.resources import require


def make(env_id: str) -> gym.Env[Any, Any]:
    """One environment, with its time limit."""
    with making(env_id):
        return gym.make(env_id, disable_env_checker=True)


@contextmanager
def making(env_id: str) -> Iterator[None]:
    """While an environment is made, MuJoCo does not warn about models in an older format.

    Otherwise it warns on the screen and in a MUJOCO_LOG.TXT in the current folder. Warnings during a simulation stay.
    """
    spec = gym.registry.get(env_id)
    with ExitStack() as afterwards:
        try:
            if spec is not None and "mujoco" in str(spec.entry_point):
                mujoco = require("mujoco", "mujoco", f"environment {env_id!r}")
                afterwards.callback(mujoco.set_mju_user_warning, mujoco.get_mju_user_warning())
                mujoco.set_mju_user_warning(lambda _: None)
            yield
        except (gym.error.Error, ImportError) as error:
            raise WaypostError(f"environment {env_id!r} cannot be made: {error}") from None
