"""Options of the commands that train many times, and how they show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from waypost.errors import WaypostError


@dataclass(frozen=True)
class ScaleOptions:
    """Where trainings run; see docs/scale.md."""

    workers: int | None = None
    """Train so many at once on this machine, by a Ray of its own (extra ray); by default one after the other."""
    address: str | None = None
    """Train on a running Ray cluster: auto or HOST:PORT; --workers then says how many at once."""
    cpus_per_trial: float = 1.0
    """Cores each training gets on Ray."""
    gpus_per_trial: float = 0.0
    """GPUs each training gets on Ray; 0.25 lets four share one."""
    missing_only: bool = False
    """Train only what is not finished and what no other process is at, and show what there is then."""
    status: bool = False
    """Train nothing: show how far each training is, and the results there are."""
    track: tuple[Literal["tensorboard", "wandb", "trackio"], ...] = ()
    """Tools that are told every number of every training; see docs/track.md."""

    @property
    def on_ray(self) -> bool:
        return self.workers is not None or self.address is not None

    def runner(self) -> Any:
        """What trains: see `waypost.studies.workers`."""
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
