"""Training in a notebook: a line with a bar, updated in place."""

from __future__ import annotations

import time
from html import escape
from importlib import import_module
from typing import Any

from waypost.console.screen import plain, words
from waypost.report.finished import RunPage
from waypost.training.plan import Plan

EVERY = 0.2
"""Seconds between two updates of the bar."""


class NotebookBar(RunPage):
    """A bar with an ETA, the last evaluation and the notes, in the cell's output; no widgets are needed."""

    def __init__(self) -> None:
        self.handle: Any = None

    def start(self, plan: Plan[Any], total: int, done: int) -> None:
        self.title, self.total = f"{plan.algorithm} on {plan.data}", total
        self.first, self.begun, self.shown = done, time.monotonic(), 0.0
        self.step, self.stage, self.found = done, "compiling", ""
        self._show()

    def advance(self, stage: str, step: int) -> None:
        self.stage, self.step = stage, step
        if time.monotonic() - self.shown > EVERY:
            self._show()

    def evaluated(self, step: int, rows: list[dict[str, Any]]) -> None:
        self.found = f"step {step}: {words(rows)}"
        self._show()

    def note(self, text: str) -> None:
        print(plain(text))

    def stop(self) -> None:
        self._show()
        self.handle = None

    def html(self) -> str:
        """The current bar."""
        done = self.step - self.first
        seconds = time.monotonic() - self.begun
        left = f"{seconds / done * (self.total - self.step):.0f} s left" if done else ""
        parts = (self.title, self.stage, f"{self.step}/{self.total}", left, self.found)
        line = " &middot; ".join(escape(plain(part)) for part in parts if part)
        return f'<div><progress value="{self.step}" max="{self.total}"></progress> {line}</div>'

    def _show(self) -> None:
        display = import_module("IPython.display")  # every notebook has it
        self.shown, page = time.monotonic(), display.HTML(self.html())
        if self.handle is None:
            self.handle = display.display(page, display_id=True)
        else:
            self.handle.update(page)
