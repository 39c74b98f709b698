"""The options of every command, as one class each, and their help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from waypost.cli.common import (
    EvaluationOptions as EvaluationOptions,
    Ground as Ground,
    LogOptions as LogOptions,
    Place as Place,
    reading_of as reading_of,
)
from waypost.cli.doctor import Doctor
from waypost.cli.scale import ScaleOptions as ScaleOptions
from waypost.cli.sweeping import Sweep as Sweep
from waypost.data.names import SEVERAL


@dataclass(frozen=True)
class Compare(LogOptions):
    """Train and evaluate several algorithms on the same data, and rank them in tables, figures and a page.

    Finished trainings are only read: run the same command again to continue after an interruption.
    """

    data: tuple[str, ...]
    """Data sets, as for `train --data`; their tasks must belong to the same suite."""
    algos: tuple[str, ...] = ("all",)
    """Algorithms, see `waypost list`; all = every one."""
    env: str | None = None
    """Task to evaluate on; by default the data's own."""
    seeds: int = 3
    """Number of agents of each algorithm."""
    first_seed: int = 0
    """Seed of the first agent; the others count up from it."""
    steps: int | None = None
    """Updates of each agent, over all stages of its training; by default each preset's."""
    settings: Path | None = None
    """TOML file of settings that override the presets: a table [ALGORITHM] for each."""
    out: Path = Path("runs/compare")
    """Folder for a run directory of each training, results.csv, results.md and compare.html."""
    json: bool = False
    """Print the results as one JSON object, the last line on stdout."""
    evaluation: tyro.conf.OmitArgPrefixes[EvaluationOptions] = field(default_factory=EvaluationOptions)
    scale: tyro.conf.OmitArgPrefixes[ScaleOptions] = field(default_factory=ScaleOptions)


@dataclass(frozen=True)
class Paper:
    """Repeat an experiment of the paper: figures, tables, a text beside the paper's claim, and a page.

    Finished trainings are only read: run the same command again to continue after an interruption.
    """

    name: tyro.conf.Positional[str]
    """Name of the experiment; `list` shows all."""
    quick: bool = False
    """Minutes instead of hours: fewer seeds and rollouts, fewer steps of training and recording."""
    out: Path = Path("runs/paper")
    """Folder for a folder of each experiment, and paper.html."""
    seeds: int | None = None
    """Number of agents of each kind, or of random draws if nothing is trained; by default the experiment's."""
    steps: int | None = None
    """Updates of each agent, over all stages; by default the experiment's."""
    data: tuple[str, ...] = ()
    """Only these data sets, if the experiment has several; hopper-medium-v2 is D4RL's file of hopper-medium."""
    algos: tuple[str, ...] = ()
    """Only these algorithms, if the experiment has several; by default all, in `bound` and `guide-map` por."""
    settings: Path | None = None
    """TOML file of settings that override the presets: a table [ALGORITHM] for each."""
    runs: Path | None = None
    """Folder of the run directories; that of a `compare` with the same options works, its trainings are reused."""
    results: Path | None = None
    """Folder of small result files instead of run directories; what it holds is reused. Processes can share it."""
    minutes: float | None = None
    """Minutes on one core for the updates of each agent, instead of steps; needs --results and `taskset -c 0`."""
    read_only: bool = False
    """Train nothing: make tables, figures and pages from what --results holds."""
    json: bool = False
    """Print the record, or the list, as one JSON object, the last line on stdout."""
    evaluation: tyro.conf.OmitArgPrefixes[EvaluationOptions] = field(default_factory=EvaluationOptions)
    scale: tyro.conf.OmitArgPrefixes[ScaleOptions] = field(default_factory=ScaleOptions)


@dataclass(frozen=True)
class Demo:
    """Collect four-rooms data, train Waypoint on it, evaluate it and write a report: a first look in a minute."""

    out: Path = Path("runs/demo")
    """Run directory."""
    steps: int | None = None
    """Updates of each agent; by default the preset's."""
    seeds: int = 1
    """Number of agents to train at once, each with its own seed."""
    resume: bool = False
    """Continue with what the run directory holds: an unfinished run, a finished one, or nothing yet."""
    json: bool = False
    """Print the result as one JSON object, the last line on stdout."""


@dataclass(frozen=True)
class Evaluate:
    """Evaluate the agents of a finished run again; the run is not changed."""

    run: tyro.conf.Positional[Path]
    """Run directory."""
    env: str | None = None
    """Task to evaluate on; by default the run's own."""
    episodes: int | None = None
    """Episodes per seed; by default the run's."""
    seed: int | None = None
    """Seed of the evaluation environments; by default the run's."""
    workers: int | None = None
    """Processes for environments that cannot step as a batch; by default the run's."""
    json: bool = False
    """Print the result as one JSON object, the last line on stdout."""


@dataclass(frozen=True)
class Report:
    """Write report.html of a finished run again."""

    run: tyro.conf.Positional[Path]
    """Run directory."""
    out: Path | None = None
    """File to write; by default RUN/report.html."""


@dataclass(frozen=True)
class Adapt(LogOptions):
    """Teach a POR or waypoint run a new task: value and guide learn from new rewards or data; the executor stays.

    --reward may also name a function here: FILE.py:FUNCTION or MODULE:FUNCTION, (observations, actions,
    next_observations) -> waypost.Labels.
    """

    run: tyro.conf.Positional[Path]
    """Run directory of a POR or waypoint run with an executor."""
    data: Annotated[str | None, SEVERAL] = None
    """Data to learn from, as for `train --data`; no actions needed; by default the run's own."""
    env: str | None = None
    """Task to evaluate on; by default the data's own, or none with a new reward."""
    rewards: Literal["task", "recorded", "goal", "centred-goal", "return-range"] | None = None
    """Reward convention; by default the run's, or that of the data's task if it is another one."""
    out: Path | None = None
    """Run directory of the new run; by default RUN-adapted."""
    steps: int | None = None
    """Updates of V and guide; by default the run's."""
    tau: float | None = None
    """Expectile of V; by default the run's."""
    inverse_temperature: float | None = None
    """Weight of the value against staying close to the data; by default the run's."""
    action_noise: float | None = None
    """Waypoint: share of the executor's own noise in its actions, for agents that stand still; by default the run's."""
    resume: bool = False
    """Continue with what the run directory holds: an unfinished run, a finished one, or nothing yet."""
    json: bool = False
    """Print the result as one JSON object, the last line on stdout."""


@dataclass(frozen=True)
class Diagnose(LogOptions):
    """Explain why a POR or waypoint agent may act badly: its guide leaves the data or aims badly, or its executor errs.

    Measures the terms of the paper's Theorem 1 on the run's data, without a simulator.
    """

    run: tyro.conf.Positional[Path]
    """Run directory."""
    data: Annotated[str | None, SEVERAL] = None
    """Data to measure on, as for `train --data`; by default the run's own."""
    states: int = 2_000
    """Number of states of the data to measure on."""
    neighbours: int = 20
    """Recorded transitions per state that show what else could have been done there."""
    out: Path | None = None
    """Folder for the figure, the table and the text; by default RUN/diagnosis."""
    json: bool = False
    """Print the numbers as one JSON object, the last line on stdout."""


@dataclass(frozen=True)
class Judge(LogOptions):
    """Estimate from recorded data alone how good the policies of runs are, and which one to use.

    Fitted Q evaluation on bootstraps of the episodes, imagined episodes, a doubly robust check, and the distance of
    actions from the data.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run directories; every seed is a candidate."""
    data: Annotated[str | None, SEVERAL] = None
    """Episodes the runs did not learn from, as for `train --data`; by default what they held out (--hold-out)."""
    discount: float | None = None
    """Discount of the values; by default the runs' own, the largest if they differ."""
    members: int = 8
    """Evaluators per policy, each on its own bootstrap of the episodes."""
    steps: int = 10_000
    """Updates of the evaluators."""
    hidden: tuple[int, ...] = (64, 64)
    """Hidden layers of the evaluators."""
    rows: int = 100_000
    """The most transitions to use; whole episodes are drawn if there are more."""
    horizon: int = 300
    """The most steps to imagine with a learned model of the plant; 0 = imagine nothing."""
    seed: int = 0
    """Seed of the evaluators and of the bootstraps."""
    out: Path = Path("runs/judge")
    """Folder for judge.html, judge.csv and judge.json."""
    json: bool = False
    """Print the results as one JSON object, the last line on stdout."""


@dataclass(frozen=True)
class Export:
    """Write a run's policy as a file that works without Waypost: ONNX, or NumPy alone.

    The file is checked on 1000 observations, and only kept if its actions are those of the agent.
    """

    run: tyro.conf.Positional[Path]
    """Run directory."""
    out: tyro.conf.Positional[Path]
    """NAME.onnx, or NAME.npz, which comes with a NAME.py that needs nothing but NumPy."""
    format: Literal["onnx", "numpy"] | None = None
    """Format of the file; by default by its suffix."""
    seed: int | None = None
    """Seed of the agent to use; by default the run's first."""
    data: str | None = None
    """Data to check it on and to take column names from, as for `train --data`; by default the run's own."""
    overwrite: bool = False
    """Replace existing files."""
    json: bool = False
    """Print what was written as one JSON object, the last line on stdout."""


@dataclass(frozen=True)
class Serve:
    """Serve a run's policy over HTTP: actions, waypoints, values and the distance of observations to the data.

    If the policy on disk is replaced, the new one is loaded without losing a request.
    """

    run: tyro.conf.Positional[Path]
    """Run directory."""
    host: str = "127.0.0.1"
    """Address to listen on; the default can only be reached from this machine. There is no password."""
    port: int = 8000
    """Port to listen on; 0 = any free one."""
    seed: int | None = None
    """Seed of the agent to use; by default the run's first."""
    data: str | None = None
    """Data to measure the distance to and to take column names from; by default the run's own."""
    reload_seconds: float = 1.0
    """Seconds between checks for a new policy; 0 = only on POST /reload."""
    check: bool = False
    """Load the policy, answer one request, and exit."""


@dataclass(frozen=True)
class Collect:
    """Record a replica of one of D4RL's data sets with the policies that come with Waypost; nothing is downloaded."""

    name: tyro.conf.Positional[str]
    """Name of the data set, see `waypost list`: hopper-medium, antmaze-umaze, ..."""
    transitions: int | None = None
    """Number of transitions; by default as many as D4RL's."""
    seed: int = 0
    """Random seed; the same seed gives the same data."""
    out: Path | None = None
    """File to write; by default where `--data NAME` looks for it: in $WAYPOST_DATA or ~/.waypost/data."""
    workers: int | None = None
    """Number of processes; by default one per core."""
    overwrite: bool = False
    """Replace an existing file."""
    json: bool = False
    """Print the statistics of the data as one JSON object, the last line on stdout."""


@dataclass(frozen=True)
class Inspect(LogOptions):
    """Check data before training on them: what they hold, what is wrong, and which algorithms can use them."""

    source: tyro.conf.Positional[Annotated[str, SEVERAL]]
    """Names, files, folders or patterns, as for `train --data`."""
    out: Path | None = None
    """Also write the findings as a page with figures, for example data.html."""
    json: bool = False
    """Print the findings as one JSON object, the last line on stdout."""


@dataclass(frozen=True)
class Convert(LogOptions):
    """Write data in another format: .npz, .hdf5, .parquet, or a Minari folder (a name without a suffix).

    The data read back are the same, bit for bit. Rows can be selected and columns dropped.
    """

    source: tyro.conf.Positional[str]
    """A name, file, folder or pattern, as for `train --data`; A+B joins several."""
    out: tyro.conf.Positional[Path]
    """File to write; its suffix gives the format. With --parts, a folder."""
    top: float | None = None
    """Keep only this share of the episodes, those with the highest return: 0.1 for the top 10 %."""
    slice: tuple[float, float] | None = None
    """Keep only the transitions between two shares of the data: 0.3 0.7."""
    drop_actions: bool = False
    """Leave out the actions."""
    drop_rewards: bool = False
    """Leave out the rewards."""
    overwrite: bool = False
    """Replace existing files."""
    parts: int | None = None
    """Write a folder of this many files, for streaming; the same command continues after an interruption."""
    part_rows: int | None = None
    """The same, with about this many transitions per file."""
    part_format: Literal["npz", "parquet"] = "npz"
    """Format of these files; Parquet is smaller and slower."""


@dataclass(frozen=True)
class List:
    """List algorithms with their presets, tasks and data sets."""

    json: bool = False
    """Print one JSON object instead of tables."""


COMMANDS: dict[str, type] = {
    each.__name__.lower(): each
    for each in (
        Demo,
        Compare,
        Sweep,
        Paper,
        Evaluate,
        Report,
        Adapt,
        Diagnose,
        Judge,
        Export,
        Serve,
        Collect,
        Inspect,
        Convert,
        List,
        Doctor,
    )
}
"""Every command but `train`, which has one class per algorithm."""


def train_type(algorithm: str) -> Any:
    """The options of `train ALGORITHM`: the fields of `Plan`, every setting of the algorithm, and the output."""
    from waypost.agents import find_entry
    from waypost.training.plan import Plan

    chosen, flat = find_entry(algorithm), tyro.conf.arg(name="")
    return make_dataclass(
        f"Train_{algorithm}",
        [
            ("place", Annotated[Place, flat], field(default_factory=Place)),
            ("evaluation", Annotated[EvaluationOptions, flat], field(default_factory=EvaluationOptions)),
            ("plan", Annotated[Plan[chosen.config_type], flat]),  # type: ignore[name-defined]
        ],
        namespace={"__doc__": chosen.title},
        frozen=True,
        kw_only=True,
    )


def names(described: Mapping[str, str]) -> Any:
    """Commands by name with one line each and nothing behind them: enough to list them or to refuse another name."""
    stubs = [
        Annotated[make_dataclass(name, [], frozen=True), tyro.conf.subcommand(name, description=text)]
        for name, text in described.items()
    ]
    return reduce(or_, stubs)
