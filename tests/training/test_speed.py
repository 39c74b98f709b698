"""Processor time of updates."""

from __future__ import annotations

from typing import Any

import pytest
from samples import TINY

from waypost.data.dataset import Dataset
from waypost.errors import WaypostError
from waypost.training import speed
from waypost.training.plan import plan
from waypost.training.speed import Stopwatch, measure


def test_every_stage_is_measured_without_its_compilation(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "cores", lambda: 1)
    monkeypatch.setattr(speed, "CHUNK", 2)
    clock = iter(range(1000))
    monkeypatch.setattr(speed.time, "process_time", lambda: float(next(clock)))
    planned = plan("por", dataset, training="staged", steps=8, **TINY)
    assert measure(planned, dataset) == {"value and guide": 0.5, "executor": 0.5}


def test_it_takes_one_core(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "cores", lambda: 2)
    with pytest.raises(WaypostError, match="on one core, this process has 2: start it with `taskset -c 0`"):
        measure(plan("bc", dataset), dataset)


def test_neither_compilation_nor_evaluations_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(speed.time, "process_time", lambda: now)
    watch, planned = Stopwatch(), Any
    assert watch.seconds is None
    watch.start(planned, 500, 0)  # type: ignore[arg-type]
    for step, seconds in ((100, 30.0), (200, 1.0), (300, 1.0), (350, 0.5)):  # it is compiled first
        now += seconds
        watch.advance("value", step)
        now += 100.0
        watch.evaluated(step, [])
    for step, seconds in ((400, 50.0), (500, 4.0)):
        now += seconds
        watch.advance("policy", step)
    assert watch.seconds == pytest.approx(3.5 + 6.0)  # 150 updates of 0.04 s each


def test_what_a_resumed_training_did_before_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(speed.time, "process_time", lambda: now)
    watch = Stopwatch()
    watch.start(Any, 400, 300)  # type: ignore[arg-type]
    now = 2.0
    watch.advance("policy", 400)
    assert watch.seconds == 8.0
