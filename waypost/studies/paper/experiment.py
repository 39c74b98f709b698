"""Experiments of the paper: their description, what they may use, and what they return.

The file of an experiment holds a function `run(context) -> Outcome`. It takes the number of seeds and steps from the
context, and cannot tell its quick form from its full one in any other way.
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
"""Shows a bar with a title; the function it yields takes how many of how many are done."""

Item = TypeVar("Item")
Row = Mapping[str, str | int | float | None]
"""A row of a table: the same names in every row, None where there is no number."""


@dataclass(frozen=True)
class Size:
    """The size of an experiment: the only difference between its quick and its full form."""

    seeds: int
    """Agents of each kind, or random draws if nothing is trained."""
    steps: int | None = None
    """Updates of each agent, over all stages; None: as in its preset, or nothing is trained."""
    recorded: int | None = None
    """Transitions to record for each replica; None: as many as D4RL's data set has."""
    episodes: int | None = None
    """Rollouts of each agent in an evaluation, each with its own seed; None: as the task says."""

    def __post_init__(self) -> None:
        conform_fields(self)
        for name, most in {"seeds": MOST_SEEDS, "steps": COUNTER, "recorded": COUNTER, "episodes": 10**6}.items():
            number = getattr(self, name)
            if number is not None and number < 1:
                raise WaypostError(f"{name} must be at least 1, got {number}")
            if number is not None and number > most:
                raise WaypostError(f"{name} must be at most {most}, got {number}")

    def of(self, data: str) -> str:
        """The name of the recorded part of a data set; only whole replicas can be cut."""
        made = recipe_of(data)
        whole = made is not None and made[0].transitions is not None and made[1] is None
        return f"{data}-{self.recorded}" if self.recorded and whole else data


@dataclass(frozen=True)
class Experiment:
    """An experiment of the paper, and where its code is."""

    name: str
    title: str
    place: str
    """Its place in the paper."""
    claim: str
    """What the paper claims."""
    quick: Size
    """Minutes."""
    full: Size
    """Without a limit on time."""
    data: tuple[str, ...] = ()
    """Data sets to choose from; empty: there is no choice."""
    algorithms: tuple[str, ...] = ()
    """Algorithms to choose from; empty: there is no choice."""
    default_algorithms: tuple[str, ...] = ()
    """Those that run if none are chosen; empty: all."""
    scores_only: bool = False
    """Whether it needs only the scores of its trainings, so that a folder of results is enough."""

    @property
    def trains(self) -> bool:
        """Whether it has steps to choose."""
        return self.quick.steps is not None

    @property
    def usual_algorithms(self) -> tuple[str, ...]:
        return self.default_algorithms or self.algorithms

    def form(self, quick: bool) -> Size:
        return self.quick if quick else self.full

    def run(self, context: Context) -> Outcome:
        """Run it; the module is imported only now."""
        return import_module(f"waypost.studies.paper.{self.name.replace('-', '_')}").run(context)


@dataclass(frozen=True, eq=False)
class Context:
    """What an experiment may use."""

    size: Size
    runs: Path
    """Folder for run directories, DATA/KIND as in the folder of a comparison."""
    callback: Callback
    """Follows trainings."""
    counting: Counting
    """Shows the progress of everything else that takes a while."""
    data: tuple[str, ...] = ()
    """The chosen data sets of the experiment; hopper-medium-v2 is D4RL's file of hopper-medium."""
    algorithms: tuple[str, ...] = ()
    """The chosen algorithms of the experiment."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings by algorithm that override its preset; the experiment's own settings override them."""
    evaluation: Callable[[Protocol], Protocol] = lambda usual: usual
    """How agents are evaluated, as a change of the default."""
    results: Results | None = None
    """The folder that finished trainings are read from and new ones are written to, instead of run directories."""
    minutes: float | None = None
    """Minutes on one core for the updates of each agent, instead of a number of steps; only with `results`."""
    seconds: dict[Path, float] = field(default_factory=dict)
    """How long each training took, whenever it ran."""
    used: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """The settings that were used by a training."""
    rounds: Rounds | None = None
    """Collects trainings to be run elsewhere; by default they run here, when they are needed."""

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
        weights   whether the agent is a donor itself: a run directory is then written beside the results
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
        """A training as in `train`, run when its agent is first needed."""
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
    """One row over all seeds: their number, and the mean of each value over those that have it.

    by     columns that identify what a row is about
    same   columns that are the same for every seed
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
    """A figure with its caption."""

    figure: Figure
    caption: str
    alt: str
    """A description for people who cannot see it."""


@dataclass(frozen=True, eq=False)
class Table:
    """Numbers of an outcome, written as CSV and JSON."""

    rows: Sequence[Row]
    caption: str
    shown: bool = False
    """Whether it is shown beside the text; others are only linked."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of an experiment. Every number in its text is in one of its tables, or computed from them."""

    text: str
    """Markdown: what was run, and what it shows about the paper's claim."""
    figures: Mapping[str, Drawing] = field(default_factory=dict)
    """By file name, without a suffix."""
    tables: Mapping[str, Table] = field(default_factory=dict)
    """By file name, without a suffix."""
