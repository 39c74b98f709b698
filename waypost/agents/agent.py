"""The contract between an algorithm and everything around it.

An algorithm is one file with three things in it:

`Config`     a frozen dataclass of its settings, each with a one-line docstring (the command line,
             the presets, the run directory and the report all read this one definition);
an `Agent`   what acts: a pytree of networks that takes and gives plain batched arrays;
an `Algorithm`  how it learns: `prepare` the data, `init` a state, `update` it once on a batch.

The loop knows nothing else. It never sees a loss, and an algorithm never sees a file, a clock or an
environment.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

import equinox as eqx
import jax
import numpy as np
import optax

from waypost.agents.nets import Bounds, Choices
from waypost.data.dataset import Dataset
from waypost.errors import WaypostError

Array = jax.Array
Batch = Mapping[str, Array]
Columns = dict[str, np.ndarray]
Metrics = dict[str, Array]
Memory = Any
Net = TypeVar("Net")


@dataclass(frozen=True)
class Spec:
    """What an agent must know of its data to be built again from its settings alone; plain JSON."""

    observation_size: int
    action_size: int | None
    action_low: tuple[float, ...] = ()
    action_high: tuple[float, ...] = ()
    action_count: int | None = None
    """How many actions there are to choose from; None where an action is a vector of numbers."""
    statistics: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Means and standard deviations the agent scales by, by name; the algorithm chooses them."""

    @classmethod
    def of(cls, dataset: Dataset, **statistics: np.ndarray) -> Spec:
        return cls(
            observation_size=dataset.observation_size,
            action_size=dataset.action_size,
            action_low=_numbers(dataset.action_low),
            action_high=_numbers(dataset.action_high),
            action_count=dataset.action_count,
            statistics={name: _numbers(values) for name, values in statistics.items()},
        )

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Spec:
        return cls(
            **{
                **record,
                "action_low": tuple(record["action_low"]),
                "action_high": tuple(record["action_high"]),
                "statistics": {name: tuple(values) for name, values in record["statistics"].items()},
            }
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def actions(self) -> Bounds | Choices:
        """How actions are written as numbers for the networks."""
        return Bounds(self.action_low, self.action_high) if self.action_count is None else Choices(self.action_count)

    @property
    def action_width(self) -> int:
        """How many numbers that takes."""
        return len(self.action_low) if self.action_count is None else self.action_count


def _numbers(values: np.ndarray | None) -> tuple[float, ...]:
    return () if values is None else tuple(float(value) for value in values)


@dataclass(frozen=True)
class Stage:
    """A stretch of training: `steps` updates of the named parts."""

    name: str
    steps: int
    parts: frozenset[str]


class Agent(eqx.Module):
    """What acts. Observations come in batches of plain, unscaled rows; actions go out the same way."""

    @abstractmethod
    def act(self, observations: Array, memory: Memory) -> tuple[Array, Memory]:
        """Actions for a batch of observations, and what to remember for the next step."""

    def start(self, episodes: int, goal: Array | None = None) -> Memory:
        """What is remembered at the first step of a batch of episodes; most agents remember nothing.

        `goal` is where the task wants them to go, for agents that must be told, where the task can say it.
        """
        return ()

    def receive(self, memory: Memory, rewards: Array) -> Memory:
        """Take note of the rewards the last actions earned."""
        return memory

    def value(self, observations: Array) -> Array:
        """V of a batch of observations."""
        raise WaypostError(f"a {type(self).__name__} agent has no value function")

    def guide(self, observations: Array) -> Array:
        """The states the agent means to go to from a batch of observations."""
        raise WaypostError(f"a {type(self).__name__} agent has no guide")

    def graft(self, donor: Agent) -> Agent:
        """This agent with its missing parts taken from another."""
        raise WaypostError(f"a {type(self).__name__} agent has no parts that could come from another run")


class Algorithm(ABC):
    """How one method learns, for given settings, data shape and number of steps.

    Its State is a NamedTuple of pytrees with a field `agent`; the other fields are what the updates
    need besides (targets, optimisers).
    """

    config_type: ClassVar[type]
    """The settings; `batch_size` is the one field the loop reads."""

    config: Any
    stages: tuple[Stage, ...]
    """What the loop runs, in order."""

    @abstractmethod
    def __init__(self, config: Any, spec: Spec, steps: int): ...

    @classmethod
    @abstractmethod
    def prepare(cls, config: Any, dataset: Dataset) -> tuple[Columns, Spec]:
        """The columns a batch is drawn from, all of one length, and what the agent must know of them."""

    def batch(self, columns: Batch, rows: Array, key: Array) -> Batch:
        """The rows of the columns that were drawn; a method that learns from stretches of episodes takes more.

        `key` is the one its `update` gets: a method that uses it in both takes different parts of it.
        """
        return {name: column[rows] for name, column in columns.items()}

    @abstractmethod
    def init(self, key: Array) -> Any:
        """A fresh State."""

    @classmethod
    def build(cls, config: Any, spec: Spec) -> Agent:
        """An untrained agent with every part it could have, to read a saved one into."""
        return cls(config, spec, steps=1).init(jax.random.key(0)).agent

    @abstractmethod
    def update(self, stage: Stage, state: Any, batch: Batch, key: Array) -> tuple[Any, Metrics]:
        """One step of a stage on one batch: the next State, and scalars to look at."""


def check_settings(config: Any, **rules: tuple[bool, str]) -> None:
    """Raise for the first setting that cannot be meant; `rules` add to what holds for all algorithms.

    A choice is one of its words, a learning rate is not negative, a layer has units, a batch has rows.
    """
    for name, kind in get_type_hints(type(config)).items():
        value = getattr(config, name)
        good, needs = rules.get(name, (True, ""))
        if get_origin(kind) is Literal:
            good, needs = value in get_args(kind), " or ".join(map(str, get_args(kind)))
        elif name.endswith("learning_rate"):
            good, needs = value >= 0, "0 or more"
        elif name.endswith("hidden"):
            good, needs = all(units >= 1 for units in value), "1 or more units in each layer"
        elif name == "batch_size":
            good, needs = value >= 1, "1 or more"
        if not good:
            raise WaypostError(f"{name} = {value!r}: {needs} is needed")


def steps_of(stages: tuple[Stage, ...], part: str) -> int:
    """How many updates a part gets in all: the length of its learning-rate schedule."""
    return sum(stage.steps for stage in stages if part in stage.parts)


def descend(
    optimiser: optax.GradientTransformation, state: optax.OptState, net: Net, gradient: Net
) -> tuple[Net, optax.OptState]:
    """One step of an optimiser: the network and the optimiser's state after it."""
    updates, state = optimiser.update(gradient, state, net)
    return optax.apply_updates(net, updates), state


def transitions(dataset: Dataset, discount: float) -> Columns:
    """(s, a, r, s', gamma (1 - terminal)) of every row whose next state is known or does not matter."""
    known = dataset.next_valid | dataset.terminals
    columns = {
        "observations": dataset.observations,
        "actions": dataset.require("actions"),
        "rewards": dataset.require("rewards"),
        "next_observations": dataset.next_observations,
        "discounts": np.where(dataset.terminals, 0.0, discount).astype(np.float32),
    }
    return columns if known.all() else {name: column[known] for name, column in columns.items()}


def observation_scaling(dataset: Dataset, scaled: bool, least: float = 0.0) -> dict[str, np.ndarray]:
    """Statistics for `Spec.of`: what observations are shifted and divided by; `least` is added to the deviation."""
    mean, std = dataset.observation_moments
    if not scaled:
        mean, std = np.zeros_like(mean), np.ones_like(std)
        least = 0.0
    return {"observation_mean": mean, "observation_std": std + least}


def to_go(dataset: Dataset) -> Columns:
    """For each row its time step in the episode, the rows left there, itself included, and the return from it on."""
    rows, last = np.arange(len(dataset)), dataset.last_row
    rewards = dataset.require("rewards").astype(np.float64)
    earned = np.cumsum(rewards)
    return {
        "times": (rows - dataset.episode_starts[dataset.episode_of]).astype(np.int32),
        "left": (last - rows + 1).astype(np.int32),
        "returns_to_go": (earned[last] - earned + rewards).astype(np.float32),
    }
