"""Gradient steps of the parts of an agent: gradient, optimiser, next state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax
import optax

Array = jax.Array
Net = TypeVar("Net")


def descend(
    optimiser: optax.GradientTransformation, state: optax.OptState, net: Net, gradient: Net
) -> tuple[Net, optax.OptState]:
    """One step of an optimiser: the network and the optimiser's state after it."""
    updates, state = optimiser.update(gradient, state, net)
    return optax.apply_updates(net, updates), state


class Descent:
    """The gradient steps of one update, each part with its own loss and its own optimiser."""

    def __init__(self, optimisers: Mapping[str, optax.GradientTransformation], states: Mapping[str, optax.OptState]):
        self.optimisers = optimisers
        self.states = dict(states)
        """States of the optimisers after the steps."""
        self.metrics: dict[str, Array] = {}
        """Each loss as PART_loss, and the metrics that the losses report."""

    def step(self, part: str, net: Net, loss: Callable[[Net], Any]) -> Net:
        """The network of a part after a step; the loss is a number, or a number and metrics to report."""

        def measured(net: Net) -> tuple[Array, dict[str, Array]]:
            found = loss(net)
            return found if isinstance(found, tuple) else (found, {})

        (self.metrics[f"{part}_loss"], seen), gradient = jax.value_and_grad(measured, has_aux=True)(net)
        self.metrics |= seen
        return self.follow(part, net, gradient)

    def follow(self, part: str, net: Net, gradient: Net) -> Net:
        """The network of a part after a step along a given gradient."""
        net, self.states[part] = descend(self.optimisers[part], self.states[part], net, gradient)
        return net
