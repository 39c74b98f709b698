"""How recorded rewards are rewritten for learning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from waypost.data.dataset import Dataset
from waypost.data.in_file import in_memory
from waypost.data.prepare import robust_moments
from waypost.errors import WaypostError
from waypost.types import Convention

SPREAD = 10.0
"""Standard deviation of returns in the long run, under the convention `standard`."""
LONGEST_RUN = 1_000
"""Rows that count as the long run without a discount."""


def learning_rewards(dataset: Dataset, convention: Convention, discount: float) -> Dataset:
    """The data with rewards rewritten by the convention, for learning with that discount."""
    if convention == "recorded" or dataset.rewards is None:
        return dataset
    recorded = in_memory(dataset.rewards)
    dataset = replace(dataset, rewards=recorded)
    if convention == "goal":
        failed = dataset.terminals & (recorded <= 0)
        if not failed.any():
            return dataset.with_rewards(recorded - 1.0)
        if discount >= 1:
            raise WaypostError("discount must be below 1 with 'goal' rewards, where a failure costs for ever, got 1")
        return dataset.with_rewards(np.where(failed, -1.0 / (1.0 - discount), recorded - 1.0))
    if convention == "centred-goal":
        return dataset.with_rewards(4.0 * (recorded - 0.5))
    if convention == "standard":
        return dataset.with_rewards(recorded * (SPREAD / _long_run_spread(dataset, discount)))
    returns = dataset.episode_returns
    spread = returns.max() - returns.min()
    if spread <= 0:
        raise WaypostError(
            f"{dataset.name}: every episode has the same return, so 'return-range' cannot scale the rewards; "
            "use the convention 'recorded'"
        )
    return dataset.with_rewards(recorded * (1000.0 / spread))


def _long_run_spread(dataset: Dataset, discount: float) -> float:
    """The robust spread of what is earned over the next 1 / (1 - gamma) rows, or to the episode's end.

    Where it is the same everywhere, its size is used instead.
    """
    rows = np.arange(len(dataset))
    ahead = round(min(1.0 / max(1.0 - discount, 1e-9), LONGEST_RUN))
    earned = np.append(0.0, np.cumsum(dataset.require("rewards"), dtype=np.float64))
    sums = earned[np.minimum(rows + ahead, dataset.last_row + 1)] - earned[rows]
    size = float(np.abs(sums).max())
    spread = float(robust_moments(sums[:, None])[1][0]) if np.ptp(sums) > 1e-6 * size else size
    return spread or 1.0
