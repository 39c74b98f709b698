"""Behaviour cloning: its loss against NumPy, what it learns from, what each setting does, and that it acts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import compiled
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from oracles import COUNT, HIGH, LOW, ROWS, check_step, choosing_walks, numbers, same, walks
from samples import walk

import waypost
from waypost.agents.bc import BC, Config, State, TopBC
from waypost.data.dataset import Dataset
from waypost.data.rewards import learning_rewards
from waypost.errors import WaypostError
from waypost.training.loop import Learner
from waypost.training.plan import plan

KEY = jax.random.key(7)
SMALL: dict[str, Any] = {"hidden": (8,), "learning_rate": 0.01, "top": 0.5}
TINY = Config(hidden=(8,), learning_rate=0.01)


def begin(config: Config, data: Dataset, steps: int = 3) -> tuple[BC, dict[str, jax.Array], State]:
    columns, spec = BC.prepare(config, data)
    algorithm = BC(config, spec, steps)
    return algorithm, {name: jnp.asarray(column) for name, column in columns.items()}, compiled.init(algorithm)


def learned(config: Config, data: Dataset, updates: int = 3) -> State:
    algorithm, batch, state = begin(config, data)
    for _ in range(updates):
        state, _ = compiled.update(algorithm, 0, state, batch, KEY)
    return state


@pytest.mark.parametrize("scaled", [True, False])
def test_the_policy_takes_an_adam_step_down_minus_the_likelihood_of_the_actions(scaled: bool) -> None:
    config, data = replace(TINY, observation_scaling=scaled), walks()
    algorithm, batch, state = begin(config, data)
    after, metrics = compiled.update(algorithm, 0, state, batch, KEY)
    seen, actions = (np.asarray(x, np.float64) for x in (data.observations, data.actions))
    inputs = (seen - seen.mean(0)) / seen.std(0) if scaled else seen

    def loss(net: Any) -> float:
        return -oracles.log_density(net, inputs, 2 * (actions - LOW) / (HIGH - LOW) - 1).mean()

    nets = state.agent.policy, after.agent.policy
    check_step(loss, metrics["policy_loss"], *nets, after.optimiser, 0.01, 1e-5)


def test_learning_changes_the_policy_and_no_scaling() -> None:
    _, _, before = begin(TINY, walks())
    after = learned(TINY, walks())
    leaves = zip(*map(jax.tree.leaves, (before.agent.policy, after.agent.policy)), strict=True)
    assert all((old != new).any() for old, new in leaves)
    assert same((before.agent.scaling, before.agent.actions), (after.agent.scaling, after.agent.actions))


@pytest.mark.parametrize(
    ("change", "matters"),
    [
        ({"actions": np.random.default_rng(5).uniform(LOW, HIGH, (ROWS, 2))}, True),
        ({"rewards": np.arange(ROWS)}, False),
        ({"rewards": None}, False),
        ({"next_observations": np.zeros((ROWS, 3))}, False),
        ({"terminals": np.zeros(ROWS)}, False),
    ],
    ids=["actions", "rewards", "no rewards", "next states", "terminals"],
)
def test_only_states_and_actions_matter(change: dict[str, Any], matters: bool) -> None:
    assert same(learned(TINY, walks()).agent, learned(TINY, walks(**change)).agent) is not matters


def test_data_without_actions_are_refused() -> None:
    with pytest.raises(WaypostError, match="has no actions"):
        BC.prepare(TINY, walks().without_actions())


@pytest.mark.parametrize(("name", "value"), [("batch_size", 0), ("learning_rate", -1.0), ("hidden", (-1,))])
def test_a_setting_out_of_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(WaypostError, match=rf"^{name} must .+, got "):
        Config(**{name: value})


def test_it_has_neither_value_nor_guide_nor_parts_to_graft() -> None:
    agent = learned(TINY, walks(), updates=0).agent
    for ask, missing in ((agent.value, "value function"), (agent.guide, "guide"), (agent.graft, "parts")):
        with pytest.raises(WaypostError, match=missing):
            ask(agent if missing == "parts" else walks().observations)


# -- discrete actions ------------------------------------------------------------------------------------


def test_the_policy_takes_an_adam_step_down_minus_the_likelihood_of_the_choices() -> None:
    data = choosing_walks()
    algorithm, batch, state = begin(TINY, data)
    after, metrics = compiled.update(algorithm, 0, state, batch, KEY)
    seen = data.observations.astype(np.float64)
    taken = data.actions[:, 0].astype(int)

    def loss(net: Any) -> float:
        return -oracles.log_probability(net, (seen - seen.mean(0)) / seen.std(0), taken).mean()

    nets = state.agent.policy, after.agent.policy
    check_step(loss, metrics["policy_loss"], *nets, after.optimiser, 0.01, 1e-5)


def test_among_discrete_actions_it_takes_the_likeliest() -> None:
    data = choosing_walks()
    agent = learned(TINY, data).agent
    seen = data.observations.astype(np.float64)
    logits = oracles.mlp(numbers(agent.policy.logits), (seen - seen.mean(0)) / seen.std(0))
    assert logits.shape == (ROWS, COUNT)
    actions, memory = compiled.act(agent, data.observations, ())
    assert memory == ()
    assert actions.shape == (ROWS,)
    assert jnp.issubdtype(actions.dtype, jnp.integer)
    assert np.array_equal(actions, logits.argmax(1))
    assert len(np.unique(actions)) > 1


# -- acting ----------------------------------------------------------------------------------------------


def test_it_acts_with_the_mean_in_the_datas_own_units() -> None:
    data, agent = walks(), learned(TINY, walks()).agent
    broad = eqx.tree_at(lambda agent: agent.policy.log_std, agent, jnp.full(2, 2.0))
    seen = data.observations.astype(np.float64)
    mean = oracles.mlp(numbers(agent.policy.mean), (seen - seen.mean(0)) / seen.std(0))
    actions, memory = compiled.act(agent, data.observations, ())
    assert memory == ()
    assert np.allclose(actions, np.clip(mean, -1, 1) * [1.5, 2.5] + [-0.5, 2.5], atol=1e-4)
    assert np.array_equal(actions, compiled.act(broad, data.observations, ())[0])


def test_actions_never_leave_their_bounds_and_reach_both() -> None:
    oracles.check_bounds(learned(TINY, walks(), updates=0).agent, lambda agent: agent.policy)


# -- settings ------------------------------------------------------------------------------------------------

CHANGES: dict[str, Any] = {"observation_scaling": False, "learning_rate": 0.1, "hidden": (5,), "top": 1.0}


def test_batch_size_is_the_number_of_rows_an_update_sees() -> None:
    seen = set()

    class Spy(BC):
        def update(self, stage: Any, state: State, batch: Any, key: jax.Array) -> tuple[State, dict[str, Any]]:
            seen.update(len(column) for column in batch.values())
            return super().update(stage, state, batch, key)

    config = Config(hidden=(), batch_size=5)
    columns, spec = BC.prepare(config, walks())
    assert Learner(Spy(config, spec, 1), columns, [0]).metric_names() == ["policy_loss"]
    assert seen == {5}


def test_there_is_one_stage_as_long_as_the_run() -> None:
    algorithm, _, _ = begin(TINY, walks(), steps=10)
    assert [(stage.name, stage.steps, stage.parts) for stage in algorithm.stages] == [("policy", 10, {"policy"})]


def test_the_step_size_falls_along_a_cosine_to_zero_at_the_end_of_the_run() -> None:
    algorithm, _, _ = begin(TINY, walks(), steps=10)
    sizes = oracles.step_sizes(algorithm.optimiser, 11)
    assert np.allclose(sizes, 0.01 * (1 + np.cos(np.pi * np.arange(11) / 10)) / 2, rtol=1e-4, atol=1e-8)
    assert sizes[-2] > 0
    assert sizes[-1] == 0


# -- learning --------------------------------------------------------------------------------------------------


def test_it_reproduces_what_the_data_did() -> None:
    """A line of states 0 to 20, the action largest in the middle, bounds -0.5 and 3.5."""
    states = np.arange(21.0)
    actions = 3.5 - 0.4 * np.abs(states - 10)
    data = Dataset.from_arrays(states, actions=actions, timeouts=np.ones(21))
    config = Config(hidden=(32,), learning_rate=2e-2, batch_size=21)
    columns, spec = BC.prepare(config, data)
    learner = Learner(BC(config, spec, 500), columns, [0])
    learner.advance(learner.algorithm.stages[0], 500)
    chosen = jax.jit(lambda agent: agent.act(data.observations)[0])(learner.agents[0])
    assert np.allclose(chosen[:, 0], actions, atol=0.2)


def test_the_best_episodes_of_a_goal_task_are_those_that_arrive() -> None:
    """With r - 1 they would be the shortest ones, wherever they lead."""
    lengths, arrives = np.array([30] * 18 + [90, 60]), np.array([False] * 18 + [True, True])
    ends = np.cumsum(lengths) - 1
    states = np.repeat(np.arange(20.0), lengths)[:, None]
    last = np.isin(np.arange(len(states)), ends)
    rewards = last & np.repeat(arrives, lengths)
    log = Dataset.from_arrays(
        states, actions=np.zeros((len(states), 1)), rewards=rewards, terminals=rewards, timeouts=last & ~rewards
    ).named("maze", task="four-rooms")
    planned = plan("bc10", log)
    assert (planned.rewards, plan("bc", log).rewards) == ("recorded", "goal")
    chosen, _ = TopBC.prepare(planned.config, learning_rewards(log, planned.convention, 0.99))
    assert set(chosen["observations"][:, 0]) == {18.0, 19.0}
    chosen, _ = TopBC.prepare(planned.config, learning_rewards(log, "goal", 0.99))
    assert not set(chosen["observations"][:, 0]) & {18.0, 19.0}


def test_rewards_nobody_reads_cannot_stand_in_the_way() -> None:
    """All returns are the same, so there is no range to scale them by."""
    log = walk().with_rewards(np.zeros(len(walk())))
    waypost.train("bc", log, steps=2, rewards="return-range", hidden=(8,), batch_size=8)
    with pytest.raises(WaypostError, match="'return-range' cannot scale"):
        waypost.train("bc10", log, steps=2, rewards="return-range", hidden=(8,), batch_size=8)
