"""Studies train many agents; what they have to say about each is tested elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from waypost.report.finished import RunPage

FINISHED = RunPage.finished


@pytest.fixture(autouse=True, scope="module")
def no_reports() -> Iterator[None]:
    """Runs leave no report, which takes longer to draw than a few updates do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunPage, "finished", lambda self, run: None)
        yield


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs leave their report after all."""
    monkeypatch.setattr(RunPage, "finished", FINISHED)
