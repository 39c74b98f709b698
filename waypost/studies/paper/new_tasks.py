"""Three tasks with one executor: four rooms, as in Figure 4 of the paper.

All parts of POR are trained on Task A, to get from the start to the goal. For Task B, which has a river to avoid, and
Task C, which has a key to fetch first, only V and guide are trained again, from data without actions. All agents of B
and C act with the executor of A's first seed, which is checked to be bit-identical afterwards.

Whether the key is held is a third number of Task C's states, without which the next step could not be chosen. V and
guide see it, the executor sees only the two it was trained on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from waypost.envs import four_rooms as rooms
from waypost.envs.tasks import task as find_task
from waypost.figures import STYLED, colour_bar, new_figure
from waypost.figures.maps import draw_rollouts
from waypost.studies.paper.experiment import Context, Drawing, Outcome, Row, Table, over_seeds
from waypost.studies.paper.scores import load_data, require_same_parts, update_counts
from waypost.studies.paper.words import length, listed, many, paragraphs
from waypost.training.evaluation import rollouts
from waypost.training.runs import Run

TASKS = {
    "A": (rooms.Variant.PLAIN, "to the goal"),
    "B": (rooms.Variant.RIVER, "round the river"),
    "C": (rooms.Variant.KEY, "with the key"),
}
EPISODES = 100
FIRST_EPISODE = 50_000
"""Seed of the first rollout, different from those of the trainings' evaluations."""
ENOUGH = 90
"""Rollouts of 100 that must arrive to call a task solved."""


class Journeys(NamedTuple):
    """Rollouts of one agent."""

    paths: Sequence[np.ndarray]
    """Positions, (t, 2)."""
    arrived: np.ndarray
    drowned: np.ndarray


def run(context: Context) -> Outcome:
    first = context.train("por", load_data(context, TASKS["A"][0]), label="A")
    trained = {"A": first}
    for name in ("B", "C"):
        dataset = load_data(context, TASKS[name][0]).without_actions()
        trained[name] = context.train("por", dataset, label=name, training="guide", init=first.directory)
        require_same_parts(trained[name], first, "executor")
    seeds: list[Row] = []
    drawn: dict[str, Journeys] = {}
    for name, done in context.each(list(trained.items()), "rollouts"):
        seen = journeys(done, TASKS[name][0])
        drawn[name] = seen[0]
        seeds += [measured(name, policy.seed, found, done) for policy, found in zip(done.policies, seen, strict=True)]
    means = over_seeds(seeds, ("task", "data"), ("updates", "preset_updates", "seconds"))
    for row in means:
        row["fewest"] = min(int(str(each["arrived"])) for each in seeds if each["task"] == row["task"])
        row["share"] = row["seconds"] / means[0]["seconds"]
    paths: list[Row] = [
        {"task": name, "rollout": number, "step": step, "x": float(x), "y": float(y)}
        for name, found in drawn.items()
        for number, path in enumerate(found.paths)
        for step, (x, y) in enumerate(path)
        if step % 10 == 0 or step == len(path) - 1
    ]
    tables = {
        "new-tasks": Table(means, CAPTION, shown=True),
        "seeds": Table(seeds, "The same for each seed."),
        "paths": Table(paths, "Every tenth position of the rollouts in the figure, and the last."),
    }
    drawing = Drawing(
        draw(drawn),
        f"{EPISODES} rollouts of the first seed in each task, darker over time. The executor is the same in all.",
        "Three maps of four rooms with the paths of the rollouts: an empty one, one with rivers, one with rivers and a "
        "key.",
    )
    return Outcome(_text(means), {"new-tasks": drawing}, tables)


CAPTION = (
    f"arrived: rollouts of {EPISODES} that solve the task, mean over seeds; fewest: of the worst seed; lower_door: "
    "share of rollouts that leave the first room by the door at the bottom; seconds: training and evaluation; share: "
    "of Task A's seconds."
)


def journeys(trained: Run, variant: str) -> list[Journeys]:
    """The rollouts of each seed."""
    agents = [policy.agent for policy in trained.policies]
    seen = rollouts(agents, find_task(variant), EPISODES, FIRST_EPISODE, paths=True)
    return [
        Journeys([path[:, :2] for path in paths], returns > 0, returns < 0)
        for paths, returns in zip(seen.paths, seen.returns, strict=True)
    ]


def by_lower_door(path: np.ndarray) -> bool:
    """Whether the first step out of the lower left room goes right, not up."""
    out = np.flatnonzero((path > 9.5).any(axis=1))
    return bool(len(out) and path[out[0], 0] > 9.5)


def measured(name: str, seed: int, found: Journeys, trained: Run) -> Row:
    steps = [len(path) - 1 for path, arrived in zip(found.paths, found.arrived, strict=True) if arrived]
    return {
        "task": name,
        "data": TASKS[name][0].value,
        "seed": seed,
        "arrived": int(found.arrived.sum()),
        "drowned": int(found.drowned.sum()),
        "out_of_time": int((~found.arrived & ~found.drowned).sum()),
        "steps": float(np.mean(steps)) if steps else None,
        "lower_door": float(np.mean([by_lower_door(path) for path in found.paths])),
        **update_counts(trained),
        "seconds": trained.result["seconds"],
    }


def _text(means: Sequence[dict[str, Any]]) -> str:
    """Every number is from the table."""
    a, b, c = means
    solved = [row["task"] for row in means if row["fewest"] >= ENOUGH]
    worst = [f" (worst seed {row['fewest']})" if row["seeds"] > 1 else "" for row in means]
    arrived = (f"{row['arrived']:.3g}{low} in Task {row['task']}" for row, low in zip(means, worst, strict=True))
    fallen = [f"{row['drowned']:.3g} in Task {row['task']}" for row in (b, c) if row["drowned"]]
    return paragraphs(
        f"""All of POR was trained on Task A with {many(a["seeds"], "seed")} of {length(a)}; for Tasks B and C only V
        and guide, on data without actions, with the executor of A's first seed. Its weights were compared afterwards
        and are bit-identical. Each agent made {EPISODES} rollouts.""",
        f"""**Arrived, of {EPISODES}**: {listed(arrived)}. With at least {ENOUGH} for every seed, **{len(solved)} of 3**
        tasks ({listed(solved)}) are solved; the paper says that all three are.""",
        f"""In Task A {a["lower_door"]:.0%} of the rollouts leave the first room by the lower door, in Task B
        {b["lower_door"]:.0%}, in Task C {c["lower_door"]:.0%}: the key lies behind it, and the paper's agent takes only
        that door. {f"Into a river fall {listed(fallen)}." if fallen else "No rollout falls into a river."}""",
        f"""Training and evaluation took {a["seconds"]:.0f} s for Task A, {b["seconds"]:.0f} s for Task B
        ({b["share"]:.0%}) and {c["seconds"]:.0f} s for Task C ({c["share"]:.0%}), whose data hold every episode twice,
        without the key and with it. `waypost adapt RUN` does the same for any run.""",
    )


@STYLED
def draw(found: Mapping[str, Journeys]) -> Figure:
    """A map for each task, with a common time scale."""
    longest = max(len(path) - 1 for each in found.values() for path in each.paths)
    figure = new_figure(9.0, 3.5)
    panels = figure.subplots(1, len(found))
    for axes, (name, each) in zip(panels, found.items(), strict=True):
        variant, words = TASKS[name]
        lines = draw_rollouts(axes, rooms.layout(variant), each.paths, each.arrived.tolist(), longest)
        axes.set_title(f"Task {name}: {words}\n{axes.get_title()}", loc="center")
        if axes is not panels[0]:
            axes.set_ylabel("")
    colour_bar(figure, panels[-1], lines, "step")
    named = [pair for axes in panels for pair in zip(*axes.get_legend_handles_labels(), strict=True)]
    handles = {label: handle for handle, label in named}
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=3, frameon=False)
    return figure
