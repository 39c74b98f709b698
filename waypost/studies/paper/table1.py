"""Table 1: POR against every baseline on the 15 data sets, with the published scores beside ours.

The columns are the paper's. Two of them are the best of several algorithms on each data set, as there: RvS (by return
or by goal) and the best of five RL-based ones. RvS-G needs to be told a goal, so it is trained on the mazes only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from waypost.studies.paper.benchmark import COLUMNS, GROUPS, NAMES, PRINTED_MEANS, TABLE_1, row_of
from waypost.studies.paper.experiment import Context, Drawing, Outcome, Row, Table
from waypost.studies.paper.scores import (
    LOOKS,
    Mark,
    Score,
    checked,
    curve_rows,
    dots,
    failures,
    how_long,
    number,
    some,
    sources,
    trained,
    unsure,
)
from waypost.studies.paper.words import listed, many, paragraphs
from waypost.training.callbacks import in_turn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = {
    "POR": "POR",
    "10%BC": "weighted BC",
    "One-step": "weighted BC",
    "IQL": "weighted BC",
    "DT": "conditioned BC",
    "RvS": "conditioned BC",
    "best RL": "RL-based",
}
"""How the paper sorts the columns."""


def run(context: Context) -> Outcome:
    pairs = [
        (data, name)
        for data in context.data
        for name in context.algorithms
        if name != "rvs-g" or row_of(data) in GROUPS["AntMaze"]
    ]
    scores = some([trained(context, name, data) for data, name in in_turn(pairs, "training", context.progress)])
    columns = [name for name, members in COLUMNS.items() if set(members) & set(context.algorithms)]
    cells = {(data, name): _best(scores, data, name) for data in context.data for name in columns}
    tables = {
        "table1": Table(
            [line for data in context.data for line in _lines(data, columns, cells, scores)]
            + [line for group in GROUPS for line in _means(group, context.data, columns, cells)],
            "Scores: mean and standard deviation over seeds. A column of several algorithms holds the best of them.",
            shown=True,
        ),
        "scores": Table([_row(score) for score in scores], "Every training."),
        "curves": Table(curve_rows(scores), "Every evaluation."),
    }
    drawing = Drawing(
        _figure(context.data, scores),
        "Each mark is an algorithm; the bars are POR's standard deviation over seeds. Left: trained and judged here. "
        "Right: as the paper prints them. The two are of different data and environments.",
        f"Two panels of dots: every algorithm on {many(len(context.data), 'data set')}, here and in the paper.",
    )
    return Outcome(_text(context, columns, cells, scores), {"table1": drawing}, tables)


def _best(scores: Sequence[Score], data: str, column: str) -> Score | None:
    """The score that counts in a column; None where nothing has one."""
    found = [score for score in scores if score.data == data and score.kind in COLUMNS[column] and score.values]
    return max(found, key=lambda score: score.mean or 0.0) if found else None


def _row(score: Score) -> Row:
    column = next(name for name, members in COLUMNS.items() if score.kind in members)
    printed = TABLE_1[row_of(score.data)][column]
    words = score.row()
    words["algorithm"] = words.pop("kind")
    return {
        "data": score.data,
        "algorithm": score.kind,
        **words,
        "column": column,
        "paper_mean": printed.mean,
        "paper_std": printed.std,
        "paper_algorithm": printed.by,
    }


def _lines(
    data: str, columns: Sequence[str], cells: dict[tuple[str, str], Score | None], scores: Sequence[Score]
) -> list[Row]:
    """A data set as two rows: ours and the paper's."""
    ours, theirs = {}, {}
    for name in columns:
        score, printed = cells[data, name], TABLE_1[row_of(data)][name]
        words = [] if score is None else [number(score.mean, score.std)]
        words += [NAMES[score.kind]] if score is not None and len(COLUMNS[name]) > 1 else []
        own = [each for each in scores if each.data == data and each.kind in COLUMNS[name]]
        failed = [NAMES[each.kind] for each in own if not each.values]
        ours[name] = " ".join([*words, *([f"({', '.join(failed)} failed)"] if failed else [])])
        theirs[name] = number(printed.mean, printed.std) + (f" {printed.by}" if printed.by else "")
    return [{"data": data, "suite": "replica", **ours}, {"data": data, "suite": "d4rl (paper)", **theirs}]


def _means(
    group: str, data: Sequence[str], columns: Sequence[str], cells: dict[tuple[str, str], Score | None]
) -> list[Row]:
    """The means of a group over the data sets that were chosen; a column with a gap has none."""
    chosen = [name for name in data if row_of(name) in GROUPS[group]]
    if not chosen:
        return []
    ours = {name: number(_mean(chosen, name, cells)) for name in columns}
    theirs = {name: number(_paper_mean(chosen, name)) for name in columns}
    label = f"{group} mean of {len(chosen)}"
    return [{"data": label, "suite": "replica", **ours}, {"data": label, "suite": "d4rl (paper)", **theirs}]


def _mean(data: Sequence[str], column: str, cells: dict[tuple[str, str], Score | None]) -> float | None:
    means = [score.mean for name in data if (score := cells[name, column]) is not None and score.mean is not None]
    return sum(means) / len(means) if len(means) == len(data) else None


def _paper_mean(data: Sequence[str], column: str) -> float:
    return sum(TABLE_1[row_of(name)][column].mean for name in data) / len(data)


def _text(
    context: Context, columns: Sequence[str], cells: dict[tuple[str, str], Score | None], scores: Sequence[Score]
) -> str:
    gaps = "" if "rvs-g" not in context.algorithms else "RvS-G is told a goal, so it was trained on the mazes only."
    return paragraphs(
        f"""{listed(NAMES[name] for name in context.algorithms)} on {len(context.data)} of the paper's
        {len(TABLE_1)} data sets, {how_long(scores)}. {sources(context.data)} {gaps}""",
        _verdict(context.data, columns, cells),
        *(_group(group, context.data, columns, cells) for group in GROUPS),
        f"""The means of both are those of the rows shown. The paper's own row "locomotion mean" is lower than that
        (POR: {PRINTED_MEANS["Locomotion"]["POR"].mean} printed, {_paper_mean(GROUPS["Locomotion"], "POR"):.1f} by its
        nine rows): it is a sum divided by 12, with three random sets that are not printed.""",
        failures([_called(score) for score in scores]),
    )


def _verdict(data: Sequence[str], columns: Sequence[str], cells: dict[tuple[str, str], Score | None]) -> str:
    """On how many data sets POR is best, here and there."""
    if "POR" not in columns or len(columns) < 2:
        return "POR was not compared with anything: choose it and a baseline."
    whole = [name for name in data if all(cells[name, column] is not None for column in columns)]
    here = [name for name in whole if _first({c: _value(cells[name, c]) for c in columns}) == "POR"]
    there = [name for name in data if _first({c: TABLE_1[row_of(name)][c].mean for c in columns}) == "POR"]
    gap = "" if len(whole) == len(data) else f" ({len(data) - len(whole)} have a column without a result)"
    more = "as in the paper" if set(here) == set(there) else "not the same as in the paper"
    pairs = {name: _with_the_best(name, columns, cells) for name in whole}
    looked = " ".join(checked(*pairs[name]) for name in whole if name in there and name not in here)
    looked += " " + unsure(pairs[name] for name in here)
    return f"""POR has the highest score of these columns on **{len(here)} of {len(whole)}** data sets{gap}
    ({listed(here)}); by the paper's numbers on {len(there)} of {len(data)} ({listed(there)}): {more}. {looked}"""


def _with_the_best(
    data: str, columns: Sequence[str], cells: dict[tuple[str, str], Score | None]
) -> tuple[Score, Score]:
    """POR, and the best of the others, on a data set where all columns have a score."""
    found = {name: _called(score) for name in columns if (score := cells[data, name]) is not None}
    por = found.pop("POR")
    return por, found[_first({name: _value(score) for name, score in found.items()})]


def _called(score: Score) -> Score:
    """The same under the name the paper has for the algorithm."""
    return replace(score, kind=NAMES[score.kind])


def _value(score: Score | None) -> float:
    return float("-inf") if score is None or score.mean is None else score.mean


def _first(means: dict[str, float]) -> str:
    return max(means, key=lambda name: means[name])


def _group(group: str, data: Sequence[str], columns: Sequence[str], cells: dict[tuple[str, str], Score | None]) -> str:
    """POR's mean against the best other column's, here and there."""
    chosen = [name for name in data if row_of(name) in GROUPS[group]]
    if not chosen or "POR" not in columns or len(columns) < 2:
        return ""
    here = {name: found for name in columns if (found := _mean(chosen, name, cells)) is not None}
    there = {name: _paper_mean(chosen, name) for name in columns}
    if "POR" not in here or len(here) < 2:
        return f"{group}: means are missing, because POR or all baselines failed somewhere."
    rival, theirs = (_first({k: v for k, v in means.items() if k != "POR"}) for means in (here, there))
    ahead = here["POR"] > here[rival], there["POR"] > there[theirs]
    words = "as in the paper" if ahead[0] == ahead[1] else "unlike in the paper"
    return f"""{group}: POR's mean is {number(here["POR"])}, that of the best other column {number(here[rival])}
    ({rival}); the paper's {number(there["POR"])} and {number(there[theirs])} ({theirs}). POR is
    {"ahead" if ahead[0] else "not ahead"} here, {words}."""


def _figure(data: Sequence[str], scores: Sequence[Score]) -> Figure:
    ours, theirs = [], []
    for score in scores:
        column = next(name for name, members in COLUMNS.items() if score.kind in members)
        ours.append(Mark(score.data, KINDS[column], score.mean, score.std if column == "POR" else None))
    for name in data:
        for column in dict.fromkeys(c for s in scores for c, members in COLUMNS.items() if s.kind in members):
            printed = TABLE_1[row_of(name)][column]
            theirs.append(Mark(name, KINDS[column], printed.mean, printed.std if column == "POR" else None))
    kinds = list(dict.fromkeys(KINDS.values()))
    looks = {kind: look for kind, look in zip(kinds, LOOKS, strict=False) if kind in {m.kind for m in theirs}}
    return dots({"here (replica)": ours, "the paper (d4rl)": theirs}, looks, apart=False)
