"""Text as categories, and what is cyclic as sine and cosine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import waypost
from waypost import Columns, Pipeline, WaypostError

FRAME = pd.DataFrame(
    {"mode": ["off", "auto", "off"], "size": ["M", "S", "L"], "x": [1.0, 2, 3], "push": [0.1, 0.2, 0.3]}
)
COLUMNS = Columns(observations=("mode", "x"), actions=("push",))


def test_text_needs_to_be_asked_for() -> None:
    with pytest.raises(WaypostError, match="'mode' holds text, for observations numbers are needed; --categories"):
        waypost.load(FRAME, COLUMNS)
    with pytest.raises(WaypostError, match=r"'mode' holds text, for rewards numbers are needed$"):
        waypost.load(FRAME, Columns(observations=("x",), rewards="mode"), pipeline=Pipeline(categories=("one-hot",)))


def test_one_hot_and_ordinal() -> None:
    one_hot = waypost.load(FRAME, COLUMNS, pipeline=Pipeline(categories=("one-hot",)))
    assert one_hot.observation_names == ("mode=auto", "mode=off", "x")
    assert one_hot.observations.tolist() == [[0, 1, 1], [1, 0, 2], [0, 1, 3]]
    ordinal = waypost.load(FRAME, COLUMNS, pipeline=Pipeline(categories=("ordinal",)))
    assert ordinal.observation_names == ("mode", "x")
    assert ordinal.observations[:, 0].tolist() == [1, 0, 1]


def test_an_order_can_be_given_and_numbers_can_be_names() -> None:
    asked = Pipeline(categories=("size=S<M<L", "x=one-hot"))
    data = waypost.load(FRAME, Columns(observations=("size", "x")), pipeline=asked)
    assert data.observation_names == ("size", "x=1", "x=2", "x=3")
    assert data.observations[:, 0].tolist() == [1, 0, 2]
    assert data.observations[:, 1:].tolist() == np.eye(3).tolist()


def test_categories_are_those_of_all_files_and_the_same_for_new_ones(tmp_path: Path) -> None:
    for name, words in (("a", "on on"), ("b", "off on"), ("new", "off off"), ("strange", "on burning")):
        rows = "".join(f"{word},{i}.5\n" for i, word in enumerate(words.split()))
        (tmp_path / f"{name}.csv").write_text(f"obs_mode,action\n{rows}")
    data = waypost.load([tmp_path / "a.csv", tmp_path / "b.csv"], pipeline=Pipeline(categories=("one-hot",)))
    assert data.observations.tolist() == [[0, 1], [0, 1], [1, 0], [0, 1]]
    assert data.reading is not None
    new = waypost.load(tmp_path / "new.csv", pipeline=data.reading.pipeline)
    assert new.observations.tolist() == [[1, 0], [1, 0]]
    with pytest.raises(WaypostError, match="'obs_mode' holds 'burning', which is not a known category"):
        waypost.load(tmp_path / "strange.csv", pipeline=data.reading.pipeline)


def test_next_states_have_the_categories_of_states() -> None:
    frame = FRAME.assign(next_mode=["auto", "auto", "auto"], next_x=[2.0, 3, 4])
    columns = Columns(observations=("mode", "x"), next_observations=("next_mode", "next_x"))
    data = waypost.load(frame, columns, pipeline=Pipeline(categories=("one-hot",)))
    assert data.next_observations.tolist() == [[1, 0, 2], [1, 0, 3], [1, 0, 4]]


def test_a_text_is_a_discrete_action() -> None:
    data = waypost.load(
        FRAME, Columns(observations=("x",), actions=("mode",)), pipeline=Pipeline(categories=("ordinal",))
    )
    assert data.action_count == 2
    assert data.actions[:, 0].tolist() == [1, 0, 1]
    assert data.action_names == ("mode",)


def test_empty_texts_can_be_held() -> None:
    frame = FRAME.assign(mode=["off", None, "auto"])
    data = waypost.load(frame, COLUMNS, pipeline=Pipeline(categories=("ordinal",), missing=("hold",)))
    assert data.observations[:, 0].tolist() == [1, 1, 0]


def test_too_many_texts_are_no_categories() -> None:
    frame = pd.DataFrame({"obs_name": [f"n{i}" for i in range(200)], "action": np.zeros(200)})
    with pytest.raises(WaypostError, match="more than 100 different texts"):
        waypost.load(frame, pipeline=Pipeline(categories=("one-hot",)))


def test_cyclic_columns_and_times() -> None:
    stamps = pd.to_datetime(["2026-01-05 00:00", "2026-01-05 06:00", "2026-01-05 12:00"])
    frame = FRAME.assign(angle=[0.0, 90.0, 450.0], t=stamps)
    columns = Columns(observations=("angle", "x"), actions=("push",), time="t")
    data = waypost.load(frame, columns, pipeline=Pipeline(cyclic=("angle=360", "hour", "weekday")))
    assert data.observation_names == (
        "angle_sin", "angle_cos", "x", "hour_sin", "hour_cos", "weekday_sin", "weekday_cos",
    )  # fmt: skip
    np.testing.assert_allclose(data.observations[:, :2], [[0, 1], [1, 0], [1, 0]], atol=1e-6)
    np.testing.assert_allclose(data.observations[:, 3:5], [[0, 1], [1, 0], [0, -1]], atol=1e-6)
    # The 5th of January 2026 is a Monday.
    np.testing.assert_allclose(data.observations[0, 5:], [0, 1], atol=1e-6)
    with pytest.raises(WaypostError, match="--cyclic hour needs time stamps"):
        waypost.load(FRAME, Columns(observations=("x",)), pipeline=Pipeline(cyclic=("hour",)))
    with pytest.raises(WaypostError, match="--cyclic z: the observations have no such column"):
        waypost.load(FRAME, Columns(observations=("x",)), pipeline=Pipeline(cyclic=("z=3",)))
