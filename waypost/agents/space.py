"""The coordinates of a waypoint: some directions of the state, or all of it, and the way back to a state."""

from __future__ import annotations

from typing import Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from waypost.agents.agent import Array, Spec
from waypost.agents.nets import Scaling

Form = Literal["state", "displacement"]
"""What a waypoint says where every column is a coordinate: the state to go to, or how far it is."""


class Projection(eqx.Module):
    """Projection of the scaled state onto some directions."""

    directions: Array
    """(columns, coordinates)."""
    lift: Array
    """(coordinates, columns): back to the state with these coordinates and zero elsewhere."""

    def __call__(self, scaled: Array) -> Array:
        return scaled @ self.directions


class Space(eqx.Module):
    """The coordinates of a waypoint: directions of the scaled state, or all of it; never trained."""

    scaling: Scaling
    """Of observations."""
    way: Scaling
    """Of the coordinates of a waypoint."""
    projection: Projection | None
    """None = every column is a coordinate."""
    form: Form = eqx.field(static=True)

    def coordinates(self, observations: Array) -> Array:
        """Coordinates of a state: what V and the guide read."""
        scaled = self.scaling(observations)
        return scaled if self.projection is None else self.projection(scaled)

    def rest(self, observations: Array) -> Array:
        """The scaled state without its coordinates; all of it if every column is a coordinate."""
        scaled = self.scaling(observations)
        return scaled if self.projection is None else scaled - self.projection(scaled) @ self.projection.lift

    def encode(self, observations: Array, goals: Array) -> Array:
        """The displacement from states to goals, as networks see it."""
        if self.projection is not None:
            return self.way(self.projection((goals - observations) / self.scaling.std))
        return self.way(goals - observations if self.form == "displacement" else goals)

    def decode(self, observations: Array, encoded: Array) -> Array:
        """The states that encoded displacements lead to; outside the coordinates they do not change."""
        way = self.way.undo(encoded)
        if self.projection is not None:
            return observations + (way @ self.projection.lift) * self.scaling.std
        return observations + way if self.form == "displacement" else way


def space_of(spec: Spec, form: Form, columns: tuple[int, ...] | None = None) -> Space:
    """The coordinates of a waypoint from the spec's statistics, for all columns or some."""
    projection = None
    if "waypoint_directions" in spec.statistics:
        shape = (spec.observation_size, len(spec.statistics["waypoint_mean"]))
        directions = np.asarray(spec.statistics["waypoint_directions"], np.float32).reshape(shape)
        lift = np.asarray(spec.statistics["waypoint_lift"], np.float32).reshape(shape[::-1])
        projection = Projection(jnp.asarray(directions), jnp.asarray(lift))
    return Space(spec.scaling("observation", columns), spec.scaling("waypoint", columns), projection, form)
