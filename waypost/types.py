"""Types that all packages share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]

Count = Callable[[int, int], None]
"""Called with the number done and the total."""

Convention = Literal["recorded", "goal", "centred-goal", "return-range", "standard"]
"""How rewards are rewritten for learning.

recorded      as they are in the data
goal          for 0/1 goal tasks: r - 1, so every step costs 1 and arriving is free; an end away from the goal
              costs as much as never arriving, 1 / (1 - gamma), because otherwise failing early would look cheap
centred-goal  for 0/1 goal tasks, as CQL's authors did: 4 (r - 0.5)
return-range  for dense rewards: r * 1000 / (best - worst episode return)
standard      for rewards in any unit: scaled so that sums over 1 / (1 - gamma) rows have a standard deviation of 10
"""


class Labels(NamedTuple):
    """The reward of each transition, and whether the task ended there."""

    rewards: Floats
    terminals: Flags
