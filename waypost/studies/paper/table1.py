"""Table 1: POR against every baseline on the 15 data sets, with the published scores beside ours.

The columns are the paper's. Two of them are the best of several algorithms on each data set, as there: RvS (by return
or by goal) and the best of five RL-based ones. RvS-G needs to be told a goal, so it is trained on the mazes only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from waypost.figures.scores import LOOKS, Mark, dots
from waypost.studies.paper import scores as trainings
from waypost.studies.paper.benchmark import COLUMNS, GROUPS, KINDS, NAMES, PRINTED_MEANS, TABLE_1, grouped, row_of
from waypost.studies.paper.experiment import Context, Drawing, Outcome, Row, Table
from waypost.studies.paper.scores import Score, number
from waypost.studies.paper.words import listed, many, paragraphs

COLUMN_OF = {name: column for column, members in COLUMNS.items() for name in members}


@dataclass(frozen=True)
class Grid:
    """The scores in the paper's columns."""

    data: Sequence[str]
    columns: Sequence[str]
    scores: Sequence[Score]

    def all(self, data: str, column: str) -> list[Score]:
        """The scores of a column's algorithms on a data set, under the names the paper has for them."""
        chosen = [each for each in self.scores if each.data == data and COLUMN_OF[each.kind] == column]
        return [replace(each, kind=NAMES[each.kind]) for each in chosen]

    def best(self, data: str, column: str) -> Score | None:
        """The score that counts in a column; None where nothing has one."""
        found = [score for score in self.all(data, column) if score.values]
        return max(found, key=lambda score: score.mean or 0.0) if found else None

    def mean(self, data: Sequence[str], column: str) -> float | None:
        """The mean of a column; None if it has a gap."""
        found = (self.best(name, column) for name in data)
        return trainings.mean(None if score is None else score.mean for score in found)


def run(context: Context) -> Outcome:
    pairs = [
        (data, name)
        for data in context.data
        for name in context.algorithms
        if name != "rvs-g" or row_of(data) in GROUPS["AntMaze"]
    ]
    scores = trainings.score_each(context, pairs, lambda data, name: trainings.train_and_score(context, name, data))
    columns = [name for name, members in COLUMNS.items() if set(members) & set(context.algorithms)]
    grid = Grid(context.data, columns, scores)
    trained: list[Row] = []
    for score in scores:
        column = COLUMN_OF[score.kind]
        mean, std, by = TABLE_1[row_of(score.data)][column]
        paper: Row = {"column": column, "paper_mean": mean, "paper_std": std, "paper_algorithm": by}
        named = {"algorithm" if key == "kind" else key: value for key, value in score.row().items()}
        trained.append({**named, **paper})
    caption = "Scores: mean and standard deviation over seeds. A column of several algorithms holds the best of them."
    tables = {"table1": Table(_rows(grid), caption, shown=True), **trainings.training_tables(scores, trained)}
    return Outcome(_text(context, grid), {"table1": _drawing(grid)}, tables)


def _rows(grid: Grid) -> list[Row]:
    """Two rows for each data set, and for the means of each group: ours and the paper's."""
    lines: dict[str, tuple[dict[str, str], dict[str, str]]] = {}
    for data in grid.data:
        ours, theirs = lines[data] = {}, {}
        for name in grid.columns:
            score, printed = grid.best(data, name), TABLE_1[row_of(data)][name]
            words = [] if score is None else [number(score.mean, score.std)]
            words += [score.kind] if score is not None and len(COLUMNS[name]) > 1 else []
            failed = [each.kind for each in grid.all(data, name) if not each.values]
            ours[name] = " ".join([*words, *([f"({', '.join(failed)} failed)"] if failed else [])])
            theirs[name] = number(printed.mean, printed.std) + (f" {printed.by}" if printed.by else "")
    for group, names in grouped(grid.data).items():
        ours = {name: number(grid.mean(names, name)) for name in grid.columns}
        theirs = {name: number(_paper_mean(names, name)) for name in grid.columns}
        lines[f"{group} mean of {len(names)}"] = ours, theirs
    rows: list[Row] = []
    for label, (ours, theirs) in lines.items():
        rows += [{"data": label, "suite": "replica", **ours}, {"data": label, "suite": "d4rl (paper)", **theirs}]
    return rows


def _paper_mean(data: Sequence[str], column: str) -> float:
    return sum(TABLE_1[row_of(name)][column].mean for name in data) / len(data)


def _text(context: Context, grid: Grid) -> str:
    gaps = "" if "rvs-g" not in context.algorithms else "RvS-G is told a goal, so it was trained on the mazes only."
    compared = "POR" in grid.columns and len(grid.columns) > 1
    return paragraphs(
        f"""{listed(NAMES[name] for name in context.algorithms)} on {len(grid.data)} of the paper's
        {len(TABLE_1)} data sets, {trainings.seeds_and_updates(grid.scores)}. {trainings.data_sources(grid.data)}
        {gaps}""",
        _verdict(grid) if compared else "POR was not compared with anything: choose it and a baseline.",
        *(_group(group, data, grid) for group, data in grouped(grid.data).items() if compared),
        f"""The means of both are those of the rows shown. The paper's own row "locomotion mean" is lower than that
        (POR: {PRINTED_MEANS["Locomotion"]["POR"].mean} printed, {_paper_mean(GROUPS["Locomotion"], "POR"):.1f} by its
        nine rows): it is a sum divided by 12, with three random sets that are not printed.""",
        trainings.failures([replace(score, kind=NAMES[score.kind]) for score in grid.scores]),
    )


def _verdict(grid: Grid) -> str:
    """On how many data sets POR is best, here and in the paper."""
    best = {name: {c: score for c in grid.columns if (score := grid.best(name, c)) is not None} for name in grid.data}
    whole = {name: row for name, row in best.items() if len(row) == len(grid.columns)}
    here = [name for name, row in whole.items() if _first({c: score.mean for c, score in row.items()}) == "POR"]
    there = [name for name in grid.data if _first({c: TABLE_1[row_of(name)][c].mean for c in grid.columns}) == "POR"]
    missing = len(grid.data) - len(whole)
    gap = f" ({missing} have a column without a result)" if missing else ""
    rivals = {name: _first({c: score.mean for c, score in row.items()}, "POR") for name, row in whole.items()}
    pairs = {name: (row["POR"], row[rivals[name]]) for name, row in whole.items()}
    doubts = [trainings.possible_reasons(*pairs[name]) for name in whole if name in there and name not in here]
    doubts.append(trainings.chance(pairs[name] for name in here))
    return f"""POR has the highest score of these columns on **{len(here)} of {len(whole)}** data sets{gap}
    ({listed(here)}); by the paper's numbers on {len(there)} of {len(grid.data)} ({listed(there)}):
    {"as in the paper" if set(here) == set(there) else "not the same as in the paper"}. {" ".join(doubts)}"""


def _first(means: Mapping[str, float | None], leave_out: str = "") -> str:
    return max((name for name in means if name != leave_out), key=lambda name: means[name] or 0.0)


def _group(group: str, data: Sequence[str], grid: Grid) -> str:
    """POR's mean against the best other column's, here and in the paper."""
    here = {name: found for name in grid.columns if (found := grid.mean(data, name)) is not None}
    there = {name: _paper_mean(data, name) for name in grid.columns}
    if "POR" not in here or len(here) < 2:
        return f"{group}: means are missing, because POR or all baselines failed somewhere."
    rival, theirs = (_first(means, "POR") for means in (here, there))
    ahead = here["POR"] > here[rival]
    same = ahead == (there["POR"] > there[theirs])
    return f"""{group}: POR's mean is {number(here["POR"])}, that of the best other column {number(here[rival])}
    ({rival}); the paper's {number(there["POR"])} and {number(there[theirs])} ({theirs}). POR is
    {"ahead" if ahead else "not ahead"} here, {"as" if same else "unlike"} in the paper."""


def _drawing(grid: Grid) -> Drawing:
    def mark(data: str, column: str, mean: float | None, std: float | None) -> Mark:
        return Mark(data, KINDS[column], mean, std if column == "POR" else None)

    used = dict.fromkeys(COLUMN_OF[score.kind] for score in grid.scores)
    ours = [mark(score.data, COLUMN_OF[score.kind], score.mean, score.std) for score in grid.scores]
    theirs = [mark(name, column, *TABLE_1[row_of(name)][column][:2]) for name in grid.data for column in used]
    looks = dict(zip(dict.fromkeys(KINDS.values()), LOOKS, strict=False))
    looks = {kind: look for kind, look in looks.items() if kind in {KINDS[column] for column in used}}
    return Drawing(
        dots({"here (replica)": ours, "the paper (d4rl)": theirs}, looks, apart=False),
        "Each mark is an algorithm; the bars are POR's standard deviation over seeds. Left: trained and evaluated "
        "here. Right: as the paper prints them. The two are of different data and environments.",
        f"Two panels of dots: every algorithm on {many(len(grid.data), 'data set')}, here and in the paper.",
    )
