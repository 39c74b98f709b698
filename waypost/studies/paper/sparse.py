"""Table 2: POR against POR-sparse, which learns V by the sparse objective (4), on the six AntMaze data sets.

On D4RL's files POR-sparse has the paper's settings. On replicas it has those of POR's own preset, and of the paper's
the objective and its tau: then nothing but V's loss is different.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from waypost.studies.paper.benchmark import TABLE_2, origin, row_of
from waypost.studies.paper.experiment import Context, Drawing, Outcome, Row, Table
from waypost.studies.paper.scores import (
    LOOKS,
    Mark,
    Score,
    checked,
    curve_rows,
    dots,
    failures,
    how_long,
    mark,
    number,
    some,
    sources,
    trained,
    unsure,
)
from waypost.studies.paper.words import listed, many, paragraphs
from waypost.training.callbacks import in_turn
from waypost.training.presets import presets

POR, SPARSE = "POR", "POR-sparse"


def sparse_settings(data: str) -> dict[str, Any]:
    """What makes POR on these data POR-sparse."""
    preset = f"paper-sparse/{row_of(data)}"
    if origin(data) == "d4rl":
        return {"preset": preset}
    return {"value_objective": "sparse", "tau": presets("por")[preset]["tau"]}


def run(context: Context) -> Outcome:
    kinds = [(data, kind) for data in context.data for kind in (POR, SPARSE)]
    scores = some(
        [
            trained(context, "por", data, kind, **(sparse_settings(data) if kind == SPARSE else {}))
            for data, kind in in_turn(kinds, "training", context.progress)
        ]
    )
    rows = [_row(score) for score in scores]
    tables = {
        "sparse": Table(
            [
                {
                    "data": row["data"],
                    "algorithm": row["kind"],
                    "tau": row["tau"],
                    "here (replica)": "failed" if row["mean"] is None else _number(row, ""),
                    "paper (d4rl)": _number(row, "paper_"),
                    "note": row["note"],
                }
                for row in rows
            ],
            "Scores: mean and standard deviation over seeds.",
            shown=True,
        ),
        "scores": Table(rows, "Every training."),
        "curves": Table(curve_rows(scores), "Every evaluation."),
    }
    theirs = [Mark(score.data, score.kind, *TABLE_2[row_of(score.data)][score.kind][:2]) for score in scores]
    drawing = Drawing(
        dots(
            {"here (replica)": [mark(score) for score in scores], "the paper (d4rl)": theirs},
            dict(zip((POR, SPARSE), LOOKS, strict=False)),
        ),
        "Mean with the standard deviation over seeds; small dots are the seeds.",
        f"Two panels of dots: POR and POR-sparse on {many(len(context.data), 'maze')}, here and in the paper.",
    )
    return Outcome(_text(context.data, scores), {"sparse": drawing}, tables)


def _row(score: Score) -> Row:
    printed = TABLE_2[row_of(score.data)][score.kind]
    tau = score.runs[0].plan.config.tau if score.runs else None
    return {**score.row(), "tau": tau, "paper_mean": printed.mean, "paper_std": printed.std}


def _number(row: Row, prefix: str) -> str:
    mean, std = row[f"{prefix}mean"], row[f"{prefix}std"]
    return number(float(str(mean)), None if std is None else float(str(std)))


def _text(data: Sequence[str], scores: Sequence[Score]) -> str:
    by = {(score.data, score.kind): score for score in scores}
    whole = [name for name in data if by[name, POR].values and by[name, SPARSE].values]
    here = [name for name in whole if (by[name, SPARSE].mean or 0.0) > (by[name, POR].mean or 0.0)]
    tables = {name: TABLE_2[row_of(name)] for name in data}
    there = [name for name in data if tables[name][SPARSE].mean > tables[name][POR].mean]
    agree = [name for name in whole if (name in here) == (name in there)]
    pairs = "; ".join(
        f"{name}: {number(by[name, POR].mean)} and {number(by[name, SPARSE].mean)} "
        f"(paper {tables[name][POR].mean} and {tables[name][SPARSE].mean})"
        for name in data
    )
    return paragraphs(
        f"""POR and POR-sparse on {len(data)} of {len(TABLE_2)} AntMaze data sets, {how_long(scores)}. {sources(data)}
        POR-sparse has POR's settings but for V's objective and its tau, which is the paper's.""",
        f"""POR-sparse is ahead on **{len(here)} of {len(whole)}** ({listed(here)}); by the paper's numbers on
        {len(there)} of {len(data)} ({listed(there)}). Who is ahead is the same as in the paper on {len(agree)} of
        {len(whole)}{"" if len(agree) == len(whole) else ": the paper's order is not found on the others"}.
        {unsure((by[name, POR], by[name, SPARSE]) for name in whole)}""",
        f"POR and POR-sparse, {pairs}.",
        " ".join(checked(by[name, POR], by[name, SPARSE]) for name in whole if name not in agree),
        failures(scores),
    )
