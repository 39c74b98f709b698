"""Installed packages and extras, and which of them are older than Waypost needs."""

from __future__ import annotations

import platform
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, metadata, version
from pathlib import Path
from typing import TYPE_CHECKING

from waypost.doctor.checks import Check, reason

if TYPE_CHECKING:
    from packaging.requirements import Requirement

HIDDEN = {"all", "bench", "dev", "docs"}
"""Extras that only combine others, or that only developers need."""
_MODULES = {"markdown-it-py": "markdown_it"}
"""Modules whose name differs from that of their package."""


def system() -> list[Check]:
    """Waypost, Python and the operating system."""
    return [
        Check("waypost", f"{version('waypost')} in {Path(__file__).parents[1]}"),
        Check("Python", f"{platform.python_version()}, {sys.executable}"),
        Check("system", f"{platform.platform()}, {platform.machine()}"),
    ]


def packages() -> list[Check]:
    """The required packages: installed, new enough, and importable."""
    from packaging.requirements import Requirement

    return [_package(each) for each in (*needs(""), Requirement("jaxlib"))]


def extras() -> list[Check]:
    """The optional packages. Nothing is imported: some of them take seconds."""
    names = [name for name in metadata("waypost").get_all("Provides-Extra", []) if name not in HIDDEN]
    return [_extra(name) for name in sorted(names)]


def needs(extra: str) -> list[Requirement]:
    """The packages that an extra adds; the empty name stands for the required ones."""
    from packaging.requirements import Requirement

    found = []
    for each in map(Requirement, metadata("waypost").get_all("Requires-Dist", [])):
        if not _applies(each, extra) or (extra and _applies(each, "")):
            continue
        found += [inner for name in each.extras for inner in needs(name)] if each.name == "waypost" else [each]
    return found


def _applies(needed: Requirement, extra: str) -> bool:
    return needed.marker is None or needed.marker.evaluate({"extra": extra})


def _package(needed: Requirement) -> Check:
    found, level = _installed(needed)
    if level != "ok":
        return Check(needed.name, found, "error", _install(needed))
    try:
        import_module(_MODULES.get(needed.name, needed.name))
    except Exception as error:
        return Check(needed.name, f"{found}, cannot be imported: {reason(error)}", "error", _install(needed))
    return Check(needed.name, found)


def _extra(name: str) -> Check:
    found = {each.name: _installed(each) for each in needs(name)}
    levels = {level for _, level in found.values()}
    words = ", ".join(f"{package} {text}" for package, (text, _) in found.items())
    install = f"pip install --upgrade 'waypost[{name}]'"
    if "warning" in levels:
        return Check(name, words, "warning", install)
    return Check(name, words, "note", install) if "note" in levels else Check(name, words)


def _installed(needed: Requirement) -> tuple[str, str]:
    """The version in words, and the level: a note if it is missing, a warning if it is too old."""
    try:
        found = version(needed.name)
    except PackageNotFoundError:
        return "missing", "note"
    if needed.specifier.contains(found, prereleases=True):
        return found, "ok"
    return f"{found}, {needed.specifier} is needed", "warning"


def _install(needed: Requirement) -> str:
    return f"pip install --upgrade '{needed.name}{needed.specifier}'"
