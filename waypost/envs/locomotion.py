"""Gymnasium's MuJoCo bodies, as the replicas and tasks use them."""

from __future__ import annotations

from dataclasses import dataclass


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
        """All positions except the one along the track, then all velocities."""
        return (*self.joints[1:], *(f"{joint} velocity" for joint in self.joints))


_TRUNK, _LEG = ("x", "z", "angle"), ("thigh", "leg", "foot")
_CHEETAH = tuple(f"{end} {part}" for end in ("back", "front") for part in ("thigh", "shin", "foot"))
BODIES: dict[str, Body] = {
    body.name: body
    for body in (
        Body("hopper", "Hopper-v5", (-20.272305, 3234.3), (*_TRUNK, *_LEG), 3),
        Body("halfcheetah", "HalfCheetah-v5", (-280.178953, 12135.0), (*_TRUNK, *_CHEETAH), 6),
        Body("walker2d", "Walker2d-v5", (1.629008, 4592.3), (*_TRUNK, *_LEG, *(f"left {part}" for part in _LEG)), 6),
    )
}
