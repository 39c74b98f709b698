"""Evaluation in a simulator: many episodes at once, one batched action call per step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from waypost.agents.actions import Mixed
from waypost.agents.agent import Agent, Array, Memory, Spec
from waypost.agents.nets import Discrete
from waypost.envs.flat import Assembled
from waypost.envs.tasks import Task
from waypost.errors import MissingPart, WaypostError
from waypost.spaces import ActionPart
from waypost.types import Count

MEASURES = ("return", "score", "success_rate", "episode_length")
MOST_ENVIRONMENTS = 100
"""The most environments per agent that step together."""


@dataclass(frozen=True)
class Episodes:
    """Results of each agent in each of its episodes; arrays are (agents, episodes)."""

    returns: np.ndarray
    lengths: np.ndarray
    successes: np.ndarray | None
    """Whether the goal was reached, if the environment reports it in info['success']."""
    paths: list[list[np.ndarray]] = field(default_factory=list)
    """Observations of each episode, if requested."""

    def measures(self, task: Task) -> list[dict[str, float | None]]:
        """The mean return, score, success rate and length of each agent."""
        scores = task.score(self.returns.mean(axis=1))
        return [
            {
                "return": float(self.returns[i].mean()),
                "score": None if scores is None else float(scores[i]),
                "success_rate": None if self.successes is None else float(self.successes[i].mean()),
                "episode_length": float(self.lengths[i].mean()),
            }
            for i in range(len(self.returns))
        ]


def rollouts(
    agents: Sequence[Agent],
    task: Task,
    episodes: int,
    seed: int = 0,
    paths: bool = False,
    environments: int = MOST_ENVIRONMENTS,
    progress: Count | None = None,
    workers: int = 0,
) -> Episodes:
    """Run every agent for `episodes` episodes.

    Environments without a batch form of their own are stepped by `workers` processes, one environment each; every
    agent has at least one.

    Episode j starts from seed + j for every agent, so all agents get the same starts and the result does not
    depend on how many environments step together. Every started episode counts, short or long.
    """
    apart = workers > 0 and task.stepping == "sync"
    width = min(episodes, max(1, workers // len(agents)) if apart else environments)
    actor = _Actor(agents, task.goal)
    envs = task.make(len(agents) * width, apart)
    try:
        _check_spaces(envs, actor, task)
        found = _run(actor, envs, episodes, width, seed, paths, progress)
    finally:
        envs.close()
    if not np.isfinite(found.returns).all():
        raise WaypostError(f"task {task.name}: the environment returned rewards that are NaN or infinite")
    return found


def check(agent: Agent, task: Task) -> None:
    """Raise the errors of an evaluation now rather than after hours of training."""
    envs = task.make(1)
    try:
        _check_spaces(envs, _Actor([agent], task.goal), task)
    finally:
        envs.close()


def can_act(agent: Any, spec: Spec, task: Task) -> bool:
    """Whether the agent has all the parts it needs to act."""
    row = jax.ShapeDtypeStruct((1, spec.observation_size), np.float32)
    try:
        jax.eval_shape(lambda rows: agent.act(rows, agent.start(1, task.goal)), row)
    except MissingPart:
        return False
    return True


class _Actor:
    """All agents as one function of one batch: (agents x width) observations in, actions out."""

    def __init__(self, agents: Sequence[Agent], goal: Sequence[float] | None = None):
        # Stacked with NumPy, so that nothing is compiled.
        self.agents = jax.device_put(jax.tree.map(lambda *leaves: np.stack(leaves), *agents))
        self.count = len(agents)
        self.goal = None if goal is None else jax.device_put(np.asarray(goal, np.float32))

    def start(self, episodes: int) -> Memory:
        return eqx.filter_vmap(lambda agent: agent.start(episodes, self.goal))(self.agents)

    def beginning(self, starts: Memory, episode: np.ndarray) -> Memory:
        """What is remembered at the start of each environment's current episode."""
        return jax.tree.map(lambda each: each[np.arange(self.count)[:, None], episode.reshape(self.count, -1)], starts)

    def act(self, observations: np.ndarray, memory: Memory) -> tuple[np.ndarray, Memory]:
        grouped = observations.reshape(self.count, -1, observations.shape[-1])
        actions, memory = _act(self.agents, grouped, memory)
        return np.asarray(actions).reshape(len(observations), *actions.shape[2:]), memory

    def receive(self, memory: Memory, rewards: np.ndarray) -> Memory:
        """Pass on the rewards."""
        return _receive(self.agents, memory, rewards.reshape(self.count, -1)) if jax.tree.leaves(memory) else memory

    def restart(self, memory: Memory, restarted: np.ndarray, fresh: Memory) -> Memory:
        """Reset the memory where an episode has restarted."""
        return _restart(memory, restarted.reshape(self.count, -1), fresh) if jax.tree.leaves(memory) else memory


@jax.jit
def _act(agents: Agent, observations: Array, memory: Memory) -> tuple[Array, Memory]:
    return jax.vmap(lambda agent, rows, memory: agent.act(rows, memory))(agents, observations, memory)


@jax.jit
def _receive(agents: Agent, memory: Memory, rewards: Array) -> Memory:
    return jax.vmap(lambda agent, memory, rewards: agent.receive(memory, rewards))(agents, memory, rewards)


@jax.jit
def _restart(memory: Memory, restarted: Array, fresh: Memory) -> Memory:
    def choose(new: Array, old: Array) -> Array:
        return jnp.where(restarted.reshape(restarted.shape + (1,) * (old.ndim - 2)), new, old)

    return jax.tree.map(choose, fresh, memory)


def _check_spaces(envs: Any, actor: _Actor, task: Task) -> None:
    """Raise a clear error before a shape error inside the compiled function."""
    space = envs.single_observation_space
    rows = jax.ShapeDtypeStruct((actor.count, 1, space.shape[0]), jnp.float32)
    memory = jax.eval_shape(lambda: actor.start(1))
    try:
        actions, _ = jax.eval_shape(_act, actor.agents, rows, memory)
    except (TypeError, ValueError):
        raise WaypostError(
            f"task {task.name} has {space.shape[0]} observations, the agent was trained on another number; "
            "choose the task that fits the data with --env"
        ) from None
    if isinstance(envs, Assembled):
        _check_parts(envs.parts, actions, actor, task)
    else:
        _check_actions(envs.single_action_space, actions, _choices(actor.agents), task)


def _check_actions(space: Any, actions: Any, choices: set[int], task: Task) -> None:
    """The same for actions: `actions` are (agents, rows) indices of discrete actions, or such rows of vectors."""
    fits = "choose the task that fits the data with --env"
    numbers = actions.ndim == 2 and jnp.issubdtype(actions.dtype, jnp.integer)
    gives = f"actions of shape {actions.shape[2:]}"
    if numbers:
        gives = f"an index among {' or '.join(map(str, sorted(choices)))} actions" if choices else "a number"
    if isinstance(space, gym.spaces.Discrete):
        if not numbers or (choices and choices != {int(space.n)}):
            raise WaypostError(
                f"task {task.name} has {space.n} discrete actions, the agent gives {gives}; {fits}, or declare the "
                f"data's actions discrete when training: --columns.choices {space.n}"
            )
    elif numbers or space.shape != actions.shape[2:]:
        raise WaypostError(f"task {task.name} takes actions of shape {space.shape}, the agent gives {gives}; {fits}")


def _check_parts(parts: Sequence[ActionPart], actions: Any, actor: _Actor, task: Task) -> None:
    """The same for actions with several parts."""
    mixed = _mixed(actor.agents)
    given = mixed.counts if mixed else (0,) * int(np.prod(actions.shape[2:]))
    if actions.ndim != 3 or given != tuple(part.choices for part in parts):
        wanted = ", ".join(f"{part.name}: {_kind(part.choices)}" for part in parts)
        raise WaypostError(
            f"task {task.name} takes actions of {wanted}; the agent gives {', '.join(map(_kind, given))}; when "
            "training, declare the data's discrete actions, in this order or by these names: --columns.discrete"
        )
    for part, numbers in zip(parts, mixed.choices if mixed else (), strict=False):
        if numbers and _shift(part, numbers) is None:
            first, last = part.start, part.start + part.choices - 1
            said = ", ".join(f"{number:g}" for number in numbers[:10])
            raise WaypostError(f"task {task.name}: {part.name} is {first} to {last}, the agent gives one of {said}")


def _kind(count: int) -> str:
    return f"one of {count}" if count else "a number"


def _shift(part: ActionPart, numbers: Sequence[float]) -> int | None:
    """The offset from the agent's numbers to the environment's; None if they do not match."""
    theirs = range(part.start, part.start + part.choices)
    if set(numbers) <= set(theirs):
        return 0
    return part.start if set(numbers) <= set(range(part.choices)) else None


def _mixed(agents: Agent) -> Mixed | None:
    """The layout of the agents' actions, if they are mixed."""
    parts = jax.tree.leaves(agents, is_leaf=lambda part: isinstance(part, Mixed))
    return next((part for part in parts if isinstance(part, Mixed)), None)


def _starts(envs: Any, agents: Agent) -> Any:
    """The offset added to an agent's discrete actions: environments may not count from 0."""
    mixed = _mixed(agents)
    if isinstance(envs, Assembled) and mixed:
        pairs = zip(envs.parts, mixed.choices, strict=True)
        return np.array([_shift(part, numbers) or 0 if numbers else 0 for part, numbers in pairs], np.float32)
    space = envs.single_action_space
    return space.start if isinstance(space, gym.spaces.Discrete) else 0


def _choices(agents: Agent) -> set[int]:
    """The number of discrete actions of the agents, as far as their parts tell."""
    parts = jax.tree.leaves(agents, is_leaf=lambda part: isinstance(part, Discrete))
    return {part.count for part in parts if isinstance(part, Discrete)}


def _run(
    actor: _Actor,
    envs: Any,
    episodes: int,
    width: int,
    seed: int,
    paths: bool,
    progress: Count | None,
) -> Episodes:
    total = actor.count * width
    start = _starts(envs, actor.agents)
    agent_of = np.repeat(np.arange(actor.count), width)
    episode = np.tile(np.arange(width), actor.count)  # which episode each environment is in
    started = np.full(actor.count, width)
    returns = np.zeros((actor.count, episodes))
    lengths = np.zeros((actor.count, episodes), np.int64)
    successes = np.zeros((actor.count, episodes), bool)
    reports_success = False
    seen: list[list[list[np.ndarray]]] = [[[] for _ in range(episodes if paths else 0)] for _ in range(actor.count)]

    observations, _ = envs.reset(seed=[seed + int(j) for j in episode])
    # Drawn per episode, not per environment: an agent that samples gets new random numbers in every episode.
    starts = jax.tree.map(np.asarray, actor.start(episodes))
    memory, running, finished = actor.beginning(starts, episode), np.ones(total, bool), 0
    while running.any():
        observations = np.asarray(observations, np.float32)
        if paths:
            for i in np.flatnonzero(running):
                seen[agent_of[i]][episode[i]].append(observations[i].copy())
        actions, memory = actor.act(observations, memory)
        actions = actions.astype(envs.action_space.dtype)
        observations, rewards, terminated, truncated, infos = envs.step(actions + start if np.any(start) else actions)
        where = agent_of[running], episode[running]
        returns[where] += rewards[running]
        lengths[where] += 1
        if "success" in infos:
            reports_success = True
            successes[where] |= np.asarray(infos["success"], bool)[running]
        done = terminated | truncated
        memory = actor.receive(memory, np.asarray(rewards, np.float32))
        if not done.any():
            continue
        last = np.asarray(observations, np.float32)
        seeds: list[int | None] = [None] * total
        for i in np.flatnonzero(done):
            if not running[i]:
                continue
            if paths:
                seen[agent_of[i]][episode[i]].append(last[i].copy())
            finished += 1
            if started[agent_of[i]] < episodes:
                episode[i] = started[agent_of[i]]
                started[agent_of[i]] += 1
                seeds[i] = seed + int(episode[i])
            else:
                running[i] = False
        if progress:
            progress(finished, actor.count * episodes)
        memory = actor.restart(memory, done, actor.beginning(starts, episode))
        if running.any():
            # Environments that have finished rest if they can; otherwise they keep stepping, and nothing of it counts.
            again = done & running if getattr(envs, "rests", False) else done
            if again.any():
                observations, _ = envs.reset(seed=seeds, options={"reset_mask": again})
    return Episodes(
        returns,
        lengths,
        successes if reports_success else None,
        [[np.stack(path) for path in each] for each in seen] if paths else [],
    )
