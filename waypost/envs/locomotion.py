"""Gymnasium's MuJoCo bodies, as the replicas and tasks use them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from waypost.errors import WaypostError

STEPS = 1000
"""Longest episode."""


@dataclass(frozen=True)
class Body:
    """One of D4RL's bodies in its Gymnasium v5 form."""

    name: str
    env_id: str
    reference: tuple[float, float]
    """D4RL's returns of a random and of an expert policy: scores 0 and 100."""
    joints: tuple[str, ...]
    """In the order of the positions and velocities."""
    actions: int
    """Number of motors; each takes -1 to 1."""

    @property
    def observation_names(self) -> tuple[str, ...]:
        """All positions but that along the track, then all velocities."""
        return (*self.joints[1:], *(f"{joint} velocity" for joint in self.joints))


_LEG = ("thigh", "leg", "foot")
BODIES: dict[str, Body] = {
    body.name: body
    for body in (
        Body("hopper", "Hopper-v5", (-20.272305, 3234.3), ("x", "z", "angle", *_LEG), 3),
        Body(
            "halfcheetah",
            "HalfCheetah-v5",
            (-280.178953, 12135.0),
            ("x", "z", "angle", "back thigh", "back shin", "back foot", "front thigh", "front shin", "front foot"),
            6,
        ),
        Body(
            "walker2d",
            "Walker2d-v5",
            (1.629008, 4592.3),
            ("x", "z", "angle", *_LEG, *(f"left {part}" for part in _LEG)),
            6,
        ),
    )
}


def make(body: Body) -> gym.Env[Any, Any]:
    """One environment of a body, with its time limit."""
    try:
        with quiet_models():
            return gym.make(body.env_id, disable_env_checker=True)
    except (gym.error.Error, ImportError) as error:
        raise WaypostError(f"environment {body.env_id!r} cannot be made: {error}") from None


@contextmanager
def quiet_models() -> Iterator[None]:
    """While models are read, MuJoCo keeps to itself that some are written in an older way.

    Otherwise it says so on the screen and in a MUJOCO_LOG.TXT where the person happens to be. Warnings while a
    simulation runs stay.
    """
    import mujoco

    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda _: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)
