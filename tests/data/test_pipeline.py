"""The options of a log: what they mean, and what is refused."""

from __future__ import annotations

import pytest

from waypost import Columns, Pipeline, WaypostError
from waypost.data.pipeline import AS_BEFORE, Learned, Reading, asked_for, by_column, cyclic_columns
from waypost.schema import build


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"missing": ("guess",)}, "missing must be one of error, drop, hold, interpolate, mean, or COLUMN=ONE"),
        ({"missing": ("hold", "drop")}, "missing is given twice for all columns"),
        ({"categories": ("mode=alphabetical",)}, "categories must be one of"),
        ({"cyclic": ("angle",)}, "cyclic must be hour, weekday, yearday or COLUMN=PERIOD, got 'angle'"),
        ({"cyclic": ("angle=0",)}, "cyclic must be"),
        ({"history": 0}, "history must be from 1 to 1000, got 0"),
        ({"max_gap": -1}, "max_gap must be 0 or more, got -1"),
        ({"resample": 0}, "resample must be a number of seconds above 0, got 0"),
        ({"separator": "x"}, "separator must be auto or comma"),
        ({"reward": "temp +"}, "is not an expression over columns"),
        ({"reward": "__import__('os')"}, "is not allowed"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(WaypostError, match=words.replace("(", r"\(")):
        Pipeline(**options)  # type: ignore[arg-type]


def test_a_column_is_treated_as_its_name_says_then_as_a_pattern_then_as_all() -> None:
    choices = by_column(("hold", "imu_*=mean", "imu_3=drop"), ("hold", "mean", "drop"), "missing")
    assert [asked_for(name, choices) for name in ("imu_3", "imu_1", "temp")] == ["drop", "mean", "hold"]
    assert asked_for("temp", {}) is None


def test_columns_with_an_equals_sign_in_their_name() -> None:
    assert by_column(("a=b=drop",), ("drop",), "missing") == {"a=b": "drop"}
    assert cyclic_columns(("a=b=360", "hour")) == {"a=b": 360.0, "hour": 86400.0}


def test_only_categories_and_means_are_learned() -> None:
    assert not Pipeline().learns
    assert not Pipeline(missing=("hold",)).learns
    assert Pipeline(missing=("temp=mean",)).learns
    assert Pipeline(categories=("one-hot",)).learns
    assert not Pipeline(categories=("one-hot",), learned=Learned()).learns


def test_what_is_given_lies_on_top_of_what_a_run_knows() -> None:
    known = Reading(Columns(observations=("a",), rewards="r"), Pipeline(history=4, missing=("hold",)))
    asked = known.with_given(Columns(rewards="q"), Pipeline(missing=("drop",)))
    assert asked.columns == Columns(observations=("a",), rewards="q")
    assert asked.pipeline == Pipeline(history=4, missing=("drop",))


def test_runs_of_older_versions_read_as_they_did() -> None:
    before = build(AS_BEFORE, Pipeline, "pipeline")
    assert (before.max_gap, before.missing, before.duplicates) == (0, ("error",), "keep")
