"""The whole examination, section by section."""

from __future__ import annotations

from collections.abc import Callable

from waypost.doctor.checks import Checkup, attempted
from waypost.doctor.machine import devices, places
from waypost.doctor.packages import extras, packages, system
from waypost.doctor.trial import trial


def examine(self_test: bool = True, tell: Callable[[str], None] = lambda name: None) -> Checkup:
    """Check everything; `tell` is called with the name of each section before it runs."""
    checks = {"system": system, "packages": packages, "extras": extras, "devices": devices, "places": places}
    if self_test:
        checks["self-test"] = trial
    sections = {}
    for name, section in checks.items():
        tell(name)
        sections[name] = attempted(name, section)
    return Checkup(sections)
