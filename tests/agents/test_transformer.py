"""The causal transformer: against NumPy, what each token can see, and dropout."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from transformer_oracle import masks, transformer

from waypost.agents.transformer import SPREAD, Transformer

ROWS, TOKENS, WIDTH, LAYERS, RATE = 3, 5, 4, 2, 0.4
KEY = jax.random.key(7)
STATES = slice(1, None, 2)


def redrawn(net: Any, seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: jnp.asarray(random.normal(0, 0.6, leaf.shape), jnp.float32), net)


@cache
def made(heads: int = 2, rate: float = RATE) -> Transformer:
    return redrawn(jax.eval_shape(lambda: Transformer(WIDTH, LAYERS, heads, rate, KEY)))


def given(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(ROWS, TOKENS, WIDTH)).astype(np.float32)


REAL = np.array([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1], [1, 1, 1, 0, 0]], bool)
"""A full row, one padded before and one padded behind."""


@partial(jax.jit, static_argnames="states")
def run(net: Transformer, tokens: Any, real: Any, key: Any = None, states: bool = False) -> jax.Array:
    return net(tokens, real, key, STATES if states else slice(None))


def oracle(net: Transformer, tokens: np.ndarray, **dropped: Any) -> np.ndarray:
    return transformer(jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), net), tokens, REAL, **dropped)


@pytest.mark.parametrize("heads", [1, 2])
def test_it_is_the_one_written_in_numpy(heads: int) -> None:
    net, tokens = made(heads=heads), given()
    assert np.allclose(run(net, tokens, REAL)[REAL], oracle(net, tokens)[REAL], rtol=1e-4, atol=1e-5)


def test_asking_for_some_tokens_gives_those_of_all() -> None:
    net, tokens = made(), given()
    some = run(net, tokens, REAL, states=True)
    assert some.shape == (ROWS, 2, WIDTH)
    assert np.allclose(some, run(net, tokens, REAL)[:, STATES], rtol=1e-5, atol=1e-6)


def test_no_token_sees_a_later_one_and_each_sees_all_before() -> None:
    net, tokens = made(), given()
    before = run(net, tokens, np.ones_like(REAL))
    for changed in range(TOKENS):
        other = tokens.copy()
        other[:, changed, 0] += 1
        moved = np.abs(run(net, other, np.ones_like(REAL)) - before).max(axis=(0, 2))
        assert (moved[:changed] == 0).all()
        assert (moved[changed:] > 1e-4).all()


def test_nobody_sees_padding() -> None:
    net, tokens = made(), given()
    other = np.where(REAL[..., None], tokens, 1e3).astype(np.float32)
    before, after = run(net, tokens, REAL), run(net, other, REAL)
    assert np.array_equal(before[REAL], after[REAL])
    assert np.isfinite(before).all()
    # The same numbers do matter where they are not padding.
    assert not np.allclose(run(net, tokens, ~REAL | REAL)[1, 2:], before[1, 2:], atol=1e-3)


def test_where_padding_lies_makes_no_difference() -> None:
    net, tokens = made(), given()
    before = run(net, tokens, REAL)[1, 2:]
    behind = np.roll(tokens, -2, axis=1)
    assert np.allclose(run(net, behind, np.roll(REAL, -2, axis=1))[1, :3], before, atol=1e-5)


def test_dropout_is_that_of_numpy_with_the_same_draws() -> None:
    net, tokens = made(), given()
    drawn = masks(KEY, RATE, ROWS, TOKENS, WIDTH, 2, LAYERS, STATES)
    ours, theirs = run(net, tokens, REAL, KEY, states=True), oracle(net, tokens, masks=drawn)[:, STATES]
    real = REAL[:, STATES]
    assert np.allclose(ours[real], theirs[real], rtol=1e-4, atol=1e-5)
    assert not np.allclose(ours[real], run(net, tokens, REAL, states=True)[real], atol=1e-2)


def test_nothing_is_dropped_without_a_key_or_without_a_rate() -> None:
    tokens, dropping, plain = given(), made(), made(rate=0.0)
    assert np.array_equal(run(dropping, tokens, REAL), run(plain, tokens, REAL, KEY))
    one, other = (run(dropping, tokens, REAL, jax.random.key(seed), states=True) for seed in (7, 8))
    assert not np.array_equal(one, other)


def test_it_starts_as_gpt_2_does() -> None:
    net = jax.jit(lambda: Transformer(64, 2, 1, 0.1, KEY))()
    for block in net.blocks:
        for part, shape in zip((*block.attention, *block.layers), ((1, 3), (1, 1), (1, 4), (4, 1)), strict=True):
            assert part.weight.shape == (64 * shape[0], 64 * shape[1])
            assert np.std(part.weight) == pytest.approx(SPREAD, rel=0.05)
            assert not part.bias.any()
        assert (block.attention_norm.gain == 1).all()
    first, second = (block.layers[0].weight for block in net.blocks)
    assert not np.allclose(first, second)
