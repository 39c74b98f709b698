"""The settings a sweep tries: every combination of a grid, or what Optuna suggests."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, get_type_hints

from waypost.agents import find_entry
from waypost.errors import WaypostError
from waypost.resources import require
from waypost.schema import conform, meant, shown

Settings = dict[str, Any]
MOST = 10_000
"""The most combinations of a grid."""


class Range(NamedTuple):
    """A range of numbers."""

    low: float
    high: float
    log: bool = False
    """Whether it is sampled on a log scale."""


class Candidates(Protocol):
    """Settings to try, one after the other."""

    def __len__(self) -> int:
        """How many there are in all."""
        ...

    def next(self) -> Settings | None:
        """The next settings; None if there are no more."""
        ...

    def tell(self, settings: Settings, value: float | None) -> None:
        """Report the result of settings; None if they were not trained to the end."""
        ...


# -- from the command line --------------------------------------------------------------------------


def read_grid(algorithm: str, words: Sequence[str]) -> dict[str, list[Any]]:
    """Values by setting, from texts such as tau=0.7,0.9 or hidden=[64],[64,64]."""
    found: dict[str, list[Any]] = {}
    for text in words:
        name, given = _named(algorithm, text, "tau=0.7,0.9", found)
        found[name] = values = _values(algorithm, name, given)
        if len({shown(value) for value in values}) < len(values):
            raise WaypostError(f"--grid {text}: a value appears twice")
    return found


def read_ranges(algorithm: str, words: Sequence[str]) -> dict[str, Range]:
    """Ranges by setting, from texts such as tau=0.5:0.95 or value_learning_rate=1e-4:1e-2:log."""
    found: dict[str, Range] = {}
    for text in words:
        name, given = _named(algorithm, text, "tau=0.5:0.95 or value_learning_rate=1e-4:1e-2:log", found)
        low, _, rest = given.partition(":")
        high, _, scale = rest.partition(":")
        if scale not in ("", "log"):
            raise WaypostError(f"--range {text}: the scale must be log or left out, got {scale}")
        ends = [*_values(algorithm, name, low), *_values(algorithm, name, high)]
        if len(ends) != 2 or any(isinstance(end, bool) or not isinstance(end, int | float) for end in ends):
            raise WaypostError(f"--range {text}: not a range of numbers; write for example tau=0.5:0.95")
        if not ends[0] < ends[1] or (scale and ends[0] <= 0):
            above = " and be above 0 on a log scale" if scale else ""
            raise WaypostError(f"--range {text}: the first number must be below the second{above}")
        found[name] = Range(ends[0], ends[1], bool(scale))
    return found


def _named(algorithm: str, text: str, example: str, found: Mapping[str, Any]) -> tuple[str, str]:
    name, equals, given = text.partition("=")
    name = name.strip().replace("-", "_")
    known = _types(algorithm)
    if not equals or not given.strip():
        raise WaypostError(f"{text!r}: not a setting with values; write for example {example}")
    if name not in known:
        listed = f"`waypost train {algorithm} --help` lists them"
        raise WaypostError(f"{algorithm} has no setting {name}; {listed}{meant(name, known)}")
    if name in found:
        raise WaypostError(f"{name} is given twice")
    return name, given


def _values(algorithm: str, name: str, text: str) -> list[Any]:
    """The values of a setting, written as in TOML; words need no quotes."""
    try:
        found: list[Any] = tomllib.loads(f"values = [{text}]")["values"]
    except tomllib.TOMLDecodeError:
        found = [word.strip() for word in text.split(",")]
    return [conform(value, _types(algorithm)[name], name) for value in found]


def _types(algorithm: str) -> dict[str, Any]:
    return get_type_hints(find_entry(algorithm).config_type)


# -- sources ----------------------------------------------------------------------------------------


class Grid:
    """Every combination, in the order of the values."""

    def __init__(self, grid: Mapping[str, Sequence[Any]]):
        self.combinations = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
        if len(self.combinations) > MOST:
            raise WaypostError(f"the grid has {len(self.combinations)} combinations; the most are {MOST}")
        self.place = 0

    def __len__(self) -> int:
        return len(self.combinations)

    def next(self) -> Settings | None:
        self.place += 1
        return self.combinations[self.place - 1] if self.place <= len(self.combinations) else None

    def tell(self, settings: Settings, value: float | None) -> None: ...


@dataclass(eq=False)
class Suggested:
    """Optuna's suggestions, from the results of earlier settings; the same history gives the same suggestion."""

    grid: Mapping[str, Sequence[Any]]
    ranges: Mapping[str, Range]
    count: int
    """Number of settings to try."""
    seed: int = 0
    lower: bool = False
    """Whether lower is better."""
    again: Sequence[Settings] = ()
    """Settings of an earlier call, in their order: they come first."""
    asked: list[tuple[Settings, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MOST:
            raise WaypostError(f"trials must be from 1 to {MOST}, got {self.count}")
        self.optuna = require("optuna", "search", "--search optuna")
        self.optuna.logging.set_verbosity(self.optuna.logging.WARNING)
        self.study = self.optuna.create_study(direction="minimize" if self.lower else "maximize")

    def __len__(self) -> int:
        return self.count

    def next(self) -> Settings | None:
        number = len(self.asked)
        if number >= self.count:
            return None
        # A new sampler for each: its draws do not depend on whether the sweep was interrupted before.
        self.study.sampler = self.optuna.samplers.TPESampler(seed=self.seed + number, constant_liar=True)
        if number < len(self.again):
            self.study.enqueue_trial({name: self._plain(name, value) for name, value in self.again[number].items()})
        trial = self.study.ask()
        settings = {name: self._value(trial, name) for name in (*self.grid, *self.ranges)}
        self.asked.append((settings, trial))
        return settings

    def tell(self, settings: Settings, value: float | None) -> None:
        trial = next(trial for known, trial in self.asked if known is settings)
        states = self.optuna.trial.TrialState
        self.study.tell(trial, value, state=states.PRUNED if value is None else states.COMPLETE)

    def _value(self, trial: Any, name: str) -> Any:
        if name in self.grid:
            return self.grid[name][trial.suggest_categorical(name, range(len(self.grid[name])))]
        low, high, log = self.ranges[name]
        if isinstance(low, int) and isinstance(high, int):
            return trial.suggest_int(name, low, high, log=log)
        return trial.suggest_float(name, low, high, log=log)

    def _plain(self, name: str, value: Any) -> Any:
        """A value as Optuna knows it: for a grid, its index."""
        return list(self.grid[name]).index(value) if name in self.grid else value
