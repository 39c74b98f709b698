"""Results as tables on stdout; with --json they go to stderr, so that stdout holds only the JSON."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from waypost.cli.output import results as results
from waypost.console.screen import SHOWN, Screen
from waypost.data.inspection.findings import Inspection, Level
from waypost.statistics import spread, spread_name

if TYPE_CHECKING:
    from waypost.studies.comparison import Comparison
    from waypost.studies.findings import Diagnosis


def show(outcome: dict[str, Any], to: Screen) -> None:
    """The result as a table."""

    def number(value: float | None, digits: int) -> str:
        return "-" if value is None else f"{value:.{digits}f}"

    suite = f", suite {outcome['suite']}" if outcome["suite"] else ""
    title = f"{outcome['algorithm']} on {outcome['data'] or 'a policy'}, task {outcome['task'] or 'none'}{suite}"
    table = Table("seed", *(label for _, label, _ in SHOWN))
    for row in outcome["per_seed"]:
        table.add_row(str(row["seed"]), *(number(row[measure], digits) for measure, _, digits in SHOWN))
    if len(outcome["per_seed"]) > 1:
        table.add_section()
        for statistic in ("mean", "std", "iqm"):
            table.add_row(statistic, *(number(outcome[statistic][measure], digits) for measure, _, digits in SHOWN))
        spreads = [(spread([row[measure] for row in outcome["per_seed"]]), digits) for measure, _, digits in SHOWN]
        ends = (" to ".join(number(end, digits) for end in bounds) if bounds else "-" for bounds, digits in spreads)
        table.add_row(spread_name(len(outcome["per_seed"])), *ends)
    to.print(title, table, f"{outcome['seconds']:.1f} s", sep="\n")


def show_comparison(comparison: Comparison, to: Screen) -> None:
    """The results as one table per data set, the best algorithm first."""
    from waypost.studies.comparison import cells, overall_table

    for data in comparison.data:
        table = Table(title=data, title_justify="left", title_style="bold")
        for place, name in enumerate(comparison.header):
            title = name.replace(" of ", " of\n")  # in two lines: the seeds need the room
            table.add_column(title, justify="right" if place else "left", no_wrap=name != "seeds")
        for entry in comparison.of(data):
            table.add_row(*cells(entry))
        to.print(table)
    if comparison.overall:
        header, rows = overall_table(comparison)
        overall = Table(*header, title="over all data", title_justify="left", title_style="bold")
        for row in rows:
            overall.add_row(*row)
        to.print(overall)


_COLOURS: dict[Level, str] = {"error": "bold red", "warning": "yellow", "note": "cyan"}
_MOST_COLUMNS = 40


def show_inspection(inspection: Inspection, to: Screen) -> None:
    """The summary of a data set, its columns, the algorithms, and last, next to the prompt, the findings."""
    summary = Table("what", "in these data", title=inspection.name, title_justify="left", title_style="bold")
    for what, words in inspection.facts():
        summary.add_row(what, words)
    columns = Table("column")
    for name in ("min", "mean", "std", "max"):
        columns.add_column(name, justify="right", no_wrap=True)
    columns.add_column("remark")
    for column, following in pairwise((*inspection.columns[:_MOST_COLUMNS], None)):
        assert column is not None
        numbers = ("-" if n is None else f"{n:.4g}" for n in (column.min, column.mean, column.std, column.max))
        last = following is not None and following.kind != column.kind
        columns.add_row(column.name, *numbers, column.remark, end_section=last)
    to.print(summary, columns, sep="\n")
    if len(inspection.columns) > _MOST_COLUMNS:
        to.print(f"and {len(inspection.columns) - _MOST_COLUMNS} more columns; --json and the page have them all")
    if inspection.supports:
        algorithms = Table("algorithm", "can learn from it", "why")
        for support in inspection.supports:
            algorithms.add_row(support.algorithm, "yes" if support.supported else "no", support.why)
        to.print(algorithms)
    for finding in inspection.findings:
        to.print(Text.assemble((f"{finding.level}: ", _COLOURS[finding.level]), str(finding)))
    to.print(inspection.verdict)


def show_diagnosis(diagnosis: Diagnosis, to: Screen) -> None:
    """The measures as a table, and the text."""
    table = Table("measure", title="diagnosis", title_justify="left", title_style="bold")
    for name in ("mean", "median", "95 % below", "largest"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("meaning")
    for row in diagnosis.rows:
        numbers = (f"{row[name]:.3g}" for name in ("mean", "median", "p95", "largest"))
        table.add_row(row["measure"], *numbers, row["meaning"])
    to.print(table, Text(diagnosis.reading()), sep="\n")
