"""Every algorithm learns a tiny set by heart: one journey of a few steps, and what was done in each."""

from __future__ import annotations

from typing import Any

import compiled
import jax
import numpy as np
import pytest

from waypost.agents import ALGORITHMS
from waypost.data.dataset import Dataset
from waypost.training.loop import Learner

STEPS = 600
ROWS = 8
LOW, HIGH = np.array([-2.0, 0.0], np.float32), np.array([1.0, 5.0], np.float32)
CHOICES = 3
NET = (48,)
FAST = 5e-3
SETTINGS: dict[str, dict[str, Any]] = {
    "por": {
        **dict.fromkeys(("value_hidden", "guide_hidden", "executor_hidden"), NET),
        **dict.fromkeys(("value_learning_rate", "guide_learning_rate", "executor_learning_rate"), FAST),
    },
    "waypoint": {
        **dict.fromkeys(("value_hidden", "guide_hidden", "executor_hidden"), NET),
        **dict.fromkeys(("value_learning_rate", "guide_learning_rate", "executor_learning_rate"), FAST),
        "horizon": 1,
    },
    "bc": {"hidden": NET, "learning_rate": FAST},
    "bc10": {"hidden": NET, "learning_rate": FAST},
    "onestep": {
        "hidden": (*NET, *NET),
        "learning_rate": FAST,
        "behaviour_steps": STEPS,
        "value_steps": STEPS,
    },
    "iql": {"hidden": NET, "value_learning_rate": FAST, "policy_learning_rate": FAST},
    "td3bc": {
        **dict.fromkeys(("critic_hidden", "policy_hidden"), NET),
        **dict.fromkeys(("critic_learning_rate", "policy_learning_rate"), FAST),
        "value_weight": 0.1,
    },
    "cql": {
        **dict.fromkeys(("critic_hidden", "policy_hidden"), NET),
        **dict.fromkeys(("critic_learning_rate", "policy_learning_rate"), FAST),
        "cloning_steps": STEPS // 2,
    },
    "cql-discrete": {"hidden": NET, "learning_rate": FAST},
    "bcq": {**dict.fromkeys(("vae_hidden", "value_hidden", "perturbation_hidden"), NET), "learning_rate": FAST},
    "bear": {
        **dict.fromkeys(("vae_hidden", "value_hidden", "policy_hidden"), NET),
        "learning_rate": FAST,
        "dual_learning_rate": FAST,
    },
    "brac": {
        **dict.fromkeys(("value_hidden", "policy_hidden"), NET),
        **dict.fromkeys(("value_learning_rate", "policy_learning_rate", "behaviour_learning_rate"), FAST),
        "behaviour_steps": STEPS,
        "divergence_weight": 3.0,
    },
    "dt": {"context": ROWS, "layers": 1, "width": 32, "learning_rate": FAST, "warmup_steps": 50, "dropout": 0.0},
    "rvs-r": {"hidden": NET, "learning_rate": FAST},
    "rvs-g": {"hidden": NET, "learning_rate": FAST},
}
"""Small networks that hurry; the rest as the originals have it, except what weighs Q against the data."""


def journey(choices: bool) -> Dataset:
    """Round a circle, with an action at each place that no formula would guess."""
    random = np.random.default_rng(4)
    angles = np.arange(ROWS + 1) * 2 * np.pi / (ROWS + 1)
    places = np.column_stack([np.cos(angles), np.sin(angles)]).astype(np.float32)
    actions: Any = random.uniform(LOW + 0.4, HIGH - 0.4, (ROWS, 2)).astype(np.float32)
    last = np.arange(ROWS) == ROWS - 1
    kind: dict[str, Any] = {"action_low": LOW, "action_high": HIGH}
    if choices:
        actions, kind = np.array([0, 2, 1, 1, 0, 2, 2, 1])[:, None], {"action_count": CHOICES}
    return Dataset.from_arrays(
        places[:-1], places[1:], actions, np.ones(ROWS, np.float32), last, np.zeros(ROWS, bool), **kind
    )


def relived(agent: Any, data: Dataset) -> np.ndarray:
    """What the agent does where the journey went, told of what was earned there."""
    memory, actions = agent.start(1, data.next_observations[-1]), []
    for observation, reward in zip(data.observations, data.require("rewards"), strict=True):
        action, memory = compiled.act(agent, observation[None], memory)
        memory = agent.receive(memory, np.array([reward]))
        actions.append(np.asarray(action)[0])
    return np.array(actions)


def learned(name: str, choices: bool, steps: int) -> Learner:
    chosen = ALGORITHMS[name].load()
    config = chosen.config_type(**SETTINGS[name], batch_size=16)
    columns, spec = chosen.prepare(config, journey(choices))
    learner = Learner(chosen(config, spec, steps), columns, (0,))
    for stage in learner.algorithm.stages:
        learner.advance(stage, stage.steps)
    return learner


SLOW = ("onestep", "td3bc", "cql", "bcq", "bear", "brac", "dt")
"""Those that compile for long; `make slow` runs them."""


def named(able: str) -> list[Any]:
    """The algorithms for one kind of actions."""
    return [
        pytest.param(name, marks=pytest.mark.slow if name in SLOW else ())
        for name, each in ALGORITHMS.items()
        if getattr(each, able)
    ]


@pytest.mark.parametrize("name", named("continuous"))
def test_a_journey_is_learned_by_heart(name: str) -> None:
    data = journey(choices=False)
    errors = np.abs(relived(learned(name, False, STEPS).agents[0], data) - data.require("actions")) / (HIGH - LOW)
    assert errors.mean() < 0.05
    assert errors.max() < 0.2


@pytest.mark.parametrize("name", named("discrete"))
def test_a_journey_of_discrete_actions_is_learned_by_heart(name: str) -> None:
    data, learner = journey(choices=True), learned(name, True, STEPS)
    agent = learner.agents[0]
    chosen = relived(agent, data)
    assert chosen.tolist() == data.require("actions")[:, 0].tolist()
    assert chosen.dtype.kind == "i"
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(learner.states[0]))
    afar, _ = compiled.act(agent, 30 * data.observations[:1], agent.start(1, data.next_observations[-1]))
    assert afar.shape == (1,)
    assert int(afar[0]) in range(CHOICES)
