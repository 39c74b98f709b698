"""What is derived from data: rewards by an expression, windows of the last rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from waypost.data.dataset import Dataset
from waypost.data.table import Named, Reward, rewards
from waypost.errors import WaypostError


def rewarded(dataset: Dataset, reward: Reward) -> Dataset:
    """The data with rewards by an expression or a function of the named columns of states and actions.

    `observations`, `next_observations` and `actions` are whole matrices; `rewards` and `terminals` are as recorded.
    """
    known: dict[str, np.ndarray] = dict(dataset.columns)
    for names, side in ((dataset.observation_names, "observations"), (dataset.action_names, "actions")):
        known |= {name: dataset.columns[side][:, i] for i, name in enumerate(names)}
    known |= {f"next_{name}": dataset.next_observations[:, i] for i, name in enumerate(dataset.observation_names)}
    found = rewards(reward, Named(dataset.name, known), len(dataset))
    changed = replace(dataset, rewards=found.astype(np.float32))
    # These are no longer the rewards of the task.
    return replace(changed, task=None)


def with_history(dataset: Dataset, rows: int) -> Dataset:
    """The data with the last states of an episode side by side, oldest first; the first state fills what is missing."""
    if rows == 1 or dataset.history == rows:
        return dataset
    if dataset.history > 1:
        raise WaypostError(f"{dataset.name}: already has a history of {dataset.history} rows, got history {rows}")
    first, here = dataset.episode_starts[dataset.episode_of], np.arange(len(dataset))
    back = [dataset.observations[np.maximum(here - ago, first)] for ago in range(rows - 1, 0, -1)]
    now, following = dataset.observations, dataset.next_observations
    names = dataset.observation_names
    past = [f"{name}[-{ago}]" for ago in range(rows - 1, 0, -1) for name in names]
    seen = replace(
        dataset,
        observations=np.concatenate([*back, now], axis=1),
        next_observations=np.concatenate([*back[1:], now, following], axis=1),
        observation_names=(*past, *names) if names else (),
        history=rows,
    )
    return seen._frozen()
