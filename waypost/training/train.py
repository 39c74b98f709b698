"""One call from data and options to a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from waypost.data.names import joined
from waypost.data.sources import load
from waypost.training.alarms import Strict
from waypost.training.callbacks import Callback, Callbacks
from waypost.training.plan import plan
from waypost.training.runs import Run
from waypost.training.trainer import execute


def train(
    algorithm: str = "por",
    data: Any = "four-rooms",
    *,
    out: str | Path | None = None,
    resume: bool = False,
    strict: bool = False,
    callback: Callback | None = None,
    **options: Any,
) -> Run:
    """Train agents on data, evaluate them, and leave a run directory if `out` names one.

    algorithm   "por", "bc", ... (`waypost list`)
    data        a name, a file, a folder, a table or arrays in memory, or a Dataset: see `waypost.load`
    columns     a `Columns`: which fields of the data play which role, where their names do not say it
    pipeline    a `Pipeline`: missing values, text, time stamps, history, a reward as an expression
    reward      a function from the columns by name to a reward for each row, see `waypost.load`
    env         task to evaluate on, or a function that makes an environment; by default the one the data belong to,
                "none" for no simulator
    rewards     "task" (as the task says), "recorded", "goal", "centred-goal", "return-range" or "standard"
    steps       updates; by default the preset's; 0 = by the number of rows
    seeds       how many agents to train at once, or their seeds
    preset      settings to start from; by default those that go with the data, "none" for the algorithm's own
    evaluation  a `Protocol`: how often, how many episodes
    log_every   updates per row of metrics.csv
    stream      "auto", "always" or "never": whether data are read from their file while training (docs/large-data.md)
    init        a run to continue from: its weights, and its settings must be the same; where parts of the agent are
                left out (POR: `training="guide"`), those parts
    config, or single settings of the algorithm by name (tau=0.9)
    hold_out    share of the episodes to keep from learning; losses on them are logged, and `judge` uses them
    keep_best   a column of metrics.csv: the agents with the lowest of it are kept too, in best/
    stop_early  a held-out loss: training ends once it has not fallen for `patience` (10) rows of metrics.csv
    out         the run directory; without one nothing is written
    resume      continue with what the directory holds: an unfinished run, a finished one, or nothing yet
    strict      make errors of alarms (docs/defaults.md)
    callbacks   a list of `Callback`: told of every log and evaluation, and may stop the run (docs/track.md)
    """
    reward, together = options.pop("reward", None), isinstance(data, list | tuple)
    if reward is not None or not (together or isinstance(data, str | Path)):
        data = load(data, options.pop("columns", None), pipeline=options.pop("pipeline", None), reward=reward)
    elif together:
        data = joined(data)
    callback = Callbacks(callback or Callback(), Strict()) if strict else callback
    return execute(plan(algorithm, data, **options), data, out, resume, callback)
