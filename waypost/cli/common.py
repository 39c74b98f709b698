"""Options that several commands have."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from waypost.data.names import SEVERAL
from waypost.data.pipeline import Pipeline, Reading
from waypost.data.roles import Columns


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """How a log is read."""

    columns: Columns = field(default_factory=Columns)
    columns_from: Path | None = None
    """A run directory: read the data as that run read its own; what is given besides lies on top."""
    pipeline: tyro.conf.OmitArgPrefixes[Pipeline] = field(default_factory=Pipeline)

    @property
    def reading(self) -> dict[str, Any]:
        """The arguments `columns` and `pipeline` of whatever reads data."""
        usual = reading_of(self.columns_from)
        return vars(usual.with_given(self.columns, self.pipeline))


def reading_of(run: Path | None) -> Reading:
    """How a run read its data; the usual, if no run is named."""
    if run is None:
        return Reading()
    from waypost.training.plan import read_reading

    return read_reading(run)


@dataclass(frozen=True)
class EvaluationOptions:
    """How agents are evaluated; what is not given is as the task says."""

    evaluate_every: int | None = None
    """Steps between evaluations; 0 = only at the end."""
    episodes: int | None = None
    """Episodes per evaluation and seed."""
    average_last: int | None = None
    """The result is the mean over this many last evaluations."""
    evaluation_seed: int | None = None
    """Seed of the evaluation's environments."""
    evaluation_workers: int | None = None
    """Processes for environments that cannot step as a batch; by default none, and they step one by one."""

    @property
    def given(self) -> dict[str, int]:
        """The fields of `Protocol` that are given here."""
        from waypost.envs.tasks import OPTIONS

        fields = {name: getattr(self, option) for name, option in OPTIONS.items()}
        return {name: value for name, value in fields.items() if value is not None}

    def on_top_of(self, usual: Any) -> Any:
        """A `Protocol` with what is given here, and the rest as usual."""
        return replace(usual, **self.given)


@dataclass(frozen=True)
class Place:
    """Where a training goes, and its seeds."""

    out: Path | None = None
    """Run directory; by default runs/ALGO-DATA."""
    resume: bool = False
    """Continue with what the directory holds: an unfinished run, a finished one, or nothing yet."""
    seeds: int = 1
    """How many agents to train at once, each with its own seed."""
    first_seed: int = 0
    """Their seeds count up from here."""
    track: tuple[Literal["tensorboard", "wandb", "trackio"], ...] = ()
    """Tools that are told every number while it trains; see docs/track.md."""
    strict: bool = False
    """Make errors of alarms: what training should not do, such as values that no reward explains."""
    columns_from: Path | None = None
    """A run directory: read the data as that run read its own; what is given besides lies on top."""
    json: bool = False
    """Print the result as one JSON object, the last line on stdout."""


@dataclass(frozen=True)
class Ground:
    """What decides which settings a training starts from; read from the line before the rest."""

    data: Annotated[str, SEVERAL] = "four-rooms"
    columns_from: Path | None = None
    env: str | None = None
    preset: str | None = None
    init: str | None = None
    training: str | None = None
    out: Path | None = None
    resume: bool = False
