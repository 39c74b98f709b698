"""A causal transformer once more, in float64 NumPy: a token at a time, with plain loops over rows, heads and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

Masks = Sequence[np.ndarray] | None
"""What dropout multiplies by, in the order it is met; None: nothing is dropped."""


def norm(part: Any, x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * part.gain + part.offset


def layer(part: Any, x: np.ndarray) -> np.ndarray:
    return x @ (part.weight.T if part.transposed else part.weight) + part.bias


def attended(block: Any, x: np.ndarray, real: np.ndarray, mask: np.ndarray | float) -> np.ndarray:
    """What each token gathers from the real ones up to itself."""
    rows, tokens, width = x.shape
    size = width // block.heads
    read = layer(block.attention[0], norm(block.attention_norm, x))
    gathered = np.zeros_like(x)
    for row in range(rows):
        for head in range(block.heads):
            queries, keys, values = (
                read[row, :, part * width + head * size : part * width + (head + 1) * size] for part in range(3)
            )
            for token in range(tokens):
                seen = [other for other in range(token + 1) if real[row, other]]
                if not seen:
                    continue  # a padded token before the first real one: nobody asks what becomes of it
                scores = np.array([queries[token] @ keys[other] for other in seen]) / np.sqrt(size)
                weights = np.exp(scores - scores.max())
                weights /= weights.sum()
                if isinstance(mask, np.ndarray):
                    weights = weights * mask[row, head, token, seen]
                gathered[row, token, head * size : (head + 1) * size] = weights @ values[seen]
    return layer(block.attention[1], gathered)


def transformer(net: Any, tokens: np.ndarray, real: np.ndarray, masks: Masks = None) -> np.ndarray:
    """Of networks with NumPy leaves."""
    factors: list[Any] = [1.0] * (1 + 3 * len(net.blocks)) if masks is None else list(masks)
    x = tokens * factors[0]
    for i, block in enumerate(net.blocks):
        on_weights, on_gathered, on_added = factors[3 * i + 1 : 3 * i + 4]
        x = x + attended(block, x, real, on_weights) * on_gathered
        inner = np.maximum(layer(block.layers[0], norm(block.layers_norm, x)), 0)
        x = x + layer(block.layers[1], inner) * on_added
    return norm(net.norm, x)


def masks(
    key: jax.Array, rate: float, rows: int, tokens: int, width: int, heads: int, layers: int, asked: Any
) -> Masks:
    """What dropout draws for a transformer whose last block gives only the tokens asked for; 1 elsewhere."""
    keys = jax.random.split(key, 1 + 3 * layers)
    shapes: list[tuple[int, ...]] = [(rows, tokens, width)]
    shapes += [(rows, heads, tokens, tokens), (rows, tokens, width), (rows, tokens, width)] * layers
    found = []
    for i, (each, shape) in enumerate(zip(keys, shapes, strict=True)):
        mask = np.ones(shape)
        axis = len(shape) - 2
        part = (slice(None),) * axis + (asked,) if i > 3 * (layers - 1) else ...
        kept = np.asarray(jax.random.bernoulli(each, 1 - rate, mask[part].shape))
        mask[part] = kept / (1 - rate)
        found.append(mask)
    return found
