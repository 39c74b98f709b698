"""Files that claim more than they have: refused from their headers, soon and in little memory."""

from __future__ import annotations

import io
import json
import resource
import struct
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import waypost
from waypost.data.formats import sizes
from waypost.data.formats.sizes import ALWAYS, MOST_FIELDS, Claims
from waypost.data.inspection import inspect
from waypost.data.large import obtain
from waypost.data.roles import Columns

GIGABYTE = 1 << 30
STATES = np.zeros((20, 2), np.float32)


def header(*shape: int) -> bytes:
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(content, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return content.getvalue()


def packed(path: Path, blocks: int, name: str = "observations.npy", begin: bytes | None = None) -> None:
    """An archive with so many blocks of 16 MB of zeros, made by packing only one of them."""
    block = bytes(1 << 24)
    packer, size = zlib.compressobj(1, zlib.DEFLATED, -15), blocks << 24
    begin = header(size // 4, 1) if begin is None else begin
    content = packer.compress(begin) + packer.flush(zlib.Z_FULL_FLUSH)
    repeated = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    content += blocks * repeated + packer.flush()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, content)
        entry = archive.getinfo(name)
        entry.compress_type, entry.file_size = zipfile.ZIP_DEFLATED, len(begin) + size
    whole = bytearray(path.read_bytes())
    # What stands before the contents must say the same as the table after them.
    struct.pack_into("<H", whole, 8, zipfile.ZIP_DEFLATED)
    struct.pack_into("<I", whole, 22, len(begin) + size)
    path.write_bytes(whole)


def npz_bomb(path: Path) -> None:
    packed(path, 255)


def npz_header_bomb(path: Path) -> None:
    packed(path, 64, begin=b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 30))


def npz_of_many(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(MOST_FIELDS + 1):
            archive.writestr(str(number), b"")


def npz_of_too_many_to_count(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(30):
            archive.writestr(zipfile.ZipInfo(f"{number:060000}"), b"")
        archive.comment = b""
    # Every entry has a long name; the table alone is megabytes.
    content = path.read_bytes()
    begin, end = content.index(b"PK\x01\x02"), content.index(b"PK\x05\x06")
    table = 3 * content[begin:end]
    last = bytearray(content[end:])
    struct.pack_into("<I", last, 12, len(table))
    path.write_bytes(content[:begin] + table + last)


def npz_of_another_kind(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("observations.npy", header(20, 2) + STATES.tobytes())


def npz_facts(path: Path) -> None:
    np.savez_compressed(path, observations=STATES, waypost=np.asarray(" " * (1 << 19)))


def hdf5_bomb(path: Path) -> None:
    with h5py.File(path, "w") as file:
        states = file.create_dataset("observations", (1 << 28, 1), "f4", chunks=(1 << 22, 1), compression="gzip")
        chunk = zlib.compress(bytes(1 << 24), 1)
        for first in range(0, 1 << 28, 1 << 22):
            states.id.write_direct_chunk((first, 0), chunk)


def hdf5_many_small_bombs(path: Path) -> None:
    with h5py.File(path, "w") as file:
        for number in range(20):
            file.create_dataset(f"obs_{number}", (1 << 22,), "f8", chunks=(1 << 10,))


def hdf5_chunk_bomb(path: Path) -> None:
    with h5py.File(path, "w") as file:
        options: dict[str, Any] = {"maxshape": (None, None), "chunks": (1 << 15, 1 << 14), "compression": "gzip"}
        states = file.create_dataset("observations", (20, 2), "f4", **options)
        states.id.write_direct_chunk((0, 0), zlib.compress(bytes(1 << 20)))


def hdf5_overfull(path: Path) -> None:
    with h5py.File(path, "w") as file:
        states = file.create_dataset("observations", (20, 2), "f4", chunks=(20, 2), compression="gzip")
        states.id.write_direct_chunk((0, 0), zlib.compress(bytes(1 << 24)))


def hdf5_larger_than_its_chunk(path: Path) -> None:
    """As many bytes as the chunk has, which unpack to a thousand times as many."""
    with h5py.File(path, "w") as file:
        states = file.create_dataset("observations", (1 << 17, 1), "f4", chunks=(1 << 17, 1), compression="gzip")
        states.id.write_direct_chunk((0, 0), zlib.compress(bytes(1 << 28), 9))


def hdf5_of_many(path: Path) -> None:
    with h5py.File(path, "w") as file:
        group = file.create_group("group")
        for number in range(2 * MOST_FIELDS):
            file[f"{number}"] = group


def hdf5_of_deep_groups(path: Path) -> None:
    with h5py.File(path, "w") as file:
        group: h5py.Group = file
        for _ in range(50):
            group = group.create_group("group")


def hdf5_empty(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("observations", (10**9, 0), "f4")


def npz_empty(path: Path) -> None:
    np.savez(path, observations=np.zeros((10**9, 0), np.float32))


def parquet_bomb(path: Path) -> None:
    column = pa.array(np.zeros(1 << 22))
    pq.write_table(pa.table({f"obs_{number}": column for number in range(10)}), path, compression="zstd")


def parquet_text(path: Path) -> None:
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(400, np.int32)), pa.array(["x" * 10**6]))
    pq.write_table(pa.table({"obs_0": np.zeros(400), "episode": texts}), path, compression="zstd")


def csv_of_many(path: Path) -> None:
    path.write_text(",".join(f"o{number}" for number in range(MOST_FIELDS + 2)) + "\n1\n")


def csv_line(path: Path) -> None:
    path.write_text("obs_0,obs_1\n1," + "2" * (1 << 22) + "\n")


CASES: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "npz bomb": ("log.npz", npz_bomb, "damaged: observations.npy claims 4278190080 bytes, the file holds"),
    "npz header bomb": ("log.npz", npz_header_bomb, "reading array header, expected 1073741824 bytes"),
    "npz of many": ("log.npz", npz_of_many, "10001 fields; at most 10000 are allowed"),
    "npz of too many": ("log.npz", npz_of_too_many_to_count, "a table of contents of 5404140 bytes"),
    "npz of another kind": (
        "log.npz",
        npz_of_another_kind,
        "observations.npy is compressed in a way that NumPy",
    ),
    "npz facts": ("log.npz", npz_facts, "waypost claims 2097280 bytes"),
    "HDF5 bomb": ("log.hdf5", hdf5_bomb, "damaged: observations claims 1073741824 bytes, the file holds 4"),
    "HDF5 bombs": ("log.hdf5", hdf5_many_small_bombs, "what was read up to obs_16 claims 301989888 bytes"),
    "HDF5 chunk": ("log.hdf5", hdf5_chunk_bomb, "damaged: observations claims 2147483648 bytes, the file holds"),
    "HDF5 overfull": ("log.hdf5", hdf5_overfull, "(observations claims 160 bytes and holds 16"),
    "HDF5 larger": ("log.hdf5", hdf5_larger_than_its_chunk, "observations unpacks to more than the 524288 bytes"),
    "HDF5 of many": ("log.hdf5", hdf5_of_many, "has more than 20000 entries"),
    "HDF5 deep": ("log.hdf5", hdf5_of_deep_groups, "or groups nested without end"),
    "HDF5 empty": ("log.hdf5", hdf5_empty, "an array of shape (1000000000, 0) holds no numbers"),
    "npz empty": ("log.npz", npz_empty, "an array of shape (1000000000, 0) holds no numbers"),
    "Parquet bomb": ("log.parquet", parquet_bomb, "damaged: its table claims 335544320 bytes, the file holds"),
    "Parquet text": ("log.parquet", parquet_text, "'episode' holds 400 texts of up to 1000000 characters"),
    "CSV of many": ("log.csv", csv_of_many, "10001 fields; at most 10000 are allowed"),
    "CSV line": ("log.csv", csv_line, "damaged or not a CSV file with a header line"),
}


@pytest.mark.parametrize("case", CASES)
def test_refused_from_the_header(case: str, tmp_path: Path) -> None:
    name, write, reason = CASES[case]
    write(tmp_path / name)
    before, begun = peak(), time.monotonic()
    read: list[Callable[[Any], Any]] = [waypost.load, lambda path: obtain(path, Columns(), "auto", lambda: None)]
    for act in read:
        with pytest.raises(waypost.WaypostError) as error:
            act(tmp_path / name)
        assert reason in str(error.value)
        assert "\n" not in str(error.value)
    assert time.monotonic() - begun < 10
    assert peak() - before < GIGABYTE


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_zeros_are_data_as_long_as_they_are_few(tmp_path: Path) -> None:
    states = np.zeros((1 << 20, 2), np.float32)
    np.savez_compressed(tmp_path / "log.npz", observations=states)
    with h5py.File(tmp_path / "log.hdf5", "w") as file:
        file.create_dataset("observations", data=states, compression="gzip")
    pq.write_table(pa.table({"obs_0": states[:, 0]}), tmp_path / "log.parquet")
    for name in ("log.npz", "log.hdf5", "log.parquet"):
        assert len(waypost.load(tmp_path / name)) == 1 << 20


def test_claims_add_up_and_overlapping_entries_take_no_more_than_the_file(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(bytes(1000))
    claims = Claims(tmp_path / "log")
    claims.add("a", ALWAYS - 1, 1000)
    with pytest.raises(waypost.WaypostError, match=rf"up to b claims {ALWAYS + 9} bytes, the file holds 1000 for it"):
        claims.add("b", 10, 10**9)


def test_what_does_not_fit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waypost.save(waypost.load({"observations": STATES}), tmp_path / "log.npz")
    monkeypatch.setattr(sizes, "available_memory", lambda: 100)
    with pytest.raises(waypost.WaypostError, match=r"observations.npy needs 0.0 GB, 0.0 GB are free; see docs/large"):
        waypost.load(tmp_path / "log.npz")


# -- Minari ------------------------------------------------------------------------------------------


def space(**record: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        metadata = folder / "data" / "metadata.json"
        found = json.loads(metadata.read_text())
        del found["waypost"]
        metadata.write_text(json.dumps(found | {"observation_space": json.dumps(record)}))

    return change


def unallocated(folder: Path) -> None:
    with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
        file.create_dataset("episode_0/infos/more", (1 << 33,), "f4", chunks=(1 << 20,))


def one_episode_many_times(folder: Path) -> None:
    with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
        file["episode_0/infos/more"] = np.random.default_rng(0).normal(size=400_000)
        for number in range(1, 200):
            file[f"episode_{number}"] = file["episode_0"]
    metadata = folder / "data" / "metadata.json"
    metadata.write_text(json.dumps(json.loads(metadata.read_text()) | {"total_episodes": 200}))


FOLDERS: dict[str, tuple[Callable[[Path], None], str]] = {
    "2**62 states": (space(type="Discrete", n=2**62, start=0), "a space of more than 1000000 numbers or choices"),
    "many states": (space(type="Discrete", n=2**18, start=0), "observations have 262144 values; at most 4096"),
    "wide box": (space(type="Box", dtype="float32", shape=[10**10], low=0, high=1), "more than 1000000 numbers"),
    "many bits": (space(type="MultiBinary", n=10**10), "a space of more than 1000000 numbers or choices"),
    "shape of text": (space(type="Box", dtype="float32", shape="abc", low=0, high=1), "damaged or not a Minari"),
    "unallocated": (unallocated, "what was read up to episode_0/infos/more claims 3435973"),
    "one episode many times": (one_episode_many_times, "what was read up to episode"),
}


@pytest.mark.parametrize("case", FOLDERS)
def test_folders_are_refused_from_what_they_declare(case: str, tmp_path: Path) -> None:
    change, reason = FOLDERS[case]
    waypost.save(waypost.load({"observations": STATES}), tmp_path / "log-v0")
    change(tmp_path / "log-v0")
    before, begun = peak(), time.monotonic()
    with pytest.raises(waypost.WaypostError) as error:
        inspect(tmp_path / "log-v0")
    assert reason in str(error.value)
    assert time.monotonic() - begun < 10
    assert peak() - before < GIGABYTE
