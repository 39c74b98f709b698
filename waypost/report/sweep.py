"""The page of a sweep, and the files beside it."""

from __future__ import annotations

from pathlib import Path

from waypost.figures import AXIS_LABELS
from waypost.files import write_json, write_text
from waypost.report.comparison import CURVES, curves, scores
from waypost.report.page import Picture, picture, template
from waypost.studies.comparison import Entry
from waypost.studies.sweep import Row, Sweep, as_csv, cells

SHOWN = 12
"""Trials whose scores and curves are drawn: the best ones."""


def write_sweep(found: Sweep, folder: Path) -> None:
    """Write the tables and the page."""
    write_text(folder / "results.csv", as_csv(found))
    write_text(folder / "results.md", as_markdown(found))
    write_json(folder / "results.json", found.to_json())
    write_text(folder / "sweep.html", render_sweep(found))


def as_markdown(found: Sweep) -> str:
    lines = [f"**{found.algorithm} on {found.data}**", "", f"| {' | '.join(found.header)} |"]
    lines += ["|---|" + "---:|" * (len(found.header) - 1), *(f"| {' | '.join(cells(row))} |" for row in found.rows)]
    return "\n".join(lines) + "\n"


def render_sweep(found: Sweep) -> str:
    """Return the whole page as HTML."""
    rows = [("missing" if row.mean is None else "evaluated", cells(row)) for row in found.rows]
    caption = f"Mean {found.measure.replace('_', ' ')} of the seeds, best first; standard deviation over seeds."
    part = {"data": found.data, "caption": caption, "rows": rows, "pictures": _pictures(found)}
    return template("comparison.html").render(
        title=f"Sweep of {found.algorithm}",
        summary=found.summary().line,
        header=found.header,
        parts=[part],
        overall=None,
        profiles=None,
    )


def _pictures(found: Sweep) -> list[Picture]:
    best = [_entry(found, row) for row in found.rows if row.values][:SHOWN]
    if not best or found.measure not in AXIS_LABELS:
        return []
    words = f"the best {len(best)} settings of {found.algorithm} on {found.data}."
    alt = f"Chart of the {AXIS_LABELS[found.measure]} of {words}"
    pictures = [picture(scores(best), "Mean and range of the seeds, and every seed.", alt)]
    if any(entry.run is not None and entry.run.evaluations for entry in best) and found.measure != "value":
        pictures.append(picture(curves(best), CURVES.partition(";")[0] + ".", f"Learning curves of {words}"))
    return pictures


def _entry(found: Sweep, row: Row) -> Entry:
    return Entry(found.data, row.label, found.measure, row.values, row.mean, row.std, row.spread, run=row.run)
