"""Names and files to data, and back."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import waypost
from waypost.data.sources import RECIPES, kept_file, recipe_of, recorded_task
from waypost.errors import WaypostError


@pytest.mark.parametrize("name", [name for name, each in RECIPES.items() if each.transitions is None])
def test_every_built_in_name_loads_and_has_its_task(name: str) -> None:
    data = waypost.load(name)
    assert data.name == name
    assert data.task == name
    assert waypost.task(name).name == name
    assert data.require("rewards").max() == 1


@pytest.mark.parametrize("variant", ["whole", "action-free", "reward-free"])
def test_a_file_brings_everything_back(variant: str, tmp_path: Path) -> None:
    data = waypost.load("t-maze")
    data = {"whole": data, "action-free": data.without_actions(), "reward-free": data.without_rewards()}[variant]
    waypost.save(data, tmp_path / "data.npz")
    back = waypost.load(tmp_path / "data.npz")
    assert back.fingerprint() == data.fingerprint()
    assert back.columns.keys() == data.columns.keys()
    assert back.task == "t-maze"
    if data.actions is not None:
        assert np.array_equal(back.action_low, data.action_low)
        assert np.array_equal(back.action_high, data.action_high)


def test_a_dataset_passes_through() -> None:
    data = waypost.load("t-maze")
    assert waypost.load(data) is data


def test_a_process_generates_built_in_data_once() -> None:
    first, second = (waypost.load("t-maze").observations for _ in range(2))
    assert np.shares_memory(first, second)
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 0.0


def test_unknown_names_and_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WaypostError, match="four-rooms, four-rooms-river, four-rooms-key, t-maze"):
        waypost.load("five-rooms")
    with pytest.raises(WaypostError, match=r"written as \.npz, \.hdf5, \.parquet"):
        waypost.save(waypost.load("t-maze"), tmp_path / "data.csv")


def test_the_t_maze_needs_stitching() -> None:
    data = waypost.load("t-maze")
    first = data.observations[data.episode_starts]
    last = data.next_observations[data.last_row[data.episode_starts]]
    from_east, to_goal = first[:, 0] > 4, last[:, 1] > 4
    assert from_east.sum() == 80
    assert to_goal.sum() == 20
    assert not (from_east & to_goal).any()
    # The best tenth by return never saw the eastern arm.
    best = np.argsort(data.episode_returns)[-10:]
    assert data.observations[np.isin(data.episode_of, best), 0].max() < 1


def test_a_replica_is_recorded_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAYPOST_DATA", str(tmp_path))
    recorded: list[tuple[str, int | None]] = []

    def make(transitions: int | None, progress: object) -> waypost.Dataset:
        recorded.append(("hopper-medium", transitions))
        return waypost.load("t-maze").named("hopper-medium", task="hopper-medium")

    monkeypatch.setitem(RECIPES, "hopper-medium", replace(RECIPES["hopper-medium"], make=make))
    first, again = waypost.load("hopper-medium"), waypost.load("hopper-medium")
    assert recorded == [("hopper-medium", None)]
    assert first.name == again.name == first.task == "hopper-medium"
    assert first.fingerprint() == again.fingerprint()
    assert [file.name for file in tmp_path.iterdir()] == ["hopper-medium.npz"]
    assert recorded_task("hopper-medium") == "hopper-medium"
    few, once_more = waypost.load("hopper-medium-500"), waypost.load("hopper-medium-500")
    assert recorded[1:] == [("hopper-medium", 500)]
    assert few.name == once_more.name == "hopper-medium-500"
    assert few.task == recorded_task("hopper-medium-500") == "hopper-medium"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["hopper-medium-500.npz", "hopper-medium.npz"]


def test_two_who_want_the_same_replica_record_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAYPOST_DATA", str(tmp_path))
    data, recorded = waypost.load("t-maze").named("hopper-medium", task="hopper-medium"), []
    both = threading.Barrier(2)

    def make(transitions: int | None, progress: object) -> waypost.Dataset:
        recorded.append(transitions)
        with suppress(threading.BrokenBarrierError):
            both.wait(0.5)  # long enough for the other to be here, too, were it let in
        return data

    monkeypatch.setitem(RECIPES, "hopper-medium", replace(RECIPES["hopper-medium"], make=make))
    threads = [threading.Thread(target=waypost.load, args=("hopper-medium",)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recorded == [None]
    assert [file.name for file in tmp_path.iterdir()] == ["hopper-medium.npz"]


@pytest.mark.parametrize(
    ("name", "replica"),
    [
        ("hopper-medium", ("hopper-medium", None)),
        ("hopper-medium-500", ("hopper-medium", 500)),
        ("hopper-medium-replay", ("hopper-medium-replay", None)),
        ("hopper-medium-v2", None),
        ("hopper-medium-0", None),
        ("hopper-medium-05", None),
        ("hopper-medium-", None),
        ("hopper-500", None),
        ("500", None),
        ("four-rooms-500", None),
    ],
)
def test_a_number_after_a_replicas_name_is_that_of_its_transitions(name: str, replica: tuple[str, int | None]) -> None:
    found = recipe_of(name)
    assert (found and (found[0].name, found[1])) == replica


def test_other_sizes_and_seeds_of_a_replica_have_files_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAYPOST_DATA", "kept")
    assert kept_file("hopper-medium") == kept_file("hopper-medium", 1_000_000) == Path("kept/hopper-medium.npz")
    assert kept_file("hopper-medium", 500, 3) == Path("kept/hopper-medium-500-seed3.npz")
    monkeypatch.delenv("WAYPOST_DATA")
    assert kept_file("hopper-medium") == Path.home() / ".waypost/data/hopper-medium.npz"
