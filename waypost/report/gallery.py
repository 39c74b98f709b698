"""The page of the paper's experiments: the claim, the result, the figures and the tables of each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markupsafe import Markup

from waypost.files import write_text
from waypost.report.page import embed, template
from waypost.studies.paper import EXPERIMENTS
from waypost.studies.paper.run import Record, cell, finished, how, numeric
from waypost.training.records import read_record

WIDE, COLUMNS = 450.0, 5
"""Wider figures and tables with more columns would be unreadable in half the width of the page."""


def write_gallery(out: Path) -> None:
    """Write paper.html about all finished experiments of a folder, from their own files."""
    records = finished(out)
    quick = sum(record.quick for record in records.values())
    form = f", {quick} of them quick" if quick else ""
    counts = f"{len(records)} of {len(EXPERIMENTS)} experiments{form}"
    page = template("gallery.html").render(
        title="The paper's experiments",
        summary=f"{counts}: what the paper says, and the results here.",
        parts=[_part(out / name, record) for name, record in records.items()],
    )
    write_text(out / "paper.html", page)


def _part(folder: Path, record: Record) -> dict[str, Any]:
    """The section of one experiment."""
    tables = [
        _numbers(f"{record.name}-{name}", read_record(folder / f"{name}.json", list[dict[str, Any]]), words["caption"])
        for name, words in record.tables.items()
        if words["shown"]
    ]
    return {
        "experiment": EXPERIMENTS[record.name],
        "how": how(record),
        "command": record.command,
        "text": Markup(MarkdownIt("commonmark", {"html": False}).enable("table").render(record.text)),
        "pictures": [_picture(folder, name, **words) for name, words in record.figures.items()],
        "tables": [table for table in tables if table["rows"]],
        "files": [f"{record.name}/{file}" for file in (*record.files, "record.json")],
    }


def _picture(folder: Path, name: str, caption: str, alt: str) -> dict[str, Any]:
    svg = (folder / f"{name}.svg").read_text().strip()
    width = re.search(r'width="([\d.]+)pt"', svg)
    image = embed(svg, (folder / f"{name}.png").read_bytes, caption, alt).image
    return {"image": image, "caption": caption, "wide": width is not None and float(width[1]) > WIDE}


def _numbers(name: str, rows: list[dict[str, Any]], caption: str) -> dict[str, Any]:
    """A table; numbers are right-aligned."""
    header = list(rows[0]) if rows else []
    return {
        "id": name,
        "caption": caption,
        "header": header,
        "rows": [[cell(value) for value in row.values()] for row in rows],
        "right": numeric(rows) if rows else [],
        "wide": len(header) > COLUMNS,
    }
