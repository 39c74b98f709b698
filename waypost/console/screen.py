"""The console: text without control characters, and progress bars."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.text import Text

_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, marks that change the writing direction, and bytes of file names that are not text."""
SHOWN = (
    ("return", "return", 2),
    ("score", "score", 1),
    ("success_rate", "success", 3),
    ("episode_length", "length", 1),
)
"""The measures of an evaluation, their labels and their digits."""


def plain(text: object, kept: str = "") -> str:
    """The text with control characters escaped, such as `\\x1b`; those in `kept` stay."""
    return _UNSEEN.sub(lambda found: found[0] if found[0] in kept else _written_out(found[0]), str(text))


def _written_out(character: str) -> str:
    return character.encode("unicode_escape").decode()


class Screen(Console):
    """A console that prints names literally, without markup and without control characters."""

    def __init__(self, stderr: bool = False):
        super().__init__(stderr=stderr, markup=False, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Escape here already, so that tables reserve the width."""
        return super().render_str(plain(text, kept="\n"), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=plain(segment.text, kept="\n"))

    def tell(self, text: str) -> None:
        """Print a line without wrapping, so that names can be copied."""
        self.print(plain(text), soft_wrap=True)


screen = Screen(stderr=True)
"""Progress is printed here."""


def watched() -> bool:
    """Whether output goes to a terminal or a notebook."""
    return screen.is_jupyter or screen.is_terminal


@contextmanager
def counting_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar, as a function of the number done and the total; it appears at the first call."""
    bar = Progress(
        TextColumn(what, markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=screen
    )
    task = bar.add_task("", total=None)

    def count(done: int, total: int) -> None:
        bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield count
    finally:
        if bar.live.is_started:
            bar.stop()


def words(rows: list[dict[str, Any]]) -> str:
    """The means of an evaluation's rows, as text."""
    found = []
    for measure, label, digits in SHOWN:
        values = [row[measure] for row in rows if row[measure] is not None]
        if values:
            found.append(f"{label} {sum(values) / len(values):.{digits}f}")
    return ", ".join(found)
