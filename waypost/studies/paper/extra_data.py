"""Additional suboptimal data: the use of a separate guide.

D_e is a small good data set, D_o a supplement. As in the paper both are parts of a medium-replay set, which holds the
episodes of a policy in training in order: D_e the transitions from 30 to 70 %, D_e and D_o together those from 20
to 80 %. Schemes:

    main                every part learns from D_e
    more                every part learns from D_e and D_o
    mix                 POR only: the executor of `main` stays, V and guide learn again from D_e and D_o
    mix, action-free    the same without the actions of D_o, which V and guide never use

TD3+BC and CQL have only the first two. Each seed's guide of a mix is combined with the executor of the same seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from waypost.data.dataset import Dataset
from waypost.data.joining import concatenate
from waypost.errors import WaypostError
from waypost.figures.scores import LOOKS, Mark, curves, dots
from waypost.studies.paper import scores as trainings
from waypost.studies.paper.benchmark import NAMES, row_of
from waypost.studies.paper.experiment import Context, Drawing, Outcome, Row, Table
from waypost.studies.paper.scores import Score, number, with_spread
from waypost.studies.paper.words import listed, paragraphs
from waypost.training.callbacks import in_turn
from waypost.training.records import read_config
from waypost.training.runs import Run

MAIN, MORE, MIX, FREE = "main", "more", "mix", "mix, action-free"
INNER, OUTER = (0.3, 0.7), (0.2, 0.8)
"""The transitions of D_e, and of D_e with D_o."""
SCHEMES = {"por": (MAIN, MORE, MIX, FREE), "td3bc": (MAIN, MORE), "cql": (MAIN, MORE)}
PAPER_HOPPER = 99.0
"""The paper's number for POR's mix on hopper; it shows the others only in a figure."""


class Parts(NamedTuple):
    """The data of each part of an agent; TD3+BC and CQL have only one part."""

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
    learned = {MAIN: (main, main), MORE: (everything, everything), MIX: (everything, main), FREE: (free, main)}
    return {scheme: Parts(*both) for scheme, both in learned.items()}


Scores = Mapping[tuple[str, str, str], Score]
"""By data set, algorithm and scheme."""


def run(context: Context) -> Outcome:
    context = trainings.with_results(context)
    scores: dict[tuple[str, str, str], Score] = {}
    rows: list[Row] = []
    for data in in_turn(context.data, "data set", context.callback):
        given = parts(trainings.load_data(context, data))
        for algorithm, scheme in ((name, scheme) for name in context.algorithms for scheme in SCHEMES[name]):
            train = partial(_train, context, data, given, algorithm, scheme)
            score = trainings.attempt(context, data, f"{NAMES[algorithm]} {scheme}", train)
            scores[data, algorithm, scheme] = score
            guide, executor = given[scheme]
            counts = {"guide_rows": len(guide), "executor_rows": len(executor)}
            actions = str(guide.actions is not None).lower()
            about: Row = {"algorithm": NAMES[algorithm], "scheme": scheme, **counts, "guide_has_actions": actions}
            rows.append({**score.row(), **about})
    found = trainings.require_results(list(scores.values()))
    names = ("data", "algorithm", "scheme", "suite", "mean", "std", "guide_rows", "executor_rows", "steps", "note")
    brief = [{name: row[name] for name in names} for row in rows]
    caption = "Scores of each scheme, and the number of rows guide and executor (or the whole agent) learned from."
    tables = {"extra-data": Table(brief, caption, shown=True), **trainings.training_tables(found, rows)}
    return Outcome(_text(context, scores), _figures(context, scores), tables)


def _train(context: Context, data: str, given: dict[str, Parts], algorithm: str, scheme: str) -> list[Run]:
    """A run for each seed."""
    seeds = trainings.seeds_of(context, f"{data}/{_kind(algorithm, scheme)}")
    return [_one(context, data, given, algorithm, scheme, seed) for seed in seeds]


def _kind(algorithm: str, scheme: str) -> str:
    """The folder of a scheme's seeds."""
    return f"{algorithm}-{scheme.replace(', ', '-')}"


def _one(context: Context, data: str, given: dict[str, Parts], algorithm: str, scheme: str, seed: int) -> Run:
    def described(scheme: str) -> dict[str, Any]:
        label = f"{data}/{_kind(algorithm, scheme)}/seed-{seed}"
        common = {"env": row_of(data), "preset": trainings.preset_of_part(data), "seeds": [seed]}
        return {"algorithm": algorithm, "data": given[scheme].guide, "label": label, **common}

    if scheme in (MAIN, MORE):
        run = context.train(**described(scheme), weights=scheme == MAIN and algorithm == "por")
        _require_rows(run, given[scheme].guide)
        return run
    donor = context.donor(**described(MAIN))
    run = context.train(**described(scheme), training="guide", donor=donor)
    if run.policies:  # runs read from a folder of results were compared when they were trained
        _require_rows(run, given[scheme].guide)
        _require_rows(donor.run(), given[scheme].executor)
        trainings.require_same_parts(run, donor.run(), "executor")
    return run


def _require_rows(run: Run, dataset: Dataset) -> None:
    """Raise unless the run directory was trained on these rows."""
    if run.directory is not None and read_config(run.directory).get("fingerprint") != dataset.fingerprint():
        raise WaypostError(f"{run.directory}: was trained on other rows than {dataset.name}; choose another --out")


def _text(context: Context, scores: Scores) -> str:
    inner, outer = (f"{100 * low:.0f} to {100 * high:.0f} %" for low, high in (INNER, OUTER))
    mix = f"""**mix** keeps POR's executor of main and trains V and guide on those from {outer}, with and without the
    actions of the additional ones."""
    found = list(scores.values())
    return paragraphs(
        f"""{listed(NAMES[name] for name in context.algorithms)} on {listed(context.data)},
        {trainings.seeds_and_updates(found, context.minutes)}. **main** learns from the transitions from {inner},
        **more** from those from {outer}. {mix if "por" in context.algorithms else ""}
        {trainings.data_sources(context.data)}""",
        *(_verdict(data, scores) for data in context.data),
        trainings.failures(found),
    )


def _verdict(data: str, scores: Scores) -> str:
    """The mix against everything else, and with and without actions."""
    found = {(algorithm, scheme): score for (name, algorithm, scheme), score in scores.items() if name == data}
    each = "; ".join(
        f"{score.kind} {with_spread(score.values) if score.values else number(None)}" for score in found.values()
    )
    words = f"**{data}**: {each}."
    mix, free = found.get(("por", MIX)), found.get(("por", FREE))
    if mix is None or free is None:
        return words
    if not mix.values:
        return f"{words} The mix has no result."
    said = f" The paper reports {PAPER_HOPPER:.0f} for the mix." if row_of(data).startswith("hopper") else ""
    others = [score for score in found.values() if score not in (mix, free) and score.values]
    if not others:
        return f"{words}{said}"
    best = max(others, key=lambda score: score.mean or 0.0)
    unchanged = "has the same scores for every seed: V and guide never use them"
    same = unchanged if free.values == mix.values else f"has {number(free.mean)}"
    if (mix.mean or 0.0) > (best.mean or 0.0):
        order, paper, doubts = "ahead of", "as in the paper", trainings.chance([(mix, best)])
    else:
        order, paper = "not ahead of", "unlike in the paper, where it outperforms all others"
        doubts = trainings.possible_reasons(mix, best)
    return f"""{words} The mix is {order} the best other scheme, {best.kind}, {paper}.{said} Without the actions of the
    additional data the mix {same}. {doubts}"""


def _figures(context: Context, scores: Scores) -> dict[str, Drawing]:
    looks = dict(zip((MAIN, MORE, MIX, FREE), LOOKS, strict=False))
    used = {scheme: look for scheme, look in looks.items() if scheme in {key[2] for key in scores}}
    panels: dict[str, list[Mark]] = {data: [] for data in context.data}
    for (data, algorithm, scheme), score in scores.items():
        panels[data].append(score.mark(scheme)._replace(row=NAMES[algorithm]))
    figures = {
        "extra-data": Drawing(
            dots(panels, used),
            "Scores by algorithm and scheme: mean, standard deviation over seeds (bar) and seeds (small dots).",
            f"Dots for each algorithm and training scheme on {listed(context.data)}.",
        )
    }
    if "por" in context.algorithms:
        por = {data: [scores[data, "por", each].curve(each) for each in SCHEMES["por"]] for data in context.data}
        figures["curves"] = Drawing(
            curves(por, looks, columns=2),
            "Scores of POR during training under each scheme: mean and range of the seeds.",
            f"Learning curves of POR's schemes on {listed(context.data)}.",
        )
    return figures
