"""Options shared by several commands."""

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
    """Run directory: read the data as that run did; options given here override it."""
    pipeline: tyro.conf.OmitArgPrefixes[Pipeline] = field(default_factory=Pipeline)

    @property
    def reading(self) -> dict[str, Any]:
        """The arguments `columns` and `pipeline` of functions that read data."""
        usual = reading_of(self.columns_from)
        return vars(usual.with_given(self.columns, self.pipeline))


def reading_of(run: Path | None) -> Reading:
    """How a run read its data; the defaults if there is no run."""
    if run is None:
        return Reading()
    from waypost.training.plan import read_reading

    return read_reading(run)


@dataclass(frozen=True)
class EvaluationOptions:
    """How agents are evaluated; by default as the task says."""

    evaluate_every: int | None = None
    """Steps between evaluations; 0 = only at the end."""
    episodes: int | None = None
    """Episodes per evaluation and seed."""
    average_last: int | None = None
    """Number of last evaluations whose mean is the result."""
    evaluation_seed: int | None = None
    """Seed of the evaluation environments."""
    evaluation_workers: int | None = None
    """Processes for environments that cannot step as a batch; by default they step one by one in this process."""

    @property
    def given(self) -> dict[str, int]:
        """The fields of `Protocol` that are given here."""
        from waypost.envs.tasks import OPTIONS

        fields = {name: getattr(self, option) for name, option in OPTIONS.items()}
        return {name: value for name, value in fields.items() if value is not None}

    def on_top_of(self, usual: Any) -> Any:
        """A `Protocol` with the options given here, and defaults for the rest."""
        return replace(usual, **self.given)


@dataclass(frozen=True)
class Place:
    """The output of a training, and its seeds."""

    out: Path | None = None
    """Run directory; by default runs/ALGO-DATA."""
    resume: bool = False
    """Continue with what the run directory holds: an unfinished run, a finished one, or nothing yet."""
    seeds: int = 1
    """Number of agents to train at once, each with its own seed."""
    first_seed: int = 0
    """Seed of the first agent; the others count up from it."""
    track: tuple[Literal["tensorboard", "wandb", "trackio"], ...] = ()
    """Tracking tools that receive every number; see docs/track.md."""
    strict: bool = False
    """Turn alarms into errors, for example about values that the rewards cannot explain."""
    columns_from: Path | None = None
    """Run directory: read the data as that run did; options given here override it."""
    json: bool = False
    """Print the result as one JSON object, the last line on stdout."""


@dataclass(frozen=True)
class Ground:
    """The options that decide which settings a training starts from; parsed before the rest."""

    data: Annotated[str, SEVERAL] = "four-rooms"
    columns_from: Path | None = None
    env: str | None = None
    preset: str | None = None
    init: str | None = None
    training: str | None = None
    out: Path | None = None
    resume: bool = False
