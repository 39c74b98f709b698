"""Waypost: offline reinforcement learning that says where to go and how to get there.

import waypost

run = waypost.train("por", "four-rooms")
run.agent.act([2.0, 2.0])
"""

from importlib.metadata import version

from waypost.agents import ALGORITHMS
from waypost.data.dataset import Dataset, Labels
from waypost.data.sources import load, save
from waypost.envs.tasks import TASKS, Protocol, Task, task
from waypost.errors import DivergenceError, InterruptedRun, WaypostError
from waypost.policy import Policy
from waypost.runs import Run, evaluate, load_run, train

__version__ = version("waypost")

__all__ = [
    "ALGORITHMS",
    "TASKS",
    "Dataset",
    "DivergenceError",
    "InterruptedRun",
    "Labels",
    "Policy",
    "Protocol",
    "Run",
    "Task",
    "WaypostError",
    "evaluate",
    "load",
    "load_run",
    "save",
    "task",
    "train",
]
