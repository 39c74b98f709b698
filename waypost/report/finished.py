"""The page of a run that has just been trained."""

from __future__ import annotations

from waypost.training.callbacks import Callback
from waypost.training.runs import Run


class RunPage(Callback):
    """Writes the page of every run that has a directory, as the last thing before it counts as finished."""

    def finished(self, run: Run) -> None:
        if run.directory is not None:
            from waypost.report.run import write_report  # drawing is loaded once there is something to draw

            write_report(run, run.directory / "report.html")
