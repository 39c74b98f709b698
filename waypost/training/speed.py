"""The processor time of an update: measured before a training, and during one.

Processor seconds are counted over all threads of the process, so other work on the machine hardly changes them. The
median of several chunks counts, so compilation and evaluations are not included.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from waypost.agents import able
from waypost.data.dataset import Dataset
from waypost.data.rewards import learning_rewards
from waypost.errors import WaypostError
from waypost.resources import cores
from waypost.training.callbacks import Callback
from waypost.training.compilation import keep_programs
from waypost.training.loop import Learner
from waypost.training.plan import Plan

CHUNK, CHUNKS = 50, 10
"""Updates per measurement, and number of measurements."""
ENOUGH_SECONDS = 10.0
"""Slow updates are measured no longer than this, but at least three times."""


def measure(planned: Plan[Any], dataset: Dataset) -> dict[str, float]:
    """Processor seconds of an update of each stage, on one core."""
    if hasattr(os, "sched_getaffinity") and cores() > 1:
        raise WaypostError(
            f"the speed of a training is measured on one core, this process has {cores()}: start it with `taskset -c 0`"
        )
    keep_programs()
    chosen = able(dataset, planned.algorithm).load()
    rewarded = learning_rewards(dataset, planned.convention, getattr(planned.config, "discount", 0.99))
    columns, spec = chosen.prepare(planned.config, rewarded)
    learner = Learner(chosen(planned.config, spec, planned.steps), columns, planned.seeds)
    seconds = {}
    for stage in learner.algorithm.stages:
        learner.advance(stage, CHUNK)  # compiles it
        chunks: list[float] = []
        while len(chunks) < 3 or (len(chunks) < CHUNKS and sum(chunks) < ENOUGH_SECONDS):
            begun = time.process_time()
            learner.advance(stage, CHUNK)
            chunks.append(time.process_time() - begun)
        seconds[stage.name] = float(np.median(chunks)) / CHUNK
    return seconds


class Stopwatch(Callback):
    """Counts the processor seconds of a training's updates."""

    def __init__(self) -> None:
        self._begun, self._mark, self._step = 0.0, 0.0, 0
        self._share = 1.0
        self._chunks: dict[str, list[tuple[int, float]]] = {}

    def start(self, plan: Plan[Any], total: int, done: int) -> None:
        self._begun = time.monotonic()
        self._mark, self._step = time.process_time(), done
        self._share = 1 - done / total

    def advance(self, stage: str, step: int) -> None:
        now = time.process_time()
        self._chunks.setdefault(stage, []).append((step - self._step, now - self._mark))
        self._mark, self._step = time.process_time(), step

    def evaluated(self, step: int, rows: list[dict[str, Any]]) -> None:
        self._mark = time.process_time()

    @property
    def elapsed(self) -> float:
        """Seconds since the training started."""
        return round(time.monotonic() - self._begun, 3)

    @property
    def seconds(self) -> float | None:
        """Of all updates, including those before a resumption; None if there were none."""
        total = 0.0
        for chunks in self._chunks.values():
            # Of two chunks, the one without compilation.
            middle = sorted(seconds / updates for updates, seconds in chunks)[(len(chunks) - 1) // 2]
            total += middle * sum(updates for updates, _ in chunks)
        return round(total / self._share, 1) if self._chunks else None
