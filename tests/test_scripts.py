"""The scripts that compute something of their own."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import ant_failures as ants
import choices
import jax
import learned_codes as codes
import numpy as np
import pytest
import wide_states as wide
from samples import TINY
from tables import write_table

import waypost
from waypost.data import prepare, slow
from waypost.envs.mazes import ANT_SCALE
from waypost.recording.replicas import collect
from waypost.studies.results import identity
from waypost.training.plan import plan


def ant(x: float, angle: float) -> np.ndarray:
    """An episode that ends at (x, 0), turned by so much around its own x axis and then around the vertical."""
    path = np.zeros((3, 29), np.float32)
    rolled = np.array([np.cos(angle / 2), np.sin(angle / 2), 0, 0])
    w, i, j, k = np.cos(0.5), 0.0, 0.0, np.sin(0.5)
    turned = [
        w * rolled[0] - i * rolled[1],
        w * rolled[1] + i * rolled[0],
        j * rolled[0] + k * rolled[1],
        k * rolled[0] - j * rolled[1],
    ]
    path[-1, 0], path[-1, 3:7] = x, turned
    return path


def test_ants_that_fell_are_told_from_ants_that_stand() -> None:
    near, far = 0.9 * ANT_SCALE, 1.1 * ANT_SCALE
    paths = [ant(0.0, 0.0), ant(near, np.pi), ant(far, 0.6 * np.pi), ant(near, 0.4 * np.pi), ant(far, 0.0)]
    found = ants.fates(paths, np.array([True, False, False, False, False]), np.zeros(2))
    assert found == {"arrived": 1, "on their backs": 2, "near the goal": 1, "elsewhere": 1}


def test_actions_are_compared_with_those_recorded() -> None:
    dataset = waypost.load("t-maze")
    policy = waypost.train("por", dataset, steps=2, env="none", **TINY).policy
    assert dataset.actions is not None
    found = ants.errors(policy, dataset)
    rows = np.random.default_rng(0).choice(len(dataset), min(4096, len(dataset)), replace=False)
    act = policy.act(dataset.observations[rows])
    assert found["error"] == pytest.approx(((act - dataset.actions[rows]) ** 2).mean(), rel=1e-5)
    assert found["error, told s'"] != found["error"]
    cloned = waypost.train("bc", dataset, steps=2, env="none", hidden=(8,), batch_size=8).policy
    assert ants.errors(cloned, dataset)["error, told s'"] is None


@cache
def walking() -> waypost.Dataset:
    return collect("antmaze-medium-play", 3000, workers=1)


@pytest.mark.parametrize(("form", "columns"), [("plain", 29), ("noise", 79), ("forces", 107)])
def test_the_slow_directions_of_an_ant_are_its_place_however_wide_its_state(form: str, columns: int) -> None:
    data = wide.padded(walking(), wide.FORMS[form]()).checked()
    assert data.observation_size == columns
    std = prepare.observation_scaling(data, True)["observation_std"]
    assert slow.look_ahead(data, std, 0.5) == (25, True)
    directions, _ = slow.slow_directions(prepare.waypoints(data, 25, 25, 0.99), std, 25, 0.5)
    assert directions.shape[1] == 2
    assert (np.linalg.norm(directions[:2], axis=0) > 0.99 * np.linalg.norm(directions, axis=0)).all()


def test_padded_states_are_those_of_the_environment() -> None:
    """Contact forces of a recorded state are those the environment shows there, and next states have their own."""
    pad = wide.forces()
    env, data = wide.Padded(pad), wide.padded(walking(), pad)
    inside = ~data.ends[:-1]
    assert (data.next_observations[:-1][inside] == data.observations[1:][inside]).all()
    assert np.abs(data.observations[:, 29:]).max() == 1
    observation, _ = env.reset(seed=0)
    for _ in range(50):  # an ant starts in the air
        observation, *_ = env.step(np.zeros(8, np.float32))
    assert observation.shape == env.observation_space.shape == (107,)
    assert (observation[29:] == pad(observation[None, :29])[0]).all()
    assert np.abs(observation[29:]).max() > 0


def test_the_page_of_waypoint_has_the_scores_of_wide_states() -> None:
    page = (Path(__file__).parents[1] / "docs" / "waypoint.md").read_text()
    with wide.FILE.open() as file:
        rows = list(csv.reader(file))[1:]
    assert len(rows) == len(wide.FORMS) * len(wide.SPACES)
    for (form, columns, *_, slow_score), (*_, score) in zip(rows[::2], rows[1::2], strict=True):
        assert f"| {form} | {columns} | {slow_score} | {score} |" in page


@pytest.mark.parametrize("objective", ["actions", "time"])
def test_the_losses_of_a_code_are_those_of_a_loop_over_rows(objective: codes.Objective) -> None:
    """And time teaches the executor nothing."""
    rng = np.random.default_rng(0)
    s, reached, a = rng.normal(size=(6, 5)), rng.normal(size=(6, 5)), rng.normal(size=(6, 3))
    coder = codes.Coder(5, 2, 3, jax.random.key(0))
    here, there = np.asarray(coder.code(s)), np.asarray(coder.code(reached))
    expected = []
    for row in range(6):
        if objective == "actions":
            mean = np.asarray(coder.executor.mode(np.concatenate([s[row], there[row] - here[row]])[None]))[0]
            expected.append((0.5 * (a[row] - mean) ** 2 + 0.5 * np.log(2 * np.pi)).sum())
        else:
            near = -((here[row] - there) ** 2).sum(axis=1)
            expected.append(np.log(np.exp(near).sum()) - near[row])
    loss, gradient = jax.value_and_grad(lambda it: it.loss(objective, s, reached, a))(coder)
    assert loss == pytest.approx(np.mean(expected), rel=1e-5)
    flows = [any(leaf.any() for leaf in jax.tree.leaves(part)) for part in (gradient.code, gradient.executor)]
    assert flows == [True, objective == "actions"]


def test_a_code_of_time_is_about_the_place_of_an_ant_and_one_of_actions_is_not() -> None:
    explained = {
        objective: codes.place_explained(walking(), codes.learned(walking(), objective, numbers=2, steps=200))
        for objective in ("actions", "time")
    }
    assert explained["time"] > 0.5 > explained["actions"]


@pytest.mark.parametrize("algorithm", ["por", "waypoint"])
def test_each_choice_is_another_training(algorithm: str) -> None:
    found = list(choices.choices(algorithm))
    trainings = {identity(plan(algorithm, data, **options)) for data, _, _, options in found}
    assert len(trainings) == len({(data, name) for data, name, *_ in found}) == len(found) > 10


def test_a_table_is_a_file_and_text(tmp_path: Path) -> None:
    text = write_table(tmp_path / "a.csv", ["name", "scores"], [["a, b", 1.5], ["c", 2, 3]])
    assert (tmp_path / "a.csv").read_bytes() == b'name,scores\n"a, b",1.5\nc,2,3\n'
    assert text.splitlines() == ["| name | scores |", "| --- | --- |", "| a, b | 1.5 |", "| c | 2, 3 |"]
