"""A judgement in the terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from waypost.cli.screen import screen
from waypost.studies.judge.judgement import HEADER, Judgement, cells


def show_judgement(judgement: Judgement) -> None:
    """The candidates as a table, best first, and last, next to the prompt, which one to take."""
    table = Table(title=judgement.data, title_justify="left", title_style="bold")
    for place, name in enumerate(HEADER):
        ends = place in (0, len(HEADER) - 1)
        table.add_column(name, justify="left" if ends else "right")
    for each in judgement.candidates:
        table.add_row(*cells(each))
    screen.print(table, facts(judgement), Text(judgement.words()), sep="\n")


def facts(judgement: Judgement) -> str:
    """What the numbers are."""
    return (
        f"values: discounted by {judgement.discount:g} from the start states of {judgement.episodes} episodes; "
        f"these earned {judgement.mean_return:.4g} on average, {judgement.discounted_return:.4g} discounted"
    )
