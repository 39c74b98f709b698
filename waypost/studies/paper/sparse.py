"""Table 2: POR against POR-sparse, which learns V with the sparse objective (4), on the six AntMaze data sets.

On D4RL's files POR-sparse has the paper's settings. On replicas it has those of POR's own preset, except for the
objective and its tau, which is the paper's: only V's loss differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from waypost.figures.scores import LOOKS, Mark, dots
from waypost.statistics import spread_name
from waypost.studies.paper import scores as trainings
from waypost.studies.paper.benchmark import TABLE_2, origin, row_of
from waypost.studies.paper.experiment import Context, Drawing, Outcome, Row, Table
from waypost.studies.paper.scores import Score, number, with_spread
from waypost.studies.paper.words import listed, many, paragraphs
from waypost.training.presets import presets

POR, SPARSE = KINDS = "POR", "POR-sparse"


def sparse_settings(data: str) -> dict[str, Any]:
    """The settings that make POR on these data POR-sparse."""
    preset = f"paper-sparse/{row_of(data)}"
    if origin(data) == "d4rl":
        return {"preset": preset}
    return {"value_objective": "sparse", "tau": presets("por")[preset]["tau"]}


def run(context: Context) -> Outcome:
    def train(data: str, kind: str) -> Score:
        own = sparse_settings(data) if kind == SPARSE else {}
        return trainings.train_and_score(context, "por", data, kind, **own)

    scores = trainings.score_each(context, [(data, kind) for data in context.data for kind in KINDS], train)
    rows: list[Row] = []
    brief: list[Row] = []
    theirs = []
    for score in scores:
        mean, std, _ = TABLE_2[row_of(score.data)][score.kind]
        tau = score.runs[0].plan.config.tau if score.runs else None
        rows.append({**score.row(), "tau": tau, "paper_mean": mean, "paper_std": std})
        here = with_spread(score.values) if score.values else "-" if score.missing else "failed"
        words = {"here (replica)": here, "paper (d4rl)": number(mean, std), "note": score.note}
        brief.append({"data": score.data, "algorithm": score.kind, "tau": tau, **words})
        theirs.append(Mark(score.data, score.kind, mean, std))
    ours = [score.mark() for score in scores if not score.missing]
    panels = {"here (replica)": ours, "the paper (d4rl)": theirs}
    drawing = Drawing(
        dots(panels, dict(zip(KINDS, LOOKS, strict=False))),
        "Mean with the standard deviation over seeds; small dots are the seeds. What is not trained yet has no mark.",
        f"Two panels of dots: POR and POR-sparse on {many(len(context.data), 'maze')}, here and in the paper.",
    )
    between = spread_name(max(len(score.values) for score in scores))
    caption = (
        f"Scores: mean and {between}; * is one seed, - is not trained yet. The paper's: mean and standard deviation."
    )
    table = Table(brief, caption, shown=True)
    tables = {"sparse": table, **trainings.training_tables(scores, rows)}
    return Outcome(_text(context, scores), {"sparse": drawing}, tables)


def _text(context: Context, scores: Sequence[Score]) -> str:
    data = context.data
    duel = trainings.Duel(scores, KINDS, SPARSE, TABLE_2)
    by = {(score.data, score.kind): score for score in scores}
    tables = {name: TABLE_2[row_of(name)] for name in data}
    pairs = "; ".join(
        f"{name}: {number(by[name, POR].mean)} and {number(by[name, SPARSE].mean)} "
        f"(paper {tables[name][POR].mean} and {tables[name][SPARSE].mean})"
        for name in data
    )
    agree, known = len(duel.agree), len(duel.pairs)
    return paragraphs(
        f"""POR and POR-sparse on {len(data)} of {len(TABLE_2)} AntMaze data sets,
        {trainings.seeds_and_updates(scores, context.minutes)}. {trainings.data_sources(data)}
        POR-sparse has POR's settings except for V's objective and its tau, which is the paper's.""",
        f"""POR-sparse is ahead on **{len(duel.here)} of {known}** ({listed(duel.here)}); in the paper on
        {len(duel.there)} of {len(data)} ({listed(duel.there)}). The order is the same as in the paper on {agree} of
        {known}{"" if agree == known else ", and different on the others"}. {trainings.chance(duel.pairs.values())}""",
        f"POR and POR-sparse, {pairs}.",
        duel.doubts(),
        trainings.failures(scores),
    )
