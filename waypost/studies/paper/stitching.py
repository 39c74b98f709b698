"""The grid world of Section 4.1: the cost of choosing only among recorded actions.

The agent walks from the lower left to the upper right corner of a grid, to any of the 8 neighbours in a move. Entering
the goal gives reward 0 and ends the episode, every other move gives -1. The data are two suboptimal trajectories from
the start to the goal and transitions of random actions at random cells.

V is computed from the data alone, by dynamic programming on the recorded transitions (in-sample, undiscounted):

    V(goal) = 0,    V(s) = max over recorded (s, s') of r(s, s') + V(s')

so V(s) = 1 - (moves of the shortest recorded path from s to the goal), and a cell without such a path has no value.
Two rules use it differently. They are read here as:

    action-stitching   at s, choose among the actions recorded AT s the one that leads to the best s'
    state-stitching    at s, choose among ALL 8 moves that lead to a cell in the data, no matter from where it was
                       entered there, the one that leads to the best s'

The best is the highest r + V(s'). For two cells that are not the goal this is the order of V(s'), as in the paper; it
also puts the goal before the cells next to it, whose value is 0 too. Equally good moves are all followed, so a rule
gives one path or several.

At every s with a value some recorded move leads to a cell that is one move nearer to the goal in the data, and both
rules may take it. Action-stitching gets nearer by one with every move, state-stitching by at least one: both arrive,
and state-stitching never takes longer.

The paper does not print its data. The trajectories below are ours, chosen to give the paper's numbers of steps, and the
seed is one of the many that do not change them; the other draws are counted too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from waypost.figures import STYLED, colour_bar, new_axes
from waypost.studies.paper.experiment import Context, Drawing, Outcome, Row, Table
from waypost.studies.paper.words import paragraphs

Cell = tuple[int, int]
"""A state: x to the right, y upwards."""
Move = tuple[Cell, Cell]
"""A transition from a cell to a neighbour."""
Path = list[Cell]

SIZE = 7
START: Cell = (0, 0)
GOAL: Cell = (SIZE - 1, SIZE - 1)
DIRECTIONS = [(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1) if (x, y) != (0, 0)]

# fmt: off
UPPER: Path = [
    START, (0, 1), (0, 2), (0, 3), (1, 3), (1, 4), (2, 4), (3, 5), (4, 5), (4, 6), (5, 6), (5, 5), (6, 4), (6, 5), GOAL,
]
LOWER: Path = [
    START, (1, 0), (2, 0), (2, 1), (3, 2), (3, 3), (4, 3), (5, 3), (5, 4), (6, 4), (5, 5), (5, 6), GOAL,
]
# fmt: on
RANDOM = 16
"""Number of random transitions."""
SEED = 44
"""Seed of the draw that is shown."""

WORDS = {(0, 1): "up", (1, 1): "diagonal", (1, 0): "right"}
"""Names of the cells next to the start."""
ACTION, STATE = "action-stitching", "state-stitching"
PAPER = {ACTION: "11", STATE: "7 or 8"}
"""Steps of each rule in the paper."""


class Solution(NamedTuple):
    """The result of the two rules on some data."""

    value: dict[Cell, int]
    paths: dict[str, list[Path]]
    """All paths of each rule."""


def neighbours(cell: Cell) -> list[Cell]:
    """All neighbours of a cell."""
    around = [(cell[0] + x, cell[1] + y) for x, y in DIRECTIONS]
    return [(x, y) for x, y in around if 0 <= x < SIZE and 0 <= y < SIZE]


def moves(path: Path) -> list[Move]:
    return list(pairwise(path))


def random_moves(seed: int) -> list[Move]:
    """Random actions at random cells; at the goal the episode is over."""
    rng = np.random.default_rng(seed)
    cells = [(x, y) for x in range(SIZE) for y in range(SIZE) if (x, y) != GOAL]
    found = []
    for _ in range(RANDOM):
        cell = cells[rng.integers(len(cells))]
        near = neighbours(cell)
        found.append((cell, near[rng.integers(len(near))]))
    return found


def reward(following: Cell) -> int:
    return 0 if following == GOAL else -1


def values(data: Iterable[Move]) -> dict[Cell, int]:
    """V by dynamic programming: back up along the recorded transitions until nothing changes."""
    data = list(data)
    value = {GOAL: 0}
    while True:
        backed_up = {GOAL: 0}
        for cell, following in data:
            if following in value and cell != GOAL:
                backup = reward(following) + value[following]
                backed_up[cell] = max(backup, backed_up.get(cell, backup))
        if backed_up == value:
            return value
        value = backed_up


def follow(choices: Callable[[Cell], Iterable[Cell]], value: dict[Cell, int]) -> list[Path]:
    """All paths from the start that always move to the best of the choices."""
    arrived, under_way = [], [[START]]
    while under_way:
        path = under_way.pop()
        if path[-1] == GOAL:
            arrived.append(path)
            continue
        backups = {cell: reward(cell) + value[cell] for cell in choices(path[-1]) if cell in value}
        best = max(backups.values())
        under_way += [[*path, cell] for cell, backup in backups.items() if backup == best]
    return sorted(arrived, key=lambda path: (len(path), path))


def solve(data: Sequence[Move]) -> Solution:
    value = values(data)
    recorded: dict[Cell, set[Cell]] = {}
    for cell, following in data:
        recorded.setdefault(cell, set()).add(following)
    seen = {cell for move in data for cell in move}
    rules: dict[str, Callable[[Cell], Iterable[Cell]]] = {
        ACTION: lambda cell: recorded.get(cell, ()),
        STATE: lambda cell: seen.intersection(neighbours(cell)),
    }
    return Solution(value, {rule: follow(choices, value) for rule, choices in rules.items()})


def run(context: Context) -> Outcome:
    drawn = random_moves(SEED)
    parts = {"upper": moves(UPPER), "lower": moves(LOWER), "random": drawn}
    data = [move for part in parts.values() for move in part]
    solution = solve(data)
    walked = [(rule, path) for rule, found in solution.paths.items() for path in found]
    counts: list[Row] = [
        {
            "rule": rule,
            "first move": WORDS.get(path[1]),
            "steps": len(path) - 1,
            "unrecorded": sum(move not in data for move in moves(path)),
            "paper": PAPER.get(rule),
        }
        for rule, path in (*walked, ("recorded", UPPER), ("recorded", LOWER))
    ]
    draws: list[Row] = []
    for seed in context.each(range(context.size.seeds), "draws"):
        found = solve([*parts["upper"], *parts["lower"], *random_moves(seed)]).paths
        # Paths are sorted by length, and every path of action-stitching is a shortest one.
        action, state, longest = (len(path) - 1 for path in (found[ACTION][0], found[STATE][0], found[STATE][-1]))
        draws.append({"seed": seed, "action": action, "state": state, "state_longest": longest})
    paths: list[Row] = [
        {"rule": rule, "path": number, "step": step, "x": x, "y": y}
        for rule, several in solution.paths.items()
        for number, path in enumerate(several, 1)
        for step, (x, y) in enumerate(path)
    ]
    known: list[Row] = [{"x": x, "y": y, "value": solution.value.get((x, y))} for x in range(SIZE) for y in range(SIZE)]
    transitions: list[Row] = [
        {"part": part, "x": a[0], "y": a[1], "next_x": b[0], "next_y": b[1], "reward": reward(b)}
        for part, recorded in parts.items()
        for a, b in recorded
    ]
    count = "Steps of every path and of the recorded trajectories, and the number of steps that are not in the data."
    tables = {
        "counts": Table(counts, count, shown=True),
        "draws": Table(draws, "Steps of both rules for each draw of the random transitions."),
        "paths": Table(paths, "Every cell of every path."),
        "values": Table(known, "V of every cell; none if no recorded path leads to the goal."),
        "transitions": Table(transitions, "The data."),
    }
    drawing = Drawing(
        draw(solution, drawn),
        "The data (thin), V of each cell from the data alone (number and colour) and every path of the two rules. "
        "Cells without a number have no recorded path to the goal.",
        f"Grid of {SIZE} by {SIZE} cells: blue paths along recorded arrows, shorter orange ones that cut corners.",
    )
    return Outcome(_text(tables), {"stitching": drawing}, tables)


def _text(tables: dict[str, Table]) -> str:
    """Every number is from the tables."""
    rows = tables["counts"].rows
    steps = {rule: [row["steps"] for row in rows if row["rule"] == rule] for rule in (ACTION, STATE, "recorded")}
    first = [_either([row["first move"] for row in rows if row["rule"] == rule], "and") for rule in (ACTION, STATE)]
    state = _either([f"{row['steps']} ({row['unrecorded']} unrecorded)" for row in rows if row["rule"] == STATE])
    draws = np.array([[row[name] for name in ("action", "state", "state_longest")] for row in tables["draws"].rows])
    action, _, longest = draws.T
    # The shortest path comes first.
    same = (draws == [steps[ACTION][0], steps[STATE][0], steps[STATE][-1]]).all(axis=1)
    parts = [row["part"] for row in tables["transitions"].rows]
    return paragraphs(
        f"""
        The data are two trajectories of {_either(steps["recorded"], "and")} steps and {parts.count("random")} random
        transitions; V is computed from them by dynamic programming. **Action-stitching**, limited to the actions
        recorded at each cell, takes {_either(steps[ACTION])} steps: it joins the trajectories where they meet.
        **State-stitching** may make any of the 8 moves that lead to a recorded cell and takes {state} steps. The paper
        reports {PAPER[ACTION]} against {PAPER[STATE]}. The first moves that tie are {first[0]} for action-stitching and
        {first[1]} for state-stitching; in the paper up and right for both.
        """,
        f"""
        The paper does not print its data. The trajectories are chosen to give its numbers, and the random transitions
        are a draw that does not change them. Of {len(draws)} draws {same.sum()} give these numbers. State-stitching
        takes fewer steps in {(longest < action).sum()} of them and more in {(longest > action).sum()}, although its
        longest path counts if paths tie: {longest.mean():.1f} steps on average, against {action.mean():.1f} for
        action-stitching.
        """,
    )


def _either(items: Sequence[object], word: str = "or") -> str:
    """The distinct items in words: 7 or 8."""
    different = sorted({str(item) for item in items}, key=lambda text: (len(text), text))
    return f" {word} ".join(different)


# -- the figure ------------------------------------------------------------------------------------

DATA_COLOUR, ACTION_COLOUR, STATE_COLOUR = "#00795a", "#0072b2", "#d55e00"


@STYLED
def draw(solution: Solution, drawn: Sequence[Move]) -> Figure:
    """Cells coloured by V, the data as thin arrows and the paths of the two rules beside them."""
    figure, axes = new_axes(5.0, 4.9)
    value = np.full((SIZE, SIZE), np.nan)
    for (x, y), known in solution.value.items():
        value[y, x] = known
        axes.text(x + 0.45, y - 0.44, f"{known}", fontsize=7, color="0.2", ha="right", va="bottom")
    # The dark half of the colour map would hide the arrows.
    pale = ListedColormap(matplotlib.colormaps["Purples"](np.linspace(0.05, 0.62, 256)), "pale purple")
    colour_bar(figure, axes, axes.imshow(value, origin="lower", cmap=pale), "value V(s)")
    axes.text(START[0] - 0.46, START[1] - 0.44, "start", fontsize=7, va="bottom", weight="bold")
    axes.text(GOAL[0] + 0.45, GOAL[1] + 0.44, "goal", fontsize=7, ha="right", va="top", weight="bold")
    kinds: list[tuple[str, Sequence[Sequence[Move]], float, str, float, str]] = [
        ("recorded trajectories", [moves(UPPER), moves(LOWER)], 0.0, DATA_COLOUR, 1.1, "-"),
        ("random transitions", [drawn], 0.0, DATA_COLOUR, 0.9, ":"),
    ]
    for rule, colour, shift in ((ACTION, ACTION_COLOUR, 0.13), (STATE, STATE_COLOUR, -0.13)):
        paths = solution.paths[rule]
        label = f"{rule}: {_either([len(path) - 1 for path in paths])} steps"
        kinds.append((label, [moves(path) for path in paths], shift, colour, 2.2, "-"))
    for _, several, shift, colour, width, line in kinds:
        head = f"-|>,head_length={0.28 + 0.06 * width},head_width={0.1 + 0.05 * width}"
        look = {"arrowstyle": head, "color": colour, "lw": width, "ls": line, "shrinkA": 0, "shrinkB": 0}
        for found in several:
            for move in dict.fromkeys(found):
                start, end = ((x - shift, y + shift) for x, y in move)
                axes.annotate("", end, start, arrowprops=look)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(np.arange(SIZE))
        axis.set_ticks(np.arange(SIZE + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="0.8", lw=0.6)
    axes.tick_params(which="both", length=0)
    axes.set(xlabel="x", ylabel="y", xlim=(-0.5, SIZE - 0.5), ylim=(-0.5, SIZE - 0.5))
    handles = [
        Line2D([], [], color=colour, lw=max(width, 1.1), ls=line, label=label)
        for label, _, _, colour, width, line in kinds
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    return figure
