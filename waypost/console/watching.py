"""Who watches a training that was started in Python."""

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
    """No bar; warnings go to the logger `waypost`, which writes them to stderr unless it is told otherwise."""

    def note(self, text: str) -> None:
        if text.startswith("warning: "):
            _logger.warning(text.removeprefix("warning: "))


def watcher(progress: bool) -> RunPage:
    """A bar where a person can see it, if one is wanted."""
    if not (progress and watched()):
        return Quiet()
    return NotebookBar() if screen.is_jupyter else TrainingBar()


@contextmanager
def counted(progress: bool | Count, what: str) -> Iterator[Count | None]:
    """What is told how many are done: what was given, a bar where a person can see it, or nothing."""
    if callable(progress):
        yield progress
    elif progress and watched() and not screen.is_jupyter:
        with counting_bar(what) as count:
            yield count
    else:
        yield None
