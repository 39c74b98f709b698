"""One-step RL: each stage against its equations in NumPy, who learns from what, and where the policy begins."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import compiled
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
    numbers,
    same,
    shaken,
    walks,
    with_row,
)

from waypost.agents import ALGORITHMS
from waypost.agents.agent import Spec
from waypost.agents.onestep import Config, OneStep, State
from waypost.data.dataset import Dataset
from waypost.errors import WaypostError
from waypost.training import presets
from waypost.training.loop import Learner

SMALL: dict[str, Any] = {
    "hidden": (8,),
    "behaviour_steps": 4,
    "value_steps": 6,
    "samples": 4,
    "learning_rate": 0.02,
    "target_rate": 0.3,
    "discount": 0.9,
}
CHANGES: dict[str, Any] = {
    "operator": "reverse-kl",
    "inverse_temperature": 3.0,
    "advantages": "standardised",
    "observation_scaling": "robust",
    "weight_cap": 0.5,
    "samples": 2,
    "behaviour_steps": 5,
    "value_steps": 7,
    "discount": 0.5,
    "target_rate": 0.9,
    "learning_rate": 0.1,
    "hidden": (5,),
}
KEY = jax.random.key(7)
SEEDS = {"behaviour": 29, "policy": 26, "q": 115, "target": 140}
WHERE = {
    "behaviour": lambda state: state.behaviour,
    "policy": lambda state: state.agent.policy,
    "q": lambda state: state.agent.q,
    "target": lambda state: state.target,
}
KEPT = np.array([row for row in range(ROWS) if row not in (TIMEOUT, UNSEEN_TIMEOUT)])
"""The rows whose next action is known or does not matter."""
BEHAVIOUR, VALUE, POLICY = range(3)


def small(**settings: Any) -> Config:
    return Config(**{**SMALL, **settings})


def begin(config: Config, data: Dataset, steps: int = 3) -> tuple[OneStep, dict[str, jax.Array], State]:
    """The algorithm, all its rows as a batch, and a state as if it had learned before: no two networks are alike."""
    columns, spec = OneStep.prepare(config, data)
    algorithm = OneStep(config, spec, steps)
    state = compiled.blank(algorithm)
    for part, seed in SEEDS.items():
        state = shaken(state, WHERE[part], seed)
    return algorithm, {name: jnp.asarray(column) for name, column in columns.items()}, state


def update(
    algorithm: OneStep, state: State, batch: dict[str, jax.Array], stage: int
) -> tuple[State, dict[str, jax.Array]]:
    return compiled.update(algorithm, stage, state, batch, KEY)


def parts(state: State) -> dict[str, Any]:
    """Each network and each optimiser, which shows the size of a gradient too."""
    nets = {part: where(state) for part, where in WHERE.items()}
    return {**nets, **{f"{part}'s optimiser": optimiser for part, optimiser in state.optimisers.items()}}


def differing(one: State, other: State) -> set[str]:
    return oracles.differing(parts(one), parts(other))


# -- one update of each stage against NumPy -----------------------------------------------------------------


class Oracle:
    """The losses with all rows that are kept as the batch."""

    def __init__(self, config: Config, data: Dataset):
        self.config = config
        self.states, self.following = (
            np.asarray(x, np.float64)[KEPT] for x in (data.observations, data.next_observations)
        )
        scaled = 2 * (np.asarray(data.actions, np.float64) - LOW) / (HIGH - LOW) - 1
        self.actions = scaled[KEPT]
        # What follows a terminal counts for nothing, so any row will do there.
        self.next_actions = scaled[np.minimum(KEPT + 1, ROWS - 1)]
        self.rewards = np.asarray(data.rewards, np.float64)[KEPT]
        self.left = np.where(data.terminals, 0.0, config.discount)[KEPT]

    def gaussian(self, net: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation before the tanh."""
        mean, raw = np.split(oracles.mlp(net.net, self.states), 2, axis=1)
        return mean, np.exp(-5 + 5 * (np.tanh(raw) + 1) / 2)

    def likelihood(self, net: Any, inner: np.ndarray) -> np.ndarray:
        """log density of tanh(inner)."""
        mean, std = self.gaussian(net)
        density = -(((inner - mean) / std) ** 2) / 2 - np.log(std * np.sqrt(2 * np.pi))
        return np.sum(density - np.log(1 - np.tanh(inner) ** 2), axis=-1)

    def worth(self, net: Any, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        repeated = np.broadcast_to(states, (*actions.shape[:-1], states.shape[-1]))
        return oracles.mlp(net, np.concatenate([repeated, actions], axis=-1))[..., 0]

    def cloning_loss(self, net: Any, weights: np.ndarray | float = 1.0) -> float:
        inside = np.clip(self.actions, -(1 - 1e-4), 1 - 1e-4)
        return -(weights * self.likelihood(net, np.arctanh(inside))).mean()

    def q_loss(self, net: Any, target: Any) -> float:
        targets = self.rewards + self.left * self.worth(target, self.following, self.next_actions)
        return ((targets - self.worth(net, self.states, self.actions)) ** 2).mean()

    def weights(self, q: Any, behaviour: Any, noise: np.ndarray) -> np.ndarray:
        mean, std = self.gaussian(behaviour)
        baseline = self.worth(q, self.states, np.tanh(mean + std * noise)).mean(0)
        advantages = self.worth(q, self.states, self.actions) - baseline
        return np.minimum(np.exp(self.config.inverse_temperature * advantages), self.config.weight_cap)

    def divergence(self, net: Any, behaviour: Any, noise: np.ndarray) -> float:
        mean, std = self.gaussian(net)
        inner = mean + std * noise
        return (self.likelihood(net, inner) - self.likelihood(behaviour, inner)).mean()

    def constrained_loss(self, net: Any, q: Any, behaviour: Any, noise: np.ndarray) -> float:
        """One sample for Q, the others for the KL."""
        mean, std = self.gaussian(net)
        values = self.worth(q, self.states, np.tanh(mean + std * noise[0]))
        return (-self.config.inverse_temperature * values).mean() + self.divergence(net, behaviour, noise[1:])


class Taken(NamedTuple):
    """One update of a stage: the networks around it, its optimisers and its metrics."""

    oracle: Oracle
    before: dict[str, Any]
    after: dict[str, Any]
    optimisers: dict[str, Any]
    metrics: dict[str, float]

    def check(self, part: str, loss: Any) -> None:
        """Value, gradient and Adam's step of the stage's loss."""
        nets = self.before[part], self.after[part]
        check_step(loss, self.metrics[f"{part}_loss"], *nets, self.optimisers[part], 0.02, 2e-5, 5e-5)


def at_the_bounds() -> Dataset:
    """The walks with some actions at their bounds, where a tanh has no likelihood."""
    actions = np.array(walks().actions)
    actions[3], actions[12, 0] = LOW, HIGH[0]
    return walks(actions=actions)


@cache
def taken(stage: int, **settings: Any) -> Taken:
    config, data = small(**settings), at_the_bounds()
    algorithm, batch, state = begin(config, data)
    after, metrics = update(algorithm, state, batch, stage)
    before, now = ({part: numbers(where(each)) for part, where in WHERE.items()} for each in (state, after))
    scalars = {key: float(value) for key, value in metrics.items()}
    return Taken(Oracle(config, data), before, now, after.optimisers, scalars)


def noise(samples: int) -> np.ndarray:
    return np.asarray(jax.random.normal(KEY, (samples, len(KEPT), 2)), np.float64)


def test_the_behaviour_takes_an_adam_step_towards_the_datas_actions() -> None:
    one = taken(BEHAVIOUR)
    one.check("behaviour", one.oracle.cloning_loss)
    assert list(one.metrics) == ["behaviour_loss"]


def test_q_takes_an_adam_step_towards_the_target_of_the_action_that_was_taken_next() -> None:
    one = taken(VALUE)
    one.check("q", lambda net: one.oracle.q_loss(net, one.before["target"]))
    values = one.oracle.worth(one.before["q"], one.oracle.states, one.oracle.actions)
    assert np.isclose(one.metrics["value"], values.mean(), rtol=1e-5)


@pytest.mark.parametrize("settings", [{}, {"inverse_temperature": 0.3}, {"weight_cap": 1.2}], ids=str)
def test_the_policy_takes_an_adam_step_towards_actions_better_than_the_behaviours(settings: dict[str, Any]) -> None:
    one = taken(POLICY, **settings)
    weights = one.oracle.weights(one.before["q"], one.before["behaviour"], noise(4))
    one.check("policy", lambda net: one.oracle.cloning_loss(net, weights))
    assert np.isclose(one.metrics["weight"], weights.mean(), rtol=1e-4)
    assert 2 < (weights < 1).sum() < len(KEPT) - 2
    assert ((weights == 1.2).sum() > 2) == bool(settings.get("weight_cap"))


@pytest.mark.parametrize("settings", [{}, {"inverse_temperature": 0.3}], ids=str)
def test_the_policy_takes_an_adam_step_towards_a_larger_q_under_the_kl(settings: dict[str, Any]) -> None:
    one = taken(POLICY, operator="reverse-kl", **settings)
    q, behaviour = one.before["q"], one.before["behaviour"]
    one.check("policy", lambda net: one.oracle.constrained_loss(net, q, behaviour, noise(5)))
    expected = one.oracle.divergence(one.before["policy"], behaviour, noise(5)[1:])
    assert np.isclose(one.metrics["divergence"], expected, rtol=1e-4)
    assert expected > 0


def test_the_target_follows_q_at_every_second_update() -> None:
    algorithm, batch, state = begin(small(), walks())
    for step in range(1, 5):
        before = numbers(state.target)
        state, _ = update(algorithm, state, batch, VALUE)
        moved = zip(*map(jax.tree.leaves, (before, numbers(state.agent.q))), strict=True)
        expected = [old + (0.3 * (new - old) if step % 2 == 0 else 0.0) for old, new in moved]
        assert oracles.agree(jax.tree.leaves(numbers(state.target)), expected, 1e-6)
        assert same(state.target, before) == (step % 2 == 1)


def test_actions_near_the_bounds_have_one_likelihood_but_not_one_q() -> None:
    results = []
    for inside in (0.0, 1e-4, 1e-2):  # Of 5: scaled, 4e-5 and 4e-3.
        algorithm, batch, state = begin(small(), walks(actions=np.tile(HIGH - [0.5, inside], (ROWS, 1))))
        results.append([update(algorithm, state, batch, stage)[0] for stage in (BEHAVIOUR, VALUE)])
    exact, near, far = results
    assert differing(exact[BEHAVIOUR], near[BEHAVIOUR]) == set()
    assert differing(exact[BEHAVIOUR], far[BEHAVIOUR]) != set()
    assert differing(exact[VALUE], near[VALUE]) != set()


# -- who learns from what -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "stage", "learning"),
    [
        ({}, BEHAVIOUR, {"behaviour", "behaviour's optimiser", "policy"}),
        ({}, VALUE, {"q", "q's optimiser"}),
        ({}, POLICY, {"policy", "policy's optimiser"}),
        ({"operator": "reverse-kl"}, POLICY, {"policy", "policy's optimiser"}),
    ],
)
def test_a_stage_changes_its_own_part_and_nothing_else(
    settings: dict[str, Any], stage: int, learning: set[str]
) -> None:
    algorithm, batch, state = begin(small(**settings), walks())
    assert differing(state, update(algorithm, state, batch, stage)[0]) == learning


@pytest.mark.parametrize(
    ("settings", "stage", "learner", "read"),
    [
        ({}, BEHAVIOUR, "behaviour", {"behaviour"}),
        ({}, VALUE, "q", {"q", "target"}),
        ({}, POLICY, "policy", {"policy", "q", "behaviour"}),
        ({"operator": "reverse-kl"}, POLICY, "policy", {"policy", "q", "behaviour"}),
    ],
)
def test_a_part_learns_only_from_those_it_reads(
    settings: dict[str, Any], stage: int, learner: str, read: set[str]
) -> None:
    algorithm, batch, state = begin(small(**settings), walks())
    plain = parts(update(algorithm, state, batch, stage)[0])
    for part, where in WHERE.items():
        other = parts(update(algorithm, shaken(state, where), batch, stage)[0])
        assert (not same(plain[f"{learner}'s optimiser"], other[f"{learner}'s optimiser"])) == (part in read), part


@pytest.mark.parametrize("operator", ["exponential", "reverse-kl"])
def test_only_the_exponential_operator_reads_the_datas_actions(operator: str) -> None:
    algorithm, batch, state = begin(small(operator=operator), walks())
    other = {**batch, "actions": batch["actions"][::-1]}
    one, two = (update(algorithm, state, each, POLICY)[0] for each in (batch, other))
    assert bool(differing(one, two)) == (operator == "exponential")


@pytest.mark.parametrize("operator", ["exponential", "reverse-kl"])
def test_the_policys_step_depends_on_the_draw_and_the_others_do_not(operator: str) -> None:
    algorithm, batch, state = begin(small(operator=operator), walks())
    for number, stage in enumerate(algorithm.stages):
        one, two = (compiled.update(algorithm, stage, state, batch, jax.random.key(seed))[0] for seed in (1, 2))
        assert bool(differing(one, two)) == (number == POLICY)


# -- where the policy begins ----------------------------------------------------------------------------------


def test_the_policy_and_the_target_begin_as_copies() -> None:
    _, spec = OneStep.prepare(small(), walks())
    state = compiled.init(OneStep(small(), spec, 3))
    assert same(state.agent.policy, state.behaviour)
    assert same(state.target, state.agent.q)


# -- the rows ----------------------------------------------------------------------------------------------------


def test_the_next_action_is_that_of_the_next_row_of_the_same_episode() -> None:
    data = walks()
    columns, _ = OneStep.prepare(small(), data)
    assert np.array_equal(columns["observations"], data.observations[KEPT])
    going_on = ~data.terminals[KEPT]
    assert np.array_equal(columns["next_actions"][going_on], data.actions[KEPT[going_on] + 1])
    assert np.allclose(columns["discounts"], np.where(going_on, 0.9, 0.0))
    assert {TERMINAL, UNSEEN_TERMINAL} <= set(KEPT.tolist())


@cache
def usual(stage: int) -> State:
    algorithm, batch, state = begin(small(), walks())
    return update(algorithm, state, batch, stage)[0]


def changed_by(data: Dataset, stage: int) -> bool:
    """Whether the stage learns anything else from these data."""
    algorithm, batch, state = begin(small(), data)
    return bool(differing(usual(stage), update(algorithm, state, batch, stage)[0]))


@pytest.mark.parametrize("row", [TIMEOUT, UNSEEN_TIMEOUT])
def test_no_stage_learns_from_a_row_without_a_next_action(row: int) -> None:
    for stage in (BEHAVIOUR, VALUE, POLICY):
        assert not changed_by(with_row("rewards", row, 30.0), stage)
    # Its action is the next one of the row before, which Q alone reads.
    other = with_row("actions", row, (0.5, 4.5))
    assert [changed_by(other, stage) for stage in (BEHAVIOUR, VALUE, POLICY)] == [False, True, False]


@pytest.mark.parametrize("row", [TERMINAL, UNSEEN_TERMINAL])
def test_nothing_after_a_terminal_is_read_but_its_reward_is(row: int) -> None:
    assert not changed_by(with_row("next_observations", row, 50.0), VALUE)
    assert changed_by(with_row("rewards", row, 30.0), VALUE)
    algorithm, batch, state = begin(small(), walks())
    at = int(np.flatnonzero(row == KEPT)[0])
    other = {**batch, "next_actions": batch["next_actions"].at[at].set(-1.0)}
    assert not differing(*(update(algorithm, state, each, VALUE)[0] for each in (batch, other)))


def test_data_without_any_next_action_are_refused() -> None:
    data = walks(terminals=np.zeros(ROWS), timeouts=np.ones(ROWS))
    with pytest.raises(WaypostError, match="no row is followed by another"):
        OneStep.prepare(small(), data)


def test_locomotion_keeps_its_recorded_rewards() -> None:
    assert ALGORITHMS["onestep"].conventions.get("return-range") == "recorded"
    assert "goal" not in ALGORITHMS["onestep"].conventions


# -- acting ------------------------------------------------------------------------------------------------------


def test_it_acts_with_the_tanh_of_the_mean_in_the_datas_own_units() -> None:
    data = walks()
    agent = begin(small(), data)[2].agent
    seen = data.observations.astype(np.float64)
    mode = np.tanh(oracles.mlp(numbers(agent.policy.net), seen)[:, :2])
    actions, memory = compiled.act(agent, data.observations, ())
    assert memory == ()
    assert np.allclose(actions, mode * [1.5, 2.5] + [-0.5, 2.5], atol=1e-4)
    expected = oracles.mlp(numbers(agent.q), np.concatenate([seen, mode], axis=1))[:, 0]
    assert np.allclose(compiled.value(agent, data.observations), expected, atol=1e-4)


def test_actions_reach_their_bounds_and_never_leave_them() -> None:
    oracles.check_bounds(begin(small(), walks())[2].agent, lambda agent: agent.policy)


# -- settings and stages ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("operator", "greedy"),
        ("inverse_temperature", -1.0),
        ("weight_cap", 0.0),
        ("samples", 0),
        ("behaviour_steps", -1),
        ("value_steps", -1),
        ("discount", 0.0),
        ("target_rate", 0.0),
        ("learning_rate", -1.0),
        ("hidden", (-1,)),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(WaypostError, match=rf"^{name} must .+, got "):
        Config(**{name: value})


@pytest.mark.parametrize(("settings", "lengths"), [({}, [4, 6, 10]), ({"value_steps": 0}, [4, 10, 10])])
def test_stages(settings: dict[str, Any], lengths: list[int]) -> None:
    stages = OneStep(small(**settings), Spec(3, 2, (-1.0, -1.0), (1.0, 1.0)), 10).stages
    assert [stage.name for stage in stages] == ["behaviour", "value", "policy"]
    assert [stage.parts for stage in stages] == [{"behaviour"}, {"q"}, {"policy"}]
    assert [stage.steps for stage in stages] == lengths


def test_step_sizes_stay() -> None:
    assert np.allclose(oracles.step_sizes(OneStep(small(), Spec(3, 2), 3).optimiser, 5), 0.02, rtol=1e-4)


def test_presets_are_the_originals() -> None:
    names = [name for name in presets.presets("onestep") if name.startswith("paper/")]
    assert len(names) == 15
    for name in names:
        _, steps, settings = presets.find("onestep", Config, name, "")
        assert steps == 100_000
        assert Config(**settings) == Config()


# -- learning ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.learns
def test_it_prefers_what_the_behaviour_rarely_did_and_earned_more_by() -> None:
    """In every state four actions in five are about -0.5 and earn 0, the fifth is about 0.5 and earns 1."""
    random = np.random.default_rng(0)
    rare = np.arange(100) % 5 == 0
    data = Dataset.from_arrays(
        random.normal(size=(100, 1)),
        next_observations=np.zeros((100, 1)),
        actions=np.where(rare, 0.5, -0.5) + random.normal(0, 0.1, 100),
        rewards=rare,
        terminals=np.ones(100),
        action_low=np.full(1, -1.0),
        action_high=np.full(1, 1.0),
    )
    config = Config(
        inverse_temperature=10.0,
        hidden=(32,),
        behaviour_steps=200,
        value_steps=201,
        learning_rate=1e-2,
        batch_size=100,
    )
    columns, spec = OneStep.prepare(config, data)
    algorithm = OneStep(config, spec, 200)
    learner = Learner(algorithm, dict(columns), [100])
    behaviours = []
    for stage in algorithm.stages:
        # The policy begins its stage as what the behaviour became, with an optimiser that has seen nothing.
        state = learner.states[0]
        assert same(state.agent.policy, state.behaviour)
        assert same(state.optimisers["policy"], algorithm.optimiser.init(state.agent.policy))
        before = learner.snapshot()
        learner.advance(stage, stage.steps)
        behaviours.append(jax.tree.map(np.array, learner.states[0].behaviour))
    assert same(behaviours[0], behaviours[1])
    assert same(behaviours[0], behaviours[2])
    assert int(learner.states[0].q_updates) == 201
    other = Learner(OneStep(replace(config, operator="reverse-kl"), spec, 200), dict(columns), [100])
    other.restore(before)
    cloned = float(np.mean(other.agents[0].act(data.observations)[0]))
    other.advance(algorithm.stages[POLICY], 200)
    improved = [float(np.mean(each.agents[0].act(data.observations)[0])) for each in (learner, other)]
    assert cloned < 0.0
    assert min(improved) > 0.3
