"""Data that change while a training reads them from their file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bounds import ask
from samples import walk

import waypost
import waypost.training.trainer
from waypost.console.bar import TrainingBar
from waypost.data.stream import Stream


def cut(path: Path) -> None:
    os.truncate(path, 2000)


def overwrite(path: Path) -> None:
    with path.open("rb+") as file:
        file.seek(2000)
        file.write(bytes(4000))


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("change", [cut, overwrite, empty])
def test_streamed_data_that_change_are_noticed(
    change: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut short they would end in a signal, overwritten in other weights."""
    data, out = tmp_path / "log.npz", tmp_path / "run"
    waypost.save(walk(240), data)

    def small(*arguments: Any, **options: Any) -> Stream:
        return Stream(*arguments, **options, block_rows=24, window_rows=60, updates=2)

    def advance(self: TrainingBar, stage: str, step: int) -> None:
        if step == 4:
            change(data)

    monkeypatch.setattr(waypost.training.trainer, "Stream", small)
    monkeypatch.setattr(TrainingBar, "advance", advance)
    line = "train bc --stream always --steps 30 --log-every 2 --hidden 8 --batch-size 8 --preset none"
    ask([*line.split(), "--data", data, "--out", out]).refuses(data)
    assert not (out / "result.json").exists()
