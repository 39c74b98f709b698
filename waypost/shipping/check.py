"""Check that an exported policy gives the same outputs as the agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from waypost.agents.agent import Agent
from waypost.errors import WaypostError
from waypost.shipping.tracing import MEMORY, NEXT, answers, earns, flat, start_of
from waypost.types import Floats

LARGEST = 1e-5
"""Largest allowed difference; relative to the largest number of a column if that is above 1."""
STEPS = 3
"""Steps of an episode to check, for agents with memory."""
NUDGE, NUDGES = 1e-6, 16
"""Relative size and number of the perturbations of an observation, where two actions may tie."""
Answers = dict[str, Any]
Answer = Callable[[Answers], Answers]


def check(agent: Agent, answer: Answer, observations: Floats, generator: np.random.Generator) -> float:
    """The largest difference between the outputs of the agent and of its copy; an error if it is not allowed."""
    ask = jax.jit(answers)
    rows, size = observations.shape
    memory, _ = start_of(agent, rows, size)
    remembers = bool(jax.tree.leaves(memory)) and not agent.noise_size
    largest = 0.0
    for step in range(STEPS if remembers else 1):
        given: Answers = {"observation": np.roll(observations, step, axis=0)}
        if remembers:
            given[MEMORY] = memory
            given |= {"reward": generator.standard_normal(rows, np.float32)} if earns(agent) else {}
        if agent.noise_size:
            given["noise"] = generator.standard_normal((rows, agent.noise_size), np.float32)
        said = ask(agent, given)
        memory = said.get(MEMORY)
        wanted = {name: np.asarray(value) for name, value in flat(said).items()}
        found = answer({name: np.asarray(value) for name, value in flat(given).items()})
        found = {name.removeprefix(NEXT): value for name, value in found.items()}
        for name, values in wanted.items():
            apart = _apart(values, found[name])
            wrong = np.flatnonzero(apart > LARGEST)
            if len(wrong) and not remembers and not agent.noise_size:
                near = observations[wrong]
                apart[wrong] = _undecided(lambda x: ask(agent, {"observation": x})[name], near, found[name][wrong])  # noqa: B023
            largest = max(largest, float(apart.max(initial=0.0)))
            if largest > LARGEST:
                raise WaypostError(
                    f"the exported policy's {name} differs from the agent's by {largest:.2g}; at most {LARGEST} is "
                    "allowed, so nothing was written"
                )
    return largest


def _apart(wanted: np.ndarray, found: np.ndarray) -> Floats:
    """For each row, the largest difference in a column, relative to the column's largest number if that is over 1."""
    if wanted.shape != found.shape or wanted.dtype != found.dtype:
        raise WaypostError(
            f"the exported policy gives {found.dtype} {found.shape} instead of {wanted.dtype} {wanted.shape}; "
            "nothing was written"
        )
    if wanted.dtype.kind != "f":
        return (wanted != found).reshape(len(wanted), -1).any(axis=1).astype(np.float64)
    apart = np.abs(np.asarray(wanted, np.float64) - found) / np.maximum(1.0, np.abs(wanted).max(axis=0))
    return np.nan_to_num(apart.reshape(len(wanted), -1).max(axis=1), nan=np.inf)


def _undecided(ask: Callable[[Floats], Any], observations: Floats, found: np.ndarray) -> Floats:
    """How far the copy is from the agent's outputs for observations that differ only by rounding.

    If two actions are equally good to seven digits, either is right.
    """
    generator = np.random.default_rng(0)
    moved = np.repeat(observations, NUDGES, axis=0)
    moved = (moved * (1.0 + NUDGE * generator.uniform(-1, 1, moved.shape))).astype(np.float32)
    apart = _apart(np.asarray(ask(moved)), np.repeat(found, NUDGES, axis=0))
    return apart.reshape(len(observations), NUDGES).min(axis=1)
