"""The number of updates of a training, over all its stages."""

from __future__ import annotations

from dataclasses import fields, replace

from waypost.agents import algorithm
from waypost.agents.agent import Spec, Stage
from waypost.errors import WaypostError
from waypost.training.plan import Plan

USUAL = 20_000
"""Assumed updates of a training whose number depends on the rows, to divide them among its stages."""


def stages_of(planned: Plan) -> tuple[Stage, ...]:
    """The stages of a training."""
    return algorithm(planned.algorithm)(planned.config, Spec(1, 1, (-1.0,), (1.0,)), planned.steps).stages


def total_updates(planned: Plan) -> int:
    """The updates of an agent over all stages of its training."""
    return sum(stage.steps for stage in stages_of(planned))


def with_total_updates(planned: Plan, updates: int) -> Plan:
    """The plan with this many updates in all: every field that counts updates keeps its share."""
    if updates < 1:
        raise WaypostError(f"steps must be at least 1, got {updates}")
    # If the rows decide the number, the shares are those of a typical one.
    planned = replace(planned, steps=planned.steps or USUAL)
    config, total = planned.config, total_updates(planned)

    def share(count: int) -> int:
        return max(1, round(count * updates / total))

    counts = [each.name for each in fields(config) if each.name.endswith("_steps") and getattr(config, each.name)]
    changed = {name: share(getattr(config, name)) for name in counts}
    return replace(planned, steps=share(planned.steps), config=replace(config, **changed))
