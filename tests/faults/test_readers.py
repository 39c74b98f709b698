"""Every reader on files that someone has changed at random: it reads them or says in one line what is wrong."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from bounds import BYTES, Peak, bounded
from hypothesis import HealthCheck, given, settings, strategies as st
from samples import walk

import waypost
from waypost.data.mapped import map_npz
from waypost.errors import WaypostError
from waypost.files import read_arrays
from waypost.studies.comparison import read_settings
from waypost.training.plan import read_plan
from waypost.training.runs import load_run

QUICK, THOROUGH = 15, 500
"""Cases for each of the readers: 210 in all, and 7000."""

# -- what is changed -------------------------------------------------------------------------------

ODD = st.sampled_from(
    [None, True, False, 0, -1, 1.5, 1e300, float("nan"), float("inf"), 2**31, 2**62, 10**30, "", "x", "\ud800",
     "\x1b[31m", "../../x", "a\0b", [], [[]], [None], {}, {"a": {"b": []}}, [1] * 1000]
)  # fmt: skip
BYTES_OF_NOTE = (
    b"\0",
    b"\xff",
    b"\0\0\0\0",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\0\0\0\x80",
    b"[",
    b"{",
    b'"',
    b"\n",
)
Edit = Callable[[bytes], bytes]


@st.composite
def edits(draw: st.DrawFn) -> list[Edit]:
    """A few changes of bytes anywhere: a bit, a note of interest, something cut out, doubled or cut off."""
    found: list[Edit] = []
    for _ in range(draw(st.integers(1, 4))):
        place, length = draw(st.floats(0, 1, exclude_max=True)), draw(st.integers(1, 64))
        kind = draw(st.sampled_from(("flip", "note", "cut", "double", "end", "near the end")))
        note = draw(st.sampled_from(BYTES_OF_NOTE))
        found.append(lambda content, p=place, n=length, k=kind, b=note: _edited(content, p, n, k, b))
    return found


def _edited(content: bytes, place: float, length: int, kind: str, note: bytes) -> bytes:
    at = int(place * len(content))
    if kind == "near the end":  # where archives and tables keep what they hold
        at, kind = max(0, len(content) - 1 - int(place * 200)), "note"
    first, rest = content[:at], content[at:]
    return {
        "flip": first + bytes([(rest or b"\0")[0] ^ (1 << length % 8)]) + rest[1:],
        "note": first + note + rest[len(note) :],
        "cut": first + rest[length:],
        "double": first + rest[:length] + rest,
        "end": first,
    }[kind]


@st.composite
def changes(draw: st.DrawFn) -> Edit:
    """A value of a JSON record, at any depth, becomes another one or goes."""
    choices, odd, goes = draw(st.lists(st.integers(0, 1000), min_size=1, max_size=5)), draw(ODD), draw(st.booleans())

    def change(content: bytes) -> bytes:
        record = json.loads(content)
        inner, depth = record, 0
        while True:
            key = _keys(inner)[choices[min(depth, len(choices) - 1)] % len(_keys(inner))]
            deeper = depth + 1 < len(choices) and _keys(inner[key])
            if not deeper:
                break
            inner, depth = inner[key], depth + 1
        if goes:
            del inner[key]
        else:
            inner[key] = odd
        return json.dumps(record).encode()

    return change


def _keys(record: Any) -> list[Any]:
    if isinstance(record, dict):
        return list(record)
    return list(range(len(record))) if isinstance(record, list) else []


# -- who reads it ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reader:
    """What to make in a folder, the file in it to change, and what reads it then."""

    make: Callable[[Path], object]
    file: str
    read: Callable[[Path], object]
    json: bool = False


def _data(name: str, file: str = "", as_json: bool = False) -> Reader:
    return Reader(
        lambda folder: waypost.save(walk(24), folder / name), file or name, lambda f: waypost.load(f / name), as_json
    )


def _csv(folder: Path) -> None:
    rows = [f"{row},{row / 3},{row % 2},{row // 6}" for row in range(24)]
    (folder / "log.csv").write_text("\n".join(["obs_0,obs_1,action,episode", *rows]) + "\n")


def _toml(folder: Path) -> None:
    (folder / "s.toml").write_text("[por]\ntau = 0.7\nvalue_hidden = [8, 8]\nbatch_size = 16\n\n[bc]\nsteps = 20\n")


def _run(file: str, read: Callable[[Path], object], as_json: bool = False) -> Reader:
    return Reader(lambda folder: None, f"run/{file}", read, as_json)


def _policies(folder: Path) -> object:
    return waypost.Policy.load(folder / "run").act([0.0, 0.0])


READERS: dict[str, Reader] = {
    "npz": _data("log.npz"),
    "mapped npz": Reader(
        lambda folder: waypost.save(walk(24), folder / "log.npz"), "log.npz", lambda f: map_npz(f / "log.npz").checked()
    ),
    "HDF5": _data("log.hdf5"),
    "Parquet": _data("log.parquet"),
    "CSV": Reader(_csv, "log.csv", lambda f: waypost.load(f / "log.csv")),
    "Minari's rows": _data("log", "log/data/main_data.hdf5"),
    "Minari's record": _data("log", "log/data/metadata.json", as_json=True),
    "settings": Reader(_toml, "s.toml", lambda f: read_settings(f / "s.toml")),
    "config.json": _run("config.json", lambda f: read_plan(f / "run"), as_json=True),
    "result.json": _run("result.json", lambda f: load_run(f / "run"), as_json=True),
    "policy.json": _run("policy/policy.json", _policies, as_json=True),
    "bytes of policy.json": _run("policy/policy.json", _policies),
    "weights": _run("policy/seed-0.safetensors", _policies),
    "checkpoint": _run(
        "checkpoint/state.safetensors", lambda f: read_arrays(f / "run" / "checkpoint" / "state.safetensors")
    ),
}


def fuzz(name: str, originals: Path, folder: Path, cases: int, again: bool) -> None:
    reader = READERS[name]
    if reader.file.startswith("run/"):
        shutil.copytree(originals / "run", folder / "run")
    reader.make(folder)
    file = folder / reader.file
    whole = file.read_bytes()
    reader.read(folder)
    peak = Peak()

    @settings(max_examples=cases, derandomize=again, database=None, deadline=None, suppress_health_check=[*HealthCheck])
    @given(changes() if reader.json else edits())
    def reads_or_refuses(change: Any) -> None:
        content = whole
        for edit in change if isinstance(change, list) else [change]:
            content = edit(content)
        file.write_bytes(content)
        with bounded(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert 0 < len(_complaint(reader, folder)) < 2000, "not a line that says what is wrong"

    reads_or_refuses()
    assert peak.grown() < BYTES


def _complaint(reader: Reader, folder: Path) -> str:
    """What the reader has against a file; any other error is one of ours."""
    try:
        reader.read(folder)
    except WaypostError as error:
        return str(error)
    except OSError as error:
        return str(error.filename)
    return "none"


@pytest.mark.parametrize("name", READERS)
def test_changed_files_are_read_or_refused(name: str, originals: Path, tmp_path: Path) -> None:
    """The same cases in every run."""
    fuzz(name, originals, tmp_path, QUICK, again=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_more_changed_files_are_read_or_refused(name: str, originals: Path, tmp_path: Path) -> None:
    """Other cases in every run; a failure prints how to see it again."""
    fuzz(name, originals, tmp_path, THOROUGH, again=False)
