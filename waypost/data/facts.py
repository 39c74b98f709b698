"""A short summary of a data set; `waypost.inspect` says more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from waypost.data.validation import described
from waypost.summaries import Summary

if TYPE_CHECKING:
    from waypost.data.dataset import Dataset


def in_short(dataset: Dataset) -> Summary:
    """A data set in one line, and in a table."""
    found = _facts(dataset)
    line = f"Dataset {dataset.name}: " + ", ".join(f"{value} {what}" for what, value in found[:4])
    return Summary(line, ("what", "in these data"), [*found, *(("note", note) for note in dataset.notes)])


def _facts(dataset: Dataset) -> list[tuple[str, str]]:
    """What there is, and how much of it."""
    found = [
        ("rows", f"{len(dataset)}"),
        ("episodes", f"{int(np.count_nonzero(dataset.ends))}"),
        ("observations", f"{dataset.observation_size}"),
        ("actions", _actions(dataset)),
    ]
    if dataset.rewards is None:
        found.append(("rewards", "none"))
    else:
        found.append(("return of an episode", f"{dataset.episode_returns.mean():.4g} on average"))
    found += [("observation columns", ", ".join(dataset.observation_names))] if dataset.observation_names else []
    found += [("action columns", ", ".join(dataset.action_names))] if dataset.action_names else []
    found += [("task", dataset.task)] if dataset.task else []
    return found


def _actions(dataset: Dataset) -> str:
    if dataset.actions is None:
        return "no"
    if dataset.action_choices:
        return described(dataset.action_choices)
    return f"{dataset.action_size} continuous" if dataset.action_count is None else f"{dataset.action_count} discrete"
