"""The preset for data nobody has one for: where it is used, what it leaves to the data, and that units are free."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import compiled
import jax
import numpy as np
import pytest
from samples import walk

from waypost.agents import ALGORITHMS
from waypost.agents.agent import Agent
from waypost.data.dataset import Dataset
from waypost.data.rewards import learning_rewards
from waypost.training import presets
from waypost.training.defaults import fitted, units_for, updates_for
from waypost.training.plan import plan, read_plan
from waypost.training.train import train

SMALL = {"batch_size": 8, "samples": 2, "width": 8, "layers": 1, "context": 4, "cloning_steps": 0, "warmup_steps": 0}
LONG = ("cql", "bear", "brac", "dt")
"""Those that compile for long."""
EACH = [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in ALGORITHMS]
UPDATES = 5
rng = np.random.default_rng(7)
SCALES = 10 ** rng.uniform(-4, 5, 2)
OFFSETS = rng.uniform(-3, 3, 2) * SCALES


def test_every_algorithm_has_a_default_for_data_that_nobody_knows() -> None:
    for name, entry in ALGORITHMS.items():
        used, steps, settings = presets.find(name, entry.config_type, None, "my-log")
        assert (used, steps) == ("default", 0)
        config = entry.config_type(**settings)
        assert config.observation_scaling == "robust"
        assert presets.names(name)[-1] == "default"
        assert presets.find(name, entry.config_type, "none", "my-log") == (None, None, {})
        # What some algorithm has a preset for is known: others keep the settings they always had there.
        for known in ("four-rooms", "hopper-medium", "D4RL/hopper/medium-v2"):
            assert presets.find(name, entry.config_type, None, known)[0] != "default"


def test_rewards_are_free_of_units_unless_the_task_or_the_algorithm_says_otherwise() -> None:
    assert plan("por", "my-log.csv").rewards == "standard"
    assert plan("por", "my-log.csv", preset="none").rewards == "recorded"
    assert plan("por", "my-log.csv", rewards="recorded").rewards == "recorded"
    assert plan("dt", "my-log.csv").rewards == "recorded"
    assert plan("por", "t-maze", preset="default").rewards == plan("por", "t-maze").rewards


def test_more_rows_get_more_updates_and_larger_networks() -> None:
    assert [updates_for(rows) for rows in (1, 9_000, 20_000, 1_000_000, 10**9)] == [
        3_000,
        3_000,
        5_000,
        35_000,
        100_000,
    ]
    assert [units_for(rows) for rows in (1, 9_999, 10_000, 99_999, 100_000)] == [64, 64, 128, 128, 256]
    known = plan("iql", "my-log", steps=7, hidden=(9, 0))
    assert fitted(known, walk(), 20_000).config.hidden == (9, 128)
    assert fitted(known, walk(), 20_000, donor=known.config).config.hidden == known.config.hidden
    assert fitted(known, walk(), 20_000).steps == 7
    assert fitted(replace(known, steps=0), walk(), 20_000).steps == 5_000


def test_a_run_knows_what_the_data_decided_and_can_be_asked_for_again(tmp_path: Path) -> None:
    options: dict[str, Any] = {"out": tmp_path / "run", "steps": 2, "batch_size": 8}
    first = train("bc", walk(), **options)
    assert (first.plan.preset, first.plan.config.hidden) == ("default", (64, 64))
    assert read_plan(tmp_path / "run") == first.plan
    again = train("bc", walk(), resume=True, **options)
    assert again.plan == first.plan


@pytest.mark.parametrize(
    ("columns", "drifts", "horizon", "waypoint"),
    [(6, True, 25, "slow"), (5, True, 5, "slow"), (6, False, 5, "displacement")],
    ids=["few directions drift", "many drift", "none drifts"],
)
def test_a_waypoint_lies_far_ahead_where_few_directions_drift(
    columns: int, drifts: bool, horizon: int, waypoint: str
) -> None:
    noise = 0.1 * np.random.default_rng(0).normal(size=(2000, columns))
    time = np.tile(np.arange(200.0), 10)
    speed = np.repeat(np.random.default_rng(1).choice([-1.0, 1.0], 10), 200)
    noise[:, 0] += drifts * speed * time
    end = time == 199
    data = Dataset.from_arrays(noise, None, noise, noise[:, 0], None, end, name="log")

    def chosen(data: Dataset = data, **settings: Any) -> tuple[int, str]:
        config = fitted(plan("waypoint", data, **settings), data, 2000).config
        return config.horizon, config.waypoint

    assert chosen() == (horizon, waypoint)
    assert chosen(horizon=3) == (3, "slow")
    assert chosen(waypoint="state")[1] == "state"
    assert chosen(waypoint_columns=(1,)) == (25 if columns == 6 else 5, "slow")
    short = Dataset.from_arrays(noise, None, noise, noise[:, 0], None, time % 8 == 7, name="log")
    assert chosen(short)[0] == 2


# -- units -----------------------------------------------------------------------------------------


def log(discrete: bool) -> Dataset:
    """A walk with an outlier and a column that never changes."""
    base = walk(120)
    steady = np.full((120, 1), 0.3, np.float32)
    observations, following = (np.hstack([each, steady]) for each in (base.observations, base.next_observations))
    observations[50, 0] = 1e4
    actions = (base.actions[:, :1] > 0) * 1.0 if discrete else base.actions
    kind: dict[str, Any] = {"action_count": 2} if discrete else {"action_low": [-1, -1], "action_high": [1, 1]}
    return Dataset.from_arrays(
        observations, following, actions, base.rewards, base.terminals, base.ends & ~base.terminals, name="log", **kind
    )


def in_other_units(data: Dataset) -> Dataset:
    scales, offsets = np.append(SCALES, 1e3), np.append(OFFSETS, 5.0)
    observations, following = (each * scales + offsets for each in (data.observations, data.next_observations))
    actions, kind = data.actions, {"action_count": data.action_count}
    if data.action_count is None:
        actions, kind = 50 * (data.actions + 1), {"action_low": [0, 0], "action_high": [100, 100]}
    rest = 100 * data.rewards, data.terminals, data.ends & ~data.terminals
    return Dataset.from_arrays(observations, following, actions, *rest, name="log", **kind)


def learned(name: str, data: Dataset, **settings: Any) -> Agent:
    """After a few updates of each stage with the default preset, and tiny networks."""
    kind = ALGORITHMS[name].config_type
    known = {each.name for each in fields(kind)}
    small = {key: value for key, value in SMALL.items() if key in known}
    small |= {each: (8, 8) for each in known if each.endswith("hidden")}
    planned = fitted(plan(name, data, steps=UPDATES, **small, **settings), data, len(data))
    chosen = ALGORITHMS[name].load()
    rewarded = learning_rewards(data, planned.convention, getattr(planned.config, "discount", 0.99))
    columns, spec = chosen.prepare(planned.config, rewarded)
    algorithm = chosen(planned.config, spec, UPDATES)
    state = jax.jit(algorithm.init)(jax.random.key(1))
    arrays = {each: jax.numpy.asarray(values) for each, values in columns.items()}
    rows = np.random.default_rng(2).integers(0, len(next(iter(columns.values()))), (UPDATES, 8))
    for stage in algorithm.stages:
        step = jax.jit(partial(_step, algorithm, stage))
        for i in range(min(stage.steps, UPDATES)):
            state = step(state, arrays, rows[i], jax.random.key(i))
    return state.agent


def _step(algorithm: Any, stage: Any, state: Any, arrays: Any, rows: Any, key: Any) -> Any:
    return algorithm.update(stage, state, algorithm.batch(arrays, rows, key), key)[0]


def deeds(agent: Agent, data: Dataset) -> np.ndarray:
    memory = agent.start(len(data), data.observations[:1, :2])
    return np.asarray(compiled.act(agent, data.observations, memory)[0])


@pytest.mark.parametrize("name", EACH)
def test_the_same_data_in_other_units_give_the_same_policy(name: str) -> None:
    data = log(discrete=not ALGORITHMS[name].continuous)
    other = in_other_units(data)
    ours, theirs = (deeds(learned(name, each), each) for each in (data, other))
    if data.action_count is None:
        theirs = theirs / 50 - 1
        assert np.ptp(ours, axis=0).min() > 1e-3
    assert np.allclose(ours, theirs, atol=5e-3)


def test_without_scaling_units_do_matter() -> None:
    data = log(discrete=False)
    ours, theirs = (
        deeds(learned("bc", each, observation_scaling=False), each) for each in (data, in_other_units(data))
    )
    assert not np.allclose(ours, theirs / 50 - 1, atol=0.05)
