"""The recorded episodes that are shown on the page of a run without a simulator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from samples import walk

import waypost
from waypost.data.dataset import Dataset
from waypost.data.rewards import learning_rewards
from waypost.training.plan import plan
from waypost.training.shown import LONGEST, ROWS, reward_scale, shown_again, some_episodes


@pytest.fixture(scope="module")
def data() -> Dataset:
    return walk(rows=240)


def test_a_good_a_typical_and_a_bad_episode_are_picked_by_their_returns(data: Dataset) -> None:
    shown = some_episodes(data, False, None)
    assert len(shown.dataset) == 240
    assert [each.words for each in shown.picked] == ["a good episode", "a typical one", "a bad one"]
    order = np.sort(data.episode_returns)[::-1]
    assert [each.earned for each in shown.picked] == pytest.approx([order[2], order[10], order[17]])
    for each in shown.picked:
        assert each.earned == pytest.approx(shown.dataset.episode_returns[each.place])


def test_short_pieces_that_were_cut_off_are_not_picked(data: Dataset) -> None:
    """Where rewards are costs, a piece of three rows would be the best of all."""
    rows = np.ones(240, bool)
    rows[12:15] = rows[18:24] = False  # of the second episode, which ends with a timeout, three rows are left
    pieces = data.with_rewards(-np.ones(240)).keep(rows)
    shown = some_episodes(pieces, False, None)
    lengths = [shown.dataset.episode_lengths[each.place] for each in shown.picked]
    assert min(pieces.episode_lengths) == 3
    assert lengths == [12, 12, 12]


def test_only_some_rows_are_kept_of_much_data() -> None:
    long = walk(rows=12_000, episode=1_000)
    shown = some_episodes(long, False, None)
    assert set(shown.dataset.episode_lengths) == {LONGEST}
    assert ROWS <= len(shown.dataset) < ROWS + LONGEST
    place = shown.picked[0].place
    start = shown.dataset.episode_starts[place]
    best = int(np.argsort(-long.episode_returns, kind="stable")[1])
    assert np.array_equal(shown.dataset.observations[start], long.observations[1_000 * best])
    assert shown.picked[0].earned == pytest.approx(long.episode_returns[best])


def test_without_rewards_there_are_early_and_late_ones(data: Dataset) -> None:
    shown = some_episodes(data.without_rewards(), False, None)
    assert [(each.words, each.place, each.earned) for each in shown.picked] == [
        ("an early episode", 2, None),
        ("a middle one", 10, None),
        ("a late one", 17, None),
    ]


def test_returns_are_those_of_the_log_where_rewards_were_only_scaled(data: Dataset) -> None:
    learned = learning_rewards(data, "standard", 0.99)
    scale = reward_scale(data, learned, "standard")
    assert learned.require("rewards") == pytest.approx(data.require("rewards") * scale, rel=1e-5)
    shown = some_episodes(learned, True, scale)
    assert shown.held_out
    assert shown.picked[1].earned == pytest.approx(some_episodes(data, False, 1.0).picked[1].earned, rel=1e-5)
    assert reward_scale(data, learned, "goal") is None
    assert reward_scale(data.with_rewards(np.zeros(240)), learned, "recorded") == 1.0
    assert reward_scale(data.without_rewards(), data, "recorded") is None


def test_a_run_that_is_read_back_shows_the_same_episodes(data: Dataset, tmp_path: Path) -> None:
    waypost.save(data, tmp_path / "log.npz")
    options = {"hidden": (4,), "steps": 2, "env": "none", "hold_out": 0.25}
    trained = waypost.train("bc", tmp_path / "log.npz", **options)
    assert trained.shown is not None
    again = shown_again(trained.plan)
    assert again.held_out
    assert again.picked == trained.shown.picked
    assert again.scale == trained.shown.scale
    assert np.array_equal(again.dataset.observations, trained.shown.dataset.observations)
    whole = shown_again(replace(trained.plan, hold_out=0.0, stream="always"))
    assert not whole.held_out
    assert len(whole.dataset) == 240


def test_where_there_is_a_simulator_nothing_is_kept() -> None:
    assert plan("bc", "t-maze").task == "t-maze"
    assert waypost.train("bc", "t-maze", steps=1, hidden=(4,), evaluation=waypost.Protocol(episodes=1)).shown is None
