"""A heated tank, the log of its mediocre controller, and a test of what was learned from that log.

    python examples/tank/tank.py logs            # writes logs/day-01.csv to day-12.csv, a second
    waypost train por --data 'logs/*.csv' --columns.observations level temperature inflow_temperature pressure \
        --columns.actions valve heater --columns.rewards reward --columns.terminals trip \
        --columns.episode batch --columns.time time --out runs/tank
    python examples/tank/tank.py --try runs/tank   # its true return and safety trips, beside two controllers

The valve lets cold water in, the heater heats it, and the outflow is not measured. A batch has 150 rows of 10 s; the
level should stay at 1200 mm and the temperature at 60 degrees. A tank that is too full, too empty or too hot trips a
safety switch, which ends the batch and costs 200.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

OBSERVATIONS = ("level", "temperature", "inflow_temperature", "pressure")
ACTIONS = ("valve", "heater")
COLUMNS = ("time", "batch", *OBSERVATIONS, *ACTIONS, "reward", "trip")
ROWS, SECONDS = 150, 10
LEVEL, TEMPERATURE = 1200.0, 60.0
LOWEST, FULL, HOT = 400.0, 1700.0, 80.0
"""Where the safety switches trip, in mm and degrees."""
TRIP_COST = 200.0

Controller = Callable[[np.ndarray], np.ndarray]
"""From observations (batches, 4) to actions (batches, 2) in percent; called once for each row, in order."""


class Tank:
    """Several batches side by side."""

    def __init__(self, batches: int, rng: np.random.Generator):
        self.rng = rng
        self.level = rng.uniform(700, 1600, batches)
        self.temperature = rng.uniform(30, 50, batches)
        self.inflow = rng.normal(15, 3, batches)
        self.draw = rng.normal(12, 1.0, batches)
        self.running = np.ones(batches, bool)

    def observe(self) -> np.ndarray:
        """The readings of the sensors."""
        pressure = 1.12e5 + 9.81 * self.level + 40 * (self.temperature - 20)
        states = np.stack([self.level, self.temperature, self.inflow, pressure], axis=1)
        return states + self.rng.normal(size=states.shape) * (2.0, 0.1, 0.1, 30.0)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Advance ten seconds; return rewards and safety trips."""
        valve, heater = np.clip(actions, 0, 100).T / 100
        batches = len(self.level)
        entering, leaving = 30 * valve, self.draw * np.sqrt(self.level / LEVEL)
        heating = 1.5 * heater * LEVEL / self.level - 0.002 * (self.temperature - 20)
        cooling = entering * (self.temperature - self.inflow) / self.level
        self.temperature = self.temperature + heating - cooling
        self.level = np.maximum(self.level + entering - leaving, 1.0)
        self.draw = self.draw + 0.02 * (12 - self.draw) + self.rng.normal(size=batches) * 0.1
        self.inflow = self.inflow + 0.01 * (15 - self.inflow) + self.rng.normal(size=batches) * 0.1
        trips = (self.level < LOWEST) | (self.level > FULL) | (self.temperature > HOT)
        cost = np.abs(self.temperature - TEMPERATURE) / 7 + np.abs(self.level - LEVEL) / 220 + 0.1 * heater
        rewards = -(cost + TRIP_COST * trips) * self.running
        trips &= self.running
        self.running &= ~trips
        return rewards, trips


class PI:
    """Two PI controllers, one for the level and one for the temperature."""

    def __init__(self, batches: int, gains: Any = ((0.15, 0.002), (8.0, 0.1)), bias: Any = (40.0, 35.0)):
        self.gains, self.bias = np.asarray(gains, np.float64), np.asarray(bias, np.float64)
        self.sums = np.zeros((batches, 2))

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        errors = np.array([LEVEL, TEMPERATURE]) - observations[:, :2]
        wanted = self.bias + self.gains[..., 0] * errors + self.gains[..., 1] * self.sums
        # Anti-windup: errors are not summed while an actuator is saturated.
        self.sums += np.where((wanted > 0) & (wanted < 100), errors, 0.0)
        return np.clip(wanted, 0, 100)


class Mediocre:
    """The controller of the log: gains too weak or too strong, offsets, and an operator who turns knobs."""

    def __init__(self, batches: int, rng: np.random.Generator):
        level, heat = rng.uniform(0.0, 0.05, batches), rng.uniform(0.5, 4.0, batches)
        gains = np.stack([np.stack([level, heat], 1), np.zeros((batches, 2))], axis=2)
        bias = np.stack([rng.normal(48, 12, batches), rng.normal(36, 9, batches)], axis=1)
        self.loops, self.rng, self.turned = PI(batches, gains, bias), rng, np.zeros((batches, 2))

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        self.turned = 0.9 * self.turned + self.rng.normal(size=self.turned.shape) * (4.0, 6.0)
        return np.clip(self.loops(observations) + self.turned, 0, 100)


class Batches(NamedTuple):
    """The recorded batches, (rows, batches, ...); rows after a trip do not count."""

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    trips: np.ndarray
    running: np.ndarray
    """Whether a row was still part of its batch."""

    @property
    def mean_return(self) -> float:
        return float(self.rewards.sum(axis=0).mean())


def simulate(controller: Controller, batches: int, rng: np.random.Generator) -> Batches:
    tank, rows = Tank(batches, rng), []
    for _ in range(ROWS):
        observations, running = tank.observe(), tank.running.copy()
        actions = np.asarray(controller(observations), np.float64)
        rows.append((observations, actions, *tank.step(actions), running))
    return Batches(*(np.stack(column) for column in zip(*rows, strict=True)))


def true_return(policy: Any, batches: int = 100, seed: int = 1000) -> tuple[float, int]:
    """The mean return of a Waypost policy or a controller, and the number of batches that ended with a trip."""
    controller = acting(policy, batches) if hasattr(policy, "act_with_memory") else policy
    found = simulate(controller, batches, np.random.default_rng(seed))
    return found.mean_return, int(found.trips.sum())


def acting(policy: Any, batches: int) -> Controller:
    """A policy as a controller; it gets its columns in its own order."""
    names = policy.spec.observation_names[-(policy.spec.observation_size // policy.spec.history) :]
    order = [OBSERVATIONS.index(name) for name in names or OBSERVATIONS]
    memory = policy.start(batches)

    def act(observations: np.ndarray) -> np.ndarray:
        nonlocal memory
        actions, memory = policy.act_with_memory(observations[:, order], memory)
        return actions

    return act


def write_logs(folder: Path, days: int = 12, batches: int = 12, seed: int = 0) -> float:
    """Write a CSV file for each day, with gaps and a few empty cells; return the mean return of the log."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    found = simulate(Mediocre(days * batches, rng), days * batches, rng)
    digits = (1, 2, 2, 0, 1, 1, 4)
    for day in range(days):
        clock = np.datetime64("2026-03-01T06:00:00") + np.timedelta64(day, "D")
        lines = [",".join(COLUMNS)]
        for batch in range(day * batches, (day + 1) * batches):
            # The logger was off for a while in every tenth batch.
            off = rng.integers(20, 100) if rng.random() < 0.1 else ROWS
            for row in np.flatnonzero(found.running[:, batch]):
                clock += np.timedelta64(SECONDS, "s")
                if off <= row < off + 30:
                    continue
                numbers = [*found.observations[row, batch], *found.actions[row, batch], found.rewards[row, batch]]
                cells = [f"{number:.{places}f}" for number, places in zip(numbers, digits, strict=True)]
                cells = [cell if i >= 4 or rng.random() > 0.001 else "" for i, cell in enumerate(cells)]
                stamp = str(clock).replace("T", " ")
                lines.append(",".join([stamp, str(batch), *cells, str(int(found.trips[row, batch]))]))
            clock += np.timedelta64(20, "m")
        (folder / f"day-{day + 1:02d}.csv").write_text("\n".join(lines) + "\n")
    return found.mean_return


if __name__ == "__main__":
    if sys.argv[1:2] == ["--try"]:
        import waypost

        batches, rng = 100, np.random.default_rng(1)
        tried = {"log": Mediocre(batches, rng), "tuned PI": PI(batches), sys.argv[2]: waypost.Policy.load(sys.argv[2])}
        for name, policy in tried.items():
            earned, trips = true_return(policy, batches)
            print(f"{name}: return {earned:.0f}, {trips} trips in {batches} batches")
    else:
        print(f"mean return of the log {write_logs(Path(sys.argv[1] if sys.argv[1:] else 'logs')):.0f}")
