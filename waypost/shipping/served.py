"""A policy ready to be served: run by onnxruntime, with the distance of each observation to the data."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from waypost.errors import WaypostError
from waypost.shipping.check import Answer, check
from waypost.shipping.export import chosen, metadata
from waypost.shipping.onnx_file import answering, model_bytes
from waypost.shipping.recorded import recorded
from waypost.shipping.tracing import trace
from waypost.training.compilation import keep_programs
from waypost.types import Floats

REFERENCE = 10_000
"""Number of recorded observations to which distances are measured."""
TRIED = 100
"""Number of observations on which the service's copy is compared with the agent."""
USUAL = 0.95
"""The share of recorded observations whose nearest other one lies within distance 1."""


class Distance:
    """The distance from an observation to the nearest recorded one, relative to the distances between these.

    Columns are divided by their standard deviations. At 1 or less, an observation is as close to the data as 95 % of
    the data are to each other.
    """

    def __init__(self, observations: Floats):
        std = observations.std(axis=0, dtype=np.float64)
        self.scale = np.where(std > 0, std, 1.0)
        self.tree = cKDTree(observations / self.scale)
        apart = self.tree.query(observations[:1000] / self.scale, k=2)[0][:, 1]
        # If rows repeat each other the unit would be 0; any real distance then counts as far.
        self.unit = max(float(np.quantile(apart, USUAL)), 1e-6)

    def __call__(self, observations: Floats) -> Floats:
        return self.tree.query(observations / self.scale)[0] / self.unit


@dataclass(frozen=True)
class Served:
    """A policy that is ready to answer."""

    copy: Answer
    """The exported policy."""
    about: dict[str, Any]
    """Its metadata."""
    distance: Distance | None
    """None if the data are not available."""
    stamp: Any
    """`stamp_of` its files when it was read."""
    note: str
    seconds: float
    """How long it took to load."""
    noise_size: int = 0
    """Random numbers that an action needs."""
    in_words: Callable[[Any], dict[str, Any]] | None = None
    """A mixed action by the names of its columns, with its choices as the log has them."""

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.about["columns"])

    def answer(self, observations: Floats) -> dict[str, np.ndarray]:
        """Action and, if available, waypoint, value and distance to the data."""
        given = {"observation": observations}
        if self.noise_size:
            given["noise"] = np.random.default_rng().standard_normal((len(observations), self.noise_size), np.float32)
        said = self.copy(given)
        return said if self.distance is None else {**said, "distance": self.distance(observations)}


def stamp_of(run: Path) -> tuple[Any, ...]:
    """Names, times and sizes of a policy's files; they change when it is replaced."""
    folder = run / "policy" if (run / "policy").is_dir() else run
    files = [*sorted(folder.glob("*.safetensors")), folder / "policy.json"]
    stats = [(file.name, file.stat()) for file in files]
    return tuple((name, stat.st_mtime_ns, stat.st_size, stat.st_ino) for name, stat in stats)


def load_served(run: Path, seed: int | None = None, data: Any = None) -> Served:
    """The policy of a run directory, after checking that its copy acts like the agent."""
    begun = time.monotonic()
    keep_programs()
    stamp = None
    with suppress(OSError):  # loading it gives a better error
        stamp = stamp_of(run)
    policy, folder = chosen(run, seed)
    size, generator = policy.spec.observation_size, np.random.default_rng(0)
    # The service draws normal noise; discrete choices need another distribution.
    normal = policy.agent.noise_size and not any(policy.spec.action_counts)
    if policy.agent.remembers and not normal:
        raise WaypostError(
            f"{run}: a {policy.algorithm} agent has memory, and a service cannot tell which request belongs to which "
            "episode; use `waypost export`, which writes the memory as inputs and outputs"
        )
    known = recorded(folder, data, policy, REFERENCE, generator)
    graph = trace(policy.agent, size)
    about = metadata(policy, graph, known)
    copy = answering(model_bytes(graph, about))
    check(policy.agent, copy, known.random(TRIED, policy.spec, generator), generator)
    distance = Distance(known.observations) if len(known.observations) > 1 else None
    by_name = policy.action if policy.spec.action_choices else None
    seconds = time.monotonic() - begun
    return Served(copy, about, distance, stamp, known.note, seconds, policy.agent.noise_size, by_name)
