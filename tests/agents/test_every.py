"""What holds for every algorithm: each setting matters, and seeds, chunks, interruptions and files change nothing.

An algorithm's own test file says in SMALL which settings make it tiny, and in CHANGES another value of each setting.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import compiled
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.interpreters.partial_eval import dce_jaxpr
from oracles import HIGH, LOW, ROWS, same, walks

from waypost.agents import ALGORITHMS
from waypost.agents.agent import Agent, Algorithm
from waypost.data.dataset import Dataset
from waypost.errors import WaypostError
from waypost.training.loop import Learner
from waypost.training.policy import Policy

STEPS = 4
CHUNK = 2
BATCH = 7
GOAL = np.array([0.4, -0.8], np.float32)
CONTINUOUS = [name for name, each in ALGORITHMS.items() if each.continuous]
CHOICES = 3
LONG = ("cql", "bear", "brac", "dt")
"""Those that compile for long: what takes a program of its own is left to `make slow`."""
EACH = [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in ALGORITHMS]
APART = ("por", "waypoint", "onestep", "td3bc", "bc")
"""POR and all ways to learn: drawn batches and stages, stages with draws of their own, parts that wait, plain ones."""


def about(name: str) -> Any:
    """The algorithm's own test file."""
    return import_module(f"test_{ALGORITHMS[name].code.partition(':')[0].split('.')[-1]}")


def tiny(name: str) -> Any:
    config_type = ALGORITHMS[name].config_type
    known = {field.name for field in fields(config_type)}
    small = {key: value for key, value in about(name).SMALL.items() if key in known}
    return config_type(**{**small, "batch_size": BATCH})


def data(name: str, choices: bool | None = None) -> Dataset:
    """Random walks, with discrete actions for those that learn no others."""
    if choices or (choices is None and not ALGORITHMS[name].continuous):
        return _discrete(np.random.default_rng(3).integers(0, CHOICES, (ROWS, 1)))
    return walks()


def _discrete(actions: np.ndarray) -> Dataset:
    base = walks()
    return Dataset.from_arrays(
        base.observations,
        base.next_observations,
        actions,
        base.rewards,
        base.terminals,
        base.timeouts,
        base.next_valid,
        action_count=CHOICES,
    )


def learner(name: str, config: Any, seeds: tuple[int, ...] = (0,), lane: int | None = None) -> Learner:
    algorithm, columns = prepared(name, config)
    return Learner(algorithm, columns, seeds, seeds_per_lane=lane)


@cache
def prepared(name: str, config: Any) -> tuple[Algorithm, Any]:
    """Learners of one algorithm share what is compiled for it."""
    chosen: type[Algorithm] = ALGORITHMS[name].load()
    columns, spec = chosen.prepare(config, data(name))
    return chosen(config, spec, STEPS), columns


def run(subject: Learner, chunk: int = CHUNK) -> Learner:
    """All stages from where it stands, in chunks of so many updates."""
    first = 0
    for stage in subject.algorithm.stages:
        while subject.step < first + stage.steps:
            subject.advance(stage, min(first + stage.steps - subject.step, chunk))
        first += stage.steps
    return subject


def deeds(agent: Agent, steps: int = 3) -> list[np.ndarray]:
    """What it does in a few steps of a few episodes."""
    memory, actions = agent.start(4, GOAL), []
    for step in range(steps):
        rows = walks().observations[4 * step : 4 * step + 4]
        chosen, memory = compiled.act(agent, rows, memory)
        memory = agent.receive(memory, np.full(4, 0.5, np.float32))
        actions.append(np.asarray(chosen))
    return actions


@cache
def outcome(name: str) -> tuple[Any, list[np.ndarray]]:
    """What a training with the tiny settings leaves: what it learned, and what it then does."""
    subject = run(learner(name, tiny(name)))
    return jax.tree.map(np.asarray, subject.states[0]), deeds(subject.agents[0])


class Program:
    """All that settings decide, without running it: data and stages, then computations that have an effect."""

    def __init__(self, name: str, config: Any):
        self.chosen: type[Algorithm] = ALGORITHMS[name].load()
        self.config = config
        self.columns, self.spec = self.chosen.prepare(config, data(name))
        self.algorithm = self.chosen(config, self.spec, STEPS)

    @cached_property
    def known(self) -> Any:
        return {name: column.tobytes() for name, column in self.columns.items()}, self.spec, self.algorithm.stages

    @cached_property
    def _beginning(self) -> tuple[Any, Any]:
        return effective(self.algorithm.init, jax.random.key(0))

    @property
    def beginning(self) -> Any:
        return self._beginning[0]

    @cached_property
    def acting(self) -> Any:
        def acted(agent: Agent, seen: Any) -> Any:
            actions, memory = agent.act(seen, agent.start(len(seen), GOAL))
            return actions, agent.receive(memory, jnp.ones(len(seen)))

        agent = jax.eval_shape(lambda: self.chosen.build(self.config, self.spec))
        return effective(acted, agent, walks().observations[:4])[0]

    @cache  # noqa: B019 (they live as long as the tests)
    def learning(self, stage: int) -> Any:
        def updated(state: Any, columns: Any, rows: Any, key: Any) -> Any:
            batch = self.algorithm.batch(columns, rows, key)
            return self.algorithm.update(self.algorithm.stages[stage], state, batch, key)[0]

        rows = jnp.arange(self.config.batch_size)
        return effective(updated, self._beginning[1], self.columns, rows, jax.random.key(0))[0]

    def differs(self, other: Program) -> bool:
        """In anything; what costs least to find out comes first."""
        parts = ("known", "beginning", "acting")
        return any(getattr(self, part) != getattr(other, part) for part in parts) or any(
            self.learning(stage) != other.learning(stage) for stage in range(len(self.algorithm.stages))
        )


@cache
def program(name: str) -> Program:
    return Program(name, tiny(name))


def effective(function: Any, *arguments: Any) -> tuple[Any, Any]:
    """The computation a function stands for, without the steps whose results are not used, and the shape of these."""
    traced, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
    useful, _ = dce_jaxpr(traced.jaxpr, [True] * len(traced.jaxpr.outvars), instantiate=True)
    return (str(useful), [np.asarray(constant).tobytes() for constant in traced.consts]), shape


def close(one: Any, other: Any, tolerance: float) -> bool:
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.allclose(a, b, rtol=tolerance, atol=tolerance) for a, b in pairs)


def settings() -> list[tuple[str, str]]:
    """Every setting of every algorithm but POR, whose own tests say even what it changes and what not."""
    return [
        (name, field.name) for name in ALGORITHMS if name != "por" for field in fields(ALGORITHMS[name].config_type)
    ]


@pytest.mark.parametrize(("name", "setting"), settings())
def test_every_setting_matters(name: str, setting: str) -> None:
    config = tiny(name)
    value = BATCH + 1 if setting == "batch_size" else about(name).CHANGES[setting]
    assert getattr(config, setting) != value
    assert program(name).differs(Program(name, replace(config, **{setting: value})))


@pytest.mark.parametrize("name", EACH, scope="module")
def test_a_training_is_the_same_every_time(name: str) -> None:
    again = run(learner(name, tiny(name)))
    assert same(outcome(name)[0], jax.tree.map(np.asarray, again.states[0]))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in APART else pytest.mark.slow) for name in ALGORITHMS], scope="module"
)
def test_seeds_together_update_by_update_learn_what_one_learns_alone_in_chunks(name: str) -> None:
    """Both at once, because every further program takes its time to compile.

    The loop does it, whatever the equations: the others differ from these in theirs alone, and `make slow` runs them.
    """
    together = run(learner(name, tiny(name), (5, 0), lane=2), chunk=1)
    assert close(together.states[1], outcome(name)[0], 1e-4)
    assert not close(together.states[0].agent, together.states[1].agent, 1e-4)


@pytest.mark.parametrize("name", EACH, scope="module")
def test_an_interrupted_training_goes_on_to_the_same_bit(name: str) -> None:
    whole, part = learner(name, tiny(name)), learner(name, tiny(name))
    for subject in (whole, part):
        subject.advance(subject.algorithm.stages[0], CHUNK)
    snapshot = {key: np.array(value) for key, value in part.snapshot().items()}
    resumed = learner(name, tiny(name))
    resumed.restore(snapshot)
    assert same(run(whole).states[0], run(resumed).states[0])


@pytest.mark.parametrize("name", EACH, scope="module")
def test_a_saved_agent_does_the_same(name: str, tmp_path: Path) -> None:
    subject = learner(name, tiny(name))
    agent = run(subject).agents[0]
    Policy(name, tiny(name), subject.algorithm.spec, agent).save(tmp_path)  # type: ignore[attr-defined]
    assert same(deeds(agent), deeds(Policy.load(tmp_path).agent))


@pytest.mark.parametrize(
    ("name", "trained"),
    [
        *(pytest.param(each, True, marks=pytest.mark.slow if each in LONG else ()) for each in CONTINUOUS),
        *((each, False) for each in LONG),
    ],
    scope="module",
)
def test_actions_lie_inside_bounds_of_any_size(name: str, trained: bool) -> None:
    agent = outcome(name)[0].agent if trained else learner(name, tiny(name)).agents[0]
    wild = jax.tree.map(lambda leaf: 30.0 * np.asarray(leaf), agent)
    # Bounds and scalings are no weights: they stay.
    wild = replace(wild, **{key: getattr(agent, key) for key in ("actions", "scaling") if hasattr(agent, key)})
    if hasattr(agent, "executor"):
        wild = replace(wild, executor=replace(wild.executor, actions=agent.executor.actions))
    for actions in (*deeds(agent), *deeds(wild)):
        assert actions.shape == (4, 2)
        assert (actions >= LOW - 1e-5).all()
        assert (actions <= HIGH + 1e-5).all()


@pytest.mark.parametrize(
    ("name", "column"), [(name, column) for name, each in ALGORITHMS.items() for column in sorted(each.needs)]
)
def test_data_without_what_it_needs_are_refused(name: str, column: str) -> None:
    lacking = data(name).without_actions() if column == "actions" else data(name).without_rewards()
    with pytest.raises(WaypostError, match=f"has no {column}"):
        ALGORITHMS[name].load().prepare(tiny(name), lacking)


@pytest.mark.parametrize("name", LONG, scope="module")
def test_every_stage_of_a_long_program_reports_something(name: str) -> None:
    subject = learner(name, tiny(name))
    assert subject.metric_names()
    assert all(subject.metrics_of[stage.name] for stage in subject.algorithm.stages)


@pytest.mark.parametrize("name", EACH, scope="module")
def test_every_metric_is_a_finite_number(name: str) -> None:
    subject = learner(name, tiny(name))
    for stage in subject.algorithm.stages:
        means = subject.advance(stage, CHUNK)
        assert means
        assert all(np.isfinite(values).all() for values in means.values())
