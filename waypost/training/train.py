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
    """Train agents on data, evaluate them, and write a run directory if `out` is given.

    algorithm   "por", "bc", ... (`waypost list`)
    data        a name, a file, a folder, a table or arrays in memory, or a Dataset: see `waypost.load`
    columns     a `Columns`: which fields of the data play which role, if their names do not tell
    pipeline    a `Pipeline`: missing values, text, time stamps, history, a reward as an expression
    reward      an expression over columns, or a function from them to a reward for each row: see `waypost.load`
    env         the task to evaluate on, or a function that makes an environment; by default the data's own,
                "none" for no simulator
    rewards     "task" (as the task says), "recorded", "goal", "centred-goal", "return-range" or "standard"
    steps       updates; by default the preset's; 0 = chosen by the number of rows
    seeds       how many agents to train at once, or their seeds
    preset      settings to start from; by default those of the data, "none" for the algorithm's own
    evaluation  a `Protocol`: how often, how many episodes
    log_every   updates per row of metrics.csv
    stream      "auto", "always" or "never": whether data are read from disk while training (docs/large-data.md)
    init        a run whose weights to start from, with the same settings; with parts of the agent left out
                (POR: `training="guide"`), only those parts
    config      the algorithm's settings; single ones can be given by name (tau=0.9)
    hold_out    share of the episodes to hold out; losses on them are logged, and `judge` uses them
    keep_best   a column of metrics.csv: the agents with its lowest value are kept too, in best/
    stop_early  a held-out loss: training stops once it has not fallen for `patience` (10) rows of metrics.csv
    out         the run directory; without one nothing is written
    resume      continue with what the directory holds: an unfinished run, a finished one, or nothing yet
    strict      turn alarms into errors (docs/defaults.md)
    callbacks   a list of `Callback`: called at every log and evaluation, and may stop the run (docs/track.md)
    """
    reward, together = options.pop("reward", None), isinstance(data, list | tuple)
    if reward is not None or not (together or isinstance(data, str | Path)):
        data = load(data, options.pop("columns", None), pipeline=options.pop("pipeline", None), reward=reward)
    elif together:
        data = joined(data)
    callback = Callbacks(callback or Callback(), Strict()) if strict else callback
    return execute(plan(algorithm, data, **options), data, out, resume, callback)
