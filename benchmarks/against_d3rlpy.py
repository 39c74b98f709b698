"""The benchmark against d3rlpy: updates of IQL, TD3+BC, CQL and BC of equal size. README.md explains the figures.

d3rlpy needs other versions of common libraries than Waypost, so it has its own environment, `.venv-d3rlpy`;
$D3RLPY_PYTHON can name another interpreter. Its side is `d3rlpy_side.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
PYTHON = Path(os.environ.get("D3RLPY_PYTHON", ROOT / ".venv-d3rlpy" / "bin" / "python"))
ROWS, OBSERVATION, ACTION, HIDDEN, BATCH, SAMPLES = 100_000, 11, 3, (256, 256), 256, 10
CHUNKS = {"iql": 25, "td3bc": 40, "cql": 2, "bc": 150}
"""The algorithms, and updates per call of `Learner.advance`: a fifth of a second, so that turns are about as long as
d3rlpy's. On a busy machine a longer turn gets a smaller share of it.
"""


def learner(name: str) -> Any:
    """A learner of that algorithm, already compiled."""
    from waypost.agents import bc, cql, iql, td3bc
    from waypost.data.dataset import Dataset
    from waypost.training.loop import Learner

    random = np.random.default_rng(0)
    dataset = Dataset.from_arrays(
        random.normal(size=(ROWS, OBSERVATION)).astype(np.float32),
        random.normal(size=(ROWS, OBSERVATION)).astype(np.float32),
        actions=random.uniform(-1, 1, (ROWS, ACTION)).astype(np.float32),
        rewards=random.normal(size=ROWS).astype(np.float32),
        terminals=random.random(ROWS) < 0.01,
        action_low=-np.ones(ACTION, np.float32),
        action_high=np.ones(ACTION, np.float32),
    )
    actor_critic: dict[str, Any] = {"critic_hidden": HIDDEN, "policy_hidden": HIDDEN, "batch_size": BATCH}
    kind: Any
    config: Any
    kind, config = {
        "iql": (iql.IQL, iql.Config(hidden=HIDDEN, batch_size=BATCH)),
        "td3bc": (td3bc.TD3BC, td3bc.Config(observation_scaling=False, **actor_critic)),
        "cql": (cql.CQL, cql.Config(samples=SAMPLES, cloning_steps=0, **actor_critic)),
        "bc": (bc.BC, bc.Config(observation_scaling=False, hidden=HIDDEN, batch_size=BATCH)),
    }[name]
    columns, spec = kind.prepare(config, dataset)
    result = Learner(kind(config, spec, 1_000_000), columns, [0])
    result.advance(result.algorithm.stages[0], CHUNKS[name])
    return result


class Foreign:
    """d3rlpy's worker in its own interpreter; like `Remote`, it sleeps until it is called."""

    def __init__(self, environment: dict[str, str] | None = None):
        self.process = subprocess.Popen(
            [str(PYTHON), str(Path(__file__).with_name("d3rlpy_side.py")), "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        sizes = {"rows": ROWS, "observation": OBSERVATION, "action": ACTION, "batch": BATCH, "samples": SAMPLES}
        self._send("start", {**sizes, "hidden": HIDDEN})

    def call(self, method: str, *args: Any) -> Any:
        self._send(method, args)
        return self.answer()

    def answer(self) -> Any:
        line = self.process.stdout.readline() if self.process.stdout else ""
        if not line:
            raise RuntimeError("d3rlpy's process died; run python benchmarks/crosscheck.py to see whether d3rlpy works")
        good, answer = json.loads(line)
        if not good:
            raise RuntimeError(f"d3rlpy: {answer}")
        return answer

    def _send(self, method: str, args: Any) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps([method, args]) + "\n")
        self.process.stdin.flush()


def missing() -> str | None:
    """What to do if d3rlpy is missing."""
    return None if PYTHON.exists() else "d3rlpy, which Waypost is compared with, is missing: make .venv-d3rlpy"


def updates(bench: Any, figures: Any, quick: bool) -> dict[str, float]:
    """Waypost's updates, sampling included, against d3rlpy's on batches drawn beforehand, its faster way."""
    results = {}
    spinning, sleeping = bench.workers["d3rlpy"], bench.workers["d3rlpy, sleeping"]
    for name in CHUNKS:
        sides = {
            "waypost": (bench.workers["waypost, others"], name),
            "given": (spinning, f"{name} given"),
            "given, sleeping": (sleeping, f"{name} given"),
        }
        if not quick:
            sides |= {"sampled": (spinning, name), "sampled, sleeping": (sleeping, name)}
        times = bench.times(f"{name} against d3rlpy", sides)
        # The better way of waiting for its threads counts.
        best = min("given", "given, sleeping", key=lambda way, times=times: float(np.median(times[way])))
        figures.time(f"d3rlpy, {name}", times[best], "an update on a batch drawn beforehand")
        figures.time(f"Waypost, {name}", times["waypost"], "an update inside Learner.advance, sampling included")
        key = f"{name}_vs_d3rlpy"
        results[key] = figures.ratio(key, times, best, "waypost", "d3rlpy over Waypost", True)
        if not quick:
            sampled = best.replace("given", "sampled")
            figures.ratio(
                "... with sampling", times, sampled, "waypost", "the same with batches from its buffer, as in fit"
            )
        figures.line()
    return results
