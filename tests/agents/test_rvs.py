"""RvS: one update of both forms against NumPy, what an outcome is, and what they ask for when they act."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import compiled
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from oracles import HIGH, LOW, ROWS, TERMINAL, TIMEOUT, UNSEEN_TERMINAL, UNSEEN_TIMEOUT, numbers, redrawn, same, walks

import waypost
from waypost.agents import ALGORITHMS
from waypost.agents.nets import Continuous, Scaling
from waypost.agents.rvs import DROPOUT, GOALS, GoalConfig, ReturnConfig, RvS, RvSG, RvSR, State
from waypost.data.dataset import Dataset
from waypost.envs import four_rooms, t_maze
from waypost.envs.tasks import TASKS
from waypost.errors import WaypostError
from waypost.training import presets
from waypost.training.loop import Learner
from waypost.training.plan import plan

SMALL: dict[str, Any] = {"hidden": (8,), "learning_rate": 0.01}
CHANGES: dict[str, Any] = {
    "observation_scaling": True,
    "dropout": 0.5,
    "learning_rate": 0.1,
    "hidden": (5,),
    "target": 0.5,
    "goal_columns": (1,),
}
"""`target` is RvS-R's alone, `goal_columns` RvS-G's."""
KEY = jax.random.key(7)
FORMS: dict[str, tuple[type[RvS], type]] = {"R": (RvSR, ReturnConfig), "G": (RvSG, GoalConfig)}
EPISODES = [range(TERMINAL + 1), range(TERMINAL + 1, TIMEOUT + 1), range(TIMEOUT + 1, UNSEEN_TERMINAL + 1)]
EPISODES.append(range(UNSEEN_TERMINAL + 1, ROWS))
FOLLOWED = [row for row in range(ROWS) if row not in (UNSEEN_TERMINAL, UNSEEN_TIMEOUT)]
"""Rows after which a state is known."""
EITHER = pytest.mark.parametrize("form", FORMS)


def small(form: str, **settings: Any) -> Any:
    return FORMS[form][1](**{**SMALL, **settings})


def begin(form: str, config: Any, data: Dataset | None = None, steps: int = 3) -> tuple[RvS, dict[str, Any], State]:
    """The algorithm, its columns, and a state whose network is drawn again."""
    columns, spec = FORMS[form][0].prepare(config, data or walks())
    algorithm = FORMS[form][0](config, spec, steps)
    like = jax.eval_shape(lambda: algorithm.init(KEY)).agent
    known = spec.statistics
    agent = replace(
        like,
        scaling=Scaling(known["observation_mean"], known["observation_std"]),
        outcome_scaling=Scaling(known["outcome_mean"], known["outcome_std"]),
        policy=redrawn(like.policy, 3),
        actions=spec.actions,
    )
    on_device = {name: jnp.asarray(column) for name, column in columns.items()}
    return algorithm, on_device, State(agent, algorithm.optimiser.init(agent.policy))


@cache
def gathering(form: str, config: Any) -> Any:
    """A batch of all rows that can be drawn."""
    algorithm, columns, _ = begin(form, config)
    rows = len(columns["observations"])
    return jax.jit(lambda columns, key: algorithm.batch(columns, jnp.arange(rows), key))


@cache
def updating(form: str, config: Any) -> Any:
    algorithm, _, _ = begin(form, config)
    return jax.jit(lambda state, batch, key: algorithm.update(algorithm.stages[0], state, batch, key))


def learned(form: str, config: Any, data: Dataset | None = None, key: Any = KEY) -> tuple[State, dict[str, Any]]:
    _, columns, state = begin(form, config, data)
    return updating(form, config)(state, gathering(form, config)(columns, key), key)


# -- NumPy -----------------------------------------------------------------------------------------------------


def returns_per_step(data: Dataset) -> np.ndarray:
    """Walk through the episodes; the longest has 10 steps, so at step t there could be 10 - t left."""
    found = np.zeros((ROWS, 1))
    for episode in EPISODES:
        for time, row in enumerate(episode):
            found[row] = sum(float(data.rewards[i]) for i in episode if i >= row) / (10 - time)
    return found


def later_states(data: Dataset, row: int) -> list[np.ndarray]:
    (episode,) = (episode for episode in EPISODES if row in episode)
    return [data.next_observations[i] for i in episode if i >= row and data.next_valid[i]]


def drawn_goals(data: Dataset, key: jax.Array) -> np.ndarray:
    """The draw itself is taken as given: how far ahead of each row."""
    later = [later_states(data, row) for row in FOLLOWED]
    most = np.array([len(states) for states in later])
    ahead = jax.random.randint(jax.random.fold_in(key, GOALS), most.shape, 0, most)
    return np.array([states[i][:2] for states, i in zip(later, ahead, strict=True)], np.float64)


def density(net: Any, x: np.ndarray, y: np.ndarray, mask: np.ndarray | float) -> np.ndarray:
    """log N(y; mean(x), std) where the mean has one hidden layer, some of whose units are dropped."""
    first, last = net.mean.layers
    inner = np.maximum(x @ (first.weight.T if first.transposed else first.weight) + first.bias, 0) * mask
    mean = inner @ (last.weight.T if last.transposed else last.weight) + last.bias
    std = np.exp(net.log_std)
    return np.sum(-np.log(std * np.sqrt(2 * np.pi)) - (y - mean) ** 2 / (2 * std**2), axis=1)


@EITHER
@pytest.mark.parametrize("settings", [{}, {"observation_scaling": True, "dropout": 0.4}], ids=["plain", "all on"])
def test_the_policy_takes_an_adam_step_down_minus_the_likelihood_of_the_actions(
    form: str, settings: dict[str, Any]
) -> None:
    config, data = small(form, **settings), walks()
    after, metrics = learned(form, config)
    rows = FOLLOWED if form == "G" else list(range(ROWS))
    outcomes = drawn_goals(data, KEY) if form == "G" else returns_per_step(data)
    states, actions = (np.asarray(x, np.float64) for x in (data.observations, data.actions))
    inputs = states
    if config.observation_scaling:
        inputs = (states - states.mean(0)) / states.std(0)
        over = states[:, :2] if form == "G" else outcomes
        outcomes = (outcomes - over.mean(0)) / over.std(0)
    inputs = np.concatenate([inputs[rows], outcomes], axis=1)
    targets = (2 * (actions - LOW) / (HIGH - LOW) - 1)[rows]
    mask: np.ndarray | float = 1.0
    if config.dropout:
        key = jax.random.split(jax.random.fold_in(KEY, DROPOUT), 2)[1]
        mask = np.asarray(jax.random.bernoulli(key, 0.6, (len(rows), 8))) / 0.6

    def loss(net: Any) -> float:
        return -density(net, inputs, targets, mask).mean()

    nets = begin(form, config)[2].agent.policy, after.agent.policy
    oracles.check_step(loss, metrics["policy_loss"], *nets, after.optimiser, 0.01, 1e-5, 1e-4)


def test_dropout_reaches_every_hidden_layer_and_only_while_learning() -> None:
    """With all but one in a thousand units gone, the mean is the last bias."""
    config = small("R", hidden=(8, 8), dropout=0.999)
    _, columns, state = begin("R", config)
    batch = gathering("R", config)(columns, KEY)
    _, metrics = updating("R", config)(state, batch, KEY)
    policy = numbers(state.agent.policy)
    scaled = 2 * (walks().actions - LOW) / (HIGH - LOW) - 1
    alone = np.sum(
        -policy.log_std
        - 0.5 * np.log(2 * np.pi)
        - 0.5 * ((scaled - policy.mean.layers[-1].bias) / np.exp(policy.log_std)) ** 2,
        axis=1,
    )
    assert np.isclose(metrics["policy_loss"], -alone.mean(), rtol=1e-4)
    inputs = np.concatenate([walks().observations, np.asarray(batch["outcomes"])], axis=1)
    mean = oracles.mlp(policy.mean, inputs.astype(np.float64))
    actions, _ = compiled.act(state.agent, walks().observations, batch["outcomes"])
    assert np.allclose(actions, LOW + (HIGH - LOW) * (np.clip(mean, -1, 1) + 1) / 2, atol=1e-4)


# -- outcomes ----------------------------------------------------------------------------------------------------


def test_an_outcome_is_the_return_to_go_per_step_that_could_be_left() -> None:
    _, columns, _ = begin("R", small("R"))
    batch = gathering("R", small("R"))(columns, KEY)
    assert np.allclose(batch["outcomes"], returns_per_step(walks()), atol=1e-5)
    assert np.array_equal(batch["outcomes"], gathering("R", small("R"))(columns, jax.random.key(1))["outcomes"])


def test_an_episode_longer_than_any_that_was_known_counts_the_steps_it_had() -> None:
    """A stream is prepared in blocks; how long the longest episode is was found in a sample."""
    algorithm, columns, _ = begin("R", small("R"))
    short = replace(algorithm.spec, statistics={**algorithm.spec.statistics, "longest_episode": (6.0,)})
    batch = RvSR(small("R"), short, 1).batch(columns, jnp.arange(ROWS), KEY)
    data = walks()
    for row in range(ROWS):
        (episode,) = (episode for episode in EPISODES if row in episode)
        steps = max(6 - (row - episode[0]), episode[-1] - row + 1)
        to_go = data.rewards[row : episode[-1] + 1].sum()
        assert np.isclose(batch["outcomes"][row, 0], to_go / steps, atol=1e-5)


def test_a_block_of_a_stream_gives_the_columns_the_whole_would() -> None:
    whole, _ = RvSR.prepare(small("R"), walks())
    rows = np.arange(ROWS)
    for episode in EPISODES:
        part, _ = RvSR.prepare(small("R"), walks().keep(np.isin(rows, episode)))
        assert all(np.allclose(part[name], column[list(episode)], atol=1e-5) for name, column in whole.items())


def test_a_goal_is_any_later_state_of_the_episode_and_all_are_equally_likely() -> None:
    data = walks()
    _, columns, _ = begin("G", small("G"))
    draw = jax.jit(jax.vmap(lambda key: begin_g().batch(columns, jnp.arange(len(FOLLOWED)), key)["outcomes"]))
    goals = np.asarray(draw(jax.random.split(KEY, 4000)))
    for i, row in enumerate(FOLLOWED):
        later = np.array([state[:2] for state in later_states(data, row)])
        hit = (goals[:, i, None] == later[None]).all(axis=2)
        assert hit.any(axis=1).all()
        assert np.allclose(hit.mean(axis=0), 1 / len(later), atol=0.05)
    assert len(later_states(data, 0)) == 10
    assert len(later_states(data, UNSEEN_TERMINAL - 1)) == 1


def begin_g() -> RvSG:
    return RvSG(small("G"), RvSG.prepare(small("G"), walks())[1], 1)


def test_rows_without_a_known_later_state_are_left_out() -> None:
    columns, _ = RvSG.prepare(small("G"), walks())
    assert np.array_equal(columns["observations"], walks().observations[FOLLOWED])
    assert columns["ahead"].min() == 1
    with pytest.raises(WaypostError, match="no row has a known later state"):
        RvSG.prepare(small("G"), walks(next_valid=np.zeros(ROWS)))


def test_goals_are_drawn_again_with_each_key_and_not_with_that_of_dropout() -> None:
    _, columns, _ = begin("G", small("G"))
    one, again, other = (gathering("G", small("G"))(columns, jax.random.key(seed))["outcomes"] for seed in (0, 0, 1))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    assert DROPOUT != GOALS


@EITHER
def test_rows_behind_the_data_are_never_read(form: str) -> None:
    """Streamed data have room for more rows than there are."""
    _, columns, _ = begin(form, small(form))
    longer = {
        name: jnp.concatenate([column, jnp.full((7, *column.shape[1:]), 99, column.dtype)])
        for name, column in columns.items()
    }
    gather = gathering(form, small(form))
    assert same(gather(columns, KEY), gather(longer, KEY))


@EITHER
@pytest.mark.parametrize(
    ("change", "matters"),
    [
        ({"actions": np.random.default_rng(5).uniform(LOW, HIGH, (ROWS, 2))}, "RG"),
        ({"rewards": np.arange(ROWS)}, "R"),
        ({"next_observations": walks().next_observations + [[0, 0, 1]] * walks().ends[:, None]}, ""),
        ({"next_observations": walks().next_observations + [[1, 0, 0]] * walks().ends[:, None]}, "G"),
        ({"terminals": np.zeros(ROWS), "timeouts": walks().ends}, ""),
    ],
    ids=["actions", "rewards", "end outside the goal", "end", "whether an end was terminal"],
)
def test_what_it_learns_from(form: str, change: dict[str, Any], matters: str) -> None:
    config = small(form)
    policies = [learned(form, config, data)[0].agent.policy for data in (walks(), walks(**change))]
    assert same(*policies) is (form not in matters)


@EITHER
def test_learning_changes_the_policy_and_no_scaling(form: str) -> None:
    config = small(form, observation_scaling=True, dropout=0.4)
    _, _, before = begin(form, config)
    after, _ = learned(form, config)
    leaves = zip(*map(jax.tree.leaves, (before.agent.policy, after.agent.policy)), strict=True)
    assert all((old != new).any() for old, new in leaves)
    parts = ((agent.scaling, agent.outcome_scaling, agent.actions) for agent in (before.agent, after.agent))
    assert same(*parts)


def test_the_step_size_is_constant() -> None:
    algorithm, _, _ = begin("R", small("R"), steps=5)
    assert np.allclose(oracles.step_sizes(algorithm.optimiser, 8), 0.01, rtol=1e-4)


def test_data_must_have_what_a_form_needs_and_no_more() -> None:
    data = walks()
    for form in FORMS:
        with pytest.raises(WaypostError, match="has no actions"):
            FORMS[form][0].prepare(small(form), data.without_actions())
    with pytest.raises(WaypostError, match="has no rewards"):
        RvSR.prepare(small("R"), data.without_rewards())
    with_rewards, without = (RvSG.prepare(small("G"), each)[0] for each in (data, data.without_rewards()))
    assert same(with_rewards, without)
    assert ALGORITHMS["rvs-g"].needs == {"actions"}
    assert ALGORITHMS["rvs-r"].needs == {"actions", "rewards"}


# -- acting --------------------------------------------------------------------------------------------------------


def test_r_asks_for_a_share_of_the_best_return_per_step_at_every_step() -> None:
    data = walks()
    best = max(data.rewards[episode].sum() for episode in EPISODES)
    for target in (1.0, 0.3):
        _, _, state = begin("R", small("R", target=target))
        agent = state.agent
        memory = agent.start(ROWS)
        assert memory.shape == (ROWS, 1)
        assert np.allclose(memory, target * best / 10)
        _, after = compiled.act(agent, data.observations, memory)
        assert np.array_equal(memory, agent.receive(after, jnp.ones(ROWS)))


def test_g_asks_for_the_columns_of_the_tasks_goal() -> None:
    agent = begin("G", small("G", goal_columns=(2, 0)))[2].agent
    assert agent.start(2, jnp.array([5.0, 6.0, 7.0])).tolist() == [[7, 5], [7, 5]]
    assert agent.start(2, (5.0, 6.0, 7.0)).tolist() == [[7, 5], [7, 5]]
    each = jnp.array([[5.0, 6.0, 7.0], [1.0, 2.0, 3.0]])
    assert agent.start(2, each).tolist() == [[7, 5], [3, 1]]
    with pytest.raises(WaypostError, match=r"goal_columns must be less than 2, .* got \(2, 0\)"):
        agent.start(2, jnp.array([5.0, 6.0]))
    with pytest.raises(WaypostError, match="the task has none; use rvs-r"):
        agent.start(2)


@EITHER
def test_what_is_asked_for_matters_and_each_episode_has_its_own(form: str) -> None:
    agent = begin(form, small(form))[2].agent
    memory = agent.start(ROWS, jnp.array([1.0, 2.0]))
    here, there = (compiled.act(agent, walks().observations, memory + shift)[0] for shift in (0.0, 1.0))
    assert not np.allclose(here, there, atol=1e-3)
    mixed, _ = compiled.act(agent, walks().observations, memory + (np.arange(ROWS) % 2)[:, None])
    assert np.allclose(mixed[::2], here[::2], atol=1e-6)
    assert np.allclose(mixed[1::2], there[1::2], atol=1e-6)


@EITHER
def test_it_acts_with_observations_scaled_as_in_learning(form: str) -> None:
    agent = begin(form, small(form, observation_scaling=True))[2].agent
    seen = np.asarray(walks().observations, np.float64)
    memory = np.array(agent.start(ROWS, jnp.array([1.0, 2.0])), np.float64)
    over = seen[:, :2] if form == "G" else returns_per_step(walks())
    inputs = np.concatenate([(seen - seen.mean(0)) / seen.std(0), (memory - over.mean(0)) / over.std(0)], axis=1)
    mean = oracles.mlp(numbers(agent.policy.mean), inputs)
    actions, _ = compiled.act(agent, walks().observations, jnp.asarray(memory, jnp.float32))
    assert np.allclose(actions, LOW + (HIGH - LOW) * (np.clip(mean, -1, 1) + 1) / 2, atol=1e-4)


@EITHER
def test_actions_never_leave_their_bounds_and_are_the_same_every_time(form: str) -> None:
    agent = begin(form, small(form))[2].agent
    memory = jnp.asarray(np.random.default_rng(0).normal(size=agent.start(ROWS, jnp.zeros(2)).shape), jnp.float32)
    oracles.check_bounds(agent, lambda agent: agent.policy, memory)


def discrete() -> Dataset:
    data = walks()
    choices = np.arange(ROWS) % 3
    return Dataset.from_arrays(
        data.observations,
        data.next_observations,
        choices[:, None],
        data.rewards,
        data.terminals,
        data.timeouts,
        data.next_valid,
        action_count=3,
    )


@EITHER
def test_discrete_actions_are_learned_by_their_likelihood(form: str) -> None:
    config, data = small(form, dropout=0.4), discrete()
    algorithm, columns, state = begin(form, config, data)
    batch = algorithm.batch(columns, jnp.arange(len(columns["ahead" if form == "G" else "left"])), KEY)
    _, metrics = jax.jit(lambda: algorithm.update(algorithm.stages[0], state, batch, KEY))()
    first, last = numbers(state.agent.policy.logits).layers
    inputs = np.concatenate([batch["observations"], batch["outcomes"]], axis=1).astype(np.float64)
    inner = np.maximum(inputs @ first.weight.T + first.bias, 0)
    key = jax.random.split(jax.random.fold_in(KEY, DROPOUT), 2)[1]
    logits = (inner * np.asarray(jax.random.bernoulli(key, 0.6, inner.shape)) / 0.6) @ last.weight.T + last.bias
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    taken = np.asarray(batch["actions"])[:, 0].astype(int)
    assert np.isclose(metrics["policy_loss"], -np.log(chances[np.arange(len(taken)), taken]).mean(), rtol=1e-4)
    actions, _ = compiled.act(state.agent, batch["observations"], batch["outcomes"])
    assert np.array_equal(actions, (inner @ last.weight.T + last.bias).argmax(1))


def test_a_fresh_agent_has_the_datas_scaling_and_bounds() -> None:
    for form in FORMS:
        config = small(form, observation_scaling=True)
        algorithm, _, state = begin(form, config)
        agent = jax.jit(lambda algorithm=algorithm: algorithm.init(KEY).agent)()
        assert same(*((each.scaling, each.outcome_scaling, each.actions) for each in (agent, state.agent)))
        assert isinstance(agent.actions, Continuous)


# -- settings and tasks --------------------------------------------------------------------------------------------


@EITHER
@pytest.mark.parametrize(
    ("name", "value"), [("dropout", 1.0), ("learning_rate", -1.0), ("hidden", (-1,)), ("batch_size", 0)]
)
def test_a_setting_out_of_range_is_refused_by_name(form: str, name: str, value: Any) -> None:
    with pytest.raises(WaypostError, match=rf"^{name} must .+, got "):
        FORMS[form][1](**{name: value})


def test_goal_columns_must_be_there() -> None:
    for columns in ((), (-1,)):
        with pytest.raises(WaypostError, match=r"^goal_columns must be one or more columns, counted from 0, got "):
            GoalConfig(goal_columns=columns)
    with pytest.raises(WaypostError, match=r"^goal_columns must be columns of arrays, from 0 to 2, got \(0, 3\)$"):
        RvSG.prepare(small("G", goal_columns=(0, 3)), walks())


def test_rewards_are_as_recorded_whatever_the_task_says() -> None:
    for algorithm in ("rvs-r", "rvs-g"):
        for data in ("t-maze", "hopper-medium", "antmaze-umaze"):
            assert plan(algorithm, data).rewards == "recorded"


def test_the_originals_settings() -> None:
    passes = {"medium": 62, "medium-expert": 123}
    replays = {"halfcheetah": 13, "hopper": 25, "walker2d": 19}
    for algorithm, (_, kind), count in (("rvs-r", FORMS["R"], 15), ("rvs-g", FORMS["G"], 6)):
        found = [name for name in presets.presets(algorithm) if name.startswith("paper/")]
        assert len(found) == count
        for name in found:
            _, steps, settings = presets.find(algorithm, kind, name, "")
            assert kind(**settings) == kind()
            body, data = name.removeprefix("paper/").split("-", 1)
            expected = 20_000 if body == "antmaze" else 2000 * (passes.get(data) or replays[body])
            assert steps == expected
    config = GoalConfig()
    assert (config.hidden, config.learning_rate, config.batch_size) == ((1024, 1024), 1e-3, 16_384)
    assert (config.dropout, config.observation_scaling, config.goal_columns) == (0.0, False, (0, 1))
    assert ReturnConfig().target == 1.0


def test_the_goals_of_our_tasks_are_where_the_goal_is() -> None:
    assert t_maze.in_goal(np.array(TASKS["t-maze"].goal))
    for name in ("four-rooms", "four-rooms-river", "four-rooms-key"):
        assert TASKS[name].goal == (16, 16)
        assert four_rooms.in_goal(np.array(TASKS[name].goal))


def test_g_is_refused_where_the_task_has_no_goal_and_trains_where_there_is_no_task() -> None:
    data = walks().without_rewards()
    with pytest.raises(WaypostError, match="the task has none; use rvs-r"):
        waypost.train("rvs-g", data, env="Pendulum-v1", steps=1, batch_size=4, **SMALL)
    policy = waypost.train("rvs-g", data, env="none", steps=1, batch_size=4, **SMALL).policy
    actions, _ = policy.act_with_memory(data.observations, policy.start(ROWS, [1.0, 2.0]))
    assert actions.shape == (ROWS, 2)


# -- learning ------------------------------------------------------------------------------------------------------


@EITHER
def test_it_does_what_goes_with_what_is_asked_for(form: str) -> None:
    """Episodes of four steps that go up or down all the time; a step earns where it goes."""
    ways = np.repeat([1.0, -1.0], 4)
    places = ways * np.tile([0, 1, 2, 3], 2)
    data = Dataset.from_arrays(
        np.column_stack([np.zeros(8), places]),
        np.column_stack([np.zeros(8), places + ways]),
        ways,
        ways,
        timeouts=np.tile([0, 0, 0, 1], 2),
    )
    kind, config_type = FORMS[form]
    config = config_type(hidden=(16,), learning_rate=2e-2, batch_size=32)
    columns, spec = kind.prepare(config, data)
    learner = Learner(kind(config, spec, 200), columns, [0])
    learner.advance(learner.algorithm.stages[0], 200)
    agent = learner.agents[0]
    asked = [[0.0, 4.0], [0.0, -4.0]] if form == "G" else [[1.0], [-1.0]]
    actions, _ = compiled.act(agent, np.zeros((2, 2), np.float32), jnp.array(asked))
    assert float(actions[0, 0]) > 0.8
    assert float(actions[1, 0]) < -0.8
