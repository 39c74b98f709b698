"""Waypost: offline reinforcement learning that says where to go and how to get there.

import waypost

run = waypost.train("por", "four-rooms")
run.agent.act([2.0, 2.0])
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from waypost.data.columns import Columns
from waypost.data.dataset import Dataset, Labels, concatenate
from waypost.envs.tasks import TASKS, Protocol, Task, task
from waypost.errors import DivergenceError, InterruptedRun, WaypostError

if TYPE_CHECKING:
    from waypost.adaptation import Adaptation, adapt
    from waypost.agents import ALGORITHMS
    from waypost.comparison import Comparison, compare
    from waypost.data.sources import load, save
    from waypost.diagnosis import Diagnosis, diagnose
    from waypost.policy import Policy
    from waypost.runs import Run, evaluate, load_run, train

__version__ = version("waypost")

_ON_DEMAND = {
    "ALGORITHMS": "agents",
    "Adaptation": "adaptation",
    "adapt": "adaptation",
    "Comparison": "comparison",
    "compare": "comparison",
    "Diagnosis": "diagnosis",
    "diagnose": "diagnosis",
    "load": "data.sources",
    "save": "data.sources",
    "Policy": "policy",
    "Run": "runs",
    "evaluate": "runs",
    "load_run": "runs",
    "train": "runs",
}
"""What needs JAX, and where it is: imported when asked for, so that processes that only record data stay small."""


def __getattr__(name: str) -> Any:
    if name not in _ON_DEMAND:
        raise AttributeError(f"module 'waypost' has no attribute {name!r}")
    return getattr(import_module(f"waypost.{_ON_DEMAND[name]}"), name)


__all__ = [
    "ALGORITHMS",
    "TASKS",
    "Adaptation",
    "Columns",
    "Comparison",
    "Dataset",
    "Diagnosis",
    "DivergenceError",
    "InterruptedRun",
    "Labels",
    "Policy",
    "Protocol",
    "Run",
    "Task",
    "WaypostError",
    "adapt",
    "compare",
    "concatenate",
    "diagnose",
    "evaluate",
    "load",
    "load_run",
    "save",
    "task",
    "train",
]
