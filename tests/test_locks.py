"""Locks between processes."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from waypost.locks import alone


def test_one_holds_it_others_see_that_and_nothing_is_left(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "result.json"
    with alone(file) as held:
        assert held
        with alone(file, wait=False) as again:
            assert not again
        with alone(tmp_path / "folder" / "other.json", wait=False) as other:
            assert other
    assert list(file.parent.iterdir()) == []
    with alone(file, wait=False) as held:
        assert held


def test_a_lock_is_waited_for(tmp_path: Path) -> None:
    order: list[str] = []
    inside, waiting = threading.Event(), threading.Event()

    def second() -> None:
        inside.wait()
        waiting.set()
        with alone(tmp_path / "file"):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with alone(tmp_path / "file"):
        inside.set()
        waiting.wait()
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_a_lock_ends_with_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), alone(tmp_path / "file"):
        1 / 0  # noqa: B018
    with alone(tmp_path / "file", wait=False) as held:
        assert held


def test_what_a_dead_process_left_is_no_lock(tmp_path: Path) -> None:
    (tmp_path / ".file.lock").touch()
    with alone(tmp_path / "file", wait=False) as held:
        assert held
