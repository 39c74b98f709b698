"""Theorem 1 of the paper, measured at several inverse temperatures; `waypost.studies.diagnosis` says how.

    |pi(s, g(s)) - a*|  <=  l1 + l2 + l3

    l1   (L1 + L2) |g(s) - s'|, how far the guide leaves the data
    l2   |a_g - a*|, how far its goal is from the best
    l3   |pi(s, s') - a|, the executor's own error

The executor depends neither on V nor on the guide, so each data set has one, and all its guides use it. V and guide
are trained again at each inverse temperature. V does not depend on it and comes out the same for the same seed:
changes with the inverse temperature are due to the guide alone. All this holds for POR and for Waypoint.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from waypost.figures import STYLED, grid_lines, new_figure
from waypost.studies.diagnosis import diagnose, slow_space
from waypost.studies.paper import guides
from waypost.studies.paper.benchmark import NAMES, row_of
from waypost.studies.paper.experiment import Context, Drawing, Outcome, Row, Table, over_seeds
from waypost.studies.paper.scores import load_data, update_counts
from waypost.studies.paper.words import length, listed, many, paragraphs
from waypost.training.runs import Run

TEMPERATURES = (0.0, 1.0, 3.0, 10.0, 30.0)
"""Inverse temperatures; at 0 the guide copies the data, larger ones prefer states with a high V."""
MEASURES = {name: name for name in ("l1", "l2", "l3")} | {"bound": "sum", "gap": "gap"}
MEASURES |= {"guide_distance": "distance", "guide_to_data": "to_data"}
MEASURES |= {"inverse_slope": "inverse_slope", "executor_slope": "executor_slope", "value_gain": "gain"}
"""The measures of a diagnosis, and their names in the tables."""
SHOWN = ("l1", "l2", "l3", "sum", "gap", "holds", "distance", "near", "inverse_slope", "executor_slope", "score")
"""The columns shown beside the text."""
CAPTION = (
    "Means over states and seeds; actions are scaled to [-1, 1]. temperature: inverse temperature; sum: l1 + l2 + l3; "
    "gap: from the agent's action to the best recorded one; holds: share of states where the gap is within the sum; "
    "distance: from g(s) to s'; near: share of goals as near to the data as these are to each other; inverse_slope and "
    "executor_slope: L1 of the inverse dynamics and L2 of the executor."
)
MORE = (
    "All means. to_data: from g(s) to the nearest recorded next state; gain: V(g(s)) - V(s'); l3_largest: the "
    "theorem's epsilon, as measured."
)


def run(context: Context) -> Outcome:
    seeds: list[Row] = []
    for name, algorithm in product(context.data, context.algorithms):
        trainings = _trained(context, name, algorithm)
        dataset = load_data(context, name)
        for temperature, trained in context.each(list(trainings.items()), f"{name}: diagnoses"):
            about = {"data": name, **guides.columns(context, trained, slow_space(trained.policy.agent))}
            for policy, result in zip(trained.policies, trained.result["per_seed"], strict=True):
                found = diagnose(policy, dataset, rewards=trained.plan.convention)
                row: dict[str, Any] = {**about, "temperature": temperature, "seed": policy.seed}
                row |= {"states": len(found.measures["gap"]), **update_counts(trained)}
                row |= {short: float(found.measures[long].mean()) for long, short in MEASURES.items()}
                row |= {"l3_largest": float(found.measures["l3"].max()), "near": found.near, "holds": found.holds}
                seeds.append(row | {"score": result["score"]})
    same = guides.present(seeds, "horizon", "slow_directions", "states", "updates", "preset_updates")
    means = over_seeds(seeds, guides.present(seeds, "data", "algorithm", "temperature"), same)
    figures = {}
    for algorithm in context.algorithms:
        own = guides.by_algorithm(seeds)[NAMES[algorithm]]
        whose = guides.whose(own[0])
        figures[guides.named(algorithm, "bound")] = Drawing(
            draw(own),
            f"The terms of the bound, the measured gap and the score{whose} against the inverse temperature: means "
            "over the seeds, and their range.",
            f"A row of panels for each data set{whose}: l1; l2, l3 and the gap; the score.",
        )
    known = guides.present(means, "data", "algorithm", "horizon", "slow_directions", "temperature", *SHOWN)
    brief = [{name: row[name] for name in known} for row in means]
    tables = {
        "bound": Table(brief, guides.caption(CAPTION, brief), shown=True),
        "means": Table(means, guides.caption(MORE, means)),
        "seeds": Table(seeds, "The same for each seed."),
    }
    return Outcome(_text(means), figures, tables)


def _trained(context: Context, name: str, algorithm: str) -> dict[float, Run]:
    """Agents by inverse temperature; all have the same executor."""

    def train(kind: str, **options: Any) -> Run:
        label = f"{name}/{guides.named(algorithm, kind)}"
        return context.train(algorithm, name, env=row_of(name), label=label, **options)

    executor = train("executor", training="executor", seeds=1)
    guide = partial(train, training="guide", init=executor.directory)
    return {each: guide(f"guide-{each:g}", inverse_temperature=each) for each in TEMPERATURES}


def _text(rows: Sequence[dict[str, Any]]) -> str:
    """Every number is from the table."""
    sets: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        sets.setdefault(guides.title(row), []).append(row)
    temperatures = ", ".join(f"{row['temperature']:g}" for row in next(iter(sets.values())))
    return paragraphs(
        f"""
        One executor was trained on each of {listed(sets)}, and V and guide with {many(rows[0]["seeds"], "seed")} at
        each of the inverse temperatures {temperatures}. {guides.ours(rows)} The numbers are means over
        {rows[0]["states"]} states of the data and over the seeds; what cannot be known without a simulator is estimated
        from the nearest recorded transitions.
        """,
        *(_reading(name, found) for name, found in sets.items()),
        _plainly(sets),
    )


def _reading(name: str, rows: Sequence[dict[str, Any]]) -> str:
    first, last, top = rows[0], rows[-1], max(rows, key=lambda row: row["l1"])
    on_the_way = "" if top in (first, last) else f" (highest at {top['temperature']:g}, {top['l1']:.3g})"
    as_said = last["l1"] > first["l1"] and last["l2"] < first["l2"]
    lowest = {measure: min(rows, key=lambda row: row[measure]) for measure in ("sum", "gap")}
    best = max(row["score"] for row in rows)
    found = [f"{row['temperature']:g}" for row in rows if row["score"] == best]
    scores = f"is {best:.3g} at every one" if len(found) == len(rows) else f"is best at {listed(found)} ({best:.3g})"
    slopes = [row["executor_slope"] for row in rows]
    executor = " to ".join(dict.fromkeys(f"{slope:.3g}" for slope in (min(slopes), max(slopes))))
    return f"""
        **{name}**, {length(first)}. From an inverse temperature of {first["temperature"]:g} to {last["temperature"]:g}
        l1 {_moves(first["l1"], last["l1"])}{on_the_way} and l2 {_moves(first["l2"], last["l2"])}:
        {"as the paper expects" if as_said else "the paper expects l1 to rise and l2 to fall"}. The guide's distance
        from the {guides.recorded(first)} {_moves(first["distance"], last["distance"])}; the inverse dynamics' slope L1
        is {first["inverse_slope"]:.3g}, the executor's slope L2 {executor}. {guides.distances(first)} The executor's
        error l3 is {first["l3"]:.3g} at every temperature, because the executor is the same, and at most
        {first["l3_largest"]:.3g}. The sum is smallest at {lowest["sum"]["temperature"]:g}
        ({lowest["sum"]["sum"]:.3g}), the measured gap at {lowest["gap"]["temperature"]:g}
        ({lowest["gap"]["gap"]:.3g}); the score {scores}.
        """


def _moves(first: float, last: float) -> str:
    if f"{first:.3g}" == f"{last:.3g}":
        return f"stays at {first:.3g}"
    return f"{'rises' if last > first else 'falls'} from {first:.3g} to {last:.3g}"


def _plainly(sets: dict[str, list[dict[str, Any]]]) -> str:
    """What it means in practice."""
    words = []
    for name, rows in sets.items():
        at = min(rows, key=lambda row: row["sum"])
        best, holds = max(row["score"] for row in rows), min(row["holds"] for row in rows)
        part = max(("l1", "l2", "l3"), key=lambda measure: at[measure])
        if min(row["score"] for row in rows) == best:
            verdict = "The score is the same everywhere, so it does not show whether the sum chooses well."
        elif at["score"] == best:
            ties = sum(row["score"] == best for row in rows) - 1
            verdict = "The score is best where the sum is lowest"
            verdict += (
                f", but also at {ties} of the others." if ties else ": the sum chooses the inverse temperature well."
            )
        else:
            verdict = f"Where the sum is lowest the score is {at['score']:.3g}, not the best {best:.3g}: "
            verdict += "the sum does not choose the inverse temperature."
        # Rounded down: 99.96 % is not all.
        where = "all states" if holds == 1 else f"at least {math.floor(1000 * holds) / 1000:.1%} of the states"
        words.append(
            f"""On {name} the lowest sum is {at["sum"] / at["gap"]:.3g} times the measured gap, and
            {at[part] / at["sum"]:.0%} of it is {part}; the bound holds in {where}. {verdict}"""
        )
    return f"""**In practice:** l1 is the risk of a guide that leaves the data, l2 the loss of one that does not aim for
        the best, l3 the executor's own error. A larger inverse temperature should lower l2 and raise l1.
        {" ".join(words)}"""


PANELS = {
    "l1, the guide beyond the data": {"l1": ("l1", "#0072b2", "o", "-")},
    "l2, l3 and the measured gap": {
        "l2": ("l2, aim not the best", "#e69f00", "s", "-"),
        "l3": ("l3, executor's error", "#009e73", "^", "--"),
        "gap": ("measured gap", "#d55e00", "D", ":"),
    },
    "score": {"score": ("score", "#0b4f8a", "o", "-")},
}
"""The measures of each panel, with label, colour, marker and line."""


@STYLED
def draw(seeds: Sequence[Row]) -> Figure:
    """A row of panels for each data set; each number is the mean over seeds, with their range."""
    names = list(dict.fromkeys(str(row["data"]) for row in seeds))
    figure = new_figure(9.0, 0.5 + 2.5 * len(names))
    grid = figure.subplots(len(names), 3, squeeze=False)
    for name, panels in zip(names, grid, strict=True):
        own = [row for row in seeds if row["data"] == name]
        temperatures = list(dict.fromkeys(row["temperature"] for row in own))
        places = np.arange(len(temperatures))
        for axes, lines in zip(panels, PANELS.values(), strict=True):
            for measure, (label, colour, marker, line) in lines.items():
                found = [[row[measure] for row in own if row["temperature"] == each] for each in temperatures]
                numbers = np.array(found, float)
                axes.fill_between(places, numbers.min(axis=1), numbers.max(axis=1), color=colour, alpha=0.18, lw=0)
                axes.plot(places, numbers.mean(axis=1), line, color=colour, marker=marker, ms=4.5, lw=1.5, label=label)
            axes.margins(y=0.1)
            low, high = axes.get_ylim()
            low = low if measure == "score" and numbers.min() < 0 else 0.0
            # If no agent scores, the axis need not show thousandths of a point.
            high = max(high, 1.0) if measure == "score" else high
            axes.set_ylim(low, high + 0.03 * (high - low))
            axes.set_xticks(places, [f"{each:g}" for each in temperatures])
            grid_lines(axes)
        panels[0].set_ylabel(f"{name}\naction units, of [-1, 1]", parse_math=False)
        panels[2].set_ylabel("points")
    for column, title in enumerate(PANELS):
        grid[0][column].set_title(title, loc="left")
        grid[-1][column].set_xlabel("inverse temperature")
    handles, labels = grid[0][1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure
