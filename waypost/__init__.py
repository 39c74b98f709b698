"""Waypost: offline reinforcement learning that says where to go and how to get there.

import waypost

run = waypost.train("por", "four-rooms")
run.policy.act([2.0, 2.0])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from waypost.agents import ALGORITHMS as ALGORITHMS
    from waypost.api import (
        adapt as adapt,
        compare as compare,
        evaluate as evaluate,
        load_run as load_run,
        sweep as sweep,
        train as train,
    )
    from waypost.data.convert import convert as convert
    from waypost.data.dataset import Dataset as Dataset
    from waypost.data.inspection import inspect as inspect
    from waypost.data.joining import concatenate as concatenate
    from waypost.data.mapped import NpzWriter as NpzWriter
    from waypost.data.pipeline import Pipeline as Pipeline
    from waypost.data.roles import Columns as Columns
    from waypost.data.sources import load as load, save as save
    from waypost.envs.tasks import TASKS as TASKS, Protocol as Protocol, Task as Task, task as task
    from waypost.errors import (
        DivergenceError as DivergenceError,
        InterruptedRun as InterruptedRun,
        WaypostError as WaypostError,
    )
    from waypost.recording.replicas import collect as collect
    from waypost.shipping.export import export as export
    from waypost.studies.adaptation import Adaptation as Adaptation
    from waypost.studies.comparison import Comparison as Comparison
    from waypost.studies.diagnosis import diagnose as diagnose
    from waypost.studies.findings import Diagnosis as Diagnosis
    from waypost.studies.judge.judgement import Judgement as Judgement
    from waypost.studies.judge.judging import judge as judge
    from waypost.studies.workers import OnRay as OnRay
    from waypost.training.callbacks import Callback as Callback
    from waypost.training.policy import Policy as Policy
    from waypost.training.runs import Run as Run
    from waypost.training.stopping import EarlyStopping as EarlyStopping
    from waypost.training.tracking import Tracking as Tracking
    from waypost.types import Labels as Labels

    __version__: str

_PLACES = {
    "agents": ("ALGORITHMS",),
    "api": ("adapt", "compare", "evaluate", "load_run", "sweep", "train"),
    "data.roles": ("Columns",),
    "data.convert": ("convert",),
    "data.dataset": ("Dataset",),
    "data.inspection": ("inspect",),
    "data.joining": ("concatenate",),
    "data.mapped": ("NpzWriter",),
    "data.pipeline": ("Pipeline",),
    "data.sources": ("load", "save"),
    "envs.tasks": ("TASKS", "Protocol", "Task", "task"),
    "errors": ("DivergenceError", "InterruptedRun", "WaypostError"),
    "recording.replicas": ("collect",),
    "shipping.export": ("export",),
    "studies.adaptation": ("Adaptation",),
    "studies.comparison": ("Comparison",),
    "studies.diagnosis": ("diagnose",),
    "studies.findings": ("Diagnosis",),
    "studies.judge.judgement": ("Judgement",),
    "studies.judge.judging": ("judge",),
    "studies.workers": ("OnRay",),
    "training.callbacks": ("Callback",),
    "training.policy": ("Policy",),
    "training.runs": ("Run",),
    "training.stopping": ("EarlyStopping",),
    "training.tracking": ("Tracking",),
    "types": ("Labels",),
}
_PLACE_OF = {name: place for place, names in _PLACES.items() for name in names}
"""The module that defines each name. It is imported on first use: `waypost --help` needs no JAX."""

__all__ = [*_PLACE_OF]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("waypost")
    if name not in _PLACE_OF:
        raise AttributeError(f"module 'waypost' has no attribute {name!r}")
    import_module("waypost.recording")  # registers the built-in data sets
    return getattr(import_module(f"waypost.{_PLACE_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
