"""Faults of real logs: each is found where it is, and not where it is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from waypost.data.dataset import Dataset
from waypost.data.inspection import doubts, inspect
from waypost.data.inspection.findings import Finding
from waypost.data.joining import concatenate
from waypost.data.pipeline import Pipeline
from waypost.data.roles import Columns
from waypost.data.sources import load

EPISODES, LENGTH = 30, 40


def plant(lag: int = 0, seed: int = 0, effect: float = 1.0, **changes: Any) -> Dataset:
    """Two quantities that an action moves, after so many rows."""
    rng = np.random.default_rng(seed)
    states = np.zeros((EPISODES, LENGTH + 1, 2))
    states[:, 0] = rng.normal(size=(EPISODES, 2))
    actions = rng.uniform(-1, 1, (EPISODES, LENGTH, 1))
    for t in range(LENGTH):
        push = actions[:, t - lag] if t >= lag else 0.0
        noise = 0.1 * rng.normal(size=(EPISODES, 2))
        states[:, t + 1] = 0.9 * states[:, t] + effect * np.array([0.3, -0.2]) * push + noise
    ends = np.arange(EPISODES * LENGTH) % LENGTH == LENGTH - 1
    whole = {
        "observations": states[:, :-1].reshape(-1, 2),
        "next_observations": states[:, 1:].reshape(-1, 2),
        "actions": actions.reshape(-1, 1),
        "rewards": -np.abs(states[:, :-1]).sum(axis=2).reshape(-1),
        "timeouts": ends,
        "observation_names": ("level", "heat"),
        "action_names": ("valve",),
        "name": "plant",
    }
    return Dataset.from_arrays(**{**whole, **changes}, finite=False)


def found(dataset: Any, what: str, **how: Any) -> Finding:
    (finding,) = [each for each in inspect(dataset, **how).findings if each.what == what]
    return finding


def names(dataset: Any, **how: Any) -> set[str]:
    return {each.what for each in inspect(dataset, **how).findings}


def test_a_sound_plant_has_no_findings() -> None:
    assert not inspect(plant()).findings


@pytest.mark.parametrize("number", [-9999.0, -40.0, 99999.0])
def test_sentinels_are_found_by_their_repetition(number: float) -> None:
    states = np.array(plant().observations)
    states[::100, 1] = number
    faulty = replace(plant(), observations=states)
    finding = found(faulty, "sentinels")
    assert f"--missing-values heat={number:g}" in finding.text
    assert any("sentinels" not in doubt and "mean 'missing'" in doubt for doubt in doubts(faulty))


def test_numbers_far_away_that_never_repeat_are_no_sentinels() -> None:
    states = np.array(plant().observations)
    states[::100, 1] = np.linspace(-9999, -9000, len(states[::100]))
    assert "sentinels" not in names(replace(plant(), observations=states))
    # Nor is a bound at which a sensor stops, next to what it measures else.
    clipped = np.maximum(plant().observations, -0.5)
    assert "sentinels" not in names(replace(plant(), observations=clipped))


def test_columns_of_names_among_continuous_ones() -> None:
    modes = np.array(plant().observations)
    modes[:, 1] = np.arange(len(modes)) % 4
    assert "--categories heat=one-hot" in found(replace(plant(), observations=modes), "discrete-columns").text
    modes[:, 1] = np.arange(len(modes)) % 2
    assert "discrete-columns" not in names(replace(plant(), observations=modes))


def failing(penalty: float) -> Dataset:
    """Every third episode ends after 10 rows with a failure that costs so much."""
    first = np.arange(EPISODES * LENGTH)
    broken = (first // LENGTH) % 3 == 0
    terminal = broken & (first % LENGTH == 10)
    rewards = -1.0 - np.random.default_rng(0).random(len(first)) - penalty * terminal
    data = plant(rewards=rewards, terminals=terminal)
    return data.keep(~(broken & (first % LENGTH > 10)))


def test_failing_early_must_not_be_cheap() -> None:
    finding = found(failing(5.0), "cheap-failure")
    assert "--reward" in finding.text
    assert finding.count == EPISODES // 3
    assert "cheap-failure" not in names(failing(500.0))
    # Where the task ends in a goal, ending soon is what is wanted.
    assert "cheap-failure" not in names(failing(-2.0))


@pytest.mark.parametrize("lag", [1, 2])
def test_an_action_that_acts_later(lag: int) -> None:
    finding = found(plant(lag), "action-lag")
    assert f"{lag} row" in finding.text
    assert "--history" in finding.text


def test_actions_that_do_nothing() -> None:
    assert "--columns.actions" in found(plant(effect=0.0), "actions-without-effect").text
    assert "actions-without-effect" not in names(plant(effect=0.2))


def test_what_an_action_does_may_depend_on_the_state() -> None:
    rng = np.random.default_rng(3)
    states, actions = rng.choice([-1.0, 1.0], (1000, 1)) * rng.uniform(0.5, 1, (1000, 1)), rng.uniform(-1, 1, (1000, 1))
    ends = np.arange(1000) % 10 == 9
    data = Dataset.from_arrays(states, states + 0.1 * actions * states, actions, timeouts=ends)
    assert "actions-without-effect" not in names(data)


def test_rewards_that_come_as_sums() -> None:
    data = plant()
    sums = np.zeros(len(data))
    sums[data.ends] = data.episode_returns
    assert "end of episodes" in found(data.with_rewards(sums), "late-rewards").text
    every = np.zeros(len(data))
    every[7::8] = data.rewards.reshape(-1, 8).sum(axis=1)
    assert "every 8 rows" in found(data.with_rewards(every), "late-rewards").text
    goal = data.ends.astype(float)
    assert "late-rewards" not in names(data.with_rewards(goal))


@pytest.mark.parametrize("lag", [1, 2])
def test_rewards_of_earlier_rows(lag: int) -> None:
    data = plant()
    moved = data.with_rewards(np.roll(data.rewards, lag))
    text = found(moved, "late-rewards").text
    assert f"{lag} row" in text
    assert "--reward" in text
    # Noise belongs to no row.
    noise = np.random.default_rng(0).normal(size=len(data))
    assert "late-rewards" not in names(data.with_rewards(noise))


def test_episodes_that_are_nearly_the_same() -> None:
    data = plant()
    jitter = 1e-3 * np.random.default_rng(1).normal(size=data.observations.shape)
    again = replace(data, observations=(data.observations + jitter).astype(np.float32))
    finding = found(concatenate([data, again]), "near-duplicate-episodes")
    assert finding.count == EPISODES
    assert "near-duplicate-episodes" not in names(concatenate([data, plant(seed=5)]))


def test_files_that_differ() -> None:
    moved = replace(plant(seed=1), observations=plant(seed=1).observations + np.float32(40), name="monday.csv")
    text = found(concatenate([plant(), plant(seed=2), moved]), "drift").text
    assert "level in monday.csv" in text
    assert "--data" in text
    assert "drift" not in names(concatenate([plant(), plant(seed=2), plant(seed=3)]))


def log(path: Path, stamps: list[float]) -> Path:
    rng = np.random.default_rng(0)
    rows = "".join(f"{stamp:.3f},{rng.normal():.3f},{rng.normal():.3f}\n" for stamp in stamps)
    path.write_text("stamp,obs_0,action_0\n" + rows)
    return path


def test_time_stamps(tmp_path: Path) -> None:
    even = [float(i) for i in range(100)]
    time = {"columns": Columns(time="stamp")}
    faults = {"time-gaps", "time-stamps", "time-steps"}
    assert not faults & names(log(tmp_path / "even.csv", even), **time)
    gap = log(tmp_path / "gap.csv", [*even, *(200 + stamp for stamp in even)])
    assert "--max-gap" in found(gap, "time-gaps", **time).text
    assert any("--max-gap" in doubt for doubt in doubts(load(gap, Columns(time="stamp"))))
    twice = log(tmp_path / "twice.csv", sorted([*even, 3.0, 4.0]))
    assert "--duplicates" in found(twice, "time-stamps", **time).text
    assert "time-stamps" in names(twice, **time, pipeline=Pipeline(duplicates="last"))
    uneven = log(tmp_path / "uneven.csv", list(np.cumsum(np.random.default_rng(0).uniform(0.5, 2, 100))))
    assert "--resample" in found(uneven, "time-steps", **time).text
