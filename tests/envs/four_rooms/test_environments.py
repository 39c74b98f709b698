"""Four rooms as Gymnasium environments, and the vector environment against Gymnasium's own."""

from __future__ import annotations

import runpy
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from waypost.envs import four_rooms as rooms
from waypost.envs.four_rooms import IDS, Variant
from waypost.envs.four_rooms.environments import FourRooms, FourRoomsVector
from waypost.errors import WaypostError
from waypost.types import Floats


def at(*positions: tuple[float, ...]) -> Floats:
    return np.array(positions, np.float32)


def walk(env: gym.Env[Any, Any], action: tuple[float, float], steps: int) -> list[tuple[Any, ...]]:
    """Repeat an action until the episode is over."""
    seen = []
    for _ in range(steps):
        seen.append(env.step(np.array(action, np.float32)))
        if seen[-1][2] or seen[-1][3]:
            break
    return seen


# -- the tasks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", [Variant.PLAIN, Variant.RIVER])
def test_goal_ends_the_episode_without_a_key(variant: str) -> None:
    env = FourRooms(variant)
    env.reset(seed=0, options={"position": (14.5, 16)})
    seen = walk(env, (0.1, 0.0), 10)
    assert 5 <= len(seen) <= 6
    assert [s[1] for s in seen] == [0.0] * (len(seen) - 1) + [1.0]
    assert seen[-1][2] is True
    assert [s[4]["success"] for s in seen] == [False] * (len(seen) - 1) + [True]


@pytest.mark.parametrize(("variant", "reward"), [(Variant.PLAIN, 0), (Variant.RIVER, -1), (Variant.KEY, -1)])
def test_river(variant: str, reward: float) -> None:
    env = FourRooms(variant)
    env.reset(seed=0, options={"position": (6, 11.45)})
    _, got, terminated, truncated, info = env.step(np.array([0, 0.1], np.float32))
    assert (got, terminated, truncated, info["success"]) == (reward, reward < 0, False, False)


def test_goal_without_the_key_does_nothing() -> None:
    env = FourRooms(Variant.KEY)
    env.reset(seed=0, options={"position": (14.5, 16)})
    seen = walk(env, (0.1, 0.0), 20)
    assert len(seen) == 20
    assert rooms.in_goal(seen[-1][0][:2])
    assert all(s[1] == 0 and not s[4]["success"] for s in seen)


def test_key_is_picked_up_and_kept_and_opens_the_goal() -> None:
    env = FourRooms(Variant.KEY)
    observation, _ = env.reset(seed=0, options={"position": (14.5, 4.25)})
    assert observation.tolist() == [14.5, 4.25, 0]
    down, up = walk(env, (0.0, -0.1), 8), walk(env, (0.0, 0.1), 120)
    carried = [s[0][2] for s in down + up]
    taken = rooms.takes_key(at(*[s[0][:2] for s in down]))
    assert carried[: len(down)] == taken.astype(float).tolist()
    assert 0 < np.count_nonzero(taken) < len(taken)
    assert set(carried[len(down) :]) == {1.0}
    east = walk(env, (0.1, 0.0), 10)
    assert east[-1][1] == 1
    assert east[-1][2] is True
    assert east[-1][4]["success"] is True
    assert env.reset(seed=1)[0][2] == 0, "a new episode starts without the key"


def test_starting_within_reach_of_the_key_holds_it() -> None:
    assert FourRooms(Variant.KEY).reset(options={"position": (15, 3)})[0].tolist() == [15, 3, 1]


# -- Gymnasium ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", Variant)
@pytest.mark.filterwarnings("ignore:.*symmetric and normalized.*")
def test_env_checker_is_content(variant: Variant) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=DeprecationWarning)
        check_env(gym.make(IDS[variant], render_mode="rgb_array").unwrapped)


@pytest.mark.parametrize("variant", Variant)
def test_observations_lie_in_the_space(variant: Variant) -> None:
    env = gym.make(IDS[variant])
    assert env.observation_space.shape == ((3,) if variant == Variant.KEY else (2,))
    observation, _ = env.reset(seed=3)
    assert env.observation_space.contains(observation)
    assert env.action_space == gym.spaces.Box(-0.1, 0.1, (2,), np.float32)


def test_starts_fill_the_start_box_and_follow_the_seed() -> None:
    env = FourRooms()
    starts = np.array([env.reset(seed=s)[0] for s in range(300)])
    assert (np.abs(starts - 2) <= 1).all()
    assert (starts.min(axis=0) < 1.1).all()
    assert (starts.max(axis=0) > 2.9).all()
    assert (env.reset(seed=7)[0] == starts[7]).all()
    assert (env.reset()[0] != starts[7]).any()


def test_truncation_after_500_steps() -> None:
    still = np.zeros(2, np.float32)
    env = gym.make(IDS[Variant.PLAIN])
    env.reset(seed=0)
    assert [env.step(still)[3] for _ in range(500)] == [False] * 499 + [True]
    envs = gym.make_vec(IDS[Variant.PLAIN], num_envs=2, vectorization_mode="vector_entry_point")
    assert isinstance(envs, FourRoomsVector)
    envs.reset(seed=0)
    cut = [envs.step(np.zeros((2, 2), np.float32))[3].tolist() for _ in range(1001)]
    assert [i for i, row in enumerate(cut) if any(row)] == [499, 1000]
    assert cut[499] == [True, True]


def test_limit_of_minus_one_means_none() -> None:
    envs = gym.make_vec(IDS[Variant.PLAIN], num_envs=1, max_episode_steps=-1)
    envs.reset(seed=0)
    assert not any(envs.step(np.zeros((1, 2), np.float32))[3].any() for _ in range(600))


def test_registering_twice_is_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runpy.run_path(rooms.__file__)
    assert gym.spec(IDS[Variant.KEY]).entry_point == "waypost.envs.four_rooms.environments:FourRooms"


def test_mistakes_are_named() -> None:
    with pytest.raises(WaypostError, match="four-rooms-river"):
        FourRooms("five-rooms")
    with pytest.raises(WaypostError, match="rgb_array"):
        FourRooms(render_mode="human")
    for position in ((9, 9), (-4, 3), (np.nan, 3)):
        with pytest.raises(WaypostError, match="cannot start"):
            FourRooms().reset(options={"position": position})


# -- the vector environment --------------------------------------------------------------------------

COUNT = 4


def both(variant: Variant, mode: AutoresetMode, limit: int) -> tuple[SyncVectorEnv[Any, Any], FourRoomsVector]:
    reference = SyncVectorEnv(
        [lambda: gym.make(IDS[variant], max_episode_steps=limit, disable_env_checker=True)] * COUNT,
        autoreset_mode=mode,
    )
    ours = gym.make_vec(IDS[variant], num_envs=COUNT, max_episode_steps=limit, autoreset_mode=mode)
    assert isinstance(ours, FourRoomsVector)
    return reference, ours


def assert_same(expected: Any, got: Any) -> None:
    """Same types, same shapes, same bytes, all the way down."""
    assert type(expected) is type(got)
    if isinstance(expected, dict):
        assert expected.keys() == got.keys()
        for key in expected:
            assert_same(expected[key], got[key])
    elif isinstance(expected, tuple) or (isinstance(expected, np.ndarray) and expected.dtype == object):
        assert len(expected) == len(got)
        for a, b in zip(expected, got, strict=True):
            assert_same(a, b)
    elif isinstance(expected, np.ndarray):
        assert (expected.dtype, expected.shape) == (got.dtype, got.shape)
        assert expected.tobytes() == got.tobytes()
    else:
        assert expected == got


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("variant", Variant)
def test_vector_equals_single_environments(
    variant: Variant, mode: AutoresetMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Starting beside the goal, the river or the key gives many episodes of every ending in few steps.
    start, heading = ((7, 14), (0.0, -0.06)) if variant == Variant.RIVER else ((14.5, 14.5), (0.05, 0.05))
    monkeypatch.setattr(rooms, "START", at(start)[0])
    monkeypatch.setattr(rooms, "KEY", at((14, 15))[0])
    rng = np.random.default_rng(0)
    reference, ours = both(variant, mode, limit=20)
    assert ours.metadata == reference.metadata
    assert ours.observation_space == reference.observation_space
    assert ours.action_space == reference.action_space
    assert_same(reference.reset(seed=11), ours.reset(seed=11))
    endings = np.zeros(3, int)
    for _ in range(300):
        actions = (rng.normal(0, 0.1, (COUNT, 2)) + heading).astype(np.float32)
        expected = reference.step(actions)
        assert_same(expected, ours.step(actions))
        over = expected[2] | expected[3]
        endings += [expected[2].sum(), expected[3].sum(), (expected[1] > 0).sum()]
        if mode == AutoresetMode.DISABLED and over.any():
            with pytest.raises(AssertionError):
                ours.step(actions)
            assert_same(
                reference.reset(options={"reset_mask": over.copy()}), ours.reset(options={"reset_mask": over.copy()})
            )
    assert (endings[:2] > 3).all()
    assert (endings[2] > 3) == (variant != Variant.RIVER)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_last_step_can_both_terminate_and_truncate(mode: AutoresetMode) -> None:
    reference, ours = both(Variant.PLAIN, mode, limit=1)
    options = {"position": (14.95, 16.0)}
    assert_same(reference.reset(seed=0, options=options), ours.reset(seed=0, options=options))
    expected = reference.step(np.full((COUNT, 2), 0.1, np.float32))
    assert expected[2].all()
    assert expected[3].all()
    assert_same(expected, ours.step(np.full((COUNT, 2), 0.1, np.float32)))


def test_vector_seeds() -> None:
    reference, ours = both(Variant.PLAIN, AutoresetMode.NEXT_STEP, limit=5)
    seeds: list[int | None] = [5, 3, 5, 8]
    assert_same(reference.reset(seed=seeds), ours.reset(seed=seeds))
    assert_same(reference.reset(), ours.reset())
    mixed: Any = [None, 3, None, 4]
    assert_same(reference.reset(seed=mixed), ours.reset(seed=mixed))
    partly = np.array([False, True, False, True])
    assert_same(
        reference.reset(seed=30, options={"reset_mask": partly.copy()}),
        ours.reset(seed=30, options={"reset_mask": partly.copy()}),
    )
    assert_same(reference.reset(), ours.reset())
    for wrong in ([1, 2], [1] * 5):
        with pytest.raises(ValueError, match="seeds"):
            ours.reset(seed=wrong)


@pytest.mark.parametrize(
    ("mask", "error"),
    [
        ([True] * COUNT, TypeError),
        (np.ones(COUNT), TypeError),
        (np.zeros(COUNT, bool), ValueError),
        (np.ones(2, bool), ValueError),
    ],
)
def test_wrong_reset_masks_are_refused(mask: Any, error: type[Exception]) -> None:
    for envs in both(Variant.PLAIN, AutoresetMode.DISABLED, limit=5):
        envs.reset(seed=0)
        with pytest.raises(error):
            envs.reset(options={"reset_mask": mask})


def test_vector_starts_where_each_is_told() -> None:
    envs = FourRoomsVector(3)
    positions = at((3, 3), (12, 3), (3, 12))
    assert (envs.reset(seed=0, options={"position": positions})[0] == positions).all()
    mask = np.array([False, True, True])
    moved, infos = envs.reset(options={"position": positions[::-1], "reset_mask": mask})
    mask[:] = False
    assert infos["_success"].tolist() == [False, True, True], "the caller's mask stays the caller's"
    assert (moved == at((3, 3), (12, 3), (3, 3))).all()


def test_what_a_step_returned_does_not_change_later() -> None:
    envs = FourRoomsVector(2, max_episode_steps=1, autoreset_mode=AutoresetMode.SAME_STEP)
    envs.reset(seed=0)
    observations, _, terminations, truncations, infos = envs.step(np.zeros((2, 2), np.float32))
    before = [v.copy() for v in (observations, terminations, truncations, infos["_final_obs"])]
    envs.step(np.ones((2, 2), np.float32))
    after = [observations, terminations, truncations, infos["_final_obs"]]
    assert all((a == b).all() for a, b in zip(before, after, strict=True))
