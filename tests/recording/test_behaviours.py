"""The stored policies act as the networks they were trained as."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import waypost
from waypost.envs.locomotion import BODIES
from waypost.errors import WaypostError
from waypost.recording.behaviours import Behaviour, Layer, behaviour
from waypost.recording.replicas import REPLICAS

SIZES = {body.name: (len(body.observation_names), body.actions) for body in BODIES.values()} | {"ant": (29, 8)}


def oracle(policy: Behaviour, observation: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """The same in double precision, with matrix products."""
    values = observation.astype(np.float64)
    for number, (weights, biases) in enumerate(policy.layers):
        values = weights.astype(np.float64) @ values + biases
        values = values if number == 2 else np.maximum(values, 0)
    mean, log_std = np.split(values, 2)
    return np.tanh(mean + np.exp(np.clip(log_std, -5, 2)) * noise)


@pytest.mark.parametrize("body", SIZES)
def test_a_behaviour_acts_as_its_network(body: str) -> None:
    observation_size, action_size = SIZES[body]
    steps = {"hopper": 160_000, "halfcheetah": 1_350_000, "walker2d": 300_000, "ant": 2_600_000}[body]
    policy = behaviour(body, steps)
    rng = np.random.default_rng(0)
    for _ in range(20):
        observation = rng.normal(size=observation_size).astype(np.float32)
        noise = rng.normal(size=action_size).astype(np.float32)
        action = policy.act(observation, noise)
        assert action.dtype == np.float32
        assert action == pytest.approx(oracle(policy, observation, noise), abs=1e-5)
        assert policy.act(observation, None) == pytest.approx(oracle(policy, observation, 0 * noise), abs=1e-5)


def test_the_spread_of_actions_is_bounded() -> None:
    zero = np.zeros((2, 1), np.float32)

    def policy(log_std: float) -> Behaviour:
        last = Layer(zero, np.array([0, log_std], np.float32))
        return Behaviour((Layer(zero[:1], zero[:1, 0]), Layer(zero[:1], zero[:1, 0]), last))

    one = np.ones(1, np.float32)
    assert policy(9.0).act(one, one / 10) == pytest.approx(np.tanh(np.exp(2) / 10))
    assert policy(-9.0).act(one, one) == pytest.approx(np.tanh(np.exp(-5)))


def test_every_behaviour_a_replica_asks_for_is_stored() -> None:
    keys = [scene.key.split("/") for replica in REPLICAS.values() for _, scene in replica.stages]
    asked = {(body, int(steps)) for body, steps, *_ in keys if body != "point" and steps != "0"}
    assert len(asked) == 9 + 9 + 13 + 1
    for body, steps in asked:
        policy = behaviour(body, steps)
        assert (policy.layers[0].weights.shape[1], policy.action_size) == SIZES[body]


def test_the_files_are_small() -> None:
    files = list((Path(waypost.__file__).parent / "recording" / "weights").glob("*.safetensors"))
    assert len(files) == 4
    assert sum(file.stat().st_size for file in files) < 5_000_000


def test_what_is_not_stored_is_named() -> None:
    with pytest.raises(WaypostError, match=r"no behaviour of hopper after 7 steps is stored; there are \[20000, 40000"):
        behaviour("hopper", 7)
    with pytest.raises(WaypostError, match="the behaviours of gecko are missing"):
        behaviour("gecko", 7)
