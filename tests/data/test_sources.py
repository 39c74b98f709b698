"""Names and files to data, and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import waypost
from waypost.data.sources import BUILT_IN
from waypost.errors import WaypostError


@pytest.mark.parametrize("name", BUILT_IN)
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
