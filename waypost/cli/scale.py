"""Options of the commands that train many times, and how their progress is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from waypost.errors import WaypostError


@dataclass(frozen=True)
class ScaleOptions:
    """Where trainings run; see docs/scale.md."""

    workers: int | None = None
    """Trainings at once on this machine, in a Ray of its own (extra ray); by default one after the other."""
    address: str | None = None
    """Train on a running Ray cluster: auto or HOST:PORT; --workers then limits the trainings at once."""
    cpus_per_trial: float = 1.0
    """Cores per training on Ray."""
    gpus_per_trial: float = 0.0
    """GPUs per training on Ray; 0.25 lets four share one."""
    missing_only: bool = False
    """Train only what is neither finished nor claimed by another process, and show the results so far."""
    status: bool = False
    """Train nothing: show the progress of each training, and the results so far."""
    track: tuple[Literal["tensorboard", "wandb", "trackio"], ...] = ()
    """Tracking tools that receive every number; see docs/track.md."""

    @property
    def on_ray(self) -> bool:
        return self.workers is not None or self.address is not None

    def runner(self) -> Any:
        """Where the trainings run: see `waypost.studies.workers`."""
        from waypost.console.trials import TrialsBar
        from waypost.report.finished import RunPage
        from waypost.studies.workers import Here, OnRay, only_read

        if not self.on_ray and (self.cpus_per_trial, self.gpus_per_trial) != (1.0, 0.0):
            raise WaypostError("--cpus-per-trial and --gpus-per-trial are for Ray: add --workers or --address")
        if self.status:
            return only_read
        common: dict[str, Any] = {"missing_only": self.missing_only, "track": self.track}
        if not self.on_ray:
            return Here(**common)
        return OnRay(
            self.workers,
            self.address,
            self.cpus_per_trial,
            self.gpus_per_trial,
            **common,
            watcher=RunPage,
            board=TrialsBar(),
        )
