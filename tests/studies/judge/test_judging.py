"""Judging from runs or policies to a verdict."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import chain
import numpy as np
import pytest

import waypost
from waypost.agents.agent import Agent, Array, Memory
from waypost.data.dataset import Dataset
from waypost.errors import WaypostError
from waypost.report.judge import write_judgement
from waypost.studies.judge import imagined
from waypost.studies.judge.judgement import Judgement, notes
from waypost.studies.judge.judging import _held_out, _some, judge, named

FAST = {"members": 5, "steps": 400, "hidden": (16,), "discount": chain.DISCOUNT, "horizon": 5}


class Refusing(Agent):
    """Must be told where to go."""

    def start(self, episodes: int, goal: Array | None = None) -> Memory:
        raise WaypostError("must be told where to go")

    def act(self, observations: Array, memory: Memory = ()) -> tuple[Array, Memory]:
        raise AssertionError


@pytest.fixture(scope="module")
def data() -> Dataset:
    return chain.record(200)


@pytest.fixture(scope="module")
def found(data: Dataset) -> Judgement:
    ways = {"left": chain.policy(0, data), "right": chain.policy(1, data), "turning": chain.policy(1, data, turns=True)}
    policies = [replace(each, algorithm=name) for name, each in ways.items()]
    lost = replace(ways["left"], algorithm="lost", agent=Refusing())
    with pytest.MonkeyPatch.context() as short:
        short.setattr(imagined, "MOST_UPDATES", 40)
        return judge([*policies, lost], data, **FAST)


def test_the_good_policy_is_taken_and_the_bad_one_found_to_be_worse(found: Judgement) -> None:
    verdicts = {each.name: each.verdict for each in found.candidates}
    assert verdicts["right"] == "better than the data"
    assert verdicts["left"] == "worse than the data"
    assert found.words().startswith("Take right: ")
    assert found.ranked[0].name == "right"
    left = next(each for each in found.candidates if each.name == "left")
    assert left.rank is not None
    assert found.baseline.rank is not None
    assert left.rank > found.baseline.rank


def test_a_policy_with_a_memory_is_judged_by_what_it_does_along_the_episodes(found: Judgement) -> None:
    turning = next(each for each in found.candidates if each.name == "turning")
    left, right = (each for name in ("left", "right") for each in found.candidates if each.name == name)
    assert turning.value is not None
    assert left.value is not None
    assert right.value is not None
    assert left.value.value < turning.value.value < right.value.value


def test_a_policy_that_cannot_be_asked_is_left_out_with_its_reason(found: Judgement) -> None:
    lost = found.candidates[-1]
    assert (lost.name, lost.verdict, lost.note) == ("lost", "cannot tell", "must be told where to go")


def test_nothing_is_imagined_of_a_plant_that_cannot_be_predicted(found: Judgement) -> None:
    assert found.explained is not None
    assert found.explained < 0.9
    assert all(each.imagined is None for each in found.candidates)
    assert any("no episodes are imagined" in note for note in notes(found))
    assert not any("imagined" in note for note in notes(replace(found, explained=None)))


def test_numbers_of_the_data_stand_beside(found: Judgement, data: Dataset) -> None:
    assert found.mean_return == pytest.approx(data.episode_returns.mean())
    assert found.baseline.value is not None
    assert found.discounted_return == pytest.approx(found.baseline.value.value, abs=0.15)
    assert found.baseline.robust is not None
    assert found.discounted_return == pytest.approx(found.baseline.robust.value, abs=0.02)
    record = found.to_json()
    assert record["take"] == "right"
    assert {(pair["first"], pair["second"]) for pair in record["pairs"]} >= {("right", "data"), ("right", "left")}
    assert record["candidates"][0]["per_step"] == pytest.approx(record["candidates"][0]["value"]["value"] * 0.1)


def test_the_page_and_the_tables_are_written(found: Judgement, tmp_path: Path) -> None:
    write_judgement(found, tmp_path)
    page = (tmp_path / "judge.html").read_text()
    assert found.words()[:30] in page
    assert page.count("<svg") == 4
    assert "must be told where to go" in page
    assert (tmp_path / "judge.csv").read_text().count("\n") == 6
    assert '"take": "right"' in (tmp_path / "judge.json").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"members": 4}, "members must be from 5 to 100, got 4"),
        ({"steps": 0}, "steps must be from 1"),
        ({"rows": -1}, "rows must be from 1"),
        ({"horizon": -1}, "horizon must be from 0 to 10000, got -1"),
        ({"discount": 1.5}, r"discount must be in \(0, 1\], got 1.5"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict, message: str, data: Dataset) -> None:
    with pytest.raises(WaypostError, match=message):
        judge(chain.policy(0, data), data, **options)


def test_data_that_do_not_suffice_are_refused(data: Dataset) -> None:
    policy = chain.policy(0, data)
    with pytest.raises(WaypostError, match="3 episodes; at least 5 are needed"):
        judge(policy, data.keep(data.episode_of < 3))
    with pytest.raises(WaypostError, match="has no rewards"):
        judge(policy, data.without_rewards())
    with pytest.raises(WaypostError, match="learned from other columns"):
        judge(policy, data.with_action_count(3))
    with pytest.raises(WaypostError, match="--data"):
        judge(policy)
    with pytest.raises(WaypostError, match="nothing to judge"):
        judge([], data)


def test_names_tell_candidates_apart(data: Dataset, tmp_path: Path) -> None:
    policy = chain.policy(0, data)
    assert [each.name for each in named([policy, policy])] == ["bc (1)", "bc (2)"]
    options = {"steps": 2, "seeds": 2, "hidden": (8,), "batch_size": 8}
    waypost.train("bc", data, out=tmp_path / "a" / "bc", **options)
    for place in ("b/bc", "c/other"):
        shutil.copytree(tmp_path / "a" / "bc", tmp_path / place)
    first = named([tmp_path / "a" / "bc", tmp_path / "c" / "other"])
    assert [each.name for each in first] == ["bc seed 0", "bc seed 1", "other seed 0", "other seed 1"]
    alike = named([tmp_path / "a" / "bc", tmp_path / "b" / "bc"])
    assert len({each.name for each in alike}) == 4


def test_runs_are_judged_by_the_episodes_they_held_out(data: Dataset, tmp_path: Path) -> None:
    file = tmp_path / "log.npz"
    waypost.save(data, file)
    options = {"steps": 2, "hidden": (8,), "batch_size": 8, "keep_best": "held_out_policy_loss"}
    for place, share in (("run", 0.1), ("other", 0.2)):
        waypost.train("bc", file, out=tmp_path / place, hold_out=share, **options)
    best = named([tmp_path / "run", tmp_path / "run" / "best"])
    assert [each.name for each in best] == ["run seed 0", "run/best seed 0"]
    held = _held_out(best)
    assert held.name.endswith("10% held out")
    np.testing.assert_array_equal(held.observations, data.split(0.1)[1].observations)
    with pytest.raises(WaypostError, match="held out different shares"):
        _held_out(named([tmp_path / "run", tmp_path / "other"]))
    file.unlink()
    waypost.save(data.with_rewards(data.require("rewards") + 1.0), file)
    with pytest.raises(WaypostError, match="has changed since"):
        _held_out(best)


def test_more_rows_than_asked_for_are_drawn_as_whole_episodes(data: Dataset) -> None:
    some = _some(data, 200, 0)
    assert 100 < len(some) <= 200
    assert np.isin(some.episode_lengths, data.episode_lengths).all()
    assert (some.observations[some.episode_starts].argmax(axis=1) == chain.START).all()
    assert _some(data, len(data), 0) is data


def test_episodes_that_a_run_learned_from_are_told(data: Dataset, tmp_path: Path) -> None:
    some = data.keep(data.episode_of < 20)
    waypost.train("bc", some, out=tmp_path / "run", steps=2, hidden=(8,), batch_size=8)
    fast = {**FAST, "steps": 20, "horizon": 0}
    for episodes, seen in ((some, True), (data.keep(data.episode_of >= 180), False)):
        found = judge(tmp_path / "run", episodes, **fast)
        assert any("learned from these episodes" in note for note in notes(found)) == seen


def test_what_cannot_be_judged_is_named(data: Dataset) -> None:
    with pytest.raises(WaypostError, match="must be run directories, runs or policies, got 5"):
        judge([chain.policy(0, data), 5], data)
    run = waypost.train("bc", data, steps=2, hidden=(8,), batch_size=8, hold_out=0.1)
    with pytest.raises(WaypostError, match=r"cannot be read again .*in Python: data="):
        judge(run)
