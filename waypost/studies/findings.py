"""From the measures of a diagnosis to what is wrong with an agent, if anything, and which option may help."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

Floats = np.ndarray
_TEXTS = tomllib.loads((files(__package__) / "diagnosis.toml").read_text("utf-8"))
MEANINGS: dict[str, str] = _TEXTS["meanings"]
"""What each measure means, by name."""
ADVICE: dict[str, str] = _TEXTS["advice"]
"""What is wrong and what may help, by the name of the finding."""

WORSE = 1.1
"""An agent is worse than the log if its actions are this many times as far from the best recorded ones."""
FAR = 3.0
"""Goals are outside the data if they are this many times as far from recorded states as these from each other ..."""
NEAR = 0.2
"""... unless this share of them is as near as those."""
CANNOT_REPEAT = 1.0
"""An executor has learned nothing if its error is this share of that of always taking the mean action."""
AIMLESS = 0.85
"""A guide hardly improves on the log if its distance from the best recorded actions is this share of the log's."""
UNLIKE = 100.0
"""Columns whose standard deviations differ by this factor cannot be learned from without scaling."""

SMALLEST = 1e-6
"""Distances below this count as zero."""


class Finding(NamedTuple):
    """Something wrong with an agent."""

    what: str
    """guide, scaling, aim, executor or steep."""
    text: str


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """The measures: a number per state for each name in MEANINGS."""

    measures: dict[str, Floats]
    inverse_temperature: float
    """That of the guide's training."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Other settings that the advice depends on: observation_scaling."""
    widths: float = 1.0
    """The largest standard deviation of a column divided by the smallest."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row per measure: mean, median, 95th percentile and largest."""
        return [
            {
                "measure": name,
                "mean": float(values.mean()),
                "median": float(np.median(values)),
                "p95": float(np.quantile(values, 0.95)),
                "largest": float(values.max()),
                "meaning": MEANINGS[name],
            }
            for name, values in self.measures.items()
        ]

    @property
    def near(self) -> float:
        """The share of goals as near to a recorded next state as these are to each other."""
        return float(np.mean(self.measures["guide_to_data"] <= self.measures["data_to_data"]))

    @property
    def times_as_far(self) -> float:
        """How many times as far goals are from recorded next states as these from each other."""
        return self._mean("guide_to_data") / max(self._mean("data_to_data"), SMALLEST)

    @property
    def holds(self) -> float:
        """The share of states where the gap is within the bound."""
        return float(np.mean(self.measures["gap"] <= self.measures["bound"]))

    @property
    def worse(self) -> float:
        """How many times as far the agent's actions are from the best recorded ones as the recorded actions."""
        return self._mean("gap") / max(self._mean("recorded_gap"), SMALLEST)

    def _mean(self, name: str) -> float:
        return float(self.measures[name].mean())

    def findings(self) -> list[Finding]:
        """What is wrong, the most serious first; empty if the measures show no problem."""
        numbers = {name: self._mean(name) for name in self.measures} | {
            "times": self.times_as_far,
            "widths": self.widths,
            "temperature": self.inverse_temperature,
            "less": self.inverse_temperature / 3,
        }
        return [Finding(what, ADVICE[what].format(**numbers)) for what in self._wrong()]

    def _wrong(self) -> list[str]:
        outside = self.times_as_far > FAR and self.near < NEAR
        clumsy = self._mean("l3") > CANNOT_REPEAT * self._mean("action_spread")
        bad = outside or clumsy or self.worse > WORSE
        if bad and self.settings.get("observation_scaling") == "none" and self.widths > UNLIKE:
            return ["scaling"]  # it explains all others
        if outside or clumsy:
            return [what for what, there in (("guide", outside), ("executor", clumsy)) if there]
        if bad:
            return ["steep"]
        return ["aim"] if self._mean("l2") > AIMLESS * self._mean("recorded_gap") else []

    def to_json(self) -> dict[str, Any]:
        findings = self.findings()
        return {
            "states": len(self.measures["gap"]),
            "inverse_temperature": self.inverse_temperature,
            "near": self.near,
            "holds": self.holds,
            "worse": self.worse,
            "sound": not findings,
            "findings": [each._asdict() for each in findings],
            "measures": self.rows,
        }

    def reading(self) -> str:
        """The result as text: the verdict, why, and the terms of the bound."""
        mean = {row["measure"]: row["mean"] for row in self.rows}
        parts = {name: mean[name] for name in ("l1", "l2", "l3")}
        largest = max(parts, key=lambda name: parts[name])
        findings = self.findings()
        verdict = " ".join(each.text for each in findings) or ADVICE["sound"]
        return (
            f"{verdict} "
            f"The agent's action is {mean['gap']:.3g} away from the best one recorded in similar states, "
            f"the recorded action {mean['recorded_gap']:.3g}; actions are scaled to [-1, 1]. "
            f"{self.near:.0%} of the guide's goals are as near to a recorded state as these are to each other; "
            f"on average they are {self.times_as_far:.2g} times as far. "
            f"V is {abs(mean['value_gain']):.3g} {'higher' if mean['value_gain'] >= 0 else 'lower'} "
            "at the goals than at the recorded next states. "
            f"The terms of the bound are l1 = {parts['l1']:.3g} (the guide leaves the data), "
            f"l2 = {parts['l2']:.3g} (its goal is not the best recorded one) and "
            f"l3 = {parts['l3']:.3g} (the executor's own error); the largest is {largest}. "
            f"The bound holds in {self.holds:.0%} of {len(self.measures['gap'])} states."
        )
