"""An agent of three parts: V, a guide that says where to go, and an executor that says how."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import equinox as eqx
import optax

from waypost.agents.actions import ActionPolicy, Actions
from waypost.agents.agent import Agent, Array, Memory, Stage, have
from waypost.errors import WaypostError


class ValuePart(eqx.Module):
    """V(s), two networks."""

    @abstractmethod
    def both(self, observations: Array) -> Array:
        """Outputs of both networks, (2, rows)."""

    def __call__(self, observations: Array) -> Array:
        return self.both(observations).min(axis=0)


class GuidePart(eqx.Module):
    """g(s): a distribution over where to go; calling it gives its mode, as a state."""

    @abstractmethod
    def __call__(self, observations: Array) -> Array: ...


class ExecutorPart(eqx.Module):
    """pi(a|s, goal): a distribution over actions; calling it gives its mode, inside the bounds."""

    net: ActionPolicy
    actions: Actions
    columns: tuple[int, ...] = eqx.field(static=True)
    """Columns of the observation that it reads."""

    @abstractmethod
    def inputs(self, observations: Array, goals: Array) -> Array:
        """Inputs of its network."""

    def __call__(self, observations: Array, goals: Array) -> Array:
        return self.actions.action(self.net.mode(self.inputs(observations, goals)))

    def log_likelihood(self, observations: Array, goals: Array, actions: Array) -> Array:
        return self.net.log_likelihood(self.inputs(observations, goals), self.actions.scale(actions))


PARTS = ("value_part", "guide_part", "executor")
"""The fields of an agent that hold its parts."""


class GuidedAgent(Agent):
    """The three parts together; a part that was not trained is None.

    The parts exchange states, so each may scale and project them in its own way, and can come from another agent.
    """

    value_part: ValuePart | None
    guide_part: GuidePart | None
    executor: ExecutorPart | None

    def act(self, observations: Array, memory: Memory = ()) -> tuple[Array, Memory]:
        return have(self.executor, "executor")(observations, self.guide(observations)), memory

    def guide(self, observations: Array) -> Array:
        return have(self.guide_part, "guide")(observations)

    def value(self, observations: Array) -> Array:
        return have(self.value_part, "value function")(observations)

    def graft(self, donor: Agent) -> GuidedAgent:
        if not isinstance(donor, GuidedAgent):
            raise WaypostError("parts of an agent with a guide must come from an agent with a guide: por or waypoint")
        parts = {name: getattr(self, name) or getattr(donor, name) for name in PARTS}
        return replace(self, **parts)


def stages_of(config: Any, steps: int) -> tuple[Stage, ...]:
    """The stages of the setting `training`: which parts learn, and when."""
    guided = Stage("value and guide", steps, frozenset({"value", "guide"}))
    executor = Stage("executor", steps, frozenset({"executor"}))
    stages: dict[str, tuple[Stage, ...]] = {
        "joint": (Stage("joint", steps, guided.parts | executor.parts),),
        "staged": (guided, replace(executor, steps=config.executor_steps or steps)),
        "guide": (guided,),
        "executor": (executor,),
    }
    return stages[config.training]


def optimisers_of(config: Any, stages: Iterable[Stage], schedules: Mapping[str, str]) -> dict[str, Any]:
    """Adam for each part; its step size is constant, or falls to zero over the part's stages (cosine)."""

    def rate(part: str) -> optax.ScalarOrSchedule:
        first: float = getattr(config, f"{part}_learning_rate")
        steps = sum(stage.steps for stage in stages if part in stage.parts)
        return first if schedules[part] == "constant" else optax.cosine_decay_schedule(first, max(steps, 1))

    return {part: optax.adam(rate(part)) for part in schedules}
