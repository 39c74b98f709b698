"""The health of a data set: what is in it, what is wrong or suspicious, and what to do about it.

`inspect` checks everything, also data that hold NaN. `doubts` is what training says before it begins, from the checks
that cost almost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from waypost.data.dataset import Dataset
from waypost.data.inspection.checks import QUICK, READER, THOROUGH, not_finite, repeated
from waypost.data.inspection.dynamics import delayed_rewards, effects
from waypost.data.inspection.findings import LEVELS, Inspection, Spread, Support
from waypost.data.inspection.logs import categories, cheap_failure, drift, late_rewards, near_duplicates, sentinels
from waypost.data.inspection.measurements import Measurements, infinities_as_nan, repeated_rows
from waypost.data.pipeline import Pipeline
from waypost.data.roles import Columns
from waypost.data.sources import Source, read
from waypost.data.table import Reward

SOON = (*QUICK, sentinels, cheap_failure)
"""What training checks before it begins."""
ALL = (*SOON, *THOROUGH, categories, late_rewards, delayed_rewards, effects, near_duplicates, drift)


def inspect(
    source: Source,
    supports: Sequence[Support] = (),
    columns: Columns | None = None,
    *,
    pipeline: Pipeline | None = None,
    reward: Reward | None = None,
) -> Inspection:
    """Inspect data: facts, statistics of every column, and findings with what to do about them.

    `source`, `columns`, `pipeline` and `reward` are those of `load`, but NaN and infinities are findings here, not
    errors. `supports` says which algorithms can learn from the data; it is passed on.

        found = waypost.inspect("log.csv")
        print(found.verdict)
        for finding in found.findings:  # errors first, then warnings, then notes
            print(finding.level, finding.what, finding)

    `found.facts()` is the summary as pairs of words, `found.columns` the statistics, `found.to_json()` all of it.
    """
    dataset = read(source, columns, pipeline=pipeline, reward=reward)
    broken = list(not_finite(Measurements(dataset)))
    data = Measurements(infinities_as_nan(dataset) if broken else dataset)
    repeats = repeated_rows(dataset)
    checked = (finding for check in ALL for finding in check(data))
    found = [*broken, *checked, *repeated(repeats, len(dataset))]
    rewards, lengths = data.rewards, Spread.of(dataset.episode_lengths)
    assert lengths is not None
    same = ("name", "task", "observation_size", "action_size", "action_count", "action_choices")
    return Inspection(
        **{fact: getattr(dataset, fact) for fact in same},
        rows=len(dataset),
        episodes=len(dataset.episode_starts),
        taken=tuple(map(int, data.taken)),
        lengths=lengths,
        returns=None if rewards is None else Spread.of(data.dataset.episode_returns),
        nonzero_rewards=None if rewards is None else float(np.count_nonzero(rewards) / max(len(rewards), 1)),
        distinct_rewards=None if rewards is None else len(np.unique(rewards)),
        terminals=int(dataset.terminals.sum()),
        timeouts=int(dataset.timeouts.sum()),
        unknown_next=int((~dataset.next_valid).sum()),
        columns=data.columns,
        saturation=tuple(map(float, data.saturation)),
        repeated=len(repeats) / len(dataset),
        findings=tuple(sorted(found, key=lambda finding: LEVELS.index(finding.level))),
        supports=tuple(supports),
    )


def doubts(dataset: Dataset) -> list[str]:
    """What to print once before training on these data: the reader's notes, and warnings that are quick to find."""
    data = Measurements(dataset)
    found = (finding for check in SOON for finding in check(data))
    return [str(finding) for finding in found if finding.level == "warning" or finding.what in READER]
