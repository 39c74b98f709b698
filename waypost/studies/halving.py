"""Asynchronous successive halving: unpromising trials stop early, and no trial waits for the others.

A trial pauses at rungs, each with `factor` times the updates of the one before. It continues if it is among the best
1/factor of the trials that have reached the rung so far (Li et al., A system for massively parallel hyperparameter
tuning, 2020, in its stopping form).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from waypost.errors import WaypostError


class Halving:
    """The rungs, and the values measured there."""

    def __init__(self, total: int, factor: int = 3, first: int | None = None, lower: bool = False):
        """`total` updates of a whole trial; `first` rung, by default a ninth of it; `lower` values are better."""
        if factor < 2:
            raise WaypostError(f"the factor of successive halving must be 2 or more, got {factor}")
        first = max(1, total // factor**2) if first is None else first
        if not 1 <= first < total:
            raise WaypostError(f"the first rung must be below {total}, the updates of a whole trial, got {first}")
        self.factor, self.lower = factor, lower
        self.rungs: list[int] = []
        while first < total:
            self.rungs.append(first)
            first *= factor
        self.values: dict[int, list[float]] = {rung: [] for rung in self.rungs}

    def next(self, step: int) -> int | None:
        """The first rung above a step; None: train to the end."""
        return next((rung for rung in self.rungs if rung > step), None)

    def remember(self, values: Mapping[int, float | None]) -> None:
        """Add the values that an earlier call measured at rungs."""
        for rung in values.keys() & self.values.keys():
            self.goes_on(rung, values[rung])

    def goes_on(self, rung: int, value: float | None) -> bool:
        """Whether a trial continues after a rung, by the value measured there; without a value it does."""
        if value is None:
            return True
        # NaN is worse than any number.
        value = math.inf if math.isnan(value) else value if self.lower else -value
        reached = self.values[rung]
        reached.append(value)
        kept = max(1, len(reached) // self.factor)
        return value <= sorted(reached)[kept - 1]
