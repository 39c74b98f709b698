"""ICU-Sepsis (Choudhary et al. 2024): 713 states of patients, 25 treatments, and values that can be computed exactly.

The dynamics are those of the PyPI package `icu-sepsis`, the extra `ope`; only its file of tables is read. A patient
is observed as the centre of the cluster that the state stands for. The reward is 1 for survival.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from waypost.agents.agent import Agent, Array, Memory, Spec
from waypost.agents.bc import Config
from waypost.data.dataset import Dataset
from waypost.errors import WaypostError
from waypost.training.policy import Policy

DISCOUNT = 0.99
ALIVE = 713
"""States before the terminal ones."""
ACTIONS = 25
EXPERT = 0.8
"""Share of the recorded actions that are the clinicians'; the others are drawn from all treatments."""
SUPPORTED = 0.05
"""How often clinicians must choose a treatment for a policy of the ladder to do so."""
LONGEST = 100


@cache
def tables() -> dict[str, np.ndarray]:
    """Transitions (state, action, state), expected rewards (state, action), first states, clinicians and centres."""
    package = find_spec("icu_sepsis")
    if package is None or package.origin is None:
        raise WaypostError("the sepsis task needs the package icu-sepsis: pip install 'waypost[ope]'")
    with np.load(Path(package.origin).parent / "envs" / "assets" / "dynamics.npz") as file:
        moves, rewards = file["tx_mat"].astype(np.float64), file["r_mat"].astype(np.float64)
        found = {"first": file["d_0"], "expert": file["expert_policy"], "centres": file["state_cluster_centers"]}
    return found | {"moves": moves, "rewards": (moves * rewards).sum(axis=-1)}


def record(episodes: int = 4_000, seed: int = 0) -> Dataset:
    """Patients treated by clinicians and, now and then, at random."""
    known, rng = tables(), np.random.default_rng(seed)
    behaviour = EXPERT * known["expert"][:ALIVE] + (1 - EXPERT) / ACTIONS
    states = rng.choice(len(known["first"]), size=episodes, p=known["first"] / known["first"].sum())
    patient, parts = np.arange(episodes), []
    for time in range(LONGEST):
        actions = _draw(rng, behaviour[states])
        following = _draw(rng, known["moves"][states, actions])
        over = following >= ALIVE
        survived = following == ALIVE + 1
        last = ~over & (time == LONGEST - 1)
        parts.append(np.stack([patient, np.full(len(states), time), states, actions, following, survived, over, last]))
        patient, states = patient[~over], following[~over]
        if not len(states):
            break
    rows = np.concatenate(parts, axis=1)
    rows = rows[:, np.lexsort(rows[1::-1])]
    _, _, states, actions, following, survived, over, last = rows
    return Dataset.from_arrays(
        known["centres"][states].astype(np.float32),
        known["centres"][following].astype(np.float32),
        actions.astype(np.float32)[:, None],
        survived.astype(np.float32),
        over.astype(bool),
        last.astype(bool),
        action_count=ACTIONS,
        name="icu-sepsis",
    )


def _draw(rng: np.random.Generator, chances: np.ndarray) -> np.ndarray:
    """One index for each row of probabilities."""
    sums = np.cumsum(chances, axis=1)
    return (rng.random((len(chances), 1)) * sums[:, -1:] >= sums).sum(axis=1)


def value(choices: np.ndarray, discount: float = DISCOUNT) -> float:
    """The exact value of the first states when each state (ALIVE,) gets that treatment."""
    known, states = tables(), np.arange(ALIVE)
    moves = known["moves"][states, choices][:, :ALIVE]
    solved = np.linalg.solve(np.eye(ALIVE) - discount * moves, known["rewards"][states, choices])
    return float(known["first"][:ALIVE] @ solved)


def extreme(sign: float, allowed: np.ndarray) -> np.ndarray:
    """The best treatment of each state among those allowed, or with sign -1 the worst, by policy iteration."""
    known, states = tables(), np.arange(ALIVE)
    moves, rewards = known["moves"][:ALIVE, :, :ALIVE], known["rewards"][:ALIVE]
    choices = allowed.argmax(axis=1)
    while True:
        own = np.eye(ALIVE) - DISCOUNT * moves[states, choices]
        values = np.linalg.solve(own, rewards[states, choices])
        q = np.where(allowed, sign * (rewards + DISCOUNT * moves @ values), -np.inf)
        better = np.where(q.max(axis=1) > q[states, choices] + 1e-9, q.argmax(axis=1), choices)
        if (better == choices).all():
            return choices
        choices = better


class Protocol(Agent):
    """Treats each state as a table says."""

    centres: Array
    choices: Array

    def act(self, observations: Array, memory: Memory = ()) -> tuple[Array, Memory]:
        sizes = jnp.sum(self.centres**2, axis=1)
        return self.choices[jnp.argmin(sizes - 2.0 * observations @ self.centres.T, axis=1)], memory


def ladder(dataset: Dataset, seed: int) -> dict[str, Policy]:
    """From harmful to best: what clinicians do most, with the best or the worst supported treatment in some states."""
    known, rng = tables(), np.random.default_rng(seed)
    expert = known["expert"][:ALIVE]
    usual = expert.argmax(axis=1)
    allowed = (expert >= SUPPORTED) | (expert == expert.max(axis=1, keepdims=True))
    chosen = {"clinicians": usual, "random": rng.integers(0, ACTIONS, ALIVE)}
    for name, sign in (("best", 1.0), ("worst", -1.0)):
        end = extreme(sign, allowed)
        for share in (0.3, 0.6, 1.0):
            chosen[f"{name}-{share:.0%}"] = np.where(rng.random(ALIVE) < share, end, usual)
    spec = Spec.of(dataset)
    centres = known["centres"][:ALIVE].astype(np.float32)
    return {name: Policy(name, Config(), spec, Protocol(centres, each)) for name, each in chosen.items()}


def truth(policy: Policy) -> dict[str, float]:
    """By solving the equations of what the policy does in every state."""
    actions, _ = policy.agent.act(jnp.asarray(tables()["centres"][:ALIVE], jnp.float32))
    choices = np.asarray(actions).reshape(ALIVE).astype(int)
    found = {"true": value(choices), "true_return": value(choices, 1.0)}
    return found | {"true_error": 0.0, "true_return_error": 0.0}
