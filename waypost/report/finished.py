"""The page of a run that has just been trained."""

from __future__ import annotations

from pathlib import Path

from waypost.training import runs
from waypost.training.callbacks import Callback
from waypost.training.runs import Run


class RunPage(Callback):
    """Writes the page of every run with a directory, last before the run counts as finished."""

    def finished(self, run: Run) -> None:
        if run.directory is not None:
            write_page(run, run.directory / "report.html")


def write_page(run: Run, path: Path) -> Path:
    """Write the page of a run."""
    from waypost.report.run import write_report  # drawing is imported only when needed

    return write_report(run, path)


runs.write_page = write_page
