"""How Python and notebooks show an object: one line, and a table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from html import escape
from typing import NamedTuple


class Summary(NamedTuple):
    """A short description of an object."""

    line: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    """More detail, as the rows of a table."""


class Summarised:
    """An object with a short `repr`, and a table in notebooks."""

    @abstractmethod
    def summary(self) -> Summary:
        """A short description."""

    def __repr__(self) -> str:
        return f"<{self.summary().line}>"

    def _repr_html_(self) -> str:
        line, header, rows = self.summary()
        body = "".join(f"<tr>{_cells(row, 'td')}</tr>" for row in rows)
        table = f"<table><thead><tr>{_cells(header, 'th')}</tr></thead><tbody>{body}</tbody></table>"
        return f"<p>{escape(line)}</p>{table}"


def _cells(row: Sequence[str], tag: str) -> str:
    return "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row)


def number(value: float | None, digits: int) -> str:
    """A number as a table shows it; a dash for None."""
    return "-" if value is None else f"{value:.{digits}f}"
