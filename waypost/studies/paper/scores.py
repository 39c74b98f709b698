"""What the experiments that train have in common: scores of trainings, as rows of tables, as words and as figures.

A training that fails has a note in place of numbers, in every table and in the text. A plan that nothing could be
trained by is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

from waypost.data.dataset import Dataset
from waypost.data.sources import load, recipe_of
from waypost.errors import WaypostError
from waypost.statistics import spread, spread_name, summarise
from waypost.studies.comparison import total_updates
from waypost.studies.paper.benchmark import origin, row_of
from waypost.studies.paper.experiment import Context, Row
from waypost.studies.paper.words import listed
from waypost.training.plan import Plan, plan
from waypost.training.runs import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


REHEARSAL = 0.01
"""Trainings of a smaller share of their presets' updates show that they work, and nothing else."""


@dataclass(frozen=True, eq=False)
class Score:
    """Agents of one kind on one data set; without a score, why there is none."""

    data: str
    kind: str
    """An algorithm, or a variant of one."""
    values: tuple[float, ...] = ()
    """The score of each seed."""
    runs: tuple[Run, ...] = ()
    note: str = ""

    @property
    def mean(self) -> float | None:
        return float(np.mean(self.values)) if self.values else None

    @property
    def std(self) -> float | None:
        """Over seeds; one seed has none."""
        return summarise(self.values)["std"] if len(self.values) > 1 else None

    def row(self) -> dict[str, str | int | float | None]:
        """The line of a table."""
        ends = spread(self.values)
        low, high = ends or (None, None)
        return {
            "data": self.data,
            "kind": self.kind,
            "data_from": origin(self.data),
            "suite": self.runs[0].result["suite"] if self.runs else None,
            "mean": self.mean,
            "std": self.std,
            "low": low,
            "high": high,
            "spread": spread_name(len(self.values)) if ends else None,
            "seeds": len(self.values),
            "values": " ".join(f"{value:.4g}" for value in self.values),
            "steps": total_updates(self.runs[0].plan) if self.runs else None,
            "preset": self.runs[0].plan.preset if self.runs else None,
            "preset_steps": usual_updates(self.runs[0].plan) if self.runs else None,
            "seconds": round(sum(run.result["seconds"] for run in self.runs), 1) if self.runs else None,
            "note": self.note,
        }


def usual_updates(planned: Plan) -> int:
    """How many updates the preset gives an agent in all."""
    return total_updates(plan(planned.algorithm, planned.data, env=planned.task, preset=planned.preset))


def lengths(trained: Run) -> dict[str, int]:
    """Columns of a table: the updates an agent had, and those its preset gives."""
    return {"updates": total_updates(trained.plan), "preset_updates": usual_updates(trained.plan)}


def attempt(context: Context, data: str, kind: str, train: Callable[[], Run | Sequence[Run]]) -> Score:
    """The score of what `train` trains: all seeds at once, or a run for each."""
    try:
        trained = train()
    except WaypostError as error:
        context.progress.note(f"{kind} on {data}: {error}")
        return Score(data, kind, note=str(error))
    runs = (trained,) if isinstance(trained, Run) else tuple(trained)
    values = [each["score"] for run in runs for each in run.result["per_seed"]]
    if None in values:
        return Score(data, kind, runs=runs, note="was not judged")
    return Score(data, kind, tuple(values), runs)


def trained(context: Context, algorithm: str, data: str, kind: str | None = None, **options: object) -> Score:
    """The score of an algorithm on a data set by name, with its preset and all seeds at once."""
    kind = kind or algorithm
    label = f"{data}/{kind.lower()}"
    return attempt(
        context, data, kind, lambda: context.train(algorithm, data, label=label, env=row_of(data), **options)
    )


def read(context: Context, data: str) -> Dataset:
    """The data of that name, recorded now if they never were, with the task they are judged on."""
    return load(data, progress=context.progress.recording).named(data, row_of(data))


def kept(run: Run, donor: Run, *parts: str) -> None:
    """Make sure that all agents of a run have these parts of another run's first agent, to the last bit."""
    for part in parts:
        theirs = jax.tree.leaves(getattr(donor.agent.agent, part))
        for policy in run.policies:
            ours = jax.tree.leaves(getattr(policy.agent, part))
            if not all((a == b).all() for a, b in zip(ours, theirs, strict=True)):
                what = part.removesuffix("_part")
                raise WaypostError(f"{run.directory}: has another {what} than {donor.directory}; train both again")


def preset(data: str) -> str | None:
    """Settings for a part of a data set, whose name no preset has: the paper's for D4RL's files, else the task's."""
    return f"paper/{row_of(data)}" if origin(data) == "d4rl" else None


def some(scores: Sequence[Score]) -> Sequence[Score]:
    """The same scores, once it is certain that there is one among them."""
    if scores and not any(score.values for score in scores):
        raise WaypostError(f"nothing could be trained; the first error: {scores[0].note}")
    return scores


def mean(scores: Iterable[Score]) -> float | None:
    """The mean over data sets; None if one of them has no score."""
    means = [score.mean for score in scores]
    known = [each for each in means if each is not None]
    return float(np.mean(known)) if known and len(known) == len(means) else None


# -- words -----------------------------------------------------------------------------------------


def number(value: float | None, std: float | None = None) -> str:
    if value is None:
        return "no result"
    return f"{value:.1f}" + (f" ± {std:.1f}" if std is not None else "")


def failures(scores: Sequence[Score]) -> str:
    """Which trainings gave no result, and why; nothing if all did."""
    failed = [score for score in scores if not score.values]
    if not failed:
        return ""
    whys = "; ".join(f"{score.kind} on {score.data}: {score.note}" for score in failed)
    return f"**{len(failed)} of {len(scores)} trainings gave no result**: {whys}."


def checked(one: Score, other: Score) -> str:
    """What can be looked at where two come out in another order than the paper's: chance, and an early end.

    Where one has no score there is nothing to look at.
    """
    if not (one.values and other.values):
        return ""
    low, high = sorted((one, other), key=lambda score: score.mean or 0.0)
    spans = [f"{each.kind} {min(each.values):.1f} to {max(each.values):.1f}" for each in (high, low)]
    if len(low.values) == 1:
        words = ["with one seed each it may be chance"]
    elif _overlap(one, other):
        words = [f"the seeds overlap ({listed(spans)}), so it may be chance"]
    else:
        words = [f"the seeds do not overlap ({listed(spans)})"]
    words += [moved for each in (one, other) if (moved := _moved(each))]
    return f"Checked on {one.data}: {'; '.join(words)}."


def unsure(pairs: Iterable[tuple[Score, Score]]) -> str:
    """On which data sets who is ahead may be chance, also where it is as in the paper; nothing if on none."""
    known = [pair for pair in pairs if all(score.values for score in pair)]
    if any(len(score.values) == 1 for pair in known for score in pair):
        return "With one seed each, who is ahead may be chance."
    names = [one.data for one, other in known if _overlap(one, other)]
    return f"On {listed(names)} the seeds of the two overlap: who is ahead there may be chance." if names else ""


def _overlap(one: Score, other: Score) -> bool:
    low, high = sorted((one.values, other.values), key=np.mean)
    return min(high) <= max(low)


def _moved(score: Score) -> str:
    """How the score changed in the second half of the training; nothing if nobody looked."""
    steps, values = evaluations(score)
    if len(steps) < 2:
        return ""
    half, curve = max(0, int(np.searchsorted(steps, steps[-1] / 2, side="right")) - 1), values.mean(axis=0)
    verb = "rose" if curve[-1] > curve[half] else "did not rise"
    return f"{score.kind} {verb} from update {steps[half]} to {steps[-1]} ({curve[half]:.1f} to {curve[-1]:.1f})"


def how_long(scores: Sequence[Score]) -> str:
    """Seeds and updates of the trainings in words, and what their presets say where that is more."""
    plans = [run.plan for score in scores for run in score.runs]
    seeds = sorted({len(score.values) for score in scores if score.values})
    steps = [total_updates(each) for each in plans]
    usual = [usual_updates(each) for each in plans]
    more = any(ours < theirs for ours, theirs in zip(steps, usual, strict=True))
    few = all(ours < REHEARSAL * theirs for ours, theirs in zip(steps, usual, strict=True))
    told = ": this tries out the machinery, the scores say nothing yet" if few else ""
    return f"{listed(seeds, 'or')} seed{'' if seeds == [1] else 's'} of {_span(steps)} updates" + (
        f" (their presets say {_span(usual)}{told})" if more else ""
    )


def _span(numbers: Sequence[int]) -> str:
    least, most = min(numbers), max(numbers)
    return f"{least}" if least == most else f"{least} to {most}"


def sources(data: Sequence[str]) -> str:
    """Where the data come from, in words."""
    kinds = listed(dict.fromkeys(_source(name) for name in data))
    return f"The data are {kinds}, judged in the environments of the replica suite; the paper's numbers are of D4RL's."


def _source(name: str) -> str:
    made = recipe_of(name)
    few = f" of {made[1]} transitions" if made and made[1] else ""
    return "D4RL's files" if origin(name) == "d4rl" else f"replicas{few} recorded here"


# -- figures ---------------------------------------------------------------------------------------


class Look(NamedTuple):
    """How a kind is drawn: colour and shape both tell it from the others."""

    colour: str
    marker: str
    line: str = "-"


LOOKS = (
    Look("#d55e00", "o"),
    Look("#0072b2", "s"),
    Look("#009e73", "^"),
    Look("#7b3294", "D", "--"),
    Look("#595959", "v"),
    Look("#b8860b", "P"),
)


class Mark(NamedTuple):
    """A score to draw."""

    row: str
    kind: str
    mean: float | None
    std: float | None = None
    values: tuple[float, ...] = ()


def mark(score: Score, kind: str | None = None) -> Mark:
    return Mark(score.data, kind or score.kind, score.mean, score.std, score.values)


def dots(panels: Mapping[str, Sequence[Mark]], looks: Mapping[str, Look], apart: bool = True) -> Figure:
    """Scores beside each other: a row for each data set, a panel for each heading, a colour and shape for each kind.

    apart   whether the kinds of a row stand below each other; the first is on top
    """
    import matplotlib
    from matplotlib.lines import Line2D

    from waypost.figures import AXIS_LABELS, STYLE, new_figure

    rows = list(dict.fromkeys(each.row for marks in panels.values() for each in marks))
    step = 0.8 / len(looks) if apart else 0.0
    tall = max(0.28, 0.1 * len(looks)) if apart else 0.28
    missing = False
    with matplotlib.rc_context(STYLE):
        figure = new_figure(2.0 + (2.7 * len(panels) if len(panels) > 1 else 3.6), 1.2 + tall * len(rows))
        first: Axes | None = None
        for place, (title, marks) in enumerate(panels.items(), 1):
            axes = figure.add_subplot(1, len(panels), place, sharex=first, sharey=first)
            for each in sorted(marks, key=lambda each: -list(looks).index(each.kind)):
                colour, shape, _ = looks[each.kind]
                order = list(looks).index(each.kind)
                y = rows.index(each.row) + step * (order - (len(looks) - 1) / 2)
                if each.mean is None:
                    missing = True
                    axes.plot(0.02, y, marker="x", ms=5, color=colour, transform=axes.get_yaxis_transform())
                    continue
                if each.std is not None:
                    axes.plot((each.mean - each.std, each.mean + each.std), (y, y), color=colour, lw=1.2, alpha=0.7)
                if len(each.values) > 1:
                    axes.plot(each.values, [y] * len(each.values), ls="", marker=".", ms=3, color=colour, alpha=0.6)
                axes.plot(each.mean, y, ls="", marker=shape, ms=5.5, color=colour, mec="white", mew=0.6)
            axes.set_title(title, loc="left")
            axes.set_xlabel(AXIS_LABELS["score"])
            axes.grid(axis="x", color="0.9", lw=0.6)
            for line in range(1, len(rows)):
                axes.axhline(line - 0.5, color="0.93", lw=0.6, zorder=0)
            axes.set_axisbelow(True)
            if first is None:
                first = axes
                axes.set_yticks(range(len(rows)), rows)
                axes.set_ylim(len(rows) - 0.5, -0.5)
            else:
                axes.tick_params(axis="y", labelleft=False)
        handles = [
            Line2D([], [], ls="", marker=look.marker, ms=5.5, color=look.colour, label=kind)
            for kind, look in looks.items()
        ]
        if missing:
            handles.append(Line2D([], [], ls="", marker="x", ms=5, color="0.3", label="no result"))
        figure.legend(
            handles=handles,
            loc="outside lower center",
            ncols=min(5 if len(panels) > 1 else 4, len(handles)),
            frameon=False,
        )
    return figure


def curves(panels: Mapping[str, Sequence[Score]], looks: Mapping[str, Look], columns: int = 3) -> Figure:
    """Evaluations during training: a panel for each data set; mean and range of the seeds of each kind."""
    import matplotlib
    from matplotlib.lines import Line2D

    from waypost.figures import STYLE, new_figure, step_axis

    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    with matplotlib.rc_context(STYLE):
        figure = new_figure(max(3.6, 2.4 * columns + 0.3), 1.8 * rows + 0.5)
        for place, (title, scores) in enumerate(panels.items()):
            axes = figure.add_subplot(rows, columns, place + 1)
            last = 1.0
            for score in scores:
                if not score.values:
                    continue
                colour, shape, line = looks[score.kind]
                steps, values = evaluations(score)
                axes.fill_between(steps, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.18, lw=0)
                shown = shape if len(steps) < 30 else ""
                axes.plot(steps, values.mean(axis=0), color=colour, lw=1.5, ls=line, marker=shown, ms=3)
                last = max(last, float(steps.max()))
            failed = [score.kind for score in scores if not score.values]
            if failed:
                words = f"no result: {', '.join(failed)}"
                axes.text(0.5, 0.5, words, ha="center", va="center", fontsize=8, transform=axes.transAxes)
            step_axis(axes, last)
            axes.set_title(title, loc="left", fontsize=9, parse_math=False)
            axes.set_ylabel("score" if place % columns == 0 else "")
            if place + columns < len(panels):
                axes.set_xlabel("")
        handles = [
            Line2D([], [], color=look.colour, lw=1.5, ls=look.line, marker=look.marker, ms=3, label=kind)
            for kind, look in looks.items()
        ]
        fit = min(2 * columns, 5, len(handles))
        figure.legend(handles=handles, loc="outside lower center", ncols=fit, frameon=False)
    return figure


def evaluations(score: Score) -> tuple[np.ndarray, np.ndarray]:
    """The steps at which it was judged, and the scores then, (seeds, steps)."""
    found: dict[int, list[float]] = {}
    for run in score.runs:
        for row in run.evaluations:
            found.setdefault(int(row["step"]), []).append(float(row["score"]))
    steps = sorted(found)
    return np.array(steps), np.array([found[step] for step in steps]).T


def curve_rows(scores: Iterable[Score]) -> list[Row]:
    """Every evaluation as a line of a table."""
    return [
        {"data": score.data, "kind": score.kind, "step": row["step"], "seed": row["seed"], "score": row["score"]}
        for score in scores
        for run in score.runs
        for row in run.evaluations
    ]
