"""Time stamps: order, copies, gaps and rates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import waypost
from waypost import Columns, Dataset, Pipeline, WaypostError

COLUMNS = Columns(observations=("x",), actions=("push",), rewards="gain", time="t", episode="trip")


def read(t: Any, x: Any = None, trip: Any = 0, gain: Any = 1.0, **pipeline: Any) -> Dataset:
    rows = len(t)
    x = np.arange(rows, dtype=float) if x is None else np.asarray(x, float)
    table = {"t": np.asarray(t), "x": x, "push": np.zeros(rows) + 0.5}
    table |= {"trip": np.zeros(rows) + trip, "gain": np.zeros(rows) + gain}
    return waypost.load(table, COLUMNS, pipeline=Pipeline(**pipeline))


def test_a_gap_cuts_an_episode() -> None:
    data = read([0, 1, 2, 50, 51, 52])
    assert data.episode_lengths.tolist() == [3, 3]
    assert data.next_valid.tolist() == [True, True, False, True, True, False]
    assert "cut at 1 gaps" in data.notes[0]
    assert read([0, 1, 2, 50, 51, 52], max_gap=0).episode_lengths.tolist() == [6]
    assert read([0, 1, 2, 50, 51, 52], max_gap=60).episode_lengths.tolist() == [6]
    # Between episodes time may pass.
    assert not read([0, 1, 2, 50, 51, 52], trip=[0, 0, 0, 1, 1, 1]).notes


def test_dates_are_seconds() -> None:
    stamps = np.datetime64("2026-01-01T00:00:00") + np.array([0, 10, 20, 500]).astype("timedelta64[s]")
    assert read(stamps).episode_lengths.tolist() == [3, 1]
    assert "(10 s)" in read(stamps).notes[0]


@pytest.mark.parametrize(
    ("how", "left"),
    [("identical", [0, 1, 1.5, 2]), ("keep", [0, 1, 1, 1.5, 2]), ("first", [0, 1, 2]), ("last", [0, 1.5, 2])],
)
def test_rows_of_one_stamp(how: str, left: list[float]) -> None:
    data = read([0, 1, 1, 1, 2], [0, 1, 1, 1.5, 2], duplicates=how)
    assert data.observations[:, 0].tolist() == left
    assert len(data.episode_starts) == 1


@pytest.mark.parametrize("how", ["first", "last", "mean"])
def test_an_end_is_not_lost_among_rows_of_one_stamp(how: str) -> None:
    table = {"t": np.array([0.0, 1, 1, 2]), "x": np.arange(4.0), "fell": np.array([0, 0, 1, 0])}
    columns = Columns(observations=("x",), terminals="fell", time="t")
    data = waypost.load(table, columns, pipeline=Pipeline(duplicates=how))
    assert data.terminals.tolist() == [False, True, False]


def test_rows_of_one_stamp_as_their_mean() -> None:
    data = read([0, 1, 1, 2], [0, 1, 2, 5], duplicates="mean")
    assert data.observations[:, 0].tolist() == [0, 1.5, 5]
    assert "2 rows" not in data.notes[0]
    assert "1 rows repeat" in data.notes[0]


def test_another_rate_takes_what_was_last_known_and_means_of_rewards() -> None:
    data = read([0, 1, 2, 3, 4, 5], gain=[1, 3, 5, 7, 9, 11], resample=2)
    assert data.observations[:, 0].tolist() == [0, 2, 4]
    assert data.rewards.tolist() == [2, 6, 10]
    faster = read([0, 2, 4], gain=[1, 2, 3], resample=1)
    assert faster.observations[:, 0].tolist() == [0, 0, 1, 1, 2]
    assert faster.rewards.tolist() == [1, 1, 2, 2, 3]


def test_each_episode_is_resampled_from_its_own_start() -> None:
    data = read([0.0, 1.1, 2.2, 0.5, 1.4, 2.6], trip=[0, 0, 0, 1, 1, 1], resample=1)
    assert data.episode_lengths.tolist() == [3, 3]
    assert data.observations[:, 0].tolist() == [0, 0, 1, 3, 4, 4]


def test_a_resampled_episode_still_ends_as_it_did() -> None:
    table = {"t": np.arange(6.0), "x": np.arange(6.0), "fell": np.array([0, 0, 0, 0, 0, 1])}
    columns = Columns(observations=("x",), terminals="fell", time="t")
    data = waypost.load(table, columns, pipeline=Pipeline(resample=2))
    assert data.terminals.tolist() == [False, False, True]


def test_rates_need_stamps_and_reason() -> None:
    with pytest.raises(WaypostError, match="--resample needs time stamps"):
        waypost.load({"obs": np.arange(3.0)}, pipeline=Pipeline(resample=1))
    with pytest.raises(WaypostError, match="choose a longer step"):
        read([0, 1e6, 2e6], max_gap=0, resample=0.1)


def test_dates_that_nobody_named_are_noted(tmp_path: Path) -> None:
    rows = "".join(f"2026-01-01 00:00:0{i},{i}.5,0.5\n" for i in range(5))
    (tmp_path / "log.csv").write_text(f"when,obs_x,action\n{rows}")
    assert "--columns.time when" in waypost.load(tmp_path / "log.csv").notes[0]
    assert not waypost.load(tmp_path / "log.csv", Columns(time="when")).notes


def test_texts_that_are_no_dates_only_put_rows_in_order() -> None:
    table = {"t": np.array(["b", "a"], object), "x": np.arange(2.0), "push": np.zeros(2), "gain": np.zeros(2)}
    data = waypost.load({**table, "trip": np.zeros(2)}, COLUMNS)
    assert data.observations[:, 0].tolist() == [1, 0]
    assert "no dates" in data.notes[-1]


def test_an_episode_without_a_name_is_one_too(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("obs_x,action,episode\n1.5,0.5,a\n2.5,0.5,NA\n3.5,0.5,a\n")
    data = waypost.load(tmp_path / "log.csv")
    assert data.episode_lengths.tolist() == [2, 1]
