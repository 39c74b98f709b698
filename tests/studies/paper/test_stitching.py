"""The grid world of Section 4.1: both rules counted a second time by other means."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from experiments import rows

from waypost.studies.paper import stitching
from waypost.studies.paper.run import run
from waypost.studies.paper.stitching import ACTION, GOAL, LOWER, SEED, SIZE, START, STATE, UPPER, Cell, Move

TRAJECTORIES = [*stitching.moves(UPPER), *stitching.moves(LOWER)]
DATA = [*TRAJECTORIES, *stitching.random_moves(SEED)]


# -- the oracle: distances by breadth-first search, and every way a rule may go ----------------------


def near(a: Cell, b: Cell) -> bool:
    return max(abs(a[0] - b[0]), abs(a[1] - b[1])) == 1


def distances(data: list[Move]) -> dict[Cell, int]:
    """Moves from each cell to the goal along recorded transitions, by a search backwards from the goal."""
    found, queue = {GOAL: 0}, deque([GOAL])
    while queue:
        cell = queue.popleft()
        for before, after in data:
            if after == cell and before not in found:
                found[before] = found[cell] + 1
                queue.append(before)
    return found


def options(rule: str, cell: Cell, data: list[Move]) -> set[Cell]:
    if rule == ACTION:
        return {after for before, after in data if before == cell}
    seen = {each for move in data for each in move}
    return {each for each in seen if near(each, cell)}


def counts(rule: str, data: list[Move], cell: Cell = START) -> list[int]:
    """Steps of all ways from the cell to the goal that always move as near to it as the rule allows."""
    if cell == GOAL:
        return [0]
    far = distances(data)
    known = {each for each in options(rule, cell, data) if each in far}
    nearest = min(far[each] for each in known)
    return sorted(1 + more for each in known if far[each] == nearest for more in counts(rule, data, each))


def steps(data: list[Move], rule: str) -> list[int]:
    return [len(path) - 1 for path in stitching.solve(data).paths[rule]]


# -- the layout that is shown ------------------------------------------------------------------------


def test_the_counts_are_the_papers() -> None:
    assert counts(ACTION, DATA) == [11, 11]
    assert counts(STATE, DATA) == [7, 8]
    assert steps(DATA, ACTION) == [11, 11]
    assert steps(DATA, STATE) == [7, 8]


def test_action_stitching_is_the_shortest_recorded_way() -> None:
    assert distances(DATA)[START] == 11
    assert min(len(UPPER), len(LOWER)) - 1 > 11  # neither trajectory holds it whole


def test_the_value_is_the_distance_in_the_data() -> None:
    far = distances(DATA)
    assert stitching.values(DATA) == {cell: min(0, 1 - moves) for cell, moves in far.items()}


def test_the_data_are_walks_from_corner_to_corner_and_random_moves() -> None:
    for path in (UPPER, LOWER):
        assert (path[0], path[-1]) == ((0, 0), (SIZE - 1, SIZE - 1))
        assert len(set(path)) == len(path)
    drawn = stitching.random_moves(SEED)
    assert len(drawn) == stitching.RANDOM
    for before, after in DATA:
        assert near(before, after)
        assert before != GOAL
        assert all(0 <= axis < SIZE for axis in (*before, *after))


def test_every_step_obeys_its_rule() -> None:
    paths = stitching.solve(DATA).paths
    seen = {cell for move in DATA for cell in move}
    for path in paths[ACTION]:
        assert all(move in DATA for move in stitching.moves(path))
    for path in paths[STATE]:
        assert all(near(*move) and move[1] in seen for move in stitching.moves(path))
        assert any(move not in DATA for move in stitching.moves(path))


def test_the_papers_example_of_an_unrecorded_move_is_there() -> None:
    """At (5, 4) the agent goes to (6, 5), though what is recorded there leads elsewhere."""
    move = ((5, 4), (6, 5))
    assert move not in DATA
    assert any(before == (5, 4) for before, _ in DATA)
    assert any(move in stitching.moves(path) for path in stitching.solve(DATA).paths[STATE])


@pytest.mark.parametrize("rule", [ACTION, STATE])
def test_ties_are_ties_and_there_is_nothing_better(rule: str) -> None:
    value, paths = stitching.solve(DATA)
    both = paths[rule]
    assert {path[1] for path in both} == {(0, 1), (1, 0)}
    assert value[both[0][1]] == value[both[1][1]]
    far = distances(DATA)
    for path in both:
        for before, after in stitching.moves(path):
            allowed = [far[each] for each in options(rule, before, DATA) if each in far]
            assert far[after] == min(allowed)
            # Only the first move has a choice; elsewhere one move is the best.
            assert allowed.count(min(allowed)) == (2 if before == START else 1)


# -- other layouts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "action", "state"),
    [
        (lambda data: [move for move in data if move != ((5, 6), GOAL)], [11], [7]),
        (lambda data: [move for move in data if move != ((6, 4), (6, 5))], [11], [8]),
        (lambda data: [*data, ((5, 4), (6, 5))], [10], [7]),
        (lambda data: [*data, (START, (1, 1)), ((1, 1), (2, 1))], [10], [7]),
    ],
    ids=["without the upper end", "without the lower end", "with a short cut", "with a better first move"],
)
def test_another_layout_gives_other_counts(
    change: Callable[[list[Move]], list[Move]], action: list[int], state: list[int]
) -> None:
    data = change(DATA)
    assert (steps(data, ACTION), steps(data, STATE)) == (counts(ACTION, data), counts(STATE, data))
    assert (steps(data, ACTION), steps(data, STATE)) != ([11, 11], [7, 8])
    assert (sorted(set(steps(data, ACTION))), sorted(set(steps(data, STATE)))) == (action, state)


def test_random_layouts_agree_with_the_oracle() -> None:
    for seed in range(12):
        data = [*TRAJECTORIES, *stitching.random_moves(seed)]
        for rule in (ACTION, STATE):
            assert steps(data, rule) == counts(rule, data)
        assert len(set(steps(data, ACTION))) == 1
        assert max(steps(data, STATE)) <= steps(data, ACTION)[0]


# -- what is written ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("paper")
    run("stitching", out, quick=True, seeds=20)
    return out / "stitching"


def test_the_tables_hold_what_the_oracle_says(folder: Path) -> None:
    table = rows(folder, "counts")
    for rule in (ACTION, STATE):
        assert [int(row["steps"]) for row in table if row["rule"] == rule] == counts(rule, DATA)
    data = [((int(r["x"]), int(r["y"])), (int(r["next_x"]), int(r["next_y"]))) for r in rows(folder, "transitions")]
    assert data == DATA
    for row in rows(folder, "draws"):
        drawn = [*TRAJECTORIES, *stitching.random_moves(int(row["seed"]))]
        state = steps(drawn, STATE)
        assert [int(row[name]) for name in ("action", "state", "state_longest")] == [
            steps(drawn, ACTION)[0],
            min(state),
            max(state),
        ]
    for name in ("counts", "draws", "paths", "values", "transitions"):
        kept = json.loads((folder / f"{name}.json").read_text())
        assert [{key: "" if v is None else str(v) for key, v in row.items()} for row in kept] == rows(folder, name)


def test_the_figure_shows_the_numbers_of_the_tables(folder: Path) -> None:
    solution = stitching.solve(DATA)
    (axes,) = [axes for axes in stitching.draw(solution, stitching.random_moves(SEED)).axes if axes.images]
    texts = [each for each in axes.texts if re.fullmatch(r"-?\d+", each.get_text())]
    written = {(round(t.get_position()[0]), round(t.get_position()[1])): t.get_text() for t in texts}
    assert written == {(int(r["x"]), int(r["y"])): r["value"] for r in rows(folder, "values") if r["value"]}
    colours = axes.images[0].get_array()
    for (x, y), value in written.items():
        assert colours[y, x] == int(value)
    for rule, colour in ((ACTION, stitching.ACTION_COLOUR), (STATE, stitching.STATE_COLOUR)):
        arrows = {
            ((round(a.xyann[0]), round(a.xyann[1])), (round(a.xy[0]), round(a.xy[1])))
            for a in axes.texts
            if getattr(a, "arrowprops", None) and a.arrowprops["color"] == colour
        }
        table = [row for row in rows(folder, "paths") if row["rule"] == rule]
        cells = [(row["path"], (int(row["x"]), int(row["y"]))) for row in table]
        assert arrows == {(a, b) for (p, a), (q, b) in pairwise(cells) if p == q}


def test_the_text_is_made_of_the_tables(folder: Path) -> None:
    text = " ".join((folder / "stitching.md").read_text().split())
    assert "two trajectories of 12 and 14 steps and 16 random transitions" in text
    assert "takes 11 steps" in text
    assert "takes 7 (4 unrecorded) or 8 (3 unrecorded) steps" in text
    draws = rows(folder, "draws")
    same = sum((r["action"], r["state"], r["state_longest"]) == ("11", "7", "8") for r in draws)
    assert f"Of 20 draws {same} give these numbers" in text
    mean = sum(int(row["action"]) for row in draws) / len(draws)
    assert f"against {mean:.1f} for action-stitching" in text
