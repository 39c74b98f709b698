"""Arrays and records on disk: written completely or not at all, read without running any code."""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import json
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save

from waypost.errors import DamagedFile, WaypostError

PARTIAL = re.compile(r"\.waypost-[0-9a-f]{16}\.partial")
"""The names of temporary files."""


@contextmanager
def replacing(path: Path, keep: Path | None = None) -> Iterator[Path]:
    """A temporary file beside `path`; it replaces `path` when it is complete, and is deleted after an error.

    At any moment, even after a power cut, either the old or the new file exists, complete. A failing disk raises an
    `OSError` that names `path`. With `keep`, the old file is kept under that name.
    """
    temporary = unused_name(path)
    made: list[Path] = []
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        made = make_folder(path.parent)
        temporary.open("xb").close()
        yield temporary
        _synchronise(temporary)
        if keep is not None and path.exists():
            _keep(path, keep)
        temporary.replace(path)
        _synchronise(path.parent)
    except BaseException as error:
        _discard(temporary)
        remove_folders(made)
        if isinstance(error, OSError):
            raise _blaming(error, path, temporary) from None
        raise


def unused_name(path: Path) -> Path:
    """A name beside `path` for a file that is not complete yet; short, however long the name of `path` is."""
    return path.with_name(f".waypost-{secrets.token_hex(8)}.partial")


def is_partial(path: Path) -> bool:
    """Whether this is the name of a file that was never completed."""
    return PARTIAL.fullmatch(path.name) is not None


def discard_partials(folder: Path) -> None:
    """Delete the files that killed processes were writing, and nothing else."""
    for path in list(folder.iterdir()) if folder.is_dir() else []:
        if is_partial(path) and stat.S_ISREG(path.lstat().st_mode):
            path.unlink()


def writable(path: Path, size: int = 0) -> None:
    """Raise the `OSError` that writing a file of this size would raise, before long work begins."""
    temporary = unused_name(path)
    made: list[Path] = []
    try:
        made = make_folder(path.parent)
        if size > shutil.disk_usage(path.parent).free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        with temporary.open("xb") as file:
            file.truncate(max(size, 0))  # the file system or a limit may not allow a file of this size
    except OSError as error:
        raise _blaming(error, path, temporary) from None
    finally:
        _discard(temporary)
        remove_folders(made)


def make_folder(path: Path) -> list[Path]:
    """Create a folder and its parents; return those that were missing, innermost first."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None
    return missing


def remove_folders(made: list[Path]) -> None:
    """Remove the folders that `make_folder` made, if they are empty."""
    with suppress(OSError):
        for folder in dict.fromkeys(made):
            folder.rmdir()


def _keep(path: Path, kept: Path) -> None:
    """Keep a file under a second name."""
    other = unused_name(kept)
    try:
        os.link(path, other)
    except OSError:  # not every file system has hard links
        path.replace(kept)
        return
    try:
        other.replace(kept)
    finally:
        _discard(other)  # it remains if both were the same file


def _synchronise(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk."""
    if path.is_dir():
        if sys.platform == "win32":
            return
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except PermissionError:
            return  # the folder may be writable but not readable
    else:
        descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems cannot do this for folders
            raise
    finally:
        os.close(descriptor)


def _discard(temporary: Path) -> None:
    """Delete a file if possible, even if Ctrl-C comes in between."""
    try:
        with suppress(OSError):
            temporary.unlink()
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _blaming(error: OSError, path: Path, temporary: Path) -> OSError:
    """The error with the file name the user knows; an error about another file is unchanged."""
    ours = {str(temporary), *map(str, path.parents)}
    if error.filename is not None and str(error.filename) not in ours:
        return error
    if error.errno is None:  # libraries put everything into the message
        reason = " ".join(str(error).replace(str(temporary), str(path)).split())
        return OSError(errno.EIO, reason, str(path))
    return OSError(error.errno, os.strerror(error.errno), str(path))


def expanded(path: str | Path) -> Path:
    """The path a user gave, with ~ replaced by the home folder; an error if it cannot be a path."""
    text = os.fspath(path)
    if not text:
        raise WaypostError("a path is empty; name a file or a folder")
    try:
        if "\0" in text:
            raise WaypostError(f"{text!r}: a path cannot contain a zero byte")
        found = Path(text).expanduser()
        os.lstat(found)
    except RuntimeError:
        raise WaypostError(f"{text}: there is no such user; write ./{text} for a file of that name") from None
    except UnicodeEncodeError:
        raise WaypostError(f"{text!r}: a path cannot contain these characters") from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise WaypostError(f"{text[:40]}...: is too long for a path ({len(text)} characters)") from None
    return found


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Turn any error while a file is parsed into one line that names it; only regular files are read."""
    if not path.exists():
        raise WaypostError(f"{path}: there is no such file")
    if not path.is_file():
        raise WaypostError(
            f"{path}: is a {'folder' if path.is_dir() else 'pipe or a device'}; a regular file is needed"
        )
    try:
        path.open("rb").close()
    except OSError as error:
        raise WaypostError(f"{path}: cannot be read ({error.strerror})") from None
    with parsing(path, kind):
        yield


@contextmanager
def parsing(path: Path, kind: str) -> Iterator[None]:
    """Turn any error while a file or a folder of files is parsed into one line that names it."""
    try:
        yield
    except WaypostError:
        raise
    except MemoryError:
        raise WaypostError(f"{path}: does not fit in memory; convert it in parts, or see docs/large-data.md") from None
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DamagedFile(f"{path}: damaged or not {kind} ({reason})") from None


def write_bytes(path: Path, content: bytes, keep: Path | None = None) -> None:
    """Write a file completely or not at all; see `replacing`."""
    with replacing(path, keep) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, content: str) -> None:
    write_bytes(path, content.encode("utf-8", "backslashreplace"))  # file names may contain bytes that are not text


def json_text(record: Any) -> str:
    """A record as the text of a JSON file."""
    return json.dumps(record, indent=2, allow_nan=False) + "\n"


def write_json(path: Path, record: Any) -> None:
    write_text(path, json_text(record))


def write_arrays(path: Path, arrays: dict[str, np.ndarray], record: Any = None, keep: Path | None = None) -> None:
    """One safetensors file with the arrays and, in its header, a JSON record and a checksum of both."""
    # As the file stores them: the checksum must match what is read back.
    stored = {name: np.asarray(values, values.dtype.newbyteorder("<"), order="C") for name, values in arrays.items()}
    text = json.dumps(record)
    sealed = f'{{"checksum": "{_checksum(stored, text)}", "record": {text}}}'
    # One entry only: the order of several in the header is random, and the same contents must give the same bytes.
    write_bytes(path, save(stored, metadata={"sealed": sealed}), keep)


def read_arrays(path: Path) -> tuple[dict[str, np.ndarray], Any]:
    """The arrays and the record of a file written by `write_arrays`; files of older versions have no checksum."""
    with reading(path, "a safetensors file"), safe_open(path, framework="numpy") as file:
        about = file.metadata() or {}
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if not about.keys() & {"sealed", "record"}:
            raise DamagedFile(f"{path}: damaged or not written by Waypost (it has no record)")
        if "sealed" not in about:
            return arrays, json.loads(about["record"])
        sealed = json.loads(about["sealed"])
        if sealed["checksum"] != _checksum(arrays, json.dumps(sealed["record"])):
            raise DamagedFile(f"{path}: damaged (its checksum does not match)")
        return arrays, sealed["record"]


def _checksum(arrays: dict[str, np.ndarray], text: str) -> str:
    """A checksum of names, types, shapes and numbers, and of the record's text."""
    found = hashlib.blake2b(text.encode(), digest_size=16)
    for name, values in sorted(arrays.items()):
        found.update(json.dumps([name, values.dtype.str, values.shape]).encode())
        found.update(values.reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def table(columns: list[str], rows: list[dict[str, Any]]) -> str:
    """Rows as the text of a CSV file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
