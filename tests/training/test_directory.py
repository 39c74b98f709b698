"""A run directory belongs to one process at a time, and nothing in it that is not ours is touched."""

from __future__ import annotations

import errno
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import pytest

from waypost.errors import DirectoryError, WaypostError
from waypost.files import unused_name
from waypost.training.directory import LOCK, claimed

HOLDS = 150
"""Of each of three processes."""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def take_turns(directory: Path, holds: int) -> None:
    """Hold the directory again and again; a second holder at the same time would find the marker."""
    marker = directory.with_name("held")
    deadline = time.monotonic() + 60
    while holds:
        assert time.monotonic() < deadline, "never got hold of the directory"
        try:
            with claimed(directory, resume=True):
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
                marker.unlink()
                if holds % 3 == 0:
                    (directory / LOCK).unlink()  # someone tidies up
            holds -= 1
        except DirectoryError as error:
            if "another process is training there" not in str(error):
                raise


def test_three_processes_never_hold_a_directory_together(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=take_turns, args=(tmp_path / "run", HOLDS)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(90)
    assert [process.exitcode for process in processes] == [0, 0, 0]


def test_waiting_for_a_directory_takes_no_jax() -> None:
    program = "import sys, waypost.training.directory; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_lock_that_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    def link(path: Path) -> None:
        (tmp_path / "target").write_text("mine")
        path.symlink_to(tmp_path / "target")

    for make in (os.mkfifo, os.mkdir, link):
        directory = tmp_path / make.__name__
        directory.mkdir()
        make(directory / LOCK)
        with pytest.raises(DirectoryError, match=r"\.lock: is not a regular file; delete it"), claimed(directory, True):
            pass
    assert (tmp_path / "target").read_text() == "mine"


def test_a_second_claim_in_the_same_process_is_refused(tmp_path: Path) -> None:
    with (
        claimed(tmp_path, resume=True),
        pytest.raises(DirectoryError, match="another process is training there"),
        claimed(tmp_path, resume=True),
    ):
        pass


def test_only_our_own_leftovers_are_deleted(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / ".notes.txt").write_text("mine")
    for folder in (".git.x", "checkpoint/.ipynb_checkpoints", "policy"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "checkpoint" / ".mine.txt").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    for folder in (tmp_path, tmp_path / "checkpoint", tmp_path / "policy"):
        unused_name(folder / "x").write_text("half")
    with claimed(tmp_path, resume=True):
        assert [path for path in sorted(tmp_path.rglob("*")) if path.name != LOCK] == before


@pytest.mark.parametrize("resume", [True, False])
def test_a_directory_with_nothing_but_leftovers_is_usable(tmp_path: Path, resume: bool) -> None:
    (tmp_path / LOCK).touch()
    unused_name(tmp_path / "config.json").write_text("{")
    with claimed(tmp_path, resume):
        assert names(tmp_path) == [LOCK]


def test_a_directory_of_other_files_is_not_even_locked(tmp_path: Path) -> None:
    (tmp_path / ".notes.txt").write_text("mine")
    with pytest.raises(DirectoryError, match="is not a run directory"), claimed(tmp_path, resume=True):
        pass
    assert names(tmp_path) == [".notes.txt"]


def test_an_error_before_anything_is_saved_leaves_no_directory(tmp_path: Path) -> None:
    with pytest.raises(WaypostError, match="first"), claimed(tmp_path / "a" / "run", resume=False):
        raise WaypostError("first")
    assert names(tmp_path) == []
    (tmp_path / "mine").mkdir()
    with pytest.raises(WaypostError, match="first"), claimed(tmp_path / "mine", resume=False):
        raise WaypostError("first")
    assert names(tmp_path) == ["mine"]


def test_a_disk_that_takes_no_lock_file_is_left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device", str(arguments[0]))

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(OSError, match="No space left") as caught, claimed(tmp_path / "a" / "run", resume=False):
        pass
    assert caught.value.filename == str(tmp_path / "a" / "run" / LOCK)
    assert names(tmp_path) == []


def test_a_directory_that_was_deleted_or_replaced_is_noticed(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    with claimed(directory, resume=False) as claim:
        claim.check()
        directory.rename(tmp_path / "moved")
        with pytest.raises(DirectoryError, match="was deleted or replaced during training"):
            claim.check()
        with claimed(directory, resume=False) as other:
            other.check()
            with pytest.raises(DirectoryError, match="was deleted or replaced during training"):
                claim.check()


def test_a_place_that_cannot_be_a_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for place, kind in (("file/run", NotADirectoryError), ("x" * 300, OSError)):
        with pytest.raises(kind) as caught, claimed(tmp_path / place, resume=False):
            pass
        assert str(caught.value.filename).startswith(str(tmp_path / place)[:250])
