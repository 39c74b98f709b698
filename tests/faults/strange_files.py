"""Data files that a stranger might send: each is built in a moment, and small."""

from __future__ import annotations

import io
import json
import os
import struct
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from samples import walk

import waypost

SECRET = "the-combination-is-417"
"""What no output may hold."""
_STATES = (13, 2)
"""States of the first episode of `walk`."""
GIGABYTES_4 = 4_000_000_000
_BLOCK = 1 << 24

# -- archives by hand ------------------------------------------------------------------------------


def archive(path: Path, members: Iterable[tuple[str, bytes, int, bool]]) -> None:
    """A zip file of (name, content as it lies there, size it unpacks to, whether it is compressed)."""
    body, table, count = bytearray(), bytearray(), 0
    for name, content, size, packed in members:
        method, place, encoded = 8 if packed else 0, len(body), name.encode()
        sum_of_it = 0 if packed else zlib.crc32(content)
        common = struct.pack("<HHHHHIIIHH", 20, 0, method, 0, 33, sum_of_it, len(content), size, len(encoded), 0)
        body += b"PK\x03\x04" + common + encoded + content
        table += b"PK\x01\x02" + struct.pack("<H", 20) + common + struct.pack("<HHHII", 0, 0, 0, 0, place) + encoded
        count += 1
    # More members than the field can count are counted by the table's size.
    end = struct.pack("<HHHHIIH", 0, 0, min(count, 65535), min(count, 65535), len(table), len(body), 0)
    if count > 65535:
        wide = struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, len(table), len(body))
        locator = b"PK\x06\x07" + struct.pack("<IQI", 0, len(body) + len(table), 1)
        table += b"PK\x06\x06" + wide + locator
        end = struct.pack("<HHHHIIH", 0, 0, 65535, 65535, len(table) - len(wide) - 4 - len(locator), len(body), 0)
    path.write_bytes(bytes(body + table) + b"PK\x05\x06" + end)


def zeros_packed(start: bytes, size: int) -> bytes:
    """`start` and then so many zeros, compressed, without going through all of them."""
    packer = zlib.compressobj(9, wbits=-15)
    head = packer.compress(start) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(_BLOCK)) + packer.flush(zlib.Z_FULL_FLUSH)
    rest = packer.compress(bytes(size % _BLOCK)) + packer.flush(zlib.Z_FINISH)
    return head + block * (size // _BLOCK) + rest


def npy_header(shape: tuple[int, ...], kind: str = "<f4") -> bytes:
    stream = io.BytesIO()
    record = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_2_0(stream, record)
    return stream.getvalue()


def npy(values: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


# -- too large, too many ---------------------------------------------------------------------------


def bomb_npz(path: Path) -> None:
    header = npy_header((GIGABYTES_4 // 8, 2))
    packed = zeros_packed(header, GIGABYTES_4)
    archive(path, [("observations.npy", packed, GIGABYTES_4 + len(header), True)])


def bomb_in_a_header(path: Path) -> None:
    """An array whose header claims to be 2 GB long."""
    start = b"\x93NUMPY\x02\x00" + struct.pack("<I", 2_000_000_000)
    archive(path, [("observations.npy", zeros_packed(start, 2_000_000_000), 2_000_000_012, True)])


def claims_without_content(path: Path) -> None:
    """Sizes that are not there: the archive's table says so, the content is a few bytes."""
    archive(path, [("observations.npy", npy_header((2**40, 2)), 2**31, True)])


def many_members(path: Path) -> None:
    content = npy(np.zeros(4, np.float32))
    archive(path, ((f"field-{i}.npy", content, len(content), False) for i in range(100_000)))


def bomb_hdf5(path: Path) -> None:
    """Compressed parts, all alike."""
    part = zlib.compress(bytes(1 << 22), 9)
    with h5py.File(path, "w") as file:
        rows = GIGABYTES_4 // 8
        entry = file.create_dataset("observations", (rows, 2), "f4", chunks=(1 << 19, 2), compression="gzip")
        for first in range(0, rows, 1 << 19):
            entry.id.write_direct_chunk((first, 0), part)


def unwritten_hdf5(path: Path) -> None:
    """Parts that were never written are read as zeros."""
    with h5py.File(path, "w") as file:
        for name in ("observations", "actions", "next_observations"):
            file.create_dataset(name, (GIGABYTES_4 // 8, 2), "f4", chunks=(1024, 2))


def loop_hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["again"] = file["/"]


def bomb_parquet(path: Path) -> None:
    """Columns of nothing: a few bytes for any number of rows."""
    rows = 200_000_000
    pq.write_table(pa.table({"observations": pa.nulls(rows), "actions": pa.nulls(rows)}), path, row_group_size=rows)


def wide_csv(path: Path) -> None:
    path.write_text(",".join(f"c{i}" for i in range(1_000_000)) + "\n")


def endless_line_csv(path: Path) -> None:
    path.write_text("obs_0\n" + "1" * 50_000_000)


def huge_space_minari(path: Path) -> None:
    """States counted to 2**40: one column for each."""
    waypost.save(walk(), path)
    metadata = path / "data" / "metadata.json"
    record = json.loads(metadata.read_text())
    record["observation_space"] = json.dumps({"type": "Discrete", "dtype": "int64", "start": 0, "n": 2**40})
    record.pop("waypost")
    metadata.write_text(json.dumps(record))


TOO_LARGE: dict[str, tuple[str, Callable[[Path], None]]] = {
    "4 GB packed in an .npz": ("log.npz", bomb_npz),
    "a header of 2 GB in an .npz": ("log.npz", bomb_in_a_header),
    "an .npz that claims more than it holds": ("log.npz", claims_without_content),
    "100 000 members in an .npz": ("log.npz", many_members),
    "4 GB packed in HDF5": ("log.hdf5", bomb_hdf5),
    "12 GB never written in HDF5": ("log.hdf5", unwritten_hdf5),
    "a group of HDF5 that holds itself": ("log.hdf5", loop_hdf5),
    "200 million rows of nothing in Parquet": ("log.parquet", bomb_parquet),
    "a million columns in CSV": ("log.csv", wide_csv),
    "50 million digits in CSV": ("log.csv", endless_line_csv),
    "2**40 states in Minari": ("log", huge_space_minari),
}

# -- other people's files --------------------------------------------------------------------------


def secret_file(folder: Path) -> Path:
    """A file of the user's, as long as the states of one of `walk`'s episodes."""
    path = folder / "secret.txt"
    path.write_text((SECRET * 10)[: _STATES[0] * _STATES[1] * 4])
    return path


def _private_hdf5(folder: Path) -> Path:
    """Private measurements of the user's."""
    path = folder / "private.hdf5"
    with h5py.File(path, "w") as file:
        file["observations"] = np.arange(np.prod(_STATES), dtype=np.float32).reshape(_STATES)
    return path


def external_link(path: Path, outside: Path) -> None:
    with h5py.File(path, "w") as file:
        file["observations"] = h5py.ExternalLink(str(_private_hdf5(outside)), "/observations")


def external_link_to_a_group(path: Path, outside: Path) -> None:
    with h5py.File(path, "w") as file:
        file["log"] = h5py.ExternalLink(str(_private_hdf5(outside)), "/")


def external_link_beside_data(path: Path, outside: Path) -> None:
    waypost.save(walk(), path)
    with h5py.File(path, "r+") as file:
        del file["rewards"]
        file["rewards"] = h5py.ExternalLink(str(_private_hdf5(outside)), "/observations")


def soft_link_to_an_external_one(path: Path, outside: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_group("hidden")["x"] = h5py.ExternalLink(str(_private_hdf5(outside)), "/observations")
        file["observations"] = h5py.SoftLink("/hidden/x")


def virtual(path: Path, outside: Path) -> None:
    layout = h5py.VirtualLayout(_STATES, "f4")
    layout[:] = h5py.VirtualSource(str(_private_hdf5(outside)), "observations", _STATES, "f4")
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("observations", layout)


def raw_storage(path: Path, outside: Path) -> None:
    secret = secret_file(outside)
    with h5py.File(path, "w") as file:
        file.create_dataset("observations", _STATES, "f4", external=[(str(secret), 0, secret.stat().st_size)])


def in_minari(make: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
    """The same inside a Minari data set: an episode's observations come from elsewhere."""

    def build(path: Path, outside: Path) -> None:
        waypost.save(walk(), path)
        strange = outside / "strange.hdf5"
        make(strange, outside)
        with h5py.File(path / "data" / "main_data.hdf5", "r+") as file, h5py.File(strange, "r") as other:
            episode, link = file["episode_0"], other.get("observations", getlink=True)
            del episode["observations"]
            if isinstance(link, h5py.ExternalLink):
                episode["observations"] = link
            else:
                other.copy("observations", episode, expand_external=False)

    return build


def linked_minari(path: Path, outside: Path) -> None:
    waypost.save(walk(), outside / "private")
    path.mkdir()
    (path / "data").symlink_to(outside / "private" / "data")


def linked_file_in_minari(path: Path, outside: Path) -> None:
    waypost.save(walk(), path)
    main = path / "data" / "main_data.hdf5"
    main.replace(outside / "main_data.hdf5")
    main.symlink_to(outside / "main_data.hdf5")


def linked_file_in_a_folder(path: Path, outside: Path) -> None:
    waypost.save(walk(), outside / "private.npz")
    waypost.save(walk(), path / "a.npz")
    (path / "b.npz").symlink_to(os.path.relpath(outside / "private.npz", path))


ELSEWHERE: dict[str, tuple[str, Callable[[Path, Path], None]]] = {
    "an external link in HDF5": ("log.hdf5", external_link),
    "an external link to a group in HDF5": ("log.hdf5", external_link_to_a_group),
    "an external link beside data in HDF5": ("log.hdf5", external_link_beside_data),
    "a soft link to an external one in HDF5": ("log.hdf5", soft_link_to_an_external_one),
    "a virtual data set in HDF5": ("log.hdf5", virtual),
    "external raw storage in HDF5": ("log.hdf5", raw_storage),
    "an external link in Minari": ("log", in_minari(external_link)),
    "a virtual data set in Minari": ("log", in_minari(virtual)),
    "external raw storage in Minari": ("log", in_minari(raw_storage)),
    "a linked folder in Minari": ("log", linked_minari),
    "a linked file in Minari": ("log", linked_file_in_minari),
    "a linked file in a folder of data": ("logs", linked_file_in_a_folder),
}

# -- strange contents ------------------------------------------------------------------------------


def with_facts(path: Path, **facts: Any) -> None:
    """A file of ours that says something else about itself."""
    known = {"task": None, "observation_names": ["x", "y"], "action_count": None}
    data = walk()
    rows = {name: np.asarray(getattr(data, name)) for name in ("observations", "next_observations", "rewards")}
    flags = {"terminals": data.terminals, "timeouts": data.timeouts}
    text = np.asarray(json.dumps({**known, **facts}))
    actions = np.zeros((len(data), 1), np.float32) if facts.get("action_count") else data.actions
    np.savez(path, waypost=text, actions=actions, **rows, **flags)


STRANGE: dict[str, Callable[[Path], None]] = {
    "2**62 choices": lambda path: with_facts(path, action_count=2**62),
    "a billion choices": lambda path: with_facts(path, action_count=10**9),
    "lone surrogates": lambda path: with_facts(path, observation_names=["\ud800", "\udfff"]),
    "markup": lambda path: with_facts(path, observation_names=["[/red]", "[bold]"]),
    "escape sequences": lambda path: with_facts(path, observation_names=["\x1b[31mred", "\x1b]0;title\x07"]),
    "line ends": lambda path: with_facts(path, observation_names=["a\nwaypost: error: b", "\r"]),
    "names of a megabyte": lambda path: with_facts(path, observation_names=["x" * 1_000_000, "y"]),
    "a task of surrogates": lambda path: with_facts(path, task="\ud800"),
    "a task of a megabyte": lambda path: with_facts(path, task="x" * 1_000_000),
}
