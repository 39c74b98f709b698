"""Learning curves of POR against our IQL on all 15 data sets: the same code, data, evaluations and number of updates.

IQL gets as many updates as POR's preset says, whatever its own says. On replicas V, guide, executor and all networks of
IQL have two layers of 256; on D4RL's files POR's executor has the paper's 1024 and IQL keeps 256.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from waypost.studies.paper.benchmark import GROUPS, TABLE_1, row_of
from waypost.studies.paper.experiment import Context, Drawing, Outcome, Row, Table
from waypost.studies.paper.scores import (
    LOOKS,
    Score,
    checked,
    curve_rows,
    curves,
    evaluations,
    failures,
    how_long,
    number,
    some,
    sources,
    trained,
    unsure,
)
from waypost.studies.paper.words import listed, many, paragraphs
from waypost.training.callbacks import in_turn
from waypost.training.plan import plan

POR, IQL = "POR", "IQL"
POINTS = 5
"""A curve has at least so many evaluations."""


def run(context: Context) -> Outcome:
    kinds = [(data, kind) for data in context.data for kind in (POR, IQL)]
    scores = some([_train(context, data, kind) for data, kind in in_turn(kinds, "training", context.progress)])
    by = {(score.data, score.kind): score for score in scores}
    tables = {
        "scores": Table(
            [_row(data, by[data, POR], by[data, IQL]) for data in context.data],
            "Scores at the end, and the share of the updates after which the mean curve first reached 90 % of its "
            "highest point.",
            shown=True,
        ),
        "curves": Table(curve_rows(scores), "Every evaluation."),
        "trainings": Table([score.row() for score in scores], "Every training."),
    }
    looks = dict(zip((POR, IQL), LOOKS, strict=False))
    figures = {}
    for group, names in GROUPS.items():
        panels = {data: [by[data, POR], by[data, IQL]] for data in context.data if row_of(data) in names}
        if panels:
            figures[f"curves-{group.lower()}"] = Drawing(
                curves(panels, looks),
                f"{group} data: scores during training, mean and range of the seeds.",
                f"Learning curves of POR and IQL on {many(len(panels), 'data set')}: {group}.",
            )
    return Outcome(_text(context.data, tables["scores"].rows, scores), figures, tables)


def _train(context: Context, data: str, kind: str) -> Score:
    planned = plan("por", data, env=row_of(data))
    steps = context.size.steps or planned.steps
    # Evaluations as the task says; more often where there are too few updates for a curve.
    protocol = replace(planned.evaluation, every=min(planned.evaluation.every, max(1, steps // POINTS)))
    return trained(context, kind.lower(), data, kind, steps=planned.steps, evaluation=protocol)


def _row(data: str, por: Score, iql: Score) -> Row:
    printed = TABLE_1[row_of(data)]
    return {
        "data": data,
        "suite": "replica",
        "POR": por.mean,
        "POR std": por.std,
        "IQL": iql.mean,
        "IQL std": iql.std,
        "POR 90 % after": _rise(por),
        "IQL 90 % after": _rise(iql),
        "paper POR": printed["POR"].mean,
        "paper IQL": printed["IQL"].mean,
        "note": "; ".join(f"{score.kind}: {score.note}" for score in (por, iql) if score.note),
    }


def _rise(score: Score) -> float | None:
    """The share of the training after which the curve is near its top for the first time; None if it never rises."""
    if not score.values:
        return None
    steps, values = evaluations(score)
    curve = values.mean(axis=0)
    return float(steps[np.argmax(curve >= 0.9 * curve.max())] / steps[-1]) if curve.max() > 0 else None


def _text(data: Sequence[str], rows: Sequence[Row], scores: Sequence[Score]) -> str:
    whole = [row for row in rows if row["POR"] is not None and row["IQL"] is not None]
    here = [str(row["data"]) for row in whole if _value(row, "POR") > _value(row, "IQL")]
    there = [str(row["data"]) for row in rows if _value(row, "paper POR") > _value(row, "paper IQL")]
    names = [str(row["data"]) for row in whole]
    agree = [name for name in names if (name in here) == (name in there)]
    by = {(score.data, score.kind): score for score in scores}
    return paragraphs(
        f"""POR and IQL of the same code base on {len(data)} of the paper's {len(TABLE_1)} data sets, {how_long(scores)}
        for both. {sources(data)} The paper shows its curves as pictures only; the numbers beside ours are those of
        Table 1, where IQL's are from its own authors.""",
        f"""At the end POR is ahead of IQL on **{len(here)} of {len(whole)}** ({listed(here)}); by the paper's Table 1
        on {len(there)} of {len(rows)} ({listed(there)}). Who is ahead is the same on {len(agree)} of {len(whole)}.
        {unsure((by[name, POR], by[name, IQL]) for name in names)}""",
        *(_group(group, whole) for group in GROUPS),
        " ".join(checked(by[name, POR], by[name, IQL]) for name in names if name not in agree),
        failures(scores),
    )


def _group(group: str, rows: Sequence[Row]) -> str:
    chosen = [row for row in rows if row_of(str(row["data"])) in GROUPS[group]]
    if not chosen:
        return ""
    means = {
        key: float(np.mean([_value(row, key) for row in chosen])) for key in ("POR", "IQL", "paper POR", "paper IQL")
    }
    same = (means["POR"] > means["IQL"]) == (means["paper POR"] > means["paper IQL"])
    return f"""{group}, mean of {len(chosen)}: POR {number(means["POR"])}, IQL {number(means["IQL"])}; in the paper
    {number(means["paper POR"])} and {number(means["paper IQL"])}. The order is {"" if same else "not "}the same."""


def _value(row: Row, key: str) -> float:
    return float(str(row[key]))
