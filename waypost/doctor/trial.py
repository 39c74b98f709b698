"""A short training on data that come with Waypost: learn, act, save, load, and act again."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from waypost.doctor.checks import Check

UPDATES = 200
_SMALL: dict[str, Any] = {
    "value_hidden": (32, 32),
    "guide_hidden": (32, 32),
    "executor_hidden": (32, 32),
    "batch_size": 64,
    "preset": "none",
}
_STATES = 100


def trial() -> list[Check]:
    """Train, act, save and load: the loaded policy must give exactly the same actions."""
    begun = time.perf_counter()
    import numpy as np

    import waypost.recording  # noqa: F401 (data made here are known by name)
    from waypost.data.sources import load
    from waypost.envs.tasks import Protocol
    from waypost.training.policy import Policy
    from waypost.training.train import train

    data = load("t-maze")
    found = [Check("data", f"{len(data)} transitions, {_since(begun)}")]

    begun = time.perf_counter()
    run = train("por", data, steps=UPDATES, evaluation=Protocol(episodes=2), **_SMALL)
    found.append(Check("train", f"{UPDATES} updates of POR and 2 episodes, {_since(begun)}"))

    begun = time.perf_counter()
    states = data.observations[:_STATES]
    before = run.policy.act(states)
    found.append(Check("act", f"{len(states)} actions, {_since(begun)}"))

    begun = time.perf_counter()
    with TemporaryDirectory(prefix="waypost-doctor-") as folder:
        run.policy.save(Path(folder) / "policy")
        after = Policy.load(Path(folder) / "policy").act(states)
    same = np.isfinite(before).all() and np.array_equal(before, after)
    words = "the same actions" if same else "the loaded policy acts differently"
    found.append(Check("save and load", f"{words}, {_since(begun)}", "ok" if same else "error"))
    return found


def _since(begun: float) -> str:
    return f"{time.perf_counter() - begun:.1f} s"
