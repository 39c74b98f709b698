"""Learning curves of POR and our IQL on all 15 data sets: the same code, data, evaluations and number of updates.

IQL gets the updates of POR's preset instead of its own. On replicas V, guide, executor and all networks of IQL have two
layers of 256; on D4RL's files POR's executor has the paper's 1024 and IQL keeps 256. In a folder of results the
trainings are those of Table 1: equal minutes on a core instead of equal updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from waypost.figures.scores import LOOKS, curves
from waypost.studies.paper import scores as trainings
from waypost.studies.paper.benchmark import TABLE_1, grouped, row_of
from waypost.studies.paper.experiment import Context, Drawing, Outcome, Row, Table
from waypost.studies.paper.scores import Score, number
from waypost.studies.paper.words import listed, many, paragraphs
from waypost.training.plan import plan

POR, IQL = KINDS = "POR", "IQL"
POINTS = 5
"""The fewest evaluations of a curve."""


def run(context: Context) -> Outcome:
    kinds = [(data, kind) for data in context.data for kind in KINDS]
    scores = trainings.score_each(context, kinds, partial(_train, context))
    pairs = dict(zip(context.data, zip(scores[::2], scores[1::2], strict=True), strict=True))
    ends = Table(
        [_row(data, *pair) for data, pair in pairs.items()],
        "Scores at the end, and the share of the updates after which the mean curve first reached 90 % of its highest "
        "point.",
        shown=True,
    )
    common = trainings.training_tables(scores)
    looks = dict(zip(KINDS, LOOKS, strict=False))
    figures = {
        f"curves-{group.lower()}": Drawing(
            curves(
                {data: [score.curve(minutes=context.minutes) for score in pairs[data]] for data in names},
                looks,
                along="minutes of a core" if context.minutes else "training step",
            ),
            f"{group} data: scores during training, mean and range of the seeds.",
            f"Learning curves of POR and IQL on {many(len(names), 'data set')}: {group}.",
        )
        for group, names in grouped(context.data).items()
    }
    tables = {"scores": ends, "curves": common["curves"], "trainings": common["scores"]}
    return Outcome(_text(context, scores), figures, tables)


def _train(context: Context, data: str, kind: str) -> Score:
    if context.results is not None:
        return trainings.train_and_score(context, kind.lower(), data, kind)
    planned = plan("por", data, env=row_of(data))
    steps = context.size.steps or planned.steps
    # Evaluations as the task says; more often if there are too few updates for a curve.
    protocol = replace(planned.evaluation, every=min(planned.evaluation.every, max(1, steps // POINTS)))
    return trainings.train_and_score(context, kind.lower(), data, kind, steps=planned.steps, evaluation=protocol)


def _row(data: str, *both: Score) -> Row:
    row: dict[str, Any] = {"data": data, "suite": "replica"}
    for score in both:
        row |= {score.kind: score.mean, f"{score.kind} std": score.std}
    row |= {f"{score.kind} 90 % after": _rise(score) for score in both}
    row |= {f"paper {kind}": TABLE_1[row_of(data)][kind].mean for kind in KINDS}
    return row | {"note": "; ".join(f"{score.kind}: {score.note}" for score in both if score.note)}


def _rise(score: Score) -> float | None:
    """The share of the training after which the curve first comes near its maximum; None if it never rises."""
    if not score.values:
        return None
    steps, values = score.evaluations
    curve = values.mean(axis=0)
    return float(steps[np.argmax(curve >= 0.9 * curve.max())] / steps[-1]) if curve.max() > 0 else None


def _text(context: Context, scores: Sequence[Score]) -> str:
    data = context.data
    length = trainings.seeds_and_updates(scores, context.minutes)
    duel = trainings.Duel(scores, KINDS, POR, TABLE_1)
    known = len(duel.pairs)
    return paragraphs(
        f"""POR and IQL from the same code base on {len(data)} of the paper's {len(TABLE_1)} data sets,
        {length} for both. {trainings.data_sources(data)} The paper shows its curves only as
        figures; the numbers beside ours are those of Table 1, where IQL's are from its own authors.""",
        f"""At the end POR is ahead of IQL on **{len(duel.here)} of {known}** ({listed(duel.here)}); in the paper's
        Table 1 on {len(duel.there)} of {len(data)} ({listed(duel.there)}). The order is the same on {len(duel.agree)}
        of {known}. {trainings.chance(duel.pairs.values())}""",
        *(_group(group, [duel.pairs[name] for name in names]) for group, names in grouped(list(duel.pairs)).items()),
        duel.doubts(),
        trainings.failures(scores),
    )


def _group(group: str, pairs: Sequence[tuple[Score, Score]]) -> str:
    """Both means over the data sets of a group, here and in the paper."""
    ours = [float(np.mean([score.mean for score in scores])) for scores in zip(*pairs, strict=True)]
    theirs = [float(np.mean([TABLE_1[row_of(por.data)][kind].mean for por, _ in pairs])) for kind in KINDS]
    same = (ours[0] > ours[1]) == (theirs[0] > theirs[1])
    return f"""{group}, mean of {len(pairs)}: POR {number(ours[0])}, IQL {number(ours[1])}; in the paper
    {number(theirs[0])} and {number(theirs[1])}. The order is {"" if same else "not "}the same."""
