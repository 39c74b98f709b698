"""The remade data sets: true transitions, D4RL's recipes, the same bytes however many processes record them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from samples import walk

from waypost.data.dataset import Dataset
from waypost.data.sources import RECIPES, kept_file, load, save
from waypost.envs.locomotion import BODIES
from waypost.envs.mazes import ANT_SCALE, MAZES, POINT_SCALE, at_goal
from waypost.envs.tasks import TASKS
from waypost.errors import WaypostError
from waypost.recording import replicas
from waypost.recording.replicas import REPLICAS, collect
from waypost.types import Count

FIFTEEN = {
    *(f"{body}-{data}" for body in BODIES for data in ("medium", "medium-replay", "medium-expert")),
    *(f"antmaze-{data}" for data in ("umaze", "umaze-diverse")),
    *(f"antmaze-{maze}-{data}" for maze in ("medium", "large") for data in ("play", "diverse")),
}


@pytest.fixture(autouse=True)
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units small enough that even short data consist of several."""
    monkeypatch.setattr(replicas, "UNIT", 400)


def check_chains(data: Dataset) -> None:
    """Inside an episode every row begins where the one before led; elsewhere it does not."""
    inside = ~data.ends[:-1]
    assert (data.observations[1:][inside] == data.next_observations[:-1][inside]).all()
    assert (data.observations[1:][~inside] != data.next_observations[:-1][~inside]).any(axis=1).all()
    assert data.next_valid.all()
    assert not any("unmarked" in note for note in data.notes), "every end is marked"


def test_there_are_the_fifteen_and_the_others() -> None:
    more = {f"{body}-{data}" for body in BODIES for data in ("random", "expert")}
    assert set(REPLICAS) == FIFTEEN | more | {f"pointmaze-{maze}" for maze in MAZES}
    assert set(REPLICAS) <= set(TASKS)
    sizes = {name: REPLICAS[name].transitions for name in REPLICAS}
    assert [sizes[f"{body}-medium-replay"] for body in BODIES] == [402_000, 202_000, 302_000]
    assert {sizes[name] for name in FIFTEEN if name.endswith("-expert")} == {2_000_000}
    assert {sizes[name] for name in FIFTEEN if name.startswith("antmaze") or name.endswith("medium")} == {1_000_000}


@pytest.mark.parametrize("name", REPLICAS)
def test_every_replica_can_be_collected(name: str) -> None:
    data = collect(name, 60, workers=1)
    assert len(data) == 60
    assert data.name == data.task == name
    assert len(data.observation_names) == data.observation_size
    low, high = data.action_low, data.action_high
    assert low is not None
    assert high is not None
    assert (low == -1).all()
    assert (high == 1).all()
    assert np.abs(data.require("actions")).max() <= 1
    check_chains(data)


@pytest.mark.parametrize("name", ["hopper-medium-replay", "antmaze-umaze-diverse", "pointmaze-umaze"])
def test_same_seed_same_bytes_however_the_work_is_shared(name: str) -> None:
    alone = collect(name, 600, seed=3, workers=1)
    workers = 3 if name == "pointmaze-umaze" else 2
    assert collect(name, 600, seed=3, workers=workers).fingerprint() == alone.fingerprint()
    assert (collect(name, 20, seed=4, workers=1).observations[0] != alone.observations[0]).any()


def test_seeds_are_derived_from_who_acts() -> None:
    keys = {scene.key for replica in REPLICAS.values() for _, scene in replica.stages}
    # These strings are part of what a seed stands for.
    assert {"hopper/0/drawn", "hopper/160000/drawn", "hopper/380000/mean", "point/umaze"} <= keys
    assert {"ant/2600000/umaze/fixed", "ant/2600000/medium/play", "ant/2600000/large/diverse"} <= keys
    assert len(keys) == 3 * 2 + (8 + 8 + 12) + 6 + 3


def test_fewer_transitions_are_the_first_of_more() -> None:
    more, fewer = collect("hopper-medium", 1500, workers=1), collect("hopper-medium", 1000, workers=1)
    assert (more.observations[:1000] == fewer.observations).all()
    assert (more.ends[:999] == fewer.ends[:999]).all()
    assert fewer.timeouts[-1], "the end of the recording is not the end of the task"


def test_hoppers_fall_and_only_then_end() -> None:
    data = collect("hopper-medium-replay", 3000, workers=1)
    check_chains(data)
    height, angle = data.next_observations[:, 0], data.next_observations[:, 1]
    fallen = (height <= 0.7) | (np.abs(angle) >= 0.2)
    assert (data.terminals == fallen).all()
    assert data.terminals.sum() > 5
    assert data.episode_lengths.max() <= 1000


def test_cheetahs_run_to_the_time_limit() -> None:
    data = collect("halfcheetah-random", 2500, workers=1)
    check_chains(data)
    assert data.episode_lengths.tolist() == [1000, 1000, 500]
    assert not data.terminals.any()


def test_random_actions_are_uniform() -> None:
    actions = collect("walker2d-random", 2000, workers=1).require("actions")
    assert np.histogram(actions, 4, (-1, 1))[0] / actions.size == pytest.approx(0.25, abs=0.02)


def test_medium_expert_is_medium_and_then_expert() -> None:
    both = collect("halfcheetah-medium-expert", 2400, workers=1)
    for first, name in ((0, "medium"), (1200, "expert")):
        half = collect(f"halfcheetah-{name}", 1200, workers=1)
        assert (both.observations[first : first + 1200] == half.observations).all()
    assert both.timeouts[1199], "nothing leads from one half to the other"


def test_replay_climbs_to_medium_in_the_order_of_training() -> None:
    for body, first, medium, more in (
        ("hopper", 0, 160_000, 0.6),
        ("halfcheetah", 60_000, 200_000, 0.0),
        ("walker2d", 0, 300_000, 0.0),
    ):
        shares, scenes = zip(*REPLICAS[f"{body}-medium-replay"].stages, strict=True)
        steps = [int(scene.key.split("/")[1]) for scene in scenes]
        assert steps == sorted(steps)
        assert (steps[0], steps[-1]) == (first, medium)
        assert sum(shares) == pytest.approx(1)
        # Every moment stands for what lies nearer to it than to the others: the last, and random, for half as much.
        even = shares[1]
        assert shares[0] == pytest.approx(even if first else even / 2)
        assert shares[1:-1] == pytest.approx([even] * (len(shares) - 2))
        assert shares[-1] == pytest.approx(even / 2 + more)


def test_policies_are_as_good_as_their_roles() -> None:
    means = [
        collect(f"halfcheetah-{data}", 2000, workers=1).episode_returns.mean()
        for data in ("random", "medium", "expert")
    ]
    scores = TASKS["halfcheetah-medium"].score(np.array(means))
    assert scores[0] == pytest.approx(0, abs=3)
    assert 30 < scores[1] < 50
    assert scores[2] > 75


def test_only_the_hopper_expert_acts_with_its_mean() -> None:
    means = {n for n, r in REPLICAS.items() for _, scene in r.stages if scene.key.endswith("/mean")}
    assert means == {"hopper-expert", "hopper-medium-expert"}
    assert all("mean" in REPLICAS[name].notes[0] for name in means)


@cache
def ants(name: str) -> Dataset:
    return collect(name, 2500 if name == "antmaze-umaze" else 1500, workers=1)


@pytest.mark.parametrize("name", ["antmaze-umaze", "antmaze-medium-play", "antmaze-large-diverse"])
def test_ants_are_rewarded_and_end_at_the_goal_of_the_evaluation(name: str) -> None:
    data = ants(name)
    check_chains(data)
    maze = MAZES[name.split("-")[1]]
    goal = maze.centre(maze.ant_goal, ANT_SCALE).astype(np.float32)
    arrived = at_goal(data.next_observations[:, :2], goal)
    assert (data.terminals == arrived).all()
    assert (data.require("rewards") == arrived).all()
    assert data.episode_lengths.max() <= maze.ant_steps
    cells = {maze.cell_of(position, ANT_SCALE) for position in data.observations[data.episode_starts, :2]}
    assert cells <= set(maze.free) - {maze.ant_goal}


def test_the_plain_u_is_walked_from_the_start_to_the_goal() -> None:
    data = ants("antmaze-umaze")
    start = MAZES["umaze"].centre((1, 1), ANT_SCALE)
    assert np.abs(data.observations[data.episode_starts, :2] - start).max() <= 0.1001
    assert data.terminals.sum() >= 3


def test_play_ends_at_hand_picked_places_and_diverse_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "UNIT", 2500)  # every unit runs to the end of a long episode

    def ends(name: str) -> set[tuple[int, int]]:
        data = collect(f"antmaze-medium-{name}", 2500, workers=1)
        # An episode shorter than the limit arrived where it was sent to; the last one was cut.
        done = np.flatnonzero(data.ends & ~data.terminals)[:-1]
        done = done[data.episode_lengths[data.episode_of[done]] < MAZES["medium"].ant_steps]
        return {MAZES["medium"].cell_of(position, ANT_SCALE) for position in data.next_observations[done, :2]}

    def beside(cells: set[tuple[int, int]], picked: tuple[tuple[int, int], ...]) -> bool:
        """Within half a metre of a place in a picked cell one may stand just across its border."""
        return all(min(abs(r - pr) + abs(c - pc) for pr, pc in picked) <= 1 for r, c in cells)

    play, diverse = ends("play"), ends("diverse")
    assert len(play) > 1
    assert beside(play, MAZES["medium"].play_goals)
    assert not beside(diverse, MAZES["medium"].play_goals)


def test_points_wander_without_end() -> None:
    data = collect("pointmaze-umaze", 3000, workers=1)
    check_chains(data)
    maze = MAZES["umaze"]
    assert not data.terminals.any()
    assert data.episode_lengths.tolist() == [300] * 10
    arrived = at_goal(data.next_observations[:, :2], maze.centre(maze.point_goal, POINT_SCALE).astype(np.float32))
    assert (data.require("rewards") == arrived).all()
    visited = {maze.cell_of(position, POINT_SCALE) for position in data.observations[:, :2]}
    assert visited == set(maze.free)


def test_progress_grows_to_the_total() -> None:
    calls: list[tuple[int, int]] = []
    collect("hopper-random", 1500, workers=1, progress=lambda done, total: calls.append((done, total)))
    assert calls == sorted(calls)
    assert len(calls) > 1
    assert calls[-1] == (1500, 1500)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("hopper-large", {}, "there is no replica 'hopper-large'; choose from hopper-random, "),
        ("hopper-medium", {"transitions": 0}, "transitions must be at least 1, got 0"),
        ("hopper-medium", {"seed": -1}, "seed must be at least 0, got -1"),
        ("hopper-medium", {"workers": 0}, "workers must be at least 1, got 0"),
        ("hopper-medium", {"workers": 10**9}, "workers must be at most 1000, got 1000000000"),
        ("hopper-medium", {"transitions": 10**12}, "transitions must be at most 2147483647, got 1000000000000"),
        ("hopper-medium", {"transitions": 2.5}, "transitions must be a whole number, got 2.5"),
    ],
)
def test_mistakes_are_named(name: str, options: dict[str, int], message: str) -> None:
    with pytest.raises(WaypostError, match=message):
        collect(name, **{"transitions": 10, **options})


@pytest.mark.slow
def test_the_ant_arrives_where_it_is_sent() -> None:
    data = collect("antmaze-large-diverse", 40_000)
    lengths = data.episode_lengths[:-1]
    assert (lengths < MAZES["large"].ant_steps).mean() >= 0.75


def test_a_disk_without_room_is_noticed_before_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_late(transitions: int | None, progress: Count | None) -> Dataset:
        pytest.fail("recorded what cannot be kept")

    monkeypatch.setenv("WAYPOST_DATA", str(tmp_path / "kept"))
    usual = RECIPES["hopper-medium"]
    assert usual.row_size == REPLICAS["hopper-medium"].row_size >= 4 * (11 + 11 + 3 + 1)
    monkeypatch.setitem(RECIPES, "hopper-medium", replace(usual, make=too_late, row_size=1 << 50))
    with pytest.raises(OSError, match=r"No space left on device: .*hopper-medium-300.npz"):
        load("hopper-medium-300")
    assert list(tmp_path.iterdir()) == []


def test_two_processes_may_record_the_same_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(transitions: int | None, progress: Count | None) -> Dataset:
        save(walk(), kept_file("hopper-medium", transitions))  # another process was faster
        return walk()

    monkeypatch.setenv("WAYPOST_DATA", str(tmp_path))
    monkeypatch.setitem(RECIPES, "hopper-medium", replace(RECIPES["hopper-medium"], make=slowly))
    assert load("hopper-medium-300").fingerprint() == walk().fingerprint()
    assert [path.name for path in tmp_path.iterdir()] == ["hopper-medium-300.npz"]
