"""Whether a training or an agent fits in memory, computed from shapes before anything is allocated."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.extend import core

from waypost.agents.agent import Algorithm
from waypost.agents.settings import COUNTER
from waypost.errors import WaypostError
from waypost.resources import available_memory


def check_room(tree: Any, copies: int) -> None:
    """Raise if this many copies of a tree of shapes exceed what this process may allocate."""
    needed = copies * sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
    _refuse(needed, "the networks", "use smaller ones (hidden, layers, width) or fewer seeds")


def check_update(program: core.ClosedJaxpr) -> None:
    """Raise if the largest product of an update alone exceeds what this process may allocate."""
    _refuse(_largest_product(program.jaxpr), "an update", "use a smaller batch_size, context or number of samples")


def check_steps(algorithm: Algorithm, log_every: int) -> None:
    """Raise if the steps overflow the counter, or if the rows drawn for a chunk do not fit."""
    total = sum(stage.steps for stage in algorithm.stages)
    if total > COUNTER:
        raise WaypostError(f"the steps of all stages must be {COUNTER} or fewer, got {total}")
    chunk = min(log_every, max(stage.steps for stage in algorithm.stages))
    rows, key = algorithm.config.batch_size * np.dtype(np.int32).itemsize, 8
    _refuse(chunk * (rows + key), f"the batches of {chunk} updates", "use a smaller log_every or batch_size")


def _refuse(needed: int, what: str, way_out: str) -> None:
    free = available_memory()
    if needed > free:
        raise WaypostError(f"{what} would take {needed / 1e9:.1f} GB of memory, {free / 1e9:.1f} GB is free; {way_out}")


def _largest_product(program: Any) -> int:
    """Bytes of the largest result of a matrix product; smaller operations around it may never be stored."""
    largest = 0
    for step in program.eqns:
        if step.primitive.name == "dot_general":
            largest = max(largest, *(each.aval.size * each.aval.dtype.itemsize for each in step.outvars))
        for inner in jax.tree.leaves(step.params, is_leaf=lambda each: isinstance(each, core.Jaxpr | core.ClosedJaxpr)):
            if isinstance(inner, core.ClosedJaxpr):
                inner = inner.jaxpr
            if isinstance(inner, core.Jaxpr):
                largest = max(largest, _largest_product(inner))
    return largest
