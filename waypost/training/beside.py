"""Evaluations beside the training: copies of the agents act in a thread while the originals keep learning."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from waypost.agents.agent import Agent
from waypost.envs.tasks import Protocol, Task
from waypost.training.evaluation import rollouts

Rows = list[dict[str, Any]]


class Evaluations:
    """Runs at most one evaluation at a time, so they finish in the order they were started.

    The simulation and the compiled programs release the interpreter's lock, so both sides make progress. The result of
    an evaluation does not depend on what runs beside it.
    """

    def __init__(self, task: Task, protocol: Protocol, seeds: Sequence[int]):
        self.task, self.protocol, self.seeds = task, protocol, seeds
        self._thread = ThreadPoolExecutor(1, "evaluation")
        self._running: Future[Rows] | None = None

    def begin(self, step: int, agents: Sequence[Agent]) -> None:
        """Start evaluating the agents of this step, which must no longer change."""
        assert self._running is None, "the previous evaluation has not been taken"
        self._running = self._thread.submit(self._evaluate, step, agents)

    def take(self, wait: bool) -> Rows:
        """The rows of the evaluation, one per seed; empty if none was started, or none has finished."""
        if self._running is None or not (wait or self._running.done()):
            return []
        running, self._running = self._running, None
        return running.result()

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)

    def _evaluate(self, step: int, agents: Sequence[Agent]) -> Rows:
        protocol = self.protocol
        found = rollouts(agents, self.task, protocol.episodes, protocol.seed, workers=protocol.workers)
        return [
            {"step": step, "seed": seed, **each}
            for seed, each in zip(self.seeds, found.measures(self.task), strict=True)
        ]
