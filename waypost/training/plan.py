"""What a training was asked to do: resolved from names and presets, written to and read from config.json."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from waypost.agents import find_entry
from waypost.data.columns import Columns, columns_from_json
from waypost.data.dataset import Dataset
from waypost.data.large import Choice
from waypost.data.sources import recorded_task
from waypost.envs.tasks import TASKS, Protocol
from waypost.envs.tasks import task as find_task
from waypost.errors import WaypostError
from waypost.files import read_json
from waypost.training import presets
from waypost.training.policy import config_from_json
from waypost.types import Convention

DEFAULT_STEPS = 100_000


@dataclass(frozen=True)
class Plan:
    """Everything that decides what a training does; `config.json` is its JSON form."""

    algorithm: str
    config: Any
    data: str
    task: str | None
    rewards: Convention
    steps: int
    seeds: tuple[int, ...]
    evaluation: Protocol
    log_every: int
    preset: str | None = None
    init: str | None = None
    columns: Columns = field(default_factory=Columns)
    stream: Choice = "auto"

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise WaypostError(f"steps = {self.steps}: at least 1 is needed")
        if self.log_every < 1:
            raise WaypostError(f"log_every = {self.log_every}: at least 1 is needed")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds) or min(self.seeds) < 0:
            raise WaypostError(f"seeds = {list(self.seeds)}: one or more different numbers from 0 on are needed")

    def to_json(self) -> dict[str, Any]:
        return json.loads(json.dumps(asdict(self)))


def plan(
    algorithm: str = "por",
    data: str | Path | Dataset = "four-rooms",
    *,
    env: str | None = None,
    rewards: Convention | Literal["task"] = "task",
    steps: int | None = None,
    seeds: int | Sequence[int] = 1,
    preset: str | None = None,
    evaluation: Protocol | None = None,
    log_every: int = 500,
    init: str | Path | None = None,
    config: Any = None,
    columns: Columns | None = None,
    stream: Choice = "auto",
    **settings: Any,
) -> Plan:
    """Resolve what `train` was asked for; see there."""
    chosen = find_entry(algorithm)
    name = data.name if isinstance(data, Dataset) else str(data)
    task_name = env or (data.task if isinstance(data, Dataset) else name if name in TASKS else recorded_task(data))
    if task_name == "none":
        task_name = None
    task = find_task(task_name) if task_name else None
    used, usual_steps, preset_settings = presets.find(algorithm, chosen.config_type, preset, name, task_name)
    if config is None:
        try:
            config = chosen.config_type(**{**preset_settings, **settings})
        except TypeError as error:
            raise WaypostError(f"{algorithm}: {error}; `waypost train {algorithm} --help` lists the settings") from None
    elif settings:
        config = replace(config, **settings)
    usual: Convention = task.convention if task else "recorded"
    return Plan(
        algorithm=algorithm,
        config=config,
        data=name,
        task=task_name,
        rewards=rewards if rewards != "task" else chosen.conventions.get(usual, usual),
        steps=steps if steps is not None else usual_steps or DEFAULT_STEPS,
        seeds=tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds),
        evaluation=evaluation or (task.protocol if task else Protocol()),
        log_every=log_every,
        preset=used,
        init=str(init) if init else None,
        columns=columns or Columns(),
        stream=stream,
    )


def plan_from_json(record: dict[str, Any], source: Path) -> Plan:
    """A Plan from config.json."""
    known = set(Plan.__dataclass_fields__)
    try:
        fields = {name: value for name, value in record.items() if name in known}
        fields["config"] = config_from_json(find_entry(record["algorithm"]).config_type, record["config"])
        fields["evaluation"] = Protocol(**record["evaluation"])
        fields["seeds"] = tuple(record["seeds"])
        fields["columns"] = columns_from_json(record.get("columns", {}))
        return Plan(**fields)
    except (KeyError, TypeError) as error:
        raise WaypostError(f"{source}: not the config.json of a run of this version of Waypost ({error})") from None


def read_plan(directory: Path) -> Plan:
    """The plan of a run directory."""
    file = directory / "config.json"
    if not file.is_file():
        raise WaypostError(f"{directory}: not a run directory (no config.json)")
    return plan_from_json(read_json(file), file)


def same_plan(planned: Plan, directory: Path) -> dict[str, Any]:
    """The saved plan, once it is certain that it is the same."""
    saved = read_json(directory / "config.json")
    asked = planned.to_json()
    for name, value in _flat(asked).items():
        kept = _flat(saved).get(name)
        # A path may be spelled in several ways.
        if name in ("data", "init") and kept and value and Path(kept).resolve() == Path(value).resolve():
            continue
        if kept != value:
            raise WaypostError(
                f"{directory}: began with {name} = {kept!r}, asked for {value!r}; use the same or another --out"
            )
    return saved


def _flat(record: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in record.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat
