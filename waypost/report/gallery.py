"""The page about the paper's experiments: the claim, what was found, the figures and the numbers of each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markupsafe import Markup

from waypost.files import read_json, write_text
from waypost.report.page import embed, template
from waypost.studies.paper import EXPERIMENTS
from waypost.studies.paper.experiment import Experiment
from waypost.studies.paper.run import Record, cell, finished, how, numeric

WIDE, COLUMNS = 450.0, 5
"""Pictures of more points and tables of more columns would be unreadable in half the width of the page."""


class Numbers(NamedTuple):
    """A table ready for the page."""

    id: str
    caption: str
    header: list[str]
    rows: list[list[str]]
    right: list[bool]
    """Which columns are numbers."""
    wide: bool
    """Whether it needs the whole width of the page."""


class Shown(NamedTuple):
    """A picture ready for the page."""

    image: Markup
    caption: str
    wide: bool
    """Whether it needs the whole width of the page."""


class Part(NamedTuple):
    """What the page shows of one experiment."""

    experiment: Experiment
    how: str
    command: str
    text: Markup
    pictures: list[Shown]
    tables: list[Numbers]
    files: list[str]


def write_gallery(out: Path) -> None:
    """Write paper.html about all experiments of a folder that are finished."""
    write_text(out / "paper.html", render_gallery(out, finished(out)))


def render_gallery(out: Path, records: dict[str, Record]) -> str:
    """Return the whole page as HTML; everything on it is read from the experiments' own files."""
    quick = sum(record.quick for record in records.values())
    return template("gallery.html").render(
        title="The paper's experiments",
        summary=f"{len(records)} of {len(EXPERIMENTS)} experiments"
        + (f", {quick} of them in the quick form" if quick else "")
        + ": what the paper says, and what was found here.",
        parts=[_part(out / name, record) for name, record in records.items()],
    )


def _part(folder: Path, record: Record) -> Part:
    pictures = [_picture(folder, name, **words) for name, words in record.figures.items()]
    shown = {name: words["caption"] for name, words in record.tables.items() if words["shown"]}
    tables = [_numbers(f"{record.name}-{name}", read_json(folder / f"{name}.json"), shown[name]) for name in shown]
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    return Part(
        EXPERIMENTS[record.name],
        how(record),
        record.command,
        Markup(markdown.render(record.text)),
        pictures,
        [table for table in tables if table.rows],
        [f"{record.name}/{file}" for file in (*record.files, "record.json")],
    )


def _picture(folder: Path, name: str, caption: str, alt: str) -> Shown:
    svg = (folder / f"{name}.svg").read_text().strip()
    made = embed(svg, (folder / f"{name}.png").read_bytes, caption, alt)
    width = re.search(r'width="([\d.]+)pt"', svg)
    return Shown(made.image, made.caption, width is not None and float(width[1]) > WIDE)


def _numbers(name: str, rows: list[dict[str, Any]], caption: str) -> Numbers:
    header, lines = list(rows[0]) if rows else [], [[cell(value) for value in row.values()] for row in rows]
    return Numbers(name, caption, header, lines, numeric(rows) if rows else [], len(header) > COLUMNS)
