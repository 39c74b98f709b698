"""Waypoint in a learned code of the state, in place of the slow directions that have a closed form.

    python scripts/learned_codes.py runs/codes    # run it again to continue

A code is a small network that maps the state to two or four numbers. It is trained first, on the same data:

    actions   an executor is told only how far these numbers move within 25 steps; both learn by its likelihood
    time      states at most 25 steps apart lie close together, and far from other states (a contrastive loss)

Its numbers are then added to the state as columns, and `waypoint` takes them as the coordinates of its waypoints.
The table goes to standard output and to results/learned-codes.csv.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from tables import write_table
from wide_states import DATA, Pad, arrivals, no_pad, padded

import waypost
from waypost.agents.nets import MLP, Gaussian
from waypost.console.screen import screen
from waypost.data import prepare

FILE = Path(__file__).parents[1] / "results" / "learned-codes.csv"
Objective = Literal["actions", "time"]
CODES: dict[str, tuple[Objective, int] | None] = {
    "slow directions": None,
    "actions, 2 numbers": ("actions", 2),
    "actions, 4 numbers": ("actions", 4),
    "time, 2 numbers": ("time", 2),
    "time, 4 numbers": ("time", 4),
}
HORIZON = 25
HIDDEN = (128, 128)
BATCH = 256


class Coder(eqx.Module):
    """A code, and the executor that it is trained with."""

    code: MLP
    executor: Gaussian

    def __init__(self, columns: int, numbers: int, actions: int, key: jax.Array):
        code_key, executor_key = jax.random.split(key)
        self.code = MLP(columns, HIDDEN, numbers, code_key)
        self.executor = Gaussian(columns + numbers, (256, 256), actions, executor_key)

    def loss(self, objective: Objective, s: jax.Array, reached: jax.Array, a: jax.Array) -> jax.Array:
        here, there = self.code(s), self.code(reached)
        if objective == "actions":
            return -self.executor.log_likelihood(jnp.concatenate([s, there - here], axis=-1), a).mean()
        # The state that follows is to be told from those that follow other rows, by its distance.
        apart = ((here[:, None] - there[None]) ** 2).sum(axis=-1)
        return optax.softmax_cross_entropy_with_integer_labels(-apart, jnp.arange(len(s))).mean()


def learned(dataset: waypost.Dataset, objective: Objective, numbers: int, steps: int, seed: int = 0) -> Pad:
    """From states to their code, trained on the data."""
    arrays = prepare.waypoints(dataset.without_rewards(), HORIZON, HORIZON, 1.0)
    found = prepare.observation_scaling(dataset, "standardise")
    mean, std = found["observation_mean"], found["observation_std"]
    states, following = ((arrays[name] - mean) / std for name in ("observations", "next_observations"))
    usable = np.flatnonzero(arrays["aimed"] > 0)
    columns = [jnp.asarray(each) for each in (states, following, dataset.require("actions"), arrays["ahead"], usable)]
    key, init_key = jax.random.split(jax.random.key(seed))
    coder = Coder(states.shape[1], numbers, columns[2].shape[1], init_key)
    optimiser = optax.adam(optax.cosine_decay_schedule(1e-3, steps))

    @jax.jit
    def train(coder: Coder, key: jax.Array, columns: list[jax.Array]) -> tuple[Coder, jax.Array]:
        states, following, actions, ahead, usable = columns

        def update(
            carry: tuple[Coder, optax.OptState], key: jax.Array
        ) -> tuple[tuple[Coder, optax.OptState], jax.Array]:
            coder, state = carry
            row_key, ahead_key = jax.random.split(key)
            rows = usable[jax.random.randint(row_key, (BATCH,), 0, len(usable))]
            there = rows + jax.random.randint(ahead_key, (BATCH,), 0, ahead[rows] + 1)
            s, reached, a = states[rows], following[there], actions[rows]
            loss, gradient = jax.value_and_grad(lambda it: it.loss(objective, s, reached, a))(coder)
            changes, state = optimiser.update(gradient, state)
            return (optax.apply_updates(coder, changes), state), loss

        (coder, _), losses = jax.lax.scan(update, (coder, optimiser.init(coder)), jax.random.split(key, steps))
        return coder, losses

    coder, losses = train(coder, key, columns)
    screen.print(f"loss of the code: {losses[: steps // 10].mean():.3f} to {losses[-steps // 10 :].mean():.3f}")
    code = jax.jit(lambda states: coder.code((states - mean) / std))
    return lambda states: np.asarray(code(states))


def place_explained(dataset: waypost.Dataset, pad: Pad) -> float:
    """Share of the variance of x and y that a linear function of the code explains."""
    rows = slice(None, None, -(-len(dataset) // 20_000))
    code, place = pad(dataset.observations[rows]), dataset.observations[rows, :2]
    inputs = np.column_stack([code, np.ones(len(code))])
    left = place - inputs @ np.linalg.lstsq(inputs, place, rcond=None)[0]
    return float(1 - left.var(axis=0).sum() / place.var(axis=0).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--codes", nargs="+", choices=CODES, default=list(CODES))
    arguments = parser.parse_args()
    dataset, rows = waypost.load(DATA), []
    states = dataset.observation_size
    for name in arguments.codes:
        chosen = CODES[name]
        pad = learned(dataset, *chosen, steps=arguments.steps) if chosen else no_pad
        code = chosen[1] if chosen else 0
        scores = arrivals(
            arguments.folder / name.replace(" ", "-").replace(",", ""),
            partial(padded, dataset, pad),
            pad,
            arguments.steps,
            seeds=(arguments.first_seed,),
            waypoint_columns=tuple(range(states, states + code)),
            executor_inputs=tuple(range(states)),
        )
        rows.append([name, round(100 * place_explained(dataset, pad), 1) if chosen else 100.0, *scores])
    print(write_table(FILE, ["code", "percent of x and y explained", "percent that arrive"], rows))


if __name__ == "__main__":
    try:
        main()
    except waypost.InterruptedRun:
        screen.print("stopped and saved; the same command continues")
