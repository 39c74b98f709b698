"""Mixed actions: the product of a choice and a number, against NumPy."""

from __future__ import annotations

from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_every import tiny

from waypost.agents import ALGORITHMS, able
from waypost.agents.actions import Mixed, Product, inside, policy
from waypost.agents.agent import Spec
from waypost.agents.nets import Continuous, Discrete
from waypost.data.dataset import Dataset
from waypost.errors import WaypostError

KEY = jax.random.key(0)
# A gear, a heater, a valve and a pump.
CHOICES = ((1.0, 2.0, 5.0), (), (0.0, 1.0), ())
ACTIONS = Mixed([1.0, 0.0, 0.0, -2.0], [5.0, 100.0, 1.0, 2.0], CHOICES)
ROWS = np.array([[1, 50, 0, 2.0], [5, 100, 1, -1.0], [2, 25, 0, 0.0]], np.float32)
X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
LEARNERS = ("por", "waypoint", "bc", "bc10", "iql", "rvs-r", "rvs-g")


SCALED = np.array([[1, 0, 0, 0.0, 1, 0, 1.0], [0, 0, 1, 1.0, 0, 1, -0.5], [0, 1, 0, -0.5, 1, 0, 0.0]], np.float32)


@cache
def head(squashed: bool = False) -> Product:
    found = jax.jit(lambda key: policy(4, (8,), ACTIONS, key, squashed))(KEY)
    assert isinstance(found, Product)
    return eqx.tree_at(lambda net: net.log_std, found, np.array([0.3, -1.2], np.float32))


def mixed(rows: int = 48) -> Dataset:
    rng = np.random.default_rng(0)
    actions = np.column_stack([rng.choice([1, 2, 5], rows), rng.uniform(0, 100, rows), rng.integers(0, 2, rows)])
    return Dataset.from_arrays(
        rng.normal(size=(rows, 3)),
        rng.normal(size=(rows, 3)),
        actions,
        rng.normal(size=rows),
        timeouts=np.arange(rows) % 8 == 7,
        action_choices=(("1", "2", "5"), (), ("closed", "open")),
    )


def test_a_row_is_a_one_at_each_choice_and_scaled_numbers() -> None:
    scale = eqx.filter_jit(ACTIONS.scale)
    assert np.array_equal(scale(ROWS), SCALED)
    assert ACTIONS.width == SCALED.shape[1]
    assert np.array_equal(eqx.filter_jit(ACTIONS.action)(SCALED), ROWS)
    assert np.array_equal(scale(np.stack([ROWS, ROWS])), np.stack([SCALED, SCALED]))


def test_numbers_end_at_their_bounds_and_the_largest_entry_is_chosen() -> None:
    acted = eqx.filter_jit(ACTIONS.action)(np.array([[0.2, 0.1, 0.3, 7.0, -3.0, -4.0, -9.0]], np.float32))
    assert np.asarray(acted).tolist() == [[5.0, 100.0, 0.0, -2.0]]


@pytest.mark.parametrize("squashed", [False, True])
def test_the_likelihood_is_the_product_of_the_parts(squashed: bool) -> None:
    net, outcomes = head(squashed), SCALED.astype(np.float64)
    outputs = np.asarray(eqx.filter_jit(net.net)(X), np.float64)
    expected, apart = np.zeros(3), np.zeros(3)
    for first, last in ((0, 3), (4, 6)):
        logits = outputs[:, first:last]
        chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        expected += np.log(chances[outcomes[:, first:last] == 1])
    for place, log_std in ((3, 0.3), (6, -1.2)):
        mean = np.tanh(outputs[:, place]) if squashed else outputs[:, place]
        std = np.exp(log_std)
        numbers = -0.5 * ((outcomes[:, place] - mean) / std) ** 2 - np.log(std * np.sqrt(2 * np.pi))
        expected += numbers
        apart -= numbers
    np.testing.assert_allclose(eqx.filter_jit(net.log_likelihood)(X, SCALED), expected, rtol=1e-5)
    np.testing.assert_allclose(eqx.filter_jit(net.discrete_log_likelihood)(X, SCALED), expected + apart, rtol=1e-4)


def test_every_part_learns() -> None:
    gradient = jax.jit(jax.grad(lambda pi: -pi.log_likelihood(X, SCALED).sum()))(head())
    assert (np.asarray(gradient.net.layers[-1].bias) != 0).all()
    assert (np.asarray(gradient.log_std) != 0).all()


def test_samples_are_as_frequent_as_they_are_likely() -> None:
    net, x = head(), X[:1]
    draw = jax.jit(lambda keys: net.near(x, jax.vmap(net.noise)(keys)))
    drawn = np.asarray(draw(jax.random.split(KEY, 20_000)))
    outputs = np.asarray(eqx.filter_jit(net.net)(x))[0]
    for part in (slice(0, 3), slice(4, 6)):
        chances = np.exp(outputs[part]) / np.exp(outputs[part]).sum()
        np.testing.assert_allclose(drawn[:, part].mean(axis=0), chances, atol=0.015)
    np.testing.assert_allclose(drawn[:, [3, 6]].mean(axis=0), outputs[[3, 6]], atol=0.05)
    np.testing.assert_allclose(drawn[:, [3, 6]].std(axis=0), np.exp([0.3, -1.2]), rtol=0.03)
    likeliest = jax.jit(lambda x: (net.near(x, jnp.zeros(7)), net.mode(x)))(x)
    assert np.array_equal(*likeliest)


def test_only_numbers_are_moved_inside_their_bounds() -> None:
    row = np.array([[1.0, 0, 0, 1.0, 0, 1, -1.0]], np.float32)
    assert np.asarray(inside(ACTIONS, row, 0.25)).tolist() == [[1, 0, 0, 0.75, 0, 1, -0.75]]
    assert np.array_equal(inside(Discrete(7), row, 0.25), row)
    assert np.array_equal(inside(Continuous([0.0], [1.0]), row, 0.25), np.clip(row, -0.75, 0.75))


def test_several_choices_without_any_number() -> None:
    actions = Mixed([0.0, 0.0], [2.0, 1.0], ((0.0, 1.0, 2.0), (0.0, 1.0)))
    every = np.array([[a, b] for a in range(3) for b in range(2)], np.float32)

    def measured(key: Any, rows: Any) -> Any:
        net: Any = policy(4, (8,), actions, key)
        assert net.log_std.shape == (0,)
        scaled = actions.scale(rows)
        return net.log_likelihood(jnp.tile(X[:1], (6, 1)), scaled), actions.action(scaled)

    likelihoods, again = jax.jit(measured)(KEY, every)
    assert np.exp(likelihoods).sum() == pytest.approx(1.0, rel=1e-5)
    assert np.array_equal(again, every)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_those_that_learn_by_likelihood_take_mixed_actions_and_the_others_say_so(name: str) -> None:
    data = mixed()
    if name not in LEARNERS:
        words = rf"{name} cannot learn .* mixed \(2 discrete of 3 and 2 .* these can: {', '.join(LEARNERS)}"
        with pytest.raises(WaypostError, match=words):
            able(data, name)
        return
    chosen, config = able(data, name).load(), tiny(name)
    arrays, spec = chosen.prepare(config, data)
    assert Spec.from_json(spec.to_json()) == spec
    algorithm = chosen(config, spec, 1)

    def updated(key: Any) -> Any:
        state = algorithm.init(key)
        columns = {column: jnp.asarray(values) for column, values in arrays.items()}
        rows = jnp.arange(5)
        for stage in algorithm.stages:
            state, _ = algorithm.update(stage, state, algorithm.batch(columns, rows, key), key)
        return state.agent.act(jnp.zeros((6, 3)), state.agent.start(6, jnp.zeros(3)))[0]

    # Nothing is compiled: that numbers of the right shape come out is what each algorithm adds.
    assert jax.eval_shape(updated, KEY).shape == (6, 3)
