"""What people see while it runs and when it is done; all on stderr, so that stdout holds what a program reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from waypost.runs import Progress

screen = Console(stderr=True)


class TrainingBar(Progress):
    """A training as a progress bar with an ETA, and a line per evaluation."""

    def __init__(self) -> None:
        self.bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("elapsed"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=screen,
        )

    def start(self, plan: Any, total: int, done: int) -> None:
        seeds = f"{len(plan.seeds)} seeds" if len(plan.seeds) > 1 else f"seed {plan.seeds[0]}"
        screen.print(f"{plan.algorithm} on {plan.data}, {seeds}, {total} steps" + (f", from {done}" if done else ""))
        self.task = self.bar.add_task("compiling", total=total, completed=done)
        self.bar.start()

    def advance(self, stage: str, step: int) -> None:
        self.bar.update(self.task, completed=step, description=stage)

    def evaluated(self, step: int, rows: list[dict[str, Any]]) -> None:
        words = []
        for measure, label, digits in _SHOWN:
            values = [row[measure] for row in rows if row[measure] is not None]
            if values:
                words.append(f"{label} {sum(values) / len(values):.{digits}f}")
        screen.print(f"  step {step}: {', '.join(words)}")

    def note(self, text: str) -> None:
        screen.print(text)

    def stop(self) -> None:
        self.bar.stop()


_SHOWN = (
    ("return", "return", 2),
    ("score", "score", 1),
    ("success_rate", "success", 3),
    ("episode_length", "length", 1),
)


@contextmanager
def episodes_bar() -> Iterator[Callable[[int, int], None]]:
    with Bar(
        TextColumn("episodes"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=screen,
    ) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def show(outcome: dict[str, Any]) -> None:
    """The result as a table."""

    def number(value: float | None, digits: int) -> str:
        return "-" if value is None else f"{value:.{digits}f}"

    suite = f", suite {outcome['suite']}" if outcome["suite"] else ""
    title = f"{outcome['algorithm']} on {outcome['data'] or 'a policy'}, task {outcome['task'] or 'none'}{suite}"
    table = Table("seed", *(label for _, label, _ in _SHOWN))
    for row in outcome["per_seed"]:
        table.add_row(str(row["seed"]), *(number(row[measure], digits) for measure, _, digits in _SHOWN))
    if len(outcome["per_seed"]) > 1:
        table.add_section()
        for statistic in ("mean", "std", "iqm"):
            table.add_row(statistic, *(number(outcome[statistic][measure], digits) for measure, _, digits in _SHOWN))
        bounds = (outcome["interval"][measure] for measure, _, _ in _SHOWN)
        cells = (
            "-" if b is None else f"{b[0]:.{d}f} to {b[1]:.{d}f}" for b, (_, _, d) in zip(bounds, _SHOWN, strict=True)
        )
        table.add_row("95 %", *cells)
    screen.print(title, table, f"{outcome['seconds']:.1f} s", sep="\n")
