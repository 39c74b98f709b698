"""Waypoint on ants whose states are padded: with columns of noise, or with the contact forces of Gymnasium's Ant.

    python scripts/wide_states.py runs/wide    # run it again to continue

An ant of a maze has 29 numbers: x, y and 27 of its body. `noise` adds 50 columns of random numbers, `forces` the 78
contact forces that make Ant-v5's observation 105 numbers long. Each form is learned with slow directions, as in the
preset of the ants, and with waypoints in all columns. The table goes to standard output and
to results/wide-states.csv.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
from tables import write_table

import waypost
from waypost.console.bar import TrainingBar
from waypost.console.screen import screen
from waypost.envs.simulators import make
from waypost.envs.tasks import Protocol
from waypost.training.records import read_result

FILE = Path(__file__).parents[1] / "results" / "wide-states.csv"
DATA, ENV = "antmaze-medium-play-400000", "waypost/AntMaze-medium-v0"
NOISE = 50
"""Columns of noise."""
SPACES = ("slow", "displacement")
"""Coordinates of a waypoint: slow directions, or all columns."""

Pad = Callable[[np.ndarray], np.ndarray]
"""From states, (rows, 29), to the columns that are added."""


def no_pad(states: np.ndarray) -> np.ndarray:
    return np.zeros((len(states), 0), np.float32)


def noise() -> Pad:
    rng = np.random.default_rng(0)
    return lambda states: rng.standard_normal((len(states), NOISE), np.float32)


def forces() -> Pad:
    """Contact forces on the 13 parts of the body, between -1 and 1, which follow from the state."""
    model = make(ENV).unwrapped.simulation.model
    data = mujoco.MjData(model)

    def pad(states: np.ndarray) -> np.ndarray:
        found = np.zeros((len(states), 6 * (model.nbody - 1)), np.float32)  # the first body is the world
        for row, state in enumerate(states):
            data.qpos[:], data.qvel[:] = state[: model.nq], state[model.nq :]
            mujoco.mj_forward(model, data)
            mujoco.mj_rnePostConstraint(model, data)
            found[row] = data.cfrc_ext[1:].clip(-1, 1).ravel()
        return found

    return pad


FORMS: dict[str, Callable[[], Pad]] = {"plain": lambda: no_pad, "noise": noise, "forces": forces}


class Padded(gym.ObservationWrapper[Any, Any, Any]):
    """The maze with the same columns added."""

    def __init__(self, pad: Pad):
        super().__init__(make(ENV))
        self.pad = pad
        size = self.env.observation_space.shape[0] + pad(np.zeros((1, 29), np.float32)).shape[1]
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (size,), np.float32)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return np.concatenate([observation, self.pad(observation[None])[0]])


def padded(dataset: waypost.Dataset, pad: Pad) -> waypost.Dataset:
    """The data with columns added; a next state has those of the row that follows it in the episode."""
    inside = np.flatnonzero(~dataset.ends)
    here, after = pad(dataset.observations), pad(dataset.next_observations[dataset.ends])
    following = np.empty_like(here)
    following[inside], following[dataset.ends] = here[inside + 1], after
    names = [f"added {i}" for i in range(here.shape[1])]
    return replace(
        dataset,
        observations=np.hstack([dataset.observations, here]),
        next_observations=np.hstack([dataset.next_observations, following]),
        observation_names=(*dataset.observation_names, *names),
    )


def arrivals(out: Path, dataset: Callable[[], waypost.Dataset], pad: Pad, steps: int, **options: Any) -> list[float]:
    """The percentage of each seed's rollouts that arrive: of a finished run, or of one that is trained now."""
    if not (out / "result.json").is_file():
        screen.print(f"\n{out.name}")
        waypost.train(
            "waypoint",
            dataset(),
            env=lambda: Padded(pad),
            preset="antmaze-medium-play",
            rewards="goal",
            steps=steps,
            evaluation=Protocol(every=steps // 2, episodes=100, last=2),
            out=out,
            resume=True,
            callbacks=[TrainingBar()],
            **options,
        )
    return [round(100 * each["success_rate"], 1) for each in read_result(out)["per_seed"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=1)
    arguments = parser.parse_args()
    recorded, rows = waypost.load(DATA), []
    for form, make_pad in FORMS.items():
        pad = make_pad()
        dataset = cache(partial(padded, recorded, pad))
        for space in SPACES:
            out = arguments.folder / f"{form}-{space}"
            scores = arrivals(out, dataset, pad, arguments.steps, seeds=arguments.seeds, waypoint=space)
            columns = len(waypost.Policy.load(out).spec.observation_names)
            rows.append([form, columns, space, *scores])
    print(write_table(FILE, ["form", "columns", "waypoints", "percent that arrive"], rows))


if __name__ == "__main__":
    try:
        main()
    except waypost.InterruptedRun:
        screen.print("stopped and saved; the same command continues")
