"""The plan of a training as one dataclass: the command line parses it, Python builds it, config.json stores it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

from tyro.conf import Fixed, OmitArgPrefixes, arg

from waypost.agents import find_entry
from waypost.agents.settings import COUNTER
from waypost.data.dataset import Dataset
from waypost.data.large import Choice
from waypost.data.names import SEVERAL
from waypost.data.pipeline import AS_BEFORE, Pipeline, Reading
from waypost.data.roles import Columns
from waypost.data.sources import recorded_task
from waypost.envs.tasks import TASKS, Factory, Protocol, task as find_task
from waypost.errors import WaypostError
from waypost.schema import build, conform, conform_fields, meant, shown
from waypost.training import presets
from waypost.training.records import read_config
from waypost.types import Convention

DEFAULT_STEPS = 100_000
MOST_SEEDS = 10_000
"""The most agents trained at once."""
MOST_SEED = 2**32 - 1
"""JAX uses no more bits of a seed: a larger one would repeat the random numbers of a smaller one."""
CONTINUED = 5
"""A training that continues from a run makes this many times fewer updates than that run, by default."""
Config = TypeVar("Config")


@dataclass(frozen=True, kw_only=True)
class Plan(Generic[Config]):
    """What to train on, for how long, and how to evaluate it."""

    algorithm: Fixed[str]
    data: Annotated[str, SEVERAL]
    """Names (`waypost list`, Minari, D4RL), files (.npz .hdf5 .parquet .csv .csv.gz), folders, patterns ('logs/*')."""
    task: Annotated[str | None, arg(name="env")]
    """Task to evaluate on: a name of `waypost list`, a Gymnasium id, MODULE:ID, or none; by default the data's own."""
    steps: int
    """Updates of each agent; by default the preset's; 0 = chosen by the number of rows."""
    seeds: Fixed[tuple[int, ...]]
    """Seeds; one agent is trained for each."""
    preset: str | None = None
    """Settings to start from, see `waypost list`; by default those of the data; none = the algorithm's own."""
    rewards: Convention | Literal["task"]
    """Reward convention: the task's; as recorded; r - 1, costly failures; 4 (r - 0.5); scaled by returns; unit-free."""
    init: str | None = None
    """Run directory whose weights to start from; with --training guide, only the parts that are not trained."""
    log_every: int = 500
    """Updates per row of metrics.csv."""
    hold_out: float = 0.0
    """Share of the episodes to hold out: losses on them are logged, and `waypost judge` uses them."""
    keep_best: str | None = None
    """Also keep, in RUN/best, the agents with the lowest value of this metrics.csv column: held_out_policy_loss, ..."""
    stop_early: str | None = None
    """Stop once this held-out loss has not fallen for --patience rows: held_out_policy_loss, ..."""
    patience: int = 10
    """Rows of metrics.csv to wait for a lower loss with --stop-early."""
    stream: Choice = "auto"
    """Read the data from disk in shuffled parts while training; auto: only if they do not fit in memory."""
    evaluation: Fixed[Protocol]
    """How agents are evaluated during training and at the end."""
    columns: Columns = field(default_factory=Columns)
    pipeline: OmitArgPrefixes[Pipeline] = field(default_factory=Pipeline)
    config: Annotated[Config, arg(name="")]
    """The algorithm's settings."""

    def __post_init__(self) -> None:
        conform_fields(self)
        for name, least in (("steps", 0), ("log_every", 1), ("patience", 1)):
            if getattr(self, name) < least:
                raise WaypostError(f"{name} must be {least} or more, got {getattr(self, name)}")
            if getattr(self, name) > COUNTER:
                raise WaypostError(f"{name} must be {COUNTER} or less, got {getattr(self, name)}")
        if not 0 <= self.hold_out < 1:
            raise WaypostError(f"hold_out must be in [0, 1), got {self.hold_out:g}")
        if self.stop_early and not self.hold_out:
            raise WaypostError("stop_early needs held-out episodes; hold some out with --hold-out 0.1")
        check_seeds(self.seeds)

    @property
    def convention(self) -> Convention:
        """The reward convention; a plan made by `plan` always has one. It is idle where rewards are not needed."""
        assert self.rewards != "task"
        return self.rewards if "rewards" in find_entry(self.algorithm).needs else "recorded"

    def to_json(self) -> dict[str, Any]:
        return json.loads(json.dumps(asdict(self)))


def plan(
    algorithm: str = "por",
    data: str | Path | Dataset = "four-rooms",
    *,
    env: str | Factory | None = None,
    preset: str | None = None,
    config: Any = None,
    seeds: int | Iterable[int] = 1,
    **options: Any,
) -> Plan[Any]:
    """The plan of a training. What is not given comes from the data's preset and task, which are looked up only here.

    options   fields of `Plan`; None stands for the default. Other names are settings of the algorithm.
    """
    chosen = find_entry(algorithm)
    name = data.name if isinstance(data, Dataset) else str(data)
    if isinstance(data, Dataset) and data.reading is not None:
        options = {"columns": data.reading.columns, "pipeline": data.reading.pipeline} | options
    task_name = env or (data.task if isinstance(data, Dataset) else name if name in TASKS else recorded_task(data))
    task = find_task(task_name) if task_name and task_name != "none" else None
    used, usual_steps, usual = presets.find(algorithm, chosen.config_type, preset, name, task.name if task else None)
    known = {each.name for each in fields(Plan)}
    settings = {key: value for key, value in options.items() if key not in known}
    given = {key: value for key, value in options.items() if key in known and value is not None}
    if preset is None and config is None and continues(given.get("init"), settings.get("training")):
        used, usual_steps, usual = _of_run(str(given["init"]), algorithm, (used, usual_steps, usual))
    _check_settings(algorithm, chosen.config_type, config, settings)
    config = replace(config, **settings) if config is not None else chosen.config_type(**{**usual, **settings})
    convention: Convention = task.convention if task else "recorded"
    if used == presets.DEFAULT and convention == "recorded":
        convention = "standard"
    if given.get("rewards", "task") == "task":
        given["rewards"] = chosen.conventions.get(convention, convention)
    return Plan(
        algorithm=algorithm,
        config=config,
        data=name,
        task=task.name if task else None,
        preset=used,
        seeds=tuple(seeds) if isinstance(seeds, Iterable) else seeds_from(conform(seeds, int, "seeds")),
        **{
            "steps": DEFAULT_STEPS if usual_steps is None else usual_steps,
            "evaluation": task.protocol if task else Protocol(),
            **given,
            "init": str(given["init"]) if "init" in given else None,
        },
    )


def continues(init: str | Path | None, training: str | None) -> bool:
    """Whether a training continues from a run's weights; otherwise it only takes the parts it does not train."""
    return init is not None and training not in ("guide", "executor")


def _of_run(
    init: str, algorithm: str, usual: tuple[str | None, int | None, dict[str, Any]]
) -> tuple[str | None, int | None, dict[str, Any]]:
    """Preset, steps and settings of a training that continues from a run: the run's own, with fewer updates."""
    before = read_plan(Path(init))
    if before.algorithm != algorithm:
        return usual
    kept = {each.name: getattr(before.config, each.name) for each in fields(before.config) if each.name != "training"}
    # Phases keep their shares: without this, one that warms up could take all of the new training.
    kept |= {name: -(-count // CONTINUED) for name, count in kept.items() if name.endswith("_steps")}
    return before.preset, max(1, before.steps // CONTINUED), {**usual[2], **kept}


def _check_settings(algorithm: str, kind: type[Any], config: Any, settings: dict[str, Any]) -> None:
    """Raise unless the algorithm has all of these settings."""
    if config is not None and not isinstance(config, kind):
        raise WaypostError(f"config must be a {kind.__module__}.{kind.__name__}, got {shown(config)}")
    own = [each.name for each in fields(kind)]
    for name in settings:
        if name not in own:
            near = meant(name, [*own, *(each.name for each in fields(Plan)), "env", "out", "callbacks", "progress"])
            listed = f"`waypost train {algorithm} --help` lists them"
            raise WaypostError(f"{algorithm} has no setting {shown(name)}; {listed}{near}")


def seeds_from(count: int, first: int = 0) -> tuple[int, ...]:
    """`count` consecutive seeds from the first."""
    if not 1 <= count <= MOST_SEEDS:
        raise WaypostError(f"seeds must be a number from 1 to {MOST_SEEDS}, got {shown(count)}")
    if not 0 <= first <= MOST_SEED:
        raise WaypostError(f"the first seed must be from 0 to {MOST_SEED}, got {shown(first)}")
    return tuple(range(first, first + count))


def check_seeds(seeds: Sequence[int]) -> Sequence[int]:
    """The seeds, after checking that an agent can be trained for each."""
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise WaypostError(f"seeds must be one or more different numbers from 0 up, got {shown(list(seeds))}")
    if len(seeds) > MOST_SEEDS:
        raise WaypostError(f"the number of seeds must be {MOST_SEEDS} or less, got {len(seeds)}")
    if max(seeds) > MOST_SEED:
        raise WaypostError(f"seeds must be {MOST_SEED} or less, got {max(seeds)}")
    return seeds


def plan_from_json(record: dict[str, Any], source: Path) -> Plan[Any]:
    """A Plan from config.json; other entries are ignored."""
    known = {each.name for each in fields(Plan)}
    values = {"pipeline": AS_BEFORE, **{name: value for name, value in record.items() if name in known}}
    try:
        values["config"] = build(values["config"], find_entry(values["algorithm"]).config_type, "config")
        return build(values, Plan, "")
    except WaypostError as error:
        raise WaypostError(f"{source}: not the config.json of a run of this version of Waypost ({error})") from None


def read_plan(directory: Path) -> Plan[Any]:
    """The plan of a run directory."""
    return plan_from_json(read_config(directory), directory / "config.json")


def read_reading(directory: Path) -> Reading:
    """How a run read its data."""
    planned = read_plan(directory)
    return Reading(planned.columns, planned.pipeline)


def same_plan(planned: Plan[Any], directory: Path) -> dict[str, Any]:
    """The config.json of a run directory, after checking that it holds this plan."""
    saved = read_config(directory)
    # Compared as plans: an invalid one is refused as such, and settings unknown to an older version have defaults.
    began = _flat(plan_from_json(saved, directory / "config.json").to_json())
    for name, value in _flat(planned.to_json()).items():
        kept = began.get(name)
        # What a pipeline learned, and its effect on data of a run from before pipelines, shows in their fingerprint.
        if name.startswith("pipeline.learned" if "pipeline" in saved else "pipeline."):
            continue
        if _left_to_the_data(name, value):
            continue
        # A path may be spelled in several ways.
        if name in ("data", "init") and kept and value and Path(kept).resolve() == Path(value).resolve():
            continue
        if kept != value:
            raise WaypostError(
                f"{directory}: was started with {name} = {kept!r}, got {value!r}; use the same or another --out"
            )
    return saved


def _left_to_the_data(name: str, value: Any) -> bool:
    """Whether the data decide this value, so that a run has a number of its own."""
    return (name in ("steps", "config.horizon") and value == 0) or (name.endswith("hidden") and 0 in value)


def _flat(record: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in record.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat
