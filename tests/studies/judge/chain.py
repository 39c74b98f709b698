"""A chain of states whose values are known exactly, and data recorded in it."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from waypost.agents.agent import Agent, Array, Memory, Spec
from waypost.agents.bc import Config
from waypost.data.dataset import Dataset
from waypost.training.policy import Policy

STATES, SLIP, DISCOUNT, LONGEST = 6, 0.1, 0.9, 40
START = 2
COST, PRIZE = -0.1, 2.0
"""A step costs, and the right end is worth more; the left end is worth nothing."""


def record(episodes: int, right: float = 0.6, seed: int = 0) -> Dataset:
    """Episodes of a behaviour that goes right with that probability."""
    rng = np.random.default_rng(seed)
    rows: dict[str, list[float]] = {name: [] for name in ("state", "action", "reward", "next", "terminal", "timeout")}
    for _ in range(episodes):
        state = START
        for time in range(LONGEST):
            action = int(rng.random() < right)
            towards = action if rng.random() >= SLIP else 1 - action
            following = state + (1 if towards else -1)
            over = following in (0, STATES - 1)
            reward = COST + (PRIZE if following == STATES - 1 else 0.0)
            last = not over and time == LONGEST - 1
            for name, value in zip(rows, (state, action, reward, following, over, last), strict=True):
                rows[name].append(value)
            if over:
                break
            state = following
    eye = np.eye(STATES, dtype=np.float32)
    return Dataset.from_arrays(
        eye[np.array(rows["state"], int)],
        eye[np.array(rows["next"], int)],
        np.array(rows["action"], np.float32)[:, None],
        np.array(rows["reward"], np.float32),
        np.array(rows["terminal"], bool),
        np.array(rows["timeout"], bool),
        action_count=2,
        name="chain",
    )


def exact(right: np.ndarray | float) -> float:
    """The value of the start under a policy that goes right with these probabilities, by solving its equations."""
    shares = np.broadcast_to(np.asarray(right, np.float64), (STATES,))
    moves, rewards = np.zeros((STATES, STATES)), np.zeros(STATES)
    for state in range(1, STATES - 1):
        up = shares[state] * (1 - SLIP) + (1 - shares[state]) * SLIP
        for chance, following in ((up, state + 1), (1 - up, state - 1)):
            rewards[state] += chance * (COST + (PRIZE if following == STATES - 1 else 0.0))
            if 0 < following < STATES - 1:
                moves[state, following] += chance
    return float(np.linalg.solve(np.eye(STATES) - DISCOUNT * moves, rewards)[START])


class Always(Agent):
    """Goes one way; with `turns` it remembers how often it has acted, and turns every time."""

    way: Array
    turns: Array

    def start(self, episodes: int, goal: Array | None = None) -> Memory:
        return jnp.zeros(episodes, jnp.int32) if bool(self.turns) else ()

    def act(self, observations: Array, memory: Memory = ()) -> tuple[Array, Memory]:
        ways = jnp.broadcast_to(self.way, len(observations))
        if isinstance(memory, tuple):
            return ways, memory
        return (ways + memory) % 2, memory + 1


def policy(way: int, dataset: Dataset, turns: bool = False) -> Policy:
    return Policy("bc", Config(), Spec.of(dataset), Always(np.int32(way), np.bool_(turns)))
