"""Shared by the experiments that train: scores of trainings, as rows of tables, as text and as figures.

A training that fails has a note instead of numbers, in every table and in the text. An experiment in which every
training fails is an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from waypost.data.dataset import Dataset
from waypost.data.sources import load, recipe_of
from waypost.errors import DirectoryError, WaypostError
from waypost.figures.scores import Curve, Mark
from waypost.statistics import spread, spread_name, summarise
from waypost.studies.paper.benchmark import Published, origin, row_of
from waypost.studies.paper.experiment import Context, Row, Table
from waypost.studies.paper.words import listed, many
from waypost.studies.results import NotTrained, Results
from waypost.studies.updates import total_updates
from waypost.training.callbacks import in_turn
from waypost.training.plan import Plan, plan
from waypost.training.runs import Run

MISSING = "not trained yet"
"""The note of trainings that are missing from a folder of results."""
REHEARSAL = 0.01
"""Trainings with a smaller share of their presets' updates only show that they run."""


@dataclass(frozen=True, eq=False)
class Score:
    """Agents of one kind on one data set; without a score, a note says why."""

    data: str
    kind: str
    """An algorithm, or a variant of one."""
    values: tuple[float, ...] = ()
    """The score of each seed."""
    runs: tuple[Run, ...] = ()
    note: str = ""

    @property
    def missing(self) -> bool:
        """Whether there is no score because it has not been trained yet."""
        return self.note == MISSING

    @property
    def mean(self) -> float | None:
        return float(np.mean(self.values)) if self.values else None

    @property
    def std(self) -> float | None:
        """Standard deviation over seeds; None for one seed."""
        return summarise(self.values)["std"] if len(self.values) > 1 else None

    @property
    def core_minutes(self) -> float | None:
        """Mean over the agents, for their updates, if counted."""
        known = [run.result["core_seconds"] for run in self.runs if run.result.get("core_seconds") is not None]
        return sum(known) / 60 / len(self.values) if self.values and len(known) == len(self.runs) else None

    @property
    def evaluations(self) -> tuple[np.ndarray, np.ndarray]:
        """The steps of its evaluations, and the scores, (seeds, steps)."""
        found: dict[int, list[float]] = {}
        for run in self.runs:
            for row in run.evaluations:
                found.setdefault(int(row["step"]), []).append(float(row["score"]))
        steps = sorted(found)
        return np.array(steps), np.array([found[step] for step in steps]).T

    def row(self) -> dict[str, str | int | float | None]:
        """As a row of a table."""
        first = self.runs[0] if self.runs else None
        low, high = spread(self.values) or (None, None)
        return {
            "data": self.data,
            "kind": self.kind,
            "data_from": origin(self.data),
            "suite": first.result["suite"] if first else None,
            "mean": self.mean,
            "std": self.std,
            "low": low,
            "high": high,
            "spread": spread_name(len(self.values)) if low is not None else None,
            "seeds": len(self.values),
            "values": " ".join(f"{value:.4g}" for value in self.values),
            "steps": total_updates(first.plan) if first else None,
            "preset": first.plan.preset if first else None,
            "preset_steps": preset_updates(first.plan) if first else None,
            "seconds": round(sum(run.result["seconds"] for run in self.runs), 1) if first else None,
            "core_minutes": None if self.core_minutes is None else round(self.core_minutes, 2),
            "note": self.note,
        }

    def mark(self, kind: str | None = None) -> Mark:
        """As a mark in a figure, in the row of its data set."""
        return Mark(self.data, kind or self.kind, self.mean, self.std, self.values)

    def curve(self, kind: str | None = None, minutes: float | None = None) -> Curve:
        """Its evaluations as a curve, over updates, or over the minutes on a core that these took in all."""
        steps, values = self.evaluations if self.values else (np.zeros(0), np.zeros(0))
        if minutes is not None and self.runs:
            steps = steps * minutes / total_updates(self.runs[0].plan)
        return Curve(kind or self.kind, steps, values)


# -- trainings -------------------------------------------------------------------------------------


def attempt(context: Context, data: str, kind: str, train: Callable[[], Run | Sequence[Run]]) -> Score:
    """The score of what `train` trains: all seeds at once, or one run for each."""
    try:
        trained = train()
    except DirectoryError:
        raise  # it says nothing about these data
    except NotTrained:
        return Score(data, kind, note=MISSING)
    except WaypostError as error:
        context.callback.note(f"{kind} on {data}: {error}")
        return Score(data, kind, note=str(error))
    runs = (trained,) if isinstance(trained, Run) else tuple(trained)
    values = [each["score"] for run in runs for each in run.result["per_seed"]]
    if None in values:
        return Score(data, kind, runs=runs, note="was not evaluated")
    return Score(data, kind, tuple(values), runs)


def _only_read(context: Context) -> Results | None:
    """The folder of results, where trainings are only read."""
    return context.results if context.results is not None and context.results.read_only else None


def seeds_of(context: Context, label: str) -> list[int]:
    """The seeds to train; where trainings are only read, those that are there, or the first, which is then missing."""
    kept = _only_read(context)
    return list(range(context.size.seeds)) if kept is None else kept.seeds(label) or [0]


def with_results(context: Context) -> Context:
    """Without the data sets of which nothing is there, where trainings are only read: their data need not be loaded."""
    kept = _only_read(context)
    if kept is None:
        return context
    there = tuple(name for name in context.data if (kept.folder / name).is_dir())
    if not there:
        raise WaypostError(f"{kept.folder}: holds no results of {listed(context.data)}; train some without --read-only")
    return replace(context, data=there)


def train_and_score(context: Context, algorithm: str, data: str, kind: str | None = None, **options: Any) -> Score:
    """The score of an algorithm on a named data set, with its preset and all seeds at once."""
    kind = kind or algorithm
    label = f"{data}/{kind.lower()}"
    options |= {"label": label, "env": row_of(data)}
    if _only_read(context):
        options["seeds"] = seeds_of(context, label)
    return attempt(context, data, kind, lambda: context.train(algorithm, data, **options))


def score_each(
    context: Context, pairs: Sequence[tuple[str, str]], train: Callable[[str, str], Score]
) -> Sequence[Score]:
    """The results of `train` for each pair of data set and kind of agent."""
    turns = pairs if _only_read(context) else in_turn(pairs, "training", context.callback)
    return require_results([train(data, kind) for data, kind in turns])


def load_data(context: Context, data: str) -> Dataset:
    """The data of this name, recorded now if they do not exist yet, with the task they are evaluated on."""
    return load(data, progress=context.callback.recording).named(data, row_of(data))


def preset_of_part(data: str) -> str | None:
    """Preset for a part of a data set, which has none by name: the paper's for D4RL's files, else the task's."""
    return f"paper/{row_of(data)}" if origin(data) == "d4rl" else None


def preset_updates(planned: Plan) -> int:
    """The updates of the preset, over all stages."""
    return total_updates(plan(planned.algorithm, planned.data, env=planned.task, preset=planned.preset))


def update_counts(run: Run) -> dict[str, int]:
    """Columns of a table: the updates of an agent, and those of its preset."""
    return {"updates": total_updates(run.plan), "preset_updates": preset_updates(run.plan)}


def require_same_parts(run: Run, donor: Run, *parts: str) -> None:
    """Raise unless all agents of a run have these parts of another run's first agent, bit-identical."""
    for part in parts:
        theirs = jax.tree.leaves(getattr(donor.policy.agent, part))
        for policy in run.policies:
            ours = jax.tree.leaves(getattr(policy.agent, part))
            if not all((a == b).all() for a, b in zip(ours, theirs, strict=True)):
                what = part.removesuffix("_part")
                raise WaypostError(f"{run.directory}: has another {what} than {donor.directory}; train both again")


def require_results(scores: Sequence[Score]) -> Sequence[Score]:
    """The same scores, after checking that at least one training gave a result."""
    if scores and not any(score.values for score in scores):
        raise WaypostError(f"nothing could be trained; the first error: {scores[0].note}")
    return scores


# -- numbers ---------------------------------------------------------------------------------------


def mean(values: Iterable[float | None]) -> float | None:
    """The mean; None if a value is missing, or there are none."""
    known = list(values)
    return None if not known or None in known else float(np.mean(np.array(known, float)))


class Duel:
    """Two kinds of agents on several data sets, and where `leader`, one of them, is ahead.

    paper   the paper's table, by rows and kinds
    """

    def __init__(
        self, scores: Sequence[Score], kinds: tuple[str, str], leader: str, paper: Mapping[str, Mapping[str, Published]]
    ):
        found = {(score.data, score.kind): score for score in scores}
        data = dict.fromkeys(score.data for score in scores)
        other = kinds[1 - kinds.index(leader)]
        pairs = {name: (found[name, kinds[0]], found[name, kinds[1]]) for name in data}
        self.pairs = {name: pair for name, pair in pairs.items() if all(score.values for score in pair)}
        """By data set, where both have a result."""
        means = {key: score.mean or 0.0 for key, score in found.items()}
        self.here = [name for name in self.pairs if means[name, leader] > means[name, other]]
        """The data sets of `pairs` where the leader is ahead."""
        self.there = [name for name in data if paper[row_of(name)][leader].mean > paper[row_of(name)][other].mean]
        """All data sets where the leader is ahead in the paper."""
        self.agree = [name for name in self.pairs if (name in self.here) == (name in self.there)]
        """The data sets of `pairs` with the same order as in the paper."""

    def doubts(self) -> str:
        """Possible reasons for an order that differs from the paper's."""
        return " ".join(possible_reasons(*pair) for name, pair in self.pairs.items() if name not in self.agree)


def training_tables(
    scores: Sequence[Score], rows: Sequence[Row] | None = None, caption: str = "Every training."
) -> dict[str, Table]:
    """The tables of every experiment that trains: its trainings, and their evaluations."""
    evaluations = [
        {"data": score.data, "kind": score.kind, "step": row["step"], "seed": row["seed"], "score": row["score"]}
        for score in scores
        for run in score.runs
        for row in run.evaluations
    ]
    trainings = [score.row() for score in scores] if rows is None else rows
    return {"scores": Table(trainings, caption), "curves": Table(evaluations, "Every evaluation.")}


# -- words -----------------------------------------------------------------------------------------


def number(value: float | None, std: float | None = None) -> str:
    if value is None:
        return "no result"
    return f"{value:.1f}" + (f" ± {std:.1f}" if std is not None else "")


def with_spread(values: Sequence[float]) -> str:
    """The mean and the spread of the seeds; * if it is one seed."""
    if len(values) == 1:
        return f"{values[0]:.1f}*"
    low, high = spread(values) or (None, None)
    return f"{np.mean(values):.1f} ({low:.1f} to {high:.1f})"


def failures(scores: Sequence[Score]) -> str:
    """The trainings without a result, and why, and those still to do; empty if all are done."""
    failed = [f"{score.kind} on {score.data}: {score.note}" for score in scores if not (score.values or score.missing)]
    words = [f"**{len(failed)} of {len(scores)} trainings gave no result**: {'; '.join(failed)}."] if failed else []
    missing = Counter(score.kind for score in scores if score.missing)
    if missing:
        kinds = listed(f"{kind} on {many(count, 'data set')}" for kind, count in missing.items())
        words.append(f"**{missing.total()} of {len(scores)} are not trained yet**: {kinds}.")
    return " ".join(words)


def possible_reasons(one: Score, other: Score) -> str:
    """What can be checked if two come out in another order than in the paper: chance, and too short a training.

    Empty if one has no score.
    """
    if not (one.values and other.values):
        return ""
    low, high = sorted((one, other), key=lambda score: score.mean or 0.0)
    spans = listed(f"{each.kind} {min(each.values):.1f} to {max(each.values):.1f}" for each in (high, low))
    single = [each.kind for each in (high, low) if len(each.values) == 1]
    if single:
        words = [f"with one seed {'each' if len(single) == 2 else f'of {single[0]}'} it may be chance"]
    elif _overlap(one, other):
        words = [f"the seeds overlap ({spans}), so it may be chance"]
    else:
        words = [f"the seeds do not overlap ({spans})"]
    for each in (one, other):
        steps, values = each.evaluations
        if len(steps) > 1:
            curve, half = values.mean(axis=0), max(0, int(np.searchsorted(steps, steps[-1] / 2, side="right")) - 1)
            verb = "rose" if curve[-1] > curve[half] else "did not rise"
            span = f"from update {steps[half]} to {steps[-1]} ({curve[half]:.1f} to {curve[-1]:.1f})"
            words.append(f"{each.kind} {verb} {span}")
    return f"Checked on {one.data}: {'; '.join(words)}."


def chance(pairs: Iterable[tuple[Score, Score]]) -> str:
    """The data sets where the order may be chance, even if it is that of the paper; empty if there are none."""
    known = [pair for pair in pairs if all(score.values for score in pair)]
    single = [len(score.values) == 1 for pair in known for score in pair]
    if any(single):
        where = "With one seed each" if all(single) else "Where a method has one seed"
        return f"{where}, the order may be chance."
    names = [one.data for one, other in known if _overlap(one, other)]
    return f"On {listed(names)} the seeds of the two overlap: the order there may be chance." if names else ""


def _overlap(one: Score, other: Score) -> bool:
    low, high = sorted((one.values, other.values), key=np.mean)
    return min(high) <= max(low)


def seeds_and_updates(scores: Sequence[Score], minutes: float | None = None) -> str:
    """The seeds and updates of the trainings, and the updates of their presets if these are more.

    minutes   on a core for each agent, if they decided the number of updates
    """

    def span(numbers: Sequence[int]) -> str:
        return " to ".join(str(number) for number in dict.fromkeys((min(numbers), max(numbers))))

    seeds = sorted({len(score.values) for score in scores if score.values})
    counts = [(total_updates(run.plan), preset_updates(run.plan)) for score in scores for run in score.runs]
    ours, presets = zip(*counts, strict=True)
    text = f"{listed(seeds, 'or')} seed{'' if seeds == [1] else 's'} of {span(ours)} updates"
    text += f" in {minutes:g} minutes of a core" if minutes else ""
    if not any(own < preset for own, preset in counts):
        return text
    short = all(own < REHEARSAL * preset for own, preset in counts)
    warning = ": this only tests the code, the scores mean nothing yet" if short else ""
    return f"{text} (their presets have {span(presets)}{warning})"


def different_rows(scores: Sequence[Score]) -> str:
    """The data sets on which trainings had different rows; empty if there are none."""
    found: dict[str, set[str]] = {}
    for score in scores:
        found.setdefault(score.data, set()).update(row for run in score.runs for row in run.result.get("rows", ()))
    mixed = [data for data, rows in found.items() if len(rows) > 1]
    return f"Not all trainings on {listed(mixed)} had the same recording of the data." if mixed else ""


def data_sources(data: Sequence[str]) -> str:
    """The source of the data, in words."""
    kinds = []
    for name in data:
        made = recipe_of(name)
        size = f" of {made[1]} transitions" if made and made[1] else ""
        kinds.append("D4RL's files" if origin(name) == "d4rl" else f"replicas{size} recorded here")
    return (
        f"The data are {listed(dict.fromkeys(kinds))}; agents are evaluated in the environments of the replica suite. "
        "The paper's numbers are for D4RL's."
    )
