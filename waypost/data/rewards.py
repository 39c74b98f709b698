"""How recorded rewards are rewritten for learning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from waypost.data.dataset import Dataset
from waypost.data.in_file import in_memory
from waypost.errors import WaypostError
from waypost.types import Convention


def learning_rewards(dataset: Dataset, convention: Convention, discount: float) -> Dataset:
    """The data with rewards as the convention wants them for learning with that discount."""
    if convention == "recorded" or dataset.rewards is None:
        return dataset
    recorded = in_memory(dataset.rewards)
    dataset = replace(dataset, rewards=recorded)
    if convention == "goal":
        failed = dataset.terminals & (recorded <= 0)
        if not failed.any():
            return dataset.with_rewards(recorded - 1.0)
        if discount >= 1:
            raise WaypostError("discount = 1: a failure would cost without end in a 'goal' task; choose one below 1")
        return dataset.with_rewards(np.where(failed, -1.0 / (1.0 - discount), recorded - 1.0))
    if convention == "centred-goal":
        return dataset.with_rewards(4.0 * (recorded - 0.5))
    returns = dataset.episode_returns
    spread = returns.max() - returns.min()
    if spread <= 0:
        raise WaypostError(
            f"{dataset.name}: every episode has the same return, so 'return-range' cannot scale rewards; "
            "use the convention 'recorded'"
        )
    return dataset.with_rewards(recorded * (1000.0 / spread))
