"""How the ants of a run fail, and how well its agent predicts the data's actions.

    python scripts/ant_failures.py runs/proof/antmaze-umaze/por runs/proof/antmaze-umaze/bc

In the episodes that did not arrive, an ant is on its back if it is upside down at the end; the others are within one
cell of the goal or elsewhere. The error is the mean squared difference between the agent's actions and the recorded
ones; the noise of the recording, 0.2, is unpredictable. For POR there is also the error of its executor alone, given
the recorded next state instead of the guide's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

import waypost
from waypost.agents.guided import GuidedAgent
from waypost.envs.mazes import ANT_SCALE
from waypost.training.evaluation import rollouts

ROWS = 4096
"""Transitions whose actions are compared."""


@dataclass(frozen=True)
class Options:
    """Which runs, and how many episodes of each."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    episodes: int = 40
    seed: int = 777
    """Of the episodes; training is evaluated with another."""


def fates(paths: list[np.ndarray], arrived: np.ndarray, goal: np.ndarray) -> dict[str, int]:
    """Number of episodes that ended in each way."""
    last = np.array([path[-1] for path in paths])[~arrived]
    # The body's own upward axis in the world, from its orientation (w, x, y, z).
    upside_down = 1 - 2 * (last[:, 4] ** 2 + last[:, 5] ** 2) < 0
    near = np.linalg.norm(last[:, :2] - goal, axis=1) < ANT_SCALE
    return {
        "arrived": int(arrived.sum()),
        "on their backs": int(upside_down.sum()),
        "near the goal": int((near & ~upside_down).sum()),
        "elsewhere": int((~near & ~upside_down).sum()),
    }


def errors(policy: waypost.Policy, dataset: waypost.Dataset) -> dict[str, float | None]:
    """Mean squared error of the agent's actions, with and without its guide."""
    rows = np.random.default_rng(0).choice(len(dataset), min(ROWS, len(dataset)), replace=False)
    states, actions = dataset.observations[rows], dataset.require("actions")[rows]
    told = None
    if isinstance(policy.agent, GuidedAgent) and policy.agent.executor is not None:
        told = np.asarray(policy.agent.executor(states, dataset.next_observations[rows]))
    return {
        "error": float(np.mean((policy.act(states) - actions) ** 2)),
        "error, told s'": None if told is None else float(np.mean((told - actions) ** 2)),
    }


def main(options: Options) -> None:
    rows = []
    for directory in options.runs:
        run = waypost.load_run(directory)
        task = waypost.task(str(run.plan.task))
        dataset = waypost.load(run.plan.data)
        seen = rollouts([policy.agent for policy in run.policies], task, options.episodes, options.seed, paths=True)
        for place, policy in enumerate(run.policies):
            ends = fates(seen.paths[place], seen.returns[place] > 0, np.array(task.goal))
            rows.append({"run": str(directory), "seed": policy.seed, **ends, **errors(policy, dataset)})
    print("| " + " | ".join(rows[0]) + " |\n|---" + "|---:" * (len(rows[0]) - 1) + "|")
    for row in rows:
        print("| " + " | ".join(_cell(value) for value in row.values()) + " |")


def _cell(value: object) -> str:
    return "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
