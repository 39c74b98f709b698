"""Files are written whole or not at all, and what goes wrong names the file the user knows."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from safetensors.numpy import save

from waypost.errors import DamagedFile, WaypostError
from waypost.files import (
    discard_partials,
    read_arrays,
    reading,
    replacing,
    unused_name,
    writable,
    write_arrays,
    write_bytes,
    write_text,
)  # fmt: skip

ARRAYS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array(7), "c": np.zeros((0, 2), bool)}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# -- errors --------------------------------------------------------------------------------------

FULL = os.strerror(errno.ENOSPC)


@pytest.mark.parametrize(
    ("error", "number", "reason"),
    [
        (lambda temporary: OSError(errno.ENOSPC, "write failed"), errno.ENOSPC, FULL),
        (lambda temporary: OSError(errno.ENOSPC, "no", str(temporary)), errno.ENOSPC, FULL),
        (lambda temporary: OSError(f"cannot\n write {temporary}"), errno.EIO, "cannot write {path}"),
    ],
)
def test_an_error_while_writing_names_the_file_and_leaves_the_old_one(
    tmp_path: Path, error: Callable[[Path], OSError], number: int, reason: str
) -> None:
    path = tmp_path / "table.csv"
    path.write_text("old")
    with pytest.raises(OSError, match=r".") as caught, replacing(path) as temporary:
        temporary.write_text("half")
        raise error(temporary)
    assert (caught.value.filename, caught.value.errno) == (str(path), number)
    assert caught.value.strerror == reason.format(path=path)
    assert names(tmp_path) == ["table.csv"]
    assert path.read_text() == "old"


def test_an_error_about_another_file_keeps_its_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, replacing(tmp_path / "new"):
        (tmp_path / "other").read_text()
    assert caught.value.filename == str(tmp_path / "other")
    assert names(tmp_path) == []


def in_the_way(path: Path) -> Path:
    path.mkdir()
    return path


@pytest.mark.parametrize(
    ("target", "number"),
    [
        (lambda folder: in_the_way(folder / "folder"), errno.EISDIR),
        (lambda folder: folder / "file" / "table.csv", errno.ENOTDIR),
        (lambda folder: folder / "file" / "deep" / "table.csv", errno.ENOTDIR),
        (lambda folder: folder / ("x" * 256), errno.ENAMETOOLONG),
        (lambda folder: folder / ("x" * 256) / "table.csv", errno.ENAMETOOLONG),
    ],
)
def test_a_place_where_nothing_can_be_written_is_named(
    tmp_path: Path, target: Callable[[Path], Path], number: int
) -> None:
    (tmp_path / "file").write_text("mine")
    path = target(tmp_path)
    before = names(tmp_path)
    with pytest.raises(OSError, match=r".") as caught:
        write_bytes(path, b"new")
    assert (caught.value.errno, caught.value.filename) == (number, str(path))
    assert names(tmp_path) == before


def test_a_file_over_the_size_limit_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "big"
    with pytest.raises(OSError, match=r".") as caught, file_size_limit(1000):
        write_bytes(path, bytes(5000))
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(path))
    assert names(tmp_path) == []


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_disk_that_fails_at_the_end_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fail(*arguments: Any) -> NoReturn:
        raise OSError(errno.EIO, "no")

    path = tmp_path / "table.csv"
    write_text(path, "old")
    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match=r".") as caught:
        write_text(path, "new")
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, str(path))
    assert names(tmp_path) == ["table.csv"]
    assert path.read_text() == "old"


def test_ctrl_c_while_cleaning_up_still_cleans_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unlink, calls = Path.unlink, []

    def interrupted(self: Path, missing_ok: bool = False) -> None:
        calls.append(self)
        if len(calls) == 1:
            raise KeyboardInterrupt
        unlink(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", interrupted)
    with pytest.raises(KeyboardInterrupt), replacing(tmp_path / "new"):
        raise OSError(errno.ENOSPC, "full")
    assert len(calls) == 2
    assert names(tmp_path) == []


def test_an_error_while_cleaning_up_does_not_hide_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Path, missing_ok: bool = False) -> NoReturn:
        raise OSError(errno.EROFS, "read only by now")

    monkeypatch.setattr(Path, "unlink", fail)
    with pytest.raises(OSError, match="No space"), replacing(tmp_path / "new"):
        raise OSError(errno.ENOSPC, "full")


# -- names, rights and order ---------------------------------------------------------------------


def test_the_longest_name_can_be_written(tmp_path: Path) -> None:
    write_bytes(tmp_path / ("x" * 255), b"new")
    assert names(tmp_path) == ["x" * 255]


def test_only_files_of_our_name_are_discarded(tmp_path: Path) -> None:
    for name in (".notes.txt", ".lock", ".waypost-mine.partial", "partial"):
        (tmp_path / name).write_text("mine")
    for name in (".git.x", unused_name(tmp_path / "x").name):
        (tmp_path / name).mkdir()
    (tmp_path / "target").write_text("mine")
    unused_name(tmp_path / "x").symlink_to(tmp_path / "target")
    before = names(tmp_path)
    leftover = unused_name(tmp_path / "config.json")
    leftover.write_text("half")
    discard_partials(tmp_path)
    discard_partials(tmp_path / "nowhere")
    assert names(tmp_path) == before


def test_new_files_have_the_rights_the_user_wants(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_text(tmp_path / "secret", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600


def test_file_and_folder_are_on_the_disk_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synchronise(descriptor: int) -> None:
        calls.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def rename(source: Path, target: Path) -> None:
        calls.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synchronise)
    monkeypatch.setattr(os, "replace", rename)
    write_text(tmp_path / "a", "x")
    assert calls == ["file", "rename", "folder"]


@pytest.mark.parametrize("links", [True, False])
def test_the_file_before_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    def fail(*arguments: Any) -> NoReturn:
        raise PermissionError(errno.EPERM, "no hard links here")

    if not links:
        monkeypatch.setattr(os, "link", fail)
    path, kept = tmp_path / "last", tmp_path / "before"
    for content in (b"1", b"2", b"3"):
        write_bytes(path, content, keep=kept)
    assert (path.read_bytes(), kept.read_bytes()) == (b"3", b"2")
    kept.unlink()
    os.link(path, kept) if links else shutil.copy(path, kept)  # as if killed after keeping, before replacing
    write_bytes(path, b"4", keep=kept)
    assert (path.read_bytes(), kept.read_bytes()) == (b"4", b"3")
    with pytest.raises(OSError, match="full"), replacing(path, kept) as temporary:
        raise OSError(errno.ENOSPC, "full", "elsewhere/" + temporary.name)
    assert (path.read_bytes(), kept.read_bytes()) == (b"4", b"3")
    assert names(tmp_path) == ["before", "last"]


# -- before work that takes long -----------------------------------------------------------------


def test_a_disk_without_room_is_noticed_before(tmp_path: Path) -> None:
    path = tmp_path / "new" / "data.npz"
    writable(path, 1000)
    writable(path, -1)
    for size in (1 << 60, 1 << 80):
        with pytest.raises(OSError, match="No space left") as caught:
            writable(path, size)
        assert caught.value.filename == str(path)
    with pytest.raises(OSError, match="File too large"), file_size_limit(1000):
        writable(path, 5000)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(NotADirectoryError):
        writable(tmp_path / "file" / "data.npz")
    assert names(tmp_path) == ["file"]


# -- arrays --------------------------------------------------------------------------------------


def test_arrays_come_back_and_give_the_same_bytes(tmp_path: Path) -> None:
    record = {"step": 3, "rows": [{"x": 0.1, "y": None}], "nan": float("nan")}
    big_endian = ARRAYS | {"d": np.arange(3, dtype=">f8"), "e": np.arange(6).reshape(2, 3).T}
    for file in ("one", "two"):
        write_arrays(tmp_path / file, big_endian, record)
    arrays, found = read_arrays(tmp_path / "one")
    assert repr(found) == repr(record)
    for name, values in big_endian.items():
        assert np.array_equal(arrays[name], values)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "arrays"
    write_arrays(path, ARRAYS, {"step": 3})
    whole = path.read_bytes()
    assert b'\\"step\\": 3' in whole
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        try:
            arrays, record = read_arrays(path)
        except DamagedFile:
            continue
        # Some bits of the header say the same in another way: the space between two fields.
        assert record == {"step": 3}
        assert {name: values.tobytes() for name, values in arrays.items()} == {
            name: values.tobytes() for name, values in ARRAYS.items()
        }
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(DamagedFile, match=r"arrays: damaged \(its checksum does not match\)"):
        read_arrays(path)


def test_files_of_older_versions_are_still_read(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(save(ARRAYS, metadata={"record": '{"step": 3}'}))
    arrays, record = read_arrays(tmp_path / "old")
    assert record == {"step": 3}
    assert np.array_equal(arrays["a"], ARRAYS["a"])
    (tmp_path / "strange").write_bytes(save(ARRAYS))
    with pytest.raises(DamagedFile, match="strange: damaged or not written by Waypost"):
        read_arrays(tmp_path / "strange")


def test_a_file_one_may_not_read_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied")

    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setattr(Path, "open", refuse)
    with (
        pytest.raises(WaypostError, match=r"config.json: cannot be read \(Permission denied\)"),
        reading(tmp_path / "config.json", "a JSON file"),
    ):
        pass
