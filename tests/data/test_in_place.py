"""Data in several files, streamed: the same rows, windows and weights as from the one file that joins them."""

from __future__ import annotations

import os
import shutil
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pyarrow as pa
import pytest
from samples import walk

import waypost
import waypost.data.in_file as in_file
import waypost.data.in_place as place
import waypost.data.large as large
import waypost.data.validation as validation
import waypost.training.trainer as trainer
from waypost.agents.por import POR, Config
from waypost.data.dataset import Dataset
from waypost.data.formats import tables
from waypost.data.in_file import Stored
from waypost.data.in_place import in_place, refusal
from waypost.data.large import obtain
from waypost.data.mapped import is_mapped, map_npz
from waypost.data.pipeline import Pipeline
from waypost.data.roles import Columns
from waypost.data.sources import load, parts, recorded_task, save
from waypost.data.stream import Stream, sample
from waypost.errors import WaypostError

ROWS, EPISODE = 1200, 100
"""Long episodes: 16 parts cannot but cut them."""


def nothing() -> None: ...


def streamed(source: Any) -> Dataset:
    data, streams = obtain(source, Columns(), "always", nothing)
    assert streams
    assert is_mapped(data.observations)
    return data


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same data as one file, as parts of whole and of cut episodes, and as Parquet with small row groups."""
    folder = tmp_path_factory.mktemp("parts")
    save(walk(ROWS, episode=EPISODE).named("walk", "hopper-medium"), folder / "one.npz")
    before, tables.ROWS_PER_GROUP = tables.ROWS_PER_GROUP, 70
    try:
        waypost.convert(folder / "one.npz", folder / "whole", parts=4)
        waypost.convert(folder / "one.npz", folder / "cut", parts=16)
        waypost.convert(folder / "one.npz", folder / "parquet", part_rows=240, part_format="parquet")
        waypost.convert(folder / "one.npz", folder / "one.parquet")
    finally:
        tables.ROWS_PER_GROUP = before
    return folder


SOURCES = ("whole", "cut", "parquet", "one.parquet")


@pytest.mark.parametrize("source", SOURCES)
def test_the_rows_are_those_of_the_one_file(source: str, home: Path) -> None:
    one = map_npz(home / "one.npz")
    for data in (streamed(home / source), load(home / source)):
        assert data.fingerprint() == one.fingerprint()
        assert np.array_equal(data.ends, one.ends)
        assert np.array_equal(data.action_low, one.action_low)
        assert (data.task, data.observation_names, data.history) == (one.task, one.observation_names, one.history)
        assert not data.notes
    assert recorded_task(home / source) == "hopper-medium"


def test_some_parts_do_cut_episodes(home: Path) -> None:
    """Or the tests here would show less than they seem to."""
    alone = [load(name) for name in parts(home / "cut")]
    assert len(alone) == 16
    assert sum(part.goes_on for part in alone) > 5
    assert not any(load(name).goes_on for name in parts(home / "whole"))
    assert all(part.ends[-1] for part in alone), "each is a data set of its own"


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("horizon", [1, 7])
def test_windows_are_those_of_the_one_file(source: str, horizon: int, home: Path) -> None:
    """Also what looks ahead: it goes on over the edge of a part, and not over the end of an episode."""
    config, data, specs = Config(horizon=horizon), streamed(home / source), []

    def windows(dataset: Dataset) -> Iterator[Any]:
        like, spec = POR.prepare(config, sample(dataset, 600, 50))
        specs.append(repr(spec))
        subject = Stream(
            dataset, lambda block: POR.prepare(config, block)[0], like, 16, block_rows=150, window_rows=400, updates=5
        )
        assert subject.windows == 3
        return map(subject.take, range(6))

    for window, expected in zip(windows(data), windows(map_npz(home / "one.npz")), strict=True):
        assert window.rows == expected.rows
        for name, column in window.columns.items():
            assert np.array_equal(column, expected.columns[name]), name
    assert specs[0] == specs[1]


@pytest.mark.slow
def test_the_weights_are_those_of_the_one_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def small(*arguments: Any) -> Stream:
        return Stream(*arguments, block_rows=100, window_rows=400, updates=5)

    monkeypatch.setattr(trainer, "Stream", small)

    def weights(source: str) -> list[np.ndarray]:
        settings: dict[str, Any] = {"steps": 10, "log_every": 5, "hidden": (8,), "batch_size": 16, "preset": "none"}
        run = waypost.train("bc", home / source, stream="always", env="none", **settings)
        return [np.asarray(each) for each in jax.tree.leaves(run.policy.agent)]

    expected = weights("one.npz")
    for source in ("cut", "parquet"):
        for found, wanted in zip(weights(source), expected, strict=True):
            assert np.array_equal(found, wanted)


def test_history_goes_over_the_edge_of_a_part(home: Path) -> None:
    pipeline = Pipeline(history=4)
    one, data = (load(home / source, pipeline=pipeline) for source in ("one.npz", "cut"))
    assert data.fingerprint() == one.fingerprint()
    assert data.reading == one.reading
    assert one.history == 4


def test_memory_stays_bounded(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As much as some parts take, of data many times that size."""
    monkeypatch.setattr(in_file, "BLOCK_BYTES", 1 << 16)
    monkeypatch.setattr(validation, "BLOCK", 400)
    wide = np.zeros((800, 200), np.float32)
    monkeypatch.setattr(tables, "ROWS_PER_GROUP", 100)
    for kind in ("npz", "parquet"):
        (tmp_path / kind).mkdir()
        for number in range(8):
            part = Dataset.from_arrays(wide + number, wide + number, wide[:, :2], np.arange(800.0))
            save(part, tmp_path / kind / f"{number}.{kind}")
    size = 8 * 2 * wide.nbytes
    for kind in ("npz", "parquet"):
        usual = pa.default_memory_pool()
        pool = pa.proxy_memory_pool(usual)
        pa.set_memory_pool(pool)
        tracemalloc.start()
        try:
            data = in_place(parts(tmp_path / kind), kind)
            data.fingerprint()
            subject = Stream(
                data,
                lambda block: {"states": block.observations},
                {"states": wide},
                16,
                block_rows=80,
                window_rows=320,
            )
            assert subject.windows == 20
            for index in (0, 7, 30):
                subject.take(index)
            used = tracemalloc.get_traced_memory()[1] + pool.max_memory()
        finally:
            tracemalloc.stop()
            pa.set_memory_pool(usual)
        assert used < size / 3, kind


# -- whether to stream -------------------------------------------------------------------------------


@pytest.mark.parametrize("source", SOURCES)
def test_what_fits_is_loaded_and_what_does_not_stays(source: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = (home / "one.npz").stat().st_size
    for amount, stays in ((10 * size, False), (2 * size, True), (size // 2, True)):
        monkeypatch.setattr(large, "available_memory", lambda amount=amount: amount)
        data, streams = obtain(home / source, Columns(), "auto", nothing)
        assert streams == stays == is_mapped(data.observations)


def test_several_files_of_any_name_are_streamed_too(home: Path, tmp_path: Path) -> None:
    for number, data in enumerate((walk(30), walk(40, seed=1), walk(50, seed=2))):
        save(data, tmp_path / f"log-{number}.npz")
    whole = waypost.concatenate([walk(30), walk(40, seed=1), walk(50, seed=2)])
    for source in (tmp_path, f"{tmp_path}/*.npz", "+".join(map(str, sorted(tmp_path.iterdir())))):
        assert streamed(source).fingerprint() == whole.fingerprint()
    waypost.convert(tmp_path, tmp_path / "all.npz")
    assert load(tmp_path / "all.npz").fingerprint() == whole.fingerprint()


def test_an_episode_cut_by_others_ends_there_and_is_noted(tmp_path: Path) -> None:
    data = walk(48, episode=24)
    for number, rows in enumerate((slice(0, 12), slice(12, 48))):
        part = {name: values[rows] for name, values in data.columns.items() if name not in ("ends", "next_valid")}
        save(Dataset.from_arrays(**part, timeouts=data.timeouts[rows]), tmp_path / f"{number}.npz")
    found = streamed(tmp_path)
    assert found.ends[11]
    assert found.notes == ("1 of 2 parts begin where the one before ended: nothing is learned across these places",)


def test_a_reason_is_named_where_parts_must_be_held_and_do_not_fit(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(home / "whole", tmp_path / "whole")
    np.savez_compressed(tmp_path / "whole" / "part-00002-of-00004.npz", observations=np.zeros((1000, 20), np.float32))
    monkeypatch.setattr(large, "available_memory", lambda: 1000)
    with pytest.raises(WaypostError, match=r"MB are free; .*00002-of-00004.npz: cannot be mapped: .* compressed"):
        obtain(tmp_path / "whole", Columns(), "auto", nothing)
    with pytest.raises(WaypostError, match=r"use --stream auto"):
        obtain(home / "whole", Columns(), "never", nothing)
    assert refusal("four-rooms") == "four-rooms: is no file"
    assert "cannot be streamed; write it again" in str(refusal(str(Path(__file__))))


# -- parts that are not as they should be --------------------------------------------------------------


@pytest.mark.parametrize("kind", ["cut", "parquet"])
def test_a_damaged_part_is_named(kind: str, home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / kind, tmp_path / kind)
    victim = sorted((tmp_path / kind).iterdir())[3]
    os.truncate(victim, victim.stat().st_size // 2)
    with pytest.raises(WaypostError, match=rf"{victim.name}: damaged or not an? "):
        obtain(tmp_path / kind, Columns(), "always", nothing)
    victim.unlink()
    with pytest.raises(WaypostError, match=rf"{victim.name}: is missing"):
        obtain(tmp_path / kind, Columns(), "always", nothing)


@pytest.mark.parametrize("kind", ["cut", "parquet"])
def test_a_part_that_changes_is_noticed_with_the_next_window(kind: str, home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / kind, tmp_path / kind)
    data, victim = streamed(tmp_path / kind), sorted((tmp_path / kind).iterdir())[3]
    subject = Stream(
        data, lambda block: {"s": block.observations}, {"s": np.zeros((1, 2), np.float32)}, 10, window_rows=300
    )
    subject.take(0)
    os.truncate(victim, victim.stat().st_size // 2)
    for index in range(1, 5):
        with pytest.raises(WaypostError, match=rf"{victim.name}: has changed while it was read"):
            subject.take(index)


def test_parts_from_other_data_are_refused(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "cut", tmp_path / "cut")
    victim = tmp_path / "cut" / "part-00005-of-00016.npz"
    save(walk(80, seed=3).named("other", "hopper-medium"), victim, overwrite=True)
    for choice in ("always", "never"):
        with pytest.raises(WaypostError, match=r"00005-of-00016.npz: does not begin where .* ends"):
            obtain(tmp_path / "cut", Columns(), choice, nothing)
    save(walk(80).without_rewards(), victim, overwrite=True)
    with pytest.raises(WaypostError, match=r"00005-of-00016.npz: has observations .* what is streamed must agree"):
        obtain(tmp_path / "cut", Columns(), "always", nothing)
    with pytest.raises(WaypostError, match=r"00005-of-00016.npz: columns .* the parts of a set must agree"):
        load(tmp_path / "cut")


def test_more_parts_than_can_be_open_are_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "open_files", lambda: 30)
    with pytest.raises(WaypostError, match=r"cut: 16 parts, about 15 can be open at once .* --parts 7`"):
        streamed(home / "cut")


# -- columns in several files --------------------------------------------------------------------------


@pytest.mark.parametrize("source", SOURCES)
def test_a_column_in_files_is_used_as_an_array(source: str, home: Path) -> None:
    column, array = streamed(home / source).observations, map_npz(home / "one.npz").observations
    assert isinstance(column, Stored)
    assert (len(column), column.shape, column.dtype, column.nbytes) == (1200, (1200, 2), np.float32, array.nbytes)
    rows = np.random.default_rng(0).integers(-1200, 1200, 50)
    for which in (
        5,
        -1,
        slice(3, 900),
        slice(7, 7),
        slice(None, None, -7),
        rows,
        rows.tolist(),
        rows[:0],
        np.arange(1200) % 7 == 3,
        (slice(10, 700), 1),
        (slice(None), None),
        (rows, 1),
        (4, 1),
        ...,
    ):
        assert np.array_equal(np.asarray(column[which]), array[which]), which
    assert np.array_equal(column[100:][:-50][5:], array[100:][:-50][5:])
    assert np.array_equal(column + 1, array + 1)
    assert np.array_equal(2 * column[:9], 2 * array[:9])
    assert np.array_equal(column.astype(np.float64).std(axis=0), array.astype(np.float64).std(axis=0))
    for wrong in (1200, np.array([1200]), np.zeros(3, bool)):
        with pytest.raises(IndexError):
            column[wrong]
    with pytest.raises(AttributeError, match="a column in files has no colour"):
        _ = column.colour  # type: ignore[attr-defined]
