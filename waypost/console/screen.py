"""A console for people: names without control characters, and bars that count."""

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
"""Control characters, what turns the direction of writing, and bytes of a file name that are no text."""
SHOWN = (
    ("return", "return", 2),
    ("score", "score", 1),
    ("success_rate", "success", 3),
    ("episode_length", "length", 1),
)
"""The measures of an evaluation, what they are called, and their digits."""


def plain(text: object, kept: str = "") -> str:
    """A text with every control character written out, `\\x1b` for an escape; those in `kept` stay."""
    return _UNSEEN.sub(lambda found: found[0] if found[0] in kept else _written_out(found[0]), str(text))


def _written_out(character: str) -> str:
    return character.encode("unicode_escape").decode()


class Screen(Console):
    """A console that shows names as they are: no markup in them is read, no control character gets through."""

    def __init__(self, stderr: bool = False):
        super().__init__(stderr=stderr, markup=False, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Written out here already, so that a table leaves room for it."""
        return super().render_str(plain(text, kept="\n"), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=plain(segment.text, kept="\n"))

    def tell(self, text: str) -> None:
        """A line as long as it is, for names to be copied."""
        self.print(plain(text), soft_wrap=True)


screen = Screen(stderr=True)
"""Where progress goes."""


def watched() -> bool:
    """Whether a person sees what is printed: a terminal, or a notebook."""
    return screen.is_jupyter or screen.is_terminal


@contextmanager
def counting_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar that is told how many of how many are done; it shows once there is something to tell."""
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
    """The means of an evaluation's rows, in words."""
    found = []
    for measure, label, digits in SHOWN:
        values = [row[measure] for row in rows if row[measure] is not None]
        if values:
            found.append(f"{label} {sum(values) / len(values):.{digits}f}")
    return ", ".join(found)
