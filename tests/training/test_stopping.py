"""Trainings that a callback ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import waypost
from waypost.errors import WaypostError
from waypost.training.callbacks import Callback
from waypost.training.stopping import EarlyStopping
from waypost.training.train import train

BC = {"hidden": (8,), "batch_size": 8, "log_every": 2, "preset": "none"}


class Watch(Callback):
    """Remembers all it is told, and has enough after so many logs."""

    def __init__(self, enough: int | None = None):
        self.enough, self.logs, self.scores, self.notes = enough, [], [], []
        self.known_at_stop: list[int] = []

    def logged(self, step: int, rows: list[dict[str, Any]]) -> None:
        self.logs.append((step, rows))

    def evaluated(self, step: int, rows: list[dict[str, Any]]) -> None:
        self.scores.append((step, rows))

    def note(self, text: str) -> None:
        self.notes.append(text)

    def wants_stop(self) -> str:
        self.known_at_stop = [step for step, _ in self.scores]
        return "enough" if len(self.logs) == self.enough else ""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> tuple[waypost.Run, Watch]:
    watch, out = Watch(enough=3), tmp_path_factory.mktemp("stopped") / "run"
    protocol = waypost.Protocol(every=4, episodes=1)
    return train("bc", "t-maze", out=out, steps=20, seeds=2, evaluation=protocol, callback=watch, **BC), watch


def test_a_stopped_run_is_finished_where_it_stopped(stopped: tuple[waypost.Run, Watch]) -> None:
    run, watch = stopped
    assert run.result["stopped"] == {"step": 6, "reason": "enough"}
    assert "stopped at step 6: enough" in watch.notes
    assert run.directory is not None
    loaded = waypost.load_run(run.directory)
    assert loaded.result["stopped"] == run.result["stopped"]
    assert {row["step"] for row in loaded.metrics} == {2, 4, 6}


def test_what_it_ends_with_is_evaluated(stopped: tuple[waypost.Run, Watch]) -> None:
    run, watch = stopped
    assert [row["step"] for row in run.evaluations] == [4, 4, 6, 6]
    assert watch.known_at_stop == [4], "the evaluation of step 4 must be known when step 6 is asked about"


def test_callbacks_are_told_the_rows_of_the_tables(stopped: tuple[waypost.Run, Watch]) -> None:
    run, watch = stopped
    assert [row for _, rows in watch.logs for row in rows] == run.metrics
    assert [row for _, rows in watch.scores for row in rows] == run.evaluations


def test_stopping_changes_no_weight(stopped: tuple[waypost.Run, Watch]) -> None:
    """What the first six steps of the whole training gave; its step sizes know how long it was meant to be."""
    run, _ = stopped

    class Six(Watch):
        def wants_stop(self) -> str:
            return "six" if self.logs[-1][0] == 6 else ""

    again = train("bc", "t-maze", steps=20, seeds=2, env="none", callback=Six(), **BC)
    places = waypost.load("t-maze").observations[:20]
    for one, two in zip(run.policies, again.policies, strict=True):
        assert np.array_equal(one.act(places), two.act(places))
    assert again.result["per_seed"][0]["score"] is None


def fed(stopping: EarlyStopping, *values: float | None) -> list[bool]:
    answers = []
    for step, value in enumerate(values):
        stopping.evaluated(step, [{"step": step, "seed": 0, "score": value}])
        stopping.logged(step, [{"step": step, "seed": 0, "loss": 1.0}])
        answers.append(bool(stopping.wants_stop()))
    return answers


def test_patience_ends_after_so_many_rows_without_a_better_one() -> None:
    stopping = EarlyStopping("score", patience=2)
    assert fed(stopping, 1.0, 3.0, 2.0, None, 4.0, 4.0, 3.0) == [False] * 6 + [True]
    assert stopping.wants_stop() == "score was best at step 4, 4; 2 rows without a better one"
    assert fed(EarlyStopping("score", patience=2, better="lower"), 3.0, 2.0, 2.0, 5.0) == [False, False, False, True]
    assert fed(EarlyStopping("score", patience=1, least=0.5), 1.0, 1.4) == [False, True]
    assert fed(EarlyStopping("loss", patience=2, better="lower"), 0.0, 0.0, 0.0) == [False, False, True]
    assert fed(EarlyStopping("nothing", patience=1), 1.0, 1.0) == [False, False]


def test_several_seeds_count_by_their_mean() -> None:
    stopping = EarlyStopping("score", patience=1)
    for rows in ([1.0, 3.0], [2.5, 2.5], [0.0, 5.0]):
        stopping.evaluated(0, [{"score": value} for value in rows])
    assert stopping.best == 2.5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"patience": 0}, "patience must be 1 or more, got 0"),
        ({"better": "larger"}, "better must be 'higher' or 'lower', got 'larger'"),
        ({"least": float("nan")}, "least must be 0 or more, got nan"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(WaypostError, match=words):
        EarlyStopping("score", **options)
