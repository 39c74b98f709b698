"""TD3+BC: one update against NumPy, who learns from what and when, and the paper's table."""

from __future__ import annotations

from typing import Any

import compiled
import constrained
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from constrained import KNOWN, LOCOMOTION, MAZES, Rows, both, normal, preset
from oracles import HIGH, LOW, ROWS, check_bounds, check_step, differing, moved_by, numbers, same, shaken, walks

from waypost.agents import ALGORITHMS
from waypost.agents.td3bc import TD3BC, Config, State
from waypost.data.dataset import Dataset
from waypost.errors import WaypostError
from waypost.training.loop import Learner

SMALL: dict[str, Any] = {
    "target_noise": 0.4,
    "critic_hidden": (8,),
    "policy_hidden": (8,),
    "critic_learning_rate": 0.02,
    "policy_learning_rate": 0.01,
    "target_rate": 0.3,
    "discount": 0.9,
}
CHANGES: dict[str, Any] = {
    "value_weight": 1.0,
    "observation_scaling": False,
    "target_noise": 0.1,
    "target_noise_clip": 0.2,
    "policy_period": 3,
    "discount": 0.5,
    "target_rate": 0.9,
    "critic_learning_rate": 0.05,
    "policy_learning_rate": 0.05,
    "critic_hidden": (7,),
    "policy_hidden": (7,),
}
KEY = jax.random.key(7)
WHERE = {
    "policy": lambda state: state.agent.policy,
    "critic": lambda state: state.agent.critic,
    "target_critic": lambda state: state.targets.critic,
    "target_policy": lambda state: state.targets.policy,
}
SEEDS = {"policy": 1, "critic": 2, "target_critic": 3, "target_policy": 4}
DELAYED = {"policy", "target_critic", "target_policy"}


def begin(data: Dataset | None = None, **settings: Any) -> tuple[TD3BC, dict[str, jax.Array], State]:
    """The algorithm, all rows as a batch, and a state as if it had learned before, whose next step moves everything."""
    config = Config(**{**SMALL, **settings})
    prepared, spec = TD3BC.prepare(config, data or walks())
    algorithm = TD3BC(config, spec, 3)
    state = compiled.blank(algorithm)
    for part, seed in SEEDS.items():
        state = shaken(state, WHERE[part], seed)
    return algorithm, constrained.columns(prepared), state._replace(updates=jnp.asarray(1))


def update(algorithm: TD3BC, state: State, batch: dict[str, jax.Array]) -> tuple[State, dict[str, Any]]:
    return compiled.update(algorithm, 0, state, batch, KEY)


def parts(state: State) -> dict[str, Any]:
    """Each network with its optimiser: Adam's first step shows only the sign of a gradient."""
    optimisers = {"policy": state.policy_optimiser, "critic": state.critic_optimiser}
    return {name: (where(state), optimisers.get(name)) for name, where in WHERE.items()}


def changed_by(one: State, other: State, **settings: Any) -> set[str]:
    """What an update makes different of two states."""
    algorithm, batch, _ = begin(**settings)
    return differing(*(parts(update(algorithm, state, batch)[0]) for state in (one, other)))


# -- one update against NumPy ----------------------------------------------------------------------------


def table_of(scaled: bool) -> Rows:
    """The rows as the networks see them: 0.001 is added to the standard deviation of each column."""
    table, seen = constrained.rows(walks(), 0.9), np.asarray(walks().observations, np.float64)
    if not scaled:
        return table
    shift, width = seen.mean(0), seen.std(0) + 1e-3
    return table._replace(states=(table.states - shift) / width, following=(table.following - shift) / width)


def target_actions(state: State, table: Rows, config: Config) -> tuple[np.ndarray, np.ndarray]:
    """a~ before and after it is brought inside [-1, 1]."""
    noise = np.clip(config.target_noise * normal(KEY, (KNOWN, 2)), -config.target_noise_clip, config.target_noise_clip)
    free = np.tanh(oracles.mlp(numbers(state.targets.policy), table.following)) + noise
    return free, np.clip(free, -1, 1)


def targets_of(state: State, table: Rows, config: Config) -> np.ndarray:
    values = both(numbers(state.targets.critic), table.following, target_actions(state, table, config)[1])
    return table.targets(np.minimum(*values))


@pytest.mark.parametrize("settings", [{}, {"observation_scaling": False, "value_weight": 0.7}], ids=["scaled", "plain"])
def test_both_parts_take_an_adam_step_down_their_losses_and_the_targets_follow(settings: dict[str, Any]) -> None:
    algorithm, batch, state = begin(**settings)
    config, table = algorithm.config, table_of(algorithm.config.observation_scaling)
    after, metrics = update(algorithm, state, batch)
    targets = targets_of(state, table, config)

    def critic_loss(net: Any) -> float:
        return constrained.value_loss(net, table, targets)

    def chosen(net: Any) -> tuple[np.ndarray, np.ndarray]:
        """pi(s) and what the new first Q says of it."""
        actions = np.tanh(oracles.mlp(net, table.states))
        return actions, both(numbers(after.agent.critic), table.states, actions)[0]

    scale = config.value_weight / np.abs(chosen(numbers(state.agent.policy))[1]).mean()

    def policy_loss(net: Any) -> float:
        actions, values = chosen(net)
        return -scale * values.mean() + ((actions - table.actions) ** 2).mean()

    critics, policies = (state.agent.critic, after.agent.critic), (state.agent.policy, after.agent.policy)
    check_step(critic_loss, metrics["critic_loss"], *critics, after.critic_optimiser, 0.02, 1e-5)
    check_step(policy_loss, metrics["policy_loss"], *policies, after.policy_optimiser, 0.01, 2e-5)
    assert np.isclose(metrics["value"], both(numbers(critics[0]), table.states, table.actions).mean(), rtol=1e-5)
    assert moved_by(0.3, state.targets.critic, after.agent.critic, after.targets.critic)
    assert moved_by(0.3, state.targets.policy, after.agent.policy, after.targets.policy)
    assert same((state.agent.scaling, state.agent.actions), (after.agent.scaling, after.agent.actions))


def test_the_batch_can_tell_a_right_update_from_a_wrong_one() -> None:
    """Either Q' is the smaller one somewhere, some noise is clipped, some actions are, and the order matters."""
    algorithm, batch, state = begin()
    table, noise = table_of(True), 0.4 * normal(KEY, (KNOWN, 2))
    free, inside = target_actions(state, table, algorithm.config)
    values = both(numbers(state.targets.critic), table.following, inside)
    assert 0.1 < (values[0] < values[1]).mean() < 0.9
    assert 0.1 < (np.abs(noise) > 0.5).mean() < 0.5
    assert 0.1 < (free != inside).mean() < 0.9
    chosen = np.tanh(oracles.mlp(numbers(state.agent.policy), table.states))
    after = update(algorithm, state, batch)[0]
    old, new = (both(numbers(each.agent.critic), table.states, chosen)[0] for each in (state, after))
    assert not np.allclose(old, new, rtol=0.02)


def test_the_size_of_q_does_not_matter_to_the_policy() -> None:
    results = []
    for size in (1.0, 40.0):
        algorithm, batch, state = begin(critic_learning_rate=0.0)
        where = lambda s: [getattr(s.agent.critic.heads[0].layers[-1], leaf) for leaf in ("weight", "bias")]
        larger = eqx.tree_at(where, state, jax.tree.map(lambda leaf, size=size: size * leaf, where(state)))
        results.append(update(algorithm, larger, batch)[0].policy_optimiser[0].mu)
    pairs = zip(*map(jax.tree.leaves, results), strict=True)
    assert all(np.allclose(one, other, rtol=1e-4, atol=1e-6) for one, other in pairs)


def test_a_column_that_hardly_varies_is_not_blown_up() -> None:
    seen = np.array(walks().observations)
    seen[:, 1] = 3.0 + 1e-5 * np.arange(ROWS)
    _, spec = TD3BC.prepare(Config(), walks(observations=seen, next_observations=seen))
    assert np.isclose(spec.statistics["observation_std"][1], 1e-3, rtol=0.1)
    _, spec = TD3BC.prepare(Config(observation_scaling=False), walks())
    assert spec.statistics == {"observation_mean": (0.0,) * 3, "observation_std": (1.0,) * 3}


# -- who learns from what, and when ------------------------------------------------------------------------


@pytest.mark.parametrize(("period", "due"), [(1, {1, 2, 3, 4, 5, 6}), (2, {2, 4, 6}), (3, {3, 6})])
def test_policy_and_targets_move_in_every_so_many_th_update(period: int, due: set[int]) -> None:
    algorithm, batch, state = begin(policy_period=period)
    state, losses = state._replace(updates=jnp.asarray(0)), [0.0]
    for step in range(1, 7):
        after, metrics = update(algorithm, state, batch)
        assert differing(parts(state), parts(after)) == {"critic"} | (DELAYED if step in due else set())
        assert int(after.updates) == step
        losses.append(float(metrics["policy_loss"]))
        # In the steps without one, the last loss of the policy is reported.
        assert (losses[-1] == losses[-2]) is (step not in due)
        state = after


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("policy", {"policy", "target_policy"}),
        ("critic", {"critic", "target_critic", "policy", "target_policy"}),
        ("target_critic", {"critic", "target_critic", "policy", "target_policy"}),
        ("target_policy", {"critic", "target_critic", "policy", "target_policy"}),
    ],
)
def test_a_part_moves_just_those_that_read_it(part: str, expected: set[str]) -> None:
    state = begin()[2]
    assert changed_by(state, shaken(state, WHERE[part])) == expected


def test_the_policys_loss_leaves_q_alone() -> None:
    results = []
    for weight in (0.0, 9.0):
        algorithm, batch, state = begin(value_weight=weight)
        results.append(parts(update(algorithm, state, batch)[0]))
    assert differing(*results) == {"policy", "target_policy"}


def test_the_policy_follows_the_first_q_alone() -> None:
    state = begin()[2]
    for head, expected in ((0, {"critic", "target_critic", "policy", "target_policy"}), (1, {"critic"})):
        moved = shaken(state, lambda s, head=head: s.agent.critic.heads[head])
        assert changed_by(state, moved) - ({"target_critic"} if head else set()) == expected


@pytest.mark.parametrize(
    ("change", "direct"),
    [
        ({"actions": np.random.default_rng(5).uniform(LOW, HIGH, (ROWS, 2))}, {"critic", "policy"}),
        ({"rewards": np.arange(ROWS)}, {"critic"}),
        ({"terminals": np.arange(ROWS) == ROWS - 5}, {"critic"}),
    ],
    ids=["actions", "rewards", "terminals"],
)
def test_the_policy_reads_actions_but_no_rewards(change: dict[str, Any], direct: set[str]) -> None:
    """With a critic that stands still, what reaches the policy through it does not."""
    results = []
    for data in (walks(), walks(**change)):
        algorithm, batch, state = begin(data, critic_learning_rate=0.0)
        results.append(parts(update(algorithm, state, batch)[0]))
    assert differing(*results) - {"target_policy"} == direct


def test_a_timeout_bootstraps_and_a_terminal_does_not() -> None:
    algorithm, batch, state = begin()
    constrained.check_bootstrap(lambda rows: parts(update(algorithm, state, rows)[0]), batch)


def test_the_targets_begin_as_copies() -> None:
    _, spec = TD3BC.prepare(Config(**SMALL), walks())
    state = compiled.init(TD3BC(Config(**SMALL), spec, 3))
    assert same(tuple(state.targets), (state.agent.critic, state.agent.policy))
    assert int(state.updates) == 0


# -- acting ----------------------------------------------------------------------------------------------


def test_it_acts_with_the_policy_in_the_datas_own_units_and_values_that() -> None:
    agent, seen = begin()[2].agent, np.asarray(walks().observations, np.float64)
    inputs = (seen - seen.mean(0)) / (seen.std(0) + 1e-3)
    chosen = np.tanh(oracles.mlp(numbers(agent.policy), inputs))
    actions, memory = compiled.act(agent, walks().observations, ())
    assert memory == ()
    assert np.allclose(actions, chosen * [1.5, 2.5] + [-0.5, 2.5], atol=1e-4)
    assert np.array_equal(actions, compiled.act(agent, walks().observations, ())[0])
    values = both(numbers(agent.critic), inputs, chosen)
    assert np.allclose(compiled.value(agent, walks().observations), values.min(axis=0), atol=1e-4)


def test_actions_never_leave_their_bounds_and_reach_both() -> None:
    check_bounds(begin()[2].agent, lambda agent: agent.policy)


# -- settings --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOCOMOTION)
def test_the_papers_table_row_by_row(name: str) -> None:
    steps, config = preset("td3bc", Config, f"paper/{name}")
    assert steps == 1_000_000
    assert config.critic_hidden == (256, 256)
    assert config.policy_hidden == (256, 256)
    assert config.critic_learning_rate == 3e-4
    assert config.policy_learning_rate == 3e-4
    assert config.batch_size == 256
    assert config.discount == 0.99
    assert config.target_rate == 5e-3
    assert config.target_noise == 0.2
    assert config.target_noise_clip == 0.5
    assert config.policy_period == 2
    assert config.value_weight == 2.5
    assert config.observation_scaling
    assert config == Config()


@pytest.mark.parametrize("name", MAZES)
def test_states_are_not_standardised_in_antmaze(name: str) -> None:
    assert preset("td3bc", Config, f"paper/{name}") == (1_000_000, Config(observation_scaling=False))


def test_there_is_a_preset_for_every_data_set_of_the_paper_and_the_t_maze() -> None:
    constrained.check_presets("td3bc", Config)


def test_rewards_are_the_originals() -> None:
    assert ALGORITHMS["td3bc"].conventions == {"return-range": "recorded"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("value_weight", -1.0),
        ("target_noise", -0.1),
        ("target_noise_clip", -0.1),
        ("policy_period", 0),
        ("discount", 0.0),
        ("target_rate", 1.5),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(WaypostError, match=rf"^{name} must .+, got "):
        Config(**{name: value})


# -- learning --------------------------------------------------------------------------------------------


def test_it_does_better_than_the_data_where_the_data_are_spread() -> None:
    """One step with the best action at 2 of [0, 3], and data around 1."""
    random = np.random.default_rng(0)
    actions = np.clip(random.normal(1.0, 0.8, 300), 0, 3)
    data = Dataset.from_arrays(
        random.uniform(-1, 1, 300),
        actions=actions,
        rewards=-((actions - 2.0) ** 2),
        terminals=np.ones(300),
        action_low=np.zeros(1),
        action_high=np.full(1, 3.0),
    )
    rates = {"critic_learning_rate": 5e-3, "policy_learning_rate": 5e-3}
    config = Config(**rates, critic_hidden=(32,), policy_hidden=(32,), batch_size=64)
    columns, spec = TD3BC.prepare(config, data)
    learner = Learner(TD3BC(config, spec, 600), columns, [0])
    learner.advance(learner.algorithm.stages[0], 600)
    chosen = np.asarray(learner.agents[0].act(jnp.linspace(-1, 1, 9)[:, None])[0])
    assert (np.abs(chosen - 2.0) < 0.6).all()
