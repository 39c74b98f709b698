"""A judgement in the terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from waypost.console.screen import Screen
from waypost.studies.judge.judgement import HEADER, Judgement, cells, notes
from waypost.training.runs import Run


def show_judgement(judgement: Judgement, to: Screen) -> None:
    """The candidates as a table, best first, and last, next to the prompt, which one to take."""
    table = Table(title=judgement.data, title_justify="left", title_style="bold")
    for place, name in enumerate(HEADER):
        ends = place in (0, len(HEADER) - 1)
        table.add_column(name, justify="left" if ends else "right", no_wrap=ends)
    for each in judgement.candidates:
        table.add_row(*cells(each))
    to.print(table, facts(judgement), *notes(judgement), Text(judgement.words()), sep="\n")


def show_losses(run: Run, to: Screen) -> None:
    """The result of a run without a simulator: its last losses, those on held-out episodes beside them."""
    last: dict[int, dict[str, float]] = {}
    for row in run.metrics:
        losses = {name: value for name, value in row.items() if name.endswith("_loss") and value is not None}
        last.setdefault(row["seed"], {}).update(losses)
    names = list(dict.fromkeys(name for losses in last.values() for name in losses))
    table = Table("seed", *(name.replace("_", " ") for name in names))
    for seed, losses in last.items():
        table.add_row(str(seed), *(f"{losses[name]:.4g}" for name in names))
    about = f"{run.plan.algorithm} on {run.plan.data}, no simulator"
    to.print(about, table, f"{run.result['seconds']:.1f} s", sep="\n")
    data = "" if run.plan.hold_out else " --data HELD_OUT"
    to.tell(f"how good it is: waypost judge {run.directory or 'RUN'}{data}")


def facts(judgement: Judgement) -> str:
    """What the numbers are."""
    return (
        f"values: discounted by {judgement.discount:g} from the start states of {judgement.episodes} episodes; "
        f"these earned {judgement.mean_return:.4g} on average, {judgement.discounted_return:.4g} discounted"
    )
