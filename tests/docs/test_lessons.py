"""The lessons and their notebooks: every cell runs, in an empty folder, with nothing but what the page says."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import jax
import pytest
from pages import DOCS, notebooks, run_command, shorten

NOTEBOOKS = {file.stem: file for file in sorted((DOCS / "notebooks").glob("*.ipynb"))}


def sources(name: str) -> list[str]:
    """The code of a notebook, cell by cell."""
    cells = json.loads(NOTEBOOKS[name].read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_every_lesson_has_its_notebook_and_it_is_up_to_date() -> None:
    assert set(NOTEBOOKS) == set(notebooks.NAMES.values())
    assert {page.stem for page in (DOCS / "learn").glob("*.md")} == set(notebooks.NAMES)
    for lesson, name in notebooks.NAMES.items():
        made = notebooks.notebook((DOCS / "learn" / f"{lesson}.md").read_text())
        assert NOTEBOOKS[name].read_text() == made, "python scripts/notebooks.py"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_begins_with_its_installation_and_holds_no_output(name: str) -> None:
    assert sources(name)[0].startswith("%pip install -q 'waypost[")
    cells = json.loads(NOTEBOOKS[name].read_text())["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


@pytest.fixture
def lesson_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder where trainings are short, and from which modules can be imported."""
    shorten(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("plant", "tank", "corner", "try_it"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def run_cells(code: list[str]) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for cell in code:
        if cell.startswith("%pip"):
            continue
        if cell.startswith("%%writefile "):
            first, _, text = cell.partition("\n")
            Path(first.split()[1]).write_text(text)
        elif cell.startswith("!"):
            for line in cell.splitlines():
                run_command(line[1:])
        else:
            exec(compile(cell, "cell", "exec"), names)
    return names


def test_the_first_lesson_runs(lesson_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    names = run_cells(sources("four-rooms"))
    assert names["again"].act([2.0, 2.0]).shape == (2,)
    assert (lesson_folder / "four-rooms-policy").is_dir()
    assert "99 343 transitions in 872 episodes: 2 notes" in capfd.readouterr().out


def test_the_lesson_of_the_own_log_ends_with_a_file_that_acts(
    lesson_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run_cells(sources("own-log"))
    said = capfd.readouterr().out
    assert "24 000 transitions in 200 episodes: nothing to fix" in said
    assert "today's controller: 9.5 degrees from 60" in said
    assert "learned policy: " in said
    assert {file.name for file in lesson_folder.glob("tank.*")} == {"tank.npz", "tank.py"}
    shown = (DOCS / "learn" / "own-log.md").read_text()
    assert "\n".join((lesson_folder / "log.csv").read_text().splitlines()[:3]) in shown


def test_the_lesson_of_the_new_task_keeps_the_executor(lesson_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    names = run_cells(sources("adapt"))
    first, corner = (names["waypost"].Policy.load(f"runs/{run}") for run in ("first", "corner"))
    place = [[3.0, 3.0]]
    executors = [policy.agent.executor for policy in (first, corner)]
    assert all((a == b).all() for a, b in zip(*map(jax.tree.leaves, executors), strict=True))
    assert (first.value(place) != corner.value(place)).all()
    assert "steps at x = " in capfd.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_as_people_run_it(name: str, tmp_path: Path) -> None:
    import nbclient
    import nbformat

    book = nbformat.read(NOTEBOOKS[name], as_version=4)
    book.cells = [cell for cell in book.cells if not cell.source.startswith("%pip")]
    assert shutil.which("waypost"), "the command must be on the path"
    nbclient.NotebookClient(book, timeout=1800, resources={"metadata": {"path": str(tmp_path)}}).execute()
