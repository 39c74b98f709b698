"""The policies that act in the replicas: small networks stored with the package, run in NumPy.

Each file `weights/BODY.safetensors` holds the actors of one or a few SAC trainings after several numbers of steps, as
tensors `STEPS/w0`, `STEPS/b0`, ... `STEPS/b2` of a ReLU network from the observation to (mean, log_std).
`scripts/train_behaviours.py` trained them.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files
from typing import NamedTuple

import numpy as np
from safetensors.numpy import load_file

from waypost.errors import WaypostError
from waypost.types import Floats


class Layer(NamedTuple):
    """One affine map; the weights are (outputs, inputs)."""

    weights: Floats
    biases: Floats

    def __call__(self, inputs: Floats) -> Floats:
        # Not a matrix product: its library splits the sum over any number of threads, so the last bits of an action,
        # and in time the whole episode, would depend on the machine.
        return np.einsum("oi,...i->...o", self.weights, inputs) + self.biases


class Behaviour(NamedTuple):
    """An actor: a Gaussian before tanh, with mean and log standard deviation from a network of three layers."""

    layers: tuple[Layer, Layer, Layer]

    @property
    def action_size(self) -> int:
        return len(self.layers[-1].biases) // 2

    def act(self, observations: Floats, noise: Floats | None) -> Floats:
        """tanh(mean + std * noise), or tanh(mean) without noise; a row's action does not depend on other rows."""
        first, second, last = self.layers
        hidden = np.maximum(second(np.maximum(first(observations), 0)), 0)
        mean, log_std = np.split(last(hidden), 2, axis=-1)
        if noise is not None:
            mean = (mean + np.exp(np.clip(log_std, -5, 2)) * noise).astype(np.float32, copy=False)
        return np.tanh(mean)


@cache
def behaviour(body: str, steps: int) -> Behaviour:
    """The actor of a body after that many steps of training."""
    tensors = _tensors(body)

    def layer(i: int) -> Layer:
        weights, biases = tensors[f"{steps:07d}/w{i}"], tensors[f"{steps:07d}/b{i}"]
        return Layer(np.ascontiguousarray(weights.T, np.float32), np.asarray(biases, np.float32))

    try:
        return Behaviour((layer(0), layer(1), layer(2)))
    except KeyError:
        stored = sorted({int(name.split("/")[0]) for name in tensors})
        raise WaypostError(f"no behaviour of {body} after {steps} steps is stored; there are {stored}") from None


@cache
def _tensors(body: str) -> dict[str, Floats]:
    resource = files("waypost.recording") / "weights" / f"{body}.safetensors"
    if not resource.is_file():
        raise WaypostError(f"the behaviours of {body} are missing from this installation of Waypost; install it again")
    with as_file(resource) as path:
        return load_file(path)
