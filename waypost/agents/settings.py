"""What values settings may have. The rule of a field is found by its name, so a name means the same everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from waypost.errors import WaypostError


class Rule(NamedTuple):
    """What a setting must be."""

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
        ("discount target_rate top", Rule("be in (0, 1]", lambda x: 0 < x <= 1)),
        ("dropout", Rule("be in [0, 1)", lambda x: 0 <= x < 1)),
        ("minimum_share", Rule("be in [0, 1]", lambda x: 0 <= x <= 1)),
        ("weight_cap latent_clip sample_clip gradient_clip bandwidth return_scale", POSITIVE),
        ("batch_size horizon samples *candidates policy_period context layers heads", AT_LEAST_1),
        ("*learning_rate *_steps *_weight *threshold target_noise*", AT_LEAST_0),
        ("inverse_temperature perturbation latent weight_decay", AT_LEAST_0),
        ("*hidden", Rule("have 1 or more units in each layer", lambda sizes: all(units >= 1 for units in sizes))),
    )
    for pattern in patterns.split()
}


@dataclass(frozen=True)
class Settings:
    """The base of every `Config`: a value that cannot be meant is refused when it is made."""

    def __post_init__(self) -> None:
        special = self.rules()
        for name, kind in get_type_hints(type(self)).items():
            value = getattr(self, name)
            rule = special.get(name) or next((RULES[each] for each in RULES if fnmatchcase(name, each)), None)
            if get_origin(kind) is Literal:
                rule = Rule(f"be {' or '.join(get_args(kind))}", get_args(kind).__contains__)
            if rule and not rule.holds(value):
                raise WaypostError(f"{name} must {rule.must}, got {value!r}")

    def rules(self) -> dict[str, Rule]:
        """The algorithm's own rules, by field; they take the place of the common ones."""
        return {}
