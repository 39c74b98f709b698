"""Progress of training and evaluation that were started in Python."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from waypost.console.bar import TrainingBar
from waypost.console.notebook import NotebookBar
from waypost.console.screen import counting_bar, screen, watched
from waypost.report.finished import RunPage
from waypost.types import Count

_logger = logging.getLogger("waypost")


class Quiet(RunPage):
    """No bar; warnings go to the logger `waypost`, which writes them to stderr by default."""

    def note(self, text: str) -> None:
        if text.startswith("warning: "):
            _logger.warning(text.removeprefix("warning: "))


def watcher(progress: bool) -> RunPage:
    """A progress bar, if one is wanted and somebody can see it."""
    if not (progress and watched()):
        return Quiet()
    return NotebookBar() if screen.is_jupyter else TrainingBar()


@contextmanager
def counted(progress: bool | Count, what: str) -> Iterator[Count | None]:
    """The function to report progress to: the given one, a bar in a terminal, or None."""
    if callable(progress):
        yield progress
    elif progress and watched() and not screen.is_jupyter:
        with counting_bar(what) as count:
            yield count
    else:
        yield None
