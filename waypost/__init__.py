"""Waypost: offline reinforcement learning that says where to go and how to get there.

import waypost

run = waypost.train("por", "four-rooms")
run.agent.act([2.0, 2.0])
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from waypost.data.columns import Columns
from waypost.data.dataset import Dataset, concatenate
from waypost.envs.tasks import TASKS, Protocol, Task, task
from waypost.errors import DivergenceError, InterruptedRun, WaypostError
from waypost.types import Labels

if TYPE_CHECKING:
    from waypost.agents import ALGORITHMS
    from waypost.api import adapt, compare, train
    from waypost.data.convert import convert
    from waypost.data.inspection import inspect
    from waypost.data.mapped import NpzWriter
    from waypost.data.sources import load, save
    from waypost.recording.replicas import collect
    from waypost.studies.adaptation import Adaptation
    from waypost.studies.comparison import Comparison
    from waypost.studies.diagnosis import Diagnosis, diagnose
    from waypost.training.callbacks import Callback
    from waypost.training.policy import Policy
    from waypost.training.runs import Run, evaluate, load_run

__version__ = version("waypost")

_ON_DEMAND = {
    "ALGORITHMS": "agents",
    "adapt": "api",
    "compare": "api",
    "train": "api",
    "convert": "data.convert",
    "inspect": "data.inspection",
    "NpzWriter": "data.mapped",
    "load": "data.sources",
    "save": "data.sources",
    "collect": "recording.replicas",
    "Adaptation": "studies.adaptation",
    "Comparison": "studies.comparison",
    "Diagnosis": "studies.diagnosis",
    "diagnose": "studies.diagnosis",
    "Callback": "training.callbacks",
    "Policy": "training.policy",
    "Run": "training.runs",
    "evaluate": "training.runs",
    "load_run": "training.runs",
}
"""What needs JAX or a simulator, and where it is: imported when asked for."""


def __getattr__(name: str) -> Any:
    if name not in _ON_DEMAND:
        raise AttributeError(f"module 'waypost' has no attribute {name!r}")
    import_module("waypost.recording")  # data made here are known by name
    return getattr(import_module(f"waypost.{_ON_DEMAND[name]}"), name)


__all__ = [
    "ALGORITHMS",
    "TASKS",
    "Adaptation",
    "Callback",
    "Columns",
    "Comparison",
    "Dataset",
    "Diagnosis",
    "DivergenceError",
    "InterruptedRun",
    "Labels",
    "NpzWriter",
    "Policy",
    "Protocol",
    "Run",
    "Task",
    "WaypostError",
    "adapt",
    "collect",
    "compare",
    "concatenate",
    "convert",
    "diagnose",
    "evaluate",
    "inspect",
    "load",
    "load_run",
    "save",
    "task",
    "train",
]
