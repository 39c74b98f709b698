"""Actions of which some are a choice and others a number: reading, joining, writing, refusing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import waypost
from waypost import Columns, Dataset, Pipeline
from waypost.data.inspection import inspect
from waypost.data.mapped import NpzWriter, map_npz
from waypost.errors import WaypostError

LOG = {
    "temp": np.linspace(0, 1, 60),
    "valve": np.array(["open", "closed", "open"] * 20, object),
    "gear": np.array([2, 1, 10] * 20),
    "heater": np.linspace(0, 100, 60),
}
ACTIONS = ("valve", "gear", "heater")
MIXED = (("closed", "open"), ("1", "2", "10"), ())


def columns(**roles: Any) -> Columns:
    return Columns(**{"observations": ("temp",), "actions": ACTIONS, "discrete": ("valve", "gear"), **roles})


@pytest.fixture(scope="module")
def data() -> Dataset:
    return waypost.load(LOG, columns())


def write(path: Path, rows: slice = slice(None)) -> Path:
    lines = [",".join(LOG), *(",".join(map(str, row)) for row in zip(*(v[rows] for v in LOG.values()), strict=True))]
    path.write_text("\n".join(lines))
    return path


def test_texts_are_places_and_numbers_stay_what_they_are(data: Dataset) -> None:
    assert data.action_choices == MIXED
    assert data.action_counts == (2, 3, 0)
    assert data.require("actions")[:3, :2].tolist() == [[1, 2], [0, 1], [1, 10]]
    assert data.require("actions")[:, 2].tolist() == pytest.approx(LOG["heater"].tolist())
    assert data.require("action_low").tolist() == [0, 1, 0]
    assert data.require("action_high").tolist() == [1, 10, 100]
    assert data.action_kind_declared


def test_files_that_show_some_choices_each_have_them_all(tmp_path: Path, data: Dataset) -> None:
    write(tmp_path / "a.csv", slice(0, 1))
    write(tmp_path / "b.csv", slice(1, 60))
    found = waypost.load(tmp_path, columns())
    assert found.action_choices == MIXED
    assert np.array_equal(found.require("actions"), data.require("actions"))
    waypost.convert(tmp_path, tmp_path / "all.npz", columns=columns())
    again = waypost.load(tmp_path / "all.npz")
    assert again.action_choices == MIXED
    assert np.array_equal(again.require("actions"), data.require("actions"))


def test_choices_that_never_occur_and_their_order_can_be_named() -> None:
    found = waypost.load(LOG, columns(), pipeline=Pipeline(categories=("valve=stuck<open<closed", "gear=1<2<3<10")))
    assert found.action_choices == (("stuck", "open", "closed"), ("1", "2", "3", "10"), ())
    assert found.require("actions")[:2, 0].tolist() == [1, 2]
    assert "unused-actions" in {finding.what for finding in inspect(found).findings}


def test_a_single_choice_of_numbers_keeps_them_and_one_from_0_is_discrete() -> None:
    found = waypost.load(LOG, columns(actions=("gear",), discrete=("gear",)))
    assert (found.action_count, found.action_choices) == (None, (("1", "2", "10"),))
    valve = waypost.load(LOG, columns(actions=("valve",), discrete=("valve",)))
    assert (valve.action_count, valve.action_choices) == (2, ())


def test_columns_of_arrays_are_named_by_their_number(tmp_path: Path, data: Dataset) -> None:
    arrays = {"observations": data.observations, "actions": np.array(data.actions)}
    found = waypost.load(arrays, Columns(discrete=("1",)))
    assert found.action_choices == ((), ("1", "2", "10"), ())
    np.savez(tmp_path / "theirs.npz", **arrays)
    assert waypost.load(tmp_path / "theirs.npz", Columns(discrete=("1",))).action_choices == found.action_choices


def test_the_last_row_of_an_episode_may_have_a_state_only() -> None:
    log = {name: values[:4] for name, values in LOG.items()}
    log = log | {"valve": np.array(["open", "closed", "open", None], object), "gear": np.array([1, 2, 10, np.nan])}
    found = waypost.load(log | {"heater": np.array([1.0, 2.0, 3.0, np.nan])}, columns())
    assert len(found) == 3
    assert found.next_valid.all()


def test_a_reward_may_be_about_a_choice() -> None:
    found = waypost.load(LOG, columns(), pipeline=Pipeline(reward="-gear * temp"))
    assert found.require("rewards")[1] == pytest.approx(-1 / 59)


@pytest.mark.parametrize("name", ["log.npz", "log.hdf5", "log.parquet", "log-v0"])
def test_what_is_written_is_read_back(name: str, data: Dataset, tmp_path: Path) -> None:
    waypost.save(data, tmp_path / name)
    again = waypost.load(tmp_path / name)
    assert again.action_choices == MIXED
    assert again.action_names == ACTIONS
    for bound in ("actions", "action_low", "action_high"):
        assert np.array_equal(again.require(bound), data.require(bound))


def test_blocks_are_written_and_mapped(data: Dataset, tmp_path: Path) -> None:
    with NpzWriter(tmp_path / "log.npz") as writer:
        writer.append(data)
        writer.append(data)
    assert map_npz(tmp_path / "log.npz").action_choices == MIXED


def test_parts_of_the_data_keep_the_choices(data: Dataset) -> None:
    assert data.keep(np.arange(60) < 10).action_choices == MIXED
    both = waypost.concatenate([data, data])
    assert (both.action_choices, both.action_counts) == (MIXED, (2, 3, 0))
    assert data.without_actions().action_choices == ()
    plain = data.with_action_count(0)
    assert (plain.action_choices, plain.action_counts) == ((), (0, 0, 0))
    assert plain.fingerprint() != data.fingerprint()
    other = data.with_action_choices((("shut", "open"), *MIXED[1:]))
    for strange in (plain, other):
        with pytest.raises(WaypostError, match=r"the choices of actions differ in its parts: .*--categories"):
            waypost.concatenate([data, strange])


@pytest.mark.parametrize(
    ("roles", "words"),
    [
        ({"discrete": ("gear",)}, "'valve' holds text, for actions .*; --columns.discrete valve takes it as a choice"),
        ({"discrete": ("valve", "pump")}, "there is no action 'pump'; it has valve, gear, heater"),
        (
            {"observations": ("valve",), "actions": ("gear", "heater"), "discrete": ("gear",)},
            "'valve' holds text, for",
        ),
        ({"choices": 3}, "columns.choices is about a single action"),
    ],
)
def test_what_is_asked_wrongly_is_refused(roles: dict[str, Any], words: str) -> None:
    with pytest.raises(WaypostError, match=words):
        waypost.load(LOG, columns(**roles))


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        (((), ("1", "2", "10")), "choices for 2 action columns, there are 3"),
        ((("open",), *MIXED[1:]), r"action valve has 1 choice, open; 2 to 1000 .*: --categories"),
        ((MIXED[0], ("1", "2"), ()), r"action gear is 10 in row 2; it is chosen from 1, 2"),
        ((MIXED[0], ("1", "2", "inf"), ()), "finite numbers are needed"),
    ],
)
def test_choices_that_are_not_those_of_the_data_are_refused(choices: Any, words: str, data: Dataset) -> None:
    with pytest.raises(WaypostError, match=words):
        data.with_action_choices(choices)


def test_a_log_with_gaps_and_another_rate_keeps_its_choices() -> None:
    log = LOG | {"time": np.arange(60.0), "gear": np.where(np.arange(60) == 4, np.nan, LOG["gear"])}
    ways: list[dict[str, Any]] = [{"missing": ("hold",)}, {"missing": ("drop",)}]
    for given in (*ways, {"missing": ("hold",), "resample": 2.0}):
        found = waypost.load(log, columns(time="time"), pipeline=Pipeline(**given))
        assert found.action_choices == MIXED
        assert set(np.unique(found.require("actions")[:, 1])) <= {1, 2, 10}


def test_actions_are_not_of_two_kinds_at_once(data: Dataset) -> None:
    with pytest.raises(WaypostError, match="either action_count or action_choices"):
        Dataset.from_arrays(data.observations, actions=np.zeros(60), action_count=2, action_choices=(("a", "b"),))


def test_an_inspection_finds_choices_among_numbers(data: Dataset) -> None:
    doubtful = inspect(data.with_action_count(0, declared=False))
    (note,) = [each for each in doubtful.findings if each.what == "discrete-actions"]
    assert "(valve, gear)" in note.text
    assert "--columns.discrete valve gear" in note.text
    assert "discrete-actions" not in {each.what for each in inspect(data).findings}
