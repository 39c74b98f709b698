"""Runs without a simulator, side by side: what a comparison ranks them by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from waypost.data.sources import load
from waypost.errors import WaypostError
from waypost.studies.judge.judgement import CANNOT_TELL
from waypost.studies.judge.judging import judge
from waypost.training.plan import Plan
from waypost.training.runs import Run
from waypost.training.validation import FEWEST_EPISODES

VALUE = "value"
"""The measure: the discounted value of the start states."""
SHARE = 0.1
"""Episodes that are held out where the plan says nothing; more if these would be too few."""


def held_out(planned: Plan[Any], fewest: int = FEWEST_EPISODES) -> Plan[Any]:
    """The plan with a share of the episodes held out, to judge by afterwards; at least `fewest`."""
    if planned.hold_out:
        return planned
    episodes = len(load(planned.data, planned.columns, pipeline=planned.pipeline).episode_starts)
    if episodes < 2 * fewest:
        needed = f"at least {2 * fewest} are needed, {fewest} of them to judge by"
        raise WaypostError(f"{planned.data}: {episodes} episodes; {needed}")
    return replace(planned, hold_out=max(SHARE, fewest / episodes))


def judge_runs(runs: Sequence[Run], **options: Any) -> tuple[dict[str | None, list[float]], dict[str, str]]:
    """The value of each seed by algorithm, under None that of the data; and for some algorithms why nobody can tell.

    Where nobody can tell about one seed of an algorithm, nothing is said about the others.
    """
    found = judge(list(runs), **options)
    values: dict[str | None, list[float]] = {}
    notes: dict[str, str] = {}
    for each in sorted(found.candidates, key=lambda each: each.seed or 0):
        if each.value is not None:
            values.setdefault(each.algorithm, []).append(each.value.value)
        elif each.algorithm is not None:
            notes[each.algorithm] = f"{CANNOT_TELL}: {each.note}"
    return {name: numbers for name, numbers in values.items() if name not in notes}, notes
