"""Streamed files that somebody changes meanwhile: noticed, never a signal, and never other numbers without a word."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from samples import walk

from waypost.data.dataset import Dataset
from waypost.data.in_file import FileMap, blocks, copied, file_of, in_memory
from waypost.data.mapped import map_npz
from waypost.data.rewards import learning_rewards
from waypost.data.sources import save
from waypost.data.stream import Stream, sample
from waypost.errors import WaypostError

CHANGED = r"data.npz: has changed while it was read; restore it and continue .* with --resume"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Large enough that its end is on other pages than its beginning."""
    save(walk(5000), tmp_path / "data.npz")
    return tmp_path / "data.npz"


def stream(dataset: Dataset) -> Stream:
    def prepare(block: Dataset) -> dict[str, np.ndarray]:
        return {"states": block.observations, "rewards": block.require("rewards")}

    return Stream(dataset, prepare, prepare(dataset), 10, block_rows=100, window_rows=1000, updates=7)


def cut(file: Path) -> None:
    os.truncate(file, 100)


def flip(file: Path) -> None:
    """One bit in the middle of the numbers, in place."""
    with file.open("rb+") as opened:
        opened.seek(file.stat().st_size // 2)
        byte = opened.read(1)[0]
        opened.seek(-1, os.SEEK_CUR)
        opened.write(bytes([byte ^ 1]))


def grow(file: Path) -> None:
    with file.open("ab") as opened:
        opened.write(b"more")


def later(file: Path) -> None:
    state = file.stat()
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns + 10**9))


@pytest.mark.parametrize("change", [cut, flip, grow, later], ids=lambda change: change.__name__)
def test_a_file_that_changes_is_noticed_with_the_next_window(change: Callable[[Path], None], file: Path) -> None:
    subject = stream(map_npz(file))
    subject.take(0)
    change(file)
    later(file)  # the clock of a file system may be coarse
    with pytest.raises(WaypostError, match=CHANGED):
        subject.take(1)
    subject.begin(2)
    with pytest.raises(WaypostError, match=CHANGED):
        subject.take(2)
    subject.close()


def test_a_date_that_was_set_back_does_not_hide_a_change(file: Path) -> None:
    subject, before = stream(map_npz(file)), file.stat()
    subject.take(0)
    flip(file)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(WaypostError, match=r"data.npz: damaged: the checksum of bytes \d+ to \d+ is wrong"):
        subject.take(1)


def test_what_leaves_the_contents_alone_does_not_matter(file: Path, tmp_path: Path) -> None:
    subject = stream(map_npz(file))
    expected = [subject.take(index).columns["states"].copy() for index in range(3)]
    subject = stream(map_npz(file))
    changes: list[Callable[[], object]] = [
        lambda: file.chmod(0o600),
        lambda: file.rename(tmp_path / "other.npz"),
        (tmp_path / "other.npz").unlink,
    ]
    for index, change in enumerate(changes):
        change()
        assert np.array_equal(subject.take(index).columns["states"], expected[index])


def test_no_check_looks_through_the_map(file: Path) -> None:
    """A page that is gone would end the process; a read says so."""
    data = map_npz(file)
    cut(file)
    for touch in (
        data.fingerprint,
        data.checked,
        lambda: sample(data, 100, 10),
        lambda: data.with_action_count(0),
        lambda: learning_rewards(data, "goal", 0.99),
        lambda: in_memory(data.observations),
    ):
        with pytest.raises(WaypostError, match=CHANGED):
            touch()


def test_rows_are_read_where_they_lie(file: Path) -> None:
    mapped, held = map_npz(file).observations, walk(5000).observations
    assert isinstance(file_of(mapped), FileMap)
    assert file_of(held) is None
    assert in_memory(held) is held
    assert copied(held) is not held
    for part in (slice(None), slice(0, 1), slice(4321, 4400), slice(5, 5)):
        assert np.array_equal(in_memory(mapped[part]), held[part])
        assert file_of(copied(mapped[part])) is None
    assert [first for first, _ in blocks(mapped, 2000)] == [0, 2000, 4000]
    assert np.array_equal(np.concatenate([block for _, block in blocks(mapped, 1999)]), held)
    with pytest.raises(AssertionError, match="whole rows"):
        in_memory(mapped[:, 0])
