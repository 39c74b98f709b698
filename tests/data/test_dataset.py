"""The one data type: what it checks, keeps apart and derives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from waypost.data.dataset import Dataset, Labels
from waypost.errors import WaypostError


def line(**changes: Any) -> Dataset:
    """Seven rows on a line: an episode of three that ends in a terminal, one of two that times out, one left open."""
    columns: dict[str, Any] = {
        "observations": np.arange(7.0),
        "next_observations": np.arange(7.0) + 0.5,
        "actions": np.linspace(-2, 1, 7),
        "rewards": np.array([1.0, 2, 4, 8, 16, 32, 64]),
        "terminals": np.arange(7) == 2,
        "timeouts": np.arange(7) == 4,
    }
    return Dataset.from_arrays(**{**columns, **changes})


def test_episodes_end_at_terminals_timeouts_and_the_last_row() -> None:
    data = line()
    assert data.ends.tolist() == [False, False, True, False, True, False, True]
    assert data.timeouts.tolist() == [False, False, False, False, True, False, True]
    assert data.terminals.tolist() == [False, False, True, False, False, False, False]
    assert data.episode_starts.tolist() == [0, 3, 5]
    assert data.episode_lengths.tolist() == [3, 2, 2]
    assert data.episode_of.tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert data.last_row.tolist() == [2, 2, 2, 4, 4, 6, 6]
    assert data.episode_returns.tolist() == [7, 24, 96]


def test_without_next_states_the_following_row_is_taken_but_never_across_episodes() -> None:
    data = line(next_observations=None)
    assert data.next_valid.tolist() == [True, True, False, True, False, True, False]
    inside = data.next_valid
    assert data.next_observations[inside, 0].tolist() == [1, 2, 4, 6]
    # At an end the next state is unknown; what stands there is not the next episode's first state.
    assert data.next_observations[~inside, 0].tolist() == [2, 4, 6]


def test_an_unknown_next_state_ends_an_episode() -> None:
    data = line(next_valid=np.arange(7) != 0)
    assert data.ends.tolist() == [True, False, True, False, True, False, True]


def test_bounds_come_from_the_data_unless_given() -> None:
    assert (line().action_low.tolist(), line().action_high.tolist()) == ([-2], [1])
    given = line(action_low=np.array([-3.0]), action_high=np.array([3.0]))
    assert (given.action_low.tolist(), given.action_high.tolist()) == ([-3], [3])
    with pytest.raises(WaypostError, match="action_low"):
        line(action_low=np.array([3.0]), action_high=np.array([-3.0]))


def test_nothing_can_be_written_and_the_source_stays_writable() -> None:
    source = np.arange(7.0)
    data = line(observations=source)
    with pytest.raises(ValueError, match="read-only"):
        data.observations[0] = 5
    source[0] = 9
    assert data.observations[0, 0] == 0


def test_relabelling_cuts_at_new_terminals() -> None:
    seen: list[Any] = []

    def judge(observations: np.ndarray, actions: np.ndarray | None, following: np.ndarray) -> Labels:
        seen.append((observations, actions, following))
        return Labels(-following[:, 0], following[:, 0] == 3.5)

    data = line()
    relabelled = data.relabel(judge)
    assert relabelled.rewards.tolist() == [-0.5, -1.5, -2.5, -3.5, -4.5, -5.5, -6.5]
    assert relabelled.terminals.tolist() == [False, False, False, True, False, False, False]
    assert np.flatnonzero(relabelled.ends).tolist() == [2, 3, 4, 6]
    assert data.rewards.tolist() == [1, 2, 4, 8, 16, 32, 64]
    assert seen[0][1] is data.actions
    with pytest.raises(WaypostError, match="relabelling"):
        data.relabel(lambda *_: Labels(np.zeros(3), np.zeros(3)))


def test_keeping_rows_cuts_where_one_is_missing() -> None:
    kept = line().keep(np.array([1, 0, 1, 1, 1, 1, 0], bool))
    assert kept.observations[:, 0].tolist() == [0, 2, 3, 4, 5]
    assert kept.ends.tolist() == [True, True, False, True, True]
    assert kept.terminals.tolist() == [False, True, False, False, False]
    with pytest.raises(WaypostError, match="no rows"):
        line().keep(np.zeros(7, bool))


def test_columns_can_be_dropped() -> None:
    assert line().without_actions().actions is None
    assert line().without_actions().action_size is None
    with pytest.raises(WaypostError, match="has no actions"):
        line().without_actions().require("actions")
    with pytest.raises(WaypostError, match="has no rewards"):
        _ = line().without_rewards().episode_returns


def test_the_fingerprint_is_that_of_the_contents() -> None:
    assert line().fingerprint() == line().fingerprint()
    assert line().named("other").fingerprint() == line().fingerprint()
    for change in ({"rewards": np.zeros(7)}, {"terminals": np.zeros(7)}, {"next_valid": np.arange(7) != 2}):
        assert line(**change).fingerprint() != line().fingerprint()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"observations": np.zeros((0, 2))}, "no transitions"),
        ({"observations": np.array(["a"] * 7)}, "observations hold"),
        ({"observations": np.zeros((7, 2, 2))}, "flatten"),
        ({"actions": np.zeros((6, 1))}, "actions have 6 rows, observations 7"),
        ({"rewards": np.zeros((7, 2))}, "rewards have shape"),
        ({"rewards": np.full(7, np.inf)}, r"rewards are NaN or infinite in 7 of 7 rows \(0, 1, 2, 3, 4, \.\.\.\)"),
        ({"terminals": np.full(7, 3)}, "terminals must be one 0 or 1"),
        ({"timeouts": np.zeros(8)}, "timeouts have 8 rows"),
        ({"next_observations": np.zeros((7, 2))}, "next_observations have shape"),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(WaypostError, match=message):
        line(**changes, name="log")
