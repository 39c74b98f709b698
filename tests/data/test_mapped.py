"""Data that stay in their file: the same as loaded, refused where they cannot be, written block by block."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from samples import walk

from waypost.data.dataset import Dataset
from waypost.data.formats.arrays import MARK
from waypost.data.joining import concatenate
from waypost.data.mapped import NpzWriter, is_mapped, map_npz, mappable
from waypost.data.sources import load, save
from waypost.errors import WaypostError


def written(dataset: Dataset, path: Path) -> None:
    with NpzWriter(path) as writer:
        writer.append(dataset)


def jumpy() -> Dataset:
    """Episodes whose ends nobody marked."""
    data = walk()
    return Dataset.from_arrays(data.observations, data.next_observations, data.actions, data.rewards)


def choosing(most: int, count: int | None = None, declared: bool = True, seed: int = 0) -> Dataset:
    """Discrete actions 0 to `most`, of `count`; without that, of as many as occur."""
    actions = np.random.default_rng(seed).integers(0, most + 1, 60)
    data = walk(seed=seed)
    made = Dataset.from_arrays(
        data.observations, data.next_observations, actions, data.rewards, data.terminals, data.timeouts
    )
    return made.with_action_count(count or most + 1, declared)


WRITERS: dict[str, Callable[[Dataset, Path], None]] = {"save": save, "NpzWriter": written}
KINDS: dict[str, Callable[[], Dataset]] = {
    "plain": walk,
    "unmarked ends": jumpy,
    "no actions": lambda: walk().without_actions(),
    "no rewards": lambda: walk().without_rewards(),
    "names": lambda: Dataset.from_arrays(
        walk().observations, walk().next_observations, task="t-maze", observation_names=("x", "y")
    ),
    "discrete actions": lambda: choosing(3, 5),
    "unknown next states": lambda: Dataset.from_arrays(walk().observations, timeouts=np.arange(60) % 9 == 0),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_mapped_is_what_loaded_is(
    write: Callable[[Dataset, Path], None], make: Callable[[], Dataset], tmp_path: Path
) -> None:
    file = tmp_path / "data.npz"
    write(make(), file)
    mapped, loaded = map_npz(file), load(file)
    assert mappable(file)
    assert mapped.fingerprint() == loaded.fingerprint() == make().fingerprint()
    for name in ("name", "task", "observation_names", "notes", "action_count", "action_kind_declared"):
        assert getattr(mapped, name) == getattr(loaded, name)
    assert mapped.action_count == make().action_count
    for bound in ("action_low", "action_high"):
        assert np.array_equal(getattr(mapped, bound), getattr(loaded, bound))
    assert map_npz(file, "other").name == "other"


def test_states_actions_and_rewards_are_not_copied(tmp_path: Path) -> None:
    written(walk(), tmp_path / "data.npz")
    data = map_npz(tmp_path / "data.npz")
    for column in ("observations", "next_observations", "actions", "rewards"):
        values = getattr(data, column)
        assert is_mapped(values)
        assert not values.flags.writeable
        assert values.ctypes.data % 64 == 0
    assert not is_mapped(walk().observations)


# -- files that cannot be mapped ---------------------------------------------------------------------


def arrays() -> dict[str, np.ndarray]:
    data = walk()
    names = ("observations", "next_observations", "actions", "rewards", "terminals", "timeouts")
    return {MARK: np.asarray("{}"), **{name: getattr(data, name) for name in names}}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({MARK: None}, "it was not written by Waypost"),
        ({"next_observations": None}, "it has no next_observations"),
        ({"observations": walk().observations.astype(np.float64)}, "its observations hold float64"),
        ({"rewards": walk().rewards.astype(">f4")}, "its rewards hold >f4"),
        ({"terminals": walk().terminals.astype(np.float32)}, "its terminals hold float32"),
    ],
)
def test_what_cannot_be_used_as_it_lies_is_to_be_converted(
    change: dict[str, np.ndarray | None], reason: str, tmp_path: Path
) -> None:
    file = tmp_path / "data.npz"
    np.savez(file, **{name: values for name, values in (arrays() | change).items() if values is not None})
    assert not mappable(file)
    with pytest.raises(WaypostError, match=rf"cannot be mapped: {reason}; .*`waypost convert .*data.npz OUT.npz`"):
        map_npz(file)


def test_compressed_arrays_are_to_be_converted(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "data.npz", **arrays())
    assert not mappable(tmp_path / "data.npz")
    with pytest.raises(WaypostError, match=r"its arrays are compressed; .*waypost convert"):
        map_npz(tmp_path / "data.npz")


def test_what_is_wrong_with_rows_is_found(tmp_path: Path) -> None:
    for column, values, message in (
        ("observations", np.full((60, 2), np.nan, np.float32), "observations are NaN or infinite in 60 of 60 rows"),
        ("rewards", np.zeros(59, np.float32), "rewards have 59 rows, observations 60"),
        ("next_observations", np.zeros((60, 3), np.float32), "next_observations have shape"),
        ("observations", np.zeros((0, 2), np.float32), "no transitions"),
    ):
        np.savez(tmp_path / "data.npz", **(arrays() | {column: values}))
        with pytest.raises(WaypostError, match=message):
            map_npz(tmp_path / "data.npz")


def test_damaged_files_give_one_line(tmp_path: Path) -> None:
    whole = tmp_path / "whole.npz"
    written(walk(), whole)
    content = whole.read_bytes()
    file = tmp_path / "data.npz"
    for length in (0, 1, 30, 200, len(content) // 2, len(content) - 30, len(content) - 1):
        file.write_bytes(content[:length])
        with pytest.raises(WaypostError, match=r"data.npz: damaged or not an .npz file"):
            map_npz(file)
        assert not mappable(file)
    rng = np.random.default_rng(0)
    for _ in range(300):
        spoiled = bytearray(content)
        spoiled[rng.integers(len(content))] ^= 1 << rng.integers(8)
        file.write_bytes(spoiled)
        with suppress(WaypostError):
            # What stands between the arrays may change unnoticed, they themselves may not.
            assert map_npz(file).fingerprint() == walk().fingerprint()


def test_what_is_no_file_gives_one_line(tmp_path: Path) -> None:
    with pytest.raises(WaypostError, match="there is no such file"):
        map_npz(tmp_path / "none.npz")
    with pytest.raises(WaypostError, match="is a folder; a regular file is needed"):
        map_npz(tmp_path)


@pytest.mark.parametrize("shape", [(10**12, 2), (-60, -2), (60, 10**9), (2**40, 2**40)])
def test_claims_are_compared_with_what_is_there(shape: tuple[int, int], tmp_path: Path) -> None:
    """Before any memory is asked for."""
    file = tmp_path / "data.npz"
    np.savez(file, **{name: values for name, values in arrays().items() if name != "observations"})
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("observations.npy", header.getvalue() + bytes(480))
    with pytest.raises(WaypostError, match=r"observations.npy claims .* bytes and holds 480"):
        map_npz(file)


# -- writing -----------------------------------------------------------------------------------------


def test_blocks_become_one_file(tmp_path: Path) -> None:
    blocks = [walk(seed=seed, rows=rows) for seed, rows in ((0, 60), (1, 1), (2, 31))]
    with NpzWriter(tmp_path / "new" / "data.npz") as writer:
        for block in blocks:
            writer.append(block)
    assert writer.rows == 92
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["data.npz"]
    whole = concatenate(blocks)
    for data in (load(tmp_path / "new" / "data.npz"), map_npz(tmp_path / "new" / "data.npz")):
        assert data.fingerprint() == whole.fingerprint()
        assert np.array_equal(data.action_low, whole.action_low)


@pytest.mark.parametrize(
    "blocks",
    [
        [choosing(2, 6), choosing(3, 6, seed=1)],
        [choosing(2, declared=False), choosing(4, declared=False, seed=1), choosing(3, declared=False, seed=2)],
        [choosing(2, declared=False), choosing(3, 6, seed=1)],
        [choosing(2, declared=False), choosing(4).with_action_count(0), choosing(3, declared=False, seed=2)],
    ],
    ids=["declared", "inferred", "both", "continuous after all"],
)
def test_blocks_of_discrete_actions_become_one_file(blocks: list[Dataset], tmp_path: Path) -> None:
    with NpzWriter(tmp_path / "data.npz") as writer:
        for block in blocks:
            writer.append(block)
    whole, data = concatenate(blocks), map_npz(tmp_path / "data.npz")
    assert data.action_count == whole.action_count
    assert data.fingerprint() == whole.fingerprint()
    assert (data.action_low, data.action_high) == (whole.action_low, whole.action_high)


def test_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "data.npz"
    written(walk(), file)
    before = file.read_bytes()
    with pytest.raises(KeyboardInterrupt), NpzWriter(file) as writer:
        writer.append(walk(seed=1))
        raise KeyboardInterrupt
    for other in (walk(size=3), walk().without_actions()):
        with pytest.raises(WaypostError, match="they must agree"), NpzWriter(file) as writer:
            writer.append(walk())
            writer.append(other)
    with pytest.raises(WaypostError, match="3 discrete and 4 discrete actions"), NpzWriter(file) as writer:
        writer.append(choosing(2))
        writer.append(choosing(3))
    with pytest.raises(WaypostError, match="no transitions"), NpzWriter(file):
        pass
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["data.npz"]
    with pytest.raises(WaypostError, match="choose such a name"):
        NpzWriter(tmp_path / "data.hdf5")
