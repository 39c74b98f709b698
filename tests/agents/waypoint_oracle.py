"""Waypoint's losses once more, in float64 NumPy, with all rows of a data set as the batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from oracles import HIGH, LOW, heads, log_density, log_probability

from waypost.agents.waypoint import Config
from waypost.data.dataset import Dataset


class Oracle:
    """`directions` are those of the scaled states, (columns, coordinates); None = every column is a coordinate."""

    def __init__(self, config: Config, data: Dataset, directions: np.ndarray | None):
        self.config, self.data, self.directions = config, data, directions
        self.states, self.following = (np.asarray(x, np.float64) for x in (data.observations, data.next_observations))
        goals = [self.walk(row, config.horizon, data.next_valid) for row in range(len(data))]
        self.ahead, self.earned, self.left = (np.array(each) for each in zip(*goals, strict=True))
        self.aimed = self.ahead >= 0
        self.goals = self.following[np.arange(len(data)) + np.maximum(self.ahead, 0)]
        known = data.next_valid | data.terminals
        steps = [self.walk(row, config.backup or config.horizon, known) for row in range(len(data))]
        self.value_ahead, self.value_earned, self.value_left = (np.array(each) for each in zip(*steps, strict=True))
        self.known = self.value_ahead >= 0
        self.reached = self.following[np.arange(len(data)) + np.maximum(self.value_ahead, 0)]
        self.shift, self.width = np.zeros(3), np.ones(3)
        if config.observation_scaling == "standardise":
            self.shift, self.width = self.states.mean(0), self.states.std(0)
        self.way_shift, self.way_width = self.shift, self.width
        if config.waypoint != "state":
            ways = self.ways(self.goals)[self.aimed]
            self.way_shift, self.way_width = ways.mean(0), ways.std(0)

    def walk(self, row: int, most: int, usable: np.ndarray) -> tuple[int, float, float]:
        """From a row so many steps on, inside the episode: rows further on, what is earned, what gamma is left."""
        ahead, earned, left = -1, 0.0, 1.0
        for at in range(row, row + most):
            if not usable[at]:
                break
            earned += left * float(self.data.rewards[at])
            left = 0.0 if self.data.terminals[at] else left * self.config.discount
            ahead = at - row
            if self.data.ends[at]:
                break
        return ahead, earned, left

    def scaled(self, states: np.ndarray) -> np.ndarray:
        return (states - self.shift) / self.width

    def coordinates(self, states: np.ndarray) -> np.ndarray:
        return self.scaled(states) if self.directions is None else self.scaled(states) @ self.directions

    def ways(self, goals: np.ndarray) -> np.ndarray:
        """From the states to goals, before they are scaled."""
        if self.directions is not None:
            return (goals - self.states) / self.width @ self.directions
        return goals - self.states if self.config.waypoint != "state" else goals

    def encoded(self, goals: np.ndarray) -> np.ndarray:
        return (self.ways(goals) - self.way_shift) / self.way_width

    def values(self, net: Any, states: np.ndarray) -> np.ndarray:
        return heads(net, self.coordinates(states))

    def value_loss(self, net: Any, target: Any) -> float:
        bootstrap = self.value_left * self.values(target, self.reached).min(0)
        u = self.value_earned + bootstrap - self.values(net, self.states)
        return (np.abs(self.config.tau - (u < 0)) * u**2)[:, self.known].mean()

    def weights(self, net: Any, target: Any) -> np.ndarray:
        subtracted = self.values(net if self.config.baseline == "value" else target, self.states).min(0)
        u = self.earned + self.left * self.values(target, self.goals).min(0) - subtracted
        if self.config.residuals == "standardised":
            u = (u - u[self.aimed].mean()) / u[self.aimed].std()
        return np.minimum(np.exp(self.config.inverse_temperature * u), self.config.weight_cap)

    def guide_loss(self, net: Any, weights: np.ndarray) -> float:
        inputs, outcomes = self.coordinates(self.states), self.encoded(self.goals)
        return -(weights * log_density(net, inputs, outcomes))[self.aimed].mean()

    def executor_inputs(self, goals: np.ndarray, noise: np.ndarray | float) -> np.ndarray:
        columns = list(self.config.executor_inputs) or [0, 1, 2]
        read, way = self.scaled(self.states), self.encoded(goals)
        if self.directions is None:
            way = way[:, columns]
        elif self.config.executor_reads == "rest":
            # What the directions do not see: the part of a row that is orthogonal to them.
            across = self.directions
            read = read - read @ across @ np.linalg.inv(across.T @ across) @ across.T
        return np.concatenate([read[:, columns], way + noise], axis=1)

    def executor_loss(
        self, net: Any, steps: np.ndarray, weights: np.ndarray | float = 1.0, noise: np.ndarray | float = 0.0
    ) -> float:
        """With the state so many steps on as the one to reach, and noise on the way there."""
        inputs = self.executor_inputs(self.following[np.arange(len(self.data)) + steps - 1], noise)
        taken = np.asarray(self.data.actions, np.float64)
        if self.data.action_count is None:
            likelihood = log_density(net, inputs, 2 * (taken - LOW) / (HIGH - LOW) - 1)
        else:
            likelihood = log_probability(net, inputs, taken[:, 0].astype(int))
        return -(weights * likelihood)[self.aimed].mean()
