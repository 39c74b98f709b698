"""The contract between an algorithm and everything around it.

An algorithm is one file with three things in it:

`Config`        its `Settings`, a frozen dataclass, each with a one-line docstring (the command line, the presets,
                the run directory and the report all read this one definition);
an `Agent`      what acts: a pytree of networks that takes and gives plain batched arrays;
an `Algorithm`  how it learns: `prepare` the data, `init` a state, `update` it once on a batch.

The loop knows nothing else. It never sees a loss, and an algorithm never sees a file, a clock or an environment.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Self, TypeVar

import equinox as eqx
import jax
import numpy as np

from waypost.agents.actions import Actions, Mixed
from waypost.agents.descent import Descent as Descent
from waypost.agents.nets import Continuous, Discrete, Scaling, Unscaled
from waypost.agents.settings import Settings as Settings
from waypost.data import prepare
from waypost.data.dataset import Dataset
from waypost.data.validation import MOST_CHOICES, Choices, numbers_of
from waypost.errors import MissingPart, WaypostError
from waypost.schema import build

Array = jax.Array
Arrays = prepare.Arrays
Batch = Mapping[str, Array]
Metrics = dict[str, Array]
Memory = Any
Part = TypeVar("Part")
MOST_COLUMNS = 10**6
"""The most columns of an observation or an action."""


@dataclass(frozen=True)
class Spec:
    """What an agent must know about its data, so that it can be rebuilt from its settings; plain JSON."""

    observation_size: int
    action_size: int | None
    action_low: tuple[float, ...] = ()
    action_high: tuple[float, ...] = ()
    action_count: int | None = None
    """Number of discrete actions; None if an action is a vector of numbers."""
    statistics: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Means and standard deviations the agent scales by, by name; the algorithm chooses them."""
    observation_names: tuple[str, ...] = ()
    """Names of the columns of an observation, if the data have them."""
    action_names: tuple[str, ...] = ()
    """Names of the columns of an action."""
    history: int = 1
    """Number of environment observations side by side in one of the agent's, oldest first."""
    observation_low: tuple[float, ...] = ()
    """Minimum of each column in the data; unknown for agents of older versions."""
    observation_high: tuple[float, ...] = ()
    """Maximum of each column."""
    action_choices: Choices = ()
    """For mixed actions, the numbers or texts that each column is chosen from; empty if it is continuous."""

    @classmethod
    def of(cls, dataset: Dataset, **statistics: np.ndarray) -> Spec:
        return cls(
            observation_size=dataset.observation_size,
            action_size=dataset.action_size,
            action_low=_numbers(dataset.action_low),
            action_high=_numbers(dataset.action_high),
            action_count=dataset.action_count,
            statistics={name: _numbers(values) for name, values in statistics.items()},
            observation_names=dataset.observation_names,
            action_names=dataset.action_names,
            history=dataset.history,
            observation_low=_numbers(dataset.observations.min(axis=0)),
            observation_high=_numbers(dataset.observations.max(axis=0)),
            action_choices=dataset.action_choices,
        )

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Spec:
        """The spec of a record, or an error if its numbers do not fit together."""
        spec = build(record, cls, "spec")
        for name in ("observation_size", "action_size", "action_count"):
            size = getattr(spec, name)
            if size is not None and not 1 <= size <= MOST_COLUMNS:
                raise WaypostError(f"spec.{name} must be from 1 to {MOST_COLUMNS}, got {size}")
        for name, size in (("observation_names", spec.observation_size), ("action_names", spec.action_size)):
            if len(getattr(spec, name)) not in (0, size):
                raise WaypostError(f"spec.{name} must have a name for each column, or none")
        known = {len(spec.observation_low), len(spec.observation_high)}
        if known not in ({0}, {spec.observation_size}):
            raise WaypostError("spec.observation_low and spec.observation_high must have a number for each column")
        if spec.history < 1 or spec.observation_size % spec.history:
            raise WaypostError(f"spec.history must divide the size of an observation, got {spec.history}")
        if not len(spec.action_low) == len(spec.action_high) == (spec.action_size or 0):
            raise WaypostError("spec.action_low and spec.action_high must have a number for each action column")
        if spec.action_choices and (len(spec.action_choices) != spec.action_size or spec.action_count is not None):
            raise WaypostError("spec.action_choices must have an entry for each of several action columns")
        if any(len(words) == 1 or len(words) > MOST_CHOICES for words in spec.action_choices):
            raise WaypostError(f"spec.action_choices must be 2 to {MOST_CHOICES} for a column, or none")
        if any(low > high for low, high in zip(spec.action_low, spec.action_high, strict=True)):
            raise WaypostError("spec.action_low must not be above spec.action_high")
        for name, numbers in spec.statistics.items():
            if name.startswith(("observation_", "direction_")) and len(numbers) != spec.observation_size:
                raise WaypostError(f"spec.statistics.{name} must have a number for each column of the observation")
            if name.endswith(("_std", "_limit")) and min(numbers, default=1.0) <= 0:
                raise WaypostError(f"spec.statistics.{name} must be more than 0")
        spec._check_waypoint()
        return spec

    def _check_waypoint(self) -> None:
        """The coordinates of a waypoint are columns, or directions with their inverse; check their sizes."""
        counts = {name: len(numbers) for name, numbers in self.statistics.items() if name.startswith("waypoint_")}
        size = self.observation_size
        needed = {"waypoint_mean": size, "waypoint_std": size} if counts else {}
        if "waypoint_directions" in counts or "waypoint_lift" in counts:
            coordinates = max(counts.get("waypoint_mean", 0), 1)
            needed = {"waypoint_mean": coordinates, "waypoint_std": coordinates}
            needed |= {"waypoint_directions": coordinates * size, "waypoint_lift": coordinates * size}
        for name, count in needed.items():
            if counts.get(name, 0) != count:
                raise WaypostError(f"spec.statistics.{name} must have {count} numbers, got {counts.get(name, 0)}")

    def to_json(self) -> dict[str, Any]:
        record = asdict(self)
        # Left out for other actions, whose records stay as in older versions.
        return record if self.action_choices else {k: v for k, v in record.items() if k != "action_choices"}

    @property
    def names_in_time(self) -> tuple[str, ...]:
        """Names of the columns of a single environment observation, if the data have them."""
        return self.observation_names[len(self.observation_names) - len(self.observation_names) // self.history :]

    @property
    def actions(self) -> Actions:
        """How actions are written as numbers for the networks."""
        if self.action_choices:
            numbers = tuple(tuple(numbers_of(words).tolist()) for words in self.action_choices)
            return Mixed(self.action_low, self.action_high, numbers)
        if self.action_count is None:
            return Continuous(self.action_low, self.action_high)
        return Discrete(self.action_count)

    @property
    def action_counts(self) -> tuple[int, ...]:
        """Number of discrete choices of each action column; 0 if it is continuous."""
        if self.action_choices:
            return tuple(map(len, self.action_choices))
        return (self.action_count or 0,) * (self.action_size or 0)

    @property
    def action_width(self) -> int:
        """Length of an action as networks see it."""
        if self.action_choices:
            return sum(max(count, 1) for count in self.action_counts)
        return len(self.action_low) if self.action_count is None else self.action_count

    def scaling(self, name: str, columns: tuple[int, ...] | None = None) -> Scaling:
        """Scaling by NAME_mean and NAME_std, for some columns or all; clipped at NAME_limit, if there is one."""
        numbers = [self.statistics[f"{name}_mean"], self.statistics[f"{name}_std"]]
        numbers += [self.statistics[f"{name}_limit"]] if f"{name}_limit" in self.statistics else []
        arrays = [np.asarray(each) for each in numbers]
        return Scaling(*(each if columns is None else each[list(columns)] for each in arrays))

    @property
    def observation_scaling(self) -> Scaling | Unscaled:
        """Scaling of observations, for agents that may have none."""
        return self.scaling("observation") if "observation_mean" in self.statistics else Unscaled()


def _numbers(values: np.ndarray | None) -> tuple[float, ...]:
    return () if values is None else tuple(float(value) for value in values)


@dataclass(frozen=True)
class Stage:
    """A phase of training: `steps` updates of the named parts."""

    name: str
    steps: int
    parts: frozenset[str]


class Agent(eqx.Module):
    """What acts. Observations come in batches of plain, unscaled rows; actions go out the same way."""

    @abstractmethod
    def act(self, observations: Array, memory: Memory) -> tuple[Array, Memory]:
        """Actions for a batch of observations, and what to remember for the next step."""

    @property
    def noise_size(self) -> int:
        """Number of random numbers an action needs besides the observation; 0 for most agents."""
        return 0

    def act_given(self, observations: Array, noise: Array) -> Array:
        """Actions for a batch of observations and their random numbers, (rows, noise_size)."""
        return self.act(observations, ())[0]

    def start(self, episodes: int, goal: Array | None = None) -> Memory:
        """The initial memory of a batch of episodes; most agents have none.

        `goal` is the task's goal, for agents that need one; None if the task has none.
        """
        return ()

    @property
    def remembers(self) -> bool:
        """Whether an action depends on more than the observation, so that `start` is needed."""
        return type(self).start is not Agent.start

    def receive(self, memory: Memory, rewards: Array) -> Memory:
        """Update the memory with the rewards of the last actions."""
        return memory

    def took(self, memory: Memory, actions: Array) -> Memory:
        """Update the memory if other actions were taken than the agent's, as when recorded episodes are replayed."""
        return memory

    def value(self, observations: Array) -> Array:
        """V of a batch of observations."""
        raise WaypostError(f"a {type(self).__name__} agent has no value function")

    def guide(self, observations: Array) -> Array:
        """The states the agent aims at from a batch of observations."""
        raise WaypostError(f"a {type(self).__name__} agent has no guide")

    def graft(self, donor: Agent) -> Agent:
        """This agent with its missing parts taken from `donor`."""
        raise WaypostError(f"a {type(self).__name__} agent has no parts that can come from another run")


def have(part: Part | None, name: str) -> Part:
    """A part of an agent, or an error that says how to get it."""
    if part is None:
        raise MissingPart(f"this agent has no trained {name}; take one from another run with --init")
    return part


class Algorithm(ABC):
    """How one method learns, for given settings, data shape and number of steps.

    Its State is what training changes: a NamedTuple of pytrees with a field `agent` and everything else the updates
    need (targets, optimisers).
    """

    config_type: ClassVar[type]
    """The settings; `batch_size` is the one field the loop reads."""

    config: Any
    stages: tuple[Stage, ...]
    """What the loop runs, in order."""
    _of: tuple[Any, Spec, int]
    """What it was made of."""

    def __new__(cls, config: Any, spec: Spec, steps: int) -> Self:
        made = super().__new__(cls)
        made._of = config, spec, steps
        return made

    @abstractmethod
    def __init__(self, config: Any, spec: Spec, steps: int): ...

    def __eq__(self, other: object) -> bool:
        """Equal ones do the same, so what was compiled for one serves the other."""
        return type(self) is type(other) and self._of == other._of

    def __hash__(self) -> int:
        return hash((type(self), self._of[2]))  # specs have no hash, nor do all settings

    @classmethod
    def fit(cls, config: Any, dataset: Dataset) -> Any:
        """The settings, with those that depend on the data filled in."""
        return config

    @classmethod
    def prepare(cls, config: Any, dataset: Dataset) -> tuple[Arrays, Spec]:
        """The arrays a batch is drawn from, by default transitions, and the agent's spec."""
        scaling = prepare.observation_scaling(dataset, config.observation_scaling)
        return prepare.transitions(dataset, config.discount), Spec.of(dataset, **scaling)

    def batch(self, arrays: Batch, rows: Array, key: Array) -> Batch:
        """The drawn rows; a method that learns from sequences takes more.

        `key` is the one its `update` gets: a method that uses it in both must split it.
        """
        return {name: values[rows] for name, values in arrays.items()}

    @abstractmethod
    def init(self, key: Array) -> Any:
        """The initial State."""

    @classmethod
    def build(cls, config: Any, spec: Spec) -> Agent:
        """An untrained agent with every part it can have, into which a saved one is loaded."""
        return cls(config, spec, steps=1).init(jax.random.key(0)).agent

    @abstractmethod
    def update(self, stage: Stage, state: Any, batch: Batch, key: Array) -> tuple[Any, Metrics]:
        """One step of a stage on one batch: the next State, and scalars to log."""
