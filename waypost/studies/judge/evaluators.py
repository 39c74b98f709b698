"""Fitted Q evaluation of all candidates at once, by an ensemble on bootstraps of the episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np

from waypost.agents.agent import Array
from waypost.agents.fqe import FQE, Candidate, Config, Evaluator, State, columns
from waypost.data.dataset import Dataset
from waypost.training.loop import Learner
from waypost.types import Count, Doubles

LOGS = 20
"""Points of the evaluators' learning curves."""
BLOCK = 8192
"""Rows that are evaluated at once."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What the evaluators found, in units of the recorded rewards."""

    values: Doubles
    """Value of the start states by each member on its own bootstrap, (members, candidates)."""
    steps: list[int]
    curves: Doubles
    """The same along the training, mean of the members, (logs, candidates)."""
    weights: Doubles
    """How often each episode is in each bootstrap, (members, episodes)."""
    clipped: float
    """Share of the targets that lay beyond what the rewards can reach, at the end."""
    agents: list[Evaluator]
    value_range: tuple[float, float]

    def out_of_bag(self, dataset: Dataset, actions: Sequence[np.ndarray], following: bool = False) -> Doubles:
        """Q of a candidate's actions at every row, (candidates, rows), by the members that did not learn from the row.

        actions     of each candidate, (rows, n); one for all may be given once
        following   whether they are taken in the next states
        Where every member learned from the row it is the mean of all.
        """
        unseen = (self.weights == 0)[:, dataset.episode_of].astype(np.float64)
        unseen[:, unseen.sum(axis=0) == 0] = 1.0
        states = dataset.next_observations if following else dataset.observations
        sums = sum(w * q_of(agent, states, actions) for w, agent in zip(unseen, self.agents, strict=True))
        return np.clip(sums / unseen.sum(axis=0), *self.value_range)


def evaluate(
    config: Config,
    dataset: Dataset,
    candidates: Sequence[Candidate],
    members: int,
    steps: int,
    seed: int = 0,
    progress: Count | None = None,
) -> Evaluation:
    """Train the evaluators; `seed` is that of the first member."""
    arrays, spec = columns(config, dataset, candidates)
    chunk = -(-steps // LOGS)
    logs = -(-steps // chunk)
    algorithm = FQE(config, spec, chunk * logs)
    learner = Learner(algorithm, arrays, range(seed, seed + members))
    starts, (low, high) = dataset.episode_starts, spec.statistics["value_range"]
    first_actions = [each.actions[starts] for each in candidates]

    def start_values(state: State) -> Doubles:
        found = np.clip(q_of(state.agent, dataset.observations[starts], first_actions), low, high)
        return np.average(found, axis=1, weights=np.asarray(state.weights, np.float64))

    curves, metrics, values = [], {}, np.empty(0)
    for log in range(logs):
        metrics = learner.advance(algorithm.stages[0], chunk)
        values = np.stack([start_values(state) for state in learner.states])
        curves.append(values.mean(axis=0))
        if progress:
            progress((log + 1) * chunk, logs * chunk)
    return Evaluation(
        values=values,
        steps=[(log + 1) * chunk for log in range(logs)],
        curves=np.stack(curves),
        weights=np.stack([np.asarray(state.weights, np.float64) for state in learner.states]),
        clipped=float(np.mean(metrics["clipped"])),
        agents=[jax.tree.map(np.array, state.agent) for state in learner.states],
        value_range=(low, high),
    )


@jax.jit
def _q(agent: Evaluator, observations: Array, actions: Array) -> Array:
    return agent.q(observations, actions)


def q_of(agent: Evaluator, observations: np.ndarray, actions: Sequence[np.ndarray]) -> Doubles:
    """Q of every candidate, (candidates, rows); with one set of actions all are asked about the same."""
    found, size = [], min(BLOCK, len(observations))
    for first in range(0, len(observations), size):
        # The last block is filled up, so that one program serves for all.
        rows = np.minimum(np.arange(first, first + size), len(observations) - 1)
        asked = np.stack([each[rows] for each in actions]) if len(actions) > 1 else actions[0][rows]
        found.append(np.asarray(_q(agent, observations[rows], asked), np.float64))
    return np.concatenate(found, axis=1)[:, : len(observations)]
