"""A pytree as named arrays, for a checkpoint or a policy file."""

from __future__ import annotations

from typing import Any, TypeVar

import jax
import numpy as np

from waypost.errors import WaypostError

Tree = TypeVar("Tree")


def flatten(tree: Any, prefix: str) -> dict[str, np.ndarray]:
    """The arrays of a pytree, named by their path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {prefix + jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def unflatten(like: Tree, arrays: dict[str, np.ndarray], prefix: str) -> Tree:
    """A pytree like `like`, with the arrays of these names; shapes and types must be the same."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    found = []
    for path, leaf in leaves:
        name = prefix + jax.tree_util.keystr(path)
        if name not in arrays:
            raise WaypostError(f"{name} is missing from the saved file, which has other settings")
        if arrays[name].shape != leaf.shape:
            raise WaypostError(f"{name} is saved as {arrays[name].shape}, expected {leaf.shape}: other settings")
        if arrays[name].dtype != leaf.dtype:
            raise WaypostError(f"{name} is saved as {arrays[name].dtype}, expected {leaf.dtype}: other settings")
        found.append(arrays[name])
    return jax.tree_util.tree_unflatten(structure, found)
