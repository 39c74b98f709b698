"""Studies that ask for trainings one by one, carried out many at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from waypost.data.dataset import Dataset
from waypost.errors import WaypostError
from waypost.studies.paper.run import run
from waypost.studies.results import NotTrained
from waypost.studies.rounds import Rounds
from waypost.studies.trials import Trial
from waypost.studies.workers import Feed, Outcome, only_read
from waypost.training.callbacks import Callback
from waypost.training.plan import plan
from waypost.training.runs import Run, result


class Trained:
    """Says what becomes of trials by their names, and what was asked for together."""

    def __init__(self, **outcomes: Any):
        self.outcomes, self.rounds = outcomes, []

    def __call__(self, trials: Feed, callback: Callback) -> Iterator[tuple[Trial, Outcome]]:
        asked = [trial for trial in trials if trial is not None]
        self.rounds.append([trial.place.name for trial in asked])
        for trial in asked:
            yield trial, self.outcomes[trial.place.name]


@pytest.fixture
def trial(dataset: Dataset) -> Any:
    planned = plan("bc", dataset, steps=4)
    return lambda name: Trial(planned, dataset, Path("runs") / name)


def finished(name: str) -> Any:
    return Run(None, {"name": name}, [], [], [])  # type: ignore[arg-type]


def test_what_depends_on_others_comes_in_the_next_round(trial: Any) -> None:
    runner = Trained(a=finished("a"), b=WaypostError("diverged"), c=finished("c"))
    rounds = Rounds(runner, Callback())

    def study() -> list[str]:
        found = []
        for name in ("a", "b"):
            try:
                found.append(rounds.get(trial(name)).result["name"])
            except NotTrained:
                found.append("missing")
            except WaypostError as error:
                found.append(str(error))
        if found[0] == "a":
            found.append(rounds.get(trial("c")).result["name"])
        return found

    assert rounds.until_nothing_is_missing(study) == ["a", "diverged", "c"]
    assert runner.rounds == [["a", "b"], ["c"]]


def test_an_error_that_training_would_not_change_is_raised(trial: Any) -> None:
    rounds = Rounds(Trained(a=finished("a")), Callback())

    def study() -> None:
        rounds.get(trial("a"))
        raise WaypostError("wrong")

    with pytest.raises(WaypostError, match="wrong"):
        rounds.until_nothing_is_missing(study)


def test_an_experiment_asks_for_all_it_can_at_once(tmp_path: Path) -> None:
    asked: list[str] = []

    def runner(trials: Feed, callback: Callback) -> Iterator[tuple[Trial, Outcome]]:
        for trial in trials:
            assert trial is not None
            asked.append(trial.name)
            measures = {"return": 1.0, "score": 50.0, "success_rate": None, "episode_length": 9.0}
            per_seed = [{"seed": seed, **measures} for seed in trial.plan.seeds]
            outcome = result("por", trial.plan.data, None, trial.plan.steps, per_seed, 60.0)
            rows = [{"step": step, **row} for step in (50, 100) for row in per_seed]
            late = trial.name == "antmaze-umaze-diverse/por-sparse"
            yield trial, NotTrained("running") if late else Run(trial.plan, outcome, [], [], rows)

    data = ["antmaze-umaze", "antmaze-umaze-diverse"]
    record = run("sparse", tmp_path, seeds=2, data=data, runner=runner)
    assert asked == [f"{name}/{kind}" for name in data for kind in ("por", "por-sparse")]
    assert record.training == 180
    assert (tmp_path / "sparse" / "sparse.csv").read_text().count("50.0") >= 3
    with pytest.raises(WaypostError):
        run("sparse", tmp_path / "status", seeds=2, data=data, runner=only_read)
    assert not (tmp_path / "status").exists()


def test_workers_and_a_folder_of_results_do_not_go_together(tmp_path: Path) -> None:
    with pytest.raises(WaypostError, match="do not work with --results"):
        run("table1", tmp_path, results=tmp_path / "results", runner=only_read)
    with pytest.raises(WaypostError, match="do not work for stitching, which trains nothing"):
        run("stitching", tmp_path, runner=only_read)
