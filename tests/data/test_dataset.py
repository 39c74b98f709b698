"""The one data type: what it checks, keeps apart and derives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from waypost.data.dataset import Dataset, Labels, moments
from waypost.data.joining import concatenate
from waypost.errors import WaypostError


def line(**changes: Any) -> Dataset:
    """Seven rows on a line: an episode of three that ends in a terminal, one of two that times out, one left open."""
    columns: dict[str, Any] = {
        "observations": np.arange(7.0),
        "next_observations": np.array([1.0, 2, 2.5, 4, 4.5, 6, 6.5]),
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


def test_episodes_are_cut_where_the_next_row_begins_somewhere_else() -> None:
    """medium-replay files of D4RL do not mark every timeout."""
    data = line(timeouts=None)
    assert data.ends.tolist() == [False, False, True, False, True, False, True]
    assert data.next_valid.all()
    assert "1 unmarked places" in data.notes[0]
    assert not line().notes
    # Rounding of stored numbers is no jump, and order means nothing in shuffled rows.
    assert line(next_observations=np.array([1, 2 + 1e-7, 2.5, 4, 4.5, 6, 6.5])).ends.sum() == 3
    assert line(next_observations=np.arange(7.0) + 100).ends.all()


def test_jumps_are_found_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waypost.data.validation.BLOCK", 2)
    test_episodes_are_cut_where_the_next_row_begins_somewhere_else()
    with pytest.raises(WaypostError, match=r"rewards are NaN or infinite in 2 of 7 rows \(1, 6\)"):
        line(rewards=np.where(np.isin(np.arange(7), (1, 6)), np.nan, 0))


def test_the_best_episodes() -> None:
    data = line()
    assert data.top(0.34).observations[:, 0].tolist() == [5, 6]
    assert data.top(0.67).observations[:, 0].tolist() == [3, 4, 5, 6]
    assert data.top(0.01).observations[:, 0].tolist() == [5, 6]
    assert data.top(1.0).fingerprint() == data.fingerprint()
    # Of equal ones the earlier, not the shorter.
    same = line(rewards=np.zeros(7))
    assert same.top(0.34).observations[:, 0].tolist() == [0, 1, 2]
    assert same.top(0.67).observations[:, 0].tolist() == [0, 1, 2, 3, 4]
    for share in (0, -1, 1.5, np.nan):
        with pytest.raises(WaypostError, match="share"):
            data.top(share)


def test_a_slice_cuts_the_episodes_it_meets() -> None:
    part = line().slice(0.15, 0.85)
    assert part.observations[:, 0].tolist() == [1, 2, 3, 4, 5]
    assert np.flatnonzero(part.ends).tolist() == [1, 3, 4]
    assert part.next_valid.all()
    assert line().slice(0, 1).fingerprint() == line().fingerprint()
    for bad in ((0.5, 0.5), (0.7, 0.3), (-0.1, 0.5), (0.5, 1.1)):
        with pytest.raises(WaypostError, match="slice"):
            line().slice(*bad)


def test_a_split_holds_out_whole_episodes() -> None:
    rest, held = line().split(0.34, seed=1)
    assert len(held.episode_starts) == 1
    assert len(rest.episode_starts) == 2
    assert sorted([*rest.observations[:, 0], *held.observations[:, 0]]) == list(range(7))
    assert line().split(0.34, seed=1)[1].fingerprint() == held.fingerprint()
    assert len({line().split(0.34, seed)[1].fingerprint() for seed in range(9)}) == 3
    with pytest.raises(WaypostError, match="cannot be split"):
        line().split(1.0)


def test_data_sets_are_joined() -> None:
    other = line(action_low=np.array([-5.0]), name="other")
    both = concatenate([line(), other])
    assert len(both) == 14
    assert both.episode_lengths.tolist() == [3, 2, 2] * 2
    assert both.action_low.tolist() == [-5]
    assert both.name == "arrays+other"
    assert concatenate([line(), other.without_actions()]).actions is None
    assert concatenate([line().without_rewards(), other]).rewards is None
    with pytest.raises(WaypostError, match="observation size 1 and 2"):
        concatenate([line(), Dataset.from_arrays(np.zeros((3, 2)))])
    with pytest.raises(WaypostError, match="nothing to concatenate"):
        concatenate([])


def test_bounds_that_are_infinite_are_those_of_the_data() -> None:
    data = line(action_low=-np.inf, action_high=np.array([np.inf]))
    assert (data.action_low.tolist(), data.action_high.tolist()) == ([-2], [1])
    with pytest.raises(WaypostError, match=r"action_high has shape \(2,\)"):
        line(action_high=np.ones(2))


def test_what_is_not_finite_can_be_left_for_later() -> None:
    data = line(rewards=np.full(7, np.nan), finite=False)
    assert np.isnan(data.rewards).all()
    with pytest.raises(WaypostError, match="rewards are NaN"):
        data.checked()


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

    def label(observations: np.ndarray, actions: np.ndarray | None, following: np.ndarray) -> Labels:
        seen.append((observations, actions, following))
        return Labels(-following[:, 0], following[:, 0] == 4)

    data = line()
    relabelled = data.relabel(label)
    # The row that goes on from where the task has ended is gone.
    assert relabelled.observations[:, 0].tolist() == [0, 1, 2, 3, 5, 6]
    assert relabelled.rewards.tolist() == [-1, -2, -2.5, -4, -6, -6.5]
    assert relabelled.terminals.tolist() == [False, False, False, True, False, False]
    assert np.flatnonzero(relabelled.ends).tolist() == [2, 3, 5]
    assert data.rewards.tolist() == [1, 2, 4, 8, 16, 32, 64]
    assert seen[0][1] is data.actions
    with pytest.raises(WaypostError, match="terminals of the relabelling have 3 rows, observations 7"):
        data.relabel(lambda *_: Labels(np.zeros(3), np.zeros(3)))
    with pytest.raises(WaypostError, match="rewards have 3 rows, observations 7"):
        data.relabel(lambda *_: Labels(np.zeros(3), np.zeros(7)))
    with pytest.raises(WaypostError, match="rewards are NaN or infinite in 7 of 7 rows"):
        data.relabel(lambda *_: Labels(np.full(7, np.nan), np.zeros(7)))


def test_keeping_rows_cuts_where_one_is_missing() -> None:
    kept = line().keep(np.array([1, 0, 1, 1, 1, 1, 0], bool))
    assert kept.observations[:, 0].tolist() == [0, 2, 3, 4, 5]
    assert kept.ends.tolist() == [True, True, False, True, True]
    assert kept.terminals.tolist() == [False, True, False, False, False]
    with pytest.raises(WaypostError, match="no rows"):
        line().keep(np.zeros(7, bool))


SOME = np.random.default_rng(0).normal(2.0, 3.0, size=(24, 3)).astype(np.float32)


def test_moments_are_mean_and_standard_deviation_per_column() -> None:
    mean, std = moments(SOME)
    assert np.allclose(mean, [sum(column) / 24 for column in SOME.T])
    assert np.allclose(std, [np.sqrt(sum((column - column.mean()) ** 2) / 24) for column in SOME.T])


def test_moments_are_exact_for_a_column_far_from_zero() -> None:
    mean, std = moments(np.array([[10_000.0], [10_001.0]], np.float32).repeat(5000, axis=0))
    assert mean[0] == 10_000.5
    assert std[0] == 0.5


def test_moments_leave_a_constant_column_unscaled() -> None:
    mean, std = moments(np.column_stack([SOME[:, 0], np.full(24, 7.0)]).astype(np.float32))
    assert std[1] == 1.0
    assert mean[1] == 7.0
    assert std[0] > 1.0
    whole = line().observation_moments
    assert (whole[0].tolist(), whole[1].tolist()) == ([3], [2])


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
    # The same numbers mean something else where they are discrete actions.
    assert (
        len({data.fingerprint() for data in (whole(), whole().with_action_count(4), whole().with_action_count(5))}) == 3
    )


# -- discrete actions ------------------------------------------------------------------------------


def whole(**changes: Any) -> Dataset:
    return line(**{"actions": np.array([1, 3, 1, 2, 3, 1, 1]), **changes})


def test_actions_are_discrete_where_somebody_says_so() -> None:
    for data in (whole(action_count=5), whole().with_action_count(5), whole(action_low=-9).with_action_count(5)):
        assert (data.action_count, data.action_kind_declared, data.action_size) == (5, True, 1)
        assert data.actions[:, 0].tolist() == [1, 3, 1, 2, 3, 1, 1]
        assert (data.action_low.tolist(), data.action_high.tolist()) == ([0], [4])
        assert data.top(0.5).action_count == data.split(0.4)[0].action_count == 5
        again = data.with_action_count(0)
        assert (again.action_count, again.action_low.tolist(), again.action_high.tolist()) == (None, [1], [3])
        free = data.without_actions()
        assert (free.action_count, free.action_kind_declared) == (None, False)
    assert whole().action_count is None
    # Continuous actions keep their bounds.
    assert whole(action_low=-9.0).with_action_count(0).action_low.tolist() == [-9]


@pytest.mark.parametrize(
    ("actions", "count", "message"),
    [
        ([1, 3, 1, 2, 3, 1, 1], 3, "action 3 in row 1; 3 discrete actions are whole numbers from 0 to 2"),
        ([1, 0, 1, 0, 0.5, 1, 1], 2, "action 0.5 in row 4; 2 discrete actions are whole"),
        ([1, 0, 1, 0, 1, 1, -1], 2, "action -1 in row 6"),
        ([0, 0, 0, 0, 0, 0, 0], 1, "1 discrete actions in 1 column; 2 to 1000000, in one column, are possible"),
        ([0, 0, 0, 0, 0, 0, 0], -2, "-2 discrete actions in 1 column; 2 to"),
        ([0, 0, 0, 0, 0, 0, 0], 1 << 40, "1099511627776 discrete actions in 1 column; 2 to"),
        (np.zeros((7, 2)), 2, "2 discrete actions in 2 columns; 2 to 1000000, in one column"),
    ],
)
def test_what_cannot_be_a_discrete_action_is_named(
    actions: Any, count: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waypost.data.validation.BLOCK", 2)
    for make in (
        lambda: whole(actions=np.array(actions), action_count=count),
        lambda: line(actions=np.array(actions)).with_action_count(count),
    ):
        with pytest.raises(WaypostError, match=message):
            make()


def test_missing_discrete_actions_are_found_as_other_missing_numbers_are() -> None:
    broken = whole(actions=np.array([1, np.nan, 1, 2, np.inf, 1, 1]), action_count=5, finite=False)
    with pytest.raises(WaypostError, match=r"actions are NaN or infinite in 2 of 7 rows \(1, 4\)"):
        broken.checked()
    with pytest.raises(WaypostError, match="has no actions"):
        line(actions=None).with_action_count(3)


def test_joined_data_have_the_discrete_actions_of_all() -> None:
    other = whole(actions=np.array([0, 0, 4, 0, 0, 0, 0]))
    declared, inferred = whole().with_action_count(4), whole().with_action_count(4, declared=False)
    wider = other.with_action_count(5, declared=False)
    for parts, count, sure in (
        ((declared, declared), 4, True),
        ((inferred, wider), 5, False),
        ((wider, inferred), 5, False),
        ((inferred, declared), 4, True),
        ((inferred, other.with_action_count(7), wider), 7, True),
        # One that looks discrete beside one that does not: a column where half of the files hold whole numbers.
        ((inferred, line()), None, False),
        ((line(), wider, inferred), None, False),
        ((inferred, whole().with_action_count(0)), None, True),
    ):
        joined = concatenate(parts)
        assert (joined.action_count, joined.action_kind_declared) == (count, sure)
        bounds = (0, count - 1) if count else (min(joined.actions), max(joined.actions))
        assert (joined.action_low[0], joined.action_high[0]) == bounds
        noted = [note for note in joined.notes if "as integers" in note]
        assert len(noted) == (count is not None and not sure)
        assert all(f"{count} discrete actions" in note for note in noted)
    assert concatenate([inferred, line(actions=None)]).notes == ()
    for parts, message in (
        (
            (declared, other.with_action_count(5)),
            "4 discrete and 5 discrete actions in different parts; give their number with --columns",
        ),
        ((declared, wider), "4 discrete and 5 discrete actions"),
        ((line(), declared), "continuous and 4 discrete actions"),
        ((declared, whole().with_action_count(0)), "4 discrete and continuous actions"),
    ):
        with pytest.raises(WaypostError, match=message):
            concatenate(parts)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"observations": np.zeros((0, 2))}, "no transitions"),
        ({"observations": np.zeros((7, 0))}, "no columns"),
        ({"actions": np.zeros((7, 0))}, "actions have no columns"),
        ({"rewards": np.array(["1"] * 7)}, "rewards hold"),
        ({"observation_names": ("x", "y")}, "2 observation_names, 1 columns"),
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
