"""Imagined episodes against loops over them, and what becomes of them in a judgement."""

from __future__ import annotations

from dataclasses import replace

import chain
import jax.numpy as jnp
import numpy as np
import pytest

from waypost.agents.agent import Agent, Array, Memory, Spec
from waypost.agents.bc import Config
from waypost.agents.nets import Scaling
from waypost.data.dataset import Dataset
from waypost.studies.judge import imagined
from waypost.studies.judge.imagined import Plant, explained, imagine, learn, model_updates
from waypost.studies.judge.judgement import Judged, Judgement, between
from waypost.studies.judge.judging import judge
from waypost.training.policy import Policy

DISCOUNT, FAST = 0.9, 0.3


class Cart(Agent):
    """A cart that goes as fast as it is pushed, each member a little differently; it may tip over on the way."""

    push: Array
    steps: Scaling

    def act(self, observations: Array, memory: Memory = ()) -> tuple[Array, Memory]:
        raise AssertionError

    def follow(self, observations: Array, actions: Array) -> tuple[Array, Array, Array]:
        place = observations[..., 0]
        return observations + self.push * actions, place * 2.0, 0.2 * jnp.abs(place)


class Pusher(Agent):
    """Pushes by what it has earned so far: it has a memory."""

    def start(self, episodes: int, goal: Array | None = None) -> Memory:
        return jnp.zeros(episodes) if goal is None else jnp.full(episodes, goal[0])

    def act(self, observations: Array, memory: Memory = ()) -> tuple[Array, Memory]:
        return (0.5 + 0.1 * memory)[:, None] - 0.2 * observations, memory

    def receive(self, memory: Memory, rewards: Array) -> Memory:
        return memory + rewards


class Along(Agent):
    """Pushes always the same way."""

    way: Array

    def act(self, observations: Array, memory: Memory = ()) -> tuple[Array, Memory]:
        return jnp.broadcast_to(self.way, (len(observations), 1)), memory


def record(episodes: int = 30, length: int = 20, seed: int = 0) -> Dataset:
    """A cart that is pushed at random between two walls; it earns by where it is."""
    rng = np.random.default_rng(seed)
    places = np.empty((episodes, length + 1), np.float32)
    pushes = rng.uniform(-1.0, 1.0, (episodes, length)).astype(np.float32)
    places[:, 0] = rng.uniform(-0.5, 0.5, episodes)
    for time in range(length):
        places[:, time + 1] = np.clip(places[:, time] + FAST * pushes[:, time], -2.0, 2.0)
    last = np.tile(np.arange(length) == length - 1, episodes)
    return Dataset.from_arrays(
        places[:, :-1].reshape(-1, 1),
        places[:, 1:].reshape(-1, 1),
        pushes.reshape(-1, 1),
        places[:, 1:].reshape(-1),
        np.zeros(episodes * length, bool),
        last,
        action_low=np.array([-1.0]),
        action_high=np.array([1.0]),
        name="cart",
    )


def pushing(way: float, dataset: Dataset) -> Policy:
    return Policy("bc", Config(), Spec.of(dataset), Along(np.float32([way])))


@pytest.fixture(scope="module")
def data() -> Dataset:
    return record()


@pytest.fixture(scope="module")
def plant(data: Dataset) -> Plant:
    rng = np.random.default_rng(1)
    weights = rng.multinomial(30, np.full(30, 1 / 30), 2).astype(np.float64)
    carts = Cart(np.float32([0.3, 0.2]), Scaling(np.zeros((2, 1)), np.full((2, 1), 0.1)))
    return Plant(carts, weights, 1.0, (np.float32([-1.0]), np.float32([1.0])), (-2.0, 1.5))


@pytest.mark.parametrize(("horizon", "goal"), [(0, None), (7, None), (7, [1.5]), (200, None)])
def test_values_are_those_of_a_loop_over_episodes(
    plant: Plant, data: Dataset, horizon: int, goal: list[float] | None
) -> None:
    def ending(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        return states[..., 0] + 10.0 * actions[..., 0]

    found = imagine(plant, Pusher(), data, DISCOUNT, horizon, ending, goal)
    starts = data.observations[data.episode_starts, 0]
    expected = np.zeros(2)
    for member, push in enumerate((0.3, 0.2)):
        for episode, place in enumerate(map(float, starts)):
            value, alive, memory = 0.0, 1.0, goal[0] if goal else 0.0
            for time in range(horizon):
                action = 0.5 + 0.1 * memory - 0.2 * place
                value += DISCOUNT**time * alive * min(max(2.0 * place, -2.0), 1.5)
                memory += 2.0 * place
                alive *= 1.0 - 0.2 * abs(place)
                place = min(max(place + push * action, -1.0), 1.0)
            value += DISCOUNT**horizon * alive * (place + 10.0 * (0.5 + 0.1 * memory - 0.2 * place))
            expected[member] += plant.weights[member, episode] * value / plant.weights[member].sum()
    # What is left after the last of very many steps is not worth imagining.
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=0.3 if horizon == 200 else 1e-4)


def test_only_some_first_states_are_used_where_there_are_many(
    plant: Plant, data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imagined, "STARTS", 3)
    seen: list[int] = []

    def ending(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        seen.append(states.shape[1])
        return np.ones(states.shape[:2])

    none = replace(plant, weights=np.zeros_like(plant.weights))
    np.testing.assert_allclose(imagine(none, Pusher(), data, DISCOUNT, 0, ending), 1.0)
    assert seen == [3]


def test_what_models_explain_is_measured_where_they_did_not_learn(plant: Plant, data: Dataset) -> None:
    found = explained(data, plant.models, plant.weights)
    steps = (data.next_observations - data.observations)[:, 0]
    errors = []
    for member, push in enumerate((0.3, 0.2)):
        for row in range(len(data)):
            if plant.weights[member, data.episode_of[row]] == 0:
                errors.append(float(push * data.require("actions")[row, 0] - steps[row]) ** 2)
    assert found == pytest.approx(1.0 - np.mean(errors) / steps.var(), rel=1e-4)
    assert found < 0.99
    assert explained(data, plant.models, np.ones_like(plant.weights)) == 0.0


def test_a_model_learns_a_plant_that_can_be_predicted(data: Dataset) -> None:
    learned = learn(data, members=2, steps=300)
    assert learned.known
    assert learned.explained > 0.97
    value = imagine(learned, pushing(1.0, data).agent, data, DISCOUNT, 5, lambda s, a: np.zeros(s.shape[:2]))
    starts = data.observations[data.episode_starts, 0]
    earned = [sum(DISCOUNT**time * (place + FAST * (time + 1)) for time in range(5)) for place in starts]
    expected = learned.weights @ earned / learned.weights.sum(axis=1)
    np.testing.assert_allclose(value, expected, atol=0.25)
    assert not replace(learned, explained=0.89).known


def test_models_of_a_plant_that_cannot_be_predicted_stop_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imagined, "TRIED", 30)
    monkeypatch.setattr(imagined, "HOPELESS", 0.9)
    seen: list[int] = []
    learned = learn(chain.record(60), members=2, steps=100, progress=lambda done, _: seen.append(done))
    assert seen == [10, 20, 30]
    assert learned.explained < imagined.HOPELESS


def test_models_learn_for_longer_than_evaluators_up_to_a_limit() -> None:
    assert model_updates(100) == 400
    assert model_updates(10_000) == imagined.MOST_UPDATES


# -- in a judgement --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found(data: Dataset) -> Judgement:
    policies = [replace(pushing(way, data), algorithm=name) for way, name in ((0.2, "right"), (-0.2, "left"))]
    options = {"members": 5, "steps": 60, "hidden": (8,), "discount": DISCOUNT, "horizon": 20}
    return judge(policies, data, **options)


def of(found: Judgement, name: str) -> Judged:
    return next(each for each in found.candidates if each.name == name)


def test_the_value_is_the_middle_of_both_estimates_and_the_interval_reaches_both(found: Judgement) -> None:
    assert found.explained is not None
    assert found.explained > 0.9
    for record in found.to_json()["candidates"]:
        value, fitted, alone = record["value"], record["fitted"], record["imagined"]
        if record["name"] == "data":
            assert alone is None
            assert fitted == pytest.approx(value["value"])
            continue
        assert value["value"] == pytest.approx((fitted + alone) / 2.0)
        assert abs(fitted - alone) > 0.1
        assert value["low"] < min(fitted, alone)
        assert max(fitted, alone) < value["high"]


def test_differences_reach_from_one_estimate_to_the_other(found: Judgement) -> None:
    right, left, data = (of(found, name) for name in ("right", "left", "data"))
    apart = between(right, left)
    assert right.imagined is not None
    assert left.imagined is not None
    alone = right.imagined - left.imagined
    fitted = alone - 2.0 * (right.gap - left.gap)
    assert apart.value == pytest.approx((alone + fitted) / 2.0)
    assert apart.low < min(alone, fitted)
    assert max(alone, fitted) < apart.high
    assert data.gap == 0.0
    assert right.gain == between(right, data)
