"""Sends the numbers of a training to tracking tools: TensorBoard, W&B, trackio.

A number has the same name as in the run directory: metrics/value_loss is the column value_loss of metrics.csv,
evaluations/score the column score of evaluations.csv. With several seeds, /seed-3 is appended.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, Literal, Protocol

from waypost.errors import WaypostError
from waypost.resources import require
from waypost.training.callbacks import Callback
from waypost.training.plan import Plan

Kind = Literal["tensorboard", "wandb", "trackio"]
PROJECT = "waypost"
"""The project name of all runs."""


class Sink(Protocol):
    """Receives numbers."""

    def log(self, values: dict[str, float], step: int) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """Event files in the run directory: `tensorboard --logdir RUN`."""

    def __init__(self, run: Path, settings: dict[str, Any], done: int):
        module = require("tensorboardX", "tensorboard", "tracking with TensorBoard")
        # Entries after the checkpoint a run continues from are hidden.
        self.writer = module.SummaryWriter(str(run / "tensorboard"), purge_step=done + 1 if done else None)

    def log(self, values: dict[str, float], step: int) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        self.writer.close()


class Trackio:
    """A local database of trackio: `trackio show --project waypost`. Nothing leaves the machine."""

    def __init__(self, run: Path, settings: dict[str, Any], done: int):
        self.module = require("trackio", "trackio", "tracking with trackio")
        with _stdout_kept():
            self.run = self.module.init(
                PROJECT,
                name=run.name,
                config=settings,
                resume="allow" if done else "never",
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )

    def log(self, values: dict[str, float], step: int) -> None:
        self.run.log(values, step=step)

    def close(self) -> None:
        with _stdout_kept():
            self.module.finish()  # the run's own would be called again when Python exits, on stdout


class Wandb:
    """W&B as configured on this machine; WANDB_MODE=offline keeps everything local."""

    def __init__(self, run: Path, settings: dict[str, Any], done: int):
        module = require("wandb", "wandb", "tracking with W&B")
        place = hashlib.blake2b(str(run.resolve()).encode(), digest_size=8).hexdigest()
        with _stdout_kept():
            self.run = module.init(
                project=PROJECT, name=run.name, id=place, resume="allow", config=settings, dir=str(run)
            )
            # An evaluation may finish after later steps were logged, which W&B's own counter does not allow.
            self.run.define_metric("step")
            self.run.define_metric("*", step_metric="step")

    def log(self, values: dict[str, float], step: int) -> None:
        self.run.log({**values, "step": step})

    def close(self) -> None:
        with _stdout_kept():
            self.run.finish()


SINKS: dict[str, Callable[[Path, dict[str, Any], int], Sink]] = {
    "tensorboard": TensorBoard,
    "wandb": Wandb,
    "trackio": Trackio,
}
MODULES = {"tensorboard": "tensorboardX", "wandb": "wandb", "trackio": "trackio"}


class Tracking(Callback):
    """Sends every number of a training to a tracking tool.

    kind   "tensorboard", "wandb" or "trackio"
    run    the run directory; its last part is the run's name
    """

    def __init__(self, kind: Kind, run: str | Path):
        if kind not in SINKS:
            raise WaypostError(f"tracking must be one of {', '.join(SINKS)}, got {kind!r}")
        # Checked now, not after minutes of reading data.
        require(MODULES[kind], kind, f"tracking with {kind}")
        self.kind, self.run = kind, Path(run)
        self.sink: Sink | None = None

    def start(self, plan: Plan[Any], total: int, done: int) -> None:
        self.sink = SINKS[self.kind](self.run, plan.to_json(), done)

    def logged(self, step: int, rows: list[dict[str, Any]]) -> None:
        self._log("metrics", step, rows)

    def evaluated(self, step: int, rows: list[dict[str, Any]]) -> None:
        self._log("evaluations", step, rows)

    def stop(self) -> None:
        if self.sink is not None:
            self.sink.close()
            self.sink = None

    def _log(self, table: str, step: int, rows: list[dict[str, Any]]) -> None:
        assert self.sink is not None
        values: dict[str, float] = {}
        for row in rows:
            seed = f"/seed-{row['seed']}" if len(rows) > 1 else ""
            numbers = {name: value for name, value in row.items() if name not in ("step", "seed")}
            values |= {f"{table}/{name}{seed}": n for name, n in numbers.items() if isinstance(n, int | float)}
        self.sink.log(values, step)


@contextmanager
def _stdout_kept() -> Iterator[None]:
    """Send what libraries print to stderr: stdout is for results."""
    with redirect_stdout(sys.stderr):
        yield
