"""Evaluations beside the training: the same numbers as after it, in order, and none lost when it stops."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from samples import TINY

import waypost
from waypost.envs.tasks import task
from waypost.files import read_arrays
from waypost.training import beside, trainer
from waypost.training.callbacks import Callback
from waypost.training.evaluation import rollouts
from waypost.training.state import CHECKPOINT

PROTOCOL = waypost.Protocol(every=10, episodes=2)


def small(out: Path | None = None, **options: Any) -> waypost.Run:
    return waypost.train(
        "por",
        "t-maze",
        out=out,
        evaluation=PROTOCOL,
        **{**TINY, "steps": 40, "log_every": 5, "preset": "none"},
        **options,
    )


@pytest.fixture(scope="module")
def whole() -> waypost.Run:
    return small(seeds=[3, 4])


def test_they_find_what_evaluating_afterwards_finds(whole: waypost.Run) -> None:
    assert [(row["step"], row["seed"]) for row in whole.evaluations] == [
        (s, i) for s in (10, 20, 30, 40) for i in (3, 4)
    ]
    agents = [policy.agent for policy in whole.policies]
    last = rollouts(agents, task("t-maze"), PROTOCOL.episodes, PROTOCOL.seed).measures(task("t-maze"))
    assert [{key: row[key] for key in last[0]} for row in whole.evaluations[-2:]] == last


def test_training_goes_on_meanwhile_and_waits_before_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first evaluation ends only when training has advanced; the callback hears of all of them in order."""
    advanced, seen, threads = threading.Event(), [], set()
    honest: Callable[..., Any] = beside.rollouts

    def slow(*args: Any, **options: Any) -> Any:
        threads.add(threading.current_thread().name)
        assert advanced.wait(60)
        return honest(*args, **options)

    class Watching(Callback):
        def advance(self, stage: str, step: int) -> None:
            if step > 10:
                advanced.set()

        def evaluated(self, step: int, rows: list[dict[str, Any]]) -> None:
            seen.append(step)

    monkeypatch.setattr(beside, "rollouts", slow)
    monkeypatch.setattr(trainer, "cores", lambda: 2)
    small(callbacks=[Watching()])
    assert seen == [10, 20, 30, 40]
    assert all(name.startswith("evaluation") for name in threads)


def test_on_a_single_core_training_waits_for_each(whole: waypost.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """So what either of them takes can be told apart; what they find is the same."""
    events: list[tuple[str, int]] = []

    class Watching(Callback):
        def advance(self, stage: str, step: int) -> None:
            events.append(("advanced", step))

        def evaluated(self, step: int, rows: list[dict[str, Any]]) -> None:
            events.append(("evaluated", step))

    monkeypatch.setattr(trainer, "cores", lambda: 1)
    alone = small(seeds=[3, 4], callbacks=[Watching()])
    assert alone.evaluations == whole.evaluations
    for step in (10, 20, 30):
        assert events.index(("evaluated", step)) == events.index(("advanced", step + 5)) - 1


def test_a_checkpoint_lacks_at_most_the_evaluation_of_its_own_step(
    whole: waypost.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that dies during its second evaluation evaluates those agents when it is resumed."""
    honest: Callable[..., Any] = beside.rollouts
    calls = []

    def failing(*args: Any, **options: Any) -> Any:
        calls.append(args)
        if len(calls) == 2:
            raise ZeroDivisionError("the simulator is broken")
        return honest(*args, **options)

    monkeypatch.setattr(beside, "rollouts", failing)
    with pytest.raises(ZeroDivisionError, match="the simulator is broken"):
        small(tmp_path / "run", seeds=[3, 4])
    arrays, record = read_arrays(tmp_path / "run" / CHECKPOINT)
    assert int(arrays["step"]) == 20
    assert {row["step"] for row in record["evaluations"]} == {10}
    resumed = small(tmp_path / "run", seeds=[3, 4], resume=True)
    assert resumed.evaluations == whole.evaluations
    assert resumed.metrics == whole.metrics
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("evaluation")] == []
