"""Rewards by expressions and functions, and windows of rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from samples import walk

import waypost
from waypost import Columns, Pipeline, WaypostError
from waypost.data.derive import with_history
from waypost.data.sources import read

FRAME = pd.DataFrame(
    {
        "trip": [0, 0, 0, 1, 1],
        "temp": [1.0, 2, 4, 7, 9],
        "setpoint": [2.0, 2, 2, 2, 2],
        "push": [0.1, 0.2, 0.3, 0.4, 0.5],
        "gain": [9.0, 9, 9, 9, 9],
        "fell": [0, 0, 1, 0, 0],
    }
)
COLUMNS = Columns(observations=("temp",), actions=("push",), rewards="gain", terminals="fell", episode="trip")


def test_a_reward_over_any_columns_of_the_log() -> None:
    data = waypost.load(FRAME, COLUMNS, pipeline=Pipeline(reward="-abs(temp - setpoint) - 20*fell"))
    assert data.rewards.tolist() == [-1, 0, -22, -5, -7]
    assert data.observation_names == ("temp",)


def test_the_next_row_is_that_of_the_same_episode() -> None:
    data = waypost.load(FRAME, COLUMNS, pipeline=Pipeline(reward="next_temp - temp"))
    assert data.rewards.tolist() == [1, 2, 0, 2, 0]


def test_a_function_sees_the_same_columns() -> None:
    data = waypost.load(FRAME, COLUMNS, reward=lambda row: row["next_temp"] - row["setpoint"])
    assert data.rewards.tolist() == [0, 2, 2, 7, 7]
    with pytest.raises(WaypostError, match="the reward needs a column 'heat'; there are"):
        waypost.load(FRAME, COLUMNS, reward=lambda row: row["heat"])
    with pytest.raises(WaypostError, match="the reward failed"):
        waypost.load(FRAME, COLUMNS, reward=lambda row: 1 / 0)
    with pytest.raises(WaypostError, match=r"the reward has shape \(2,\)"):
        waypost.load(FRAME, COLUMNS, reward=lambda row: row["temp"][:2])


def test_columns_a_reward_needs_are_looked_for_in_the_log(tmp_path: Path) -> None:
    with pytest.raises(WaypostError, match=r"no column 'heat', which the reward .* needs; it has trip, temp"):
        waypost.load(FRAME, COLUMNS, pipeline=Pipeline(reward="-next_heat"))
    arrays = {"obs": np.arange(3.0), "cost": np.array([1.0, 2, 3]), "version": np.array(7), "map": np.zeros((5, 5))}
    data = waypost.load(arrays, reward=lambda row: -row["cost"])
    assert data.rewards.tolist() == [-1, -2, -3]


def test_rewards_of_states_and_actions_of_any_data() -> None:
    data = walk()
    found = waypost.load(data, pipeline=Pipeline(reward="next_observations[0] - observations[0] - actions[1]"))
    expected = data.next_observations[:, 0] - data.observations[:, 0] - data.actions[:, 1]
    np.testing.assert_allclose(found.rewards, expected, rtol=1e-5)
    named = waypost.load("t-maze", pipeline=Pipeline(reward="-abs(next_x) - abs(y)"))
    assert named.rewards.max() <= 0
    assert named.task is None


def test_nothing_is_added_to_a_reward_that_is_not_finite() -> None:
    with pytest.raises(WaypostError, match="rewards are NaN or infinite"):
        waypost.load(FRAME, COLUMNS, pipeline=Pipeline(reward="log(temp - 4)"))


def test_a_window_holds_the_last_rows_of_the_episode() -> None:
    data = waypost.load(FRAME, COLUMNS, pipeline=Pipeline(history=3))
    assert data.observations.tolist() == [[1, 1, 1], [1, 1, 2], [1, 2, 4], [7, 7, 7], [7, 7, 9]]
    assert data.observation_names == ("temp[-2]", "temp[-1]", "temp")
    assert data.next_observations[data.next_valid].tolist() == [[1, 1, 2], [1, 2, 4], [7, 7, 9]]
    assert data.history == 3


def test_a_window_is_kept_in_files_and_made_only_once(tmp_path: Path) -> None:
    data = with_history(walk(), 2)
    assert with_history(data, 2) is data
    with pytest.raises(WaypostError, match="already has a history of 2 rows, got history 3"):
        with_history(data, 3)
    for suffix in (".npz", ".hdf5", ".parquet"):
        waypost.save(data, tmp_path / f"log{suffix}")
        again = waypost.load(tmp_path / f"log{suffix}")
        assert again.history == 2
        assert np.array_equal(again.observations, data.observations)


def test_a_data_set_read_one_way_is_not_treated_twice() -> None:
    how = Pipeline(reward="-abs(temp - setpoint)", history=2)
    data = waypost.load(FRAME, COLUMNS, pipeline=how)
    assert read(data, pipeline=how) is data
