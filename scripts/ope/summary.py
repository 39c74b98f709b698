"""The table and the figure of the calibration, from the files of its tasks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import spearmanr

from waypost.figures import INK, STYLED, grid_lines, new_figure, to_png
from waypost.files import table, write_bytes, write_text

Row = dict[str, Any]
OTHER = "#d55e00"
TASKS = ("t-maze", "pointmaze-umaze", "hopper-medium-replay", "icu-sepsis")


def read(folder: Path) -> dict[str, list[Row]]:
    """The policies of each task that has a file, those first that are known to the paper's readers."""
    files = sorted(folder.glob("*.json"), key=lambda file: TASKS.index(file.stem) if file.stem in TASKS else 99)
    return {
        file.stem: [{"name": name, **row} for name, row in json.loads(file.read_text("utf-8"))["policies"].items()]
        for file in files
    }


def told(row: Row) -> bool:
    return row.get("value") is not None


def believed(row: Row) -> float | None:
    """What judge's evaluators found, whether it says so or not."""
    return row["value"] if told(row) else row.get("withheld")


ESTIMATORS: dict[str, tuple[Callable[[Row], bool], Callable[[Row], float | None], Callable[[Row], float | None]]] = {
    "judge": (told, believed, lambda row: row["low"]),
    "d3rlpy, the same policies": (told, lambda row: row.get("d3rlpy"), lambda row: row.get("d3rlpy")),
    "judge, had it said all": (lambda _: True, believed, believed),
    "d3rlpy, all": (lambda _: True, lambda row: row.get("d3rlpy"), lambda row: row.get("d3rlpy")),
}
"""Which policies, the estimate, and what they are ranked by."""


def measures(task: str, rows: Sequence[Row], estimator: str) -> Row:
    """One line of the table. Regret is a share of the range of true values, against the best of all policies.

    An estimator that has not been asked about all of its policies yet gets no numbers.
    """
    chosen, value_of, rank_by = ESTIMATORS[estimator]
    asked = [row for row in rows if chosen(row)]
    some = asked if all(value_of(row) is not None for row in asked) else []
    truth = np.array([row["true"] for row in rows])
    span = float(truth.max() - truth.min())
    found: Row = {"task": task, "estimator": estimator, "policies": len(rows), "told": len(some)}
    found |= dict.fromkeys(("spearman", "spearman_return", "regret1", "regret3", "coverage", "error"))
    found |= {"range": span}
    if not some:
        return found
    true, value = np.array([row["true"] for row in some]), np.array([value_of(row) for row in some])
    order = np.argsort([-float(rank_by(row) or 0.0) for row in some], kind="stable")
    if len(some) > 2:
        found["spearman"] = _correlation(value, true)
        found["spearman_return"] = _correlation(value, np.array([row["true_return"] for row in some]))
    found["regret1"], found["regret3"] = ((truth.max() - true[order[:count]].max()) / span for count in (1, 3))
    if estimator == "judge":
        found["coverage"] = float(np.mean([row["low"] <= row["true"] <= row["high"] for row in some]))
    found["error"] = float(np.abs(value - true).mean())
    return found


def _correlation(one: np.ndarray, other: np.ndarray) -> float | None:
    """None where all of one are the same."""
    return float(spearmanr(one, other).statistic) if np.ptp(one) > 0 and np.ptp(other) > 0 else None


def overall(lines: Sequence[Row], tasks: dict[str, list[Row]], estimator: str) -> Row:
    """The mean over the tasks; coverage over all policies, error as a share of the range."""
    own = [line for line in lines if line["estimator"] == estimator]

    def mean(name: str) -> float | None:
        known = [line[name] for line in own if line[name] is not None]
        return float(np.mean(known)) if known else None

    found: Row = {"task": "all", "estimator": estimator}
    found |= {name: sum(line[name] for line in own) for name in ("policies", "told")}
    found |= {name: mean(name) for name in ("spearman", "spearman_return", "regret1", "regret3")}
    held = [row["low"] <= row["true"] <= row["high"] for rows in tasks.values() for row in rows if told(row)]
    found["coverage"] = float(np.mean(held)) if held and estimator == "judge" else None
    shares = [line["error"] / line["range"] for line in own if line["error"] is not None]
    return found | {"error": float(np.mean(shares)) if shares else None, "range": 1.0}


HEADER = {
    "task": "task",
    "estimator": "estimator",
    "policies": "policies",
    "told": "with a value",
    "spearman": "Spearman",
    "spearman_return": "Spearman, undiscounted",
    "regret1": "regret@1",
    "regret3": "regret@3",
    "coverage": "coverage",
    "error": "absolute error",
    "range": "range of true values",
}


def cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name in ("regret1", "regret3", "coverage"):
        return f"{100 * value:.0f} %"
    return f"{value:.2f}" if name.startswith("spearman") else f"{value:.3g}" if isinstance(value, float) else str(value)


def summarise(folder: Path) -> str:
    """summary.md, summary.csv, policies.csv and calibration.png in the folder; the table."""
    tasks = read(folder)
    tasks = {name: rows for name, rows in tasks.items() if rows and all("verdict" in row for row in rows)}
    if not tasks:
        return "no task has been judged yet"
    lines = [measures(task, rows, estimator) for task, rows in tasks.items() for estimator in ESTIMATORS]
    lines += [overall(lines, tasks, estimator) for estimator in ESTIMATORS]
    text = [list(HEADER.values()), ["---", "---", *["---:"] * (len(HEADER) - 2)]]
    text += [[cell(name, line[name]) for name in HEADER] for line in lines]
    whole = "\n".join(f"| {' | '.join(row)} |" for row in text) + "\n"
    write_text(folder / "summary.md", whole)
    write_text(folder / "summary.csv", table(list(HEADER), lines))
    columns = [
        "task",
        "name",
        "true",
        "true_error",
        "true_return",
        "verdict",
        "value",
        "low",
        "high",
        "withheld",
        "d3rlpy",
    ]
    every = [{"task": task, **row} for task, rows in tasks.items() for row in rows]
    write_text(folder / "policies.csv", table(columns, [{name: row.get(name) for name in columns} for row in every]))
    write_bytes(folder / "calibration.png", to_png(draw(tasks)))
    return whole


@STYLED
def draw(tasks: dict[str, list[Row]]) -> Figure:
    """True against estimated values, a panel for each task."""
    figure = new_figure(9.0, 4.2 * -(-len(tasks) // 2))
    panels = np.atleast_1d(figure.subplots(-(-len(tasks) // 2), 2 if len(tasks) > 1 else 1)).ravel()
    for axes, (task, rows) in zip(panels, tasks.items(), strict=False):
        _panel(axes, rows)
        axes.set_title(task, loc="left")
        axes.set(xlabel="true value", ylabel="estimate")
    for axes in panels[len(tasks) :]:
        axes.set_axis_off()
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _panel(axes: Axes, rows: Sequence[Row]) -> None:
    shown = [row for row in rows if told(row)]
    hidden = [row for row in rows if row.get("withheld") is not None]
    theirs = [row for row in rows if row.get("d3rlpy") is not None]
    for row in shown:
        axes.plot((row["true"], row["true"]), (row["low"], row["high"]), color=INK, lw=2, alpha=0.45)
    axes.scatter(
        [row["true"] for row in shown], [row["value"] for row in shown], s=22, color=INK, label="judge, 90 % interval"
    )
    axes.scatter(
        [row["true"] for row in hidden],
        [row["withheld"] for row in hidden],
        s=22,
        facecolors="none",
        edgecolors=INK,
        label='withheld: "cannot tell"',
    )
    axes.scatter(
        [row["true"] for row in theirs],
        [row["d3rlpy"] for row in theirs],
        s=24,
        marker="x",
        color=OTHER,
        label="d3rlpy",
    )
    ends = [min(row["true"] for row in rows), max(row["true"] for row in rows)]
    axes.plot(ends, ends, color="#595959", ls="--", lw=1, label="estimate = truth")
    grid_lines(axes)
