"""Trainings that a study asks for one by one, run many at once.

The study is run to find out which trainings it needs. One that is not finished raises `NotTrained`, like a gap in a
folder of results, and is collected; a study that continues after a gap asks for all of its trainings at once. They are
run, and the study is run again, until nothing new is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from waypost.errors import WaypostError
from waypost.studies.results import NotTrained
from waypost.studies.trials import Trial
from waypost.studies.workers import Runner
from waypost.training.callbacks import Callback
from waypost.training.runs import Run

Found = TypeVar("Found")


class Rounds:
    """The outcomes of trials so far, and the trials still to run."""

    def __init__(self, runner: Runner, callback: Callback):
        self.runner, self.callback = runner, callback
        self.known: dict[Path, Run | WaypostError] = {}
        self.asked: dict[Path, Trial] = {}

    def get(self, trial: Trial) -> Run:
        """The run of a trial; one without an outcome is collected."""
        outcome = self.known.get(trial.place)
        if outcome is None:
            self.asked[trial.place] = trial
            raise NotTrained("not trained yet")
        if isinstance(outcome, WaypostError):
            raise outcome
        return outcome

    def until_nothing_is_missing(self, study: Callable[[], Found]) -> Found:
        while True:
            self.asked.clear()
            try:
                found = study()
            except WaypostError:
                if not self.asked:
                    raise
            else:
                if not self.asked:
                    return found
            for trial, outcome in self.runner([*self.asked.values()], self.callback):
                self.known[trial.place] = outcome
                if isinstance(outcome, WaypostError):
                    self.callback.note(f"{trial.name}: {outcome}")
