"""Equal core-minutes: how many updates a method gets, and that they stay as they are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from waypost.data.dataset import Dataset
from waypost.errors import WaypostError
from waypost.locks import alone
from waypost.studies import budget
from waypost.studies.budget import AVERAGED, EVALUATIONS, Rates, check_minutes, with_minutes
from waypost.studies.updates import stages_of, total_updates
from waypost.training.plan import plan


@pytest.mark.parametrize(
    ("algorithm", "seconds"),
    [
        ("por", {"joint": 0.0085}),
        ("bc", {"policy": 0.0013}),
        ("dt", {"policy": 0.21}),
        ("onestep", {"behaviour": 0.003, "value": 0.006, "policy": 0.004}),
        ("brac", {"behaviour": 0.003, "value and policy": 0.03}),
        ("cql", {"critic and cloning": 0.03, "critic and policy": 0.04}),
    ],
)
def test_a_training_takes_about_the_minutes_it_is_given(algorithm: str, seconds: dict[str, float]) -> None:
    usual = plan(algorithm, "hopper-medium")
    planned = with_minutes(usual, 5, seconds)
    stages = stages_of(planned)
    assert sum(stage.steps * seconds[stage.name] for stage in stages) == pytest.approx(300, rel=0.06)
    last, every = stages[-1].steps, planned.evaluation.every
    assert (last, planned.evaluation.last) == (EVALUATIONS * every, AVERAGED)
    assert every % planned.log_every == 0, "every other length of chunk would be compiled, too"
    assert 100 <= planned.log_every <= 500
    assert planned.evaluation.episodes == usual.evaluation.episodes
    # Stages and warm-ups keep their shares, so schedules follow.
    before = [stage.steps / total_updates(usual) for stage in stages_of(usual)]
    assert [stage.steps / total_updates(planned) for stage in stages] == pytest.approx(before, abs=0.03)
    if algorithm == "dt":
        assert planned.config.warmup_steps / planned.steps == pytest.approx(
            usual.config.warmup_steps / usual.steps, rel=0.1
        )


def test_very_few_updates_are_one_at_least() -> None:
    planned = with_minutes(plan("bc", "hopper-medium"), 1e-6, {"policy": 1.0})
    assert (planned.steps, planned.log_every, planned.evaluation.every) == (EVALUATIONS, 1, 1)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was measured; each time it is another number."""
    asked: list[str] = []

    def measure(planned: Any, dataset: Dataset) -> dict[str, float]:
        asked.append(planned.algorithm)
        return {"policy": 0.00123456 * len(asked)}

    monkeypatch.setattr(budget, "measure", measure)
    return asked


def test_a_speed_is_measured_once_for_sizes_and_what_changes_it(
    measured: list[str], dataset: Dataset, tmp_path: Path
) -> None:
    file = tmp_path / "rates.json"
    planned = plan("bc", dataset, preset="none")
    first = Rates(file).seconds(planned, lambda: dataset)
    assert first == {"policy": 0.00123}
    assert Rates(file, read_only=True).seconds(planned, pytest.fail) == first
    elsewhere = replace(planned, data="other", steps=3, config=replace(planned.config, learning_rate=0.5))
    assert Rates(file).seconds(elsewhere, lambda: dataset) == first
    assert len(measured) == 1
    wider = replace(planned, config=replace(planned.config, hidden=(8,)))
    assert Rates(file, read_only=True).seconds(wider, pytest.fail) is None
    assert Rates(file).seconds(wider, lambda: dataset) == {"policy": 0.00247}
    found = json.loads(file.read_text())
    assert found["sizes"] == {"walk": [2, 2], "other": [2, 2]}
    assert sorted(each["settings"]["hidden"] for each in found["rates"].values()) == [[8], [256, 256]]


def test_a_speed_measured_by_a_version_that_knew_fewer_settings_counts(
    measured: list[str], dataset: Dataset, tmp_path: Path
) -> None:
    file, planned = tmp_path / "rates.json", plan("iql", dataset, preset="none")
    first = Rates(file).seconds(planned, lambda: dataset)
    found = json.loads(file.read_text())
    (rate,) = found["rates"].values()
    del rate["settings"]["observation_scaling"], rate["settings"]["advantages"]
    file.write_text(json.dumps({**found, "rates": {"iql 2x2 older": rate}}))
    assert Rates(file, read_only=True).seconds(planned, pytest.fail) == first
    scaled = replace(planned, config=replace(planned.config, observation_scaling=True))
    assert Rates(file, read_only=True).seconds(scaled, pytest.fail) is None
    # It counts on new data of the same sizes too: all rows of a table get the same number of updates.
    assert Rates(file).seconds(replace(planned, data="other"), lambda: dataset) == first
    assert measured == ["iql"]


def test_no_process_waits_while_another_records_its_data(measured: list[str], dataset: Dataset, tmp_path: Path) -> None:
    file, free = tmp_path / "rates.json", []

    def record() -> Dataset:
        with alone(file, wait=False) as held:
            free.append(held)
        return dataset

    Rates(file).seconds(plan("bc", dataset), record)
    assert free == [True]


def test_nothing_is_measured_where_one_may_only_read(measured: list[str], dataset: Dataset, tmp_path: Path) -> None:
    assert Rates(tmp_path / "rates.json", read_only=True).seconds(plan("bc", dataset), pytest.fail) is None
    assert not measured
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("minutes", [0.0, -1.0, float("nan"), float("inf")])
def test_minutes_that_are_none(minutes: float) -> None:
    with pytest.raises(WaypostError, match=r"minutes must be in \(0, 1000000\], got"):
        check_minutes(minutes)
