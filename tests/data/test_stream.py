"""Windows: every row once per epoch, nothing across episodes, the same on every machine, errors out of the thread."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from samples import walk

import waypost.data.large as large
from waypost.agents.por import POR, Config
from waypost.data.dataset import Dataset
from waypost.data.large import obtain
from waypost.data.mapped import NpzWriter, is_mapped, map_npz
from waypost.data.roles import Columns
from waypost.data.sources import save
from waypost.data.stream import Stream, divide, sample, zeros
from waypost.errors import WaypostError


def numbered(rows: int = 1000, longest: int = 60, seed: int = 0) -> Dataset:
    """Episodes of various lengths on a line; the state is the row's number, so a pair across episodes shows."""
    rng = np.random.default_rng(seed)
    states = np.arange(rows, dtype=np.float32)[:, None]
    ends = np.zeros(rows, bool)
    lasts = np.cumsum(rng.integers(1, longest, rows)) - 1
    ends[lasts[lasts < rows]] = True
    return Dataset.from_arrays(states, states + 1, states / rows, np.ones(rows, np.float32), timeouts=ends)


def prepare(dataset: Dataset) -> dict[str, np.ndarray]:
    return {"row": dataset.observations[:, 0], "end": dataset.ends}


def stream(dataset: Dataset, **options: Any) -> Stream:
    return Stream(
        dataset, prepare, prepare(dataset), 10, **{"block_rows": 50, "window_rows": 200, "updates": 7, **options}
    )


def rows(subject: Stream, index: int) -> np.ndarray:
    columns, count = subject.take(index)
    assert len(columns["row"]) == subject.capacity
    return columns["row"][:count]


def test_an_epoch_has_every_row_once() -> None:
    subject = stream(numbered(1003))
    assert subject.windows == 6
    for epoch in range(3):
        parts = [rows(subject, epoch * 6 + i) for i in range(6)]
        assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(1003))
        assert max(map(len, parts)) < 2 * min(map(len, parts))
    assert len({tuple(subject.blocks(i)) for i in range(18)}) > 15


def test_a_window_depends_on_its_number_and_the_seed_alone() -> None:
    one, other, seeded = stream(numbered()), stream(numbered()), stream(numbered(), seed=1)
    for index in (4, 0, 9):
        assert np.array_equal(rows(one, index), rows(other, index))
    assert [one.blocks(i) for i in range(5)] != [seeded.blocks(i) for i in range(5)]


def test_the_step_says_which_window() -> None:
    subject = stream(numbered())
    assert [subject.index(step) for step in (0, 6, 7, 13, 14)] == [0, 0, 1, 1, 2]
    assert [subject.left(step) for step in (0, 6, 7)] == [7, 1, 7]
    whole = stream(numbered(), window_rows=1000)
    assert whole.windows == 1
    assert whole.index(10**6) == 0
    assert whole.left(10**6) > 10**9


def test_a_window_serves_about_one_pass_in_whole_thousands() -> None:
    for total, batch, updates in ((300_000, 10, 10_000), (300_000, 256, 1000), (300_000, 40, 2000)):
        data = numbered(total)
        subject = Stream(data, prepare, prepare(data), batch, window_rows=100_000)
        assert subject.windows == 3
        assert subject.updates == updates


def test_wide_rows_make_smaller_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    data = walk(1000)
    like = {"wide": np.broadcast_to(np.float32(0), (1000, 1 << 20))}
    assert Stream(data, prepare, like, 10).windows == 8
    monkeypatch.setattr("waypost.data.stream.WINDOW_BYTES", 1 << 19)
    wide = np.zeros((200, 1 << 9), np.float32)
    assert len(sample(Dataset.from_arrays(wide, wide, copy=False))) < 150


# -- blocks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "longest"), [(50, 5), (50, 60), (7, 60), (1, 3), (2, 30), (3, 3), (5000, 60)])
def test_blocks_are_whole_episodes_of_about_one_size(size: int, longest: int) -> None:
    ends = numbered(1009, longest).ends
    cuts = divide(ends, size)
    blocks = -(-1009 // size)
    assert cuts[0] == 0
    assert cuts[-1] == 1009
    assert len(cuts) == blocks + 1
    assert (np.diff(cuts) > 0).all()
    assert np.diff(cuts).max() <= 1.5 * 1009 / blocks + 1
    if longest < size / 2:
        assert ends[cuts[1:] - 1].all()


def test_a_long_episode_is_cut_and_the_cut_is_an_end() -> None:
    data = numbered()
    data = Dataset.from_arrays(data.observations, data.next_observations)
    assert data.ends.sum() == 1
    subject = stream(data)
    for i in range(subject.windows):
        columns, count = subject.take(i)
        row, end = columns["row"][:count], columns["end"][:count]
        assert end[np.append(np.diff(row) != 1, True)].all()
        assert end.sum() == len(subject.blocks(i))


@pytest.mark.parametrize("horizon", [1, 4])
def test_rows_are_prepared_as_in_the_whole(horizon: int) -> None:
    """Also where the guide aims: no pair, however far apart, has its ends in two episodes."""
    data, config = walk(600), Config(horizon=horizon)
    whole = POR.prepare(config, data)[0]
    subject = Stream(
        data, lambda block: POR.prepare(config, block)[0], whole, 16, block_rows=48, window_rows=100, updates=5
    )
    assert subject.windows == 6
    for i in range(6):
        columns, count = subject.take(i)
        cuts = subject.cuts
        taken = np.concatenate([np.arange(cuts[block], cuts[block + 1]) for block in subject.blocks(i)])
        assert columns.keys() == whole.keys()
        for name, column in columns.items():
            assert np.array_equal(column[:count], whole[name][taken]), name


def test_a_sample_comes_from_everywhere_in_whole_episodes() -> None:
    data = walk(12_000)
    assert sample(data) is data
    few = sample(data, 3000, 120)
    assert len(few) == pytest.approx(3000, rel=0.05)
    assert np.array_equal(few.episode_lengths, np.full(len(few) // 12, 12))
    assert np.array_equal(few.action_low, data.action_low)
    places = np.searchsorted(np.sort(data.observations[:, 0]), few.observations[:, 0])
    assert np.abs(np.histogram(places, 10)[0] - 300).max() < 80
    whole = {tuple(row): i for i, row in enumerate(data.observations.tolist())}
    taken = np.array([whole[tuple(row)] for row in few.observations.tolist()])
    assert (np.histogram(taken, 10, (0, 12_000))[0] > 200).all()


# -- the thread --------------------------------------------------------------------------------------


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("window")]


def test_a_window_from_the_thread_is_the_same() -> None:
    ahead, plain = stream(numbered()), stream(numbered())
    ahead.begin(3)
    assert np.array_equal(rows(ahead, 3), rows(plain, 3))
    ahead.begin(4)
    assert np.array_equal(rows(ahead, 1), rows(plain, 1)), "another one than was begun"
    assert len(threads()) == 1
    ahead.close()
    assert threads() == []


def test_what_goes_wrong_in_the_thread_is_raised_outside() -> None:
    subject = stream(numbered())

    def fail(block: Dataset) -> Any:
        raise WaypostError("the disk is gone")

    subject.prepare = fail
    subject.begin(1)
    with pytest.raises(WaypostError, match="the disk is gone"):
        subject.take(1)
    subject.close()
    assert threads() == []


def test_closing_ends_the_thread_soon() -> None:
    subject, seen = stream(numbered()), []
    begun, go_on = threading.Event(), threading.Event()

    def slow(block: Dataset) -> Any:
        begun.set()
        go_on.wait(10)
        seen.append(block)
        return prepare(block)

    subject.prepare = slow
    subject.begin(0)
    begun.wait(10)
    assert len(threads()) == 1
    threading.Timer(0.05, go_on.set).start()
    subject.close()
    assert threads() == []
    assert len(seen) == 1, "it gives up after the block at hand"
    subject.close()


def test_columns_that_cannot_be_streamed_are_refused() -> None:
    data = numbered()
    subject = stream(data)
    subject.prepare = lambda block: {name: np.repeat(values, 2) for name, values in prepare(block).items()}
    with pytest.raises(WaypostError, match="cannot be streamed; use --stream never"):
        subject.take(0)
    subject.prepare = lambda block: {name: values[:0] for name, values in prepare(block).items()}
    with pytest.raises(WaypostError, match="nothing to learn from"):
        subject.take(0)


def test_memory_for_a_window_can_be_used_as_it_is() -> None:
    values = zeros((7, 3), np.dtype(np.float32))
    assert values.shape == (7, 3)
    assert values.ctypes.data % 64 == 0
    assert not values.any()
    assert zeros((0, 3), np.dtype(np.bool_)).shape == (0, 3)
    assert jax.device_put(values, jax.local_devices()[0]).unsafe_buffer_pointer() == values.ctypes.data


# -- whether to stream -------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with NpzWriter(tmp_path / "data.npz") as writer:
        writer.append(walk(2000))
    return tmp_path / "data.npz"


def room(monkeypatch: pytest.MonkeyPatch, amount: int) -> None:
    monkeypatch.setattr(large, "available_memory", lambda: amount)


def nothing() -> None: ...


def test_what_fits_is_loaded_and_what_does_not_is_mapped(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = file.stat().st_size
    for amount, mapped in ((10 * size, False), (3 * size, True), (size // 2, True)):
        room(monkeypatch, amount)
        data, streamed = obtain(file, Columns(), "auto", nothing)
        assert streamed == mapped == is_mapped(data.observations)
        assert data.fingerprint() == walk(2000).fingerprint()
    for source in (file, map_npz(file)):
        data, streamed = obtain(source, Columns(), "always", nothing)
        assert streamed
        assert is_mapped(data.observations)
        assert obtain(source, Columns(), "auto", nothing)[1]


def test_mapped_data_have_the_discrete_actions_that_were_asked_for(tmp_path: Path) -> None:
    data = Dataset.from_arrays(np.arange(9.0), actions=np.arange(9) % 3)
    save(data, tmp_path / "data.npz")
    for choices, count in ((None, None), (3, 3), (0, None)):
        found, streamed = obtain(tmp_path / "data.npz", Columns(choices=choices), "always", nothing)
        assert streamed
        assert is_mapped(found.observations)
        assert found.action_count == count
    with pytest.raises(WaypostError, match="action 2 in row 2; 2 discrete actions"):
        obtain(tmp_path / "data.npz", Columns(choices=2), "always", nothing)


def test_what_neither_fits_nor_can_be_mapped_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(file.with_name("packed.npz"), observations=np.zeros((1000, 20), np.float32))
    room(monkeypatch, 1000)
    with pytest.raises(
        WaypostError, match=r"needs 0 MB of memory, 0 MB are free; make it an .npz that can be streamed"
    ):
        obtain(file.with_name("packed.npz"), Columns(), "auto", nothing)
    with pytest.raises(WaypostError, match=r"use --stream auto"):
        obtain(file, Columns(), "never", nothing)


def test_what_is_in_memory_already_is_streamed_to_a_small_device(monkeypatch: pytest.MonkeyPatch) -> None:
    room(monkeypatch, 0)
    data = walk()
    for device, streamed in ((None, False), (10**9, False), (1000, True)):
        assert obtain(data, Columns(), "auto", lambda device=device: device) == (data, streamed)
    assert obtain(data, Columns(), "always", nothing) == (data, True)
    assert obtain(data, Columns(), "never", lambda: 1000) == (data, False)
