"""Allowed values of settings. The rule of a field is found by its name, so a name means the same everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple, TypeVar

from waypost.errors import WaypostError
from waypost.schema import conform_fields, shown

Found = TypeVar("Found")
Standardise = bool | Literal["robust"]
"""Whether to scale observations to mean 0 and standard deviation 1; robust = ignore outliers and clip them to 10."""
Weighing = Literal["plain", "standardised"]
"""Advantages in weights: as they are, or with mean 0 and standard deviation 1 in each batch."""


class Rule(NamedTuple):
    """A requirement on a setting."""

    must: str
    """In words, after "must"."""
    holds: Callable[[Any], bool]


AT_LEAST_0 = Rule("be 0 or more", lambda x: x >= 0)
AT_LEAST_1 = Rule("be 1 or more", lambda x: x >= 1)
POSITIVE = Rule("be more than 0", lambda x: x > 0)

RULES: Mapping[str, Rule] = {
    pattern: rule
    for patterns, rule in (
        ("tau", Rule("be in (0, 1)", lambda x: 0 < x < 1)),
        ("discount target_rate acting_rate top", Rule("be in (0, 1]", lambda x: 0 < x <= 1)),
        ("dropout", Rule("be in [0, 1)", lambda x: 0 <= x < 1)),
        ("minimum_share", Rule("be in [0, 1]", lambda x: 0 <= x <= 1)),
        ("weight_cap latent_clip sample_clip gradient_clip bandwidth", POSITIVE),
        ("batch_size horizon samples *candidates policy_period context layers heads", AT_LEAST_1),
        ("drift", Rule("be in [0, 1]", lambda x: 0 <= x <= 1)),
        ("*learning_rate *_steps *_weight *threshold target_noise*", AT_LEAST_0),
        ("inverse_temperature perturbation latent weight_decay backup return_scale", AT_LEAST_0),
        ("action_noise waypoint_noise", AT_LEAST_0),
        ("*hidden", Rule("have 0 or more units in each layer", lambda sizes: all(units >= 0 for units in sizes))),
    )
    for pattern in patterns.split()
}

COUNTER = 2**31 - 1
"""The compiled program counts with 32 bits."""
MOST: Mapping[str, int] = {
    pattern: most
    for patterns, most in (
        ("layers", 100),
        ("heads", 1_000),
        ("samples *candidates context", 10_000),
        ("*hidden width latent batch_size", 2**20),
    )
    for pattern in patterns.split()
}
"""Upper bounds of whole numbers; larger ones are mistakes. Memory is checked when a run starts."""
MOST_LAYERS = 100
"""The most layers of a network: tracing takes time for each."""
MOST_COLUMNS = 10_000
"""The most columns that a setting may name."""


@dataclass(frozen=True)
class Settings:
    """The base of every `Config`: an invalid value is an error when it is created."""

    def __post_init__(self) -> None:
        conform_fields(self)
        special = self.rules()
        for name in (each.name for each in fields(self)):
            value, rule = getattr(self, name), special.get(name) or _by_name(RULES, name)
            if rule and not rule.holds(value):
                raise WaypostError(f"{name} must {rule.must}, got {shown(value)}")
            most = _by_name(MOST, name) or COUNTER
            numbers = value if isinstance(value, tuple) else (value,)
            if any(isinstance(number, int) and abs(number) > most for number in numbers):
                raise WaypostError(f"{name} must be {most} or less, got {shown(value)}")
            longest = MOST_LAYERS if name.endswith("hidden") else MOST_COLUMNS
            if len(numbers) > longest:
                raise WaypostError(f"{name} must have {longest} numbers or fewer, got {len(numbers)}")

    def rules(self) -> dict[str, Rule]:
        """The algorithm's own rules, by field; they replace the common ones."""
        return {}


def _by_name(table: Mapping[str, Found], name: str) -> Found | None:
    """The entry of the first pattern that matches the name."""
    return next((table[pattern] for pattern in table if fnmatchcase(name, pattern)), None)
