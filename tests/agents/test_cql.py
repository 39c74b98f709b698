"""CQL: one update against NumPy, who learns from what, the Lagrange version, and the paper's table."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

import compiled
import constrained
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from constrained import KNOWN, LOCOMOTION, MAZES, Rows, both, normal, normal_density, preset, tanh_gaussian
from oracles import (
    HIGH,
    LOW,
    ROWS,
    adam_gradient,
    agree,
    check_bounds,
    check_step,
    differing,
    gradient,
    moved_by,
    numbers,
    same,
    shaken,
    walks,
)

from waypost.agents import ALGORITHMS
from waypost.agents.cql import CQL, Config, CQLAgent, State
from waypost.data.dataset import Dataset
from waypost.errors import WaypostError
from waypost.training.loop import Learner

SMALL: dict[str, Any] = {
    "penalty_weight": 2.0,
    "samples": 3,
    "acting_candidates": 5,
    "cloning_steps": 2,
    "critic_hidden": (8,),
    "policy_hidden": (8,),
    "critic_learning_rate": 0.02,
    "policy_learning_rate": 0.01,
    "target_rate": 0.3,
    "discount": 0.9,
}
CHANGES: dict[str, Any] = {
    "penalty_weight": 0.5,
    "lagrange_threshold": 1.0,
    "samples": 4,
    "acting_candidates": 0,
    "entropy_in_target": False,
    "entropy_per_dimension": 20.0,
    "cloning_steps": 0,
    "observation_scaling": True,
    "discount": 0.5,
    "target_rate": 0.9,
    "critic_learning_rate": 0.05,
    "policy_learning_rate": 0.05,
    "critic_hidden": (7,),
    "policy_hidden": (7,),
}
KEY = jax.random.key(7)
CLONING, FOLLOWING = 0, 1
"""The stages."""
WHERE = {
    "policy": lambda state: state.agent.policy,
    "temperature": lambda state: state.log_temperature,
    "critic": lambda state: state.agent.critic,
    "target": lambda state: state.target,
    "factor": lambda state: state.log_factor,
}
SEEDS = {"policy": 11, "temperature": 2, "critic": 21, "target": 16, "factor": 5}
"""With these each of Q and Q' has either network the smaller one somewhere."""
LAGRANGE: dict[str, Any] = {
    "lagrange_threshold": 1.5,
    "entropy_in_target": False,
    "entropy_per_dimension": 0.5,
    "observation_scaling": True,
}


def begin(data: Dataset | None = None, **settings: Any) -> tuple[Config, dict[str, jax.Array], State]:
    """The settings, all rows as a batch, and a state as if it had learned before: its target lags behind."""
    config = Config(**{**SMALL, **settings})
    prepared, spec = CQL.prepare(config, data or walks())
    state = compiled.blank(CQL(config, spec, 3))
    for part, seed in SEEDS.items():
        state = shaken(state, WHERE[part], seed)
    return config, constrained.columns(prepared), state


def update(
    config: Config, state: State, batch: dict[str, jax.Array], stage: int = FOLLOWING
) -> tuple[State, dict[str, Any]]:
    algorithm = CQL(config, CQL.prepare(config, walks())[1], 3)
    return compiled.update(algorithm, stage, state, batch, KEY)


parts = partial(constrained.parts, WHERE)


def changed_by(part: str, stage: int = FOLLOWING, **settings: Any) -> set[str]:
    """What is different after an update because one part was different before it."""
    config, batch, state = begin(**settings)
    return differing(*(parts(update(config, each, batch, stage)[0]) for each in (state, shaken(state, WHERE[part]))))


# -- one update against NumPy ----------------------------------------------------------------------------


def drawn(net: Any, states: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Actions of the policy for given noise, and the logarithm of the density of each."""
    mean, std = tanh_gaussian(net, states, -5.0, 2.0, mapped=False)
    inner = mean + std * noise
    return np.tanh(inner), normal_density(inner, mean, std) - np.log(1 - np.tanh(inner) ** 2).sum(axis=-1)


class Oracle:
    """CQL's losses around one update, with the draws of its key as given."""

    def __init__(self, before: State, after: State, table: Rows, config: Config):
        self.before, self.after = (
            {name: numbers(where(each)) for name, where in WHERE.items()} for each in (before, after)
        )
        self.table, self.config = table, config
        first, second = jax.random.split(KEY)
        self.noise = normal(first, (KNOWN, 2))
        uniform, gaussian = jax.random.split(second)
        n = config.samples
        self.uniform = np.asarray(jax.random.uniform(uniform, (n, KNOWN, 2), minval=-1.0, maxval=1.0), np.float64)
        self.noises = normal(gaussian, (n + 1, 2, KNOWN, 2))

    def entropy_gap(self) -> float:
        """Of -log temperature E [log pi + target entropy], the slope."""
        likelihood = drawn(self.before["policy"], self.table.states, self.noise)[1]
        return -(likelihood + self.config.entropy_per_dimension * 2).mean()

    def policy_loss(self, net: Any, cloning: bool) -> float:
        """With the new temperature and the old Q."""
        actions, likelihood = drawn(net, self.table.states, self.noise)
        gain = both(self.before["critic"], self.table.states, actions).min(axis=0)
        if cloning:
            mean, std = tanh_gaussian(net, self.table.states, -5.0, 2.0, mapped=False)
            inner = np.arctanh(self.table.actions)
            stretch = np.log(1 - self.table.actions**2).sum(axis=-1)
            gain = normal_density(inner, mean, std) - stretch
        return (np.exp(self.after["temperature"]) * likelihood - gain).mean()

    @cached_property
    def targets(self) -> np.ndarray:
        """With the old policy and the new temperature."""
        actions, likelihood = drawn(self.before["policy"], self.table.following, self.noises[0, 1])
        values = both(self.before["target"], self.table.following, actions).min(axis=0)
        if self.config.entropy_in_target:
            values = values - np.exp(self.after["temperature"]) * likelihood
        return self.table.targets(values)

    @cached_property
    def proposals(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The actions of each distribution and their log densities."""
        policy, n = self.before["policy"], self.config.samples
        here = drawn(policy, self.table.states, self.noises[1:, 0])
        there = drawn(policy, self.table.following, self.noises[1:, 1])
        return [(self.uniform, np.full((n, KNOWN), np.log(0.25))), here, there]

    def scores(self, net: Any, states: np.ndarray | None = None) -> list[np.ndarray]:
        """Q less the log density, of each distribution; (2, samples, rows)."""
        states = self.table.states if states is None else states
        return [both(net, states, actions) - density for actions, density in self.proposals]

    def gaps(self, net: Any) -> np.ndarray:
        """Of each network."""
        scores = np.concatenate(self.scores(net), axis=1)
        assert scores.shape == (2, 3 * self.config.samples, KNOWN)
        taken = both(net, self.table.states, self.table.actions)
        return (np.log(np.exp(scores).sum(axis=1)) - taken).mean(axis=-1)

    def critic_loss(self, net: Any) -> float:
        errors = (both(net, self.table.states, self.table.actions) - self.targets) ** 2
        penalty = self.config.penalty_weight * self.gaps(net)
        if self.config.lagrange_threshold:
            penalty = np.exp(self.before["factor"]) * (penalty - self.config.lagrange_threshold)
        return (errors.mean(axis=-1) + penalty).sum()


def around(stage: int = FOLLOWING, **settings: Any) -> tuple[Config, State, State, dict[str, Any], Oracle]:
    config, batch, state = begin(**settings)
    after, metrics = update(config, state, batch, stage)
    table = constrained.rows(walks(), 0.9, config.observation_scaling)
    return config, state, after, metrics, Oracle(state, after, table, config)


@pytest.mark.parametrize(
    ("stage", "settings"),
    [
        (FOLLOWING, {}),
        (FOLLOWING, LAGRANGE),
        (CLONING, {}),
    ],
    ids=["table", "lagrange", "cloning"],
)
def test_every_part_takes_an_adam_step_down_its_loss(stage: int, settings: dict[str, Any]) -> None:
    config, state, after, metrics, oracle = around(stage, **settings)
    policies, critics = (state.agent.policy, after.agent.policy), (state.agent.critic, after.agent.critic)

    def policy_loss(net: Any) -> float:
        return oracle.policy_loss(net, cloning=stage == CLONING)

    check_step(policy_loss, metrics["policy_loss"], *policies, after.optimisers["policy"], 0.01, 5e-5)
    check_step(oracle.critic_loss, metrics["critic_loss"], *critics, after.optimisers["critic"], 0.02, 5e-5)
    assert np.allclose(adam_gradient(after.optimisers["temperature"]), oracle.entropy_gap(), rtol=1e-4)
    step = float(after.log_temperature - state.log_temperature)
    assert np.isclose(step, -0.01 * np.sign(oracle.entropy_gap()), rtol=1e-3)
    assert moved_by(0.3, state.target, after.agent.critic, after.target)
    assert same((state.agent.scaling, state.agent.actions), (after.agent.scaling, after.agent.actions))
    old = oracle.before["critic"]
    penalty = config.penalty_weight * oracle.gaps(old).mean()
    reported = {
        "value": both(old, oracle.table.states, oracle.table.actions).mean(),
        "penalty": penalty,
        "entropy": oracle.entropy_gap() + 2 * config.entropy_per_dimension,
        "temperature": np.exp(oracle.after["temperature"]),
    }
    if config.lagrange_threshold:
        slope = np.exp(oracle.before["factor"]) * (penalty - config.lagrange_threshold)
        assert np.allclose(adam_gradient(after.optimisers["factor"]), -slope, rtol=1e-4)
        reported["factor"] = np.exp(oracle.before["factor"] + 0.02 * np.sign(slope))
    assert set(metrics) == {"policy_loss", "critic_loss", *reported}
    for name, value in reported.items():
        assert np.isclose(metrics[name], value, rtol=1e-4), name


def test_no_gradient_reaches_the_policy_through_the_temperature() -> None:
    """Adam's first step has one size whatever the gradient's is, so the temperature's has made a thousand before."""
    config, batch, state = begin()
    adam, *rest = state.optimisers["temperature"]
    older = (adam._replace(count=jnp.asarray(1000, jnp.int32), nu=jnp.asarray(1e-4)), *rest)
    state = state._replace(optimisers={**state.optimisers, "temperature": older})
    after, _ = update(config, state, batch)
    oracle = Oracle(state, after, constrained.rows(walks(), 0.9), config)
    assert abs(after.log_temperature - state.log_temperature) > 0.02
    slopes = gradient(lambda net: oracle.policy_loss(net, cloning=False), state.agent.policy)
    assert agree(adam_gradient(after.optimisers["policy"]), slopes, 1e-4)


def test_the_batch_can_tell_a_right_update_from_a_wrong_one() -> None:
    """Either network is the smaller one somewhere, and the old parts are far from the new."""
    _, _, _, _, oracle = around()
    table, policy, q = oracle.table, oracle.before["policy"], oracle.before["critic"]
    for net, states, noise in (
        (q, table.states, oracle.noise),
        (oracle.before["target"], table.following, oracle.noises[0, 1]),
    ):
        values = both(net, states, drawn(policy, states, noise)[0])
        assert 0.1 < (values[0] < values[1]).mean() < 0.9
    old, new = (drawn(oracle.__dict__[when]["policy"], table.states, oracle.noise)[0] for when in ("before", "after"))
    assert not np.allclose(old, new, atol=0.01)
    values = both(oracle.after["critic"], table.states, old), both(q, table.states, old)
    assert not np.allclose(*values, rtol=0.01)


def test_the_penalty_is_of_all_proposals_in_s_less_their_densities() -> None:
    """The ways to get it wrong that public code knows give another number."""
    _, _, _, metrics, oracle = around()
    net, table = oracle.before["critic"], oracle.table
    taken = both(net, table.states, table.actions)
    right = oracle.scores(net)
    wrong = {
        "a mean for each distribution, then three values": [score.mean(axis=1, keepdims=True) for score in right],
        "one action of each": [score[:, :1] for score in right],
        "no densities": [both(net, table.states, actions) for actions, _ in oracle.proposals],
        "the actions of s' scored in s'": [*right[:2], oracle.scores(net, table.following)[2]],
        "the data's action among them": [*right, taken[:, None]],
    }
    for name, scores in {"right": right, **wrong}.items():
        gap = (np.log(np.exp(np.concatenate(scores, axis=1)).sum(axis=1)) - taken).mean()
        assert bool(np.isclose(2.0 * gap, metrics["penalty"], rtol=1e-4)) is (name == "right"), name


def test_equal_values_cost_the_logarithm_of_the_number_of_proposals_times_the_room() -> None:
    """With Q = 0 and pi all but uniform, each of the 9 terms is about 4, the room in two dimensions."""
    config, batch, state = begin()
    state = eqx.tree_at(WHERE["critic"], state, jax.tree.map(jnp.zeros_like, state.agent.critic))
    # tanh of N(0, 0.85^2) is nearly uniform on (-1, 1).
    still = jax.tree.map(jnp.zeros_like, state.agent.policy)
    broad = eqx.tree_at(lambda net: net.net.layers[-1].bias, still, jnp.array([0, 0, np.log(0.85), np.log(0.85)]))
    state = eqx.tree_at(WHERE["policy"], state, broad)
    assert np.isclose(update(config, state, batch)[1]["penalty"], 2.0 * np.log(9 * 4.0), rtol=0.03)


# -- who learns from what ----------------------------------------------------------------------------------

Q = {"critic", "target"}


@pytest.mark.parametrize(
    ("part", "stage", "settings", "expected"),
    [
        ("policy", FOLLOWING, {}, {"policy", "temperature", *Q}),
        ("critic", FOLLOWING, {}, {"policy", *Q}),
        ("critic", CLONING, {}, Q),
        ("target", FOLLOWING, {}, Q),
        ("temperature", FOLLOWING, {}, {"policy", "temperature", *Q}),
        ("temperature", FOLLOWING, LAGRANGE, {"policy", "temperature"}),
        ("factor", FOLLOWING, {}, {"factor"}),
        ("factor", FOLLOWING, LAGRANGE, {"factor", *Q}),
        ("critic", FOLLOWING, LAGRANGE, {"factor", "policy", *Q}),
    ],
)
def test_a_part_moves_just_those_that_read_it(
    part: str, stage: int, settings: dict[str, Any], expected: set[str]
) -> None:
    assert changed_by(part, stage, **settings) == expected


OTHER_ACTIONS = np.random.default_rng(5).uniform(LOW, HIGH, (ROWS, 2))


@pytest.mark.parametrize(
    ("change", "stage", "expected"),
    [
        ({"actions": OTHER_ACTIONS}, FOLLOWING, {"critic"}),
        ({"actions": OTHER_ACTIONS}, CLONING, {"critic", "policy"}),
        ({"rewards": np.arange(ROWS)}, FOLLOWING, {"critic"}),
        ({"terminals": np.arange(ROWS) == ROWS - 5}, FOLLOWING, {"critic"}),
    ],
    ids=["actions", "actions, cloning", "rewards", "terminals"],
)
def test_the_policy_reads_actions_only_to_clone_them(change: dict[str, Any], stage: int, expected: set[str]) -> None:
    config, batch, state = begin()
    results = (update(config, state, each, stage)[0] for each in (batch, begin(walks(**change))[1]))
    # The target follows Q, whose first step may be the same where its gradient is not.
    assert differing(*map(parts, results)) - {"target"} == expected


def test_the_penalty_leaves_the_policy_alone() -> None:
    """The proposals are pi's, but what they cost does not reach it."""
    results = []
    for weight in (0.0, 2.0):
        config, batch, state = begin(penalty_weight=weight)
        results.append(parts(update(config, state, batch)[0]))
    assert differing(*results) == Q


def test_a_timeout_bootstraps_and_a_terminal_does_not() -> None:
    """s' is also where proposals come from, so the terminal's may change the penalty; it must not change the target."""
    config, batch, state = begin(penalty_weight=0.0)
    constrained.check_bootstrap(lambda rows: parts(update(config, state, rows)[0]), batch)


def test_it_begins_with_a_copy_as_target_and_both_multipliers_at_one() -> None:
    _, spec = CQL.prepare(Config(**SMALL), walks())
    state = compiled.init(CQL(Config(**SMALL), spec, 3))
    assert same(state.target, state.agent.critic)
    assert float(state.log_temperature) == float(state.log_factor) == 0
    assert state.agent.policy.log_std_range == (-5.0, 2.0)


@pytest.mark.parametrize(
    ("cloning", "steps", "expected"),
    [
        (2, 5, [("critic and cloning", 2), ("critic and policy", 3)]),
        (0, 5, [("critic and policy", 5)]),
        (40, 5, [("critic and cloning", 5)]),
    ],
)
def test_cloning_comes_first_and_counts_among_the_steps(
    cloning: int, steps: int, expected: list[tuple[str, int]]
) -> None:
    config = Config(**{**SMALL, "cloning_steps": cloning})
    stages = CQL(config, CQL.prepare(config, walks())[1], steps).stages
    assert [(stage.name, stage.steps) for stage in stages] == expected


def steep(head: Any) -> Any:
    """Q = 50 (a_1 + 1): actions at the upper bound are far above all others."""
    first, last = (np.zeros(layer.weight.shape, np.float32) for layer in head.layers)
    (first if head.layers[0].transposed else first.T)[0, 3] = 1.0
    last[0, 0] = 50.0
    leaves = lambda net: [getattr(layer, name) for layer in net.layers for name in ("weight", "bias")]
    return eqx.tree_at(leaves, head, [*map(jnp.asarray, (first, np.eye(8)[0], last, np.zeros(1)))])


def test_the_factor_grows_while_the_penalty_exceeds_its_threshold_and_falls_below_it() -> None:
    config, batch, state = begin(**LAGRANGE)
    sure = {**batch, "actions": jnp.broadcast_to(jnp.asarray(HIGH, jnp.float32), (KNOWN, 2))}
    low = eqx.tree_at(lambda s: s.agent.critic.heads, state, tuple(map(steep, state.agent.critic.heads)))
    for before, rows, grows in ((state, batch, True), (low, sure, False)):
        after, metrics = update(config, before, rows)
        assert bool(metrics["penalty"] > 1.5) is bool(after.log_factor > before.log_factor) is grows
        largest = update(config, before._replace(log_factor=jnp.log(1e6)), rows)[1]["factor"]
        assert bool(np.isclose(largest, 1e6)) is grows


# -- acting ----------------------------------------------------------------------------------------------


def acting(**settings: Any) -> CQLAgent:
    return begin(**settings)[2].agent


@pytest.mark.parametrize("count", [5, 0])
def test_it_acts_with_the_best_of_its_candidates_or_with_the_mean(count: int) -> None:
    agent, seen = acting(acting_candidates=count), np.asarray(walks().observations, np.float64)
    noise = np.zeros((1, ROWS, 2))
    if count:
        noise = np.broadcast_to(normal(jax.random.key(0), (count, 1, 2)), (count, ROWS, 2))
    candidates, _ = drawn(numbers(agent.policy), seen, noise)
    values = both(numbers(agent.critic), seen, candidates).min(axis=0)
    best = values.argmax(axis=0)
    assert len(set(best)) == (1 if count == 0 else 5)
    actions, memory = compiled.act(agent, walks().observations, ())
    assert memory == ()
    assert np.allclose(actions, candidates[best, np.arange(ROWS)] * [1.5, 2.5] + [-0.5, 2.5], atol=1e-4)
    assert np.allclose(compiled.value(agent, walks().observations), values.max(axis=0), atol=1e-4)


def test_it_acts_alike_every_time_and_in_every_company() -> None:
    agent, states = acting(observation_scaling=True), walks().observations
    constrained.check_company(agent, 1e-5)
    whole, alone = (compiled.act(agent, each, ())[0] for each in (states, states[5:6]))
    assert np.allclose(whole[5:6], alone, atol=1e-5)


def test_actions_never_leave_their_bounds_and_reach_both() -> None:
    check_bounds(acting(), lambda agent: agent.policy)


# -- settings --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOCOMOTION)
def test_the_papers_table_row_by_row(name: str) -> None:
    steps, config = preset("cql", Config, f"paper/{name}")
    assert steps == 1_000_000
    assert config.critic_hidden == (256, 256, 256)
    assert config.policy_hidden == (256, 256, 256)
    assert config.critic_learning_rate == 3e-4
    assert config.policy_learning_rate == 1e-4
    assert config.batch_size == 256
    assert config.discount == 0.99
    assert config.target_rate == 5e-3
    assert config.entropy_per_dimension == -1.0
    assert config.entropy_in_target
    assert config.lagrange_threshold == 0.0
    assert config.acting_candidates == 10
    assert config.samples == 10
    assert config.penalty_weight == 10.0
    # Not in the table, but in the authors' code.
    assert config.cloning_steps == 40_000
    assert not config.observation_scaling
    assert config == Config()


@pytest.mark.parametrize("name", MAZES)
def test_antmaze_is_the_authors_own_lagrange_version(name: str) -> None:
    antmaze = {"lagrange_threshold": 5.0, "penalty_weight": 5.0, "entropy_in_target": False, "acting_candidates": 0}
    assert preset("cql", Config, f"paper/{name}") == (1_000_000, Config(**antmaze))


def test_there_is_a_preset_for_every_data_set_of_the_paper_and_the_t_maze() -> None:
    constrained.check_presets("cql", Config)


def test_rewards_are_the_originals() -> None:
    assert ALGORITHMS["cql"].conventions == {"return-range": "recorded", "goal": "centred-goal"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("penalty_weight", -1.0),
        ("lagrange_threshold", -1.0),
        ("samples", 0),
        ("acting_candidates", -1),
        ("cloning_steps", -1),
        ("discount", 0.0),
        ("target_rate", 1.5),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(WaypostError, match=rf"^{name} must .+, got "):
        Config(**{name: value})


# -- learning --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.learns
def test_it_does_better_than_the_data_and_does_not_trust_what_they_never_did() -> None:
    """One step, rewards rising with the action, data in the lower half of its range: it stops at their edge."""
    random = np.random.default_rng(0)
    actions = random.uniform(-1, 0, 300)
    data = Dataset.from_arrays(
        random.uniform(-1, 1, 300),
        actions=actions,
        rewards=2 * actions,
        terminals=np.ones(300),
        action_low=-np.ones(1),
        action_high=np.ones(1),
    )
    small: dict[str, Any] = {"critic_hidden": (32, 32), "policy_hidden": (32,), "batch_size": 32, "cloning_steps": 0}
    config = Config(**small, critic_learning_rate=3e-3, policy_learning_rate=3e-3, penalty_weight=1.0)
    columns, spec = CQL.prepare(config, data)
    learner = Learner(CQL(config, spec, 600), columns, [0])
    learner.advance(learner.algorithm.stages[0], 600)
    chosen = np.asarray(learner.agents[0].act(jnp.linspace(-1, 1, 9)[:, None])[0])
    assert (chosen > -0.4).all()
    assert (chosen < 0.3).all()
