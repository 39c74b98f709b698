"""The results of `waypost judge` and of a training in the terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from waypost.cli.screen import show
from waypost.console.screen import Screen
from waypost.studies.judge.judgement import HEADER, Judgement, cells, notes
from waypost.training.runs import Run, last_losses

WIDE = 110
"""Width of a terminal with room for all columns."""
ON_THE_PAGE = ("imagined", "doubly robust", "unusual actions")
"""Columns that a narrower terminal leaves to the page."""


def show_judgement(judgement: Judgement, to: Screen) -> None:
    """The candidates as a table, best first, and last, next to the prompt, the recommendation."""
    rows = [cells(each) for each in judgement.candidates]
    left_out = ON_THE_PAGE if to.width < WIDE else ()
    shown = [place for place, name in enumerate(HEADER) if name not in left_out]
    table = Table(title=judgement.data, title_justify="left", title_style="bold")
    for place in shown:
        words = [word for text in (HEADER[place], *(row[place] for row in rows)) for word in text.split()]
        ends = place in (0, len(HEADER) - 1)
        table.add_column(HEADER[place], justify="left" if ends else "right", min_width=max(map(len, words)))
    for row in rows:
        table.add_row(*(row[place] for place in shown))
    to.print(table, facts(judgement), *notes(judgement), Text(judgement.words()), sep="\n")


def show_run(run: Run, to: Screen) -> None:
    """The result of a training: its evaluation, or its losses without a simulator; and why it stopped early."""
    if run.plan.task is None:
        show_losses(run, to)
    else:
        show(run.result, to)
    stopped = run.result.get("stopped")
    if stopped:
        to.tell(f"stopped at step {stopped['step']}: {stopped['reason']}")


def show_losses(run: Run, to: Screen) -> None:
    """The result of a run without a simulator: its last losses, with those on held-out episodes beside them."""
    last = last_losses(run.metrics)
    names = list(dict.fromkeys(name for losses in last.values() for name in losses))
    table = Table("seed", *(name.replace("_", " ") for name in names))
    for seed, losses in last.items():
        table.add_row(str(seed), *(f"{losses[name]:.4g}" for name in names))
    to.print(f"{run.plan.algorithm} on {run.plan.data}, no simulator", *([table] if names else []), sep="\n")
    to.print(f"{run.result['seconds']:.1f} s")
    data = "" if run.plan.hold_out else " --data HELD_OUT"
    to.tell(f"how good it is: waypost judge {run.directory or 'RUN'}{data}")


def facts(judgement: Judgement) -> str:
    """What the numbers mean."""
    return (
        f"values: discounted by {judgement.discount:g} from the start states of {judgement.episodes} episodes, whose "
        f"mean return is {judgement.mean_return:.4g}, {judgement.discounted_return:.4g} discounted"
    )
