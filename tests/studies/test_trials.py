"""Trials: what they are, how far they are, and where they are carried out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from waypost.data.dataset import Dataset
from waypost.errors import DirectoryError, InterruptedRun, WaypostError
from waypost.studies import workers
from waypost.studies.lease import Lease
from waypost.studies.results import NotTrained
from waypost.studies.trials import Trial, carry_out, identity, status
from waypost.studies.workers import ATTEMPTS, HERE, Board, Here, OnRay, only_read
from waypost.training.callbacks import Callback
from waypost.training.plan import plan
from waypost.training.runs import Run


class Notes(Callback):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
def trial(dataset: Dataset, tmp_path: Path) -> Trial:
    settings: dict[str, Any] = {"hidden": (8,), "batch_size": 8, "preset": "none", "steps": 6, "log_every": 2}
    planned = plan("bc", dataset, **settings)
    return Trial(planned, dataset, tmp_path / "runs" / identity(planned))


def test_the_name_is_made_of_what_changes_the_result(trial: Trial) -> None:
    planned = trial.plan
    others = [
        replace(planned, steps=7),
        replace(planned, seeds=(1,)),
        replace(planned, hold_out=0.1),
        replace(planned, data="other"),
        replace(planned, config=replace(planned.config, learning_rate=0.5)),
    ]
    assert len({identity(each) for each in [planned, *others]}) == 6
    same = replace(planned, preset="default", evaluation=replace(planned.evaluation, workers=3))
    assert identity(same) == identity(planned)


def test_a_trial_pauses_and_ends_with_the_same_bytes(trial: Trial, tmp_path: Path) -> None:
    assert status(trial).words == "not trained yet"
    for until, step in ((3, 4), (2, 4)):
        with pytest.raises(InterruptedRun) as stop:
            carry_out(replace(trial, until=until), Callback())
        assert stop.value.step == step, "it pauses after a row of metrics, and stays where it is"
    assert status(trial).words == "interrupted at step 4 of 6"
    assert (trial.place / "policy" / "policy.json").is_file(), "what has paused can be judged"
    run = carry_out(replace(trial, until=5), Callback())
    assert (status(trial).words, run.directory) == ("finished", trial.place)
    whole = carry_out(replace(trial, place=tmp_path / "whole"), Callback())
    for place in (trial.place, tmp_path / "whole"):
        assert (place / "policy" / "seed-0.safetensors").is_file()
    assert (trial.place / "policy" / "seed-0.safetensors").read_bytes() == (
        tmp_path / "whole" / "policy" / "seed-0.safetensors"
    ).read_bytes()
    assert whole.metrics == run.metrics
    log = trial.place.with_name(f"{trial.place.name}.log").read_text()
    assert [line.split(" ", 2)[2] for line in log.splitlines()] == [
        f"bc on {trial.plan.data}: from step 0 of 6",
        "stopped at step 4",
        f"bc on {trial.plan.data}: from step 4 of 6",
        "finished",
    ]


def test_what_another_process_holds_is_left_alone(trial: Trial) -> None:
    trial.place.parent.mkdir()
    other = Lease(trial.place)
    assert other.take()
    other.is_at(3, 6)
    other.beat()
    where = f"{other.holder['host']} {other.holder['pid']}"
    with pytest.raises(NotTrained, match=f"running at step 3 of 6, {where}"):
        carry_out(trial, Callback(), wait=False)
    [(_, outcome)] = Here(missing_only=True)([trial], Callback())
    assert isinstance(outcome, NotTrained)
    [(_, outcome)] = only_read([trial], Callback())
    assert str(outcome) == f"running at step 3 of 6, {where}"
    assert not trial.place.exists()


def test_a_worker_that_lost_its_lease_writes_nothing_more(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stolen(Callback):
        def logged(self, step: int, rows: Any) -> None:
            if step == 4:
                (file,) = trial.place.parent.glob(".*.lease")
                file.unlink()
                assert Lease(trial.place).take()

    with pytest.raises(DirectoryError, match="another worker has taken over"):
        carry_out(trial, Stolen())
    assert status(trial).step == 0, "the last checkpoint is from before"


# -- a Ray that does everything at once -------------------------------------------------------------


class Lost(Exception):
    """A worker that died."""


class Cancelled(Exception):
    pass


class FakeRay:
    """Runs what it is given when it is asked for it; `deaths` workers die first."""

    def __init__(self, deaths: int = 0, before_death: Callable[[Trial], None] = lambda trial: None):
        self.deaths, self.before_death = deaths, before_death
        self.puts: list[Any] = []
        self.cancelled: list[Any] = []
        self.asked: dict[str, Any] = {}
        names = ("WorkerCrashedError", "NodeDiedError", "LocalRayletDiedError", "OutOfMemoryError", "ObjectLostError")
        self.exceptions = SimpleNamespace(**dict.fromkeys(names, Lost))
        self.running = False

    def init(self, **options: Any) -> None:
        self.asked, self.running = options, True

    def shutdown(self) -> None:
        self.running = False

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 1.0}

    def put(self, value: Any) -> Any:
        self.puts.append(value)
        return value

    def remote(self, function: Callable[..., Any]) -> Any:
        self.function = function
        return SimpleNamespace(options=self._options)

    def _options(self, **options: Any) -> Any:
        self.resources = options
        return SimpleNamespace(remote=lambda *words: words)

    def wait(self, references: list[Any], **options: Any) -> tuple[list[Any], list[Any]]:
        return references[:1], references[1:]

    def get(self, words: Any) -> Any:
        if self.deaths:
            self.deaths -= 1
            self.before_death(words[0])
            raise Lost
        return self.function(*words)

    def cancel(self, reference: Any, **options: Any) -> None:
        self.cancelled.append(reference)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    fake = FakeRay()
    monkeypatch.setattr(workers, "require", lambda *_: fake)
    return fake


def several(trial: Trial, count: int) -> list[Trial]:
    return [replace(trial, place=trial.place.with_name(f"trial-{number}")) for number in range(count)]


class Ended(Board):
    def __init__(self) -> None:
        self.words: list[str] = []

    def ended(self, trial: Trial, words: str) -> None:
        self.words.append(f"{trial.place.name}: {words}")


def test_trials_go_to_workers_with_their_share_of_the_machine(trial: Trial, ray: FakeRay) -> None:
    board = Ended()
    found = list(OnRay(2, cpus=1, gpus=0.0, board=board)(several(trial, 2), Callback()))
    assert [type(outcome) for _, outcome in found] == [Run] * 2
    assert board.words == [f"trial-{number}: finished" for number in range(2)]
    assert len(ray.puts) == 1, "the data lie in the shared memory once"
    assert (ray.asked["address"], ray.asked["num_cpus"], ray.running) == ("local", 2, False)
    variables = ray.asked["runtime_env"]["env_vars"]
    assert (variables["WAYPOST_CORES"], variables["NPROC"]) == ("1", "1"), "ours, and XLA's"
    assert ray.resources == {"max_retries": 0, "num_cpus": 1, "num_gpus": 0.0}


def test_what_is_finished_needs_no_ray(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    list(HERE([trial], Callback()))
    monkeypatch.delattr(workers, "require")
    [(_, outcome)] = OnRay(2)([trial], Callback())
    assert isinstance(outcome, Run)


def test_a_dead_worker_is_replaced_as_long_as_something_is_saved(trial: Trial, ray: FakeRay) -> None:
    def a_little(given: Trial) -> None:
        with pytest.raises(InterruptedRun):
            carry_out(replace(given, data=trial.data, until=2), Callback())
        checkpoint = given.place / "checkpoint" / "state.safetensors"
        checkpoint.write_bytes(checkpoint.read_bytes())

    ray.deaths, ray.before_death, notes = 2 * ATTEMPTS, a_little, Notes()
    [(_, outcome)] = OnRay(1)([trial], notes)
    assert isinstance(outcome, Run)
    assert sum("its worker died" in note for note in notes.notes) == 2 * ATTEMPTS
    assert "interrupted at step 2 of 6" in notes.notes[-1]


def test_workers_that_die_again_and_again_end_the_trial_and_not_the_others(trial: Trial, ray: FakeRay) -> None:
    ray.deaths = ATTEMPTS
    first, second = several(trial, 2)
    found = dict(OnRay(1)([first, second], Callback()))
    # A trial whose worker died comes first again.
    assert isinstance(found[first], WaypostError)
    assert f"{ATTEMPTS} workers died in it before anything was saved" in str(found[first])
    assert isinstance(found[second], Run)


def test_mistakes_are_outcomes_and_directories_end_everything(trial: Trial, ray: FakeRay, tmp_path: Path) -> None:
    wrong = replace(trial, plan=replace(trial.plan, keep_best="luck"), place=tmp_path / "wrong")
    lost = replace(trial, plan=replace(trial.plan, data="nowhere.npz"), data="nowhere.npz", place=tmp_path / "lost")
    found = dict(OnRay(1)([lost, wrong], Callback()))
    assert "luck" in str(found[wrong])
    assert "nowhere.npz" in str(found[lost])
    (tmp_path / "busy").mkdir()
    (tmp_path / "busy" / "letter.txt").touch()
    with pytest.raises(DirectoryError, match="is not a run directory"):
        list(OnRay(1)([replace(trial, place=tmp_path / "busy")], Callback()))
    assert not ray.running


def test_who_stops_has_the_workers_save(trial: Trial, ray: FakeRay) -> None:
    class Stops(Board):
        def ended(self, trial: Trial, words: str) -> None:
            raise KeyboardInterrupt

    notes = Notes()
    with pytest.raises(KeyboardInterrupt):
        list(OnRay(3, board=Stops())(several(trial, 3), notes))
    assert len(ray.cancelled) == 2
    assert notes.notes[-1] == "stopping 2 trainings; each saves before it ends"
    assert not ray.running


def test_a_feed_may_wait_for_what_comes_out(trial: Trial, ray: FakeRay) -> None:
    first, second = several(trial, 2)
    ended: list[Trial] = []

    def feed() -> Iterator[Trial | None]:
        yield first
        while not ended:
            yield None
        yield second

    for each, _ in OnRay(2)(feed(), Callback()):
        ended.append(each)
    assert ended == [first, second]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": 0}, "workers must be from 1 to 10000, got 0"),
        ({"cpus": -1.0}, "cpus per trial must be from 0.001 to 10000, got -1"),
        ({"gpus": -1.0}, "gpus per trial must be from 0 to 1000, got -1"),
    ],
)
def test_numbers_are_checked(options: dict[str, Any], words: str) -> None:
    with pytest.raises(WaypostError, match=words):
        OnRay(**options)


def test_a_missing_gpu_or_cluster_is_named(trial: Trial, ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WaypostError, match=r"needs 0.5 GPUs, this machine has fewer"):
        list(OnRay(1, gpus=0.5)([trial], Callback()))

    def refuse(**options: Any) -> None:
        raise ConnectionError(f"no Ray at {options['address']}\nand much more")

    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(WaypostError, match=r"^Ray at host:1 cannot be used: no Ray at host:1$"):
        list(OnRay(address="host:1")([trial], Callback()))
