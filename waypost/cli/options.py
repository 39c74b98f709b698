"""What can be asked for on the command line: a class for each command, and their help."""

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
    """Train and evaluate several algorithms on the same data, and rank them: tables, curves and a page.

    What is finished already is skipped, so rerunning continues where it was interrupted.
    """

    data: tuple[str, ...]
    """Data sets, as for `train --data`; their tasks must be of one suite."""
    algos: tuple[str, ...] = ("all",)
    """Algorithms, see `waypost list`; all = every one."""
    env: str | None = None
    """Task to evaluate on; by default the data's own."""
    seeds: int = 3
    """How many agents of each."""
    first_seed: int = 0
    """Their seeds count up from here."""
    steps: int | None = None
    """Updates each agent gets in all, whatever the stages of its training; by default each preset's."""
    settings: Path | None = None
    """TOML file with settings on top of the presets: a table [ALGORITHM] for each."""
    out: Path = Path("runs/compare")
    """Folder with a run directory for each training, and results.csv, results.md and compare.html."""
    json: bool = False
    """Print the results as one JSON object, the last line on stdout."""
    evaluation: tyro.conf.OmitArgPrefixes[EvaluationOptions] = field(default_factory=EvaluationOptions)
    scale: tyro.conf.OmitArgPrefixes[ScaleOptions] = field(default_factory=ScaleOptions)


@dataclass(frozen=True)
class Paper:
    """Repeat an experiment of the paper: figures, numbers, a text beside the paper's claim, and a page of them all.

    What is trained already is only read, so rerunning continues where it was interrupted.
    """

    name: tyro.conf.Positional[str]
    """Which one; list shows them."""
    quick: bool = False
    """Minutes instead of hours: fewer seeds (of agents and rollouts) and steps (of training and recording)."""
    out: Path = Path("runs/paper")
    """Folder with a folder for each experiment, and paper.html."""
    seeds: int | None = None
    """Agents of each kind, or draws where nothing is trained; by default the experiment's."""
    steps: int | None = None
    """Updates each agent gets in all; by default the experiment's."""
    data: tuple[str, ...] = ()
    """Only these data sets, for experiments that have several; hopper-medium-v2 is D4RL's file of hopper-medium."""
    algos: tuple[str, ...] = ()
    """Only these algorithms, for experiments that compare several."""
    settings: Path | None = None
    """TOML file with settings on top of the presets: a table [ALGORITHM] for each."""
    runs: Path | None = None
    """Folder of the run directories; in that of a `compare` with the same options what is trained already is read."""
    results: Path | None = None
    """Folder of small result files in place of run directories; what is there is read. Processes can share it."""
    minutes: float | None = None
    """Minutes of one core that each agent's updates take, in place of steps; with --results, and `taskset -c 0`."""
    read_only: bool = False
    """Train nothing: make tables, figures and pages of what is in --results."""
    json: bool = False
    """Print the record, or the list, as one JSON object, the last line on stdout."""
    evaluation: tyro.conf.OmitArgPrefixes[EvaluationOptions] = field(default_factory=EvaluationOptions)
    scale: tyro.conf.OmitArgPrefixes[ScaleOptions] = field(default_factory=ScaleOptions)


@dataclass(frozen=True)
class Demo:
    """Collect four-room data, train POR on it, evaluate it and write a report: a first look in minutes."""

    out: Path = Path("runs/demo")
    """Run directory."""
    steps: int = 45_000
    """Updates; the preset has more."""
    seeds: int = 1
    """How many agents to train at once."""
    resume: bool = False
    """Continue with what the directory holds: an unfinished demo, a finished one, or nothing yet."""
    json: bool = False
    """Print the result as one JSON object, the last line on stdout."""


@dataclass(frozen=True)
class Evaluate:
    """Evaluate the agents of a finished run again; the run is left as it is."""

    run: tyro.conf.Positional[Path]
    """Run directory."""
    env: str | None = None
    """Task to evaluate on, if not the run's own."""
    episodes: int | None = None
    """Episodes per seed; by default the run's."""
    seed: int | None = None
    """Seed of the environments; by default the run's."""
    workers: int | None = None
    """Processes for environments that cannot step as a batch; by default the run's."""
    json: bool = False
    """Print the result as one JSON object, the last line on stdout."""


@dataclass(frozen=True)
class Report:
    """Write a finished run's report.html again."""

    run: tyro.conf.Positional[Path]
    """Run directory."""
    out: Path | None = None
    """File to write; by default RUN/report.html."""


@dataclass(frozen=True)
class Adapt(LogOptions):
    """Teach a POR or waypoint run a new task: V and guide learn again, from new rewards or data; the executor stays.

    --reward may also name a function here: FILE.py:FUNCTION or MODULE:FUNCTION, (observations, actions,
    next_observations) -> waypost.Labels.
    """

    run: tyro.conf.Positional[Path]
    """Run directory of a POR run with an executor."""
    data: Annotated[str | None, SEVERAL] = None
    """Data to learn from, as for `train --data`, actions not needed; by default the run's own."""
    env: str | None = None
    """Task to evaluate on; by default the data's own, and none for a new reward."""
    rewards: Literal["task", "recorded", "goal", "centred-goal", "return-range"] | None = None
    """Reward convention; by default the run's, or that of the data's task if it is another one."""
    out: Path | None = None
    """Directory of the new run; by default RUN-adapted."""
    steps: int | None = None
    """Updates of V and guide; by default the run's."""
    tau: float | None = None
    """Expectile of V; by default the run's."""
    inverse_temperature: float | None = None
    """Weight of value against staying close to the data; by default the run's."""
    resume: bool = False
    """Continue with what the directory holds."""
    json: bool = False
    """Print the result as one JSON object, the last line on stdout."""


@dataclass(frozen=True)
class Diagnose(LogOptions):
    """Say why a POR or waypoint agent's actions may be wrong: the guide beyond the data, its aim, or the executor.

    Theorem 1 of the paper, measured on the run's data without a simulator.
    """

    run: tyro.conf.Positional[Path]
    """Run directory."""
    data: Annotated[str | None, SEVERAL] = None
    """Data to measure on, as for `train --data`; by default the run's."""
    states: int = 2_000
    """States of the data to look at."""
    neighbours: int = 20
    """Recorded transitions that stand for what else could have been done in a state."""
    out: Path | None = None
    """Folder for the figure, the table and the text; by default RUN/diagnosis."""
    json: bool = False
    """Print the numbers as one JSON object, the last line on stdout."""


@dataclass(frozen=True)
class Judge(LogOptions):
    """Say from recorded data alone how good the policies of runs are, and which one to take.

    Fitted Q evaluation on bootstraps of the episodes, a doubly robust check, and how far actions are from the data.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run directories; every seed is a candidate."""
    data: Annotated[str | None, SEVERAL] = None
    """Episodes the runs did not learn from, as for `train --data`; by default what they held out (--hold-out)."""
    discount: float | None = None
    """Discount of the values; by default the runs' own, the largest where they differ."""
    members: int = 8
    """Evaluators of each policy, each on its own bootstrap of the episodes."""
    steps: int = 10_000
    """Updates of the evaluators."""
    hidden: tuple[int, ...] = (64, 64)
    """Hidden layers of the evaluators."""
    rows: int = 100_000
    """Transitions to use at most: whole episodes are drawn where there are more."""
    seed: int = 0
    """Of the evaluators and of what is drawn."""
    out: Path = Path("runs/judge")
    """Folder for judge.html, judge.csv and judge.json."""
    json: bool = False
    """Print the judgement as one JSON object, the last line on stdout."""


@dataclass(frozen=True)
class Export:
    """Write a run's policy as a file that acts without Waypost: ONNX, or NumPy alone.

    The file is tried on 1000 observations, and only kept if it does what the agent does.
    """

    run: tyro.conf.Positional[Path]
    """Run directory."""
    out: tyro.conf.Positional[Path]
    """NAME.onnx, or NAME.npz, which comes with a NAME.py that needs nothing but NumPy."""
    format: Literal["onnx", "numpy"] | None = None
    """By default what the name says."""
    seed: int | None = None
    """Which agent of the run; by default the first."""
    data: str | None = None
    """Data to try it on and to take the columns' names from, as for `train --data`; by default the run's."""
    overwrite: bool = False
    """Replace files that are there."""
    json: bool = False
    """Print what was written as one JSON object, the last line on stdout."""


@dataclass(frozen=True)
class Serve:
    """Answer observations with a run's policy over HTTP: actions, waypoints, values and the distance to the data.

    A policy that is replaced on disk is taken over without losing a request.
    """

    run: tyro.conf.Positional[Path]
    """Run directory."""
    host: str = "127.0.0.1"
    """Address to listen at; the default can be reached from this machine only. There is no password."""
    port: int = 8000
    """0 = one that is free."""
    seed: int | None = None
    """Which agent of the run; by default the first."""
    data: str | None = None
    """Data to measure the distance to and to take the columns' names from; by default the run's."""
    reload_seconds: float = 1.0
    """How often to look for a new policy; 0 = only when POST /reload asks for it."""
    check: bool = False
    """Load the policy, answer one question, and end."""


@dataclass(frozen=True)
class Collect:
    """Record one of D4RL's data sets here, with the policies that come with Waypost; nothing is downloaded."""

    name: tyro.conf.Positional[str]
    """Which one, see `waypost list`: hopper-medium, antmaze-umaze, ..."""
    transitions: int | None = None
    """How many; by default as many as D4RL's has."""
    seed: int = 0
    """The same seed gives the same data."""
    out: Path | None = None
    """File to write; by default where `--data NAME` looks for it: in $WAYPOST_DATA or ~/.waypost/data."""
    workers: int | None = None
    """Processes that share the work; by default one per core."""
    overwrite: bool = False
    """Replace the file if it is there."""
    json: bool = False
    """Print the set's figures as one JSON object, the last line on stdout."""


@dataclass(frozen=True)
class Inspect(LogOptions):
    """Look at data before training on them: what is in them, what is wrong, what they are good for."""

    source: tyro.conf.Positional[Annotated[str, SEVERAL]]
    """Names, files, folders or patterns, as for `train --data`."""
    out: Path | None = None
    """Also write the findings as a page with plots, for example data.html."""
    json: bool = False
    """Print the findings as one JSON object, the last line on stdout."""


@dataclass(frozen=True)
class Convert(LogOptions):
    """Write data in another format: .npz, .hdf5, .parquet, or a Minari folder (a name without a suffix).

    What is read back is the same, bit for bit. Rows can be chosen and columns dropped on the way.
    """

    source: tyro.conf.Positional[str]
    """A name, file, folder or pattern, as for `train --data`; A+B joins several."""
    out: tyro.conf.Positional[Path]
    """File to write; its suffix says the format. With --parts, a folder."""
    top: float | None = None
    """Keep only this share of the episodes, the best by return: 0.1 for the top 10 %."""
    slice: tuple[float, float] | None = None
    """Keep only the transitions from one share of the data to another: 0.3 0.7."""
    drop_actions: bool = False
    """Leave the actions out."""
    drop_rewards: bool = False
    """Leave the rewards out."""
    overwrite: bool = False
    """Replace the file, or the parts, if they are there."""
    parts: int | None = None
    """Write a folder of so many files, to be streamed; the same command goes on where it was interrupted."""
    part_rows: int | None = None
    """The same with about so many transitions in each file."""
    part_format: Literal["npz", "parquet"] = "npz"
    """What these files are; Parquet is smaller and slower."""


@dataclass(frozen=True)
class List:
    """Show algorithms with their presets, tasks and data sets."""

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
"""Every command but `train`, which has one of its own for each algorithm."""


def train_type(algorithm: str) -> Any:
    """What `train ALGORITHM` takes: the fields of `Plan` with every setting of the algorithm, and where it goes."""
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
    """Commands by name with one line each and nothing behind them: enough to list them or to refuse another."""
    stubs = [
        Annotated[make_dataclass(name, [], frozen=True), tyro.conf.subcommand(name, description=text)]
        for name, text in described.items()
    ]
    return reduce(or_, stubs)
