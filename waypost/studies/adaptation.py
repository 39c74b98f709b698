"""Teach a run of por or waypoint a new task: value and guide learn again, the executor stays.

The executor knows how to get from one state to the next, which is the same in every task of a system. A new
reward, or new data without actions, therefore costs only the training of value and guide.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from waypost.agents.guided import GuidedAgent
from waypost.data.dataset import Dataset
from waypost.data.expressions import is_reference
from waypost.data.pipeline import Pipeline, Reading
from waypost.data.roles import Columns
from waypost.data.sources import load, recorded_task
from waypost.envs.tasks import Factory, task as find_task
from waypost.errors import WaypostError
from waypost.schema import shown
from waypost.training.callbacks import Callback
from waypost.training.plan import plan, read_plan
from waypost.training.policy import Policy
from waypost.training.records import read_result
from waypost.training.runs import Run, directory_of
from waypost.training.trainer import execute
from waypost.types import Convention


@dataclass(frozen=True, eq=False)
class Adaptation:
    """A run with a new guide, and its cost."""

    run: Run
    seconds: float
    """Training and evaluation of the new guide."""
    seconds_before: float | None
    """The same for the original run, all parts; None if that run is not finished."""

    def words(self) -> str:
        """The cost in a sentence."""
        spent = f"value and guide took {self.seconds:.1f} s for {self.run.plan.steps} updates"
        if self.seconds_before is None:
            return spent
        share = self.seconds / max(self.seconds_before, 1e-9)
        return f"{spent}; the original training from scratch took {self.seconds_before:.1f} s ({share:.0%})"

    def to_json(self) -> dict[str, Any]:
        return {**self.run.result, "seconds_before": self.seconds_before}


def adapt(
    run: str | Path | Run,
    data: Any = None,
    *,
    reward: str | Callable[..., Any] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    env: str | Factory | None = None,
    rewards: Convention | Literal["task"] | None = None,
    steps: int | None = None,
    seeds: int | Sequence[int] | None = None,
    columns: Columns | None = None,
    pipeline: Pipeline | None = None,
    callback: Callback | None = None,
    **settings: Any,
) -> Adaptation:
    """Train value and guide of a run again, for a new reward or with other data; the executor is the first seed's.

    run       a run of por or waypoint that has an executor, or its directory
    data      by default the run's own; new data need no actions (`a+b` joins sets)
    reward    "FILE.py:FUNCTION", "MODULE:FUNCTION" or a function: (observations, actions, next_observations) ->
              `waypost.Labels` with the rewards and terminals of the new task; or an expression over columns
    columns, pipeline    how to read the data; they override how the run's were read
    env       task to evaluate on; by default the data's own, or none with a new reward
    rewards   convention; by default the run's, or that of the data's task if it is another one
    steps, seeds, settings    by default the run's
    """
    run = directory_of(run)
    before, donor = read_plan(run), Policy.load(run)
    if not isinstance(donor.agent, GuidedAgent) or donor.agent.executor is None:
        raise WaypostError(f"{run}: has no executor to keep; give a run of por or waypoint that trained one")
    how = Reading(before.columns, before.pipeline)
    if data is not None:
        # The data need no actions, and may have no such columns.
        how = replace(how, columns=replace(how.columns, actions=(), discrete=()))
    how = how.with_given(columns or Columns(), pipeline or Pipeline())
    expression = reward if isinstance(reward, str) and not is_reference(reward) else None
    if expression is not None:
        how, reward = replace(how, pipeline=replace(how.pipeline, reward=expression)), None
    dataset = load(before.data if data is None else data, how.columns, pipeline=how.pipeline)
    if expression is not None:
        dataset = replace(dataset, name=f"{dataset.name} by {expression}", task=None)
    elif reward is not None:
        dataset = _rewarded(dataset, reward)
    dataset = dataset.without_actions()
    other = dataset.task if dataset.task != (before.task or recorded_task(before.data)) else None
    known = donor.agent.executor.columns
    inputs = () if known == tuple(range(dataset.observation_size)) else known
    planned = plan(
        donor.algorithm,
        dataset,
        env=env,
        rewards=rewards or (find_task(other).convention if other else before.convention),
        steps=before.steps if steps is None else steps,
        seeds=before.seeds if seeds is None else seeds,
        preset="none",
        init=run,
        config=replace(before.config, training="guide", executor_inputs=inputs),
        **settings,
    )
    outcome = execute(planned, dataset, out, resume, callback)
    finished = (run / "result.json").is_file()
    seconds_before = read_result(run)["seconds"] if finished else None
    return Adaptation(outcome, outcome.result["seconds"], seconds_before)


def _rewarded(dataset: Dataset, reward: str | Callable[..., Any]) -> Dataset:
    """The data with the new reward; they no longer belong to a known task."""
    if not isinstance(reward, str) and not callable(reward):
        raise WaypostError(f"a reward must be a function, its name or an expression, got {shown(reward)}")
    function = _function(reward) if isinstance(reward, str) else reward
    name = reward if isinstance(reward, str) else getattr(reward, "__name__", type(reward).__name__)
    try:
        labelled = dataset.relabel(function)
    except WaypostError:
        raise
    except Exception as error:  # a user's function can raise anything
        raise WaypostError(
            f"{name}: failed on the data ({type(error).__name__}: {error}); it is called with observations, actions "
            "and next observations, one row per transition, and must return waypost.Labels(rewards, terminals)"
        ) from error
    return replace(labelled, name=f"{dataset.name} by {name}", task=None)


def _function(reference: str) -> Callable[..., Any]:
    """The function that "FILE.py:FUNCTION" or "MODULE:FUNCTION" names."""
    place, _, name = reference.rpartition(":")
    if not place or not name:
        raise WaypostError(f"a reward must be FILE.py:FUNCTION or MODULE:FUNCTION, got {reference}")
    try:
        module = _from_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except Exception as error:  # a user's file can raise anything
        raise WaypostError(f"{place}: cannot be imported ({type(error).__name__}: {error})") from error
    found = getattr(module, name, None)
    if not callable(found):
        raise WaypostError(f"{place}: has no function {name}")
    return found


def _from_file(path: Path) -> Any:
    if not path.is_file():
        raise FileNotFoundError("there is no such file")
    spec = importlib.util.spec_from_file_location(f"reward of {path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
