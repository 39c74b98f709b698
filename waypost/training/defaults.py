"""What a plan leaves to the data: how many updates, how large networks are, and what an algorithm looks for in them.

A setting is left to the data where it is 0: `steps`, the units of a hidden layer, Waypoint's `horizon`.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from waypost.agents import algorithm
from waypost.data.dataset import Dataset
from waypost.training.plan import Plan

FEWEST, MOST = 3_000, 100_000
"""Updates."""
PER_ROOT = 35
"""Updates for each unit of the square root of the rows."""
WIDTHS = ((10_000, 64), (100_000, 128))
"""Below so many rows, layers have so many units."""
WIDEST = 256


def updates_for(rows: int) -> int:
    """By the square root: 20 000 rows get 5 000 updates, 1 000 000 rows 35 000. In whole thousands."""
    return 1_000 * round(min(max(PER_ROOT * rows**0.5, FEWEST), MOST) / 1_000)


def units_for(rows: int) -> int:
    """Of a hidden layer: few rows say little, and a large network would learn them by heart."""
    return next((units for below, units in WIDTHS if rows < below), WIDEST)


def fitted(planned: Plan[Any], dataset: Dataset, rows: int, donor: Any = None) -> Plan[Any]:
    """The plan, with what it leaves to the data as these suggest: so many rows, of which `dataset` may be a sample.

    Where parts come from another run, layers are as in the settings of that `donor`.
    """
    config, units = planned.config, units_for(rows)
    layers = {each.name: getattr(config, each.name) for each in fields(config) if each.name.endswith("hidden")}
    changed = {name: tuple(size or units for size in sizes) for name, sizes in layers.items() if 0 in sizes}
    if donor is not None:
        changed = {name: getattr(donor, name) for name in changed}
    config = algorithm(planned.algorithm).fit(replace(config, **changed), dataset)
    return replace(planned, config=config, steps=planned.steps or updates_for(rows))
