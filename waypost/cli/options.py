"""What can be asked for on the command line: a class for each command, and their help."""

from __future__ import annotations

from dataclasses import dataclass, field, make_dataclass, replace
from functools import cache, reduce
from operator import or_
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from waypost.data.columns import Columns


@dataclass(frozen=True)
class EvaluationOptions:
    """How agents are judged; what is not given is as the task says."""

    evaluate_every: int | None = None
    """Steps between evaluations; 0 = only at the end."""
    episodes: int | None = None
    """Episodes per evaluation and seed."""
    average_last: int | None = None
    """The result is the mean over this many last evaluations."""
    evaluation_seed: int | None = None
    """Seed of the evaluation's environments."""

    @property
    def given(self) -> dict[str, int]:
        """The fields of `Protocol` that are given here."""
        from waypost.envs.tasks import OPTIONS

        fields = {name: getattr(self, option) for name, option in OPTIONS.items()}
        return {name: value for name, value in fields.items() if value is not None}

    def on_top_of(self, usual: Any) -> Any:
        """A `Protocol` with what is given here, and the rest as usual."""
        return replace(usual, **self.given)


@dataclass(frozen=True)
class TrainOptions:
    """What to train on and where to put it."""

    data: str = "four-rooms"
    """A built-in name (`waypost list`), a Minari or D4RL one, a file (.npz .hdf5 .parquet .csv), a folder, or A+B."""
    env: str | None = None
    """Task to judge on: a name of `waypost list`, any Gymnasium id, or none; by default the data's own."""
    out: Path | None = None
    """Run directory; by default runs/ALGO-DATA."""
    steps: int | None = None
    """Updates of each agent; by default the preset's."""
    seeds: int = 1
    """How many agents to train at once, each with its own seed."""
    first_seed: int = 0
    """Their seeds count up from here."""
    resume: bool = False
    """Go on with what the directory holds: an unfinished run, a finished one, or nothing yet."""
    preset: str | None = None
    """Settings to start from, see `waypost list`; by default those that go with the data; none = plain defaults."""
    rewards: Literal["task", "recorded", "goal", "centred-goal", "return-range"] = "task"
    """Reward convention: the task's; as recorded; r - 1, failures costly; 4 (r - 0.5); scaled by returns."""
    init: Path | None = None
    """Run whose agent provides the parts this training leaves out."""
    log_every: int = 500
    """Updates per row of metrics.csv."""
    stream: Literal["auto", "always", "never"] = "auto"
    """Read the data from the disk in shuffled parts while training; auto: only if they would not fit in memory."""
    json: bool = False
    """Print the result as one JSON object, the last line on stdout."""
    evaluation: tyro.conf.OmitArgPrefixes[EvaluationOptions] = field(default_factory=EvaluationOptions)


@dataclass(frozen=True)
class Compare:
    """Train and judge several algorithms on the same data, and rank them: tables, curves and a page.

    What is finished already is skipped, so the same command goes on where it was interrupted.
    """

    data: tuple[str, ...]
    """Data sets, as for `train --data`; their tasks must be of one suite."""
    algos: tuple[str, ...] = ("all",)
    """Algorithms, see `waypost list`; all = every one."""
    env: str | None = None
    """Task to judge on; by default the data's own."""
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


@dataclass(frozen=True)
class Paper:
    """Do an experiment of the paper again: figures, numbers, a text beside the paper's claim, and a page of them all.

    What is trained already is only read, so the same command goes on where it was interrupted.
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
    json: bool = False
    """Print the record, or the list, as one JSON object, the last line on stdout."""
    evaluation: tyro.conf.OmitArgPrefixes[EvaluationOptions] = field(default_factory=EvaluationOptions)


@dataclass(frozen=True)
class Demo:
    """Collect four-room data, train POR on it, judge it and write a report: a first look in minutes."""

    out: Path = Path("runs/demo")
    """Run directory."""
    steps: int | None = None
    """Updates; by default the preset's."""
    seeds: int = 1
    """How many agents to train at once."""
    resume: bool = False
    """Go on with what the directory holds: an unfinished demo, a finished one, or nothing yet."""
    json: bool = False
    """Print the result as one JSON object, the last line on stdout."""


@dataclass(frozen=True)
class Evaluate:
    """Judge the agents of a finished run anew; the run is left as it is."""

    run: tyro.conf.Positional[Path]
    """Run directory."""
    env: str | None = None
    """Task to judge on, if not the run's own."""
    episodes: int | None = None
    """Episodes per seed; by default the run's."""
    seed: int | None = None
    """Seed of the environments; by default the run's."""
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
class Adapt:
    """Teach a POR run a new task: V and guide learn anew, from a new reward or other data, the executor stays."""

    run: tyro.conf.Positional[Path]
    """Run directory of a POR run with an executor."""
    data: str | None = None
    """Data to learn from, as for `train --data`, actions not needed; by default the run's own."""
    reward: str | None = None
    """FILE.py:FUNCTION or MODULE:FUNCTION, (observations, actions, next_observations) -> waypost.Labels."""
    env: str | None = None
    """Task to judge on; by default the data's own, and none for a new reward."""
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
    """Go on with what the directory holds."""
    json: bool = False
    """Print the result as one JSON object, the last line on stdout."""


@dataclass(frozen=True)
class Diagnose:
    """Say why a POR agent's actions may be wrong: the guide beyond the data, its aim, or the executor.

    Theorem 1 of the paper, measured on the run's data without a simulator.
    """

    run: tyro.conf.Positional[Path]
    """Run directory."""
    data: str | None = None
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
class Collect:
    """Record one of D4RL's data sets anew, with the policies that come with Waypost; nothing is downloaded."""

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
class Inspect:
    """Look at data before training on them: what is in them, what is wrong, what they are good for."""

    source: tyro.conf.Positional[str]
    """A name, file or folder, as for `train --data`."""
    out: Path | None = None
    """Also write the findings as a page with plots, for example data.html."""
    json: bool = False
    """Print the findings as one JSON object, the last line on stdout."""
    columns: Columns = field(default_factory=Columns)


@dataclass(frozen=True)
class Convert:
    """Write data in another format: .npz, .hdf5, .parquet, or a Minari folder (a name without a suffix).

    What is read back is the same, bit for bit. Rows can be chosen and columns dropped on the way.
    """

    source: tyro.conf.Positional[str]
    """A name, file or folder, as for `train --data`."""
    out: tyro.conf.Positional[Path]
    """File to write; its suffix says the format."""
    top: float | None = None
    """Keep only this share of the episodes, the best by return: 0.1 for the top 10 %."""
    slice: tuple[float, float] | None = None
    """Keep only the transitions from one share of the data to another: 0.3 0.7."""
    drop_actions: bool = False
    """Leave the actions out."""
    drop_rewards: bool = False
    """Leave the rewards out."""
    overwrite: bool = False
    """Replace the file if it is there."""
    columns: Columns = field(default_factory=Columns)


@dataclass(frozen=True)
class List:
    """Show algorithms with their presets, tasks and data sets."""

    json: bool = False
    """Print one JSON object instead of tables."""


def commands() -> Any:
    """All of them, for tyro to choose from."""
    subcommand = tyro.conf.subcommand
    train = [Annotated[_train_type(name), subcommand(name, description=a.title)] for name, a in _algorithms().items()]
    every_train = make_dataclass(
        "Train", [("algorithm", reduce(or_, train))], namespace={"__doc__": "Train agents of an algorithm on data."}
    )
    return (
        Annotated[Demo, subcommand("demo")]
        | Annotated[every_train, subcommand("train")]
        | Annotated[Compare, subcommand("compare")]
        | Annotated[Paper, subcommand("paper")]
        | Annotated[Evaluate, subcommand("evaluate")]
        | Annotated[Report, subcommand("report")]
        | Annotated[Adapt, subcommand("adapt")]
        | Annotated[Diagnose, subcommand("diagnose")]
        | Annotated[Collect, subcommand("collect")]
        | Annotated[Inspect, subcommand("inspect")]
        | Annotated[Convert, subcommand("convert")]
        | Annotated[List, subcommand("list")]
    )


def _algorithms() -> dict[str, Any]:
    from waypost.agents import ALGORITHMS

    return ALGORITHMS


@cache
def _train_type(name: str) -> type:
    """Options of `train NAME`: where and how long, and every field of the algorithm's Config."""
    config = _algorithms()[name].config_type
    flat = tyro.conf.OmitArgPrefixes
    return make_dataclass(
        f"Train_{name}",
        [
            ("options", flat[TrainOptions], field(default_factory=TrainOptions)),
            ("columns", Columns, field(default_factory=Columns)),
            ("config", flat[config], field(default_factory=config)),
        ],
        namespace={"__doc__": _algorithms()[name].title, "algorithm": name},
        frozen=True,
    )
