"""The health report: every fault is found where it is and nothing is found where there is none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import waypost
from waypost.data.dataset import Dataset
from waypost.data.inspection import doubts, inspect
from waypost.data.inspection.checks import TEXTS
from waypost.data.inspection.findings import Finding, Inspection, Spread, Support
from waypost.data.roles import Columns
from waypost.data.sources import load
from waypost.errors import WaypostError

ROWS, LENGTH = 2400, 60


def gait(rows: int = ROWS, length: int = LENGTH, seed: int = 0) -> np.ndarray:
    """Six joints swinging smoothly, positions then velocities; each episode starts somewhere else."""
    rng = np.random.default_rng(seed)
    starts = np.repeat(rng.uniform(0, 6, (-(-rows // length), 6)), length, axis=0)[:rows]
    phase = np.arange(rows)[:, None] % length * np.linspace(0.02, 0.09, 6) + starts
    return np.hstack([np.sin(phase), np.cos(phase)])


def arrays(**changes: Any) -> dict[str, Any]:
    """Sound data: lengths that differ, terminals and timeouts in turn, next states that really followed."""
    rng = np.random.default_rng(1)
    states = gait(ROWS + ROWS // LENGTH, LENGTH + 1).reshape(-1, LENGTH + 1, 12)
    last = np.arange(ROWS) % LENGTH == LENGTH - 1
    early = np.arange(ROWS) % (2 * LENGTH) == 17
    steps = np.diff(states, axis=1).reshape(ROWS, 12)
    whole = {
        "observations": states[:, :-1].reshape(ROWS, 12),
        "next_observations": states[:, 1:].reshape(ROWS, 12),
        "actions": 0.9 * np.tanh(10 * steps[:, :6:2] + 0.7 * rng.normal(size=(ROWS, 3))),
        "rewards": rng.normal(size=ROWS),
        "terminals": early,
        "timeouts": last,
        "action_low": -1.0,
        "action_high": 1.0,
        "name": "gait",
    }
    return {**whole, **changes}


def data(**changes: Any) -> Dataset:
    return Dataset.from_arrays(**arrays(**changes), finite=False)


def changed(column: str, where: Any, value: Any) -> np.ndarray:
    """A sound column with some entries replaced."""
    values = np.array(arrays()[column])
    values[where] = value
    return values


def slugs(found: Inspection) -> set[str]:
    return {finding.what for finding in found.findings}


def only(dataset: Dataset, what: str) -> Finding:
    """The one finding of that name, which must be the only finding at all."""
    found = inspect(dataset).findings
    assert [finding.what for finding in found] == [what]
    return found[0]


def test_sound_data_have_no_findings() -> None:
    found = inspect(data())
    assert found.findings == ()
    assert found.verdict == "2 400 transitions in 60 episodes: nothing to fix"
    assert doubts(data()) == []


def test_whatever_can_be_loaded_can_be_inspected_even_if_load_refuses_it(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("x,y\n1,0.5\n2,\n3,0.25\n")
    columns = Columns(observations=("x",), rewards="y")
    with pytest.raises(WaypostError, match="rewards are NaN"):
        load(tmp_path / "log.csv", columns)
    found = inspect(tmp_path / "log.csv", columns=columns)
    assert (found.name, found.rows) == (str(tmp_path / "log.csv"), 3)
    assert [(each.what, each.rows) for each in found.of_level("error")] == [("not-finite", (1,))]
    assert inspect({"obs": np.arange(4.0)}).rows == 4


def test_every_finding_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "inspect.md").read_text()
    for level, texts in TEXTS.items():
        section = page[page.index(f"## {level.capitalize()}s") :].partition("\n## ")[0]
        for what in texts:
            assert f"`{what.partition(' ')[0]}`" in section


# -- facts -----------------------------------------------------------------------------------------


def test_facts_of_a_set_one_can_count() -> None:
    small = Dataset.from_arrays(
        np.array([[0.0, 5], [1, 5], [2, 5], [0, 5]]),
        actions=np.array([[-1.0], [0], [1], [0.5]]),
        rewards=np.array([0.0, 1, 1, 0]),
        terminals=np.array([0, 0, 1, 0]),
        name="small",
        task="four-rooms",
        observation_names=("x", "y"),
    )
    found = inspect(small)
    assert (found.name, found.task, found.rows, found.episodes) == ("small", "four-rooms", 4, 2)
    assert (found.observation_size, found.action_size) == (2, 1)
    assert (found.terminals, found.timeouts, found.unknown_next) == (1, 1, 2)
    assert found.lengths == Spread(min=1, q1=1.5, median=2, q3=2.5, max=3, mean=2)
    assert found.returns == Spread(min=0, q1=0.5, median=1, q3=1.5, max=2, mean=1)
    assert (found.nonzero_rewards, found.distinct_rewards) == (0.5, 2)
    assert found.saturation == (0.5,)
    assert found.repeated == 0
    assert [(c.name, c.kind, c.min, c.max, c.dead) for c in found.columns] == [
        ("x", "observation", 0, 2, False),
        ("y", "observation", 5, 5, True),
        ("action 0", "action", -1, 1, False),
        ("reward", "reward", 0, 1, False),
    ]
    assert found.columns[0].mean == 0.75
    assert found.columns[0].std == pytest.approx(np.std([0, 1, 2, 0]))
    facts = dict(found.facts())
    assert facts["episode length"] == "mean 2, median 2, quartiles 1.5 to 2.5, range 1 to 3"
    assert facts["rewards"] == "50 % nonzero, 2 distinct values"
    assert facts["unknown next states"] == "2 (50 %)"
    assert facts["actions at a bound"] == "up to 50 % of the rows"


def test_action_free_and_reward_free_data_are_facts_not_faults() -> None:
    found = inspect(data().without_actions().without_rewards())
    assert found.findings == ()
    assert (found.action_size, found.returns, found.nonzero_rewards, found.distinct_rewards) == (None,) * 4
    assert found.saturation == ()
    facts = dict(found.facts())
    assert (facts["observations"], facts["actions"]) == ("12 columns", "none")
    assert dict(inspect(data()).facts())["actions"] == "3 continuous"
    assert facts["return"] == "no rewards"


def test_a_single_row_is_enough() -> None:
    found = inspect(Dataset.from_arrays(np.zeros((1, 2)), actions=np.zeros((1, 1)), rewards=np.zeros(1)))
    assert found.episodes == 1
    assert not any(column.dead for column in found.columns)
    assert json.dumps(found.to_json(), allow_nan=False)


def test_json_is_plain_and_complete() -> None:
    broken = data(observations=changed("observations", (slice(None), 2), np.nan), rewards=np.full(ROWS, np.inf))
    found = inspect(broken, [Support("bc", True, "it has actions")])
    record = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert record["columns"][2]["mean"] is None
    assert record["returns"] is None
    assert record["lengths"]["max"] == 60
    assert record["supports"] == [{"algorithm": "bc", "supported": True, "why": "it has actions"}]
    assert {"level", "what", "text", "rows", "count"} == set(record["findings"][0])
    assert record["findings"][0]["rows"] == [0, 1, 2, 3, 4]


# -- numbers that are not there --------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_every_bad_number_is_an_error_with_its_rows_and_columns(value: float) -> None:
    broken = data(
        observations=changed("observations", ([17, 130], [3, 4]), value),
        actions=changed("actions", (7, 1), value),
        rewards=changed("rewards", [2, 3, 5, 7, 11, 13], value),
    )
    errors = inspect(broken).of_level("error")
    assert [(error.what, error.rows, error.count) for error in errors] == [
        ("not-finite", (17, 130), 2),
        ("not-finite", (7,), 1),
        ("not-finite", (2, 3, 5, 7, 11), 6),
    ]
    assert "observations" in errors[0].text
    assert "(observation 3, observation 4)" in errors[0].text
    assert "(action 1)" in errors[1].text
    assert str(errors[0]).endswith("remove or fix them; for a table --missing does it (rows 17, 130)")
    assert str(errors[1]).endswith("(row 7)")
    assert str(errors[2]).endswith("(rows 2, 3, 5, 7, 11, ...)")
    with pytest.raises(WaypostError):
        broken.checked()


def test_bad_numbers_leave_the_rest_as_it_is() -> None:
    broken = data(
        observations=changed("observations", (17, 3), np.inf),
        next_observations=changed("next_observations", (16, 3), np.inf),
        rewards=changed("rewards", 5, np.nan),
        actions=changed("actions", (9, 0), -np.inf),
    )
    found, sound = inspect(broken), inspect(data())
    assert slugs(found) == {"not-finite"}
    assert len(found.findings) == 4
    assert found.columns[3].max == pytest.approx(sound.columns[3].max)
    assert found.columns[0] == sound.columns[0]
    assert found.saturation == sound.saturation
    assert found.distinct_rewards == ROWS - 1
    assert found.returns is not None
    assert found.returns.max == pytest.approx(sound.returns.max if sound.returns else None)


def test_what_is_wrong_besides_is_found_around_the_gaps() -> None:
    states, following = (changed(name, (slice(None), 3), 1e6) for name in ("observations", "next_observations"))
    states[17, 3] = np.nan
    found = inspect(data(observations=states, next_observations=following))
    assert slugs(found) == {"not-finite", "dead-columns", "extreme-scale"}
    resets = gait().copy()
    resets[30, 2] = np.inf
    assert "unmarked-resets" in slugs(inspect(Dataset.from_arrays(resets, finite=False)))


# -- rewards ---------------------------------------------------------------------------------------


def test_zeroed_rewards_are_doubted() -> None:
    zeroed = data(rewards=np.zeros(ROWS))
    assert only(zeroed, "no-reward-signal").level == "warning"
    assert doubts(zeroed)[0].startswith("all rewards are 0: nothing tells good from bad")


def test_a_cost_of_time_is_no_fault_while_terminals_tell_good_from_bad() -> None:
    costs = np.full(ROWS, -1.0)
    assert only(data(rewards=costs), "constant-rewards").level == "note"
    assert only(data(rewards=costs, terminals=None), "no-reward-signal").level == "warning"
    assert doubts(data(rewards=costs)) == []


def test_sparse_rewards_are_noted() -> None:
    note = only(data(rewards=np.arange(ROWS) % 100 == 50), "sparse-rewards")
    assert (note.level, note.rows, note.count) == ("note", (50, 150, 250, 350, 450), 24)
    assert inspect(data(rewards=np.arange(ROWS) % 10 == 5)).findings == ()


# -- columns ---------------------------------------------------------------------------------------


def test_dead_columns_are_named() -> None:
    states = changed("observations", (slice(None), [2, 5]), 7.0)
    following = changed("next_observations", (slice(None), [2, 5]), 7.0)
    dead = data(observations=states, next_observations=following)
    warning = only(dead, "dead-columns")
    assert (warning.level, warning.count) == ("warning", 2)
    assert "2 of 12 observation columns never change (observation 2, observation 5)" in warning.text
    assert len(doubts(dead)) == 1
    still = data(actions=changed("actions", (slice(None), 1), 0.5))
    assert "1 of 3 actions never change (action 1)" in only(still, "dead-actions").text


def test_many_names_are_cut_short() -> None:
    states = np.random.default_rng(0).normal(size=(50, 1)) * (np.arange(9) == 0)
    text = next(f.text for f in inspect(Dataset.from_arrays(states)).findings if f.what == "dead-columns")
    assert "observation 5 and 3 more" in text


def test_duplicate_columns_are_found_whatever_their_kind() -> None:
    states = changed("observations", (slice(None), 4), arrays()["observations"][:, 1])
    following = changed("next_observations", (slice(None), 4), arrays()["next_observations"][:, 1])
    twins = data(observations=states, next_observations=following, actions=None)
    assert "observation 4 = observation 1" in only(twins, "duplicate-columns").text
    assert [c.duplicate_of for c in inspect(twins).columns if c.duplicate_of] == ["observation 1"]
    leak = data(rewards=arrays()["observations"][:, 0])
    assert "reward = observation 0" in only(leak, "duplicate-columns").text


def test_numbers_too_large_for_a_network_are_doubted() -> None:
    scale = np.where(np.arange(12) == 3, 1e6, 1.0)
    large = data(observations=arrays()["observations"] * scale, next_observations=arrays()["next_observations"] * scale)
    assert "observations reach 1e+06 (observation 3)" in only(large, "extreme-scale").text
    assert "rewards reach" in only(data(rewards=arrays()["rewards"] * 1e5), "extreme-scale").text


# -- actions ---------------------------------------------------------------------------------------


def test_actions_outside_their_bounds_are_doubted() -> None:
    outside = data(actions=changed("actions", ([5, 9], [0, 2]), [1.25, -1.5]))
    warning = only(outside, "actions-outside")
    assert (warning.rows, warning.count) == ((5, 9), 2)
    assert "by up to 0.5 in 0.0833 % of the rows (action 0, action 2)" in warning.text
    assert len(doubts(outside)) == 1
    rounded = data(actions=changed("actions", (5, 0), 1 + 1e-6))
    assert inspect(rounded).findings == ()


def test_saturated_actions_are_noted() -> None:
    actions = changed("actions", (slice(0, ROWS, 3), 1), np.where(np.arange(ROWS // 3) % 2, 1, -0.999))
    note = only(data(actions=actions), "saturated-actions")
    assert note.level == "note"
    assert "up to 33.3 % of the rows (action 1)" in note.text
    assert inspect(data(actions=actions)).saturation == pytest.approx((0, 1 / 3, 0))


DISCRETE = np.random.default_rng(0).integers(0, 5, (ROWS, 1))


def test_actions_that_look_discrete_are_doubted_until_somebody_says_what_they_are() -> None:
    doubtful = data(actions=DISCRETE, action_low=None, action_high=None)
    found = inspect(doubtful)
    assert slugs(found) == {"discrete-actions", "saturated-actions"}
    assert "actions look discrete, 0 to 4, and are read as continuous" in found.findings[0].text
    assert (
        "use --columns.choices 5 (in Python: data.with_action_count(5)), else --columns.choices 0"
        in found.findings[0].text
    )
    assert len(doubts(doubtful)) == 1
    # Both ways out that the text names are ways out.
    assert inspect(doubtful.with_action_count(5)).findings == ()
    assert slugs(inspect(doubtful.with_action_count(0))) == {"saturated-actions"}
    forces = data(actions=DISCRETE - 2, action_low=-3, action_high=3)
    assert inspect(forces).findings == ()
    switch = data(actions=DISCRETE % 2, action_low=-3, action_high=3)
    assert "--columns.choices 2" in only(switch, "discrete-actions").text


def test_facts_of_discrete_actions() -> None:
    found = inspect(data(actions=DISCRETE, action_count=5))
    assert found.findings == ()
    counts = np.bincount(DISCRETE[:, 0]).tolist()
    assert (found.action_size, found.action_count, list(found.taken)) == (1, 5, counts)
    assert found.saturation == ()
    facts = dict(found.facts())
    assert (facts["observations"], facts["actions"]) == ("12 columns", "5 discrete")
    shares = [f"{number} in {100 * count / ROWS:.3g} %" for number, count in enumerate(counts)]
    assert facts["actions taken"] == ", ".join(shares)
    assert "actions at a bound" not in facts
    column = next(column for column in found.columns if column.kind == "action")
    assert (column.name, column.min, column.mean, column.std, column.max) == ("action", 0, None, None, 4)
    assert column.remark == "5 discrete actions"
    record = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert (record["action_count"], record["taken"]) == (5, counts)
    assert inspect(data()).taken == ()
    assert inspect(data()).action_count is None


def test_of_many_discrete_actions_the_most_frequent_are_listed() -> None:
    taken = np.where(np.arange(ROWS) % 2, 7, np.arange(ROWS) % 30)
    facts = dict(inspect(data(actions=taken, action_count=1200)).facts())
    assert facts["actions taken"].startswith("most often 7 in 50 %, 0 in 3.33 %, 2 in 3.33 %,")
    assert facts["actions taken"].endswith("; 1 184 of 1 200 never")


def test_discrete_actions_that_are_never_taken_are_noted() -> None:
    note = only(data(actions=DISCRETE, action_count=7), "unused-actions")
    assert (note.level, note.count) == ("note", 2)
    assert "2 of 7 discrete actions are never taken (5, 6)" in note.text
    always = data(actions=np.full(ROWS, 3), action_count=7)
    warning = only(always, "dead-actions")
    assert warning.level == "warning"
    assert "only action 3 of 7 is ever taken" in warning.text
    assert len(doubts(always)) == 1


def test_missing_discrete_actions_are_errors_and_are_not_counted() -> None:
    actions = DISCRETE.astype(float)
    actions[[7, 9], 0] = np.nan, np.inf
    found = inspect(data(actions=actions, action_count=5))
    assert [(finding.what, finding.rows) for finding in found.findings] == [("not-finite", (7, 9))]
    assert "(action)" in found.findings[0].text
    assert sum(found.taken) == ROWS - 2


def test_what_a_reader_inferred_is_said_before_training() -> None:
    inferred = data(actions=DISCRETE).with_action_count(5, declared=False)
    assert only(inferred, "reader").level == "note"
    assert doubts(inferred) == [inferred.notes[0]]


# -- boundaries ------------------------------------------------------------------------------------


def unmarked(states: np.ndarray, **changes: Any) -> Dataset:
    """States one after another, without any mark where an episode ends."""
    return Dataset.from_arrays(states, **changes)


def test_resets_without_a_mark_are_doubted() -> None:
    warning = next(f for f in inspect(unmarked(gait())).findings if f.what == "unmarked-resets")
    resets = np.flatnonzero(np.arange(ROWS) % LENGTH == LENGTH - 1)
    assert warning.level == "warning"
    assert set(warning.rows) <= set(resets)
    assert 0.5 * len(resets) < warning.count < len(resets)
    assert any("unmarked" in doubt for doubt in doubts(unmarked(gait())))


def test_one_episode_is_noted_and_not_taken_for_several() -> None:
    assert only(unmarked(gait(ROWS, ROWS)), "one-episode").level == "note"
    assert slugs(inspect(unmarked(gait()))) == {"unmarked-resets"}


def test_a_single_jump_is_not_taken_for_a_reset() -> None:
    assert slugs(inspect(unmarked(gait(2 * LENGTH)))) == {"one-episode"}


def kicked(seed: int = 0) -> np.ndarray:
    """Contacts: sudden kicks of all velocities that die away."""
    rng = np.random.default_rng(seed)
    kicks = (rng.random((5000, 1)) < 0.02) * rng.normal(size=(5000, 6))
    for row in range(1, 5000):
        kicks[row] += 0.7 * kicks[row - 1]
    return kicks


def billiards() -> np.ndarray:
    """A ball between walls: its velocity turns at once, its place never jumps."""
    rows = np.arange(5000)[:, None] * (0.013, 0.0071)
    places, directions = np.abs((rows % 2) - 1), np.where(rows % 2 < 1, -1, 1)
    return np.hstack([places, directions + np.random.default_rng(0).normal(0, 1e-3, directions.shape)])


def wrapped() -> np.ndarray:
    """Two angles that jump from pi to -pi, each at its own time, and their smooth speeds."""
    time = np.arange(5000)[:, None]
    return np.hstack([(time * (0.013, 0.0071)) % (2 * np.pi), np.sin(time * (0.01, 0.02))])


def goals() -> np.ndarray:
    """A walk with a goal that is drawn again now and then, and rounded a little differently each time it is read."""
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.uniform(-0.1, 0.1, (5000, 2)), axis=0)
    return np.hstack([walk, np.repeat(rng.uniform(-5, 5, (50, 3)), 100, axis=0) + rng.normal(0, 1e-6, (5000, 3))])


def forces() -> np.ndarray:
    """A walk that feels forces at contacts only, now and then very large ones."""
    rng = np.random.default_rng(0)
    touches = rng.lognormal(0, 1.5, (1250, 1)) * rng.uniform(0.5, 1, (1250, 6)) * (np.arange(1250)[:, None] % 2)
    return np.hstack([np.cumsum(rng.uniform(-0.1, 0.1, (5000, 2)), axis=0), np.repeat(touches, 4, axis=0)])


def hurried() -> np.ndarray:
    """A walk with a large step now and then, as large steps go."""
    rng = np.random.default_rng(0)
    return np.cumsum(rng.uniform(-1, 1, (5000, 3)) * np.where(rng.random((5000, 1)) < 0.01, 8, 1), axis=0)


def noisy() -> np.ndarray:
    """A place that changes smoothly, among columns that change as they like."""
    return np.hstack(
        [np.sin(np.arange(5000)[:, None] * (0.007, 0.005)), np.random.default_rng(0).normal(size=(5000, 6))]
    )


SMOOTH = {
    "gait": gait(5000, 5000),
    "contacts": gait(5000, 5000) + np.hstack([np.zeros((5000, 6)), kicked()]),
    "contacts, velocities only": gait(5000, 5000)[:, 6:] + kicked(),
    "billiards": billiards(),
    "angles that wrap": wrapped(),
    "goals drawn again": goals(),
    "contact forces": forces(),
    "hurried steps": hurried(),
    "noisy columns": noisy(),
    "random walk": np.cumsum(np.random.default_rng(0).normal(size=(5000, 3)), axis=0),
    "noise": np.random.default_rng(0).normal(size=(5000, 4)),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_no_reset_is_seen_where_there_is_none(name: str) -> None:
    assert "unmarked-resets" not in slugs(inspect(unmarked(SMOOTH[name])))


@pytest.mark.parametrize("name", ["contacts", "goals drawn again", "noisy columns", "random walk", "billiards"])
def test_resets_are_seen_among_sudden_changes(name: str) -> None:
    states = SMOOTH[name]
    # Every episode of 250 rows goes back to where the recording began.
    episodes = np.concatenate([states[start : start + 250] for start in (0, 900, 2000, 3100, 4200)])
    warning = next(f for f in inspect(unmarked(episodes)).findings if f.what == "unmarked-resets")
    assert set(warning.rows) <= {249, 499, 749, 999}
    assert warning.count >= 2


def test_next_states_taken_from_the_next_episode_are_doubted() -> None:
    states = gait()
    ends = np.arange(ROWS) % LENGTH == LENGTH - 1
    across = data(
        observations=states, next_observations=np.roll(states, -1, axis=0), timeouts=ends, terminals=np.zeros(ROWS)
    )
    warning = only(across, "next-state-of-another-episode")
    assert set(warning.rows) <= set(np.flatnonzero(ends))
    assert warning.count > 20
    assert len(doubts(across)) == 1
    # Both ways out that the text names are ways out.
    assert only(replace(across, next_valid=~across.ends), "unknown-next-states")
    assert only(data(observations=states, next_observations=None, terminals=None), "unknown-next-states")
    # A recording that goes on after a timeout has the same agreement of rows, and nothing wrong with it.
    states = gait(ROWS, ROWS)
    goes_on = data(
        observations=states[:-1],
        next_observations=states[1:],
        actions=None,
        rewards=None,
        terminals=None,
        timeouts=ends[:-1],
    )
    assert inspect(goes_on).findings == ()


def test_next_states_that_are_copies_are_doubted() -> None:
    found = inspect(data(next_observations=arrays()["observations"], timeouts=None))
    assert "nothing-moves" in slugs(found)
    warning = next(f for f in found.findings if f.what == "nothing-moves")
    assert (warning.level, warning.count) == ("warning", ROWS)


def test_an_unknown_next_state_is_not_one_that_stands_still() -> None:
    assert only(data(next_observations=None, timeouts=np.ones(ROWS)), "unknown-next-states").count == ROWS


def test_timeouts_recorded_as_terminals_are_doubted() -> None:
    ends = arrays()["timeouts"]
    limit = data(terminals=ends, timeouts=None)
    warning = only(limit, "timeouts-as-terminals")
    assert "40 of 40 episodes are terminal after exactly 60 rows" in warning.text
    assert warning.rows[:2] == (59, 119)
    assert len(doubts(limit)) == 1
    falls = np.random.default_rng(0).random(ROWS) < 0.005
    assert "timeouts-as-terminals" in slugs(inspect(data(terminals=falls | ends, timeouts=None)))
    assert inspect(data(terminals=falls)).findings == ()


def test_a_goal_reached_after_equally_many_steps_is_no_timeout() -> None:
    ends = arrays()["timeouts"]
    goal = data(terminals=ends, timeouts=None, rewards=ends.astype(float))
    assert slugs(inspect(goal)) == {"sparse-rewards"}


def test_runs_of_terminals_are_noted() -> None:
    run = np.arange(ROWS) % LENGTH >= LENGTH - 4
    note = only(data(terminals=run | arrays()["terminals"], timeouts=None), "terminal-runs")
    assert (note.level, note.count, note.rows[:3]) == ("note", 3 * 40, (57, 58, 59))


def test_masks_taken_for_terminals_are_doubted() -> None:
    masks = data(terminals=~arrays()["terminals"])
    assert only(masks, "mostly-terminal").level == "warning"
    assert "store 1 - mask as terminals" in doubts(masks)[0]


@pytest.mark.parametrize(("every", "level"), [(50, "note"), (5, "warning")])
def test_unknown_next_states_are_counted(every: int, level: str) -> None:
    unknown = np.arange(ROWS) % every == 3
    found = only(data(next_valid=~unknown), "unknown-next-states")
    assert (found.level, found.count) == (level, ROWS // every)
    assert len(doubts(data(next_valid=~unknown))) == (level == "warning")


def test_notes_of_the_reader_are_passed_on() -> None:
    noted = replace(data(), notes=("timeouts were guessed",))
    assert only(noted, "reader").text == "timeouts were guessed"
    assert doubts(noted) == ["timeouts were guessed"]


# -- repeats ---------------------------------------------------------------------------------------


def test_data_read_twice_are_found() -> None:
    twice = {name: np.concatenate([values, values]) if np.ndim(values) else values for name, values in arrays().items()}
    found = inspect(Dataset.from_arrays(**twice))
    assert found.repeated == 0.5
    warning = next(f for f in found.findings if f.what == "repeated-transitions")
    assert (warning.level, warning.count, warning.rows[0]) == ("warning", ROWS, ROWS)


def test_only_exact_repeats_count() -> None:
    states = arrays()["observations"].astype(np.float32)
    near = {**arrays(), "observations": np.concatenate([states[:-1], states[:1]])}
    near["next_observations"] = np.concatenate([near["next_observations"][:-1], near["next_observations"][:1]])
    near["actions"] = np.concatenate([near["actions"][:-1], near["actions"][:1]])
    near["terminals"] = near["terminals"] & (np.arange(ROWS) > 0)
    for reward, repeats in ((near["rewards"][0], 1), (np.nextafter(np.float32(near["rewards"][0]), 9), 0)):
        rewards = np.append(near["rewards"][:-1], reward)
        ends = {"timeouts": np.ones(ROWS), "terminals": None}
        found = inspect(Dataset.from_arrays(**{**near, "rewards": rewards, **ends}))
        assert found.repeated * ROWS == repeats
        assert "repeated-transitions" not in slugs(found)


def test_minus_zero_is_zero() -> None:
    states = np.array([[0.0, 1], [-0.0, 1], [0, 1]])
    same = Dataset.from_arrays(states, states, timeouts=np.ones(3))
    assert inspect(same).repeated == pytest.approx(2 / 3)


# -- both together ---------------------------------------------------------------------------------


def test_the_gravest_comes_first_and_doubts_are_warnings_only() -> None:
    broken = data(
        observations=changed("observations", (17, 3), np.nan),
        rewards=np.zeros(ROWS),
        next_valid=np.arange(ROWS) % 50 != 3,
    )
    found = inspect(broken)
    assert [finding.level for finding in found.findings] == ["error", "warning", "note"]
    assert found.verdict.endswith("1 error, 1 warning, 1 note")
    assert len(doubts(data(rewards=np.zeros(ROWS), next_valid=np.arange(ROWS) % 50 != 3))) == 1


def test_an_action_among_the_observations_is_a_warning() -> None:
    table = {name: np.random.default_rng(0).normal(size=60) for name in ("temp", "heat")}
    for states, told in ((("temp", "heat"), True), (("temp",), False)):
        log = waypost.load(table, waypost.Columns(observations=states, actions=("heat",)))
        assert ("observed-actions" in {each.what for each in waypost.inspect(log).findings}) == told
        assert any("actions are among the observations (heat)" in doubt for doubt in doubts(log)) == told
