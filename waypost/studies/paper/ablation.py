"""The ablation of the executor: its size, and whether it learns from all data or from the best episodes only.

Only the executor varies. Value and guide of each seed are trained once, on all data; then every executor is trained
by itself (`training="executor"`) and combined with them. The sizes are the paper's 512 and 128, and the 1024 of its
table of settings, on all data only. For the best X % of the episodes the paper tries X = 10, 25, 40 and takes the best
score; here this is done for each data set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from waypost.data.dataset import Dataset
from waypost.figures.scores import LOOKS, dots
from waypost.studies.paper import scores as trainings
from waypost.studies.paper.benchmark import ABLATION, grouped, row_of
from waypost.studies.paper.experiment import Context, Drawing, Outcome, Row, Table
from waypost.studies.paper.scores import Score, number
from waypost.studies.paper.words import listed, many, paragraphs
from waypost.training.callbacks import in_turn
from waypost.training.runs import Run

SIZES = {"big": 512, "small": 128, "preset": 1024}
SHARES = (10, 25, 40)
"""Shares of best episodes the executor may learn from, in per cent."""


class Variant(NamedTuple):
    """An executor: its size, and the share of the episodes it learns from."""

    size: str
    share: int = 100

    @property
    def name(self) -> str:
        width = SIZES[self.size]
        return f"{width}x{width}, {'all data' if self.share == 100 else f'top {self.share} %'}"


VARIANTS = (*map(Variant, SIZES), *(Variant(size, share) for size in ("big", "small") for share in SHARES))


def executor_data(dataset: Dataset, variant: Variant) -> Dataset:
    """The rows an executor learns from, without rewards, which it does not use; the guide always has all rows."""
    if variant.share == 100:
        return dataset.without_rewards()
    return dataset.top(variant.share / 100).named(f"{dataset.name} top {variant.share} %").without_rewards()


Scores = Mapping[tuple[str, Variant], Score]
"""By data set and executor."""


def run(context: Context) -> Outcome:
    context = trainings.with_results(context)
    scores: dict[tuple[str, Variant], Score] = {}
    rows: list[Row] = []
    for data in in_turn(context.data, "data set", context.callback):
        dataset = trainings.load_data(context, data)
        for variant in VARIANTS:
            seen = executor_data(dataset, variant)
            train = partial(_train, context, dataset, seen, variant)
            scores[data, variant] = score = trainings.attempt(context, data, variant.name, train)
            about = {"executor": SIZES[variant.size], "share": variant.share}
            rows.append({**score.row(), **about, "guide_rows": len(dataset), "executor_rows": len(seen)})
    found, groups = trainings.require_results(list(scores.values())), grouped(context.data)
    summary = [_summary(group, names, scores, size) for group, names in groups.items() for size in SIZES]
    caption = "Mean scores over the data sets of a group. Partial: the best of the three shares on each data set."
    learned = "Every training, and the number of rows guide and executor learned from."
    tables = {"ablation": Table(summary, caption, shown=True), **trainings.training_tables(found, rows, learned)}
    ordered = [name for names in groups.values() for name in names]
    kinds = {f"{SIZES[size]}, all data": (size, "full") for size in SIZES}
    kinds |= {f"{SIZES[size]}, best share": (size, "partial") for size in ("big", "small")}
    marks = [_score(scores, name, *chosen).mark(kind) for name in ordered for kind, chosen in kinds.items()]
    drawing = Drawing(
        dots({"executor: width, data (replica)": marks}, dict(zip(kinds, LOOKS, strict=False))),
        "Each executor on each data set: mean, standard deviation over seeds (bar) and seeds (small dots). Best share: "
        f"the best of the top {listed(SHARES)} % of the episodes.",
        f"Dots for {len(kinds)} kinds of executor on {many(len(ordered), 'data set')}.",
    )
    text = paragraphs(
        f"""Executors of {listed(f"({width}, {width})" for width in SIZES.values())} hidden units on all data, and of
        the first two sizes on the best {listed(SHARES)} % of the episodes by return; {many(len(ordered), "data set")},
        {trainings.seeds_and_updates(found, context.minutes)}. V and guide of each seed are the same for every executor
        and learned from all data. {trainings.data_sources(ordered)}""",
        *(_group(group, names, summary, scores) for group, names in groups.items()),
        """The best of three shares is chosen after the fact, which favours partial data a little, as in the paper. The
        paper's locomotion means are over 12 data sets, three of them random ones, so only differences can be compared
        with ours.""",
        trainings.failures(found),
    )
    return Outcome(text, {"ablation": drawing}, tables)


def _train(context: Context, dataset: Dataset, seen: Dataset, variant: Variant) -> list[Run]:
    """A run for each seed: its own guide from all data, the executor from `seen`."""
    runs = []
    name, width = dataset.name, SIZES[variant.size]
    for seed in trainings.seeds_of(context, f"{name}/executor-{width}-{variant.share}"):
        common: dict[str, Any] = {"env": row_of(name), "preset": trainings.preset_of_part(name), "seeds": [seed]}
        guide = context.donor("por", dataset, label=f"{name}/guide/seed-{seed}", training="guide", **common)
        common |= {"label": f"{name}/executor-{width}-{variant.share}/seed-{seed}", "donor": guide}
        joined = context.train("por", seen, training="executor", executor_hidden=(width, width), **common)
        if joined.policies:  # runs read from a folder of results were compared when they were trained
            trainings.require_same_parts(joined, guide.run(), "value_part", "guide_part")
        runs.append(joined)
    return runs


def _score(scores: Scores, data: str, size: str, amount: str) -> Score:
    """An executor's score on all data ("full") or the best of the shares ("partial"); empty if one of them failed."""
    if amount == "full":
        return scores[data, Variant(size)]
    found = [scores[data, Variant(size, share)] for share in SHARES]
    failed = [score for score in found if not score.values]
    return failed[0] if failed else max(found, key=lambda score: score.mean or 0.0)


def _summary(group: str, data: Sequence[str], scores: Scores, size: str) -> dict[str, Any]:
    row: dict[str, Any] = {"group": group, "data_sets": len(data), "executor": size, "width": SIZES[size]}
    row |= {"full": trainings.mean(_score(scores, name, size, "full").mean for name in data), "partial": None}
    if size != "preset":
        row["partial"] = trainings.mean(_score(scores, name, size, "partial").mean for name in data)
    return row | {f"paper_{amount}": ABLATION[group].get((amount, size)) for amount in ("full", "partial")}


CLAIMS = {
    "The big executor against the small one, all data": (("big", "full"), ("small", "full")),
    "All data against the best episodes, big executor": (("big", "full"), ("big", "partial")),
    "All data against the best episodes, small executor": (("small", "full"), ("small", "partial")),
}
"""The paper's comparisons, and the two executors of each; in the paper the first one is ahead."""


def _group(group: str, data: Sequence[str], summary: Sequence[dict[str, Any]], scores: Scores) -> str:
    means = {row["executor"]: row for row in summary if row["group"] == group}
    words = []
    for text, (one, other) in CLAIMS.items():
        ours, theirs = (
            " against ".join(number(means[size][paper + amount]) for size, amount in (one, other))
            for paper in ("", "paper_")
        )
        first, second = (means[size][amount] for size, amount in (one, other))
        pairs = [(_score(scores, name, *one), _score(scores, name, *other)) for name in data]
        if first is None or second is None:
            missing = any(score.note == trainings.MISSING for pair in pairs for score in pair)
            why = "not every training is there yet" if missing else "because a training failed"
            words.append(f"{text}: no result, {why} (paper {theirs}).")
        elif first > second:
            words.append(f"{text}: {ours} (paper {theirs}), as in the paper. {trainings.chance(pairs)}")
        else:
            doubts = " ".join(trainings.possible_reasons(*pair) for pair in pairs)
            words.append(f"{text}: {ours} (paper {theirs}), **unlike in the paper**. {doubts}")
    extra = f"With {SIZES['preset']} units on all data the mean is {number(means['preset']['full'])}."
    return f"**{group}**, mean of {len(data)}. {' '.join(words)} {extra}"
