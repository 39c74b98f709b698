"""The health of a data set: what is in it, what is wrong or doubtful about it, and the way out of each.

`inspect` looks at everything, also in data that still hold NaN; `doubts` is what training says before it begins, from
the checks that cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from waypost.data.dataset import Dataset
from waypost.data.inspection.checks import (
    CHEAP,
    THOROUGH,
    Look,
    columns_of,
    duplicates,
    not_finite,
    repeated,
    repeats_of,
    with_gaps,
)
from waypost.data.inspection.findings import LEVELS, Inspection, Spread, Support


def inspect(dataset: Dataset, supports: Sequence[Support] = ()) -> Inspection:
    """Look at everything; what the data are good for is judged elsewhere, where algorithms are known."""
    broken = list(not_finite(dataset))
    look = Look(with_gaps(dataset) if broken else dataset)
    repeats = repeats_of(dataset)
    columns = tuple(columns_of(look.dataset))
    found = [
        *broken,
        *(finding for check in (*CHEAP, *THOROUGH) for finding in check(look)),
        *duplicates(columns),
        *repeated(repeats, len(dataset)),
    ]
    rewards = look.rewards
    lengths = Spread.of(dataset.episode_lengths)
    assert lengths is not None
    return Inspection(
        name=dataset.name,
        task=dataset.task,
        rows=len(dataset),
        episodes=len(dataset.episode_starts),
        observation_size=dataset.observation_size,
        action_size=dataset.action_size,
        action_count=dataset.action_count,
        taken=tuple(map(int, look.taken)),
        lengths=lengths,
        returns=None if rewards is None else Spread.of(look.dataset.episode_returns),
        nonzero_rewards=None if rewards is None else float(np.count_nonzero(rewards) / max(len(rewards), 1)),
        distinct_rewards=None if rewards is None else len(np.unique(rewards)),
        terminals=int(dataset.terminals.sum()),
        timeouts=int(dataset.timeouts.sum()),
        unknown_next=int((~dataset.next_valid).sum()),
        columns=columns,
        saturation=tuple(map(float, look.saturation)),
        repeated=len(repeats) / len(dataset),
        findings=tuple(sorted(found, key=lambda finding: LEVELS.index(finding.level))),
        supports=tuple(supports),
    )


def doubts(dataset: Dataset) -> list[str]:
    """What to say once before training on these data: the reader's notes, and warnings that are quick to find."""
    look = Look(dataset)
    found = (finding for check in CHEAP for finding in check(look))
    return [str(finding) for finding in found if finding.level == "warning" or finding.what == "reader"]
