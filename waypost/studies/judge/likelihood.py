"""How likely what recorded the data was to act as a policy does: a second look at where a policy leaves the data.

The behaviour is cloned as a density b(a|s). In each state that is looked at, the likelihood of the policy's action is
compared with that of the recorded one; what is usual is what nearly all recorded actions have. The clone has one mode
and one spread, so a behaviour of several kinds looks wider than it is: the distances of `support` know no such thing.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np

from waypost.agents.agent import Array
from waypost.agents.bc import BCAgent
from waypost.data.dataset import Dataset
from waypost.studies.judge.support import USUAL
from waypost.types import Doubles, Floats


@dataclass(frozen=True)
class Likelihood:
    """Of a policy's actions under the cloned behaviour."""

    median: float
    """Logarithm of how much likelier than the recorded action, in the middle of the states; above 0: likelier."""
    unlikely: float
    """Share of the states where the action is less likely than usual."""
    data_unlikely: float
    """The same of the recorded actions."""


class Behaviour:
    """The cloned behaviour at some states of the data."""

    def __init__(self, clone: BCAgent, dataset: Dataset, rows: np.ndarray):
        self._clone, self._rows, self._states = clone, rows, dataset.observations[rows]
        self.own = self._logs(dataset.require("actions"))
        self.limit = float(np.quantile(self.own, 1.0 - USUAL))

    def measure(self, actions: Floats) -> tuple[Likelihood, Doubles]:
        """Of a policy's actions at all rows of the data; also the log ratio at each state that is looked at."""
        found = self._logs(actions)
        unlikely, data_unlikely = (float(np.mean(each < self.limit)) for each in (found, self.own))
        return Likelihood(float(np.median(found - self.own)), unlikely, data_unlikely), found - self.own

    def _logs(self, actions: Floats) -> Doubles:
        return np.asarray(_log_likelihood(self._clone, self._states, actions[self._rows]), np.float64)


@jax.jit
def _log_likelihood(clone: BCAgent, observations: Array, actions: Array) -> Array:
    return clone.policy.log_likelihood(clone.scaling(observations), clone.actions.scale(actions))
