"""d3rlpy's FQE of policies whose actions are given, for an interpreter that has d3rlpy and not Waypost.

    python scripts/ope/d3rlpy_fqe.py DATA.npz

prints a line of JSON for each policy: its name and the mean value of the start states. Updates and
networks are d3rlpy's own; settings that are not given are its defaults. Observations and actions are scaled, which it
does not do by itself.
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import d3rlpy
import numpy as np
import torch
from d3rlpy.models import VectorEncoderFactory
from d3rlpy.ope import FQE, DiscreteFQE, FQEConfig
from d3rlpy.torch_utility import TorchMiniBatch

Arrays = dict[str, np.ndarray]


class Given:
    """Stands for the policy: FQE asks it for the actions in the next states of the batch that is being learned."""

    def __init__(self) -> None:
        self.actions: torch.Tensor | None = None

    def predict_best_action(self, _states: torch.Tensor) -> torch.Tensor:
        assert self.actions is not None
        return self.actions


def prepared(data: Arrays) -> tuple[dict[str, torch.Tensor], torch.Tensor, Any]:
    """The columns, the start states, and what scales actions: all as the networks are to see them."""
    mean, std = data["observations"].mean(axis=0), data["observations"].std(axis=0)

    def states(values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(((values - mean) / np.where(std > 1e-6, std, 1.0)).astype(np.float32))

    def actions(values: np.ndarray) -> torch.Tensor:
        if data["discrete"]:
            return torch.from_numpy(values.reshape(-1, 1).astype(np.int64))
        low, high = data["action_low"], data["action_high"]
        return torch.from_numpy((2.0 * (values - low) / (high - low) - 1.0).astype(np.float32))

    columns = {
        "observations": states(data["observations"]),
        "next_observations": states(data["next_observations"]),
        "actions": actions(data["actions"]),
        "rewards": torch.from_numpy(data["rewards"].astype(np.float32))[:, None],
        "terminals": torch.from_numpy(data["terminals"].astype(np.float32))[:, None],
    }
    return columns, states(data["starts"]), actions


def evaluate(name: str, data: Arrays, settings: dict[str, Any]) -> float:
    columns, starts, scaled = prepared(data)
    following, first = scaled(data[f"next/{name}"]), scaled(data[f"first/{name}"])
    torch.manual_seed(0)
    rng, policy = np.random.default_rng(0), Given()
    config = FQEConfig(
        gamma=settings["gamma"],
        learning_rate=settings["learning_rate"],
        target_update_interval=settings["target_update_interval"],
        encoder_factory=VectorEncoderFactory(settings["hidden"]),
    )
    kind = DiscreteFQE if data["discrete"] else FQE
    fqe = kind(SimpleNamespace(impl=policy), config)
    fqe.create_impl(tuple(starts.shape[1:]), int(data["discrete"]) or following.shape[1])
    for step in range(1, settings["updates"] + 1):
        rows = torch.from_numpy(rng.integers(0, len(following), config.batch_size))
        policy.actions = following[rows].squeeze(1) if data["discrete"] else following[rows]
        batch = {column: values[rows] for column, values in columns.items()}
        fqe.impl.update(
            TorchMiniBatch(
                **batch,
                next_actions=following[rows],
                returns_to_go=torch.zeros(len(rows), 1),
                intervals=torch.ones(len(rows), 1),
                device="cpu:0",
            ),
            step,
        )
    with torch.no_grad():
        asked = first.squeeze(1) if data["discrete"] else first
        return float(fqe.impl.predict_value(starts, asked).mean())


def main() -> None:
    torch.set_num_threads(1)
    with np.load(sys.argv[1]) as archive:
        data = dict(archive)
    settings = json.loads(str(data["settings"]))
    answers, sys.stdout = sys.stdout, sys.stderr  # d3rlpy logs to standard output
    print("d3rlpy", d3rlpy.__version__)
    for name in [key.removeprefix("next/") for key in data if key.startswith("next/")]:
        print(json.dumps([name, evaluate(name, data, settings)]), file=answers, flush=True)


if __name__ == "__main__":
    main()
