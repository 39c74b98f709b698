"""Data that stay in their file: mapped into memory to be read, written block by block.

A file of ours is an .npz without compression, so each array lies in it byte for byte as NumPy would hold it. Mapping
needs no memory for the rows; the system reads the pages that are looked at and drops them when it needs the memory.
"""

from __future__ import annotations

import io
import json
import math
import shutil
import struct
import zipfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, NoReturn

import numpy as np
from numpy.lib import format as npy

from waypost.data.dataset import Dataset
from waypost.data.formats import writing
from waypost.data.formats.arrays import BOUNDS, MARK, ROWS, complete, facts_of, read_facts
from waypost.data.formats.npz import LONGEST_HEADER, archive, read_header, small
from waypost.data.in_file import FileMap, blocks, files_of
from waypost.errors import WaypostError
from waypost.files import expanded, make_folder, reading, remove_folders, replacing, unused_name
from waypost.types import Count

ALIGNMENT = 64
"""Arrays in files by `NpzWriter` begin at multiples of this, which is what processors and XLA like best."""
WRITTEN_ROWS = 1 << 16
"""Rows that are written together."""
_Member = tuple[np.dtype, Callable[[FileMap], np.ndarray]]
"""The type of an array in the archive, and how to get it out of the map."""


def map_npz(path: str | Path, name: str | None = None) -> Dataset:
    """The data of an .npz that Waypost wrote, left where they are on disk and checked block by block.

    They equal what `load` reads, and need memory only for three flags per row.
    """
    path = expanded(path)
    with reading(path, "an .npz file"), path.open("rb") as file, archive(file) as entries:
        members = _members(path, file, entries)
        facts = json.loads(str(small(entries, MARK)))
        known = read_facts(facts)
        complete(facts, {name.removesuffix(".npy") for name in entries.namelist()})
        known |= {bound: small(entries, bound) for bound in BOUNDS if f"{bound}.npy" in entries.namelist()}
        whole = FileMap(path, file.fileno())
        known |= {role: mapped(whole) for role, (_, mapped) in members.items()}
    return Dataset.from_arrays(**known, name=name or str(path), copy=False)


def mappable(path: str | Path) -> bool:
    """Whether `map_npz` can take the file, as far as its table of contents tells."""
    try:
        check_npz(path)
    except WaypostError:
        return False
    return True


def check_npz(path: str | Path) -> None:
    """Raise if `map_npz` cannot take the file, as far as its table of contents tells."""
    path = expanded(path)
    with reading(path, "an .npz file"), path.open("rb") as file, archive(file) as entries:
        _members(path, file, entries)


def is_mapped(values: np.ndarray) -> bool:
    """Whether these numbers lie in a file, or in several."""
    return bool(files_of(values))


def _members(path: Path, file: IO[bytes], archived: zipfile.ZipFile) -> dict[str, _Member]:
    """The rows' arrays by name, after checking that they can be used as they lie."""
    entries = {entry.filename.removesuffix(".npy"): entry for entry in archived.infolist()}
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries.values()):
        _refuse(path, "its arrays are compressed")
    if MARK not in entries:
        _refuse(path, "it was not written by Waypost")
    for role in ("observations", "next_observations", "terminals", "timeouts"):
        if role not in entries:
            _refuse(path, f"it has no {role}")
    members = {role: _member(file, entries[role]) for role in ROWS if role in entries}
    for role, (dtype, _) in members.items():
        if dtype != (np.bool_ if role in ("terminals", "timeouts", "next_valid") else np.float32):
            _refuse(path, f"its {role} hold {dtype}")
    return members


def _refuse(path: Path, reason: str) -> NoReturn:
    raise WaypostError(f"{path}: cannot be mapped: {reason}; write it again with `waypost convert {path} OUT.npz`")


def _member(file: IO[bytes], entry: zipfile.ZipInfo) -> _Member:
    """An array's type and how to map it, after checking that its claims agree with each other and with the file."""
    file.seek(entry.header_offset)
    local = file.read(30)
    if len(local) < 30 or local[:4] != b"PK\x03\x04" or entry.flag_bits & 0x1:
        raise ValueError(f"{entry.filename} has no readable entry")
    begin = entry.header_offset + 30 + sum(struct.unpack("<HH", local[26:30]))
    if entry.file_size != entry.compress_size or begin + entry.file_size > file.seek(0, io.SEEK_END):
        raise ValueError(f"{entry.filename} goes on after the end of the file")
    file.seek(begin)
    shape, fortran, dtype, header = read_header(file.read(min(LONGEST_HEADER, entry.file_size)))
    claimed = math.prod(shape) * dtype.itemsize
    if dtype.hasobject or min(shape, default=0) < 0 or header + claimed != entry.file_size:
        raise ValueError(f"{entry.filename} claims {claimed} bytes and holds {entry.file_size - header}")
    if fortran and len(shape) > 1:
        raise ValueError(f"{entry.filename} is stored by columns")

    def mapped(whole: FileMap) -> np.ndarray:
        whole.expect(begin, begin + entry.file_size, entry.CRC)
        if not claimed:
            return np.zeros(shape, dtype)
        return np.ndarray(shape, dtype, whole, begin + header)

    return dtype, mapped


class NpzWriter:
    """Writes data larger than memory to an .npz file, one block after another.

        with NpzWriter("all.npz") as writer:
            for block in blocks:
                writer.append(block)

    Each block is a `Dataset`; the last row of a block ends an episode. Blocks must have the same columns. The file can
    be loaded, and streamed in training. It appears when the `with` block ends; after an error, nothing does. Until then
    the columns grow in files of their own in a folder beside it, so the data need twice their size on disk for a
    moment. `rows` is the number of transitions written so far.
    """

    def __init__(self, path: str | Path):
        self.path = expanded(path)
        if self.path.suffix.lower() != ".npz":
            raise WaypostError(f"{self.path}: data that are streamed are written as .npz; choose such a name")
        self.rows = 0
        self._forms: dict[str, tuple[np.dtype, tuple[int, ...]]] = {}
        """Type and shape of a row, for each column."""
        self._files: dict[str, IO[bytes]] = {}
        self._open = ExitStack()
        self._bounds: dict[str, np.ndarray] = {}

    def __enter__(self) -> NpzWriter:
        with writing(self.path):
            self._made = make_folder(self.path.parent)
            self._folder = unused_name(self.path)
            self._folder.mkdir()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            with writing(self.path):
                self._open.close()
                if kind is None:
                    self._assemble()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
            remove_folders(self._made)

    def append(self, block: Dataset, progress: Count | None = None) -> None:
        """Add the rows of a block after those before it; what lies in files is read little by little."""
        arrays = {role: getattr(block, role) for role in ROWS if getattr(block, role) is not None}
        forms = {role: (values.dtype, values.shape[1:]) for role, values in arrays.items()}
        if not self._forms:
            self._forms, self._facts, self._kind = forms, facts_of(block), block.action_kind
            with writing(self.path):
                places = {role: self._folder / role for role in arrays}
                self._files = {role: self._open.enter_context(place.open("wb")) for role, place in places.items()}
        if forms != self._forms:
            words = ([f"{role} {list(shape)}" for role, (_, shape) in each.items()] for each in (forms, self._forms))
            has, had = map(", ".join, words)
            raise WaypostError(f"{block.name}: has {has}, the data before it {had}; they must agree")
        self._kind = self._kind.joined(block.action_kind, block.name)
        with writing(self.path):
            for number, (role, values) in enumerate(arrays.items()):
                for first, rows in blocks(values, WRITTEN_ROWS):
                    self._files[role].write(np.ascontiguousarray(rows).data)
                    if progress is not None:
                        progress((number * len(block) + first + len(rows)) // len(arrays), len(block))
        # Actions that look discrete may still turn out to be continuous.
        continuous = block.with_action_count(0) if block.action_count else block
        for bound, extreme in zip(BOUNDS, (np.minimum, np.maximum), strict=True):
            if (values := getattr(continuous, bound)) is not None:
                self._bounds[bound] = extreme(self._bounds.get(bound, values), values)
        self.rows += len(block)

    def _assemble(self) -> None:
        if not self.rows:
            raise WaypostError(f"{self.path}: no transitions; at least one row is needed")
        count = self._kind.count
        if count is not None:
            self._bounds = {bound: np.full(1, at, np.float32) for bound, at in zip(BOUNDS, (0, count - 1), strict=True)}
        small = {MARK: np.asarray(json.dumps(self._facts | {"action_count": count})), **self._bounds}
        with replacing(self.path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
            for name, values in small.items():
                with _entry(archive, name) as entry:
                    npy.write_array(entry, values, allow_pickle=False)
            for role, (dtype, shape) in self._forms.items():
                header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": (self.rows, *shape)}
                with _entry(archive, role) as entry, (self._folder / role).open("rb") as column:
                    npy.write_array_header_1_0(entry, header)
                    shutil.copyfileobj(column, entry, 1 << 22)
                (self._folder / role).unlink()


def _entry(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    """A new entry whose contents begin at a multiple of `ALIGNMENT`; an unused extra field makes up the difference."""
    entry = zipfile.ZipInfo(f"{name}.npy")
    assert archive.fp is not None
    # Before the contents stand 30 bytes, the name, 20 bytes for sizes over 4 GB, and the head of the unused field.
    begin = archive.fp.tell() + 30 + len(entry.filename) + 20 + 4
    entry.extra = struct.pack("<HH", 0xD935, -begin % ALIGNMENT) + bytes(-begin % ALIGNMENT)
    return archive.open(entry, "w", force_zip64=True)
