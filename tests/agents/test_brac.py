"""BRAC: both stages against NumPy, who learns from what, and what each form pays for leaving the data."""

from __future__ import annotations

from functools import partial
from typing import Any

import compiled
import constrained
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from constrained import KNOWN, Rows, both, normal, normal_density
from oracles import HIGH, LOW, ROWS, check_bounds, check_step, differing, moved_by, numbers, same, shaken, walks

from waypost.agents import ALGORITHMS
from waypost.agents.brac import BRAC, Config, State
from waypost.data.dataset import Dataset
from waypost.errors import WaypostError

SMALL: dict[str, Any] = {
    "divergence_weight": 0.5,
    "samples": 3,
    "warmup_steps": 1,
    "behaviour_steps": 2,
    "target_rate": 0.3,
    "value_learning_rate": 0.02,
    "policy_learning_rate": 0.01,
    "behaviour_learning_rate": 0.03,
    "value_hidden": (6,),
    "policy_hidden": (6,),
    "discount": 0.9,
}
CHANGES: dict[str, Any] = {
    "divergence_weight": 2.0,
    "value_penalty": False,
    "samples": 5,
    "warmup_steps": 0,
    "behaviour_steps": 3,
    "behaviour_entropy": False,
    "discount": 0.5,
    "target_rate": 0.9,
    "value_learning_rate": 0.1,
    "policy_learning_rate": 0.1,
    "behaviour_learning_rate": 0.1,
    "value_hidden": (7,),
    "policy_hidden": (7,),
    "observation_scaling": True,
}
KEY = jax.random.key(7)
WHERE = {
    "behaviour": lambda state: state.behaviour,
    "entropy": lambda state: state.entropy_weight,
    "value": lambda state: state.value,
    "policy": lambda state: state.agent.policy,
    "target": lambda state: state.target,
}
SEEDS = {"behaviour": 32, "value": 66, "policy": 83, "target": 100}
"""What the networks are drawn from; with these the comparisons below can tell right from wrong."""


def begin(data: Dataset | None = None, step: int = 1, **settings: Any) -> tuple[BRAC, dict[str, jax.Array], State]:
    """The algorithm, all rows as a batch, and a state as if it had learned before; by default past the warm-up."""
    config = Config(**{**SMALL, **settings})
    prepared, spec = BRAC.prepare(config, data or walks())
    algorithm = BRAC(config, spec, 3)
    state = compiled.blank(algorithm)._replace(step=jnp.asarray(step, jnp.int32))
    for part, seed in SEEDS.items():
        state = shaken(state, WHERE[part], seed)
    return algorithm, constrained.columns(prepared), state


def update(algorithm: BRAC, state: State, batch: dict[str, jax.Array], stage: int = 1) -> tuple[State, dict[str, Any]]:
    return compiled.update(algorithm, stage, state, batch, KEY)


def settled(step: int = 1, **settings: Any) -> tuple[BRAC, dict[str, jax.Array], State]:
    """The same after one update: Adam's first step has the sign of a gradient only, later ones show its size."""
    algorithm, batch, state = begin(step=step - 1, **settings)
    for stage in (0, 1):
        state, _ = update(algorithm, state, batch, stage)
    return algorithm, batch, state


parts = partial(constrained.parts, WHERE)


def gaussian(net: Any, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation before the tanh; the logarithm of the latter is mapped to [-5, 0]."""
    return constrained.tanh_gaussian(net, states, -5, 0, mapped=True)


def density(net: Any, states: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """log density of the action tanh(inner)."""
    return normal_density(inner, *gaussian(net, states)) - np.log(1 - np.tanh(inner) ** 2).sum(axis=-1)


# -- the first stage: the density of the data's actions -----------------------------------------------------


@pytest.mark.parametrize("weight", [1.0, 0.3, 0.0])
@pytest.mark.parametrize("scaled", [False, True])
def test_the_behaviour_takes_an_adam_step_towards_the_data_and_towards_entropy(weight: float, scaled: bool) -> None:
    algorithm, batch, state = begin(observation_scaling=scaled)
    state = state._replace(entropy_weight=jnp.asarray(weight))
    after, metrics = update(algorithm, state, batch, stage=0)
    table, noise = constrained.rows(walks(), 0.9, scaled), normal(KEY, (KNOWN, 2))

    def entropy(net: Any) -> float:
        mean, std = gaussian(net, table.states)
        return -density(net, table.states, mean + std * noise).mean()

    def loss(net: Any) -> float:
        recorded = np.arctanh(np.clip(table.actions, -0.999, 0.999))
        return -density(net, table.states, recorded).mean() - weight * entropy(net)

    nets = state.behaviour, after.behaviour
    check_step(loss, metrics["behaviour_loss"], *nets, after.optimisers["behaviour"], 0.03, 5e-5)
    before = entropy(numbers(state.behaviour))
    assert np.isclose(metrics["behaviour_entropy"], before, rtol=1e-4)
    # The weight falls while there is more entropy than -2, the negative number of actions, and never below 0.
    assert np.isclose(oracles.adam_gradient(after.optimisers["entropy"])[0], before + 2, rtol=1e-4)
    assert np.isclose(after.entropy_weight, max(weight - 0.03 * np.sign(before + 2), 0), atol=1e-6)
    assert differing(parts(state), parts(after)) == {"behaviour", "entropy"}


def test_the_weight_of_entropy_grows_while_there_is_too_little_of_it() -> None:
    algorithm, batch, state = begin()
    certain = eqx.tree_at(lambda s: s.behaviour.net.layers[-1].bias, state, jnp.array([0.0, 0.0, -9.0, -9.0]))
    assert float(update(algorithm, certain, batch, stage=0)[0].entropy_weight) > 1.0


def test_without_the_floor_the_behaviour_is_likelihood_alone() -> None:
    algorithm, batch, state = begin(behaviour_entropy=False)
    after, metrics = update(algorithm, state, batch, stage=0)
    _, with_no_weight = update(begin()[0], state, batch, stage=0)
    assert float(state.entropy_weight) == float(after.entropy_weight) == 0.0
    assert metrics["behaviour_loss"] == with_no_weight["behaviour_loss"]


def test_actions_at_their_very_bounds_are_taken_a_thousandth_inside_them() -> None:
    data = walks(actions=np.where(np.random.default_rng(0).random((ROWS, 2)) < 0.5, LOW, HIGH))
    algorithm, batch, state = begin(data, behaviour_entropy=False)
    after, metrics = update(algorithm, state, batch, stage=0)
    table = constrained.rows(data, 0.9)
    inside = np.arctanh(0.999 * np.sign(table.actions))
    assert np.isclose(
        metrics["behaviour_loss"], -density(numbers(state.behaviour), table.states, inside).mean(), rtol=1e-3
    )
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(after.behaviour))


@pytest.mark.parametrize(("asked", "given"), [(2, 2), (0, 3)])
def test_the_behaviour_comes_first_and_for_as_long_as_asked(asked: int, given: int) -> None:
    stages = begin(behaviour_steps=asked)[0].stages
    assert [(set(stage.parts), stage.steps) for stage in stages] == [({"behaviour"}, given), ({"value", "policy"}, 3)]


# -- the second stage against NumPy --------------------------------------------------------------------------


class Oracle:
    """The losses of actor and critic with the networks of two states around an update."""

    def __init__(self, before: State, after: State, table: Rows, config: Config):
        self.before, self.after = (
            {name: numbers(where(each)) for name, where in WHERE.items()} for each in (before, after)
        )
        self.table, self.config, self.started = table, config, int(before.step) >= config.warmup_steps
        self.target_key, self.policy_key = jax.random.split(KEY)

    def leave(self, policy: Any, states: np.ndarray, key: jax.Array) -> tuple[np.ndarray, np.ndarray]:
        """The first sampled action, and the mean over all samples of log pi - log b, with both whole densities."""
        mean, std = gaussian(policy, states)
        inner = mean + std * normal(key, (self.config.samples, KNOWN, 2))
        ratios = density(policy, states, inner) - density(self.before["behaviour"], states, inner)
        return np.tanh(inner[0]), ratios.mean(axis=0)

    def next_values(self) -> np.ndarray:
        following = self.table.following
        return both(self.before["target"], following, self.leave(self.before["policy"], following, self.target_key)[0])

    def targets(self) -> np.ndarray:
        _, divergences = self.leave(self.before["policy"], self.table.following, self.target_key)
        penalty = self.config.divergence_weight * divergences if self.config.value_penalty else 0.0
        return self.table.targets(self.next_values().min(axis=0) - penalty)

    def policy_loss(self, net: Any) -> float:
        actions, divergences = self.leave(net, self.table.states, self.policy_key)
        values = both(self.after["value"], self.table.states, actions).min(axis=0)
        return (self.config.divergence_weight * divergences - self.started * values).mean()


@pytest.mark.parametrize(
    ("step", "settings"),
    [(1, {}), (0, {}), (1, {"value_penalty": False}), (1, {"observation_scaling": True})],
    ids=["value penalty", "warm-up", "policy regularisation", "scaled"],
)
def test_actor_and_critic_take_an_adam_step_down_their_losses(step: int, settings: dict[str, Any]) -> None:
    algorithm, batch, state = begin(step=step, **settings)
    after, metrics = update(algorithm, state, batch)
    table = constrained.rows(walks(), 0.9, settings.get("observation_scaling", False))
    oracle = Oracle(state, after, table, algorithm.config)
    targets = oracle.targets()

    def value_loss(net: Any) -> float:
        return constrained.value_loss(net, table, targets)

    check_step(value_loss, metrics["value_loss"], state.value, after.value, after.optimisers["value"], 0.02, 5e-5)
    nets = state.agent.policy, after.agent.policy
    check_step(oracle.policy_loss, metrics["policy_loss"], *nets, after.optimisers["policy"], 0.01, 5e-5)
    _, divergences = oracle.leave(oracle.before["policy"], table.states, oracle.policy_key)
    assert np.isclose(metrics["divergence"], divergences.mean(), rtol=1e-4)
    assert np.isclose(metrics["value"], both(oracle.before["value"], table.states, table.actions).mean(), rtol=1e-5)
    assert moved_by(0.3, state.target, after.value, after.target)
    assert same((state.agent.scaling, state.agent.actions), (after.agent.scaling, after.agent.actions))
    assert int(after.step) == step + 1


def test_the_batch_can_tell_a_right_update_from_a_wrong_one() -> None:
    """Either network is the smaller one somewhere, and the divergence is no small thing."""
    algorithm, batch, state = begin()
    oracle = Oracle(state, update(algorithm, state, batch)[0], constrained.rows(walks(), 0.9), algorithm.config)
    assert 2 < oracle.next_values().argmin(axis=0).sum() < KNOWN - 2
    actions, divergences = oracle.leave(oracle.before["policy"], oracle.table.states, oracle.policy_key)
    assert 2 < both(oracle.after["value"], oracle.table.states, actions).argmin(axis=0).sum() < KNOWN - 2
    assert np.abs(divergences).mean() > 0.5


def test_a_policy_at_the_bounds_still_feels_the_divergence() -> None:
    algorithm, batch, state = begin(step=0)
    far = eqx.tree_at(lambda s: s.agent.policy.net.layers[-1].bias, state, jnp.array([12.0, -12.0, 0.0, 0.0]))
    slopes = oracles.adam_gradient(update(algorithm, far, batch)[0].optimisers["policy"])
    assert all(np.isfinite(slope).all() for slope in slopes)
    assert np.abs(slopes[-1][:2]).min() > 0.1


# -- who learns from what ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "step", "settings", "expected"),
    [
        ("behaviour", 1, {}, {"value", "policy", "target"}),
        ("behaviour", 1, {"value_penalty": False}, {"policy"}),
        ("value", 1, {}, {"policy", "target"}),
        ("value", 0, {}, {"target"}),
        ("policy", 1, {}, {"value", "target"}),
        ("target", 1, {}, {"value", "policy"}),
        ("target", 0, {}, {"value"}),
    ],
)
def test_a_part_depends_on_just_these(part: str, step: int, settings: dict[str, Any], expected: set[str]) -> None:
    algorithm, batch, state = settled(step=step, **settings)
    one, other = (update(algorithm, each, batch)[0] for each in (state, shaken(state, WHERE[part])))
    assert differing(parts(one), parts(other)) - {part} == expected


def test_the_behaviour_stands_still_while_actor_and_critic_learn() -> None:
    algorithm, batch, state = settled()
    assert differing(parts(state), parts(update(algorithm, state, batch)[0])) == {"value", "policy", "target"}


@pytest.mark.parametrize(
    ("change", "stage", "expected"),
    [
        ({"actions": np.random.default_rng(5).uniform(LOW, HIGH, (ROWS, 2))}, 0, {"behaviour"}),
        ({"rewards": np.arange(ROWS)}, 0, set()),
        ({"rewards": np.arange(ROWS)}, 1, {"value", "policy", "target"}),
    ],
    ids=["actions, first stage", "rewards, first stage", "rewards, second stage"],
)
def test_the_behaviour_reads_no_rewards(change: dict[str, Any], stage: int, expected: set[str]) -> None:
    algorithm, batch, state = settled()
    other = begin(walks(**change))[1]
    states = [update(algorithm, state, each, stage)[0] for each in (batch, other)]
    assert differing(*map(parts, states)) == expected


def test_there_are_as_many_updates_without_q_as_the_warm_up_says() -> None:
    algorithm, batch, state = begin(step=0, warmup_steps=2)
    learned = lambda *given: update(algorithm, *given)[0]
    assert constrained.reading_rewards(learned, state, batch) == [False, False, True]


def test_a_timeout_bootstraps_and_a_terminal_does_not() -> None:
    algorithm, batch, state = settled()
    constrained.check_bootstrap(lambda rows: parts(update(algorithm, state, rows)[0]), batch)


# -- acting ----------------------------------------------------------------------------------------------


def test_it_acts_with_the_tanh_of_the_mean() -> None:
    agent = begin()[2].agent
    mean, _ = gaussian(numbers(agent.policy), walks().observations.astype(np.float64))
    actions, memory = compiled.act(agent, walks().observations, ())
    assert memory == ()
    assert np.allclose(actions, np.tanh(mean) * [1.5, 2.5] + [-0.5, 2.5], atol=1e-4)


def test_actions_never_leave_their_bounds_and_reach_both() -> None:
    check_bounds(begin()[2].agent, lambda agent: agent.policy)


# -- settings --------------------------------------------------------------------------------------------


def test_the_defaults_are_the_originals() -> None:
    config = Config()
    assert (config.divergence_weight, config.samples, config.value_penalty) == (0.1, 4, True)
    assert (config.behaviour_steps, config.warmup_steps) == (300_000, 20_000)
    assert config.behaviour_learning_rate == 5e-4
    assert (config.value_learning_rate, config.policy_learning_rate) == (1e-3, 3e-4)
    assert (config.value_hidden, config.policy_hidden) == ((300, 300), (200, 200))
    assert (config.target_rate, config.discount, config.batch_size) == (0.005, 0.99, 256)
    assert ALGORITHMS["brac"].conventions == {"return-range": "recorded"}


@pytest.mark.parametrize(
    ("name", "value"),
    [("divergence_weight", -0.1), ("samples", 0), ("warmup_steps", -1), ("behaviour_steps", -1), ("target_rate", 0.0)],
)
def test_a_setting_out_of_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(WaypostError, match=rf"^{name} must .+, got "):
        Config(**{name: value})


def test_presets_are_the_papers_data_sets_and_the_t_maze() -> None:
    for name, (steps, config) in constrained.presets_of("brac", Config).items():
        if name.startswith("paper/"):
            assert (steps, config.behaviour_steps, config.warmup_steps) == (500_000, 300_000, 20_000)
