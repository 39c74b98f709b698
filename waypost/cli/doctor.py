"""`waypost doctor`: its options and its output. Nothing heavy is imported, since it may be broken."""

from __future__ import annotations

import json
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from waypost.cli.output import results, say
from waypost.console.screen import Screen, screen
from waypost.doctor.checks import Checkup, Level
from waypost.doctor.examination import examine
from waypost.errors import WaypostError

_COLOURS: dict[Level, str] = {"ok": "green", "note": "cyan", "warning": "yellow", "error": "bold red"}


@dataclass(frozen=True)
class Doctor:
    """Check this installation: versions, extras, devices, folders, and a short training.

    Exit code 2 means that something keeps Waypost from working. Add the output to bug reports. No network is used.
    """

    self_test: bool = True
    """Train a small policy, save it, load it, and compare its actions."""
    json: bool = False
    """Print the results as one JSON object, the last line on stdout."""


def run_doctor(command: Doctor) -> None:
    with screen.status("checking") as status:
        found = examine(command.self_test, lambda name: status.update(f"checking: {name}"))
    with results(command.json) as to:
        show_checkup(found, to)
    if command.json:
        say(json.dumps(found.to_json()))
    if found.problems:
        raise WaypostError("; ".join(map(str, found.problems)))


def show_checkup(found: Checkup, to: Screen) -> None:
    """The sections one below the other; the last line says whether there are problems."""
    table = Table(box=None, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, checks in found.sections.items():
        table.add_row(Text(name, style="bold"))
        for check in checks:
            table.add_row(f"  {check.what}", Text(check.found, style=_COLOURS[check.level]))
            if check.advice:
                table.add_row("", check.advice)
    to.print(table)
    if not found.problems:
        to.print("no problems found")
