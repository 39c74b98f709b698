"""Where the guide goes: its goals g(s) compared with the recorded next states s', as in Figure 2 of the paper.

Only V and guide are trained on each data set, of POR or Waypoint. For pairs (s, s') of the data drawn at random,

    gain       V(g(s)) - V(s'): by the agent's own V, and by that of another seed, which this guide was not trained with
    distance   from g(s) to the nearest recorded next state
    own        from s' to the nearest other recorded next state

A goal is near if its distance is at most the own distance of its pair. About half of new rows of the data would be
near. States are divided by the standard deviations of the data's columns. A guide with goals in slow directions only
(Waypoint) leaves the rest of a state as it is: distances and t-SNE are then in these directions. s' is as far ahead as
the guide looks.

The number of pairs is that of the updates, at most 100 000, which is also the number in the full form with the presets'
steps. The paper colours by the optimal value, which is not known for these data; here it is the agent's V.

The t-SNE embeds 2 points per pair, so it must be fast: openTSNE's time grows with the number of points, not with its
square. It uses perplexity 50, a start from principal components and the library's default 250 and 500 iterations, on
one core, which gives the same figure each time. The first seed is drawn. 200 000 points take half an hour, so the
result is kept beside the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from waypost.agents.space import Space
from waypost.data import prepare
from waypost.data.dataset import Dataset
from waypost.envs.layout import Layout
from waypost.envs.tasks import task as find_task
from waypost.errors import WaypostError
from waypost.figures import STYLED, colour_bar, new_figure
from waypost.figures.maps import draw_layout
from waypost.files import read_arrays, write_arrays
from waypost.studies.diagnosis import nearest, placing, slow_space
from waypost.studies.paper import guides
from waypost.studies.paper.benchmark import row_of
from waypost.studies.paper.experiment import Context, Drawing, Outcome, Row, Table, over_seeds
from waypost.studies.paper.scores import load_data, update_counts
from waypost.studies.paper.words import length, listed, many, paragraphs
from waypost.training.runs import Run

Floats = np.ndarray
Points = Mapping[str, Floats]
"""Columns of a table of pairs."""

MORE, LESS = "antmaze-large-diverse", "hopper-medium-replay"
"""The paper sees the larger gain on the first."""
PAIRS = 100_000
"""The most pairs drawn."""
PERPLEXITY = 50


def run(context: Context) -> Outcome:
    if find_spec("openTSNE") is None:
        raise WaypostError("guide-map: openTSNE is not installed; run pip install 'waypost[paper]'")
    seeds: list[Row] = []
    figures: dict[str, Drawing] = {}
    points: dict[str, Table] = {}
    for name, algorithm in product(context.data, context.algorithms):
        task = find_task(row_of(name))
        trained = context.train(algorithm, name, env=task.name, training="guide")
        space = slow_space(trained.policy.agent)
        about = {"data": name, **guides.columns(context, trained, space)}
        found = measured(context, trained, load_data(context, name), task.layout is not None, space)
        seeds += [
            {**about, **summary(name, seed, each), **update_counts(trained)}
            for seed, each in zip(trained.plan.seeds, found, strict=True)
        ]
        first = found[0]
        kept = guides.named(algorithm, "t-sne")
        first |= embedded(context, name, first.pop("following"), first.pop("goals"), kept)
        rows = [
            {column: float(f"{number:.6g}") for column, number in zip(first, numbers, strict=True)}
            for numbers in zip(*first.values(), strict=True)
        ]
        title, table = guides.title(about), guides.named(algorithm, f"points-{name}")
        points[table] = Table(rows, f"The pairs of {title} in the figure, for the first seed.")
        drawn = {column: np.array([row[column] for row in rows]) for column in first}
        where = f"in a t-SNE of {guides.slowly(about)}" if guides.slowly(about) else "in a t-SNE"
        where = f"above {where}, below at their positions in the maze" if task.layout else where
        figures[guides.named(algorithm, f"map-{name}")] = Drawing(
            draw(drawn, task.layout() if task.layout else None, guides.recorded(about)),
            f"{title}, {len(rows)} pairs: the guide's goals g(s) and the {guides.recorded(about, 'states')} s' by "
            f"source, and each by its V, {where}.",
            f"Clouds of points of {title}: goals over recorded states, and both coloured by value.",
        )
    same = guides.present(seeds, "horizon", "slow_directions", "pairs", "updates", "preset_updates")
    means = over_seeds(seeds, guides.present(seeds, "data", "algorithm"), same)
    tables = {
        "guide-map": Table(means, guides.caption(CAPTION, means), shown=True),
        "seeds": Table(seeds, "The same for each seed."),
    }
    return Outcome(_text(means, seeds), figures, {**tables, **points})


CAPTION = (
    "Means over pairs and seeds. gain: V(g(s)) - V(s'); deviations: the gain in standard deviations of V(s'); "
    "other_v: the gain by the V of another seed; higher: share of goals with the higher V; near: share of goals as "
    "near to a recorded next state as these are to each other; gain_near, gain_far: the gain of goals that are near, "
    "and of the others."
)


# -- the numbers -----------------------------------------------------------------------------------


def measured(
    context: Context, trained: Run, dataset: Dataset, plane: bool, space: Space | None = None
) -> list[dict[str, Floats]]:
    """Arrays with one entry per pair, for each seed; all seeds have the same pairs, with x and y on a plane.

    space   the slow directions in which distances are measured; None: all columns
    """
    columns = prepare.goals(dataset, trained.plan.config.horizon, trained.plan.config.discount)
    usable = np.flatnonzero(columns["aimed"] > 0)
    rows = np.random.default_rng(0).permutation(usable)[: min(context.size.steps or PAIRS, PAIRS)]
    states, following = dataset.observations[rows], columns.get("goals", dataset.next_observations)[rows]
    scale = np.where(dataset.observation_moments[1] > 0, dataset.observation_moments[1], 1.0)
    place, _ = placing(space, scale)

    def placed(states: Floats) -> Floats:
        # When 100 000 points fill a plane, distances to the nearest one need double precision.
        return place(states.astype(np.float64)).astype(np.float64)

    recorded = placed(following)
    own = nearest(recorded, recorded, 1, own=np.arange(len(rows)))[1][:, 0]
    found = []
    for number, policy in enumerate(context.each(trained.policies, f"{dataset.name}: distances")):
        goals = policy.guide(states)
        scaled = placed(goals)
        others = trained.policies[(number + 1) % len(trained.policies)]
        each = {
            "value": policy.value(following),
            "goal_value": policy.value(goals),
            "distance": nearest(scaled, recorded, 1)[1][:, 0],
            "own": own,
            "following": recorded,
            "goals": scaled,
        }
        if others is not policy:
            each["other_gain"] = others.value(goals) - others.value(following)
        if plane:
            each |= {"x": following[:, 0], "y": following[:, 1], "goal_x": goals[:, 0], "goal_y": goals[:, 1]}
        found.append(each)
    return found


def summary(name: str, seed: int, pairs: Points) -> Row:
    """The numbers of one agent."""
    gain = pairs["goal_value"].astype(np.float64) - pairs["value"]
    near = pairs["distance"] <= pairs["own"]
    spread = float(pairs["value"].astype(np.float64).std())
    return {
        "data": name,
        "seed": seed,
        "pairs": len(gain),
        "gain": float(gain.mean()),
        "deviations": float(gain.mean()) / spread if spread > 0 else None,
        "other_v": float(pairs["other_gain"].mean(dtype=np.float64)) if "other_gain" in pairs else None,
        "higher": float((gain > 0).mean()),
        "near": float(near.mean()),
        "gain_near": float(gain[near].mean()) if near.any() else None,
        "gain_far": float(gain[~near].mean()) if not near.all() else None,
    }


def embedded(context: Context, name: str, following: Floats, goals: Floats, kept: str = "t-sne") -> dict[str, Floats]:
    """Both kinds of states in one t-SNE, which is kept, so that the same states are embedded only once."""
    states = np.concatenate([following, goals])
    file, wanted_hash = context.runs / name / f"{kept}.safetensors", sha256(states.tobytes()).hexdigest()
    try:
        arrays, found_hash = read_arrays(file)
    except WaypostError:  # missing or damaged
        arrays, found_hash = {}, None
    if found_hash != wanted_hash or "plane" not in arrays:
        arrays = {"plane": tsne(context, name, states)}
        write_arrays(file, arrays, wanted_hash)
    (x, goal_x), (y, goal_y) = (np.split(axis, [len(following)]) for axis in arrays["plane"].T)
    return {"tsne_x": x, "tsne_y": y, "goal_tsne_x": goal_x, "goal_tsne_y": goal_y}


def tsne(context: Context, name: str, states: Floats) -> Floats:
    """The states in a plane, (states, 2)."""
    from openTSNE import TSNE

    every, calls = 50, (250 + 500) // 50
    with context.counting(f"{name}: t-SNE") as count:
        done = iter(range(1, calls + 1))
        plane = TSNE(
            perplexity=min(PERPLEXITY, (len(states) - 1) / 3),
            initialization="pca" if states.shape[1] > 1 else "random",
            early_exaggeration_iter=250,
            n_iter=500,
            n_jobs=1,
            random_state=0,
            callbacks=lambda *_: count(next(done), calls),
            callbacks_every_iters=every,
        )
        return np.asarray(plane.fit(states))


# -- the text --------------------------------------------------------------------------------------


def _text(rows: Sequence[dict[str, Any]], seeds: Sequence[Row]) -> str:
    """Every number is from the tables."""
    algorithms, by_seed = guides.by_algorithm(rows), guides.by_algorithm(seeds)
    ahead = "states s' as far ahead as the guide looks" if "horizon" in rows[0] else "next states s'"
    texts = [
        f"""V and guide of {listed(algorithms)} were trained on {listed(dict.fromkeys(row["data"] for row in rows))}
        with {many(rows[0]["seeds"], "seed")} each. {guides.ours(rows)}
        For pairs (s, s') drawn from each data set the guide's goals g(s) are compared with the recorded {ahead}. The
        paper colours by the optimal value; here V is the agent's own. A guide may only have learned what its own V
        prefers, so the V of another seed is shown too.""",
        *map(_reading, rows),
        *(_order(own, by_seed.get(name, [])) for name, own in algorithms.items()),
    ]
    return paragraphs(*texts)


def _order(rows: Sequence[Row], seeds: Sequence[Row]) -> str:
    """Where one algorithm gains more; empty if it was not trained on both data sets."""
    known: dict[str, Mapping[str, Any]] = {row_of(str(row["data"])): row for row in rows}
    more, less = (known.get(name, {}).get("deviations") for name in (MORE, LESS))
    if more is None or less is None:
        return ""
    text = f"""In standard deviations of V over the data the gain{guides.whose(rows[0])} is {more:.3g} on {MORE} and
        {less:.3g} on {LESS}. The paper sees the larger gain on {MORE}, and
        {"so do we" if more > less else "we do not"}."""
    # What can be checked if the gain is larger on the other data set: chance, and another measure.
    checked = []
    for name in () if more > less else (MORE, LESS):
        found = [float(str(row["deviations"])) for row in seeds if row_of(str(row["data"])) == name]
        checked.append(
            f"on {name} the seeds have {min(found):.3g} to {max(found):.3g}, and "
            f"{known[name]['higher']:.0%} of the goals have the higher V"
        )
    return text + (f" Checked: {'; '.join(checked)}." if checked else "")


def _reading(row: Mapping[str, Any]) -> str:
    other = "" if row["other_v"] is None else f", and {row['other_v']:.3g} by the V of another seed"
    if row["gain_near"] is None or row["gain_far"] is None:
        beyond = "All goals are near the data." if row["near"] == 1 else "No goal is near the data."
    else:
        more = row["gain_far"] > max(row["gain_near"], 0)
        beyond = f"""Goals outside the data gain {row["gain_far"]:.3g}, the near ones {row["gain_near"]:.3g}: goals
        outside the data are {"worth more, as the paper says" if more else "not worth more, unlike in the paper"}."""
    return f"""
        **{guides.title(row)}**, {length(row)}, {row["pairs"]} pairs:
        the mean of V(g(s)) - V(s') is {row["gain"]:.3g}{other};
        {row["higher"]:.0%} of the goals have the higher V. The paper says that goals are worth more,
        {"and here they are" if row["gain"] > 0 else "here they are not"}. {row["near"]:.0%} of the goals are as near to
        a {guides.recorded(row)} as these are to each other; about half of new rows of the data would be.
        {guides.distances(row)} {beyond}
        """


# -- the figure ------------------------------------------------------------------------------------

RECORDED_COLOUR, GOAL_COLOUR = "#e69f00", "#0072b2"


@STYLED
def draw(pairs: Points, layout: Layout | None, recorded_name: str = "recorded next state") -> Figure:
    """By source, V of the recorded states and V of the goals; a second row shows the same in a maze."""
    # Three panels across leave each about 2.5 inches; the lower row then has the height of the maze.
    x0, x1, y0, y1 = layout.extent if layout else (0.0, 1.0, 0.0, 0.0)
    figure = new_figure(9.0, 3.5 if layout is None else 3.8 + 2.5 * (y1 - y0) / (x1 - x0))
    grid = figure.subplots(1 if layout is None else 2, 3, squeeze=False)
    low, high = np.quantile(np.concatenate([pairs["value"], pairs["goal_value"]]), (0.01, 0.99))
    count = len(pairs["value"])
    # Drawn in random order, so that neither source covers the other.
    colours, order = np.repeat([RECORDED_COLOUR, GOAL_COLOUR], count), np.random.default_rng(0).permutation(2 * count)
    for panels, (x, y) in zip(grid, (("tsne_x", "tsne_y"), ("x", "y")), strict=False):
        recorded, goals = (np.stack([pairs[kind + x], pairs[kind + y]], axis=1) for kind in ("", "goal_"))
        both = np.concatenate([recorded, goals])
        for axes, places, look in (
            (panels[0], both[order], {"color": colours[order]}),
            (panels[1], recorded, {"c": pairs["value"], "vmin": low, "vmax": high}),
            (panels[2], goals, {"c": pairs["goal_value"], "vmin": low, "vmax": high}),
        ):
            # Dots get smaller with their number; they are pixels, because no viewer handles 200 000 shapes.
            size = float(np.clip(20_000 / len(places), 0.3, 8.0))
            drawn = axes.scatter(*places.T, s=size, linewidths=0, rasterized=True, zorder=2, **look)
            if x == "x" and layout is not None:
                draw_layout(axes, layout)
            else:
                margin = 0.03 * np.ptp(both, axis=0)
                (left, bottom), (right, top) = both.min(axis=0) - margin, both.max(axis=0) + margin
                axes.set(xlim=(left, right), ylim=(bottom, top))
                axes.set(box_aspect=1, xticks=[], yticks=[], xlabel="t-SNE 1", ylabel="t-SNE 2")
            if axes is not panels[0]:
                axes.set_ylabel("")
        colour_bar(figure, panels[2], drawn, "value V")
    grid[0][0].set_title("source")
    grid[0][1].set_title(f"V(s'), mean {pairs['value'].mean():.3g}")
    grid[0][2].set_title(f"V(g(s)), mean {pairs['goal_value'].mean():.3g}")
    handles = [
        Line2D([], [], color=colour, marker="o", ls="", ms=5, label=label)
        for colour, label in ((GOAL_COLOUR, "g(s), the guide's goal"), (RECORDED_COLOUR, f"s', {recorded_name}"))
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    return figure
