"""Damaged and mistaken files: each gets one line that says what is wrong, and nothing else happens."""

from __future__ import annotations

import io
import json
import math
import resource
import shutil
import signal
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import waypost
from waypost.cli import main

SECONDS = 20
MEGABYTES = 400
ROWS = 40


def arrays() -> dict[str, Any]:
    """Four episodes of ten rows, as plain arrays."""
    rng = np.random.default_rng(0)
    observations = rng.normal(size=(ROWS, 3)).astype(np.float32)
    ends = np.arange(1, ROWS + 1) % 10 == 0
    following = np.append(observations[1:], observations[-1:], axis=0)
    following[ends] += 1
    return {
        "observations": observations,
        "actions": rng.uniform(-1, 1, (ROWS, 2)).astype(np.float32),
        "rewards": rng.normal(size=ROWS).astype(np.float32),
        "next_observations": following,
        "terminals": ends & (np.arange(ROWS) < 20),
        "timeouts": ends & (np.arange(ROWS) >= 20),
        "action_low": np.full(2, -1, np.float32),
        "action_high": np.full(2, 1, np.float32),
    }


def spoiled(values: np.ndarray, wrong: Any, row: int = 7) -> np.ndarray:
    values = np.array(values, np.float64)
    values[row] = wrong
    return values


# What is wrong with which array, where None leaves the array out, and what is said about it.
WRONG: dict[str, tuple[str, Callable[[np.ndarray], Any], str]] = {
    "observations missing": ("observations", lambda _: None, "no field looks like observations; it has action"),
    "observations text": ("observations", lambda v: v.astype(str), "'observations' holds text"),
    "observations 4-D": (
        "observations",
        lambda v: v.reshape(ROWS, 3, 1, 1),
        "'observations' has shape (40, 3, 1, 1); flatten",
    ),
    "observations without rows": ("observations", lambda v: v[:0], "actions have 40 rows, observations 0"),
    "observations without columns": ("observations", lambda v: v[:, :0], "observations have no columns"),
    "observations complex": ("observations", lambda v: v.astype(complex), "'observations' holds complex128"),
    "observations one number": (
        "observations",
        lambda _: np.float32(3),
        "'observations' holds one value, not one per row",
    ),
    "observations NaN": (
        "observations",
        lambda v: spoiled(v, np.nan),
        "observations are NaN or infinite in 1 of 40 rows (7)",
    ),
    "observations inf": (
        "observations",
        lambda v: spoiled(v, np.inf),
        "observations are NaN or infinite in 1 of 40 rows (7)",
    ),
    "observations too large for float32": (
        "observations",
        lambda v: spoiled(v, 1e300),
        "observations are NaN or infinite in 1 of 40 rows (7)",
    ),
    "observations short": ("observations", lambda v: v[:-1], "actions have 40 rows, observations 39"),
    "observations wide": ("observations", lambda v: np.tile(v, 2), "shape (40, 3), observations (40, 6)"),
    "actions short": ("actions", lambda v: v[:-1], "actions have 39 rows, observations 40"),
    "actions long": ("actions", lambda v: np.append(v, v[:1], axis=0), "actions have 41 rows, observations 40"),
    "actions NaN": ("actions", lambda v: spoiled(v, np.nan), "actions are NaN or infinite in 1 of 40 rows (7)"),
    "actions -inf": ("actions", lambda v: spoiled(v, -np.inf), "actions are NaN or infinite in 1 of 40 rows (7)"),
    "actions text": ("actions", lambda v: v.astype(str), "'actions' holds text"),
    "actions 3-D": ("actions", lambda v: v.reshape(ROWS, 2, 1, 1), "'actions' has shape (40, 2, 1, 1); flatten"),
    "actions without columns": ("actions", lambda v: v[:, :0], "actions have no columns; leave them out"),
    "actions without rows": ("actions", lambda v: v[:0], "actions have 0 rows, observations 40"),
    "rewards short": ("rewards", lambda v: v[:-1], "rewards have 39 rows, observations 40"),
    "rewards NaN": ("rewards", lambda v: spoiled(v, np.nan), "rewards are NaN or infinite in 1 of 40 rows (7)"),
    "rewards all NaN": (
        "rewards",
        lambda v: np.full_like(v, np.nan),
        "NaN or infinite in 40 of 40 rows (0, 1, 2, 3, 4, ...)",
    ),
    "rewards inf": ("rewards", lambda v: spoiled(v, np.inf), "rewards are NaN or infinite in 1 of 40 rows (7)"),
    "rewards two each": ("rewards", lambda v: np.stack([v, v], axis=1), "rewards have shape (40, 2); expected (40,)"),
    "rewards text": ("rewards", lambda v: v.astype(str), "'rewards' holds text"),
    "rewards one number": ("rewards", lambda _: np.float32(1), "'rewards' holds one value, not one per row"),
    "terminals short": ("terminals", lambda v: v[:-1], "terminals have 39 rows, observations 40"),
    "terminals 3": ("terminals", lambda v: spoiled(v, 3), "terminals must be one 0 or 1 per row"),
    "terminals negative": ("terminals", lambda v: spoiled(v, -1), "terminals must be one 0 or 1 per row"),
    "terminals NaN": ("terminals", lambda v: spoiled(v, np.nan), "terminals must be one 0 or 1 per row"),
    "terminals text": ("terminals", lambda v: np.where(v, "yes", "no"), "'terminals' holds text"),
    "terminals two each": ("terminals", lambda v: np.stack([v, v], axis=1), "terminals must be one 0 or 1 per row"),
    "timeouts long": ("timeouts", lambda v: np.append(v, v), "timeouts have 80 rows, observations 40"),
    "timeouts a half": ("timeouts", lambda v: spoiled(v, 0.5), "timeouts must be one 0 or 1 per row"),
    "timeouts text": ("timeouts", lambda v: v.astype(str), "'timeouts' holds text"),
    "next states short": ("next_observations", lambda v: v[:-1], "next_observations have 39 rows, observations 40"),
    "next states narrow": ("next_observations", lambda v: v[:, :1], "shape (40, 1), observations (40, 3)"),
    "next states NaN": ("next_observations", lambda v: spoiled(v, np.nan), "are NaN or infinite in 1 of 40 rows (7)"),
    "next states text": ("next_observations", lambda v: v.astype(str), "'next_observations' holds text"),
    "bounds crossed": ("action_low", lambda v: v + 5, "action_low must be at most action_high"),
    "bounds for three": ("action_high", lambda _: np.ones(3), "action_high has shape (3,) and holds float64"),
    "bounds NaN": ("action_low", lambda v: v * np.nan, "action_low are NaN or infinite in 2 of 2 rows"),
    "bounds text": ("action_high", lambda _: np.array(["a", "b"]), "one number for each of 2 actions"),
}
NOT_IN_A_TABLE = ("short", "long", "one number", "complex", "without rows", "bounds", "4-D", "3-D")


def mistaken(wrong: str) -> dict[str, Any]:
    field, change, _ = WRONG[wrong]
    content = arrays()
    content[field] = change(content[field])
    return {name: values for name, values in content.items() if values is not None}


def write_npz(path: Path, content: dict[str, Any]) -> None:
    np.savez(path, **content)


def write_hdf5(path: Path, content: dict[str, Any]) -> None:
    with h5py.File(path, "w") as file:
        for name, values in content.items():
            values = np.asarray(values)
            file[name] = values.astype("S") if values.dtype.kind == "U" else values


def write_parquet(path: Path, content: dict[str, Any]) -> None:
    columns = {n: v.tolist() if v.ndim > 1 else v for n, v in content.items() if not n.startswith("action_")}
    pq.write_table(pa.table(columns), path)


WRITERS = {".npz": write_npz, ".hdf5": write_hdf5, ".parquet": write_parquet}


# -- one line that says why, soon, in little memory ---------------------------------------------------


@pytest.fixture
def refused(tmp_path: Path) -> Callable[[Path, str], None]:
    def check(source: Path, reason: str) -> None:
        def too_long(*_: object) -> None:
            raise AssertionError(f"{source.name} took more than {SECONDS} s")

        out = tmp_path / "out" / "converted.npz"
        before, begun = _peak(), time.monotonic()
        signal.signal(signal.SIGALRM, too_long)
        signal.alarm(SECONDS)
        try:
            with pytest.raises(waypost.WaypostError) as error:
                waypost.convert(source, out)
        finally:
            signal.alarm(0)
        text = str(error.value)
        assert reason in text
        assert source.name in text
        assert "\n" not in text
        assert "Traceback" not in text
        assert _peak() - before < MEGABYTES
        assert time.monotonic() - begun < SECONDS
        assert not out.parent.exists()

    return check


@pytest.fixture
def command_refused(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., str]:
    """The same through the command: exit code 2, and nothing but that line."""

    def check(source: Path, *more: str) -> str:
        with pytest.raises(SystemExit) as stop:
            main(["convert", str(source), str(tmp_path / "out" / "converted.npz"), *more])
        printed, err = capfd.readouterr()
        assert stop.value.code == 2, err
        assert not printed
        lines = err.splitlines()
        assert len(lines) == 1, err
        assert lines[0].startswith("waypost: error: ")
        assert source.name in lines[0]
        assert not (tmp_path / "out").exists()
        return lines[0]

    return check


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


KINDS = {
    ".npz": "an .npz file (",
    ".hdf5": "an HDF5 file (",
    ".parquet": "a Parquet file (",
    ".csv": "a CSV file with a header line (",
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_the_file_that_is_not_mutated_is_fine(suffix: str, tmp_path: Path) -> None:
    WRITERS[suffix](tmp_path / f"log{suffix}", arrays())
    data = waypost.load(tmp_path / f"log{suffix}")
    assert len(data) == ROWS
    assert data.episode_lengths.tolist() == [10] * 4


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("suffix", [".npz", ".hdf5"])
def test_mistaken_arrays(suffix: str, wrong: str, tmp_path: Path, refused: Callable[[Path, str], None]) -> None:
    WRITERS[suffix](tmp_path / f"log{suffix}", mistaken(wrong))
    refused(tmp_path / f"log{suffix}", WRONG[wrong][2])


@pytest.mark.parametrize("wrong", [each for each in WRONG if not any(word in each for word in NOT_IN_A_TABLE)])
def test_mistaken_tables(wrong: str, tmp_path: Path, refused: Callable[[Path, str], None]) -> None:
    content = mistaken(wrong)
    content.setdefault("unrelated", np.arange(ROWS))
    write_parquet(tmp_path / "log.parquet", content)
    # Arrow does not know that lists without elements are lists of numbers.
    refused(tmp_path / "log.parquet", "holds text" if "without columns" in wrong else WRONG[wrong][2])


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 0.999])
@pytest.mark.parametrize("suffix", [".npz", ".hdf5", ".parquet"])
@pytest.mark.parametrize("ours", [True, False])
def test_truncated_files(
    suffix: str, ours: bool, share: float, tmp_path: Path, refused: Callable[[Path, str], None]
) -> None:
    path = tmp_path / f"log{suffix}"
    if ours:
        waypost.save(waypost.load(arrays()), path)
    else:
        WRITERS[suffix](path, arrays())
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    refused(path, f"damaged or not {KINDS[suffix]}")


@pytest.mark.parametrize("suffix", [".npz", ".hdf5", ".parquet", ".csv"])
@pytest.mark.parametrize("content", [b"", b"\x00" * 4096, b"<html>404</html>", bytes(range(256)) * 64, b"PK\x03\x04"])
def test_files_that_are_something_else(
    suffix: str, content: bytes, tmp_path: Path, refused: Callable[[Path, str], None]
) -> None:
    path = tmp_path / f"log{suffix}"
    path.write_bytes(content)
    refused(path, f"damaged or not {KINDS[suffix]}")


@pytest.mark.parametrize("suffix", [".npz", ".hdf5", ".parquet", ".csv"])
def test_files_that_are_not_there_or_folders(suffix: str, tmp_path: Path, refused: Callable[[Path, str], None]) -> None:
    refused(tmp_path / f"log{suffix}", "there is no such file")
    (tmp_path / f"folder{suffix}").mkdir()
    refused(tmp_path / f"folder{suffix}", "holds no data; expected")


@pytest.mark.parametrize("suffix", KINDS)
def test_the_command_says_it_in_one_line(suffix: str, tmp_path: Path, command_refused: Callable[..., str]) -> None:
    assert "there is no such file" in command_refused(tmp_path / f"log{suffix}")
    (tmp_path / f"log{suffix}").write_bytes(b"<html>404</html>")
    assert f"damaged or not {KINDS[suffix]}" in command_refused(tmp_path / f"log{suffix}")


# -- claims ------------------------------------------------------------------------------------------


def claim(shape: tuple[int, ...], dtype: str = "<f4") -> bytes:
    """The header of an array of that shape, followed by a few bytes only."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype, "fortran_order": False, "shape": shape})
    return header.getvalue() + bytes(64)


@pytest.mark.parametrize("shape", [(10**12, 3), (10**18,), (2**62, 2**62), (41, 3)])
@pytest.mark.parametrize("packed", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_npz_that_claims_more_than_it_has(
    shape: tuple[int, ...], packed: int, tmp_path: Path, refused: Callable[[Path, str], None]
) -> None:
    path = tmp_path / "log.npz"
    with zipfile.ZipFile(path, "w", packed) as archive:
        archive.writestr("observations.npy", claim(shape))
    refused(path, f"observations.npy claims {4 * math.prod(shape)} bytes and holds 192")


def test_npz_that_would_run_code(tmp_path: Path, refused: Callable[[Path, str], None]) -> None:
    np.savez(tmp_path / "log.npz", observations=np.array([object()] * 3, object))
    refused(tmp_path / "log.npz", "observations.npy holds Python objects")


def test_npz_of_zeros_packed_a_thousandfold_beyond_memory(tmp_path: Path, refused: Callable[[Path, str], None]) -> None:
    """An archive may say that a few bytes unpack to terabytes."""
    path = tmp_path / "log.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("observations.npy", claim((16,)))
    content = bytearray(path.read_bytes())
    central = content.rindex(b"PK\x01\x02")
    content[central + 24 : central + 28] = (0xFFFF0000).to_bytes(4, "little")
    path.write_bytes(bytes(content))
    refused(path, "observations.npy claims 64 bytes and holds 4294901760")


@pytest.mark.parametrize("rows", [10**9, 10**12, 2**60])
def test_hdf5_that_claims_more_than_it_has(rows: int, tmp_path: Path, refused: Callable[[Path, str], None]) -> None:
    with h5py.File(tmp_path / "log.hdf5", "w") as file:
        file.create_dataset("observations", shape=(rows, 1), chunks=(1024, 1), dtype="f4")
    refused(tmp_path / "log.hdf5", f"damaged: observations claims {4 * rows} bytes, the file holds 0 for it")


def test_hdf5_with_an_empty_array(tmp_path: Path, refused: Callable[[Path, str], None]) -> None:
    with h5py.File(tmp_path / "log.hdf5", "w") as file:
        file["observations"] = h5py.Empty("f4")
    refused(tmp_path / "log.hdf5", "(observations is empty)")


def test_hdf5_with_a_group_where_an_array_is_expected(tmp_path: Path, refused: Callable[[Path, str], None]) -> None:
    with h5py.File(tmp_path / "log.hdf5", "w") as file:
        file.create_group("observations")
    refused(tmp_path / "log.hdf5", "no field looks like observations; it has nothing")


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ("{", "Expecting property name"),
        ("[]", "its facts are not a JSON object"),
        ('{"task": 3}', "task and observation_names must be text"),
        ('{"observation_names": 1}', "task and observation_names must be text"),
        ('{"observation_names": "abc"}', "task and observation_names must be text"),
        ('{"observation_names": [["x"], "y", "z"]}', "task and observation_names must be text"),
        ('{"task": "os:system"}', "the task 'os:system' names a module; name it yourself with --env"),
        ("3", "its facts are not a JSON object"),
        ("[" * 9999, "recursion"),
        ('{"action_count": ' + "9" * 4000 + "}", "action_count must be at most 1000000"),
        ('{"action_count": "3"}', "action_count must be a whole number"),
        ('{"action_count": true}', "action_count must be a whole number"),
        ('{"action_count": 2.5}', "action_count must be a whole number"),
        ('{"action_count": 3}', "3 discrete actions in 2 columns"),
        ('{"action_count": -1}', "-1 discrete actions in 2 columns"),
    ],
)
@pytest.mark.parametrize("suffix", [".npz", ".hdf5", ".parquet"])
def test_facts_that_are_none(
    suffix: str, record: str, reason: str, tmp_path: Path, refused: Callable[[Path, str], None]
) -> None:
    path = tmp_path / f"log{suffix}"
    content = arrays()
    if suffix == ".npz":
        np.savez(path, waypost=np.asarray(record), **content)
    elif suffix == ".hdf5":
        write_hdf5(path, content)
        with h5py.File(path, "a") as file:
            file.attrs["waypost"] = record
    else:
        columns = {n: v.tolist() for n, v in content.items() if not n.startswith("action_")}
        pq.write_table(pa.table(columns).replace_schema_metadata({"waypost": record}), path)
    refused(path, reason)


# -- text --------------------------------------------------------------------------------------------


TEXTS = {
    "only a header": ("obs_0,obs_1,action_0\n", "no transitions; at least one row is needed"),
    "a row too short": ("obs_0,obs_1\n1,2\n3\n", "Expected 2 columns, got 1"),
    "a row too long": ("obs_0,obs_1\n1,2\n3,4,5\n", "Expected 2 columns, got 3"),
    "a word among numbers": ("obs_0,obs_1\n1,2\n3,left\n", "'obs_1' holds text, for observations"),
    "a word among rewards": ("obs_0,reward\n1,2\n3,good\n", "'reward' holds text, for rewards"),
    "a missing number": ("obs_0,obs_1\n1,2\n3,\n", "observations are NaN or infinite in 1 of 2 rows (1)"),
    "a missing reward": ("obs_0,reward\n1,2\n3,\n", "rewards are NaN or infinite in 1 of 2 rows (1)"),
    "a missing action inside": (
        "obs_0,action_0,episode\n1,2,a\n2,,a\n3,1,a\n",
        "actions are NaN or infinite in 1 of 3 rows (1)",
    ),
    "NaN": ("obs_0,obs_1\n1,nan\n3,4\n", "observations are NaN or infinite in 1 of 2 rows (0)"),
    "inf": ("obs_0,obs_1\n1,2\n3,inf\n", "observations are NaN or infinite in 1 of 2 rows (1)"),
    "too large": ("obs_0,obs_1\n1,2\n3,1e300\n", "observations are NaN or infinite in 1 of 2 rows (1)"),
    "no known names": ("a,b\n1,2\n3,4\n", "no field looks like observations; it has a, b. Name them"),
    "two columns of one name": ("obs_0,obs_0\n1,2\n3,4\n", "more than one column is called 'obs_0'; rename them"),
    "an open quote": ('obs_0,obs_1\n1,"2\n3,4\n', "'obs_1' holds text, for observations"),
    "a terminal of 2": ("obs_0,terminal\n1,0\n3,2\n", "terminals must be one 0 or 1 per row"),
    "a terminal in words": ("obs_0,terminal\n1,no\n3,yes\n", "'terminal' holds text, for terminals"),
    "no line at all": ("\n", "Empty CSV file"),
    "empty columns": ("obs_0,obs_1\n,\n,\n", "observations are NaN or infinite in 2 of 2 rows (0, 1)"),
    "another separator": ("obs_0:obs_1\n1:2\n3:4\n", "'obs_0:obs_1' holds text"),
    "a date as a state": (
        "obs_0,reward\n2026-01-01 10:00:00,1\n2026-01-01 10:00:01,2\n",
        "'obs_0' holds datetime64[s]",
    ),
}


@pytest.mark.parametrize("wrong", TEXTS)
def test_mistaken_text(wrong: str, tmp_path: Path, refused: Callable[[Path, str], None]) -> None:
    text, reason = TEXTS[wrong]
    (tmp_path / "log.csv").write_text(text)
    refused(tmp_path / "log.csv", reason)


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        (("--columns.observations", "speed"), "'speed'"),
        (("--columns.observations", "wheel_*"), "'wheel_*'"),
        (("--columns.observations", "x", "--columns.rewards", "*"), "needs one field"),
        (("--columns.observations", "name"), "text"),
        (("--columns.observations", "x", "--columns.actions", "y", "--columns.choices", "3"), "action 3 in row 1"),
        (("--columns.observations", "x", "--columns.actions", "y", "--columns.choices", "1"), "1 discrete actions"),
        (("--columns.observations", "y", "--columns.actions", "x", "y", "--columns.choices", "9"), "in 2 columns"),
        (("--columns.observations", "x", "--columns.choices", "2"), "has no actions"),
    ],
)
def test_mistaken_mappings(
    asked: tuple[str, ...], word: str, tmp_path: Path, command_refused: Callable[..., str]
) -> None:
    (tmp_path / "log.csv").write_text("x,y,name\n1,2,a\n2,3,b\n")
    assert word in command_refused(tmp_path / "log.csv", *asked)


# -- Minari ------------------------------------------------------------------------------------------


def edit(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        file = folder / "data" / "metadata.json"
        record = json.loads(file.read_text())
        change(record)
        file.write_text(json.dumps(record))

    return apply


def within(change: Callable[[h5py.File], Any]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
            change(file)

    return apply


def replaced(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[h5py.File], None]:
    def apply(file: h5py.File) -> None:
        values = change(file[name][()])
        del file[name]
        file[name] = values

    return apply


def cut(share: float) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        file = folder / "data" / "main_data.hdf5"
        content = file.read_bytes()
        file.write_bytes(content[: int(share * len(content))])

    return apply


MINARI: dict[str, tuple[Callable[[Path], Any], str]] = {
    "metadata not JSON": (
        lambda folder: (folder / "data" / "metadata.json").write_text("{"),
        "Expecting property name",
    ),
    "metadata a list": (
        lambda folder: (folder / "data" / "metadata.json").write_text("[]"),
        "metadata.json holds a list",
    ),
    "metadata empty": (lambda folder: (folder / "data" / "metadata.json").write_text(""), "Expecting value"),
    "no observation space": (edit(lambda record: record.pop("observation_space")), "has no observation_space; write"),
    "no action space": (edit(lambda record: record.pop("action_space")), "has no action_space; write"),
    "space not JSON": (edit(lambda record: record.update(observation_space="Box(3)")), "Expecting value"),
    "unknown space": (
        edit(lambda record: record.update(observation_space='{"type": "Sphere"}')),
        "damaged or not a Minari data set",
    ),
    "discrete actions": (
        edit(
            lambda record: (
                record.pop("waypost"),
                record.update(action_space='{"type": "Discrete", "n": 2, "start": 0}'),
            )
        ),
        "2 discrete actions in 2 columns",
    ),
    "unknown format": (edit(lambda record: record.update(data_format="paper")), "('paper')"),
    "more episodes than there are": (
        edit(lambda record: record.update(total_episodes=10**9)),
        "object 'episode_4' doesn't exist",
    ),
    "episodes as text": (
        edit(lambda record: record.update(total_episodes="many")),
        "'str' object cannot be interpreted as an integer",
    ),
    "no episodes": (edit(lambda record: record.update(total_episodes=0)), "has no episodes"),
    "steps beyond belief": (
        edit(lambda record: record.update(total_steps=10**15)),
        "its steps claims 4000000000000000 bytes",
    ),
    "no number of episodes": (edit(lambda record: record.pop("total_episodes")), "('total_episodes')"),
    "no data": (lambda folder: (folder / "data" / "main_data.hdf5").unlink(), "No data found"),
    "data are text": (
        lambda folder: (folder / "data" / "main_data.hdf5").write_text("nothing"),
        "file signature not found",
    ),
    "data empty": (lambda folder: (folder / "data" / "main_data.hdf5").write_bytes(b""), "file signature not found"),
    "cut at 0.2": (cut(0.2), "truncated file"),
    "cut at 0.5": (cut(0.5), "truncated file"),
    "cut at 0.8": (cut(0.8), "truncated file"),
    "cut at 0.99": (cut(0.99), "truncated file"),
    "an episode missing": (within(lambda file: file.pop("episode_1")), "object 'episode_1' doesn't exist"),
    "states missing": (within(lambda file: file.pop("episode_1/observations")), "object 'observations' doesn't exist"),
    "actions missing": (within(lambda file: file.pop("episode_1/actions")), "object 'actions' doesn't exist"),
    "rewards missing": (within(lambda file: file.pop("episode_1/rewards")), "object 'rewards' doesn't exist"),
    "ends missing": (within(lambda file: file.pop("episode_1/terminations")), "object 'terminations' doesn't exist"),
    "a state too few": (
        within(replaced("episode_1/observations", lambda v: v[:-1])),
        "episode 1 has 10 states for 10 steps",
    ),
    "a state too many": (
        within(replaced("episode_1/observations", lambda v: np.append(v, v[:1], axis=0))),
        "episode 1 has 12 states for 10 steps",
    ),
    "an action too few": (within(replaced("episode_1/actions", lambda v: v[:-1])), "cannot reshape array of size 18"),
    "a reward too few": (
        within(replaced("episode_1/rewards", lambda v: v[:-1])),
        "episode 1 has 11 states for 9 steps",
    ),
    "an end too few": (
        within(replaced("episode_1/terminations", lambda v: v[:-1])),
        "terminals have 39 rows, observations 40",
    ),
    "states NaN": (
        within(replaced("episode_1/observations", lambda v: v * np.nan)),
        "observations are NaN or infinite in 10 of 40",
    ),
    "actions NaN": (
        within(replaced("episode_1/actions", lambda v: v * np.nan)),
        "actions are NaN or infinite in 10 of 40",
    ),
    "rewards inf": (
        within(replaced("episode_1/rewards", lambda v: v + np.inf)),
        "rewards are NaN or infinite in 10 of 40",
    ),
    "states of another width": (within(replaced("episode_1/observations", lambda v: v[:, :1])), "along dimension 1"),
    "states are text": (
        within(replaced("episode_1/observations", lambda v: v.astype("S"))),
        "observations hold |S32; numbers are needed",
    ),
    "infos of another length": (
        within(replaced("episode_3/infos/next_valid", lambda v: v[:-1])),
        "next_valid have 39 rows, observations 40",
    ),
}


@pytest.fixture(scope="module")
def minari_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("minari") / "log-v0"
    content = arrays()
    data = waypost.load({name: values for name, values in content.items() if name != "next_observations"})
    waypost.save(data, folder)
    assert len(waypost.load(folder)) == ROWS
    return folder


@pytest.mark.parametrize("wrong", MINARI)
def test_mistaken_minari_sets(
    wrong: str, minari_set: Path, tmp_path: Path, refused: Callable[[Path, str], None]
) -> None:
    folder = tmp_path / "log-v0"
    shutil.copytree(minari_set, folder)
    change, reason = MINARI[wrong]
    change(folder)
    refused(folder, reason)


# -- flips -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".npz", ".hdf5", ".parquet"])
def test_single_wrong_bytes_never_end_in_a_traceback(suffix: str, tmp_path: Path) -> None:
    """Many such files are still well-formed; those that are not say so."""
    path = tmp_path / f"log{suffix}"
    waypost.save(waypost.load(arrays()), path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    outcomes = set()
    for _ in range(60):
        content = bytearray(whole)
        for place in rng.integers(0, len(content), 3):
            content[place] = rng.integers(256)
        path.write_bytes(bytes(content))
        try:
            outcomes.add(str(len(waypost.load(path))))
        except waypost.WaypostError as error:
            outcomes.add(str(error))
    assert outcomes - {str(ROWS)}
    assert all(path.name in outcome for outcome in outcomes - {str(ROWS)})
