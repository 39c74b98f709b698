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
from waypost.training.callbacks import in_turn

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
        found = [self.best(name, column) for name in data]
        return trainings.mean(None if score is None else score.mean for score in found)

    @property
    def compared(self) -> bool:
        """Whether POR and something to compare it with are there."""
        return "POR" in self.columns and len(self.columns) > 1


def run(context: Context) -> Outcome:
    pairs = [
        (data, name)
        for data in context.data
        for name in context.algorithms
        if name != "rvs-g" or row_of(data) in GROUPS["AntMaze"]
    ]
    scores = trainings.require_results(
        [trainings.train_and_score(context, name, data) for data, name in in_turn(pairs, "training", context.progress)]
    )
    columns = [name for name, members in COLUMNS.items() if set(members) & set(context.algorithms)]
    grid = Grid(context.data, columns, scores)
    tables = {
        "table1": Table(
            [line for data in context.data for line in _lines(data, grid)]
            + [line for group, data in grouped(context.data).items() for line in _mean_lines(group, data, grid)],
            "Scores: mean and standard deviation over seeds. A column of several algorithms holds the best of them.",
            shown=True,
        ),
        **trainings.training_tables(scores, [_row(score) for score in scores]),
    }
    return Outcome(_text(context, grid), {"table1": _drawing(grid)}, tables)


def _row(score: Score) -> Row:
    column = COLUMN_OF[score.kind]
    printed, words = TABLE_1[row_of(score.data)][column], score.row()
    del words["kind"]
    return {
        "data": score.data,
        "algorithm": score.kind,
        **words,
        "column": column,
        "paper_mean": printed.mean,
        "paper_std": printed.std,
        "paper_algorithm": printed.by,
    }


def _two_rows(label: str, ours: Mapping[str, str], theirs: Mapping[str, str]) -> list[Row]:
    return [{"data": label, "suite": "replica", **ours}, {"data": label, "suite": "d4rl (paper)", **theirs}]


def _lines(data: str, grid: Grid) -> list[Row]:
    """A data set as two rows: ours and the paper's."""
    ours, theirs = {}, {}
    for name in grid.columns:
        score, printed = grid.best(data, name), TABLE_1[row_of(data)][name]
        words = [] if score is None else [number(score.mean, score.std)]
        words += [score.kind] if score is not None and len(COLUMNS[name]) > 1 else []
        failed = [each.kind for each in grid.all(data, name) if not each.values]
        ours[name] = " ".join([*words, *([f"({', '.join(failed)} failed)"] if failed else [])])
        theirs[name] = number(printed.mean, printed.std) + (f" {printed.by}" if printed.by else "")
    return _two_rows(data, ours, theirs)


def _mean_lines(group: str, data: Sequence[str], grid: Grid) -> list[Row]:
    """The means of a group over the data sets that were chosen."""
    ours = {name: number(grid.mean(data, name)) for name in grid.columns}
    theirs = {name: number(_paper_mean(data, name)) for name in grid.columns}
    return _two_rows(f"{group} mean of {len(data)}", ours, theirs)


def _paper_mean(data: Sequence[str], column: str) -> float:
    return sum(TABLE_1[row_of(name)][column].mean for name in data) / len(data)


# -- words and figure ------------------------------------------------------------------------------


def _text(context: Context, grid: Grid) -> str:
    gaps = "" if "rvs-g" not in context.algorithms else "RvS-G is told a goal, so it was trained on the mazes only."
    return paragraphs(
        f"""{listed(NAMES[name] for name in context.algorithms)} on {len(grid.data)} of the paper's
        {len(TABLE_1)} data sets, {trainings.seeds_and_updates(grid.scores)}. {trainings.data_sources(grid.data)}
        {gaps}""",
        _verdict(grid) if grid.compared else "POR was not compared with anything: choose it and a baseline.",
        *(_group(group, data, grid) for group, data in grouped(grid.data).items() if grid.compared),
        f"""The means of both are those of the rows shown. The paper's own row "locomotion mean" is lower than that
        (POR: {PRINTED_MEANS["Locomotion"]["POR"].mean} printed, {_paper_mean(GROUPS["Locomotion"], "POR"):.1f} by its
        nine rows): it is a sum divided by 12, with three random sets that are not printed.""",
        trainings.failures([replace(score, kind=NAMES[score.kind]) for score in grid.scores]),
    )


def _verdict(grid: Grid) -> str:
    """On how many data sets POR is best, here and in the paper."""
    rows = {name: {column: grid.best(name, column) for column in grid.columns} for name in grid.data}
    whole = {name: {column: score for column, score in row.items() if score is not None} for name, row in rows.items()}
    whole = {name: row for name, row in whole.items() if len(row) == len(grid.columns)}
    here = [name for name, row in whole.items() if _first({c: score.mean for c, score in row.items()}) == "POR"]
    there = [name for name in grid.data if _first({c: TABLE_1[row_of(name)][c].mean for c in grid.columns}) == "POR"]
    missing = len(grid.data) - len(whole)
    gap = f" ({missing} have a column without a result)" if missing else ""
    pairs = {}
    for name, row in whole.items():
        rival = _first({column: score.mean for column, score in row.items() if column != "POR"})
        pairs[name] = (row["POR"], row[rival])
    doubts = [trainings.possible_reasons(*pairs[name]) for name in whole if name in there and name not in here]
    doubts.append(trainings.chance(pairs[name] for name in here))
    return f"""POR has the highest score of these columns on **{len(here)} of {len(whole)}** data sets{gap}
    ({listed(here)}); by the paper's numbers on {len(there)} of {len(grid.data)} ({listed(there)}):
    {"as in the paper" if set(here) == set(there) else "not the same as in the paper"}. {" ".join(doubts)}"""


def _first(means: Mapping[str, float | None]) -> str:
    return max(means, key=lambda name: means[name] or 0.0)


def _group(group: str, data: Sequence[str], grid: Grid) -> str:
    """POR's mean against the best other column's, here and in the paper."""
    here = {name: found for name in grid.columns if (found := grid.mean(data, name)) is not None}
    there = {name: _paper_mean(data, name) for name in grid.columns}
    if "POR" not in here or len(here) < 2:
        return f"{group}: means are missing, because POR or all baselines failed somewhere."
    rival, theirs = (_first({k: v for k, v in means.items() if k != "POR"}) for means in (here, there))
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
