"""Checks: what was checked, what was found, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from waypost.errors import InterruptedRun

Level = Literal["ok", "note", "warning", "error"]
"""A note is worth knowing, a warning costs something, an error keeps Waypost from working."""


@dataclass(frozen=True)
class Check:
    """One check and its result."""

    what: str
    found: str
    level: Level = "ok"
    advice: str = ""

    def __str__(self) -> str:
        return "; ".join(text for text in (f"{self.what}: {self.found}", self.advice) if text)


@dataclass(frozen=True)
class Checkup:
    """All results, by section."""

    sections: dict[str, list[Check]]

    @property
    def problems(self) -> list[Check]:
        """The errors, which keep Waypost from working."""
        return [check for checks in self.sections.values() for check in checks if check.level == "error"]

    def to_json(self) -> dict[str, Any]:
        sections = {name: [asdict(check) for check in checks] for name, checks in self.sections.items()}
        return {"ok": not self.problems, "sections": sections}


def attempted(what: str, section: Callable[[], list[Check]]) -> list[Check]:
    """The checks of a section. A section that fails becomes one failed check, so that the others still run."""
    try:
        return section()
    except InterruptedRun:
        raise KeyboardInterrupt from None
    except Exception as error:
        return [Check(what, f"failed: {reason(error)}", "error")]


def reason(error: Exception) -> str:
    """An error in one short line."""
    words = " ".join(str(error).split())[:200]
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
