"""Small simulators, a good controller for each, and logs of these controllers acting more or less well.

A simulator runs so many episodes side by side: `observe()` says what the sensors see, `step(actions)` gives rewards and
where a task has ended. The same seed gives the same episodes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np

import waypost.envs.t_maze  # noqa: F401  (registers the maze)

sys.path.append(str(Path(__file__).parents[1] / "examples" / "tank"))
tank = import_module("tank")

Controller = Callable[[np.ndarray], np.ndarray]
"""From observations (episodes, columns) to actions (episodes, columns), or to the numbers of choices (episodes,)."""


class Simulator(Protocol):
    def observe(self) -> np.ndarray: ...

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...


class Gym:
    """Environments of Gymnasium; one that has ended is not stepped any more."""

    def __init__(self, env_id: str, episodes: int, rng: np.random.Generator):
        self.envs: list[gym.Env[Any, Any]] = [gym.make(env_id) for _ in range(episodes)]
        seeds = rng.integers(2**31, size=episodes)
        starts = [env.reset(seed=int(seed))[0] for env, seed in zip(self.envs, seeds, strict=True)]
        self.observations, self.running = np.stack(starts).astype(np.float64), np.ones(episodes, bool)

    def observe(self) -> np.ndarray:
        return self.observations.copy()

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rewards, ended = np.zeros(len(self.envs)), np.zeros(len(self.envs), bool)
        for i in np.flatnonzero(self.running):
            action = int(actions[i]) if actions.ndim == 1 else actions[i].astype(np.float32)
            self.observations[i], rewards[i], ended[i], truncated, _ = self.envs[i].step(action)
            self.running[i] = not (ended[i] or truncated)
        return rewards, ended


class Motor:
    """A direct-current motor that turns a shaft to an angle: volts in, degrees, rpm and ampere out, every 20 ms.

    The angle that is wanted changes once a second; the shaft has stops at 180 degrees. More than 18 A trip the drive,
    which ends the episode and costs 400.
    """

    names, actions = ("angle_deg", "speed_rpm", "current_a", "wanted_deg"), ("voltage_v",)
    low, high = (-24.0,), (24.0,)
    resistance, inductance, torque, inertia, drag, dry = 1.2, 0.004, 0.06, 4e-4, 1e-4, 0.02

    def __init__(self, episodes: int, rng: np.random.Generator):
        self.rng, self.rows, self.running = rng, 0, np.ones(episodes, bool)
        self.angle, self.wanted = rng.uniform(-90, 90, (2, episodes))
        self.speed, self.current = np.zeros((2, episodes))
        self.load = rng.uniform(-0.05, 0.05, episodes)

    def observe(self) -> np.ndarray:
        seen = np.stack([self.angle, self.speed * 60 / (2 * np.pi), self.current, self.wanted], axis=1)
        return seen + self.rng.normal(size=seen.shape) * (0.1, 2.0, 0.05, 0.0)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        volts, short = np.clip(actions[:, 0], -24, 24), 0.0005
        peak = np.zeros_like(self.current)
        for _ in range(40):
            across = volts - self.resistance * self.current - self.torque * self.speed
            self.current = self.current + short / self.inductance * across
            friction = self.drag * self.speed + self.dry * np.tanh(self.speed)
            self.speed = self.speed + short / self.inertia * (self.torque * self.current - friction - self.load)
            self.angle = self.angle + np.degrees(short * self.speed)
            self.speed = np.where(np.abs(self.angle) < 180, self.speed, 0.0)
            self.angle = np.clip(self.angle, -180, 180)
            peak = np.maximum(peak, np.abs(self.current))
        trips = (peak > 18) & self.running
        cost = np.minimum(np.abs(self.angle - self.wanted), 90) / 60 + np.abs(volts) / 240
        rewards = -(cost + 400 * trips) * self.running
        self.running &= ~trips
        self.rows += 1
        if self.rows % 50 == 0:
            self.wanted = self.rng.uniform(-90, 90, len(self.wanted))
        return rewards, trips


class Building:
    """Two rooms with a heater each: 15 minutes a row, two days an episode, a price for energy that changes by day.

    By day 21 degrees are wanted, by night 17. What is too cold costs comfort, and heating costs money.
    """

    names = ("hour", "outdoor_c", "sun_w_m2", "room_1_c", "room_2_c", "setpoint_c", "price_eur_mwh")
    actions, low, high = ("heater_1_kw", "heater_2_kw"), (0.0, 0.0), (8.0, 6.0)

    def __init__(self, episodes: int, rng: np.random.Generator):
        self.rng, self.quarters = rng, 0
        self.mean, self.swing = rng.normal(3, 3, episodes), rng.uniform(2, 5, episodes)
        self.clouds, self.rooms = rng.uniform(0, 1, episodes), rng.uniform(15, 21, (episodes, 2))

    @property
    def hour(self) -> float:
        return self.quarters / 4 % 24

    def weather(self) -> tuple[np.ndarray, np.ndarray]:
        outdoor = self.mean + self.swing * np.cos(2 * np.pi * (self.hour - 15) / 24)
        return outdoor, 500 * (1 - 0.8 * self.clouds) * max(0.0, np.sin(np.pi * (self.hour - 7) / 11))

    def wanted(self) -> tuple[float, float]:
        """Degrees, and the price of energy."""
        by_day = 6.5 <= self.hour < 22
        dear = 7 <= self.hour < 10 or 17 <= self.hour < 20
        return 21.0 if by_day else 17.0, 320.0 if dear else 140.0

    def observe(self) -> np.ndarray:
        each = np.ones(len(self.rooms))
        outdoor, sun = self.weather()
        setpoint, price = self.wanted()
        seen = [self.hour * each, outdoor, sun, *self.rooms.T, setpoint * each, price * each]
        return np.stack(seen, axis=1) + self.rng.normal(size=(len(each), 7)) * (0, 0.1, 3.0, 0.05, 0.05, 0, 0)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        power = np.clip(actions, self.low, self.high)
        outdoor, sun = self.weather()
        setpoint, price = self.wanted()
        lost = (self.rooms - outdoor[:, None]) * (0.22, 0.16)
        shared = 0.25 * (self.rooms[:, ::-1] - self.rooms)
        warmer = (power - lost + shared + sun[:, None] * (0.004, 0.002)) * (0.25 / np.array([3.5, 2.5]))
        self.rooms = self.rooms + warmer + self.rng.normal(size=self.rooms.shape) * 0.03
        self.clouds = np.clip(self.clouds + self.rng.normal(size=len(self.clouds)) * 0.05, 0, 1)
        self.quarters += 1
        cold = np.maximum(setpoint - self.rooms, 0).sum(axis=1)
        euros = power.sum(axis=1) * 0.25 * price / 1000
        return -(0.5 * cold + euros), np.zeros(len(cold), bool)


# -- good controllers ------------------------------------------------------------------------------


def swing_up(seen: np.ndarray) -> np.ndarray:
    """Pumps energy into the pendulum, and holds it once it is nearly up."""
    cosine, sine, speed = seen.T
    pumped = (5.0 - speed**2 / 6 - 5 * cosine) * np.where(speed >= 0, 1, -1)
    held = -12 * np.arctan2(sine, cosine) - 3 * speed
    return np.clip(np.where(cosine > 0.85, held, pumped), -2, 2)[:, None]


def balance(seen: np.ndarray) -> np.ndarray:
    return (seen @ (0.05, 0.1, 1.0, 0.3) > 0).astype(int)


def pump(seen: np.ndarray) -> np.ndarray:
    """The torque goes with the second joint, so that it always adds energy."""
    return np.where(seen[:, 5] > 0, 2, 0)


def land(seen: np.ndarray) -> np.ndarray:
    """Tilts against the drift, and brakes where it falls faster than its height allows."""
    x, y, drift, rise, angle, turning, left, right = seen.T
    turn = 0.6 * (np.clip(0.4 * x + 0.9 * drift, -0.4, 0.4) - angle) - 0.8 * turning
    brake = -0.08 - 0.45 * np.maximum(y, 0) + 0.25 * np.abs(x) - rise
    flying = np.where(turn > 0.05, 1, np.where(turn < -0.05, 3, 0))
    flying = np.where((brake > 0) & (brake > 0.5 * np.abs(turn)), 2, flying)
    return np.where((left > 0) | (right > 0), np.where(rise < -0.1, 2, 0), flying)


def turn_to(seen: np.ndarray) -> np.ndarray:
    """Volts by the angle that is missing; the current is kept well below what trips the drive."""
    angle, speed, _, wanted = seen.T
    counter = Motor.torque * speed * 2 * np.pi / 60
    volts = 0.25 * (wanted - angle) - 0.018 * speed
    return np.clip(np.clip(volts, counter - 11, counter + 11), -24, 24)[:, None]


def heat(seen: np.ndarray) -> np.ndarray:
    """What is lost to the outside, and more where it is too cold; warms up before the morning's high price."""
    outdoor, rooms, wanted = seen[:, 1], seen[:, 3:5], seen[:, 5].copy()
    wanted[(seen[:, 0] >= 5.0) & (seen[:, 0] < 6.5)] = 21.3
    lost = (wanted - outdoor)[:, None] * (0.22, 0.16) - seen[:, 2:3] * (0.004, 0.002)
    return np.clip(lost + 4.0 * (wanted[:, None] - rooms), Building.low, Building.high)


def through_the_t(seen: np.ndarray) -> np.ndarray:
    """Down from the niche, along the bar, up the stem."""
    x, y = seen.T
    aim = np.where(
        (np.abs(x) <= 0.4)[:, None], (0.0, 6.0), np.where(((y > 0.3) & (x > 1))[:, None], (5.0, 0.0), (0.0, 0.0))
    )
    return np.clip(aim - seen, -0.25, 0.25)


# -- tasks, and logs of them -----------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """A simulator, who is good at it, and what its columns are called."""

    make: Callable[[int, np.random.Generator], Simulator]
    good: Callable[[int], Controller]
    """The controller for so many episodes."""
    limit: int
    """Rows of an episode."""
    names: tuple[str, ...]
    actions: tuple[str, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    choices: int = 0
    """Discrete actions; 0 = continuous ones."""


def _gym(env_id: str, good: Controller, limit: int, names: str, **actions: Any) -> Task:
    return Task(partial(Gym, env_id), lambda episodes: good, limit, tuple(names.split()), **actions)


def _choice(count: int) -> dict[str, Any]:
    return {"actions": ("action",), "choices": count}


def _plant(kind: Any, good: Controller, limit: int) -> Task:
    return Task(kind, lambda episodes: good, limit, kind.names, kind.actions, kind.low, kind.high)


LANDER = "x y speed_x speed_y angle turning left_leg right_leg"
ARMS = "cos_1 sin_1 cos_2 sin_2 speed_1 speed_2"
TASKS = {
    "pendulum": _gym("Pendulum-v1", swing_up, 200, "cos sin speed", actions=("torque",), low=(-2.0,), high=(2.0,)),
    "cartpole": _gym("CartPole-v1", balance, 500, "position speed angle turning", **_choice(2)),
    "acrobot": _gym("Acrobot-v1", pump, 500, ARMS, **_choice(3)),
    "lunarlander": _gym("LunarLander-v3", land, 1000, LANDER, **_choice(4)),
    "tank": Task(tank.Tank, tank.PI, tank.ROWS, tank.OBSERVATIONS, tank.ACTIONS, (0.0, 0.0), (100.0, 100.0)),
    "motor": _plant(Motor, turn_to, 200),
    "building": _plant(Building, heat, 192),
    "t-maze": _gym(
        "waypost/TMaze-v0", through_the_t, 100, "x y", actions=("dx", "dy"), low=(-0.25, -0.25), high=(0.25, 0.25)
    ),
}
QUALITIES = {"noisy-expert": (0.75, 1.0), "mixed": (0.0, 1.0), "poor": (0.1, 0.45)}
"""How skilled the controller is in an episode: a number between these."""


class Behaviour:
    """As good as its skill: the rest is wandering, that is noise that lasts for some rows."""

    def __init__(self, task: Task, skills: Sequence[float] | np.ndarray, rng: np.random.Generator):
        self.task, self.rng, self.skills = task, rng, np.asarray(skills)
        self.good = task.good(len(self.skills))
        self.wandering = np.zeros((len(self.skills), len(task.actions)))

    def __call__(self, seen: np.ndarray) -> np.ndarray:
        wanted, episodes = self.good(seen), len(seen)
        if self.task.choices:
            changes = self.rng.random(episodes) < 0.3
            drawn = self.rng.integers(self.task.choices, size=episodes)
            self.wandering[:, 0] = np.where(changes, drawn, self.wandering[:, 0])
            return np.where(self.rng.random(episodes) < self.skills, wanted, self.wandering[:, 0]).astype(int)
        low, high = np.asarray(self.task.low), np.asarray(self.task.high)
        self.wandering = 0.9 * self.wandering + 0.25 * self.rng.normal(size=self.wandering.shape)
        middle, half, skills = (low + high) / 2, (high - low) / 2, self.skills[:, None]
        return np.clip(skills * wanted + (1 - skills) * (middle + half * 1.5 * self.wandering), low, high)


class Episodes(NamedTuple):
    """What happened, (rows, episodes, ...); only what was `running` counts."""

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    ended: np.ndarray
    running: np.ndarray

    @property
    def returns(self) -> np.ndarray:
        return (self.rewards * self.running).sum(axis=0)


def simulate(
    task: Task,
    controller: Controller,
    episodes: int,
    rng: np.random.Generator,
    told: Callable[[np.ndarray], None] = lambda rewards: None,
) -> Episodes:
    """So many episodes of a controller, which is `told` its rewards."""
    simulator, running = task.make(episodes, rng), np.ones(episodes, bool)
    rows: list[tuple[np.ndarray, ...]] = []
    while running.any() and len(rows) < task.limit:
        seen = simulator.observe()
        actions = np.asarray(controller(seen))
        rewards, ended = simulator.step(actions)
        told(rewards)
        rows.append((seen, actions, rewards, ended, running.copy()))
        running &= ~ended
    return Episodes(*(np.stack(column) for column in zip(*rows, strict=True)))


def record(task: Task, quality: str, rows: int, seed: int) -> list[Episodes]:
    """So many rows or a few more, some episodes at a time."""
    rng, found, done = np.random.default_rng(seed), [], 0
    together = max(5, min(50, rows // task.limit // 4))
    while done < rows:
        skills = rng.uniform(*QUALITIES[quality], together)
        found.append(simulate(task, Behaviour(task, skills, rng), together, rng))
        done += int(found[-1].running.sum())
    return found


def write_log(task: Task, recorded: Sequence[Episodes], rows: int, file: Path) -> None:
    """A CSV file of so many rows: the number of the episode, named columns, a reward and whether the task ended."""
    lines = [",".join(("episode", *task.names, *task.actions, "reward", "ended"))]
    places = ((found, each) for found in recorded for each in range(found.running.shape[1]))
    for episode, (found, each) in enumerate(places):
        for row in np.flatnonzero(found.running[:, each]):
            numbers = [*found.observations[row, each], *np.atleast_1d(found.actions[row, each])]
            cells = [f"{number:.7g}" for number in (*numbers, found.rewards[row, each])]
            lines.append(",".join((str(episode), *cells, str(int(found.ended[row, each])))))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines[: rows + 1]) + "\n")
