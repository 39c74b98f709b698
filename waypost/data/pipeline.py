"""The steps from a log to a Dataset, as options that a run keeps beside its `Columns`.

    read     separator and decimals of a CSV file, numbers and words that mean 'missing'
    clean    repeated time stamps, gaps and rates (`times`), empty cells (`missing`), text (`encoding`)
    derive   a reward by an expression over columns (`expressions`), windows of the last rows (`history`)

Nothing slow is imported: the command line reads this first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeVar

from tyro.conf import AvoidSubcommands, Fixed

from waypost.data.expressions import is_reference, parse
from waypost.data.roles import Columns
from waypost.errors import WaypostError
from waypost.schema import conform_fields

MISSING = ("error", "drop", "hold", "interpolate", "mean")
"""Ways to handle empty cells."""
CATEGORIES = ("error", "one-hot", "ordinal")
"""Ways to turn text into numbers."""
PERIODS = {"hour": 86_400.0, "weekday": 604_800.0, "yearday": 31_556_952.0}
"""Seconds after which the time of the day, of the week and of the year repeats."""
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}
MOST_HISTORY = 1000
Options = TypeVar("Options")


@dataclass(frozen=True)
class Learned:
    """What a pipeline learned from the data it first read, so that new files are read the same way."""

    categories: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The texts of each column of text, in the order of their numbers."""
    means: dict[str, float] = field(default_factory=dict)
    """What fills a missing value, by column."""


@dataclass(frozen=True)
class Pipeline:
    """The steps from a log to data; the defaults suit most tables and leave arrays as they are."""

    separator: Literal["auto", "comma", "semicolon", "tab", "bar"] = "auto"
    """Separator of a CSV file; auto: guessed from its first lines."""
    decimal: Literal["auto", "point", "comma"] = "auto"
    """Decimal mark of a CSV file."""
    missing_values: tuple[str, ...] = ()
    """Values that mean 'missing': -9999 in all columns, temp=-1 in one, or a text such as 'Bad Input'."""
    missing: tuple[str, ...] = ()
    """Missing values: error, drop, hold, interpolate or mean; temp=mean for one column. By default a few are held."""
    categories: tuple[str, ...] = ()
    """Text: error, one-hot or ordinal; mode=ordinal for one column, size='S<M<L' for one with an order."""
    duplicates: Literal["identical", "keep", "first", "last", "mean"] = "identical"
    """Rows of an episode with the same time stamp: which to keep, or their mean; identical: drop only exact copies."""
    max_gap: float = 10.0
    """Cut episodes where a step of time is more than this many times the median; 0 = never."""
    resample: float | None = None
    """Resample the log to one row per this many seconds; needs --columns.time."""
    cyclic: tuple[str, ...] = ()
    """Sine and cosine of: hour, weekday, yearday (from --columns.time), or a column with its period: angle=360."""
    history: int = 1
    """Rows of an episode that make up an observation: 4 = this one and the three before it."""
    reward: str | None = None
    """The reward as an expression: "-abs(temp - setpoint) - 20*trip"; next_temp is the next row's."""
    learned: AvoidSubcommands[Fixed[Learned | None]] = None
    """What was learned from the first data."""

    def __post_init__(self) -> None:
        conform_fields(self)
        by_column(self.missing, MISSING, "missing")
        by_column(self.categories, CATEGORIES, "categories", ordered=True)
        cyclic_columns(self.cyclic)
        if self.max_gap < 0:
            raise WaypostError(f"max_gap must be 0 or more, got {self.max_gap:g}")
        if self.resample is not None and self.resample <= 0:
            raise WaypostError(f"resample must be a number of seconds above 0, got {self.resample:g}")
        if not 1 <= self.history <= MOST_HISTORY:
            raise WaypostError(f"history must be from 1 to {MOST_HISTORY}, got {self.history}")
        if self.reward is not None and not is_reference(self.reward):
            parse(self.reward)

    @property
    def plain(self) -> bool:
        """Whether arrays stay as they are."""
        return replace(self, learned=None) == Pipeline()

    @property
    def learns(self) -> bool:
        """Whether all data must be seen before any can be encoded."""
        asked = any(entry.rpartition("=")[2] == "mean" for entry in self.missing) or bool(self.categories)
        return self.learned is None and asked


def with_choices(pipeline: Pipeline, columns: Columns) -> Pipeline:
    """The pipeline, with numbers for what discrete actions are chosen from."""
    known = by_column(pipeline.categories, CATEGORIES, "categories", ordered=True)
    added = tuple(f"{name}=ordinal" for name in columns.discrete if name not in known)
    return replace(pipeline, categories=(*pipeline.categories, *added)) if added else pipeline


AS_BEFORE: dict[str, Any] = {"missing": ["error"], "duplicates": "keep", "max_gap": 0.0}
"""What runs from before pipelines did."""


@dataclass(frozen=True)
class Reading:
    """How data were read: enough to read others the same way."""

    columns: Columns = field(default_factory=Columns)
    pipeline: Pipeline = field(default_factory=Pipeline)

    def with_given(self, columns: Columns, pipeline: Pipeline) -> Reading:
        """The same, with the given fields that are not the defaults."""
        return Reading(with_given(self.columns, columns), with_given(self.pipeline, pipeline))


def with_given(usual: Options, given: Options) -> Options:
    """The usual options, with those given that are not the defaults."""
    default: Any = type(given)()
    names = [each.name for each in fields(given)]  # type: ignore[arg-type]
    changed = {name: value for name in names if (value := getattr(given, name)) != getattr(default, name)}
    return replace(usual, **changed)  # type: ignore[type-var]


def by_column(entries: Sequence[str], known: Sequence[str], option: str, ordered: bool = False) -> dict[str, str]:
    """What each column asks for, by name or pattern; `*` means all others.

    With `ordered`, a column may list its texts in order: S<M<L.
    """
    found: dict[str, str] = {}
    for entry in entries:
        column, _, how = entry.rpartition("=")
        if how not in known and not (ordered and column and "<" in how):
            words = ", ".join(known)
            raise WaypostError(f"{option} must be one of {words}, or COLUMN=ONE, got {entry!r}")
        if column in found:
            raise WaypostError(f"{option} is given twice for {column or 'all columns'}")
        found[column] = how
    return {column or "*": how for column, how in sorted(found.items(), key=lambda pair: pair[0] == "")}


def asked_for(column: str, choices: Mapping[str, str]) -> str | None:
    """What a column asks for: by its name, then by a pattern, then for all."""
    return choices.get(column) or next((how for name, how in choices.items() if fnmatchcase(column, name)), None)


def cyclic_columns(entries: Sequence[str]) -> dict[str, float]:
    """The period of each cyclic column, and of each part of the time."""
    found: dict[str, float] = {}
    for entry in entries:
        name, _, period = entry.rpartition("=")
        if entry in PERIODS:
            found[entry] = PERIODS[entry]
            continue
        try:
            found[name] = float(period)
        except ValueError:
            found[name] = 0.0
        if not name or not 0 < found[name] < float("inf"):
            raise WaypostError(f"cyclic must be {', '.join(PERIODS)} or COLUMN=PERIOD, got {entry!r}")
    return found
