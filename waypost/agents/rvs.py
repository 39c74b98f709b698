"""RvS, reinforcement learning via supervised learning (Emmons et al., ICLR 2022): cloning conditioned on outcomes.

One part learns: pi(a|s, w), a Gaussian or, for discrete actions, a categorical distribution, by maximising
E log pi(a|s, w). The outcome w is what followed (s, a) in the recorded episode:

    RvS-R    w = (r_t + r_(t+1) + ... to the end) / (T - t)    the return to go per step that could be left,
                                                               T the length of the longest episode in the data
    RvS-G    w = some columns of a state s_k                   k drawn again in each update, uniformly from the
                                                               later states of the episode

It acts with the likeliest action for a desired outcome, the same at every step: for RvS-R, `target` times the best
return in the data, per step of the longest episode; for RvS-G, the task's goal. RvS-R uses rewards as they were
recorded; RvS-G needs none.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from waypost.agents.actions import ActionPolicy, Actions, policy
from waypost.agents.agent import Agent, Algorithm, Array, Arrays, Batch, Descent, Memory, Metrics, Settings, Spec, Stage
from waypost.agents.nets import Scaling, side_by_side, with_dropout
from waypost.agents.settings import Rule, Standardise
from waypost.data import prepare
from waypost.data.dataset import Dataset, moments
from waypost.errors import WaypostError


@dataclass(frozen=True)
class Config(Settings):
    """Settings of both forms; the defaults are the original's."""

    observation_scaling: Standardise = False
    """Scale observations and outcomes to mean 0 and standard deviation 1, or robustly."""
    dropout: float = 0.0
    """Dropout rate of the hidden layers in training; the original uses 0.1 for Franka Kitchen only."""
    learning_rate: float = 1e-3
    """Adam's step size, constant."""
    hidden: tuple[int, ...] = (1024, 1024)
    """Hidden layers of the policy."""
    batch_size: int = 16_384
    """Rows per update."""


@dataclass(frozen=True)
class ReturnConfig(Config):
    """Settings of RvS-R."""

    target: float = 1.0
    """The return to ask for, as a share of the best in the data; the original tunes it from 0.3 to 1.2."""


@dataclass(frozen=True)
class GoalConfig(Config):
    """Settings of RvS-G."""

    goal_columns: tuple[int, ...] = (0, 1)
    """Columns of the observation that make up a goal."""

    def rules(self) -> dict[str, Rule]:
        return {"goal_columns": Rule("be one or more columns, counted from 0", lambda x: len(x) > 0 and min(x) >= 0)}


class RvSAgent(Agent):
    """pi(a|s, w); it remembers w."""

    scaling: Scaling
    outcome_scaling: Scaling
    policy: ActionPolicy
    actions: Actions

    def act(self, observations: Array, memory: Memory) -> tuple[Array, Memory]:
        return self.actions.action(self.policy.mode(self.inputs(observations, memory))), memory

    def inputs(self, observations: Array, outcomes: Array) -> Array:
        return side_by_side(self.scaling(observations), self.outcome_scaling(outcomes))


class ReturnAgent(RvSAgent):
    """Conditioned on a return per step."""

    target: float = eqx.field(static=True)

    def start(self, episodes: int, goal: Array | None = None) -> Memory:
        return jnp.full((episodes, 1), self.target, jnp.float32)


class GoalAgent(RvSAgent):
    """Conditioned on a goal."""

    goal_columns: tuple[int, ...] = eqx.field(static=True)

    def start(self, episodes: int, goal: Array | None = None) -> Memory:
        """`goal` is one for all episodes or one for each: the first columns of an observation at the goal."""
        if goal is None:
            raise WaypostError("rvs-g needs a goal and the task has none; use rvs-r, which needs none")
        goal = jnp.asarray(goal, jnp.float32)
        if goal.shape[-1] <= max(self.goal_columns):
            raise WaypostError(
                f"goal_columns must be less than {goal.shape[-1]}, the size of the task's goal, got {self.goal_columns}"
            )
        return jnp.broadcast_to(goal[..., np.array(self.goal_columns)], (episodes, len(self.goal_columns)))


DROPOUT, GOALS = 0, 1
"""The parts of an update's key."""


class State(NamedTuple):
    agent: RvSAgent
    optimiser: optax.OptState


class RvS(Algorithm):
    """Both forms for given settings, data shape and number of steps; they differ in what an outcome is."""

    agent_type: ClassVar[Callable[..., RvSAgent]]

    def __init__(self, config: Config, spec: Spec, steps: int):
        self.config, self.spec = config, spec
        self.stages = (Stage("policy", steps, frozenset({"policy"})),)
        self.optimiser = optax.adam(config.learning_rate)

    @abstractmethod
    def asked(self) -> Any:
        """The desired outcome."""

    def init(self, key: Array) -> State:
        spec = self.spec
        scalings = spec.scaling("observation"), spec.scaling("outcome")
        inputs = spec.observation_size + len(spec.statistics["outcome_mean"])
        net = policy(inputs, self.config.hidden, spec.actions, key)
        return State(self.agent_type(*scalings, net, spec.actions, self.asked()), self.optimiser.init(net))

    def update(self, stage: Stage, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        agent = state.agent
        inputs = agent.inputs(batch["observations"], batch["outcomes"])
        actions = agent.actions.scale(batch["actions"])

        def loss(net: ActionPolicy) -> Array:
            net = with_dropout(net, self.config.dropout, jax.random.fold_in(key, DROPOUT))
            return -net.log_likelihood(inputs, actions).mean()

        descent = Descent({"policy": self.optimiser}, {"policy": state.optimiser})
        policy = descent.step("policy", agent.policy, loss)
        return State(replace(agent, policy=policy), descent.states["policy"]), descent.metrics


class RvSR(RvS):
    """RvS conditioned on returns."""

    config_type, agent_type = ReturnConfig, ReturnAgent

    @classmethod
    def prepare(cls, config: ReturnConfig, dataset: Dataset) -> tuple[Arrays, Spec]:
        arrays = {"observations": dataset.observations, "actions": dataset.require("actions"), **prepare.to_go(dataset)}
        longest = dataset.episode_lengths.max()
        outcomes, scaled = _per_step(arrays, longest), config.observation_scaling
        if scaled == "robust":
            scaling = prepare.robust_scaling("outcome", outcomes)
        else:
            mean, std = moments(outcomes) if scaled else (np.zeros(1), np.ones(1))
            scaling = {"outcome_mean": mean, "outcome_std": std}
        spec = Spec.of(
            dataset,
            best_return=dataset.episode_returns.max(keepdims=True),
            longest_episode=np.array([longest]),
            **scaling,
            **prepare.observation_scaling(dataset, scaled),
        )
        return arrays, spec

    def batch(self, arrays: Batch, rows: Array, key: Array) -> Batch:
        drawn = super().batch(arrays, rows, key)
        return {**drawn, "outcomes": _per_step(drawn, self.spec.statistics["longest_episode"][0])}

    def asked(self) -> float:
        (best,), (longest,) = self.spec.statistics["best_return"], self.spec.statistics["longest_episode"]
        return self.config.target * best / longest


def _per_step(arrays: Any, longest: float) -> Any:
    """Return to go per step that could be left, (rows, 1).

    In streamed data an episode may be longer than any in the sample; then its actual number of steps left is used.
    """
    left = (longest - arrays["times"]).clip(arrays["left"])
    return (arrays["returns_to_go"] / left)[:, None]


class RvSG(RvS):
    """RvS conditioned on goals."""

    config_type, agent_type = GoalConfig, GoalAgent

    @classmethod
    def prepare(cls, config: GoalConfig, dataset: Dataset) -> tuple[Arrays, Spec]:
        """Rows with a known later state: the next state and how many later ones of the episode are known."""
        prepare.check_columns(dataset, "goal_columns", config.goal_columns)
        chosen = np.array(config.goal_columns)
        ahead = dataset.last_row - np.arange(len(dataset)) + dataset.next_valid[dataset.last_row]
        if not ahead.any():
            raise WaypostError(f"{dataset.name}: no row has a known later state; nothing to learn")
        arrays = {
            "observations": dataset.observations,
            "actions": dataset.require("actions"),
            "next_places": dataset.next_observations[:, chosen],
            "ahead": ahead.astype(np.int32),
        }
        scaling = prepare.observation_scaling(dataset, config.observation_scaling)
        outcome = {name.replace("observation_", "outcome_"): values[chosen] for name, values in scaling.items()}
        return {name: values[ahead > 0] for name, values in arrays.items()}, Spec.of(dataset, **scaling, **outcome)

    def batch(self, arrays: Batch, rows: Array, key: Array) -> Batch:
        goals = rows + jax.random.randint(jax.random.fold_in(key, GOALS), rows.shape, 0, arrays["ahead"][rows])
        drawn = {name: arrays[name][rows] for name in ("observations", "actions")}
        return {**drawn, "outcomes": arrays["next_places"][goals]}

    def asked(self) -> tuple[int, ...]:
        return self.config.goal_columns
