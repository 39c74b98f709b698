"""Waypoint: one update against NumPy, who learns from what, where it is POR, its noise, and that it gets there."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import compiled
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
import test_por
from oracles import (
    HIGH,
    LOW,
    ROWS,
    UNSEEN_TERMINAL,
    UNSEEN_TIMEOUT,
    check_step,
    choosing_walks,
    differing,
    moved_by,
    numbers,
    redrawn,
    same,
    shaken,
    step_sizes,
    walks,
    with_row,
)
from samples import walk
from test_por import VALUE, alike
from waypoint_oracle import Oracle

import waypost
from waypost.agents import por
from waypost.agents.agent import Spec
from waypost.agents.waypoint import Config, State, Waypoint, WaypointAgent
from waypost.data.dataset import Dataset
from waypost.data.stream import Stream
from waypost.envs.tasks import task
from waypost.errors import WaypostError
from waypost.training.evaluation import rollouts
from waypost.training.loop import Learner
from waypost.training.policy import Policy

SMALL: dict[str, Any] = {
    "horizon": 3,
    "backup": 2,
    "training": "staged",
    "value_hidden": (8,),
    "guide_hidden": (8,),
    "executor_hidden": (8,),
    "value_learning_rate": 0.02,
    "guide_learning_rate": 0.01,
    "executor_learning_rate": 0.005,
    "target_rate": 0.3,
    "discount": 0.9,
}
CHANGES: dict[str, Any] = {
    "waypoint": "displacement",
    "waypoint_columns": (0, 1),
    "drift": 0.9,
    "horizon": 2,
    "backup": 0,
    "tau": 0.7,
    "residuals": "plain",
    "baseline": "target",
    "inverse_temperature": 1.0,
    "weight_cap": 1.5,
    "executor_weighted": True,
    "executor_aim": "horizon",
    "executor_reads": "rest",
    "executor_inputs": (0, 2),
    "waypoint_noise": 0.5,
    "action_noise": 0.5,
    "acting_rate": 0.5,
    "training": "joint",
    "executor_steps": 5,
    "observation_scaling": "none",
    "discount": 0.5,
    "target_rate": 0.9,
    "value_learning_rate": 0.1,
    "guide_learning_rate": 0.1,
    "executor_learning_rate": 0.1,
    "schedule": "constant",
    "value_schedule": "cosine",
    "value_hidden": (5,),
    "guide_hidden": (5,),
    "executor_hidden": (5,),
    "value_layer_norm": False,
}
KEY = jax.random.key(7)
WHERE = {part: test_por.WHERE[part] for part in ("value", "target", "guide", "executor")}
SEEDS = {part: test_por.SEEDS[part] for part in WHERE}
ALL = frozenset(WHERE)


def small(**settings: Any) -> Config:
    return Config(**{**SMALL, "training": "joint", **settings})


def begin(config: Config, data: Dataset, steps: int = 3) -> tuple[Waypoint, dict[str, Any], State]:
    """The algorithm, all rows as a batch, and a state as if it had learned before: its target is not V."""
    arrays, spec = Waypoint.prepare(config, data)
    algorithm = Waypoint(config, spec, steps)
    state = compiled.blank(algorithm)
    for part, seed in SEEDS.items():
        if nets(state)[part] is not None:
            state = shaken(state, WHERE[part], seed)
    return algorithm, drawn(algorithm, arrays, np.arange(len(data))), state


def drawn(algorithm: Waypoint, arrays: dict[str, np.ndarray], rows: np.ndarray) -> dict[str, Any]:
    columns = {name: jnp.asarray(values) for name, values in arrays.items()}
    return dict(algorithm.batch(columns, jnp.asarray(rows), KEY))


def update(algorithm: Waypoint, state: State, batch: dict[str, Any], stage: int = -1) -> tuple[State, dict[str, Any]]:
    return compiled.update(algorithm, stage, state, batch, KEY)


def nets(state: State) -> dict[str, Any]:
    agent = state.agent
    learners = {"value": agent.value_part, "guide": agent.guide_part, "executor": agent.executor}
    return {**{name: part and part.net for name, part in learners.items()}, "target": state.target}


def parts(state: State) -> dict[str, Any]:
    """All of a state: each network with its optimiser, and the spaces, which never change."""
    agent = state.agent
    constants = [part and replace(part, net=None) for part in (agent.value_part, agent.guide_part, agent.executor)]
    return {**{name: (net, state.optimisers.get(name)) for name, net in nets(state).items()}, "constants": constants}


def directions(spec: Spec) -> np.ndarray | None:
    found = spec.statistics.get("waypoint_directions")
    return None if found is None else np.array(found).reshape(spec.observation_size, -1)


# -- one update against NumPy ----------------------------------------------------------------------------

SETTINGS: dict[str, dict[str, Any]] = {
    "slow": {},
    "columns": {
        "waypoint_columns": (2, 0),
        "executor_aim": "horizon",
        "executor_reads": "rest",
        "executor_weighted": True,
        "weight_cap": 2.0,
        "backup": 1,
        "waypoint_noise": 0.8,
    },
    "displacement": {
        "waypoint": "displacement",
        "residuals": "plain",
        "observation_scaling": "none",
        "backup": 5,
        "value_layer_norm": False,
        "executor_inputs": (0, 2),
        "waypoint_noise": 1.5,
    },
    "state": {"waypoint": "state", "horizon": 4, "backup": 0, "inverse_temperature": 1.0, "baseline": "target"},
}


class Taken(NamedTuple):
    """One joint update: the states around it and its metrics, all in NumPy."""

    config: Config
    oracle: Oracle
    before: dict[str, Any]
    after: dict[str, Any]
    optimisers: dict[str, Any]
    metrics: dict[str, float]

    @property
    def steps(self) -> np.ndarray:
        """How many steps on the state lies that the executor learns to reach."""
        if self.config.executor_aim == "horizon":
            return np.maximum(self.oracle.ahead, 0) + 1
        return 1 + np.asarray(jax.random.randint(KEY, (ROWS,), 0, np.maximum(self.oracle.ahead, 0) + 1))

    @property
    def noise(self) -> np.ndarray | float:
        """What is added to the executor's displacements: by the guide as it is after the update."""
        if not self.config.waypoint_noise:
            return 0.0
        std = np.exp(np.clip(self.after["guide"].log_std, -5, 2))
        std = std if self.oracle.directions is not None else std[list(self.config.executor_inputs) or [0, 1, 2]]
        key = jax.random.fold_in(KEY, 1)
        return self.config.waypoint_noise * std * np.asarray(jax.random.normal(key, (ROWS, len(std))))


@cache
def taken(name: str, choices: bool = False) -> Taken:
    config, data = small(**SETTINGS[name]), choosing_walks() if choices else walks()
    algorithm, batch, state = begin(config, data)
    after, metrics = update(algorithm, state, batch)
    before, now = (numbers({**nets(each), "constants": parts(each)["constants"]}) for each in (state, after))
    oracle = Oracle(config, data, directions(algorithm.spec))
    return Taken(config, oracle, before, now, after.optimisers, {key: float(x) for key, x in metrics.items()})


@pytest.fixture(params=SETTINGS)
def one(request: pytest.FixtureRequest) -> Taken:
    return taken(request.param)


def check(one: Taken, part: str, loss: Any) -> None:
    """Value, gradient and Adam's step of one part's loss."""
    nets, rate = (one.before[part], one.after[part]), getattr(one.config, f"{part}_learning_rate")
    check_step(loss, one.metrics[f"{part}_loss"], *nets, one.optimisers[part], rate, 1e-4)


def test_v_takes_an_adam_step_down_its_n_step_expectile(one: Taken) -> None:
    check(one, "value", lambda net: one.oracle.value_loss(net, one.before["target"]))
    assert np.isclose(one.metrics["value"], one.oracle.values(one.before["value"], one.oracle.states).mean(), rtol=1e-4)


def test_guide_takes_an_adam_step_towards_ways_weighted_by_the_new_v(one: Taken) -> None:
    weights = one.oracle.weights(one.after["value"], one.before["target"])
    check(one, "guide", lambda net: one.oracle.guide_loss(net, weights))
    assert np.isclose(one.metrics["weight"], weights[one.oracle.aimed].mean(), rtol=1e-4)


def test_executor_takes_an_adam_step_towards_the_actions_that_reached_its_aim(one: Taken) -> None:
    weights = one.oracle.weights(one.after["value"], one.before["target"]) if one.config.executor_weighted else 1.0
    check(one, "executor", lambda net: one.oracle.executor_loss(net, one.steps, weights, one.noise))


def test_target_moves_by_its_rate_and_spaces_stand_still(one: Taken) -> None:
    assert moved_by(0.3, one.before["target"], one.after["value"], one.after["target"])
    assert same(one.before["constants"], one.after["constants"])


def test_discrete_actions_are_learned_by_their_likelihood() -> None:
    one = taken("slow", choices=True)
    check(one, "executor", lambda net: one.oracle.executor_loss(net, one.steps))
    assert same(one.after["guide"], taken("slow").after["guide"])


def test_the_batch_can_tell_a_right_update_from_a_wrong_one() -> None:
    one, capped = taken("slow"), taken("columns")
    oracle, value, target = one.oracle, one.after["value"], one.before["target"]
    assert oracle.directions.shape == (3, 1)
    assert capped.oracle.directions.shape == (3, 2)
    assert set(one.steps[oracle.aimed]) == {1, 2, 3}
    assert not np.array_equal(oracle.value_ahead, oracle.ahead)
    assert (oracle.known & ~oracle.aimed).any()
    assert (oracle.value_left == 0).sum() >= 3
    weights = capped.oracle.weights(capped.after["value"], capped.before["target"])
    assert 2 < (weights == 2.0).sum() < ROWS - 2
    assert not np.allclose(oracle.weights(value, target), oracle.weights(one.before["value"], target), rtol=0.05)


# -- where it is POR -------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["state", "displacement"])
def test_with_por_s_settings_it_is_por(form: Any) -> None:
    """Same networks and batches, several updates, all weights; on a batch with unknown next states."""
    common = {name: value for name, value in test_por.SMALL.items() if name != "behaviour_learning_rate"}
    common |= {"tau": 0.8, "executor_weighted": True, "observation_scaling": "standardise", "executor_inputs": (0, 2)}
    theirs = por.Config(**common, guide_target=form)
    ours = Config(**common, waypoint=form, horizon=1, backup=1, residuals="plain", value_layer_norm=False)
    arrays, spec = por.POR.prepare(theirs, walks())
    original, subject = por.POR(theirs, spec, 4), Waypoint(ours, Waypoint.prepare(ours, walks())[1], 4)
    state = compiled.init(original)
    follower = compiled.blank(subject)
    for where in WHERE.values():
        follower = eqx.tree_at(where, follower, where(state))
    assert np.array_equal(follower.agent.act(walks().observations)[0], state.agent.act(walks().observations)[0])
    for seed in range(4):
        rows = np.random.default_rng(seed).integers(0, ROWS, 16)
        batch = {name: jnp.asarray(values[rows]) for name, values in arrays.items()}
        state, _ = compiled.update(original, 0, state, batch, KEY)
        follower, _ = update(subject, follower, drawn(subject, Waypoint.prepare(ours, walks())[0], rows))
    for name, where in WHERE.items():
        pairs = zip(jax.tree.leaves(where(state)), jax.tree.leaves(where(follower)), strict=True)
        assert all(np.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in pairs), name


# -- who learns from what --------------------------------------------------------------------------------


def changed_by(settings: dict[str, Any], data: Dataset) -> set[str]:
    """The parts that come out of a joint update otherwise if the data are these."""
    results = []
    for rows in (walks(), data):
        algorithm, batch, state = begin(small(**settings), rows)
        results.append(parts(update(algorithm, state, batch)[0]))
    return differing(*results)


@pytest.mark.parametrize("name", ["slow", "columns"])
def test_only_the_executor_learns_from_actions(name: str) -> None:
    other = np.random.default_rng(5).uniform(LOW, HIGH, (ROWS, 2))
    assert changed_by(SETTINGS[name], walks(actions=other)) == {"executor"}


def test_the_executor_learns_from_rewards_only_if_weighted() -> None:
    data = walks(rewards=np.linspace(-1, 1, ROWS))
    assert changed_by({}, data) == VALUE | {"guide"}
    assert changed_by(SETTINGS["columns"], data) == ALL


@pytest.mark.parametrize(
    ("moved", "expected", "weighted"),
    [
        ("executor", {"executor"}, {"executor"}),
        ("guide", {"guide"}, {"guide", "executor"}),
        ("value", VALUE | {"guide"}, ALL),
        ("target", VALUE | {"guide"}, ALL),
    ],
)
def test_a_part_moves_only_those_that_read_it(moved: str, expected: set[str], weighted: set[str]) -> None:
    for name, reading in (("slow", expected), ("columns", weighted)):
        algorithm, batch, state = begin(small(**SETTINGS[name]), walks())
        states = (update(algorithm, each, batch)[0] for each in (state, shaken(state, WHERE[moved])))
        assert differing(*map(parts, states)) == reading


def test_noise_is_as_large_as_the_guide_is_uncertain() -> None:
    _, batch, state = begin(small(waypoint_noise=0.5), walks())
    other = eqx.tree_at(lambda state: state.agent.guide_part.net.log_std, state, replace_fn=lambda x: x + 1.0)
    for stage in (state, other):
        executor, guide = stage.agent.executor, stage.agent.guide_part
        exact = executor.inputs(batch["observations"], batch["reached"])
        noisy = executor.noisy_inputs(batch["observations"], batch["reached"], 0.5 * guide.net.std, KEY)
        assert np.array_equal(noisy[:, :3], exact[:, :3])
        drawn = 0.5 * np.exp(guide.net.log_std) * jax.random.normal(KEY, (ROWS, 1))
        assert np.allclose(noisy[:, 3:] - exact[:, 3:], drawn, atol=1e-5)


def test_an_executor_that_is_trained_alone_learns_without_noise() -> None:
    """Also if another agent gave it a guide, which may have other coordinates."""
    donor = begin(small(waypoint="displacement"), walks())[2].agent
    results = []
    for noise, other in ((0.0, None), (0.5, None), (0.5, donor)):
        algorithm, batch, state = begin(small(training="executor", waypoint_noise=noise), walks())
        state = state if other is None else state._replace(agent=state.agent.graft(other))
        results.append(nets(update(algorithm, state, batch)[0])["executor"])
    assert same(results[0], results[1])
    assert same(results[0], results[2])


def test_a_moving_average_of_the_agent_acts_while_the_agent_learns_as_before() -> None:
    algorithm, batch, state = begin(small(), walks())
    slow, _, other = begin(small(acting_rate=0.3), walks())
    other = other._replace(agent=state.agent, learning=state.agent)
    average = numbers(nets(state))
    for _ in range(3):
        state, _ = update(algorithm, state, batch)
        other, _ = update(slow, other, batch)
        assert alike((other.learning, other.target), (state.agent, state.target))
        average = jax.tree.map(lambda old, new: old + 0.3 * (new - old), average, numbers(nets(state)))
    for part in ("value", "guide", "executor"):
        assert oracles.agree(jax.tree.leaves(nets(other)[part]), jax.tree.leaves(average[part]), 1e-4)
        assert not alike(nets(other)[part], nets(state)[part])


def test_parts_of_another_agent_are_not_averaged() -> None:
    donor = begin(small(), walks())[2].agent
    algorithm, batch, state = begin(small(training="guide", acting_rate=0.3), walks())
    state = state._replace(agent=state.agent.graft(donor))
    after, _ = update(algorithm, state, batch)
    assert same(after.agent.executor, donor.executor)
    assert after.learning.executor is None
    assert differing(parts(state), parts(after)) == VALUE | {"guide"}


def test_an_averaged_agent_resumes_to_the_same_bits() -> None:
    config = small(batch_size=16, acting_rate=0.3)
    arrays, spec = Waypoint.prepare(config, walk())
    subject = Waypoint(config, spec, 4)
    straight, first, second = (Learner(subject, arrays, [0, 1]) for _ in range(3))
    for learner in (straight, first):
        learner.advance(subject.stages[0], 2)
    second.restore(first.snapshot())
    for learner in (straight, second):
        learner.advance(subject.stages[0], 2)
    assert same(second.snapshot(), straight.snapshot())
    assert not alike(straight.states[0].learning, straight.states[0].agent)


@pytest.mark.parametrize("row", [UNSEEN_TERMINAL, UNSEEN_TIMEOUT])
@pytest.mark.parametrize("name", ["slow", "columns"])
def test_a_next_state_that_is_not_real_is_never_read(name: str, row: int) -> None:
    assert changed_by(SETTINGS[name], with_row("next_observations", row, 50.0)) == set()
    assert changed_by(SETTINGS[name], with_row("actions", row, (-2.0, 5.0))) == set()


def test_a_row_before_an_unseen_state_teaches_v_only_if_terminal() -> None:
    assert changed_by({}, with_row("rewards", UNSEEN_TIMEOUT, 30.0)) == set()
    assert changed_by({}, with_row("rewards", UNSEEN_TERMINAL, 30.0)) == VALUE | {"guide"}


# -- stages and parts by themselves --------------------------------------------------------------------------

EVERY = ("value", "guide", "executor")
JOINT, GUIDED, EXECUTOR = ("joint", 10, EVERY), ("value and guide", 10, EVERY[:2]), ("executor", 10, EVERY[2:])


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"training": "joint", "executor_steps": 4}, [JOINT]),
        ({"training": "staged"}, [GUIDED, EXECUTOR]),
        ({"training": "staged", "executor_steps": 4}, [GUIDED, ("executor", 4, EVERY[2:])]),
        ({"training": "guide"}, [GUIDED]),
        ({"training": "executor", "executor_steps": 4}, [EXECUTOR]),
    ],
)
def test_stages(settings: dict[str, Any], expected: list[Any]) -> None:
    subject = Waypoint(small(**settings), Spec(3, 2), 10)
    assert [(stage.name, stage.steps, stage.parts) for stage in subject.stages] == [
        (name, steps, frozenset(parts)) for name, steps, parts in expected
    ]
    for _, steps, learning in expected:
        for part in learning:
            sizes = step_sizes(subject.optimisers[part], steps + 1)
            assert sizes[0] == pytest.approx(getattr(subject.config, f"{part}_learning_rate"), rel=1e-4)
            assert (sizes[-1] == 0) == (part != "value")
            assert sizes[-2] > 0


@pytest.mark.parametrize(("stage", "learning"), [(0, VALUE | {"guide"}), (1, {"executor"})])
def test_a_stage_changes_its_own_parts_and_nothing_else(stage: int, learning: set[str]) -> None:
    algorithm, batch, state = begin(small(training="staged"), walks())
    after, _ = update(algorithm, state, batch, stage)
    assert differing(parts(state), parts(after)) == learning


def trained(config: Config, data: Dataset) -> WaypointAgent:
    algorithm, batch, state = begin(config, data)
    for stage in algorithm.stages:
        for _ in range(2):
            state, _ = compiled.update(algorithm, stage, state, batch, KEY)
    return state.agent


def test_parts_learn_the_same_without_the_columns_they_do_not_need() -> None:
    full = trained(small(), walks())
    free = trained(small(training="guide"), walks().without_actions())
    assert alike((free.value_part, free.guide_part), (full.value_part, full.guide_part))
    alone = trained(small(training="executor"), walks().without_rewards())
    assert alike(alone.executor, full.executor)
    assert free.executor is alone.value_part is alone.guide_part is None
    for ask, part in ((free.act, "executor"), (alone.act, "guide"), (alone.value, "value function")):
        with pytest.raises(WaypostError, match=rf"no trained {part}.*--init"):
            ask(walks().observations)
    assert alike(free.graft(alone), full)


@pytest.mark.parametrize(
    ("training", "column"), [("joint", "actions"), ("executor", "actions"), ("joint", "rewards"), ("guide", "rewards")]
)
def test_data_without_what_a_part_needs_are_refused(training: Any, column: str) -> None:
    lacking = walks().without_actions() if column == "actions" else walks().without_rewards()
    with pytest.raises(WaypostError, match=f"has no {column}"):
        Waypoint.prepare(small(training=training), lacking)
    weighted = small(training="executor", executor_weighted=True)
    with pytest.raises(WaypostError, match="has no rewards"):
        Waypoint.prepare(weighted, walks().without_rewards())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"executor_inputs": (3,)}, "executor_inputs must be columns of arrays, from 0 to 2, got"),
        ({"waypoint_columns": (0, -1)}, "waypoint_columns must be columns of arrays, from 0 to 2, got"),
    ],
)
def test_columns_must_be_those_of_the_data(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(WaypostError, match=message):
        Waypoint.prepare(small(**settings), walks())


@pytest.mark.parametrize(
    ("name", "value"),
    [("drift", 1.5), ("drift", -0.1), ("backup", -1), ("horizon", -1), ("action_noise", -0.1),
     ("waypoint_noise", -0.1), ("waypoint", "x"), ("residuals", "x"), ("baseline", "x"), ("executor_aim", "x"),
     ("executor_reads", "x"), ("acting_rate", 0.0), ("acting_rate", 1.5), ("tau", 1.0), ("weight_cap", 0.0)],
)  # fmt: skip
def test_a_setting_out_of_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(WaypostError, match=rf"^{name} must .+, got "):
        Config(**{name: value})


# -- what the executor reads -----------------------------------------------------------------------------------


@pytest.mark.parametrize("reads", ["rest", "all"])
def test_an_executor_that_reads_the_rest_acts_the_same_everywhere(reads: Any) -> None:
    """Moved together with its goal, it does the same thing; one that reads all does not."""
    agent = begin(small(waypoint_columns=(2, 0), executor_reads=reads), walks())[2].agent
    here, there = (jnp.asarray(x) for x in (walks().observations, walks().next_observations))
    shift = jnp.array([4.0, 0.0, -3.0])
    executor = agent.executor
    assert executor is not None
    apart = np.abs(np.asarray(executor(here + shift, there + shift) - executor(here, there))).max()
    assert (apart < 1e-4) == (reads == "rest")
    assert not np.allclose(executor(here, there + shift), executor(here, there), atol=0.01)


# -- noise -----------------------------------------------------------------------------------------------------


def acting(noise: float, **settings: Any) -> WaypointAgent:
    return begin(small(action_noise=noise, **settings), walks())[2].agent


def test_noise_is_a_share_of_the_executors_own_spread() -> None:
    agent, here = acting(0.5), np.repeat(walks().observations[:1], 4000, axis=0)
    executor = agent.executor
    assert executor is not None
    narrow = replace(agent, executor=eqx.tree_at(lambda part: part.net.log_std, executor, jnp.log(jnp.full(2, 0.1))))
    centred = eqx.tree_at(lambda agent: agent.executor.net.mean.layers[-1].bias, narrow, replace_fn=lambda b: 0 * b)
    actions, _ = compiled.act(centred, here, centred.start(len(here)))
    likeliest, _ = compiled.act(replace(centred, action_noise=0.0), here, ())
    inside = ((likeliest > LOW + 0.5) & (likeliest < HIGH - 0.5))[0]
    assert inside.any()
    spread = np.asarray(actions).std(axis=0) / ((HIGH - LOW) / 2)
    assert np.allclose(spread[inside], 0.05, rtol=0.1)
    assert np.allclose(np.asarray(actions).mean(axis=0)[inside], likeliest[0][inside], atol=0.02)


@pytest.mark.parametrize("data", [walks(), choosing_walks()], ids=["continuous", "discrete"])
def test_noise_is_the_same_from_the_same_start_and_differs_between_episodes_and_steps(data: Dataset) -> None:
    agent = begin(small(action_noise=3.0), data)[2].agent
    here = np.repeat(walks().observations[:1], 8, axis=0)
    first, later = compiled.act(agent, here, agent.start(8))
    again, _ = compiled.act(agent, here, agent.start(8))
    second, _ = compiled.act(agent, here, later)
    assert np.array_equal(first, again)
    assert len(np.unique(np.asarray(first), axis=0)) > 1
    assert not np.array_equal(first, second)


def test_without_noise_nothing_is_remembered(tmp_path: Path) -> None:
    config = small()
    spec = Waypoint.prepare(config, walks())[1]
    for noise in (0.0, 0.5):
        agent = acting(noise)
        policy = Policy("waypoint", replace(config, action_noise=noise), spec, agent)
        policy.save(tmp_path / str(noise))
        loaded = Policy.load(tmp_path / str(noise))
        start = loaded.start(4)
        assert agent.remembers is bool(noise)
        assert bool(jax.tree.leaves(start)) is bool(noise)
        rows = walks().observations[:4]
        actions, after = loaded.act_with_memory(rows, start)
        assert np.allclose(actions, agent.act(rows, start)[0], atol=1e-5)
        if noise:
            assert not np.array_equal(loaded.act_with_memory(rows, after)[0], actions)
            with pytest.raises(WaypostError, match="a waypoint agent has memory"):
                loaded.act(rows)
        else:
            assert np.array_equal(loaded.act(rows), actions)


def test_noisy_agents_are_evaluated_side_by_side_as_alone() -> None:
    """Whatever else steps beside it: the noise belongs to the episode."""
    maze = task("t-maze")
    config = Config(**{**SMALL, "action_noise": 2.0, "waypoint": "displacement"})
    data = waypost.load("t-maze")
    spec = Waypoint.prepare(config, data.keep(np.arange(len(data)) < 2000))[1]
    subject = Waypoint(config, spec, 1)
    agents = [redrawn_executor(compiled.blank(subject).agent, seed) for seed in (1, 2)]
    both = rollouts(agents, maze, 3, seed=4, paths=True)
    alone = rollouts(agents[1:], maze, 3, seed=4, paths=True, environments=1)
    for one, other in zip(both.paths[1], alone.paths[0], strict=True):
        assert np.allclose(one, other, atol=1e-4)
    steps = [np.diff(path[:20], axis=0) for path in alone.paths[0]]
    assert not np.allclose(steps[0], steps[1])


def redrawn_executor(agent: WaypointAgent, seed: int) -> WaypointAgent:
    return eqx.tree_at(lambda agent: agent.executor.net, agent, redrawn(agent.executor.net, seed))  # type: ignore[union-attr]


# -- batches ---------------------------------------------------------------------------------------------------


def test_the_executors_aim_is_any_step_up_to_the_horizon_inside_the_episode() -> None:
    data = walk(rows=600, episode=12)
    config = Config(horizon=5, backup=1)
    arrays, spec = Waypoint.prepare(config, data)
    batch = drawn(Waypoint(config, spec, 1), arrays, np.tile(np.arange(600), 5))
    place = {tuple(row): i for i, row in enumerate(data.next_observations)}
    steps = np.array([place[tuple(row)] for row in np.asarray(batch["reached"])]) - np.tile(np.arange(600), 5) + 1
    most = np.tile(np.minimum(12 - np.arange(600) % 12, 5), 5)
    assert (steps >= 1).all()
    assert (steps <= most).all()
    shares = np.bincount(steps[most == 5], minlength=6)[1:] / (most == 5).sum()
    assert np.allclose(shares, 0.2, atol=0.03)
    aims = np.array([place[tuple(row)] for row in np.asarray(batch["goals"])]) - np.tile(np.arange(600), 5) + 1
    assert np.array_equal(aims, most)
    assert np.array_equal(batch["following"], np.tile(data.next_observations, (5, 1)))


def test_one_window_of_streamed_data_gives_the_same_bits() -> None:
    config = small(batch_size=16)
    arrays, spec = Waypoint.prepare(config, walk())
    subject = Waypoint(config, spec, 4)
    stream = Stream(walk(), lambda block: Waypoint.prepare(config, block)[0], arrays, 16, block_rows=24, window_rows=60)
    assert stream.windows == 1
    learners = [Learner(subject, source, [0]) for source in (arrays, stream)]
    for learner in learners:
        learner.advance(subject.stages[0], 4)
    assert same(learners[0].snapshot(), learners[1].snapshot())


# -- learning ----------------------------------------------------------------------------------------------------


def corridor(rows: int = 3000, episode: int = 60) -> Dataset:
    """To and fro along x from 0 to 10, the way kept for some steps, beside something that swings; the goal is at 10."""
    rng = np.random.default_rng(0)
    states, following, actions = np.zeros((rows, 2)), np.zeros((rows, 2)), np.zeros(rows)
    ends = np.zeros(rows, bool)
    x, since = 0.0, 0
    for row in range(rows):
        if not since:
            x = rng.uniform(0, 9)
        if since % 6 == 0:
            heading = rng.choice([-1.0, 1.0])
        actions[row] = np.clip(heading + rng.normal(0, 0.2), -1, 1)
        states[row] = x, np.sin(1.3 * row)
        x = max(x + 0.5 * actions[row], 0.0)
        following[row] = x, np.sin(1.3 * (row + 1))
        since += 1
        ends[row] = x >= 10
        if ends[row] or since == episode:
            since = 0
    rewards = np.where(ends, 0.0, -0.1)
    cut = np.zeros(rows, bool)
    cut[:-1] = states[1:, 0] != following[:-1, 0]
    return Dataset.from_arrays(states, following, actions, rewards, ends, cut & ~ends)


def reached(inverse_temperature: float) -> float:
    """How far it comes from the other end of the corridor."""
    hidden = {f"{part}_hidden": (32,) for part in EVERY}
    rates = {f"{part}_learning_rate": 1e-2 for part in EVERY}
    config = Config(horizon=6, inverse_temperature=inverse_temperature, batch_size=64, **hidden, **rates)
    columns, spec = Waypoint.prepare(config, corridor())
    assert len(spec.statistics["waypoint_mean"]) == 1
    learner = Learner(Waypoint(config, spec, 500), columns, [0])
    learner.advance(learner.algorithm.stages[0], 500)
    agent, x = learner.agents[0], 1.0
    for step in range(40):
        actions, _ = compiled.act(agent, np.array([[x, np.sin(1.3 * step)]], np.float32), ())
        x = max(x + 0.5 * float(actions[0, 0]), 0.0)
    return x


def test_it_goes_to_the_goal_where_the_data_go_both_ways_and_without_weights_it_does_not() -> None:
    assert reached(3.0) > 9.5
    assert reached(0.0) < 8
