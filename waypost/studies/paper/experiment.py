"""What an experiment of the paper is, what it is given and what it gives back.

The file of an experiment holds a function `run(context) -> Outcome`. It reads how many seeds and steps it gets from the
context, and cannot tell its quick form from its full one by anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from matplotlib.figure import Figure

from waypost.agents.settings import COUNTER
from waypost.data.dataset import Dataset
from waypost.data.sources import recipe_of
from waypost.envs.tasks import Protocol
from waypost.errors import WaypostError
from waypost.schema import conform_fields
from waypost.studies.results import Donor, Results
from waypost.studies.rounds import Rounds
from waypost.studies.settings import with_tuples
from waypost.studies.trials import Trial, carry_out
from waypost.studies.updates import with_total_updates
from waypost.training.callbacks import Callback
from waypost.training.plan import MOST_SEEDS, Plan, plan
from waypost.training.runs import Run

Counting = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]
"""Shows a bar under a title, which is told how many of how many are done."""

Item = TypeVar("Item")
Row = Mapping[str, str | int | float | None]
"""A line of a table: the same names in every row, None where there is no number."""


@dataclass(frozen=True)
class Size:
    """How much is done: all that the quick and the full form of an experiment differ in."""

    seeds: int
    """Agents of each kind, or draws where nothing is trained."""
    steps: int | None = None
    """Updates each agent gets in all; None: as many as its preset says, or nothing is trained."""
    recorded: int | None = None
    """Steps that are recorded of each replica; None: as many as D4RL's set has."""
    episodes: int | None = None
    """Rollouts of each agent in an evaluation, each from another seed; None: as many as its task says."""

    def __post_init__(self) -> None:
        conform_fields(self)
        for name, most in {"seeds": MOST_SEEDS, "steps": COUNTER, "recorded": COUNTER, "episodes": 10**6}.items():
            number = getattr(self, name)
            if number is not None and number < 1:
                raise WaypostError(f"{name} must be at least 1, got {number}")
            if number is not None and number > most:
                raise WaypostError(f"{name} must be at most {most}, got {number}")

    def of(self, data: str) -> str:
        """The name of as much of a data set as is recorded; only of whole replicas there can be less."""
        made = recipe_of(data)
        whole = made is not None and made[0].transitions is not None and made[1] is None
        return f"{data}-{self.recorded}" if self.recorded and whole else data


@dataclass(frozen=True)
class Experiment:
    """An experiment of the paper, and where its code is."""

    name: str
    title: str
    place: str
    """Where it stands in the paper."""
    claim: str
    """What the paper says it shows."""
    quick: Size
    """Minutes."""
    full: Size
    """As long as it takes."""
    data: tuple[str, ...] = ()
    """Data sets to choose from; none: there is no choice."""
    algorithms: tuple[str, ...] = ()
    """Algorithms to choose from; none: there is no choice."""
    scores_only: bool = False
    """Whether scores are all it wants of its trainings, so that a folder of results is enough."""

    @property
    def trains(self) -> bool:
        """Whether there are steps to choose."""
        return self.quick.steps is not None

    def form(self, quick: bool) -> Size:
        return self.quick if quick else self.full

    def run(self, context: Context) -> Outcome:
        """Do it; the module is imported only now."""
        return import_module(f"waypost.studies.paper.{self.name.replace('-', '_')}").run(context)


@dataclass(frozen=True, eq=False)
class Context:
    """What an experiment may use."""

    size: Size
    runs: Path
    """Folder for run directories, DATA/KIND as in the folder of a comparison."""
    callback: Callback
    """Told about trainings."""
    counting: Counting
    """Told about everything else that takes a while."""
    data: tuple[str, ...] = ()
    """The data sets that were chosen, of those the experiment has; hopper-medium-v2 is D4RL's file of hopper-medium."""
    algorithms: tuple[str, ...] = ()
    """The algorithms that were chosen, of those the experiment has."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """For each algorithm's name, settings on top of its preset; what the experiment itself sets is on top of them."""
    evaluation: Callable[[Protocol], Protocol] = lambda usual: usual
    """How agents are evaluated, made of how they usually are."""
    results: Results | None = None
    """The folder that finished trainings are read from and new ones go to, in place of run directories."""
    minutes: float | None = None
    """Minutes of one core each agent's updates take, in place of a number of steps; only with `results`."""
    seconds: dict[Path, float] = field(default_factory=dict)
    """How long each training that was asked for took, whenever that was."""
    used: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """Those of the settings that a training had."""
    rounds: Rounds | None = None
    """Where trainings go that others are to carry out; by default they run here, when they are asked for."""

    def each(self, items: Sequence[Item], what: str) -> Iterator[Item]:
        """The items one after the other, under a progress bar."""
        with self.counting(what) as count:
            for done, item in enumerate(items):
                yield item
                count(done + 1, len(items))

    def train(
        self,
        algorithm: str,
        data: str | Path | Dataset,
        *,
        label: str | None = None,
        donor: Donor | None = None,
        weights: bool = False,
        **options: Any,
    ) -> Run:
        """A training with this experiment's seeds and steps; it resumes, and a finished one is only read.

        label     the run directory's name under `runs`; by default DATA/ALGORITHM
        donor     provides the parts this training leaves out
        weights   whether the agent is a donor itself: it leaves a run directory beside a file of results
        options   as for `waypost.train`
        """
        if algorithm in self.settings:
            self.used[algorithm] = self.settings[algorithm]
        planned = self._plan(algorithm, data, options)
        label = label or f"{Path(planned.data).stem}/{algorithm}"
        place = self.runs / label
        if self.results is None:
            if donor is not None:
                given = self._trained(Trial(donor.plan, donor.data, donor.place))
                self.seconds[donor.place] = given.result["seconds"]
                planned = replace(planned, init=str(given.directory))
            run = self._trained(Trial(planned, data, place))
        else:
            short = label.removesuffix(f"/seed-{planned.seeds[0]}")
            run = self.results.run(planned, data, short, self.callback, donor, place if weights else None)
        self.seconds[place] = run.result["seconds"]
        return run

    def _trained(self, trial: Trial) -> Run:
        return self.rounds.get(trial) if self.rounds is not None else carry_out(trial, self.callback)

    def donor(self, algorithm: str, data: str | Path | Dataset, *, label: str, **options: Any) -> Donor:
        """A training as `train` does it, once somebody needs its agent."""
        return Donor(self._plan(algorithm, data, options), data, self.runs / label, self.callback)

    def _plan(self, algorithm: str, data: str | Path | Dataset, options: Mapping[str, Any]) -> Plan[Any]:
        given = with_tuples(self.settings.get(algorithm, {}))
        planned = plan(algorithm, data, **{"seeds": self.size.seeds, **given, **options})
        if self.minutes is not None and self.results is not None:
            planned = self.results.with_minutes(planned, self.minutes, data)
        elif self.size.steps is not None:
            planned = with_total_updates(planned, self.size.steps)
        return replace(planned, evaluation=self.evaluation(planned.evaluation))


def over_seeds(rows: Sequence[Row], by: Sequence[str], same: Sequence[str] = ()) -> list[dict[str, Any]]:
    """One row for all seeds: how many there were, and the mean of each number over those that have it.

    by     names of the columns that tell what a row is about
    same   names of the columns that are the same for every seed
    """
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in by), []).append(row)
    means: list[dict[str, Any]] = []
    for about, own in found.items():
        mean = dict(zip(by, about, strict=True)) | {"seeds": len(own)} | {name: own[0][name] for name in same}
        for name in (name for name in own[0] if name not in (*by, *same, "seed")):
            known = [float(number) for row in own if (number := row[name]) is not None]
            mean[name] = sum(known) / len(known) if known else None
        means.append(mean)
    return means


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure and what to say about it."""

    figure: Figure
    caption: str
    alt: str
    """What there is to see, for those who cannot."""


@dataclass(frozen=True, eq=False)
class Table:
    """Numbers of an outcome, written as CSV and JSON."""

    rows: Sequence[Row]
    caption: str
    shown: bool = False
    """Whether people want to read it beside the text; the others are only linked."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What an experiment found. Its text names no number that is not in, or made of, one of its tables."""

    text: str
    """Markdown: what was run, and what it shows beside the paper's claim."""
    figures: Mapping[str, Drawing] = field(default_factory=dict)
    """By file name, without a suffix."""
    tables: Mapping[str, Table] = field(default_factory=dict)
    """By file name, without a suffix."""
