"""Training in a terminal: a progress bar with an ETA, a line per evaluation, and the report at the end."""

from __future__ import annotations

from typing import Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from waypost.console.screen import screen, words
from waypost.report.finished import RunPage
from waypost.training.plan import Plan
from waypost.training.runs import Run


def steps_bar() -> Progress:
    """Bars that count steps, with the time that has passed and that is left."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("elapsed"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=screen,
    )


class TrainingBar(RunPage):
    """A progress bar with an ETA, and a line per evaluation."""

    def __init__(self) -> None:
        self.recorder: TaskID | None = None
        self.bar = steps_bar()

    def recording(self, done: int, total: int) -> None:
        """Show the recording of data on first use, before training."""
        if self.recorder is None:
            self.recorder = self.bar.add_task("recording data", total=total)
            self.bar.start()
        self.bar.update(self.recorder, completed=done)

    def start(self, plan: Plan[Any], total: int, done: int) -> None:
        seeds = f"{len(plan.seeds)} seeds" if len(plan.seeds) > 1 else f"seed {plan.seeds[0]}"
        screen.tell(f"{plan.algorithm} on {plan.data}, {seeds}, {total} steps" + (f", from {done}" if done else ""))
        self.task = self.bar.add_task("compiling", total=total, completed=done)
        self.bar.start()

    def advance(self, stage: str, step: int) -> None:
        self.bar.update(self.task, completed=step, description=stage)

    def evaluated(self, step: int, rows: list[dict[str, Any]]) -> None:
        screen.print(f"  step {step}: {words(rows)}")

    def note(self, text: str) -> None:
        screen.tell(text)

    def finished(self, run: Run) -> None:
        self.note("writing the report")
        super().finished(run)

    def stop(self) -> None:
        """Stop the bar; the next training starts a new one."""
        self.bar.stop()
        for task in self.bar.task_ids:
            self.bar.remove_task(task)
        self.recorder = None
