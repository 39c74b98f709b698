"""Many trainings on one screen: a bar for each that runs, and one for all."""

from __future__ import annotations

from pathlib import Path

from rich.progress import TaskID

from waypost.console.bar import steps_bar
from waypost.console.screen import screen
from waypost.studies.trials import Status, Trial
from waypost.studies.workers import Board


class TrialsBar(Board):
    """Bars with the time that is left; without a terminal a line for each training that ends."""

    def __init__(self) -> None:
        self.bar = steps_bar()
        self.rows: dict[Path, TaskID] = {}
        self.all: TaskID | None = None
        self.over: set[Path] = set()
        """Those that ended; one that was paused may start again."""

    def begin(self, count: int | None) -> None:
        self.all = self.bar.add_task("trainings", total=count)
        self.bar.start()

    def running(self, trial: Trial, at: Status) -> None:
        self._count(self.over - {trial.place})
        if trial.place not in self.rows:
            self.rows[trial.place] = self.bar.add_task("", total=at.total)
        row = self.rows[trial.place]
        doing = "" if at.state == "running" else " (starting)"
        self.bar.update(row, completed=at.step, total=at.total, description=f"{trial.name}{doing}")

    def ended(self, trial: Trial, words: str) -> None:
        row = self.rows.pop(trial.place, None)
        if row is not None:
            self.bar.remove_task(row)
        screen.tell(f"{trial.name}: {words}")
        self._count(self.over | {trial.place})

    def _count(self, over: set[Path]) -> None:
        self.over = over
        if self.all is not None:
            self.bar.update(self.all, completed=len(over))

    def close(self) -> None:
        self.bar.stop()
        for task in self.bar.task_ids:
            self.bar.remove_task(task)
        self.rows.clear()
        self.over = set()
