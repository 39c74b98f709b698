"""The folder of results: what is written, when it is read, and when it is trained again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from waypost.data.dataset import Dataset
from waypost.errors import DivergenceError, InterruptedRun, WaypostError
from waypost.locks import alone
from waypost.studies import results
from waypost.studies.results import Donor, NotTrained, Recipe, Results
from waypost.training.callbacks import Callback
from waypost.training.plan import Plan, plan
from waypost.training.runs import Run, result

MEASURES = {"return": 2.0, "score": None, "success_rate": None, "episode_length": 3.0}


def small(dataset: Dataset, **options: Any) -> Plan[Any]:
    return plan("bc", dataset, **{"hidden": (8,), "batch_size": 16, "steps": 4, "seeds": 2, **options})


class Trainings:
    """Trains nothing: counts what was asked for, and says that each seed earned its own number."""

    def __init__(self, patch: pytest.MonkeyPatch):
        self.asked: list[tuple[int, ...]] = []
        self.error: Exception | None = None
        self.inits: list[str | None] = []
        patch.setattr(results, "execute", self.execute)

    def execute(self, planned: Plan[Any], data: Any, out: Path | None = None, **options: Any) -> Run:
        self.asked.append(planned.seeds)
        self.inits.append(planned.init)
        if self.error is not None:
            raise self.error
        options["callback"].start(planned, 4, 0)
        options["callback"].advance("policy", 4)
        per_seed = [{"seed": seed, **MEASURES, "score": 10.0 + seed} for seed in planned.seeds]
        rows = [{"step": 4, **each} for each in per_seed]
        outcome = result(planned.algorithm, planned.data, None, planned.steps, per_seed, 1.5)
        return Run(planned, outcome, [], [], rows, out)


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> Trainings:
    return Trainings(monkeypatch)


class Notes(Callback):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_a_real_training_leaves_a_small_file_and_is_read_from_it(dataset: Dataset, tmp_path: Path) -> None:
    planned = small(dataset)
    run = Results(tmp_path).run(planned, dataset, "walk/bc", Callback())
    assert [policy.seed for policy in run.policies] == [0, 1]
    files = sorted(tmp_path.rglob("*.json"))
    assert [str(file.relative_to(tmp_path)) for file in files] == ["walk/bc/0.json", "walk/bc/1.json"]
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".")]
    record = json.loads(files[1].read_text())
    assert files[1].stat().st_size < 4_000
    assert (record["plan"]["seeds"], record["updates"]) == ([1], 4)
    assert record["plan"]["config"]["hidden"] == [8]
    assert record["fingerprint"] == dataset.fingerprint()
    assert 0 <= record["core_seconds"] <= record["seconds"] + 1
    assert {"jax", "waypost"} <= record["versions"].keys()
    again = Results(tmp_path, read_only=True).run(planned, dataset, "walk/bc", Callback())
    assert (again.plan, again.policies, again.evaluations) == (planned, [], [])
    assert again.result["core_seconds"] == pytest.approx(run.result["core_seconds"])


def test_what_is_there_is_not_trained_again(trainings: Trainings, dataset: Dataset, tmp_path: Path) -> None:
    first = Results(tmp_path).run(small(dataset, seeds=1), dataset, "walk/bc", Callback())
    more = Results(tmp_path).run(small(dataset, seeds=3), dataset, "walk/bc", Callback())
    assert trainings.asked == [(0,), (1,), (2,)]
    assert first.result["per_seed"] == more.result["per_seed"][:1]
    assert more.result["mean"]["score"] == 11.0
    assert [(row["step"], row["seed"], row["score"]) for row in more.evaluations] == [
        (4, 0, 10.0),
        (4, 1, 11.0),
        (4, 2, 12.0),
    ]
    assert Results(tmp_path).seeds("walk/bc") == [0, 1, 2]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hidden": (16,)}, "has other config"),
        ({"steps": 5}, "has other steps"),
        ({"rewards": "goal"}, "has other rewards"),
    ],
)
def test_another_plan_is_another_training(
    trainings: Trainings, dataset: Dataset, tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    Results(tmp_path).run(small(dataset, seeds=1), dataset, "walk/bc", Callback())
    other, told = small(dataset, seeds=1, **change), Notes()
    with pytest.raises(NotTrained):
        Results(tmp_path, read_only=True).run(other, dataset, "walk/bc", told)
    assert told.notes == [f"{tmp_path / 'walk/bc/0.json'}: {words}; it is ignored"]
    Results(tmp_path).run(other, dataset, "walk/bc", Callback())
    assert len(trainings.asked) == 2
    Results(tmp_path, read_only=True).run(other, dataset, "walk/bc", Callback())


def test_what_changes_nothing_in_a_training_does_not_count(
    trainings: Trainings, dataset: Dataset, tmp_path: Path
) -> None:
    planned = small(dataset, seeds=1, preset="none")
    Results(tmp_path).run(planned, dataset, "walk/bc", Callback())
    file = tmp_path / "walk/bc/0.json"
    record = json.loads(file.read_text())
    del record["plan"]["config"]["observation_scaling"]  # as a version wrote it that did not know it yet
    file.write_text(json.dumps(record))
    other = replace(planned, log_every=2, evaluation=replace(planned.evaluation, workers=3))
    Results(tmp_path).run(other, dataset, "walk/bc", Callback())
    assert len(trainings.asked) == 1


def test_other_rows_count_unless_another_processor_recorded_them(
    trainings: Trainings, dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = small(dataset, seeds=1)
    Results(tmp_path).run(planned, dataset, "walk/bc", Callback())
    changed = dataset.with_rewards(np.asarray(dataset.rewards) + 1)
    Results(tmp_path, read_only=True).run(planned, changed, "walk/bc", Callback())
    with monkeypatch.context() as patch:
        patch.setattr(results, "cpu_name", lambda: "another")
        Results(tmp_path).run(planned, changed, "walk/bc", Callback())
    assert len(trainings.asked) == 1
    Results(tmp_path).run(planned, changed, "walk/bc", Callback())
    assert len(trainings.asked) == 2


def test_a_training_that_another_process_is_at_is_left_out(
    trainings: Trainings, dataset: Dataset, tmp_path: Path
) -> None:
    told = Notes()
    with alone(tmp_path / "walk/bc/0.json"):
        run = Results(tmp_path).run(small(dataset), dataset, "walk/bc", told)
        with pytest.raises(NotTrained):
            Results(tmp_path).run(small(dataset, seeds=1), dataset, "walk/bc", Callback())
    assert trainings.asked == [(1,)]
    assert [each["seed"] for each in run.result["per_seed"]] == [1]
    assert told.notes == [f"{tmp_path / 'walk/bc/0.json'}: another process works on it"]


def test_a_training_that_diverged_is_not_repeated(trainings: Trainings, dataset: Dataset, tmp_path: Path) -> None:
    trainings.error = DivergenceError("loss is not finite at step 3")
    for _ in range(2):
        with pytest.raises(DivergenceError, match="loss is not finite at step 3"):
            Results(tmp_path).run(small(dataset, seeds=1), dataset, "walk/bc", Callback())
    assert len(trainings.asked) == 1


@pytest.mark.parametrize(
    ("error", "seen"), [(WaypostError("no memory"), WaypostError), (InterruptedRun(3), KeyboardInterrupt)]
)
def test_other_errors_and_interruptions_leave_nothing(
    trainings: Trainings, dataset: Dataset, tmp_path: Path, error: Exception, seen: type[BaseException]
) -> None:
    """Nobody is told that the steps of an interrupted training are saved."""
    trainings.error = error
    with pytest.raises(seen):
        Results(tmp_path).run(small(dataset, seeds=1), dataset, "walk/bc", Callback())
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_donor_is_trained_only_for_those_who_are_missing(
    trainings: Trainings, dataset: Dataset, tmp_path: Path
) -> None:
    donor = Donor(small(dataset, seeds=1, steps=2), dataset, tmp_path / "runs" / "guide", Callback())
    planned = small(dataset, seeds=1)
    for _ in range(2):
        Results(tmp_path).run(planned, dataset, "walk/joined", Callback(), donor)
        assert trainings.inits == [None, str(tmp_path / "runs" / "guide")]
    record = json.loads((tmp_path / "walk/joined/0.json").read_text())
    assert record["plan"]["init"] is None, "a path says nothing on another machine"
    other, told = Donor(small(dataset, seeds=1, steps=3), dataset, donor.place, Callback()), Notes()
    with pytest.raises(NotTrained):
        Results(tmp_path, read_only=True).run(planned, dataset, "walk/joined", told, other)
    assert "has other donor" in told.notes[0]


def test_nothing_is_loaded_where_all_is_there(
    trainings: Trainings, dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine has only the folder, and no data."""
    monkeypatch.setenv("WAYPOST_DATA", str(tmp_path / "data"))
    with monkeypatch.context() as patch:
        patch.setattr(results, "load", lambda *given, **options: dataset)
        planned = small(dataset, seeds=1, env="none")
        planned = replace(planned, data="hopper-medium")
        Results(tmp_path / "results").run(planned, "hopper-medium", "hopper-medium/bc", Callback())
    Results(tmp_path / "results").run(planned, "hopper-medium", "hopper-medium/bc", Callback())
    assert len(trainings.asked) == 1


# -- the recipe ------------------------------------------------------------------------------------


def recipe(**given: Any) -> Recipe:
    return Recipe(**{"minutes": None, "steps": None, "evaluation": {}, "settings": {}, **given})  # type: ignore[typeddict-item]


def test_a_folder_remembers_its_recipe(tmp_path: Path) -> None:
    given = recipe(minutes=5.0, settings={"por": {"tau": 0.9}})
    assert Results(tmp_path).agree(given) == given
    assert Results(tmp_path).agree(recipe()) == given
    assert Results(tmp_path, read_only=True).agree(recipe(minutes=5.0)) == given
    with pytest.raises(WaypostError, match=r"recipe.json: has other minutes; choose another --results"):
        Results(tmp_path).agree(recipe(minutes=6.0))
    with pytest.raises(WaypostError, match="has other settings"):
        Results(tmp_path).agree(recipe(settings={"por": {"tau": 0.8}}))


def test_an_empty_folder_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(WaypostError, match="holds no results"):
        Results(tmp_path / "none", read_only=True).agree(recipe())
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"identity": 3}'])
def test_a_damaged_file_is_named(dataset: Dataset, tmp_path: Path, text: str) -> None:
    (tmp_path / "walk" / "bc").mkdir(parents=True)
    (tmp_path / "walk/bc/0.json").write_text(text)
    with pytest.raises(WaypostError, match=r"0\.json") as error:
        Results(tmp_path).run(small(dataset, seeds=1), dataset, "walk/bc", Callback())
    assert "\n" not in str(error.value)
