"""Additional suboptimal data: what a guide of its own is good for.

D_e is a small good data set, D_o a supplement. As in the paper both are parts of a medium-replay set, which holds the
episodes of a policy in training in their order: D_e the transitions from 30 to 70 %, D_e and D_o together those from 20
to 80 %. Schemes:

    main                every part learns from D_e
    more                every part learns from D_e and D_o
    mix                 POR only: the executor of `main` stays as it is, V and guide learn anew from D_e and D_o
    mix, action-free    the same with the actions of D_o taken away, which V and guide never look at

TD3+BC and CQL know only the first two. Each seed's guide of a mix is joined to the executor of the same seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from waypost.data.dataset import Dataset, concatenate
from waypost.errors import WaypostError
from waypost.files import read_json
from waypost.studies.paper.benchmark import NAMES, row_of
from waypost.studies.paper.experiment import Context, Drawing, Outcome, Row, Table
from waypost.studies.paper.scores import (
    LOOKS,
    Mark,
    Score,
    attempt,
    checked,
    curve_rows,
    curves,
    dots,
    failures,
    how_long,
    kept,
    number,
    preset,
    read,
    some,
    sources,
    unsure,
)
from waypost.studies.paper.words import listed, paragraphs
from waypost.training.callbacks import in_turn
from waypost.training.runs import Run

MAIN, MORE, MIX, FREE = "main", "more", "mix", "mix, action-free"
INNER, OUTER = (0.3, 0.7), (0.2, 0.8)
"""Which transitions make up D_e, and D_e with D_o."""
SCHEMES = {"por": (MAIN, MORE, MIX, FREE), "td3bc": (MAIN, MORE), "cql": (MAIN, MORE)}
PAPER_HOPPER = 99.0
"""What the paper says of POR's mix on hopper; all else is in a picture only."""


class Parts(NamedTuple):
    """What each part of an agent learns from; TD3+BC and CQL have only one."""

    guide: Dataset
    executor: Dataset


def parts(dataset: Dataset) -> dict[str, Parts]:
    """The data of V and guide and of the executor under each scheme."""
    main = dataset.slice(*INNER)
    before, after = dataset.slice(OUTER[0], INNER[0]), dataset.slice(INNER[1], OUTER[1])
    name = f"{dataset.name} 20-80 %"
    everything = concatenate([before, main, after], name)
    free = concatenate([before.without_actions(), main, after.without_actions()], f"{name} action-free")
    main = main.named(f"{dataset.name} 30-70 %")
    return {
        MAIN: Parts(main, main),
        MORE: Parts(everything, everything),
        MIX: Parts(everything, main),
        FREE: Parts(free, main),
    }


def run(context: Context) -> Outcome:
    scores: list[Score] = []
    rows: list[Row] = []
    for data in in_turn(context.data, "data set", context.progress):
        given = parts(read(context, data))
        for algorithm in context.algorithms:
            for scheme in SCHEMES[algorithm]:
                kind = f"{NAMES[algorithm]} {scheme}"
                score = attempt(context, data, kind, partial(_train, context, data, given, algorithm, scheme))
                scores.append(score)
                rows.append(
                    {
                        **score.row(),
                        "algorithm": NAMES[algorithm],
                        "scheme": scheme,
                        "guide_rows": len(given[scheme].guide),
                        "executor_rows": len(given[scheme].executor),
                        "guide_has_actions": str(given[scheme].guide.actions is not None).lower(),
                    }
                )
    some(scores)
    brief = ("data", "algorithm", "scheme", "suite", "mean", "std", "guide_rows", "executor_rows", "steps", "note")
    tables = {
        "extra-data": Table(
            [{key: row[key] for key in brief} for row in rows],
            "Scores of each scheme, and how many rows guide and executor (or the whole agent) learned from.",
            shown=True,
        ),
        "scores": Table(rows, "Every training."),
        "curves": Table(curve_rows(scores), "Every evaluation."),
    }
    return Outcome(_text(context, scores), _figures(context, scores), tables)


# -- the schemes -----------------------------------------------------------------------------------


def _train(context: Context, data: str, given: dict[str, Parts], algorithm: str, scheme: str) -> list[Run]:
    """A run for each seed."""
    return [_one(context, data, given, algorithm, scheme, seed) for seed in range(context.size.seeds)]


def _one(context: Context, data: str, given: dict[str, Parts], algorithm: str, scheme: str, seed: int) -> Run:
    donor = None if scheme in (MAIN, MORE) else _one(context, data, given, algorithm, MAIN, seed)
    run = context.train(
        algorithm,
        given[scheme].guide,
        label=f"{data}/{algorithm}-{scheme.replace(', ', '-')}/seed-{seed}",
        env=row_of(data),
        preset=preset(data),
        seeds=[seed],
        **({} if donor is None else {"training": "guide", "init": donor.directory}),
    )
    _saw(run, given[scheme].guide)
    if donor is not None:
        _saw(donor, given[scheme].executor)
        kept(run, donor, "executor")
    return run


def _saw(run: Run, dataset: Dataset) -> None:
    """A run directory knows which rows it was trained on; make sure that they are these."""
    assert run.directory is not None
    if read_json(run.directory / "config.json")["fingerprint"] != dataset.fingerprint():
        raise WaypostError(f"{run.directory}: was trained on other rows than {dataset.name}; choose another --out")


# -- words and figures -----------------------------------------------------------------------------


def _text(context: Context, scores: Sequence[Score]) -> str:
    share = [f"{100 * low:.0f} to {100 * high:.0f} %" for low, high in (INNER, OUTER)]
    mix = f"""**mix** keeps POR's executor of main and trains V and guide on those from {share[1]}, and once more with
    the actions of the additional ones taken away."""
    return paragraphs(
        f"""{listed(NAMES[name] for name in context.algorithms)} on {listed(context.data)}, {how_long(scores)}.
        **main** learns from the transitions from {share[0]}, **more** from those from {share[1]}.
        {mix if "por" in context.algorithms else ""} {sources(context.data)}""",
        *(_verdict(data, [score for score in scores if score.data == data]) for data in context.data),
        failures(scores),
    )


def _verdict(data: str, scores: Sequence[Score]) -> str:
    """The mix against everything else, and with and without actions."""
    found = {score.kind: score for score in scores}
    words = "; ".join(f"{kind} {number(score.mean, score.std)}" for kind, score in found.items())
    mix = found.get(f"POR {MIX}")
    if mix is None:
        return f"**{data}**: {words}."
    if not mix.values:
        return f"**{data}**: {words}. Nothing can be said about the mix."
    others = [score for kind, score in found.items() if kind not in (f"POR {MIX}", f"POR {FREE}") and score.values]
    best = max(others, key=lambda score: score.mean or 0.0, default=None)
    said = f" The paper says {PAPER_HOPPER:.0f} for the mix." if row_of(data).startswith("hopper") else ""
    if best is None:
        return f"**{data}**: {words}.{said}"
    ahead = (mix.mean or 0.0) > (best.mean or 0.0)
    free = found[f"POR {FREE}"]
    same = (
        "Without the actions of the additional data the mix is the same, seed by seed: V and guide never see one."
        if free.values == mix.values
        else f"Without the actions of the additional data the mix has {number(free.mean)}."
    )
    paper = "as in the paper" if ahead else "unlike in the paper, where it outperforms all others"
    return f"""**{data}**: {words}. The mix is {"ahead of" if ahead else "not ahead of"} the best other scheme,
    {best.kind}, {paper}.{said} {same} {unsure([(mix, best)]) if ahead else checked(mix, best)}"""


def _figures(context: Context, scores: Sequence[Score]) -> dict[str, Drawing]:
    looks = dict(zip((MAIN, MORE, MIX, FREE), LOOKS, strict=False))
    schemes = {score.kind: score.kind.split(" ", 1) for score in scores}
    panels = {
        data: [
            Mark(schemes[score.kind][0], schemes[score.kind][1], score.mean, score.std, score.values)
            for score in scores
            if score.data == data
        ]
        for data in context.data
    }
    drawn = {each.kind for marks in panels.values() for each in marks}
    used = {kind: look for kind, look in looks.items() if kind in drawn}
    figures = {
        "extra-data": Drawing(
            dots(panels, used),
            "Scores by algorithm and scheme: mean, standard deviation over seeds (bar) and seeds (small dots).",
            f"Dots for each algorithm and training scheme on {listed(context.data)}.",
        )
    }
    if "por" in context.algorithms:
        por = {
            data: [
                Score(data, schemes[score.kind][1], score.values, score.runs, score.note)
                for score in scores
                if score.data == data and schemes[score.kind][0] == NAMES["por"]
            ]
            for data in context.data
        }
        figures["curves"] = Drawing(
            curves(por, looks, columns=2),
            "Scores of POR during training under each scheme: mean and range of the seeds.",
            f"Learning curves of POR's schemes on {listed(context.data)}.",
        )
    return figures
