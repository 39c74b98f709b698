"""One row of a log as the policy's observation."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import waypost
from waypost import Columns, Pipeline, WaypostError
from waypost.data.observations import observe, with_means

FRAME = pd.DataFrame(
    {
        "t": pd.to_datetime(["2026-01-01 00:00", "2026-01-01 06:00", "2026-01-01 12:00"]),
        "mode": ["off", "auto", "off"],
        "temp": [1.0, np.nan, 3],
        "push": [0.1, 0.2, 0.3],
    }
)
DATA = waypost.load(
    FRAME,
    Columns(observations=("mode", "temp"), actions=("push",), time="t"),
    pipeline=Pipeline(categories=("one-hot",), missing=("temp=mean",), cyclic=("hour",), history=2),
)


@pytest.mark.parametrize("row", range(3))
def test_a_row_becomes_what_it_was_in_the_data(row: int) -> None:
    assert DATA.reading is not None
    found = observe(FRAME.iloc[row].to_dict(), DATA.observation_names, DATA.reading, DATA.history)
    np.testing.assert_allclose(found, DATA.observations[row, 5:], atol=1e-6)


def test_what_a_row_lacks_is_named() -> None:
    assert DATA.reading is not None
    row = FRAME.iloc[0].to_dict()
    with pytest.raises(WaypostError, match="the row has no 'temp'"):
        observe({key: value for key, value in row.items() if key != "temp"}, DATA.observation_names, DATA.reading, 2)
    with pytest.raises(WaypostError, match="'mode' is missing"):
        observe({**row, "mode": None}, DATA.observation_names, DATA.reading, 2)
    assert observe({**row, "temp": None}, DATA.observation_names, DATA.reading, 2)[2] == 2


def test_nan_is_the_mean_where_it_was_and_an_error_elsewhere() -> None:
    rows = np.array([[0, 1, np.nan, 0, 1]], np.float32)
    names = DATA.observation_names[-5:]
    assert with_means(rows, names, DATA.reading)[0, 2] == 2
    with pytest.raises(WaypostError, match="NaN or infinite in hour_sin"):
        with_means(np.array([[0, 1, 2, np.nan, 1]], np.float32), names, DATA.reading)
    with pytest.raises(WaypostError, match="NaN or infinite in column 2"):
        with_means(rows, (), None)
