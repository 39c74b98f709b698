"""Rollouts: every episode counted once, whatever steps beside it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest

import waypost
from waypost.agents.agent import Agent, Array, Memory
from waypost.agents.nets import Discrete
from waypost.envs.tasks import Task, task
from waypost.errors import WaypostError
from waypost.training.evaluation import check, rollouts


class Countdown(gym.Env[np.ndarray, np.ndarray]):
    """An episode lasts as long as its seed says and pays its step number times the action."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = gym.spaces.Box(-10, 10, (1,), np.float32)
        self.left = self.step_number = 0

    def _state(self) -> np.ndarray:
        return np.array([self.left, self.step_number], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.left, self.step_number = 1 + int(self.np_random.integers(12)), 0
        return self._state(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        self.step_number += 1
        done = self.left == 0
        return self._state(), float(self.step_number * action[0]), done, False, {"success": done and action[0] > 1}


gym.register("waypost-test/Countdown-v0", entry_point=Countdown, max_episode_steps=9)
COUNTDOWN = Task("countdown", "waypost-test/Countdown-v0", reference=(0.0, 100.0))


class Constant(Agent):
    """Always the same action."""

    action: Array

    def act(self, observations: Array, memory: Memory = ()) -> tuple[Array, Memory]:
        return jnp.broadcast_to(self.action, (len(observations), 1)), memory


class Counter(Agent):
    """Acts with what it remembers: steps of this episode so far, and the sum of rewards it was told of."""

    scale: Array

    def start(self, episodes: int, goal: Any = None) -> Memory:
        return {"steps": jnp.zeros(episodes), "earned": jnp.zeros(episodes)}

    def act(self, observations: Array, memory: Memory) -> tuple[Array, Memory]:
        actions = self.scale * (memory["steps"] + 0.01 * memory["earned"])
        return actions[:, None], {**memory, "steps": memory["steps"] + 1}

    def receive(self, memory: Memory, rewards: Array) -> Memory:
        return {**memory, "earned": memory["earned"] + rewards}


def one_by_one(act: Any, episodes: int, seed: int) -> tuple[list[float], list[int], list[bool]]:
    env = gym.make("waypost-test/Countdown-v0")
    returns, lengths, successes = [], [], []
    for j in range(episodes):
        env.reset(seed=seed + j)
        rewards: list[float] = []
        done = success = False
        while not done:
            _, reward, terminated, truncated, info = env.step(np.array([act(len(rewards), sum(rewards))], np.float32))
            done, success = terminated or truncated, success or info["success"]
            rewards.append(reward)
        returns.append(sum(rewards))
        lengths.append(len(rewards))
        successes.append(success)
    return returns, lengths, successes


@pytest.mark.parametrize("environments", [1, 3, 7, 20])
def test_the_number_of_environments_does_not_matter(environments: int) -> None:
    agents = [Constant(jnp.array([1.0])), Constant(jnp.array([2.0]))]
    judged = rollouts(agents, COUNTDOWN, 20, seed=5, environments=environments)
    for i, action in enumerate((1.0, 2.0)):
        returns, lengths, successes = one_by_one(lambda *_, action=action: action, 20, 5)
        assert judged.returns[i].tolist() == returns
        assert judged.lengths[i].tolist() == lengths
        assert judged.successes is not None
        assert judged.successes[i].tolist() == successes
    assert len(set(judged.lengths[0].tolist())) > 3
    assert judged.lengths.max() == 9


@pytest.mark.parametrize("environments", [2, 5])
def test_what_an_agent_remembers_ends_with_its_episode(environments: int) -> None:
    agents = [Counter(jnp.array(1.0)), Counter(jnp.array(0.5))]
    judged = rollouts(agents, COUNTDOWN, 11, seed=3, environments=environments)
    for i, scale in enumerate((1.0, 0.5)):
        returns, lengths, _ = one_by_one(lambda n, earned, scale=scale: scale * (n + 0.01 * earned), 11, 3)
        assert np.allclose(judged.returns[i], returns)
        assert judged.lengths[i].tolist() == lengths


def test_paths_begin_at_the_start_and_end_at_the_end() -> None:
    judged = rollouts([Constant(jnp.array([1.0]))], COUNTDOWN, 6, seed=1, paths=True, environments=4)
    for path, length in zip(judged.paths[0], judged.lengths[0], strict=True):
        assert len(path) == length + 1
        assert path[:, 1].tolist() == list(range(length + 1))


def test_measures_are_means_over_episodes() -> None:
    judged = rollouts([Constant(jnp.array([2.0]))], COUNTDOWN, 8, seed=2)
    measures = judged.measures(COUNTDOWN)[0]
    assert measures["return"] == pytest.approx(judged.returns[0].mean())
    assert measures["score"] == pytest.approx(judged.returns[0].mean())
    assert measures["episode_length"] == judged.lengths[0].mean()
    assert judged.successes is not None
    assert measures["success_rate"] == judged.successes[0].mean()
    assert 0 < measures["success_rate"] < 1


def test_seeds_change_the_episodes() -> None:
    agents = [Constant(jnp.array([1.0]))]
    first = rollouts(agents, COUNTDOWN, 10, seed=0)
    assert first.lengths.tolist() == rollouts(agents, COUNTDOWN, 10, seed=0).lengths.tolist()
    assert first.lengths.tolist() != rollouts(agents, COUNTDOWN, 10, seed=50).lengths.tolist()


def test_four_rooms_native_and_single_environments_agree() -> None:
    class Diagonal(Agent):
        speed: Array

        def act(self, observations: Array, memory: Memory = ()) -> tuple[Array, Memory]:
            return jnp.broadcast_to(self.speed, (len(observations), 2)), memory

    agent = Diagonal(jnp.array([0.02, 0.1]))
    judged = rollouts([agent], task("four-rooms"), 3, seed=9)
    plain = Task("plain", "waypost/FourRooms-v0", reference=(0.0, 1.0))
    assert plain.stepping == "sync"
    beside = rollouts([agent], plain, 3, seed=9, paths=True)
    assert judged.returns.tolist() == beside.returns.tolist()
    assert judged.lengths.tolist() == beside.lengths.tolist() == [[500, 500, 500]]
    assert len({path[0].tobytes() for path in beside.paths[0]}) == 3


def test_workers_find_what_one_process_finds() -> None:
    agents, pendulum = [Constant(jnp.array([0.5]))], task("Pendulum-v1")
    alone = rollouts(agents, pendulum, 3, seed=9, paths=True)
    beside = rollouts(agents, pendulum, 3, seed=9, paths=True, workers=2)
    assert beside.returns.tolist() == alone.returns.tolist()
    assert all(np.array_equal(*paths) for paths in zip(beside.paths[0], alone.paths[0], strict=True))


def test_an_agent_of_another_task_is_refused() -> None:
    class Three(Constant):
        def act(self, observations: Array, memory: Memory = ()) -> tuple[Array, Memory]:
            return observations @ jnp.ones((3, 1)), memory

    with pytest.raises(WaypostError, match="2 observations"):
        rollouts([Three(jnp.array([1.0]))], COUNTDOWN, 2)
    with pytest.raises(WaypostError, match=r"actions of shape \(2,\)"):
        rollouts([Constant(jnp.array([1.0]))], task("four-rooms"), 2)


# -- discrete actions --------------------------------------------------------------------------------


class Dial(gym.Env[np.ndarray, int]):
    """Three steps; what is dialled, numbered from 5, is what is paid, if it is a Python or NumPy integer."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(4, start=5)
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        self.steps += 1
        return np.full(2, self.steps, np.float32), float(action), self.steps == 3, False, {}


gym.register("waypost-test/Dial-v0", entry_point=Dial)
gym.register(
    "waypost-test/Dials-v0",
    entry_point=lambda: gym.wrappers.TransformAction(Dial(), lambda action: 5, gym.spaces.MultiDiscrete([2, 2])),
)
DIAL = Task("dial", "waypost-test/Dial-v0")


class Chooser(Agent):
    """Takes each choice in turn: the one with the number of the step."""

    actions: Discrete
    shift: Array

    def act(self, observations: Array, memory: Memory = ()) -> tuple[Array, Memory]:
        return (observations[:, 0] + self.shift).astype(jnp.int32), memory


def test_choices_are_given_to_the_environment_as_it_numbers_them() -> None:
    agents = [Chooser(Discrete(4), jnp.array(shift)) for shift in (0.0, 1.0)]
    judged = rollouts(agents, DIAL, 5, environments=2)
    assert judged.returns.tolist() == [[5 + 6 + 7] * 5, [6 + 7 + 8] * 5]


def test_agents_and_environments_of_different_actions_are_refused() -> None:
    def refuse(agent: Agent, task: Task, message: str) -> None:
        for judge in (lambda: rollouts([agent], task, 2), lambda: check(agent, task)):
            with pytest.raises(WaypostError, match=message):
                judge()

    of_three, vector = Chooser(Discrete(3), jnp.array(0.0)), Constant(jnp.array([1.0]))
    refuse(of_three, DIAL, r"task dial has 4 discrete actions, the agent gives an index among 3 actions; .*--env")
    refuse(of_three, DIAL, r"--columns.choices 4$")
    refuse(vector, DIAL, r"task dial has 4 discrete actions, the agent gives actions of shape \(1,\); .*--env")
    refuse(of_three, COUNTDOWN, r"takes actions of shape \(1,\), the agent gives an index among 3 actions; .*--env")
    dials = Task("dials", "waypost-test/Dials-v0")
    refuse(vector, dials, r"takes actions of 0: one of 2, 1: one of 2; the agent gives a number; .*--columns.discrete$")


def cart_pole(episodes: int, random: float, seed: int = 0) -> dict[str, np.ndarray]:
    """A controller that pushes towards where the pole falls, and now and then to either side."""
    env, rng = gym.make("CartPole-v1"), np.random.default_rng(seed)
    rows: dict[str, list[Any]] = {"observations": [], "actions": [], "rewards": [], "terminals": [], "timeouts": []}
    rows["next_observations"] = []
    for episode in range(episodes):
        state, _ = env.reset(seed=seed + episode)
        done = False
        while not done:
            falls_right = state[2] + 0.5 * state[3] > 0
            action = int(rng.integers(2)) if rng.random() < random else int(falls_right)
            following, reward, terminated, truncated, _ = env.step(action)
            for name, value in zip(rows, (state, action, reward, terminated, truncated, following), strict=True):
                rows[name].append(value)
            state, done = following, terminated or truncated
    return {name: np.array(values) for name, values in rows.items()}


@pytest.mark.slow
@pytest.mark.learns
def test_cart_poles_are_held_up_by_agents_that_saw_them_fall() -> None:
    """Random pushes hold a pole for 22 steps, those of the data for 55 on average; 500 is the limit."""
    data = waypost.load(cart_pole(150, random=0.7))
    assert data.action_count == 2
    assert 40 < data.episode_lengths.mean() < 70
    judged = waypost.Protocol(every=0, episodes=10)
    bc = waypost.train("bc", data, env="CartPole-v1", steps=500, hidden=(32, 32), evaluation=judged)
    assert bc.result["mean"]["episode_length"] > 200
    assert set(np.unique(bc.policy.act(data.observations))) == {0, 1}
    por = waypost.train(
        "por",
        data,
        env="CartPole-v1",
        steps=2_000,
        value_learning_rate=1e-3,
        guide_target="displacement",
        observation_scaling="standardise",
        **dict.fromkeys(("value_hidden", "guide_hidden", "executor_hidden"), (64, 64)),
        evaluation=judged,
    )
    assert por.result["mean"]["episode_length"] > 200


@pytest.mark.filterwarnings("ignore:.*NaN")
def test_rewards_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(WaypostError, match="task countdown: the environment returned rewards that are NaN or infinite"):
        rollouts([Constant(jnp.array([np.nan]))], COUNTDOWN, 2)
