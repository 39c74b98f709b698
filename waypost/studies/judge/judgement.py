"""What a judgement says: values with intervals, differences, an order, and which policy to take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

from waypost.files import table
from waypost.studies.judge.bias import NOTHING, Bias
from waypost.studies.judge.imagined import EXPLAINED
from waypost.studies.judge.likelihood import Likelihood
from waypost.studies.judge.support import Distance
from waypost.types import Doubles

LEVEL = 0.9
"""Of every interval."""
DATA = "data"
"""The candidate that recorded the data."""
CANNOT_TELL = "cannot tell"


class Estimate(NamedTuple):
    """A number with its 90 % interval."""

    value: float
    low: float
    high: float


class Difference(NamedTuple):
    """By how much one candidate is better than another, on the same bootstraps."""

    value: float
    low: float
    high: float
    probability: float
    """That it is better at all."""


@dataclass(frozen=True, eq=False)
class Judged:
    """One candidate."""

    name: str
    algorithm: str | None = None
    """None for what recorded the data."""
    run: str | None = None
    seed: int | None = None
    value: Estimate | None = None
    """Discounted value of the start states, in units of the rewards; None where nobody can tell."""
    gain: Difference | None = None
    """Against what recorded the data."""
    robust: Estimate | None = None
    """The doubly robust estimate of the same; None where the data do not allow a single step of it."""
    robust_steps: int = 0
    """How many steps of the recorded episodes it follows before the evaluator is believed."""
    distance: Distance | None = None
    distances: Doubles = field(default_factory=lambda: np.empty(0))
    """Of the actions from the recorded ones, a number per state that was looked at."""
    likelihood: Likelihood | None = None
    log_ratios: Doubles = field(default_factory=lambda: np.empty(0))
    """How much likelier the behaviour was to act so than as it did, in logarithms, in the same states."""
    members: Doubles = field(default_factory=lambda: np.empty(0))
    """The value by each member of the ensemble; kept, but not shown, where nobody can tell."""
    imagined: float | None = None
    """The value in imagined episodes; fitted Q evaluation lies as far on the other side of the value."""
    bias: Bias = NOTHING
    """By how much the members' mean is too low, as far as recorded rows say; the interval reaches that far."""
    curve: Doubles = field(default_factory=lambda: np.empty(0))
    """How the value settled while the evaluators learned."""
    rank: int | None = None
    """By the lower end of the interval."""
    note: str = ""

    @property
    def gap(self) -> float:
        """From the middle between the two estimates to the imagined one; 0 if there is only one."""
        return 0.0 if self.imagined is None else self.imagined - float(self.members.mean())

    @property
    def verdict(self) -> str:
        if self.algorithm is None:
            return "the log itself"
        if self.value is None or self.gain is None:
            return CANNOT_TELL
        if self.gain.low > 0:
            return "better than the data"
        return "worse than the data" if self.gain.high < 0 else "no clear difference"


@dataclass(frozen=True, eq=False)
class Judgement:
    """All candidates on the same data."""

    data: str
    episodes: int
    rows: int
    discount: float
    mean_return: float
    """Of the recorded episodes, undiscounted."""
    discounted_return: float
    """The same discounted; where episodes were cut off it counts only what was recorded."""
    candidates: tuple[Judged, ...]
    """By rank; those nobody can tell about last."""
    steps: tuple[int, ...]
    """Updates at the points of the evaluators' curves."""
    clipped: float
    """Share of the evaluators' targets that lay beyond what the rewards can reach."""
    explained: float | None = None
    """Share of the recorded steps that the models of the plant explain; None if nothing was to be imagined."""
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def ranked(self) -> list[Judged]:
        """The policies that can be told about, best first."""
        return [each for each in self.candidates if each.rank is not None and each.algorithm is not None]

    @property
    def baseline(self) -> Judged:
        """What recorded the data."""
        return next(each for each in self.candidates if each.algorithm is None)

    @property
    def pairs(self) -> list[tuple[str, str, Difference]]:
        """Every two candidates with a value, the one of the better rank first."""
        told = [each for each in self.candidates if each.rank is not None]
        return [
            (one.name, other.name, between(one, other)) for place, one in enumerate(told) for other in told[place + 1 :]
        ]

    def words(self) -> str:
        """Which one to take, and how sure that is."""
        policies = [each for each in self.candidates if each.algorithm is not None]
        if not self.ranked:
            few = "the policy acts" if len(policies) == 1 else f"all {len(policies)} policies act"
            reasons = {each.note for each in policies}
            why = reasons.pop() if len(reasons) == 1 else f"{few} in ways the data say nothing about"
            return f"Cannot tell: {why}. Keep what recorded the data."
        best, data = self.ranked[0], self.baseline
        assert best.value is not None
        assert best.gain is not None
        assert data.value is not None
        values = f"{_short(best.value.value)} ({_span(best.value)}) against {_short(data.value.value)} of the data"
        if best.gain.low <= 0:
            guess = f"the best guess is {best.name}, {values}, better with a probability of {_chance(best.gain)}"
            return f"Keep what recorded the data: no policy is clearly better; {guess}."
        sure = f"better than what recorded the data with a probability of {_chance(best.gain)}"
        if len(self.ranked) > 1:
            second = self.ranked[1]
            sure += f", than {second.name} with {_chance(between(best, second))}"
        doubt = " The doubly robust check disagrees." if disagree(best) else ""
        return f"Take {best.name}: its value is {values}; {sure}.{doubt}"

    def to_json(self) -> dict[str, Any]:
        return {
            "data": self.data,
            "episodes": self.episodes,
            "rows": self.rows,
            "discount": self.discount,
            "mean_return": self.mean_return,
            "discounted_return": self.discounted_return,
            "verdict": self.words(),
            "take": next((each.name for each in self.ranked[:1] if each.gain and each.gain.low > 0), None),
            "candidates": [_record(each, self.discount) for each in self.candidates],
            "pairs": [{"first": one, "second": other, **apart._asdict()} for one, other, apart in self.pairs],
            "clipped": self.clipped,
            "explained": self.explained,
            "settings": self.settings,
        }


def _record(each: Judged, discount: float) -> dict[str, Any]:
    return {
        "name": each.name,
        "run": each.run,
        "seed": each.seed,
        "algorithm": each.algorithm,
        "rank": each.rank,
        "verdict": each.verdict,
        "value": each.value._asdict() if each.value else None,
        "bias": each.bias._asdict() if each.value else None,
        "fitted": float(each.members.mean()) - each.gap if each.value else None,
        "imagined": each.imagined if each.value else None,
        "per_step": each.value.value * (1.0 - discount) if each.value and discount < 1.0 else None,
        "gain": each.gain._asdict() if each.gain else None,
        "doubly_robust": {**each.robust._asdict(), "steps": each.robust_steps} if each.robust else None,
        "distance": asdict(each.distance) if each.distance else None,
        "likelihood": asdict(each.likelihood) if each.likelihood else None,
        "note": each.note,
    }


# -- statistics ------------------------------------------------------------------------------------


def estimate(members: Sequence[float] | Doubles, missed: Bias = NOTHING, gap: float = 0.0) -> Estimate:
    """Mean of the members with an interval: their spread over the bootstraps is the standard error.

    There are few members, so the quantile is Student's. The interval reaches as far as what the evaluators miss would
    move them, and as far as imagined episodes, which are `gap` above the mean; the evaluators are `gap` below it. It is
    wider by how unsure what they miss is.
    """
    numbers = np.asarray(members, np.float64)
    mean, half = float(numbers.mean()), _quantile(len(numbers)) * float(np.hypot(numbers.std(ddof=1), missed.error))
    low, high = _ends(missed, gap)
    return Estimate(mean, mean + low - half, mean + high + half)


def _ends(missed: Bias, gap: float) -> tuple[float, float]:
    """How far from the mean of the members the value may be, apart from chance."""
    places = (-gap, -gap + missed.value, gap)
    return min(places), max(places)


def within(found: Estimate, least: float, most: float) -> Estimate:
    """The same with an interval of what can be reached at all."""
    return Estimate(found.value, max(found.low, min(least, found.value)), min(found.high, max(most, found.value)))


def between(one: Judged, other: Judged) -> Difference:
    """By how much one candidate is better than the other."""
    return difference(one.members, other.members, one.bias.against(other.bias), one.gap - other.gap)


def difference(ones: Doubles, others: Doubles, missed: Bias = NOTHING, gap: float = 0.0) -> Difference:
    """Of two candidates, member by member: what their bootstraps have in common falls out.

    `missed` is by how much the difference is too low by the evaluators' errors, `gap` how far the difference in
    imagined episodes is above the mean of both. The probability is that of the end of what it may be that is
    nearer to no difference.
    """
    from scipy.special import stdtr  # slow to import

    apart = np.asarray(ones, np.float64) - others
    mean, spread = float(apart.mean()), float(np.hypot(apart.std(ddof=1), missed.error))
    ends = [mean + end for end in _ends(missed, gap)]
    least = 0.0 if ends[0] < 0.0 < ends[1] else min(ends, key=abs)
    far = least / spread if spread else np.inf * np.sign(least) if least else 0.0
    return Difference(*estimate(apart, missed, gap), float(stdtr(len(apart) - 1, far)))


def percentiles(value: float, resamples: Doubles) -> Estimate:
    """A value with the interval of its many bootstraps."""
    low, high = np.quantile(resamples, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return Estimate(value, float(low), float(high))


def disagree(each: Judged) -> bool:
    """Whether the intervals of the two estimates have nothing in common."""
    if each.value is None or each.robust is None:
        return False
    return each.robust.high < each.value.low or each.robust.low > each.value.high


def _quantile(members: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(members - 1, (1 + LEVEL) / 2))


# -- tables ----------------------------------------------------------------------------------------

HEADER = (
    "policy",
    "value",
    "90 % interval",
    "gain over data",
    "imagined",
    "doubly robust",
    "unusual actions",
    "unlikely actions",
    "verdict",
)


def cells(each: Judged) -> list[str]:
    """A row of the table, as people read it."""
    robust = f"{_short(each.robust.value)} ({each.robust_steps} steps)" if each.robust else "-"
    gain = f"{_short(each.gain.value)} ({_span(each.gain)})" if each.gain and each.algorithm else "-"
    return [
        each.name,
        _short(each.value.value) if each.value else "-",
        _span(each.value) if each.value else "-",
        gain,
        _short(each.imagined) if each.value and each.imagined is not None else "-",
        robust,
        f"{100 * each.distance.outside:.0f} %" if each.distance else "-",
        f"{100 * each.likelihood.unlikely:.0f} %" if each.likelihood else "-",
        each.verdict,
    ]


def notes(judgement: Judgement) -> list[str]:
    """Why nobody can tell about some candidates, where a check disagrees, and why there are no imagined episodes."""
    found = [f"{each.name}: {each.note}" for each in judgement.candidates if each.note]
    found += [f"{each.name}: the doubly robust check disagrees" for each in judgement.candidates if disagree(each)]
    if judgement.explained is not None and all(each.imagined is None for each in judgement.candidates):
        share, needed = f"{100 * max(judgement.explained, 0.0):.1f} %", f"{100 * EXPLAINED:.0f} %"
        found.append(f"no episodes are imagined: a model explains {share} of how the state changes, not {needed}")
    return found


def as_csv(judgement: Judgement) -> str:
    rows = []
    for each in judgement.candidates:
        row: dict[str, Any] = {"name": each.name, "run": each.run, "seed": each.seed, "algorithm": each.algorithm}
        row |= {"rank": each.rank, "verdict": each.verdict}
        row |= _flat("", each.value, ("value", "low", "high"))
        row |= _flat("gain_", each.gain, Difference._fields)
        row |= _flat("doubly_robust_", each.robust, Estimate._fields) | {"doubly_robust_steps": each.robust_steps}
        row |= _flat("distance_", each.distance, [one.name for one in fields(Distance)])
        row |= _flat("likelihood_", each.likelihood, [one.name for one in fields(Likelihood)])
        rows.append(row | {"imagined": each.imagined if each.value else None, "note": each.note})
    return table(list(rows[0]), rows)


def _flat(prefix: str, numbers: Any, names: Sequence[str]) -> dict[str, float | None]:
    return {prefix + name: None if numbers is None else getattr(numbers, name) for name in names}


def _short(number: float) -> str:
    return f"{number:.4g}"


def _span(numbers: Estimate | Difference) -> str:
    return f"{_short(numbers.low)} to {_short(numbers.high)}"


def _chance(apart: Difference) -> str:
    """No more than few members can say."""
    return "over 99 %" if apart.probability > 0.99 else f"{apart.probability:.0%}".replace("%", " %")
