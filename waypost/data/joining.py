"""Several data sets as one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np

from waypost.data.dataset import Dataset
from waypost.data.in_file import joined
from waypost.data.notes import together
from waypost.data.validation import ActionKind, goes_over, same_sizes
from waypost.errors import WaypostError


def concatenate(parts: Sequence[Dataset], name: str | None = None) -> Dataset:
    """One data set after another; actions, rewards and names stay where all parts have them.

    A part without actions makes the whole action-free, one without rewards makes it reward-free: to train the guide
    on both and the executor on one, keep them apart.
    """
    if not parts:
        raise WaypostError("nothing to concatenate; at least one data set is needed")
    first = parts[0]
    for part in parts[1:]:
        same_sizes(first, part)
    common = [column for column in first.columns if all(column in part.columns for part in parts)]
    known: dict[str, Any] = {column: joined([getattr(part, column) for part in parts]) for column in common}
    over = [goes_over(*pair) for pair in pairwise(parts)]
    known["ends"][np.cumsum([len(part) for part in parts[:-1]], dtype=np.int64) - 1] = ~np.array(over, bool)
    kind = ActionKind(None, False)
    if "actions" in common:
        kind = reduce(lambda one, other: one.joined(other, name or first.name), [part.action_kind for part in parts])
        # Continuous actions that were taken as discrete have the bounds of the numbers they hold.
        parts = [part.with_action_count(0) if kind.count is None and part.action_count else part for part in parts]
        known["action_low"] = np.minimum.reduce([part.require("action_low") for part in parts])
        known["action_high"] = np.maximum.reduce([part.require("action_high") for part in parts])
    else:
        parts = [part.without_actions() for part in parts]
    if len({part.history for part in parts}) > 1:
        raise WaypostError(f"{name or first.name}: some parts have several rows side by side, others other numbers")
    same = [
        each
        for each in ("task", "observation_names", "action_names", "reading")
        if all(getattr(part, each) == getattr(first, each) for part in parts)
    ]
    whole = Dataset(
        **known,
        action_count=kind.count,
        action_kind_declared=kind.declared,
        action_choices=kind.choices,
        name=name or "+".join(part.name for part in parts),
        notes=together(note for part in parts for note in part.notes),
        history=first.history,
        parts=tuple((part.name, len(part)) for part in parts),
        goes_on=parts[-1].goes_on,
        **{each: getattr(first, each) for each in same},
    )
    return (whole if kind.count is None else whole.with_action_count(kind.count, kind.declared))._frozen()
