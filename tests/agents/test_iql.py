"""IQL: one update against its equations in NumPy, who learns from what, and how it acts."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import compiled
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from oracles import (
    HIGH,
    LOW,
    ROWS,
    TERMINAL,
    TIMEOUT,
    UNSEEN_TERMINAL,
    UNSEEN_TIMEOUT,
    check_step,
    moved_by,
    numbers,
    same,
    shaken,
    walks,
    with_row,
)

from waypost.agents.agent import Spec
from waypost.agents.iql import IQL, Config, State
from waypost.data.dataset import Dataset
from waypost.errors import WaypostError
from waypost.training import presets
from waypost.training.loop import Learner

SMALL: dict[str, Any] = {
    "hidden": (8,),
    "value_learning_rate": 0.02,
    "policy_learning_rate": 0.01,
    "target_rate": 0.3,
    "discount": 0.9,
}
CHANGES: dict[str, Any] = {
    "tau": 0.9,
    "inverse_temperature": 10.0,
    "advantages": "standardised",
    "observation_scaling": "robust",
    "weight_cap": 0.5,
    "discount": 0.5,
    "target_rate": 0.9,
    "value_learning_rate": 0.1,
    "policy_learning_rate": 0.1,
    "hidden": (5,),
}
KEY = jax.random.key(7)
SEEDS = {"value": 121, "policy": 4, "q": 110, "target": 146}
"""What the networks are drawn from; with these either network of Q' is the smaller one somewhere."""
WHERE = {
    "value": lambda state: state.agent.value_net,
    "policy": lambda state: state.agent.policy,
    "q": lambda state: state.q,
    "target": lambda state: state.target,
}
ALL = set(WHERE)


def small(**settings: Any) -> Config:
    return Config(**{**SMALL, **settings})


def discrete() -> Dataset:
    """The walks with one of three actions at each step."""
    return walks(actions=np.random.default_rng(8).integers(0, 3, (ROWS, 1)), action_count=3)


def begin(config: Config, data: Dataset, steps: int = 3) -> tuple[IQL, dict[str, jax.Array], State]:
    """The algorithm, all its rows as a batch, and a state as if it had learned before: its target is not Q."""
    columns, spec = IQL.prepare(config, data)
    algorithm = IQL(config, spec, steps)
    state = compiled.blank(algorithm)
    for part, seed in SEEDS.items():
        state = shaken(state, WHERE[part], seed)
    return algorithm, {name: jnp.asarray(column) for name, column in columns.items()}, state


def update(algorithm: IQL, state: State, batch: dict[str, jax.Array]) -> tuple[State, dict[str, Any]]:
    return compiled.update(algorithm, 0, state, batch, KEY)


def parts(state: State) -> dict[str, Any]:
    """Each network with its optimiser, which shows the size of a gradient too."""
    return {part: (where(state), state.optimisers.get(part)) for part, where in WHERE.items()}


def differing(one: State, other: State) -> set[str]:
    return oracles.differing(parts(one), parts(other))


# -- one update against NumPy ----------------------------------------------------------------------------


class Oracle:
    """IQL's losses with all rows whose outcome is known as the batch."""

    def __init__(self, config: Config, data: Dataset):
        self.config, self.count = config, data.action_count
        known = data.next_valid | data.terminals
        self.states, self.following = (
            np.asarray(x, np.float64)[known] for x in (data.observations, data.next_observations)
        )
        self.rewards = np.asarray(data.rewards, np.float64)[known]
        self.left = np.where(data.terminals, 0.0, config.discount)[known]
        actions = np.asarray(data.actions, np.float64)[known]
        if self.count is None:
            self.actions = np.clip(2 * (actions - LOW) / (HIGH - LOW) - 1, -(1 - 1e-5), 1 - 1e-5)
        else:
            self.actions = np.array([[float(row[0] == i) for i in range(self.count)] for row in actions])
        self.pairs = np.concatenate([self.states, self.actions], axis=1)

    def value_loss(self, value: Any, target: Any) -> float:
        u = oracles.heads(target, self.pairs).min(0) - oracles.mlp(value, self.states)[:, 0]
        return (np.abs(self.config.tau - (u < 0)) * u**2).mean()

    def weights(self, value: Any, target: Any) -> np.ndarray:
        u = oracles.heads(target, self.pairs).min(0) - oracles.mlp(value, self.states)[:, 0]
        return np.minimum(np.exp(self.config.inverse_temperature * u), self.config.weight_cap)

    def likelihood(self, net: Any) -> np.ndarray:
        """log pi(a|s), one number per row."""
        if self.count is not None:
            logits = oracles.mlp(net.logits, self.states)
            chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
            return np.log((chances * self.actions).sum(1))
        std = np.exp(np.clip(net.log_std, -5, 2))
        error = self.actions - np.tanh(oracles.mlp(net.mean, self.states))
        return np.sum(-(error**2) / (2 * std**2) - np.log(std * np.sqrt(2 * np.pi)), axis=1)

    def policy_loss(self, net: Any, weights: np.ndarray) -> float:
        return -(weights * self.likelihood(net)).mean()

    def q_loss(self, net: Any, value: Any) -> float:
        targets = self.rewards + self.left * oracles.mlp(value, self.following)[:, 0]
        first, second = oracles.heads(net, self.pairs)
        return ((targets - first) ** 2 + (targets - second) ** 2).mean()


SETTINGS: dict[str, dict[str, Any]] = {
    "locomotion": {},
    "antmaze": {"tau": 0.9, "inverse_temperature": 10.0},
    "capped": {"weight_cap": 2.0},
    "discrete": {"weight_cap": 5.0},
}


class Taken(NamedTuple):
    """One update: the networks around it, its optimisers and its metrics."""

    oracle: Oracle
    before: dict[str, Any]
    after: dict[str, Any]
    optimisers: dict[str, Any]
    metrics: dict[str, float]

    def check(self, part: str, loss: Any, rate: float) -> None:
        """Value, gradient and Adam's step of one part's loss."""
        nets = self.before[part], self.after[part]
        check_step(loss, self.metrics[f"{part}_loss"], *nets, self.optimisers[part], rate, 1e-5, 2e-5)


@cache
def taken(name: str) -> Taken:
    config, data = small(**SETTINGS[name]), discrete() if name == "discrete" else walks()
    algorithm, batch, state = begin(config, data)
    after, metrics = update(algorithm, state, batch)
    before, now = ({part: numbers(where(each)) for part, where in WHERE.items()} for each in (state, after))
    scalars = {key: float(value) for key, value in metrics.items()}
    return Taken(Oracle(config, data), before, now, after.optimisers, scalars)


@pytest.fixture(params=SETTINGS)
def one(request: pytest.FixtureRequest) -> Taken:
    return taken(request.param)


def test_v_takes_an_adam_step_towards_the_expectile_of_the_target_q(one: Taken) -> None:
    one.check("value", lambda net: one.oracle.value_loss(net, one.before["target"]), 0.02)
    assert np.isclose(one.metrics["value"], oracles.mlp(one.before["value"], one.oracle.states).mean(), rtol=1e-5)


def test_the_policy_takes_an_adam_step_weighted_by_the_old_target_and_the_new_v(one: Taken) -> None:
    weights = one.oracle.weights(one.after["value"], one.before["target"])
    one.check("policy", lambda net: one.oracle.policy_loss(net, weights), 0.01)
    assert np.isclose(one.metrics["weight"], weights.mean(), rtol=1e-4)


def test_q_takes_an_adam_step_towards_the_new_v_of_the_next_state(one: Taken) -> None:
    one.check("q", lambda net: one.oracle.q_loss(net, one.after["value"]), 0.02)


def test_the_target_moves_by_its_rate_towards_the_new_q(one: Taken) -> None:
    assert moved_by(0.3, one.before["target"], one.after["q"], one.after["target"])


def test_the_batch_can_tell_a_right_update_from_a_wrong_one() -> None:
    """The comparisons above mean something: either Q' is the smaller one somewhere, and the order matters."""
    one = taken("locomotion")
    oracle, old, new, target = one.oracle, one.before["value"], one.after["value"], one.before["target"]
    assert 3 < oracles.heads(target, oracle.pairs).argmin(0).sum() < len(oracle.states) - 3
    weights = oracle.weights(new, target)
    for wrong in (oracle.weights(old, target), oracle.weights(new, one.after["target"])):
        assert not np.allclose(weights, wrong, rtol=0.02)
    assert not np.isclose(oracle.q_loss(one.before["q"], new), oracle.q_loss(one.before["q"], old), rtol=1e-3)
    assert 2 < (weights < 1).sum() < len(weights) - 2
    capped = taken("capped")
    most = capped.oracle.weights(capped.after["value"], capped.before["target"]) == 2.0
    assert 2 < most.sum() < len(most) - 2


def test_the_spread_never_falls_below_its_least() -> None:
    algorithm, batch, state = begin(small(), walks())
    losses = []
    for log_std in (-9.0, -5.0, -4.0):
        narrow = eqx.tree_at(lambda state: state.agent.policy.log_std, state, jnp.full(2, log_std))
        losses.append(float(update(algorithm, narrow, batch)[1]["policy_loss"]))
    assert losses[0] == losses[1]
    assert losses[2] < 0.5 * losses[1]


def test_actions_at_the_bounds_are_taken_a_hair_inside_after_scaling() -> None:
    results = []
    for inside in (0.0, 1e-5, 1e-3):  # Of 5: scaled, 4e-6 and 4e-4.
        actions = np.tile(HIGH - [0.5, inside], (ROWS, 1))
        algorithm, batch, state = begin(small(), walks(actions=actions))
        results.append(update(algorithm, state, batch)[0])
    assert differing(results[0], results[1]) == set()
    assert differing(results[0], results[2]) == ALL


def test_the_target_begins_as_a_copy_of_q_and_its_heads_differ() -> None:
    _, spec = IQL.prepare(small(), walks())
    state = compiled.init(IQL(small(), spec, 3))
    assert same(state.target, state.q)
    assert not same(*state.q.heads)


# -- who learns from what ---------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [walks, discrete], ids=["continuous", "discrete"])
@pytest.mark.parametrize(
    ("moved", "expected"),
    [("policy", {"policy"}), ("q", {"q", "target"}), ("value", ALL), ("target", ALL)],
)
def test_a_part_moves_only_those_that_read_it(data: Any, moved: str, expected: set[str]) -> None:
    algorithm, batch, state = begin(small(), data())
    other = shaken(state, WHERE[moved], seed=10)
    assert differing(update(algorithm, state, batch)[0], update(algorithm, other, batch)[0]) == expected


def changed_by(data: Dataset) -> set[str]:
    """The parts that come out of an update otherwise if the data are these."""
    results = []
    for rows in (walks(), data):
        algorithm, batch, state = begin(small(), rows)
        results.append(update(algorithm, state, batch)[0])
    return differing(*results)


def test_only_q_learns_from_rewards_and_next_states() -> None:
    assert changed_by(walks(rewards=np.linspace(-1, 1, ROWS))) == {"q", "target"}
    assert changed_by(with_row("next_observations", TIMEOUT, 3.0)) == {"q", "target"}
    assert changed_by(walks(actions=np.random.default_rng(5).uniform(LOW, HIGH, (ROWS, 2)))) == ALL


@pytest.mark.parametrize("row", [TERMINAL, UNSEEN_TERMINAL, UNSEEN_TIMEOUT])
def test_a_next_state_that_is_not_real_or_after_the_end_is_never_read(row: int) -> None:
    assert changed_by(with_row("next_observations", row, 50.0)) == set()


def test_only_a_row_without_a_known_outcome_is_left_out() -> None:
    columns, _ = IQL.prepare(small(), walks())
    assert len(columns["rewards"]) == ROWS - 1
    for column, value in (("rewards", 30.0), ("actions", (-2.0, 5.0))):
        assert changed_by(with_row(column, UNSEEN_TIMEOUT, value)) == set()
    assert changed_by(with_row("rewards", UNSEEN_TERMINAL, 30.0)) == {"q", "target"}


def test_discounts_are_zero_at_terminals_and_gamma_at_timeouts() -> None:
    columns, _ = IQL.prepare(small(), walks())
    expected = np.full(ROWS - 1, 0.9)
    expected[[TERMINAL, UNSEEN_TERMINAL]] = 0
    assert np.allclose(columns["discounts"], expected)


# -- acting ------------------------------------------------------------------------------------------------


def test_it_acts_with_the_tanh_of_the_mean_in_the_datas_own_units() -> None:
    data = walks()
    agent = begin(small(), data)[2].agent
    broad = eqx.tree_at(lambda agent: agent.policy.log_std, agent, jnp.full(2, 2.0))
    mean = np.tanh(oracles.mlp(numbers(agent.policy.mean), data.observations.astype(np.float64)))
    actions, memory = compiled.act(agent, data.observations, ())
    assert memory == ()
    assert np.allclose(actions, mean * [1.5, 2.5] + [-0.5, 2.5], atol=1e-4)
    assert np.array_equal(actions, compiled.act(broad, data.observations, ())[0])


def test_actions_reach_their_bounds_and_never_leave_them() -> None:
    oracles.check_bounds(begin(small(), walks())[2].agent, lambda agent: agent.policy)


def test_among_discrete_actions_it_takes_the_likeliest() -> None:
    agent = begin(small(), discrete())[2].agent
    seen = np.random.default_rng(2).normal(0, 5, (ROWS, 3)).astype(np.float32)
    logits = oracles.mlp(numbers(agent.policy.logits), seen.astype(np.float64))
    chosen = np.asarray(compiled.act(agent, seen, ())[0])
    assert np.array_equal(chosen, logits.argmax(1))
    assert len(set(chosen.tolist())) > 1


def test_the_agent_knows_v() -> None:
    data = walks()
    agent = begin(small(), data)[2].agent
    expected = oracles.mlp(numbers(agent.value_net), data.observations.astype(np.float64))[:, 0]
    assert np.allclose(compiled.value(agent, data.observations), expected, atol=1e-4)


# -- settings, stages, schedules ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tau", 0.0),
        ("tau", 1.0),
        ("inverse_temperature", -1.0),
        ("weight_cap", 0.0),
        ("discount", 0.0),
        ("target_rate", 1.1),
        ("policy_learning_rate", -1.0),
        ("hidden", (-1,)),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(WaypostError, match=rf"^{name} must .+, got "):
        Config(**{name: value})


def test_there_is_one_stage_as_long_as_the_run() -> None:
    stages = IQL(small(), Spec(3, 2), 10).stages
    assert [(stage.name, stage.steps, stage.parts) for stage in stages] == [("joint", 10, {"value", "policy", "q"})]


@pytest.mark.parametrize("part", ["value", "policy", "q"])
def test_only_the_policys_step_size_falls_along_a_cosine_to_zero_at_the_end_of_the_run(part: str) -> None:
    optimiser = IQL(small(), Spec(3, 2), 10).optimisers[part]
    sizes = oracles.step_sizes(optimiser, 11)
    falling = 0.01 * (1 + np.cos(np.pi * np.arange(11) / 10)) / 2
    assert np.allclose(sizes, falling if part == "policy" else 0.02, rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize(("name", "tau", "beta"), [("antmaze-large-play", 0.9, 10.0), ("hopper-medium", 0.7, 3.0)])
def test_presets_are_the_originals(name: str, tau: float, beta: float) -> None:
    found, steps, settings = presets.find("iql", Config, None, name)
    config = Config(**settings)
    assert (found, steps) == (f"paper/{name}", 1_000_000)
    assert (config.tau, config.inverse_temperature) == (tau, beta)
    assert replace(config, tau=0.7, inverse_temperature=3.0) == Config()
    assert len([each for each in presets.presets("iql") if each.startswith("paper/")]) == 15


# -- learning ------------------------------------------------------------------------------------------------


def test_it_follows_the_rare_way_to_the_reward() -> None:
    """A line of seven places; from each, one row in five goes right, where the reward is, and the others go left."""
    places = np.repeat(np.arange(7.0), 10)
    right = np.tile(np.arange(10) >= 8, 7)
    data = Dataset.from_arrays(
        places,
        next_observations=np.clip(places + np.where(right, 1, -1), 0, 7),
        actions=right[:, None],
        rewards=places + right >= 7,
        terminals=places + right >= 7,
        timeouts=np.ones(70),
        action_count=2,
    )
    config = Config(
        hidden=(32,),
        tau=0.9,
        inverse_temperature=50.0,
        target_rate=0.1,
        value_learning_rate=5e-3,
        policy_learning_rate=5e-3,
        discount=0.9,
        batch_size=70,
    )
    columns, spec = IQL.prepare(config, data)
    learner = Learner(IQL(config, spec, 1_000), columns, [100])
    learner.advance(learner.algorithm.stages[0], 1_000)
    agent = learner.agents[0]
    line = np.arange(7.0, dtype=np.float32)[:, None]
    assert np.asarray(agent.act(line)[0]).tolist() == [1] * 7
    assert (np.diff(agent.value(line)) > 0).all()
