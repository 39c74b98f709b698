"""Equal core-minutes: the number of updates of each method, so that all take about the same time on one core.

The time of an update is measured once for each algorithm, size of states and actions, and settings that affect it,
and is kept in a file. From then on the number of updates is fixed, on every machine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields, replace
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from waypost.data.dataset import Dataset
from waypost.errors import WaypostError
from waypost.files import write_json
from waypost.locks import alone
from waypost.resources import cpu_name
from waypost.studies.updates import stages_of, total_updates, with_total_updates
from waypost.training.plan import Plan
from waypost.training.records import read_record
from waypost.training.speed import measure

EVALUATIONS, AVERAGED = 4, 2
"""Evaluations of an agent, and how many of the last ones are averaged for its score."""
LONGEST_CHUNK = 500
"""The most updates per row of metrics."""


class Rate(TypedDict):
    """A measurement, and what was measured."""

    algorithm: str
    sizes: list[int]
    settings: dict[str, Any]
    seconds: dict[str, float]
    """Processor seconds of an update of each stage."""
    cpu: NotRequired[str]
    waypost: NotRequired[str]


class Measured(TypedDict):
    """The contents of the file."""

    sizes: dict[str, list[int]]
    """Of states and actions, by data set: they are known even if the data are not here."""
    rates: dict[str, Rate]


class Rates:
    """The file with the times of updates."""

    def __init__(self, file: Path, read_only: bool = False):
        self.file, self.read_only = file, read_only

    def read(self) -> Measured:
        if not self.file.is_file():
            return {"sizes": {}, "rates": {}}
        found: Measured = read_record(self.file, Measured)
        return found

    def seconds(self, planned: Plan[Any], load: Callable[[], Dataset]) -> dict[str, float] | None:
        """Processor seconds of an update of each stage; None if they are unknown and must not be measured."""
        known = _rate(self.read(), planned)
        if known is not None or self.read_only:
            return known and known["seconds"]
        dataset = load()  # it may be recorded first, for which no other process should wait
        with alone(self.file):
            found = self.read()
            sizes = [dataset.observation_size, dataset.action_size or 0]
            found["sizes"][planned.data] = sizes
            rate = _rate(found, planned)
            if rate is None:
                rate = {
                    "algorithm": planned.algorithm,
                    "sizes": sizes,
                    "settings": _settings(planned.config),
                    "seconds": {stage: float(f"{each:.3g}") for stage, each in measure(planned, dataset).items()},
                    "cpu": cpu_name(),
                    "waypost": version("waypost"),
                }
                found["rates"][_key(planned, sizes)] = rate
            found["rates"] = dict(sorted(found["rates"].items()))
            write_json(self.file, found)
            return rate["seconds"]


def _rate(found: Measured, planned: Plan[Any]) -> Rate | None:
    """The rate of a plan; None if its data or its settings are new."""
    sizes = found["sizes"].get(planned.data)
    if sizes is None:
        return None
    return found["rates"].get(_key(planned, sizes)) or _older(planned, sizes, [*found["rates"].values()])


def _older(planned: Plan[Any], sizes: list[int], rates: Sequence[Rate]) -> Rate | None:
    """A rate measured by a version with fewer settings: those it does not name have their defaults."""
    now, usual = _settings(planned.config), _settings(type(planned.config)())
    for rate in rates:
        like = rate["algorithm"] == planned.algorithm and rate["sizes"] == sizes
        if like and rate["settings"].keys() <= usual.keys() and {**usual, **rate["settings"]} == now:
            return rate
    return None


def check_minutes(minutes: float) -> float:
    if not 0 < minutes <= 1e6:
        raise WaypostError(f"minutes must be in (0, 1000000], got {minutes:g}")
    return minutes


def with_minutes(planned: Plan[Any], minutes: float, seconds: dict[str, float]) -> Plan[Any]:
    """The plan with as many updates as fit in these minutes, a few evaluations, and equal chunks.

    seconds   processor seconds of an update of each stage
    Numbers are round: every length of chunk has to be compiled.
    """
    total, stages = total_updates(planned), stages_of(planned)
    update = sum(stage.steps * seconds[stage.name] for stage in stages) / total
    planned = with_total_updates(planned, max(1, round(60 * minutes / update)))
    last = stages_of(planned)[-1].steps
    every = max(1, round(float(f"{last / EVALUATIONS:.1e}")))
    chunk = next(every // parts for parts in count(-(-every // LONGEST_CHUNK)) if every % parts == 0)
    protocol = replace(planned.evaluation, every=every, last=AVERAGED)
    # A setting that fixes the length of the last stage is kept.
    steps = max(1, planned.steps + EVALUATIONS * every - last)
    return replace(planned, steps=steps, log_every=chunk, evaluation=protocol)


def _settings(config: Any) -> dict[str, Any]:
    """The settings that affect the time of an update: all but step counts and mere numbers of a formula."""
    counted = {each.name for each in fields(config) if each.name.endswith("_steps")}
    kept = {name: value for name, value in asdict(config).items() if name not in counted}
    return json.loads(json.dumps({name: value for name, value in kept.items() if not isinstance(value, float)}))


def _key(planned: Plan[Any], sizes: list[int]) -> str:
    text = json.dumps(_settings(planned.config), sort_keys=True)
    settings = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
    return f"{planned.algorithm} {'x'.join(map(str, sizes))} {settings}"
