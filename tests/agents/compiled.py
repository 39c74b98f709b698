"""First states, updates, actions and values as programs that the tests share.

Step by step each operation would be compiled by itself, hundreds of them for one update.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import jax
import numpy as np

from waypost.agents.agent import Agent, Algorithm, Stage

FIRST = jax.random.key(0)
_programs: dict[tuple[Any, ...], Callable[..., Any]] = {}


def init(algorithm: Any, key: jax.Array = FIRST) -> Any:
    return _program(algorithm, None, algorithm.init)(key)


def blank(algorithm: Any) -> Any:
    """A first state whose networks hold zeros, for tests that draw their own: there is nothing to compile."""
    with patch.object(jax.random, "uniform", lambda key, shape, **_: np.zeros(shape, np.float32)):
        return algorithm.init(FIRST)


def update(algorithm: Any, stage: Stage | int, state: Any, batch: Any, key: jax.Array) -> Any:
    """One update of a stage, or of the one with that number."""
    stage = algorithm.stages[stage] if isinstance(stage, int) else stage
    return _program(algorithm, stage, lambda *given: algorithm.update(stage, *given))(state, batch, key)


def _program(algorithm: Algorithm, stage: Stage | None, function: Callable[..., Any]) -> Callable[..., Any]:
    """One program for each kind, settings, data shape and stage: two algorithms that agree in them are the same."""
    spec: Any = algorithm.spec  # type: ignore[attr-defined]
    identity = (type(algorithm), algorithm.config, repr(spec), algorithm.stages, stage)
    if identity not in _programs:
        _programs[identity] = jax.jit(function)
    return _programs[identity]


@jax.jit
def act(agent: Agent, observations: jax.Array, memory: Any) -> Any:
    return agent.act(observations, memory)


value = jax.jit(lambda agent, observations: agent.value(observations))
