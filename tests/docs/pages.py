"""The documentation as text: its pages, the code in them, and trainings so short that all of it can run."""

from __future__ import annotations

import runpy
import shlex
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from waypost.cli import main
from waypost.training.plan import Plan

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *(page for part in ("learn", "results") for page in (DOCS / part).glob("*.md"))])
"""Every page that people wrote."""


def script(file: Path) -> ModuleType:
    """A file outside of the package as a module."""
    spec = spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


notebooks = script(ROOT / "scripts" / "notebooks.py")
blocks: Callable[[str], list[tuple[str, str]]] = notebooks.blocks


def python_of(page: Path) -> list[str]:
    return [inside for language, inside in blocks(page.read_text()) if language == "python"]


def small(planned: Plan[Any]) -> Plan[Any]:
    """The plan with one seed, little networks, few updates and few episodes."""
    sizes = {each.name: getattr(planned.config, each.name) for each in fields(planned.config)}
    less = {name: (8,) * len(value) for name, value in sizes.items() if name.endswith("hidden")}
    evaluation = replace(planned.evaluation, every=0, episodes=2)
    config = replace(planned.config, batch_size=16, **less)
    steps, seeds = min(planned.steps or 4, 4), planned.seeds[:1]
    return replace(planned, config=config, steps=steps, seeds=seeds, log_every=2, evaluation=evaluation)


def shorten(patch: pytest.MonkeyPatch) -> None:
    """Make every training short, and leave out the reports."""
    import_module("waypost.api")
    trainer = import_module("waypost.training.trainer")
    execute = trainer.execute

    def short(planned: Plan[Any], *others: Any, **named: Any) -> Any:
        return execute(small(planned), *others, **named)

    for name, module in list(sys.modules.items()):
        if name.startswith("waypost.") and getattr(module, "execute", None) is execute:
            patch.setattr(module, "execute", short)
    patch.setattr(import_module("waypost.report.finished"), "write_page", lambda run, path: path)
    patch.setattr(import_module("waypost.api"), "write_comparison", lambda found, out: None)


def run_command(line: str) -> None:
    """A command of the shell, in this process."""
    program, *words = shlex.split(line)
    if program == "python":
        runpy.run_path(words[0], run_name="__main__")
        return
    assert program == "waypost", line
    if words[0] == "judge":
        words += ["--steps", "4", "--members", "5", "--hidden", "8", "--horizon", "0"]
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert not stop.value.code, line
