"""The result of an inspection: facts, findings with what to do, and which algorithms can learn from the data."""

from __future__ import annotations

import json
from dataclasses import asdict, astuple, dataclass
from typing import Any, Literal

import numpy as np

from waypost.data.validation import Choices, described

Level = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")
"""error    no algorithm can train on this
warning  training works, but most likely learns something other than intended
note     worth knowing
"""

MOST_LISTED = 8
"""Discrete actions whose frequencies are listed."""


@dataclass(frozen=True)
class Spread:
    """Quantiles and mean of some values."""

    min: float
    q1: float
    median: float
    q3: float
    max: float
    mean: float

    @classmethod
    def of(cls, values: np.ndarray) -> Spread | None:
        """The spread of the finite values, if there are any."""
        values = values[np.isfinite(values)].astype(np.float64)
        if not len(values):
            return None
        low, q1, median, q3, high = np.quantile(values, (0, 0.25, 0.5, 0.75, 1)).tolist()
        return cls(low, q1, median, q3, high, float(values.mean()))

    def __str__(self) -> str:
        low, q1, median, q3, high, mean = map(short, astuple(self))
        if low == high:
            return f"always {low}"
        return f"mean {mean}, median {median}, quartiles {q1} to {q3}, range {low} to {high}"


@dataclass(frozen=True)
class Column:
    """One column of the observations or actions, or the rewards; numbers are None where nothing is finite.

    Discrete actions have neither mean nor standard deviation.
    """

    name: str
    kind: Literal["observation", "action", "reward"]
    min: float | None
    mean: float | None
    std: float | None
    max: float | None
    dead: bool
    """It never changes."""
    duplicate_of: str | None
    """An earlier column that holds the same numbers."""
    choices: int | None = None
    """How many discrete actions there are, if it holds these."""

    @property
    def remark(self) -> str:
        """A remark about the column, in words."""
        if self.dead:
            return "never changes"
        if self.duplicate_of:
            return f"same as {self.duplicate_of}"
        return f"{self.choices} discrete actions" if self.choices else ""


@dataclass(frozen=True)
class Finding:
    """Something to fix, to check or to know."""

    level: Level
    what: str
    """A short name that programs can rely on."""
    text: str
    """What was found, and what to do."""
    rows: tuple[int, ...] = ()
    """The first rows it is about."""
    count: int = 0
    """How many rows, columns or episodes it is about."""

    def __str__(self) -> str:
        return f"{self.text} ({self.where})" if self.rows else self.text

    @property
    def where(self) -> str:
        """The rows in words."""
        more = ", ..." if self.count > len(self.rows) else ""
        return f"row{'s' if self.count > 1 else ''} {', '.join(map(str, self.rows))}{more}" if self.rows else ""


@dataclass(frozen=True)
class Support:
    """Whether an algorithm can learn from these data."""

    algorithm: str
    supported: bool
    why: str


@dataclass(frozen=True)
class Inspection:
    """All that was found about a data set, as plain values."""

    name: str
    task: str | None
    rows: int
    episodes: int
    observation_size: int
    action_size: int | None
    action_count: int | None
    """How many discrete actions there are; None where actions are continuous or missing."""
    taken: tuple[int, ...]
    """In how many rows each of the discrete actions is taken."""
    lengths: Spread
    returns: Spread | None
    """None without rewards."""
    nonzero_rewards: float | None
    """Share of the rows."""
    distinct_rewards: int | None
    terminals: int
    timeouts: int
    unknown_next: int
    """Rows whose next state is not known."""
    columns: tuple[Column, ...]
    saturation: tuple[float, ...]
    """Share of the rows at a bound, for each continuous action."""
    repeated: float
    """Share of the rows that hold the same transition as an earlier one."""
    findings: tuple[Finding, ...]
    """Errors first, then warnings, then notes."""
    supports: tuple[Support, ...]
    action_choices: Choices = ()
    """Of mixed actions, what each column is chosen from; none where it is continuous."""

    def of_level(self, level: Level) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == level]

    @property
    def verdict(self) -> str:
        """The size of the data and what was found, in one line."""
        size = f"{grouped(self.rows)} transitions in {grouped(self.episodes)} episode{'s' if self.episodes > 1 else ''}"
        counts = ((len(self.of_level(level)), level) for level in LEVELS)
        said = [f"{count} {level}{'s' if count > 1 else ''}" for count, level in counts if count]
        return f"{size}: {', '.join(said) or 'nothing to fix'}"

    def facts(self) -> list[tuple[str, str]]:
        """The summary as pairs of words: the quantity and its value."""
        continuous = f"{self.action_size} continuous" if self.action_size else "none"
        continuous = described(self.action_choices) if self.action_choices else continuous
        values = f"{grouped(self.distinct_rewards or 0)} distinct value{'s' if self.distinct_rewards != 1 else ''}"
        facts = {
            "transitions": grouped(self.rows),
            "episodes": grouped(self.episodes),
            "observations": f"{self.observation_size} columns",
            "actions": f"{self.action_count} discrete" if self.action_count else continuous,
            "episode length": str(self.lengths),
            "return": str(self.returns or "no rewards"),
            "rewards": self.nonzero_rewards is not None and f"{percent(self.nonzero_rewards)} nonzero, {values}",
            "terminals": grouped(self.terminals),
            "timeouts": grouped(self.timeouts),
            "unknown next states": f"{grouped(self.unknown_next)} ({percent(self.unknown_next / self.rows)})",
            "repeated transitions": percent(self.repeated),
            "actions at a bound": self.saturation and f"up to {percent(max(self.saturation))} of the rows",
            "actions taken": self.taken and self._often(),
        }
        return [(what, words) for what, words in facts.items() if isinstance(words, str)]

    def _often(self) -> str:
        """How often each action is taken; for many actions, only the most frequent ones."""
        numbers = range(len(self.taken))
        many = len(numbers) > MOST_LISTED
        listed = sorted(numbers, key=lambda number: -self.taken[number])[:MOST_LISTED] if many else numbers
        words = ", ".join(f"{number} in {percent(self.taken[number] / max(sum(self.taken), 1))}" for number in listed)
        never = f"{grouped(self.taken.count(0))} of {grouped(len(numbers))} never"
        return f"most often {words}; {never}" if many else words

    def to_json(self) -> dict[str, Any]:
        """Plain JSON: null for NaN, lists for tuples."""
        return json.loads(json.dumps(asdict(self)), parse_constant=lambda _: None)


def percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def grouped(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def short(number: float) -> str:
    return grouped(round(number)) if 1e4 <= abs(number) < 1e9 else f"{number:.4g}"
