"""Empty cells and what stands for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import waypost
from waypost import Columns, Dataset, Pipeline, WaypostError
from waypost.data.pipeline import Learned

NAN = np.nan
COLUMNS = Columns(observations=("x", "y"), actions=("push",), rewards="gain", episode="trip")


def read(x: list[float], trip: Any = 0, push: Any = 1.0, gain: Any = 1.0, **pipeline: Any) -> Dataset:
    rows = len(x)
    frame = {"x": np.array(x, float), "y": np.arange(rows, dtype=float), "push": np.zeros(rows) + push}
    frame |= {"gain": np.zeros(rows) + gain, "trip": np.zeros(rows) + trip}
    return waypost.load(pd.DataFrame(frame), COLUMNS, pipeline=Pipeline(**pipeline))


@pytest.mark.parametrize(
    ("how", "left"),
    [
        ("hold", [1, 1, 3, 3, 5, 5]),
        ("interpolate", [1, 2, 3, 3, 5, 5]),
        ("mean", [1, 3, 3, 3, 3, 5]),
    ],
)
def test_cells_are_filled_inside_their_episode(how: str, left: list[float]) -> None:
    data = read([1, NAN, 3, NAN, NAN, 5], trip=[0, 0, 0, 0, 1, 1], missing=(how,))
    assert data.observations[:, 0].tolist() == left
    assert "x: 3 missing values filled" in data.notes[0]


def test_time_tells_how_far_to_interpolate() -> None:
    table = {"t": np.array([0.0, 1, 4]), "x": np.array([0.0, NAN, 4])}
    columns = Columns(observations=("x",), time="t")
    data = waypost.load(table, columns, pipeline=Pipeline(missing=("interpolate",)))
    assert data.observations[:, 0].tolist() == [0, 1, 4]


def test_rows_are_dropped_and_episodes_cut_there() -> None:
    data = read([0, 1, NAN, 3, 4, NAN], missing=("drop",))
    assert data.observations[:, 0].tolist() == [0, 1, 3, 4]
    assert data.episode_lengths.tolist() == [2, 2]
    assert data.next_valid.tolist() == [True, False, True, False]


def test_each_column_has_its_way() -> None:
    with pytest.raises(WaypostError, match="--missing drop, hold, interpolate or mean"):
        read([0, NAN, 2, 3], missing=("y=hold",))
    assert read([0, NAN, 2, 3], missing=("error", "x=hold")).observations[:, 0].tolist() == [0, 0, 2, 3]


def test_few_are_held_in_states_and_dropped_elsewhere_by_default() -> None:
    x = np.arange(40.0)
    x[5] = NAN
    held = read(x.tolist())
    assert held.observations[5, 0] == 4
    assert len(held) == 40
    gain = np.where(np.arange(40) == 7, NAN, 1.0)
    assert len(read(np.arange(40.0).tolist(), gain=gain)) == 39
    x[:10] = NAN
    with pytest.raises(WaypostError, match="NaN or infinite in 10 of 40 rows"):
        read(x.tolist())
    with pytest.raises(WaypostError, match="NaN or infinite in 1 of 40 rows"):
        read([NAN, *range(39)], missing=("error",))


def test_arrays_are_no_tables_and_stay_as_strict_as_they_were() -> None:
    states = np.arange(100.0)
    states[3] = NAN
    with pytest.raises(WaypostError, match="NaN or infinite in 1 of 100 rows"):
        waypost.load({"obs": states})


def test_a_last_state_without_an_action_is_not_missing_one() -> None:
    data = read([0, 1, 2, 3], push=[1, 1, 1, NAN], gain=[1, 1, 1, NAN], missing=("drop",))
    assert len(data) == 3
    assert data.next_observations[-1, 0] == 3
    assert data.next_valid.all()


def test_numbers_and_words_that_stand_for_missing(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("obs_x,obs_y,action\n1,-1,0.5\n-9999,2,0.5\nBad Input,3,0.5\n4,4,0.5\n")
    asked = Pipeline(missing_values=("-9999", "obs_y=-1", "Bad Input"), missing=("interpolate",))
    data = waypost.load(tmp_path / "log.csv", pipeline=asked)
    np.testing.assert_allclose(data.observations, [[1, 2], [2, 2], [3, 3], [4, 4]])


def test_means_are_those_of_all_files_and_are_kept(tmp_path: Path) -> None:
    for name, cells in (("a", "1,,3"), ("b", "8,,8")):
        rows = "".join(f"{cell},0.5\n" for cell in cells.split(","))
        (tmp_path / f"{name}.csv").write_text(f"obs_x,action\n{rows}")
    data = waypost.load(tmp_path, pipeline=Pipeline(missing=("mean",)))
    assert data.observations[:, 0].tolist() == [1, 5, 3, 8, 5, 8]
    assert data.reading is not None
    assert data.reading.pipeline.learned == Learned(means={"obs_x": 5.0, "action": 0.5})
    again = waypost.load(tmp_path / "a.csv", pipeline=data.reading.pipeline)
    assert again.observations[1, 0] == 5


def test_columns_that_only_the_reward_needs_have_means_too() -> None:
    frame = pd.DataFrame({"x": [1.0, 2, 3], "push": [0.1, 0.2, 0.3], "goal": [4.0, NAN, 8.0]})
    # The rewards that the columns name are not there, and not needed.
    columns = Columns(observations=("x",), actions=("push",), rewards="gain")
    data = waypost.load(frame, columns, pipeline=Pipeline(missing=("goal=mean",), reward="x - goal"))
    assert data.rewards.tolist() == [-3, -4, -5]


def test_a_number_that_means_missing_is_handled_as_an_empty_cell_is() -> None:
    x = np.arange(40.0)
    x[5] = -9999
    assert read(x.tolist(), missing_values=("x=-9999",)).observations[5, 0] == 4
    arrays = {"observations": x[:, None], "actions": np.zeros(40)}
    assert waypost.load(arrays, pipeline=Pipeline(missing_values=("-9999",))).observations[5, 0] == 4


@pytest.mark.parametrize(
    "option", [{"missing_values": ("z=3",)}, {"missing": ("z=hold",)}, {"categories": ("z=one-hot",)}]
)
def test_a_column_that_is_not_there_is_named(option: dict[str, Any]) -> None:
    with pytest.raises(WaypostError, match=r"--[a-z-]+ names 'z', and there is no such column; it has x, y, push"):
        read([0, 1, 2], **option)


def test_a_word_in_a_column_of_numbers_is_named_with_its_row() -> None:
    frame = pd.DataFrame({"x": [*map(str, range(9)), "Bad Input"], "push": 1.0})
    columns = Columns(observations=("x",), actions=("push",))
    message = r"'x' holds text in 1 of 10 rows \(row 10: 'Bad Input'\), .* 'missing': --missing-values 'Bad Input'"
    with pytest.raises(WaypostError, match=message):
        waypost.load(frame, columns)
    frame["x"] = ["auto", "hand"] * 5
    with pytest.raises(WaypostError, match=r"'x' holds text, .*; --categories one-hot or ordinal"):
        waypost.load(frame, columns)
