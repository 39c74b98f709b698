"""A causal transformer as in GPT-2: every token attends to itself and to those before it, never ahead."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp

from waypost.agents.nets import LayerNorm, Linear, dropout

Array = jax.Array

SPREAD = 0.02
"""Standard deviation of the initial weights; biases start at 0."""
HIDDEN = -1e9
"""Attention score of a masked token; finite, so that a token that sees nothing does not become NaN."""
EVERY = slice(None)


class Block(eqx.Module):
    """x + attention(norm(x)), then x + layers(norm(x)), with four times as many units between the two layers."""

    attention_norm: LayerNorm
    attention: tuple[Linear, Linear]
    """Tokens -> queries, keys and values, side by side; attention's result -> output."""
    layers_norm: LayerNorm
    layers: tuple[Linear, Linear]
    heads: int = eqx.field(static=True)

    def __init__(self, weights: Array, heads: int):
        """`weights` are the 12 square matrices, (12, width, width), of the four layers."""
        width = weights.shape[-1]
        read, write, widen, narrow = jnp.split(weights, (3, 4, 8))
        self.attention_norm, self.layers_norm = LayerNorm(width), LayerNorm(width)
        self.attention = (
            Linear(jnp.concatenate(read, axis=1), jnp.zeros(3 * width)),
            Linear(write[0], jnp.zeros(width)),
        )
        self.layers = (
            Linear(jnp.concatenate(widen, axis=1), jnp.zeros(4 * width)),
            Linear(jnp.concatenate(narrow, axis=0), jnp.zeros(width)),
        )
        self.heads = heads

    def __call__(self, x: Array, visible: Array, rate: float, drops: Sequence[Array | None], asked: slice) -> Array:
        """The tokens after the block, or only those `asked` for; `visible` is (rows, 1, tokens, tokens)."""
        (read, write), (widen, narrow) = self.attention, self.layers
        parts = jnp.split(read(self.attention_norm(x)), 3, axis=-1)
        queries, keys, values = (part.reshape(*x.shape[:2], self.heads, -1) for part in parts)
        queries, visible, x = queries[:, asked], visible[:, :, asked], x[:, asked]
        scores = jnp.einsum("rqhd,rkhd->rhqk", queries, keys) / queries.shape[-1] ** 0.5
        weights = dropout(jax.nn.softmax(jnp.where(visible, scores, HIDDEN)), rate, drops[0])
        gathered = jnp.einsum("rhqk,rkhd->rqhd", weights, values).reshape(x.shape)
        x = x + dropout(write(gathered), rate, drops[1])
        return x + dropout(narrow(jax.nn.relu(widen(self.layers_norm(x)))), rate, drops[2])


class Transformer(eqx.Module):
    """Blocks one after the other, and a final LayerNorm; tokens already include their positions."""

    blocks: tuple[Block, ...]
    norm: LayerNorm
    rate: float = eqx.field(static=True)
    """Dropout rate of tokens, attention weights and the outputs of blocks."""

    def __init__(self, width: int, layers: int, heads: int, rate: float, key: Array):
        weights = SPREAD * jax.random.normal(key, (layers, 12, width, width))
        self.blocks = tuple(Block(weights[layer], heads) for layer in range(layers))
        self.norm = LayerNorm(width)
        self.rate = rate

    def __call__(self, tokens: Array, real: Array, key: Array | None = None, asked: slice = EVERY) -> Array:
        """The tokens after all blocks, (rows, tokens, width), or only those `asked` for, which saves work.

        `real`, (rows, tokens), is False for padding, to which no token attends. Without a key there is no dropout.
        """
        count = 1 + 3 * len(self.blocks)
        drops = [None] * count if key is None else list(jax.random.split(key, count))
        earlier = jnp.tril(jnp.ones((tokens.shape[1], tokens.shape[1]), bool))
        visible = (earlier & real[:, None, :])[:, None]
        x = dropout(tokens, self.rate, drops[0])
        for i, block in enumerate(self.blocks, 1):
            last = i == len(self.blocks)
            x = block(x, visible, self.rate, drops[3 * i - 2 : 3 * i + 1], asked if last else EVERY)
        return self.norm(x)
