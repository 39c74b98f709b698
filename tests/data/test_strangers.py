"""Data from somebody else: they may not choose what is read besides, nor make a reader wait for ever."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import waypost
from waypost.data.inspection import inspect
from waypost.data.large import obtain
from waypost.data.mapped import map_npz, mappable
from waypost.data.roles import Columns
from waypost.data.sources import recorded_task

SUFFIXES = (".npz", ".hdf5", ".h5", ".parquet", ".csv")
STATES = np.arange(40, dtype=np.float32).reshape(20, 2)


def refused(source: Any, reason: str) -> None:
    """By everything that reads data by name."""
    every: list[Callable[[Any], Any]] = [
        waypost.load,
        inspect,
        lambda path: obtain(path, Columns(), "always", lambda: None),
    ]
    for read in every:
        with pytest.raises(waypost.WaypostError) as error:
            read(source)
        assert reason in str(error.value)
        assert "\n" not in str(error.value)


# -- only regular files ------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_pipes_sockets_and_devices_are_not_opened(
    suffix: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    os.mkfifo(tmp_path / f"pipe{suffix}")
    (tmp_path / f"zero{suffix}").symlink_to("/dev/zero")
    for path in tmp_path.iterdir():
        refused(path, f"{path.name}: is a pipe or a device; a regular file is needed")
        assert recorded_task(path) is None
        assert not mappable(path)
        with pytest.raises(waypost.WaypostError, match="is a pipe or a device"):
            map_npz(path)
    folder = tmp_path_factory.mktemp("folder")
    os.mkfifo(folder / f"pipe{suffix}")
    refused(folder, "is a pipe or a device; a regular file is needed")


def test_a_socket_is_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("log.npz")
        refused("log.npz", "is a pipe or a device; a regular file is needed")


def test_devices_without_a_suffix_and_folders_with_one(tmp_path: Path) -> None:
    refused("/dev/zero", "/dev/zero: not a data file; files end in .npz")
    (tmp_path / "log.csv").mkdir()
    refused(tmp_path / "log.csv", "log.csv: holds no data; expected a Minari data set or files .npz")


# -- nothing of other files --------------------------------------------------------------------------


def linked(file: h5py.File, secret: Path) -> None:
    file["observations"] = h5py.ExternalLink(str(secret), "/states")


def linked_inside(file: h5py.File, secret: Path) -> None:
    file["observations"] = STATES
    file["deep/deeper/other"] = h5py.ExternalLink(str(secret), "/")
    file["deep/deeper/circle"] = file["deep"]
    file["soft"] = h5py.SoftLink("/deep/deeper/other/states")


def virtual(file: h5py.File, secret: Path) -> None:
    layout = h5py.VirtualLayout(STATES.shape, "f4")
    layout[:] = h5py.VirtualSource(secret, "states", STATES.shape, "f4")
    file.create_virtual_dataset("deep/observations", layout)


def raw(file: h5py.File, secret: Path) -> None:
    file.create_dataset("observations", (20, 2), "u1", external=[(str(secret), 0, 40)])


TRICKS = {
    "link": (linked, "'observations' lies in another file; only a file's own contents are read"),
    "link inside": (linked_inside, "'deep/deeper/other' lies in another file; only a file's own"),
    "virtual": (virtual, "'deep/observations' takes its numbers from another file; only a file's own"),
    "raw": (raw, "'observations' takes its numbers from another file; only a file's own"),
}


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["states"] = STATES
    return tmp_path / "secret.h5"


@pytest.mark.parametrize("trick", TRICKS)
def test_hdf5_reads_no_other_file(trick: str, secret: Path, tmp_path: Path) -> None:
    write, reason = TRICKS[trick]
    with h5py.File(tmp_path / "log.hdf5", "w") as file:
        write(file, secret)
    refused(tmp_path / "log.hdf5", reason)
    with pytest.raises(waypost.WaypostError, match="another file"):
        recorded_task(tmp_path / "log.hdf5")


@pytest.fixture
def minari_set(tmp_path: Path) -> Path:
    waypost.save(waypost.load({"observations": STATES}), tmp_path / "log-v0")
    return tmp_path / "log-v0"


@pytest.mark.parametrize("trick", TRICKS)
def test_a_minari_folder_reads_no_other_file(trick: str, secret: Path, minari_set: Path) -> None:
    write, reason = TRICKS[trick]
    with h5py.File(minari_set / "data" / "main_data.hdf5", "a") as file:
        write(file.create_group("episode_0/infos/more"), secret)
    refused(minari_set, reason.partition("' ")[2])


def test_links_within_a_file_are_its_own(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "log.hdf5", "w") as file:
        file["group/observations"] = STATES
        file["group/circle"] = file["group"]
        file["soft"] = h5py.SoftLink("/group/nothing")
    columns = Columns(observations=("group/observations",))
    assert np.array_equal(waypost.load(tmp_path / "log.hdf5", columns).observations, STATES)


@pytest.mark.parametrize("part", ["data", "data/metadata.json", "data/main_data.hdf5"])
def test_a_minari_folder_has_no_links_that_lead_out(part: str, minari_set: Path, tmp_path: Path) -> None:
    shutil.move(minari_set / part, tmp_path / "elsewhere")
    (minari_set / part).symlink_to(tmp_path / "elsewhere")
    refused(minari_set, f"{Path(part).name}: is a link that leads out of the folder; copy the file itself")


def test_a_folder_of_files_has_no_links_that_lead_out(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    np.savez(folder / "a.npz", observations=STATES)
    (folder / "b.npz").symlink_to("a.npz")
    assert len(waypost.load(folder)) == 40
    shutil.move(folder / "a.npz", tmp_path / "a.npz")
    (folder / "a.npz").symlink_to(tmp_path / "a.npz")
    refused(folder, "a.npz: is a link that leads out of the folder; copy the file itself")
    # Who names a link means it.
    assert len(waypost.load(folder / "a.npz")) == 20


def test_a_pipe_in_a_minari_folder(minari_set: Path) -> None:
    os.mkfifo(minari_set / "data" / "more")
    refused(minari_set, "more: is a pipe or a device; a regular file is needed")


def test_addresses_are_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow would go to the network for some."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(socket.socket, "connect", pytest.fail)
    for address in ("http://127.0.0.1:9/log.parquet", "s3://bucket/log.csv", "file:///etc/passwd.csv"):
        refused(address, "there is no such file")


# -- names that are none -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("+", "'+': no data named; give a name, a file, a folder, or several joined by +"),
        ("four-rooms++t-maze", "'four-rooms++t-maze': no data named"),
        ("t-maze+", "'t-maze+': no data named"),
        ("a\0b.csv", "'a\\x00b.csv': a path cannot contain a zero byte"),
        ("x" * 5000 + ".npz", "x...: is too long for a path (5004 characters)"),
        ("~nouser", "~nouser: there is no such user; write ./~nouser for a file of that name"),
        ("~nouser/log.npz", "~nouser/log.npz: there is no such user"),
        ("t-maze+~nouser/log.npz", "~nouser/log.npz: there is no such user"),
        ("\ud800.csv", "'\\ud800.csv': a path cannot contain these characters"),
        ("hopper-medium-" + "9" * 200, "neither a file nor a data set of that name"),
    ],
)
def test_names_of_nothing(source: str, reason: str) -> None:
    refused(source, reason)


def test_an_empty_name() -> None:
    with pytest.raises(waypost.WaypostError, match="'': no data named"):
        waypost.load("")
    with pytest.raises(waypost.WaypostError, match="'': no data named"):
        obtain("", Columns(), "auto", lambda: None)


def test_parts_that_do_not_fit_together_are_refused_at_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez(tmp_path / "a.npz", observations=STATES)
    np.savez(tmp_path / "b.npz", observations=STATES[:, :1])
    (tmp_path / "c.npz").write_bytes(b"never read")
    with pytest.raises(waypost.WaypostError, match=r"observation size 2 and 1; they must agree"):
        waypost.load(tmp_path)
    monkeypatch.setattr("waypost.data.sources.available_memory", lambda: 100)
    with pytest.raises(waypost.WaypostError, match=r"3 parts of 0.0 GB, 0.0 GB of memory are free"):
        waypost.load(tmp_path)
