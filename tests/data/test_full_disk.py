"""Disks that are full or may not be written to, and bits that change on them."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
from samples import walk

import waypost
from waypost.data.dataset import Dataset
from waypost.data.formats.hdf5 import Unfailing
from waypost.data.mapped import NpzWriter

SUFFIXES = (".npz", ".hdf5", ".parquet")


class Failing(io.FileIO):
    """A file whose disk is full from the n-th write on; the first one then takes half of what it is given."""

    left = 0

    def write(self, content: Any) -> int:
        type(self).left -= 1
        if type(self).left == 0:
            return super().write(memoryview(content)[: max(1, len(content) // 2)])
        if type(self).left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(content)


def failing(monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    """Let the disk be full after so many writes of HDF5."""
    init = Unfailing.__init__

    def wrapped(self: Unfailing, file: Any) -> None:
        init(self, Failing(file.fileno(), "rb+", closefd=False))

    Failing.left = writes
    monkeypatch.setattr(Unfailing, "__init__", wrapped)


@pytest.mark.parametrize("name", ["data.hdf5", "data-v0"])
def test_hdf5_survives_a_disk_that_is_full_at_any_moment(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing a file that it could not write ended the process."""
    with monkeypatch.context() as patch:
        failing(patch, 10**6)
        waypost.save(walk(), tmp_path / f"whole-{name}")
        writes = 10**6 - Failing.left
    assert waypost.load(tmp_path / f"whole-{name}").fingerprint() == walk().fingerprint()
    before = sorted(tmp_path.rglob("*"))
    for left in {1, 2, 3, *range(4, writes, max(1, writes // 25)), writes - 1}:
        with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left") as error:
            failing(patch, left)
            waypost.save(walk(), tmp_path / "new" / name)
        assert (error.value.errno, error.value.filename) == (errno.ENOSPC, str(tmp_path / "new" / name))
        assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", [*(f"data{suffix}" for suffix in SUFFIXES), "data-v0"])
@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_errors_name_what_was_asked_for(
    name: str, reason: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(reason, os.strerror(reason), str(tmp_path / "hidden"))

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match=os.strerror(reason)) as error:
        waypost.save(walk(), tmp_path / "new" / name)
    assert (error.value.errno, error.value.filename) == (reason, str(tmp_path / "new" / name))
    assert not list(tmp_path.iterdir())


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("data.npz", "data.hdf5", "data.parquet", "data-v0"):
        with pytest.raises(NotADirectoryError) as error:
            waypost.save(walk(), tmp_path / "file" / name)
        assert error.value.filename == str(tmp_path / "file" / name)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_writer_of_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "hidden")

    with pytest.raises(OSError, match="No space left") as error, NpzWriter(tmp_path / "new" / "data.npz") as writer:
        writer.append(walk())
        monkeypatch.setattr("shutil.copyfileobj", refuse)
    assert error.value.filename == str(tmp_path / "new" / "data.npz")
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    with pytest.raises(waypost.WaypostError, match="there is no such user"):
        NpzWriter("~nouser/data.npz")


# -- bits that change ----------------------------------------------------------------------------------


def known(data: Dataset) -> tuple[Any, ...]:
    return data.fingerprint(), data.action_count, data.require("action_low").tolist()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_numbers_that_changed_on_the_disk_are_not_read(suffix: str, tmp_path: Path) -> None:
    path, data = tmp_path / f"data{suffix}", walk(200)
    waypost.save(data, path)
    content, places = path.read_bytes(), np.random.default_rng(0).integers(0, path.stat().st_size, 80)
    refused = 0
    for place in places:
        spoiled = bytearray(content)
        spoiled[place] ^= 1 << int(place % 8)
        path.write_bytes(spoiled)
        try:
            assert known(waypost.load(path)) == known(data)
        except waypost.WaypostError:
            refused += 1
    assert refused > 40


def test_a_name_that_changed_is_not_taken_for_missing_data(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    waypost.save(walk(), path)
    content = path.read_bytes()
    at = content.rindex(b"rewards.npy")
    path.write_bytes(content[:at] + b"rewarde" + content[at + 7 :])
    with pytest.raises(waypost.WaypostError, match="it was written with rewards, which is missing"):
        waypost.load(path)


def test_facts_in_a_footer_have_a_checksum(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    waypost.save(walk(), path)
    table = pq.read_table(path)
    metadata = {name: value.replace(b"null", b"1234", 1) for name, value in table.schema.metadata.items()}
    pq.write_table(table.replace_schema_metadata(metadata), path)
    with pytest.raises(waypost.WaypostError, match="the checksum of its facts is wrong"):
        waypost.load(path)


def old_npz(path: Path, data: dict[str, Any]) -> None:
    np.savez(path, waypost=np.asarray("{}"), **data)


def old_hdf5(path: Path, data: dict[str, Any]) -> None:
    with h5py.File(path, "w") as file:
        for name, values in data.items():
            file[name] = values
        file.attrs["waypost"] = "{}"


@pytest.mark.parametrize(("suffix", "write"), [(".npz", old_npz), (".hdf5", old_hdf5)])
def test_files_without_checksums_are_read(
    suffix: str, write: Callable[[Path, dict[str, Any]], None], tmp_path: Path
) -> None:
    data = walk()
    names = ("observations", "next_observations", "actions", "rewards", "terminals", "timeouts")
    write(tmp_path / f"old{suffix}", {name: getattr(data, name) for name in names})
    assert waypost.load(tmp_path / f"old{suffix}").fingerprint() == data.fingerprint()
