"""From a finished run to its page: the maps show the agent's own values, goals and paths."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from waypost.agents import display_name
from waypost.envs.layout import Layout
from waypost.envs.tasks import TASKS, Protocol, Task
from waypost.errors import WaypostError
from waypost.figures.curves import as_table
from waypost.figures.maps import World
from waypost.files import write_text
from waypost.report.log import log_section
from waypost.report.page import Report, render_report
from waypost.report.verdict import verdict_of
from waypost.training.evaluation import MEASURES, rollouts as run_episodes
from waypost.training.policy import Policy
from waypost.training.runs import Run

GRID = 96
"""Points per side of a value map."""
ARROWS = 26
"""Arrows per side of a guide map."""
PLANE_EPISODES = 100
"""The most paths drawn."""
MAZE_EPISODES = 20
"""The same for simulators of bodies, which take longer."""


def write_report(run: Run, path: Path) -> Path:
    """Write the page of a run."""
    plan = run.plan
    report = Report(
        title=f"{display_name(plan.algorithm)} on {plan.data}",
        result=run.result,
        config=plan.to_json(),
        field_docs=field_docs(type(plan.config)),
        metrics=as_table(run.metrics),
        evaluations=as_table(run.evaluations) or {name: np.array([]) for name in ("step", "seed", *MEASURES)},
        names=[(side, ", ".join(getattr(run.policy.spec, f"{side}_names"))) for side in ("observation", "action")],
        worlds=worlds(run.policy, TASKS[plan.task], plan.evaluation) if plan.task in TASKS else (),
        log=log_section(run) if plan.task is None else None,
        verdict=verdict_of(run) if plan.task is None else None,
    )
    write_text(path, render_report(report))
    return path


def worlds(policy: Policy, task: Task, protocol: Protocol) -> list[tuple[str, World]]:
    """Maps of a plane task: the agent's values, its goals and its paths.

    The paths are those of its evaluation episodes, or the first of them.
    If a state holds more than a position and a key, only the paths can be drawn.
    """
    if task.layout is None:
        return []
    layout, size = task.layout(), policy.spec.observation_size
    try:
        episodes = min(protocol.episodes, PLANE_EPISODES if size <= 3 else MAZE_EPISODES)
        found = run_episodes([policy.actor], task, episodes, protocol.seed, paths=True)
        rollouts = [path[:, :2] for path in found.paths[0]]
        successes = list(found.successes[0]) if found.successes is not None else [False] * len(rollouts)
    except WaypostError:
        rollouts, successes = [], []  # an agent without an executor cannot act
    if size > 3:
        nowhere, blank = np.zeros((0, 2)), np.full((1, 1), np.nan)
        return [("", World(layout, np.zeros(1), np.zeros(1), blank, nowhere, nowhere, rollouts, successes))]
    x0, x1, y0, y1 = layout.extent
    grid = np.linspace(x0, x1, GRID), np.linspace(y0, y1, GRID)
    everywhere = _points(*grid)
    points = _points(*(np.linspace(a, b, 2 * ARROWS + 1)[1::2] for a, b in ((x0, x1), (y0, y1))))
    points = points[~_in_wall(points, layout)]
    # What the state holds besides the position (the key) gets one map for each of its values.
    cases = [("", ())] if size == 2 else [("Without the key", (0.0,)), ("With the key", (1.0,))]
    worlds = []
    for words, rest in cases:
        value = np.where(_in_wall(everywhere, layout), np.nan, _ask(policy.value, everywhere, rest, 1)[:, 0])
        targets = _ask(policy.guide, points, rest, size)[:, :2]
        shown = np.isfinite(targets).all(axis=1)
        value = value.reshape(GRID, GRID)
        worlds.append((words, World(layout, *grid, value, points[shown], targets[shown], rollouts, successes)))
        rollouts, successes = [], []  # once is enough
    return worlds


def _points(xs: np.ndarray, ys: np.ndarray) -> np.ndarray:
    return np.stack([axis.ravel() for axis in np.meshgrid(xs, ys)], axis=1)


def _in_wall(points: np.ndarray, layout: Layout) -> np.ndarray:
    inside = np.zeros(len(points), bool)
    for x, y, width, height in layout.walls:
        inside |= ((points >= (x, y)) & (points <= (x + width, y + height))).all(axis=1)
    return inside


def _ask(question: Any, points: np.ndarray, rest: tuple[float, ...], columns: int) -> np.ndarray:
    """The agent's output at points of the plane, or NaN if it has no such part."""
    states = np.column_stack([points, np.tile(rest, (len(points), 1))]) if rest else points
    try:
        return np.asarray(question(states), np.float64).reshape(len(points), columns)
    except WaypostError:
        return np.full((len(points), columns), np.nan)


def field_docs(config_type: type) -> dict[str, str]:
    """The one-line docstring of each field of a Config and its bases, read from their source."""
    docs = {}
    for each in reversed(config_type.__mro__[:-1]):
        body = ast.parse(inspect.getsource(each)).body[0]
        assert isinstance(body, ast.ClassDef)
        for pair in pairwise(body.body):
            match pair:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    docs[name] = text
    return docs
