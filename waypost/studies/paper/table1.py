"""Table 1: POR against every baseline on the 15 data sets, with the published scores beside ours.

The columns are the paper's. Two of them are the best of several algorithms on each data set, as there: RvS (by return
or by goal) and the best of five RL-based ones. RvS-G needs a goal, so it is trained on the mazes only. BC and
`waypoint` are added.

In a folder of results the main methods come first, then their further seeds, then one seed of each other method, so
that an unfinished table is already useful.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from waypost.figures.scores import LOOKS, Mark, dots
from waypost.statistics import spread_name
from waypost.studies.paper import experiment, scores as trainings
from waypost.studies.paper.benchmark import (
    COLUMNS,
    GROUPS,
    KINDS,
    NAMES,
    PRINTED_MEANS,
    PUBLISHED,
    TABLE_1,
    grouped,
    row_of,
)
from waypost.studies.paper.experiment import Context, Drawing, Outcome, Row, Table
from waypost.studies.paper.scores import Score, number, with_spread
from waypost.studies.paper.words import listed, many, paragraphs
from waypost.studies.results import Results
from waypost.studies.updates import total_updates
from waypost.training.callbacks import in_turn

MAIN = ("por", "waypoint", "iql", "bc", "bc10", "td3bc")
"""The methods that are trained with all seeds in a folder of results."""
COLUMN_OF = {name: column for column, members in COLUMNS.items() for name in members}


@dataclass(frozen=True)
class Grid:
    """The scores in the paper's columns."""

    data: Sequence[str]
    columns: Sequence[str]
    scores: Sequence[Score]

    def all(self, data: str, column: str) -> list[Score]:
        """The scores of a column's algorithms on a data set, under the paper's names."""
        chosen = [each for each in self.scores if each.data == data and COLUMN_OF[each.kind] == column]
        return [replace(each, kind=NAMES[each.kind]) for each in chosen]

    def best(self, data: str, column: str) -> Score | None:
        """The score that counts in a column; None if there is none."""
        found = [score for score in self.all(data, column) if score.values]
        return max(found, key=lambda score: score.mean or 0.0) if found else None

    def known(self, data: Sequence[str], column: str) -> int:
        """The number of the data sets on which a column has a score."""
        return sum(self.best(name, column) is not None for name in data)

    def mean(self, data: Sequence[str], column: str) -> float | None:
        """The mean of a column; None if it has a gap."""
        found = (self.best(name, column) for name in data)
        return trainings.mean(None if score is None else score.mean for score in found)


def jobs(context: Context) -> list[tuple[str, str, int]]:
    """Data set, algorithm and seed of every training, in the order they run.

    For the whole table the main methods get all seeds and the others one; for a part of it all methods get all seeds.
    """
    pairs, seeds = _pairs(context), range(context.size.seeds)
    main = [pair for pair in pairs if pair[1] in MAIN]
    rest = sorted((pair for pair in pairs if pair[1] not in MAIN), key=lambda pair: context.algorithms.index(pair[1]))
    chosen = len(context.algorithms) < len(experiment("table1").algorithms)
    turns = [(main, seeds[:1]), (main, seeds[1:]), (rest, seeds[:1]), (rest, seeds[1:] if chosen else ())]
    return [(*pair, seed) for some, own in turns for seed in own for pair in some]


def _pairs(context: Context) -> list[tuple[str, str]]:
    return [
        (data, name)
        for data in context.data
        for name in context.algorithms
        if name != "rvs-g" or row_of(data) in GROUPS["AntMaze"]
    ]


def _work(context: Context) -> Context:
    """Run what is missing from the folder of results; returns the same experiment, which from then on only reads."""
    assert context.results is not None
    if not context.results.read_only:
        for data, name, seed in in_turn(jobs(context), "training", context.callback):
            trainings.train_and_score(context, name, data, seeds=[seed])
    return replace(context, results=Results(context.results.folder, read_only=True))


def run(context: Context) -> Outcome:
    if context.results is None:
        train = partial(trainings.train_and_score, context)
        scores = trainings.score_each(context, _pairs(context), lambda data, name: train(name, data))
    else:
        context = _work(context)
        found = [trainings.train_and_score(context, name, data) for data, name in _pairs(context)]
        scores = trainings.require_results(found)
    columns = [name for name, members in COLUMNS.items() if set(members) & set(context.algorithms)]
    grid = Grid(context.data, columns, scores)
    trained: list[Row] = []
    for score in scores:
        column = COLUMN_OF[score.kind]
        mean, std, by = TABLE_1[row_of(score.data)].get(column, (None, None, None))
        paper: Row = {"column": column, "paper_mean": mean, "paper_std": std, "paper_algorithm": by}
        named = {"algorithm" if key == "kind" else key: value for key, value in score.row().items()}
        trained.append({**named, **paper})
    caption = (
        f"Scores: mean and {spread_name(max(len(score.values) for score in scores))}; * is one seed, - is not trained "
        "yet. A column of several algorithms shows the best of them. Means are over complete columns only."
    )
    tables = {
        "table1": Table(_rows(grid), caption, shown=True),
        "means": Table(_means(context.algorithms, grid), MEANS_CAPTION, shown=True),
        **trainings.training_tables(scores, trained),
    }
    return Outcome(_text(context, grid), {"table1": _drawing(grid)}, tables)


def _rows(grid: Grid) -> list[Row]:
    """Two rows for each data set, and for the means of each group and of all: ours and the paper's."""
    lines: dict[str, tuple[dict[str, str], dict[str, str]]] = {}
    for data in grid.data:
        lines[data] = (
            {name: _cell(grid, data, name) for name in grid.columns},
            {name: _printed(data, name) for name in grid.columns},
        )
    groups = grouped(grid.data)
    groups |= {"overall": list(grid.data)} if len(groups) > 1 else {}
    for group, names in groups.items():
        ours, theirs = {}, {}
        for name in grid.columns:
            ours[name] = _or_gap(grid.mean(names, name), f"- ({grid.known(names, name)} of {len(names)})")
            theirs[name] = _or_gap(_paper_mean(names, name), "")
        lines[f"{group} mean of {len(names)}"] = ours, theirs
    rows: list[Row] = []
    for label, (ours, theirs) in lines.items():
        rows += [{"data": label, "suite": "replica", **ours}, {"data": label, "suite": "d4rl (paper)", **theirs}]
    return rows


def _cell(grid: Grid, data: str, column: str) -> str:
    """Our score in words: the mean, the spread, its algorithm, and which ones failed."""
    score, members = grid.best(data, column), grid.all(data, column)
    words = [] if score is None else [with_spread(score.values)]
    words += [score.kind] if score is not None and len(COLUMNS[column]) > 1 else []
    failed = [each.kind for each in members if not (each.values or each.missing)]
    words += [f"({', '.join(failed)} failed)"] if failed else []
    absent = [each.kind for each in members if each.missing]
    words += [f"({', '.join(absent)} -)" if words else "-"] if absent else []
    return " ".join(words)


def _printed(data: str, column: str) -> str:
    if column not in PUBLISHED:
        return ""
    printed = TABLE_1[row_of(data)][column]
    return number(printed.mean, printed.std) + (f" {printed.by}" if printed.by else "")


def _or_gap(mean: float | None, gap: str) -> str:
    return gap if mean is None else number(mean)


MEANS_CAPTION = (
    "Means of each method over the data sets shown, only if it has a result on all of them; in brackets the spread "
    "of the seeds' own means. Core-minutes are those of an agent's updates, without compilation and evaluations."
)


def _means(algorithms: Sequence[str], grid: Grid) -> list[Row]:
    """A row for each method: its means over the groups and over all, and the cost of its trainings."""
    groups = grouped(grid.data)
    groups |= {"overall": list(grid.data)} if len(groups) > 1 else {}
    rows: list[Row] = []
    for algorithm in algorithms:
        own = {score.data: score for score in grid.scores if score.kind == algorithm}
        row: dict[str, str | int | float | None] = {"method": NAMES[algorithm]}
        for group, names in groups.items():
            found = [own[name].values for name in names if name in own and own[name].values]
            if len(found) < len(names):
                due = any(name in own for name in names)  # RvS-G is not trained for locomotion
                row[f"{group} ({len(names)})"] = f"- ({len(found)} of {len(names)})" if due else ""
                continue
            common = min(map(len, found))
            # The k-th seeds of all data sets make up one run of the benchmark.
            row[f"{group} ({len(names)})"] = with_spread(np.mean([each[:common] for each in found], axis=0).tolist())
        known = [score for score in own.values() if score.values]
        counts = [total_updates(score.runs[0].plan) for score in known]
        minutes = [score.core_minutes for score in known if score.core_minutes is not None]
        seeds = dict.fromkeys(f(len(score.values) for score in known) for f in (min, max)) if known else {}
        row["seeds"] = " to ".join(map(str, seeds))
        row["updates"] = " to ".join(map(str, dict.fromkeys((min(counts), max(counts))))) if counts else ""
        row["core_minutes"] = round(float(np.mean(minutes)), 1) if minutes else None
        rows.append(row)
    return rows


def _paper_mean(data: Sequence[str], column: str) -> float | None:
    if column not in PUBLISHED:
        return None
    return sum(TABLE_1[row_of(name)][column].mean for name in data) / len(data)


def _text(context: Context, grid: Grid) -> str:
    gaps = "" if "rvs-g" not in context.algorithms else "RvS-G needs a goal, so it was trained on the mazes only."
    begun = {COLUMN_OF[score.kind] for score in grid.scores if not score.missing}
    papers = replace(grid, columns=[name for name in grid.columns if name in PUBLISHED and name in begun])
    compared = "POR" in papers.columns and len(papers.columns) > 1
    length = trainings.seeds_and_updates(grid.scores, context.minutes)
    printed = sum(TABLE_1[name]["POR"].mean for name in GROUPS["Locomotion"]) / len(GROUPS["Locomotion"])
    return paragraphs(
        f"""{listed(NAMES[name] for name in context.algorithms)} on {len(grid.data)} of the paper's
        {len(TABLE_1)} data sets, {length}. {trainings.data_sources(grid.data)}
        {gaps}""",
        _verdict(papers) if compared else "POR was not compared with another column of the paper.",
        *(_group(group, data, papers) for group, data in grouped(grid.data).items() if compared),
        _ours(grid) if "Waypoint" in grid.columns and len(grid.columns) > 1 else "",
        f"""The means of both are over the rows shown. The paper's own row "locomotion mean" is lower than that (POR:
        {PRINTED_MEANS["Locomotion"]["POR"].mean} printed, {printed:.1f} from its nine rows): it is a sum divided by 12,
        with three random sets that are not printed.""",
        trainings.failures([replace(score, kind=NAMES[score.kind]) for score in grid.scores]),
        trainings.different_rows(grid.scores),
    )


def _verdict(grid: Grid) -> str:
    """The number of data sets on which POR is best of the paper's columns, here and there."""
    best = {name: {c: score for c in grid.columns if (score := grid.best(name, c)) is not None} for name in grid.data}
    whole = {name: row for name, row in best.items() if len(row) == len(grid.columns)}
    here = [name for name, row in whole.items() if _first({c: score.mean for c, score in row.items()}) == "POR"]
    there = [name for name in grid.data if _first({c: TABLE_1[row_of(name)][c].mean for c in grid.columns}) == "POR"]
    if not whole:
        return f"No data set has a result in all of these columns yet: {listed(grid.columns)}."
    missing = len(grid.data) - len(whole)
    gap = f" ({missing} have a column without a result)" if missing else ""
    rivals = {name: _first({c: score.mean for c, score in row.items()}, "POR") for name, row in whole.items()}
    pairs = {name: (row["POR"], row[rivals[name]]) for name, row in whole.items()}
    doubts = [trainings.possible_reasons(*pairs[name]) for name in whole if name in there and name not in here]
    doubts.append(trainings.chance(pairs[name] for name in here))
    these = "the paper's columns" if len(grid.columns) == len(PUBLISHED) else listed(grid.columns)
    return f"""POR has the highest score of {these} on **{len(here)} of {len(whole)}** data sets{gap}
    ({listed(here)}); in the paper on {len(there)} of {len(grid.data)} ({listed(there)}):
    {"as in the paper" if set(here) == set(there) else "not the same as in the paper"}. {" ".join(doubts)}"""


def _ours(grid: Grid) -> str:
    """The number of data sets on which Waypoint is best of all columns, and its means."""
    best = {name: {c: score for c in grid.columns if (score := grid.best(name, c)) is not None} for name in grid.data}
    known = {name: row for name, row in best.items() if "Waypoint" in row and len(row) > 1}
    first = [name for name, row in known.items() if _first({c: each.mean for c, each in row.items()}) == "Waypoint"]
    groups = grouped(grid.data)
    groups |= {"all": list(grid.data)} if len(groups) > 1 else {}
    words = []
    for group, names in groups.items():
        means = {name: found for name in grid.columns if (found := grid.mean(names, name)) is not None}
        if "Waypoint" in means and len(means) > 1:
            rival = _first(means, "Waypoint")
            words.append(f"{group} {number(means['Waypoint'])}, the best other column {number(means[rival])} ({rival})")
    means_text = f" Means: {'; '.join(words)}." if words else ""
    return f"""Waypoint, which is not in the paper, is first on **{len(first)} of {len(known)}** data sets
    ({listed(first)}) of all columns with a result there.{means_text}"""


def _first(means: Mapping[str, float | None], leave_out: str = "") -> str:
    return max((name for name in means if name != leave_out), key=lambda name: means[name] or 0.0)


def _group(group: str, data: Sequence[str], grid: Grid) -> str:
    """POR's mean against the best other column's, here and in the paper."""
    here = {name: found for name in grid.columns if (found := grid.mean(data, name)) is not None}
    there = {name: found for name in grid.columns if (found := _paper_mean(data, name)) is not None}
    if "POR" not in here or len(here) < 2:
        return f"{group}: means are missing, because POR or all baselines lack results."
    rival, theirs = (_first(means, "POR") for means in (here, there))
    ahead = here["POR"] > here[rival]
    same = ahead == (there["POR"] > there[theirs])
    return f"""{group}: POR's mean is {number(here["POR"])}, the best other column's {number(here[rival])}
    ({rival}); in the paper {number(there["POR"])} and {number(there[theirs])} ({theirs}). POR is
    {"ahead" if ahead else "not ahead"} here, {"as" if same else "unlike"} in the paper."""


def _drawing(grid: Grid) -> Drawing:
    def mark(data: str, column: str, mean: float | None, std: float | None) -> Mark:
        return Mark(data, KINDS[column], mean, std if column == "POR" else None)

    trained = [score for score in grid.scores if not score.missing]
    used = dict.fromkeys(COLUMN_OF[score.kind] for score in trained)
    ours = [mark(score.data, COLUMN_OF[score.kind], score.mean, score.std) for score in trained]
    papers = [(name, column) for name in grid.data for column in used if column in PUBLISHED]
    theirs = [mark(name, column, *TABLE_1[row_of(name)][column][:2]) for name, column in papers]
    looks = dict(zip(dict.fromkeys(KINDS.values()), LOOKS, strict=False))
    looks = {kind: look for kind, look in looks.items() if kind in {KINDS[column] for column in used}}
    panels, marks = (
        {"here (replica)": ours},
        "Each mark is an algorithm; the bars are POR's standard deviation over seeds.",
    )
    if not theirs:
        words = f"Dots: every algorithm on {many(len(grid.data), 'data set')}."
        return Drawing(dots(panels, looks, apart=False), f"{marks} Trained and evaluated here.", words)
    return Drawing(
        dots({**panels, "the paper (d4rl)": theirs}, looks, apart=False),
        f"{marks} Left: trained and evaluated here. Right: as printed in the paper. The two have different data and "
        "environments.",
        f"Two panels of dots: every algorithm on {many(len(grid.data), 'data set')}, here and in the paper.",
    )
