"""CQL for discrete actions: one update against NumPy, what it learns from, and that it joins what it saw in parts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import compiled
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from oracles import ROWS, TERMINAL, TIMEOUT, check_step, moved_by, numbers, redrawn, same, walks

from waypost.agents import ALGORITHMS
from waypost.agents.cql_discrete import Config, DiscreteCQL, State
from waypost.data.dataset import Dataset
from waypost.errors import WaypostError
from waypost.training import presets
from waypost.training.loop import Learner

SMALL: dict[str, Any] = {
    "penalty_weight": 0.7,
    "hidden": (8,),
    "learning_rate": 0.01,
    "target_rate": 0.3,
    "discount": 0.9,
}
CHANGES: dict[str, Any] = {
    "penalty_weight": 3.0,
    "observation_scaling": True,
    "discount": 0.5,
    "target_rate": 0.9,
    "learning_rate": 0.05,
    "hidden": (7,),
}
KEY = jax.random.key(7)
COUNT = 4
CHOSEN = np.random.default_rng(6).integers(0, COUNT, (ROWS, 1))


def discrete(**changes: np.ndarray) -> Dataset:
    """The random walks with one of four actions in each row."""
    plain = walks()
    columns: dict[str, Any] = {
        "observations": plain.observations,
        "next_observations": plain.next_observations,
        "actions": CHOSEN,
        "rewards": plain.rewards,
        "terminals": plain.terminals,
        "timeouts": plain.ends & ~plain.terminals,
        "next_valid": plain.next_valid,
    }
    return Dataset.from_arrays(**columns | changes, action_count=COUNT)


def begin(data: Dataset | None = None, **settings: Any) -> tuple[DiscreteCQL, dict[str, jax.Array], State]:
    """The algorithm, all rows as a batch, and a state as if it had learned before: its target lags behind."""
    config = Config(**{**SMALL, **settings})
    prepared, spec = DiscreteCQL.prepare(config, data or discrete())
    algorithm = DiscreteCQL(config, spec, 3)
    state = compiled.blank(algorithm)
    state = eqx.tree_at(lambda s: s.agent.critic, state, redrawn(state.agent.critic, 4))
    state = state._replace(target=redrawn(state.target, 16))
    return algorithm, {name: jnp.asarray(column) for name, column in prepared.items()}, state


def update(algorithm: DiscreteCQL, state: State, batch: dict[str, jax.Array]) -> tuple[State, dict[str, Any]]:
    return compiled.update(algorithm, 0, state, batch, KEY)


# -- one update against NumPy ----------------------------------------------------------------------------


class Oracle:
    """The loss with the rows whose next state is known or does not matter."""

    def __init__(self, data: Dataset, scaled: bool, weight: float):
        kept = data.next_valid | data.terminals
        seen = np.asarray(data.observations, np.float64)
        shift, width = (seen.mean(0), seen.std(0)) if scaled else (0.0, 1.0)
        self.states = ((seen - shift) / width)[kept]
        self.following = ((np.asarray(data.next_observations, np.float64) - shift) / width)[kept]
        self.rewards = np.asarray(data.rewards, np.float64)[kept]
        self.discounts = np.where(data.terminals, 0.0, 0.9)[kept]
        self.taken = CHOSEN[kept, 0]
        self.rows, self.weight = np.arange(kept.sum()), weight

    def targets(self, net: Any, target: Any) -> np.ndarray:
        best = oracles.mlp(net, self.following).argmax(axis=1)
        return self.rewards + self.discounts * oracles.mlp(target, self.following)[self.rows, best]

    def penalty(self, net: Any) -> float:
        values = oracles.mlp(net, self.states)
        return (np.log(np.exp(values).sum(axis=1)) - values[self.rows, self.taken]).mean()

    def loss(self, net: Any, targets: np.ndarray) -> float:
        taken = oracles.mlp(net, self.states)[self.rows, self.taken]
        return 0.5 * ((targets - taken) ** 2).mean() + self.weight * self.penalty(net)


@pytest.mark.parametrize("scaled", [False, True])
def test_q_takes_an_adam_step_down_its_loss_and_the_target_follows(scaled: bool) -> None:
    algorithm, batch, state = begin(observation_scaling=scaled)
    after, metrics = update(algorithm, state, batch)
    oracle = Oracle(discrete(), scaled, 0.7)
    before, target = numbers(state.agent.critic), numbers(state.target)
    targets = oracle.targets(before, target)
    nets = state.agent.critic, after.agent.critic
    check_step(lambda net: oracle.loss(net, targets), metrics["critic_loss"], *nets, after.optimiser, 0.01, 1e-5)
    assert np.isclose(metrics["penalty"], oracle.penalty(before), rtol=1e-5)
    taken = oracles.mlp(before, oracle.states)[oracle.rows, oracle.taken]
    assert np.isclose(metrics["value"], taken.mean(), rtol=1e-4)
    assert moved_by(0.3, state.target, after.agent.critic, after.target)
    assert same((state.agent.scaling, state.agent.actions), (after.agent.scaling, after.agent.actions))


def test_the_batch_can_tell_a_right_update_from_a_wrong_one() -> None:
    """Q and Q' choose differently, and every action is taken and is the best one somewhere."""
    _, _, state = begin()
    oracle = Oracle(discrete(), False, 0.7)
    ours, theirs = (
        oracles.mlp(numbers(net), oracle.following).argmax(axis=1) for net in (state.agent.critic, state.target)
    )
    assert (ours != theirs).mean() > 0.2
    assert len(set(ours)) > 2
    assert set(oracle.taken) == set(range(COUNT))


# -- what it learns from -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "matters"),
    [
        ({"actions": (CHOSEN + 1) % COUNT}, True),
        ({"rewards": np.arange(ROWS)}, True),
        ({"terminals": np.arange(ROWS) == ROWS - 5}, True),
        ({}, False),
    ],
    ids=["actions", "rewards", "terminals", "nothing"],
)
def test_actions_rewards_and_ends_matter(change: dict[str, Any], matters: bool) -> None:
    algorithm, batch, state = begin()
    states = [update(algorithm, state, each)[0] for each in (batch, begin(discrete(**change))[1])]
    assert same(*states) is not matters


def test_both_networks_matter_to_q_and_only_q_learns() -> None:
    algorithm, batch, state = begin()
    plain = update(algorithm, state, batch)[0]
    shaken = update(algorithm, state._replace(target=redrawn(state.target, 9)), batch)[0]
    assert not same(plain.optimiser, shaken.optimiser)
    # The choice of a' has no slope: Q' gets no gradient, and Q none through s'.
    still, _, _ = begin(target_rate=1e-12)
    assert same(update(still, state, batch)[0].target, state.target)


def test_a_timeout_bootstraps_and_a_terminal_does_not() -> None:
    algorithm, batch, state = begin()
    assert len(batch["rewards"]) == ROWS - 1
    for row, matters in ((TERMINAL, False), (TIMEOUT, True)):
        following = batch["next_observations"].at[row].add(3.0)
        states = [update(algorithm, state, each)[0] for each in (batch, {**batch, "next_observations": following})]
        assert same(*states) is not matters


def test_the_target_begins_as_a_copy() -> None:
    algorithm, _, _ = begin()
    state = compiled.init(algorithm, jax.random.key(3))
    assert same(state.target, state.agent.critic)


# -- acting ----------------------------------------------------------------------------------------------


def test_it_acts_with_the_best_action_and_values_it() -> None:
    agent, seen = begin(observation_scaling=True)[2].agent, np.asarray(walks().observations, np.float64)
    values = oracles.mlp(numbers(agent.critic), (seen - seen.mean(0)) / seen.std(0))
    actions, memory = compiled.act(agent, walks().observations, ())
    assert memory == ()
    assert np.array_equal(actions, values.argmax(axis=1))
    assert len(set(np.asarray(actions).tolist())) > 2
    assert np.allclose(compiled.value(agent, walks().observations), values.max(axis=1), atol=1e-4)


# -- settings --------------------------------------------------------------------------------------------


def test_it_is_for_discrete_actions_alone() -> None:
    assert ALGORITHMS["cql-discrete"].discrete
    assert not ALGORITHMS["cql-discrete"].continuous
    assert ALGORITHMS["cql-discrete"].conventions == {"return-range": "recorded"}


def test_the_authors_weights_are_presets() -> None:
    found = {name: presets.find("cql-discrete", Config, name, "")[2] for name in presets.presets("cql-discrete")}
    assert {name: Config(**settings).penalty_weight for name, settings in found.items()} == {
        "many-data": 1.0,
        "few-data": 4.0,
    }
    assert Config().penalty_weight == 1.0


@pytest.mark.parametrize(("name", "value"), [("penalty_weight", -1.0), ("discount", 0.0), ("target_rate", 1.5)])
def test_a_setting_out_of_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(WaypostError, match=rf"^{name} must .+, got "):
        Config(**{name: value})


# -- learning --------------------------------------------------------------------------------------------

LENGTH, GOAL, JUNCTION = 9, 8, 4
LEFT, RIGHT, JUMP = 0, 1, 2


def chain() -> Dataset:
    """Places 0 to 8 in a row, the goal at 8. Most walks pass the junction 4 on their way from 3 back to 0.

    The others begin at 4 and reach the goal. Nobody ever jumped.
    """
    journeys = [[3, 4, 3, 2, 1, 0]] * 6 + [[0, 1, 2, 3, 4, 3]] * 3 + [[4, 5, 6, 7, 8]] * 2
    rows = [(a, b, i == len(walk) - 2) for walk in journeys for i, (a, b) in enumerate(pairwise(walk))]
    here, there, last = (np.array(column) for column in zip(*rows, strict=True))
    return Dataset.from_arrays(
        np.eye(LENGTH)[here],
        np.eye(LENGTH)[there],
        np.where(there > here, RIGHT, LEFT)[:, None],
        (there == GOAL) - 1.0,
        there == GOAL,
        last & (there != GOAL),
        action_count=3,
    )


@pytest.mark.parametrize("weight", [0.0, 0.3])
def test_it_joins_the_halves_of_a_chain_and_never_does_what_nobody_did(weight: float) -> None:
    config = Config(hidden=(32,), learning_rate=3e-3, target_rate=0.05, penalty_weight=weight, batch_size=32)
    columns, spec = DiscreteCQL.prepare(config, chain())
    learner = Learner(DiscreteCQL(config, spec, 1500), columns, [0])
    learner.advance(learner.algorithm.stages[0], 1500)
    agent = learner.agents[0]
    chosen = np.asarray(agent.act(np.eye(LENGTH, dtype=np.float32)[:GOAL])[0])
    if weight:
        assert (chosen == RIGHT).all()
        assert (np.diff(agent.value(np.eye(LENGTH, dtype=np.float32)[:GOAL])) > 0).all()
    else:
        assert (chosen == JUMP).any()
