"""Train the policies that act in the replicas, with SAC on one core, and pack them for the package.

    python scripts/train_behaviours.py train Hopper-v5 checkpoints/hopper --steps 400000
    python scripts/train_behaviours.py train HalfCheetah-v5 checkpoints/halfcheetah --steps 200000
    python scripts/train_behaviours.py train Walker2d-v5 checkpoints/walker2d --steps 1000000 --every 25000
    python scripts/train_behaviours.py train goal-ant checkpoints/ant --steps 4000000 --environments 16
    python scripts/train_behaviours.py pack checkpoints/ant waypost/recording/weights/ant.safetensors --steps 2600000

About 700 environment steps per second on one core for the hopper. A checkpoint NNNNNNN.npz holds w0, b0, w1, b1, w2,
b2 of a ReLU network observation -> (mean, log_std); action = tanh(mean + exp(clip(log_std, -5, 2)) * noise).
It needs only what Waypost needs.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# One thread: several trainings side by side are faster than one that splits its small matrices.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
os.environ.setdefault("MUJOCO_GL", "disable")

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import optax
import tyro
from gymnasium.envs.mujoco.ant_v5 import AntEnv
from safetensors.numpy import save

DISCOUNT = 0.99
TARGET_RATE = 0.005
RANDOM_STEPS = 5000
"""Steps of random actions before anything is learned."""
MOST_KEPT = 1_000_000
"""Capacity of the replay buffer, in transitions."""


class GoalAnt(gym.Env):
    """Ant on an open plane chasing places 1.5 to 8 m away.

    The observation is Gymnasium's 27 numbers without (x, y), then (target - xy) / 4 with its length clipped to 1.
    """

    radius, reached = 8.0, 0.6

    def __init__(self) -> None:
        self.ant = AntEnv(include_cfrc_ext_in_observation=False)
        self.action_space = self.ant.action_space
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (29,), np.float32)
        self.target = np.zeros(2)

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        ant, _ = self.ant.reset(seed=int(self.np_random.integers(1 << 30)) if seed is None else seed)
        self.target = self._new_target()
        return self._observe(ant), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        before = self._distance()
        ant, _, fell, _, _ = self.ant.step(action)
        after = self._distance()
        reward = 2.0 * (before - after) / self.ant.dt - 0.02 * float(np.square(action).sum())
        if after < self.reached:
            reward += 5.0
            self.target = self._new_target()
        return self._observe(ant), float(reward), fell, False, {}

    def _distance(self) -> float:
        return float(np.linalg.norm(self.target - self.ant.data.qpos[:2]))

    def _new_target(self) -> np.ndarray:
        angle, distance = self.np_random.uniform(-np.pi, np.pi), self.np_random.uniform(1.5, self.radius)
        return self.ant.data.qpos[:2] + distance * np.array([np.cos(angle), np.sin(angle)])

    def _observe(self, ant: np.ndarray) -> np.ndarray:
        away = self.target - self.ant.data.qpos[:2]
        return np.concatenate([ant, away / max(4.0, float(np.linalg.norm(away)))]).astype(np.float32)


def make(env: str) -> gym.Env:
    """One environment to train in."""
    return gym.wrappers.TimeLimit(GoalAnt(), 500) if env == "goal-ant" else gym.make(env)


# -- SAC -----------------------------------------------------------------------------------------------


def mlp_init(key: jax.Array, sizes: list[int]) -> list[tuple[jax.Array, jax.Array]]:
    """Uniform weights, small in the last layer, and zero biases."""
    keys = jax.random.split(key, len(sizes) - 1)
    scales = [0.8] * (len(sizes) - 2) + [0.1]
    return [
        (scale * (3 / i) ** 0.5 * jax.random.uniform(k, (i, o), minval=-1, maxval=1), jnp.zeros(o))
        for k, scale, i, o in zip(keys, scales, sizes[:-1], sizes[1:], strict=True)
    ]


def mlp(layers: Any, x: jax.Array) -> jax.Array:
    for weights, biases in layers[:-1]:
        x = jax.nn.relu(x @ weights + biases)
    weights, biases = layers[-1]
    return x @ weights + biases


def sample(actor: Any, observations: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Actions and their log probabilities."""
    mean, log_std = jnp.split(mlp(actor, observations), 2, -1)
    log_std = jnp.clip(log_std, -5, 2)
    noise = jax.random.normal(key, mean.shape)
    before_tanh = mean + jnp.exp(log_std) * noise
    gaussian = -0.5 * noise**2 - log_std - 0.5 * jnp.log(2 * jnp.pi)
    squashing = 2 * (jnp.log(2.0) - before_tanh - jax.nn.softplus(-2 * before_tanh))
    return jnp.tanh(before_tanh), (gaussian - squashing).sum(-1)


def q_values(critics: Any, observations: jax.Array, actions: jax.Array) -> jax.Array:
    """Both critics' values, (2, batch)."""
    return jax.vmap(mlp, in_axes=(0, None))(critics, jnp.concatenate([observations, actions], -1))[..., 0]


def make_learn(optimiser: optax.GradientTransformation, action_size: int, updates: int) -> Any:
    """Several updates of SAC in one compiled call."""

    def update(state: Any, batch_and_key: Any) -> tuple[Any, None]:
        batch, key = batch_and_key
        actor, critics, targets, log_alpha, actor_memory, critic_memory, alpha_memory = state
        next_key, actor_key = jax.random.split(key)
        next_action, next_log_prob = sample(actor, batch["next"], next_key)
        alpha = jnp.exp(log_alpha)
        value = q_values(targets, batch["next"], next_action).min(0) - alpha * next_log_prob
        target = batch["reward"] + DISCOUNT * (1 - batch["terminal"]) * value

        def critic_loss(critics: Any) -> jax.Array:
            return ((q_values(critics, batch["observation"], batch["action"]) - target) ** 2).mean(1).sum()

        step, critic_memory = optimiser.update(jax.grad(critic_loss)(critics), critic_memory)
        critics = optax.apply_updates(critics, step)

        def actor_loss(actor: Any) -> tuple[jax.Array, jax.Array]:
            action, log_prob = sample(actor, batch["observation"], actor_key)
            values = q_values(critics, batch["observation"], action).min(0)
            return (alpha * log_prob - values).mean(), log_prob.mean()

        gradient, log_prob = jax.grad(actor_loss, has_aux=True)(actor)
        step, actor_memory = optimiser.update(gradient, actor_memory)
        actor = optax.apply_updates(actor, step)
        step, alpha_memory = optimiser.update(float(action_size) - log_prob, alpha_memory)
        log_alpha = optax.apply_updates(log_alpha, step)
        targets = optax.incremental_update(critics, targets, TARGET_RATE)
        return (actor, critics, targets, log_alpha, actor_memory, critic_memory, alpha_memory), None

    def learn(state: Any, batches: Any, key: jax.Array) -> Any:
        return jax.lax.scan(update, state, (batches, jax.random.split(key, updates)))[0]

    return jax.jit(learn, donate_argnums=0)


# -- commands ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Train:
    """Train one body and write checkpoints."""

    env: tyro.conf.Positional[str]
    """Gymnasium id, or goal-ant."""
    out: tyro.conf.Positional[Path]
    """Directory of the checkpoints."""
    steps: int
    """Environment steps."""
    seed: int = 0
    hidden: int = 128
    batch: int = 128
    environments: int = 8
    """Environments stepped together."""
    updates: int = 8
    """Updates per step of all environments."""
    every: int = 20_000
    """Environment steps between checkpoints."""
    learning_rate: float = 3e-4


@dataclass(frozen=True)
class Pack:
    """Put chosen checkpoints of a directory into one safetensors file."""

    source: tyro.conf.Positional[Path]
    target: tyro.conf.Positional[Path]
    steps: tuple[int, ...]
    """Steps of the checkpoints to pack."""


def pack(command: Pack) -> None:
    tensors = {}
    for steps in command.steps:
        with np.load(command.source / f"{steps:07d}.npz", allow_pickle=False) as file:
            tensors |= {f"{steps:07d}/{name}": np.asarray(file[name], np.float32) for name in file}
    command.target.parent.mkdir(parents=True, exist_ok=True)
    command.target.write_bytes(save(tensors))


def train(options: Train) -> None:
    options.out.mkdir(parents=True, exist_ok=True)
    count, size = options.environments, min(options.steps + options.environments, MOST_KEPT)
    envs = gym.vector.SyncVectorEnv(
        [lambda: make(options.env)] * count, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP
    )
    observation_size = envs.single_observation_space.shape[0]
    action_size = envs.single_action_space.shape[0]
    actor_key, critic_key, key = jax.random.split(jax.random.PRNGKey(options.seed), 3)
    hidden = [options.hidden] * 2
    actor = mlp_init(actor_key, [observation_size, *hidden, 2 * action_size])
    critics = jax.vmap(lambda k: mlp_init(k, [observation_size + action_size, *hidden, 1]))(
        jax.random.split(critic_key, 2)
    )
    optimiser, log_alpha = optax.adam(options.learning_rate), jnp.array(0.0)
    memories = (optimiser.init(actor), optimiser.init(critics), optimiser.init(log_alpha))
    state: Any = (actor, critics, jax.tree.map(jnp.copy, critics), log_alpha, *memories)
    learn = make_learn(optimiser, action_size, options.updates)
    act = jax.jit(lambda actor, observations, key: sample(actor, observations, key)[0])
    shapes = {"observation": (observation_size,), "action": (action_size,), "reward": (), "terminal": ()}
    shapes["next"] = shapes["observation"]
    buffer = {name: np.zeros((size, *shape), np.float32) for name, shape in shapes.items()}
    rng = np.random.default_rng(options.seed)
    observations, _ = envs.reset(seed=options.seed)
    running, finished, done_steps, saved, begun = np.zeros(count), [], 0, 0, time.monotonic()
    while done_steps < options.steps:
        if done_steps < RANDOM_STEPS:
            actions = rng.uniform(-1, 1, (count, action_size)).astype(np.float32)
        else:
            key, act_key = jax.random.split(key)
            actions = np.asarray(act(state[0], jnp.asarray(observations, jnp.float32), act_key))
        next_observations, rewards, terminated, truncated, infos = envs.step(actions)
        real_next, ended = next_observations.copy(), np.flatnonzero(terminated | truncated)
        for i in ended:
            real_next[i] = infos["final_obs"][i]
        rows = (done_steps + np.arange(count)) % size
        stored = (observations, actions, rewards, terminated, real_next)
        for name, values in zip(("observation", "action", "reward", "terminal", "next"), stored, strict=True):
            buffer[name][rows] = values
        running += rewards
        observations, done_steps = next_observations, done_steps + count
        finished += running[ended].tolist()
        running[ended] = 0
        if done_steps >= RANDOM_STEPS:
            picked = rng.integers(0, min(done_steps, size), (options.updates, options.batch))
            key, learn_key = jax.random.split(key)
            state = learn(state, {name: jnp.asarray(values[picked]) for name, values in buffer.items()}, learn_key)
        if done_steps - saved >= options.every or done_steps >= options.steps:
            saved = done_steps
            layers = {
                f"{c}{i}": np.asarray(x) for i, pair in enumerate(state[0]) for c, x in zip("wb", pair, strict=True)
            }
            np.savez(options.out / f"{done_steps:07d}.npz", **layers)
            record = {
                "step": done_steps,
                "episode_return": round(float(np.mean(finished[-30:] or [0])), 1),
                "steps_per_second": round(done_steps / (time.monotonic() - begun)),
            }
            print(json.dumps(record), flush=True)


if __name__ == "__main__":
    chosen = tyro.cli(Train | Pack)
    if isinstance(chosen, Train):
        train(chosen)
    else:
        pack(chosen)
