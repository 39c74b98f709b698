"""Who watches a training that was started in Python."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from samples import walk

import waypost
from waypost.console import watching
from waypost.console.bar import TrainingBar
from waypost.console.notebook import NotebookBar
from waypost.console.screen import screen
from waypost.console.watching import Quiet, counted, watcher

SMALL: dict[str, Any] = {"hidden": (4,), "batch_size": 8, "steps": 4, "log_every": 2, "preset": "none"}


class Display:
    """IPython's display, which remembers what it showed."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def display(self, page: str, display_id: bool) -> Display:
        self.shown.append(page)
        return self

    def update(self, page: str) -> None:
        self.shown.append(page)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Display:
    display = Display()
    module = SimpleNamespace(HTML=str, display=display.display)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=module))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(screen, "is_jupyter", True)
    return display


def test_there_is_no_bar_where_nobody_sees_it(capfd: pytest.CaptureFixture[str]) -> None:
    assert type(watcher(True)) is Quiet
    waypost.train("bc", walk(), **SMALL)
    assert capfd.readouterr() == ("", "")


def test_there_is_one_in_a_terminal_unless_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "watched", lambda: True)
    assert type(watcher(True)) is TrainingBar
    assert type(watcher(False)) is Quiet
    with counted(True, "episodes") as count:
        assert count is not None
    with counted(False, "episodes") as count:
        assert count is None


def test_a_count_of_ones_own_is_told() -> None:
    def own(done: int, total: int) -> None: ...

    with counted(own, "episodes") as count:
        assert count is own


def test_a_notebook_shows_one_bar_that_moves(notebook: Display) -> None:
    assert type(watcher(True)) is NotebookBar
    waypost.train("bc", walk(), **SMALL)
    assert 'value="0" max="4"' in notebook.shown[0]
    assert "bc on walk" in notebook.shown[0]
    assert 'value="4" max="4"' in notebook.shown[-1]
    notebook.shown.clear()
    waypost.train("bc", walk(), progress=False, **SMALL)
    assert notebook.shown == []


def test_names_are_no_html(notebook: Display) -> None:
    waypost.train("bc", walk().named("<b>&"), **SMALL)
    assert "&lt;b&gt;&amp;" in notebook.shown[0]


def test_warnings_are_logged_where_there_is_no_bar(caplog: pytest.LogCaptureFixture) -> None:
    quiet = Quiet()
    quiet.note("training 1 of 3")
    quiet.note("warning: all rewards are 0")
    assert [record.getMessage() for record in caplog.records] == ["all rewards are 0"]
