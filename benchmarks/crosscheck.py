"""Write d3rlpy's answers to small problems: `make crosscheck`, or `python benchmarks/crosscheck.py [--python PATH]`.

d3rlpy is an independent implementation of these algorithms. For each algorithm this draws weights, data and random
numbers, runs the update with d3rlpy's own classes (`d3rlpy_side.py`, in its own interpreter) and writes inputs and
outputs to `tests/agents/d3rlpy/`. `tests/agents/test_d3rlpy.py` gives the same weights, data and random numbers to
Waypost's updates; it needs neither d3rlpy nor PyTorch. The largest differences are printed at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "agents" / "d3rlpy"
HERE = Path(__file__).parent
OBSERVATION, ACTION, ROWS = 4, 2, 16
LATENT = 2 * ACTION
LOW, HIGH = np.array([-2.0, 0.0], np.float32), np.array([1.0, 5.0], np.float32)
HIDDEN = (8, 8)
CASES: dict[str, dict[str, Any]] = {
    "iql": {
        "tau": 0.8,
        "inverse_temperature": 3.0,
        "weight_cap": 5.0,
        "discount": 0.9,
        "target_rate": 0.1,
        "value_learning_rate": 0.02,
        "policy_learning_rate": 0.01,
        "hidden": HIDDEN,
        "batch_size": ROWS,
    },
    "td3bc": {
        "value_weight": 2.5,
        "observation_scaling": True,
        "target_noise": 0.4,
        "target_noise_clip": 0.5,
        "policy_period": 2,
        "discount": 0.9,
        "target_rate": 0.1,
        "critic_learning_rate": 0.02,
        "policy_learning_rate": 0.01,
        "critic_hidden": HIDDEN,
        "policy_hidden": (7, 6),
        "batch_size": ROWS,
    },
    "cql": {
        "penalty_weight": 5.0,
        "lagrange_threshold": 0.0,
        "samples": 5,
        "entropy_in_target": True,
        "cloning_steps": 0,
        "discount": 0.9,
        "target_rate": 0.1,
        "critic_learning_rate": 0.02,
        "policy_learning_rate": 0.01,
        "critic_hidden": HIDDEN,
        "policy_hidden": (7, 6),
        "batch_size": ROWS,
    },
    "bcq": {
        "perturbation": 0.3,
        "target_candidates": 6,
        "minimum_share": 0.75,
        "kl_weight": 0.5,
        "discount": 0.9,
        "target_rate": 0.1,
        "learning_rate": 0.01,
        "vae_hidden": (9, 7),
        "value_hidden": HIDDEN,
        "perturbation_hidden": (7, 6),
        "batch_size": ROWS,
    },
}
"""Settings, with Waypost's names."""
CASES["cql-lagrange"] = {**CASES["cql"], "lagrange_threshold": 4.0, "entropy_in_target": False}
UPDATES = {"td3bc": 4, "bcq": 3}
"""Number of updates, if not one."""
SEEDS = {"iql": 7, "td3bc": 1, "cql": 17, "cql-lagrange": 17, "bcq": 1}
"""The first seed with which each problem distinguishes a right update from a wrong one, as the test requires."""


def networks(algorithm: str, settings: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The sizes of every network's layers."""
    both = OBSERVATION + ACTION
    if algorithm == "iql":
        hidden = settings["hidden"]
        twin = (both, *hidden, 1)
        nets = {"policy": (OBSERVATION, *hidden, ACTION), "value": (OBSERVATION, *hidden, 1)}
    elif algorithm == "bcq":
        twin = (both, *settings["value_hidden"], 1)
        xi = (both, *settings["perturbation_hidden"], ACTION)
        nets = {
            "encoder": (both, *settings["vae_hidden"], 2 * LATENT),
            "decoder": (OBSERVATION + LATENT, *settings["vae_hidden"], ACTION),
            "perturbation": xi,
            "target_perturbation": xi,
        }
    else:
        twin = (both, *settings["critic_hidden"], 1)
        outputs = 2 * ACTION if algorithm == "cql" else ACTION
        nets = {"policy": (OBSERVATION, *settings["policy_hidden"], outputs)}
        if algorithm == "td3bc":
            nets["target_policy"] = nets["policy"]
    return {**nets, **dict.fromkeys(("critic0", "critic1", "target0", "target1"), twin)}


def question(name: str) -> dict[str, np.ndarray]:
    """Weights, data and random numbers of a case."""
    settings, random = CASES[name], np.random.default_rng(SEEDS[name])
    algorithm, updates = name.partition("-")[0], UPDATES.get(name, 1)
    rows = updates * ROWS
    observations = random.normal(size=(rows, OBSERVATION)) * [1.0, 0.3, 2.0, 1.0] + [0.5, -1.0, 1.0, 0.0]
    arrays: dict[str, Any] = {
        "data/observations": observations,
        "data/next_observations": observations + 0.3 * random.normal(size=observations.shape),
        "data/actions": (LOW + HIGH) / 2 + 0.49 * (HIGH - LOW) * random.uniform(-1, 1, (rows, ACTION)),
        "data/rewards": random.normal(size=rows),
        "data/terminals": random.random(rows) < 0.2,
        "action_low": LOW,
        "action_high": HIGH,
    }
    for net, sizes in networks(algorithm, settings).items():
        for i, (inputs, outputs) in enumerate(pairwise(sizes)):
            arrays[f"before/{net}/{i}"] = random.normal(0, 1.4 / np.sqrt(inputs), (inputs + 1, outputs))
    noises: dict[str, tuple[int, ...]] = {}
    if algorithm == "iql":
        arrays["before/log_std"] = random.uniform(-1.5, 0.5, ACTION)
    elif algorithm == "td3bc":
        noises = {"target": (updates, ROWS, ACTION)}
    elif algorithm == "cql":
        arrays["before/log_temperature"], arrays["before/log_factor"] = np.array(-0.4), np.array(0.0)
        if settings["lagrange_threshold"]:
            arrays["before/log_factor"] = np.array(0.3)
        several = (settings["samples"], ROWS, ACTION)
        noises = {"policy": several[1:], "target": several[1:], "here": several, "next": several}
        arrays["noise/uniform"] = random.uniform(-1, 1, several)
    else:
        candidates = settings["target_candidates"]
        several = (updates, ROWS, LATENT)
        noises = {"vae": several, "target": (updates, candidates, ROWS, LATENT), "perturbation": several}
    arrays |= {f"noise/{each}": random.normal(size=shape) for each, shape in noises.items()}
    numbers = {key: np.asarray(array, np.float32) for key, array in arrays.items()}
    return {**numbers, "algorithm": np.array(algorithm), "settings": np.array(json.dumps(settings))}


def main() -> int:
    parser = argparse.ArgumentParser(description="Write d3rlpy's answers to tests/agents/d3rlpy.")
    parser.add_argument(
        "--python",
        default=os.environ.get("D3RLPY_PYTHON", str(ROOT / ".venv-d3rlpy" / "bin" / "python")),
        help="an interpreter with d3rlpy; $D3RLPY_PYTHON if set, else .venv-d3rlpy's",
    )
    python = parser.parse_args().python
    if not Path(python).exists():
        print(f"error: d3rlpy is missing: {python} does not exist; make .venv-d3rlpy", file=sys.stderr)
        return 2
    GOLDEN.mkdir(exist_ok=True)
    for name in CASES:
        asked = question(name)
        with tempfile.TemporaryDirectory() as folder:
            files = Path(folder) / "question.npz", Path(folder) / "answer.npz"
            np.savez(files[0], **asked)
            subprocess.run([python, str(HERE / "d3rlpy_side.py"), "check", *map(str, files)], check=True)
            with np.load(files[1]) as answer:
                np.savez_compressed(GOLDEN / f"{name}.npz", **asked, **answer)
    sys.path.insert(0, str(ROOT / "tests" / "agents"))
    from test_d3rlpy import differences

    for name in CASES:
        largest = sorted(differences(name).items(), key=lambda each: -each[1])
        print(f"{name:13s}", ", ".join(f"{what} {difference:.1e}" for what, difference in largest[:4]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
