"""POR, policy-guided offline reinforcement learning (Xu, Jiang, Li, Zhan; NeurIPS 2022).

Three parts learn from logged data alone, each by a supervised-style loss:

    V(s)         how good a state is. With u = r + gamma (1 - terminal) min V'(s') - V(s), minimise
                 (3)  E |tau - 1(u < 0)| u^2                                        `expectile`
                 (4)  E 1(1 + u/2tau > 0) (1 + u/2tau)^2 + V(s)/tau                 `sparse`
    g(s'|s)      the guide, where to go next. Maximise
                 (6)  E exp(beta u) log g(s'|s), the weight capped                  `weighted`
                 (5)  E beta/mean|V| V(s~) + log g_mu(s~|s), with s~ ~ g(.|s)       `constrained`
                      where g_mu is the same network fitted to (s, s') before, as a stage of its own
    pi(a|s,s')   the executor, how to get there. Maximise
                 (7)  E log pi(a|s,s'), optionally weighted as in (6)

and act together: (8) a = argmax pi(a | s, g(s)). V is two networks; every use takes the smaller one.
The target V' follows V by a moving average.

V and g never see an action, pi never sees a reward: each trains on data without what it does not
need, and each carries its own scaling, so a part can be taken out of one agent and put into another.

The paper's alpha appears in two ways. In (6) it divides the residual, yet the published settings (3 and 10) are
what multiplies it. In (5) it multiplies the likelihood, yet the published settings (50 and 5) are what multiplies
V. Both are the field `inverse_temperature` here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from waypost.agents import losses
from waypost.agents.agent import (
    Agent,
    Algorithm,
    Array,
    Batch,
    Columns,
    Memory,
    Metrics,
    Spec,
    Stage,
    check_settings,
    descend,
    steps_of,
)
from waypost.agents.nets import Bounds, Categorical, Choices, Gaussian, Scaling, Twin, policy
from waypost.data.dataset import Dataset, moments
from waypost.errors import MissingPart, WaypostError


@dataclass(frozen=True)
class Config:
    """Settings of POR; the defaults are the paper's for locomotion."""

    value_objective: Literal["expectile", "sparse"] = "expectile"
    """Loss of V: expectile regression (3) or the sparse objective (4, POR-sparse)."""
    tau: float = 0.7
    """Expectile in (3), towards 1 = towards the best outcome; in (4) smaller = bolder."""
    guide_objective: Literal["weighted", "constrained"] = "weighted"
    """Loss of the guide: residual-weighted likelihood (6) or V under a behaviour guide (5)."""
    inverse_temperature: float = 3.0
    """Weight of value against staying close to the data: the alpha of the paper's tables."""
    weight_cap: float = 100.0
    """Largest weight a transition can get in (6)."""
    executor_weighted: bool = False
    """Weight the executor's likelihood (7) like the guide's (6), for data with many bad actions."""
    training: Literal["joint", "staged", "guide", "executor"] = "joint"
    """All parts each step; V and guide first, then executor; only V and guide; only the executor."""
    executor_steps: int = 0
    """Updates of the executor when staged; 0 = as many as the run's steps."""
    behaviour_steps: int = 0
    """Updates of the behaviour guide that (5) needs first; 0 = as many as the run's steps."""
    guide_target: Literal["state", "displacement"] = "state"
    """What the guide predicts: the next state (paper) or the standardised displacement to it."""
    observation_scaling: Literal["none", "standardise"] = "none"
    """What the networks read: observations as they are (paper) or with mean 0 and deviation 1."""
    horizon: int = 1
    """How many steps ahead the guide aims, inside the episode; 1 = paper."""
    executor_inputs: tuple[int, ...] = ()
    """Columns of the observation the executor reads; empty = all."""
    discount: float = 0.99
    """Gamma."""
    target_rate: float = 0.05
    """Share of V that moves into the target V' each step."""
    value_learning_rate: float = 1e-4
    """Adam's step size for V, constant."""
    guide_learning_rate: float = 1e-3
    """Adam's step size for the guide at the start."""
    executor_learning_rate: float = 1e-3
    """Adam's step size for the executor at the start."""
    behaviour_learning_rate: float = 1e-4
    """Adam's step size for the behaviour guide, constant."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """How the step sizes of guide and executor go from start to end: to zero, or not at all."""
    value_hidden: tuple[int, ...] = (256, 256)
    """Hidden layers of each V network."""
    guide_hidden: tuple[int, ...] = (256, 256)
    """Hidden layers of the guide and the behaviour guide."""
    executor_hidden: tuple[int, ...] = (1024, 1024)
    """Hidden layers of the executor."""
    value_layer_norm: bool = False
    """LayerNorm in V."""
    batch_size: int = 256
    """Transitions per update."""

    def __post_init__(self) -> None:
        below_one = self.value_objective == "sparse" or self.tau < 1
        check_settings(
            self,
            tau=(self.tau > 0 and below_one, "more than 0, and less than 1 for expectiles"),
            inverse_temperature=(self.inverse_temperature >= 0, "0 or more"),
            weight_cap=(self.weight_cap > 0, "more than 0"),
            horizon=(self.horizon >= 1, "1 or more"),
            discount=(0 < self.discount <= 1, "more than 0, at most 1"),
            target_rate=(0 < self.target_rate <= 1, "more than 0, at most 1"),
            executor_steps=(self.executor_steps >= 0, "0 or more"),
            behaviour_steps=(self.behaviour_steps >= 0, "0 or more"),
        )


# -- the three parts: each takes plain observations and carries its own scaling ------------------


class Value(eqx.Module):
    """V(s), two networks."""

    scaling: Scaling
    net: Twin

    def both(self, observations: Array) -> Array:
        return self.net(self.scaling(observations))

    def __call__(self, observations: Array) -> Array:
        return self.both(observations).min(axis=0)


class Direction(eqx.Module):
    """How a pair (s, s') is written as numbers to predict or to read: s' itself or s' - s, scaled."""

    scaling: Scaling
    form: Literal["state", "displacement"] = eqx.field(static=True)

    def encode(self, observations: Array, goals: Array) -> Array:
        return self.scaling(goals - observations if self.form == "displacement" else goals)

    def decode(self, observations: Array, encoded: Array) -> Array:
        goals = self.scaling.undo(encoded)
        return observations + goals if self.form == "displacement" else goals


class Guide(eqx.Module):
    """g(s'|s): a Gaussian over encoded next states."""

    scaling: Scaling
    direction: Direction
    net: Gaussian

    def __call__(self, observations: Array) -> Array:
        return self.direction.decode(observations, self.net(self.scaling(observations))[0])


class Executor(eqx.Module):
    """pi(a|s,s'): a Gaussian over actions scaled to [-1, 1], or a choice of one, reading some columns of s and s'."""

    scaling: Scaling
    direction: Direction
    net: Gaussian | Categorical
    actions: Bounds | Choices
    columns: tuple[int, ...] = eqx.field(static=True)

    def inputs(self, observations: Array, goals: Array) -> Array:
        s, goal = (x[:, np.array(self.columns)] for x in (observations, goals))
        return jnp.concatenate([self.scaling(s), self.direction.encode(s, goal)], axis=-1)

    def __call__(self, observations: Array, goals: Array) -> Array:
        """(8): the likeliest action, inside the bounds."""
        return self.actions.action(self.net.mode(self.inputs(observations, goals)))


class PORAgent(Agent):
    """The three parts together; one that was not trained is None."""

    value_part: Value | None
    guide_part: Guide | None
    executor: Executor | None

    def act(self, observations: Array, memory: Memory = ()) -> tuple[Array, Memory]:
        return _have(self.executor, "executor")(observations, self.guide(observations)), memory

    def guide(self, observations: Array) -> Array:
        return _have(self.guide_part, "guide")(observations)

    def value(self, observations: Array) -> Array:
        return _have(self.value_part, "value function")(observations)

    def graft(self, donor: Agent) -> PORAgent:
        if not isinstance(donor, PORAgent):
            raise WaypostError("parts of a POR agent can only come from another POR agent")
        return PORAgent(
            value_part=self.value_part or donor.value_part,
            guide_part=self.guide_part or donor.guide_part,
            executor=self.executor or donor.executor,
        )


def _have(part: Any, name: str) -> Any:
    if part is None:
        raise MissingPart(f"this agent has no {name}: it was not trained; take it from another run with --init")
    return part


class State(NamedTuple):
    """What training changes."""

    agent: PORAgent
    target: Twin | None
    """V', the moving average of V's networks."""
    behaviour: Gaussian | None
    """g_mu of (5)."""
    optimisers: dict[str, optax.OptState]


# -- how it learns -------------------------------------------------------------------------------


class POR(Algorithm):
    """POR for given settings, data shape and number of steps."""

    config_type = Config

    def __init__(self, config: Config, spec: Spec, steps: int):
        self.config, self.spec = config, spec
        self.stages = _stages(config, steps)
        self.parts = frozenset[str]().union(*(stage.parts for stage in self.stages))
        self.optimisers = {
            "value": optax.adam(config.value_learning_rate),
            "behaviour": optax.adam(config.behaviour_learning_rate),
            "guide": optax.adam(self._schedule("guide", config.guide_learning_rate)),
            "executor": optax.adam(self._schedule("executor", config.executor_learning_rate)),
        }

    def _schedule(self, part: str, rate: float) -> optax.ScalarOrSchedule:
        if self.config.schedule == "constant":
            return rate
        return optax.cosine_decay_schedule(rate, max(steps_of(self.stages, part), 1))

    @classmethod
    def prepare(cls, config: Config, dataset: Dataset) -> tuple[Columns, Spec]:
        """Transitions, and where the guide aims from each: `horizon` steps on, inside the episode."""
        columns = {
            "observations": dataset.observations,
            "next_observations": dataset.next_observations,
            "discounts": np.where(dataset.terminals, 0.0, config.discount).astype(np.float32),
            "known": (dataset.next_valid | dataset.terminals).astype(np.float32),
        }
        if config.training != "guide":
            columns["actions"] = dataset.require("actions")
        if config.training != "executor" or config.executor_weighted:
            columns["rewards"] = dataset.require("rewards")
        columns |= aims(config, dataset)
        aimed = columns["aimed"] > 0
        if not aimed.any():
            raise WaypostError(f"{dataset.name}: no transition has a real next state; nothing to learn from")
        identity = np.zeros(dataset.observation_size), np.ones(dataset.observation_size)
        observation = dataset.observation_moments if config.observation_scaling == "standardise" else identity
        goals = columns.get("goals", dataset.next_observations)
        displacement = _displacement_moments((goals - dataset.observations)[aimed])
        direction = displacement if config.guide_target == "displacement" else observation
        bad = [column for column in config.executor_inputs if not 0 <= column < dataset.observation_size]
        if bad:
            raise WaypostError(f"executor_inputs = {config.executor_inputs}: {dataset.name} has no column {bad[0]}")
        spec = Spec.of(
            dataset,
            observation_mean=observation[0],
            observation_std=observation[1],
            direction_mean=direction[0],
            direction_std=direction[1],
        )
        return columns, spec

    def init(self, key: Array) -> State:
        config, spec = self.config, self.spec
        size = spec.observation_size
        value_key, guide_key, behaviour_key, executor_key = jax.random.split(key, 4)
        every = tuple(range(size))

        def scaling(name: str, columns: tuple[int, ...] = every) -> Scaling:
            mean, std = (np.asarray(spec.statistics[f"{name}_{moment}"]) for moment in ("mean", "std"))
            return Scaling(mean[list(columns)], std[list(columns)])

        def direction(columns: tuple[int, ...] = every) -> Direction:
            return Direction(scaling("direction", columns), config.guide_target)

        value = guide = executor = target = behaviour = None
        if "value" in self.parts:
            value = Value(scaling("observation"), Twin(size, config.value_hidden, value_key, config.value_layer_norm))
            target = jax.tree.map(jnp.copy, value.net)
        if "guide" in self.parts:
            guide = Guide(scaling("observation"), direction(), Gaussian(size, config.guide_hidden, size, guide_key))
        if "behaviour" in self.parts:
            behaviour = Gaussian(size, config.guide_hidden, size, behaviour_key)
        if "executor" in self.parts:
            columns = config.executor_inputs or every
            executor = Executor(
                scaling("observation", columns),
                direction(columns),
                policy(2 * len(columns), config.executor_hidden, spec.actions, executor_key),
                spec.actions,
                columns,
            )
        trained = {
            "value": value and value.net,
            "guide": guide and guide.net,
            "behaviour": behaviour,
            "executor": executor and executor.net,
        }
        return State(
            PORAgent(value, guide, executor),
            target,
            behaviour,
            {part: self.optimisers[part].init(net) for part, net in trained.items() if net is not None},
        )

    @classmethod
    def build(cls, config: Config, spec: Spec) -> Agent:
        training: Literal["guide", "joint"] = "guide" if spec.action_size is None else "joint"
        return super().build(replace(config, training=training), spec)

    def update(self, stage: Stage, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        metrics: Metrics = {}
        targets: Array | None = None
        if "behaviour" in stage.parts:
            state = self._update_behaviour(state, batch, metrics)
        if "value" in stage.parts:
            state, targets = self._update_value(state, batch, metrics)
        if "guide" in stage.parts:
            state = self._update_guide(state, batch, targets, key, metrics)
        if "executor" in stage.parts:
            state = self._update_executor(state, batch, targets, metrics)
        if "value" in stage.parts:
            value = _have(state.agent.value_part, "value function")
            target = losses.moving_average(state.target, value.net, self.config.target_rate)
            state = state._replace(target=target)
        return state, metrics

    def _update_value(self, state: State, batch: Batch, metrics: Metrics) -> tuple[State, Array]:
        """(3) or (4); also gives r + gamma V'(s')."""
        value, target, config = state.agent.value_part, state.target, self.config
        assert value is not None
        assert target is not None
        next_values = target(value.scaling(batch["next_observations"])).min(axis=0)
        targets = losses.td_target(batch["rewards"], batch["discounts"], next_values)

        def loss(net: Twin) -> tuple[Array, Array]:
            values = net(value.scaling(batch["observations"]))
            residuals = targets - values
            if config.value_objective == "expectile":
                each = losses.expectile(residuals, config.tau)
            else:
                each = losses.sparse(residuals, values, config.tau)
            return losses.masked_mean(each.mean(axis=0), batch["known"]), values

        (metrics["value_loss"], values), gradient = jax.value_and_grad(loss, has_aux=True)(value.net)
        metrics["value"] = values.mean()
        net, optimisers = self._step(state, "value", value.net, gradient)
        agent = replace(state.agent, value_part=replace(value, net=net))
        return state._replace(agent=agent, optimisers=optimisers), targets

    def _update_behaviour(self, state: State, batch: Batch, metrics: Metrics) -> State:
        """g_mu: plain likelihood of the data's own next states."""
        guide, behaviour = state.agent.guide_part, state.behaviour
        assert guide is not None
        assert behaviour is not None
        goals = guide.direction.encode(batch["observations"], _goals(batch))

        def loss(net: Gaussian) -> Array:
            likelihood = net.log_likelihood(guide.scaling(batch["observations"]), goals)
            return -losses.masked_mean(likelihood, batch["aimed"])

        metrics["behaviour_loss"], gradient = jax.value_and_grad(loss)(behaviour)
        net, optimisers = self._step(state, "behaviour", behaviour, gradient)
        return state._replace(behaviour=net, optimisers=optimisers)

    def _update_guide(self, state: State, batch: Batch, targets: Array | None, key: Array, metrics: Metrics) -> State:
        """(6) or (5)."""
        guide, value, config = state.agent.guide_part, state.agent.value_part, self.config
        assert guide is not None
        assert value is not None
        scaled = guide.scaling(batch["observations"])

        def weighted(net: Gaussian) -> Array:
            goals = guide.direction.encode(batch["observations"], _goals(batch))
            likelihood = net.log_likelihood(scaled, goals)
            return -losses.masked_mean(weights * likelihood, batch["aimed"])

        def constrained(net: Gaussian) -> Array:
            mean, log_std = net(scaled)
            goals = mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape)
            values = value(guide.direction.decode(batch["observations"], goals))
            assert state.behaviour is not None
            likelihood = state.behaviour.log_likelihood(scaled, goals)
            return losses.constrained_value(values, likelihood, config.inverse_temperature).mean()

        if config.guide_objective == "weighted":
            weights = self._weights(state, batch, targets)
            metrics["weight"] = losses.masked_mean(weights, batch["aimed"])
            metrics["guide_loss"], gradient = jax.value_and_grad(weighted)(guide.net)
        else:
            metrics["guide_loss"], gradient = jax.value_and_grad(constrained)(guide.net)
        net, optimisers = self._step(state, "guide", guide.net, gradient)
        return state._replace(agent=replace(state.agent, guide_part=replace(guide, net=net)), optimisers=optimisers)

    def _update_executor(self, state: State, batch: Batch, targets: Array | None, metrics: Metrics) -> State:
        """(7)."""
        executor = state.agent.executor
        assert executor is not None
        inputs = executor.inputs(batch["observations"], _goals(batch))
        actions = executor.actions.scale(batch["actions"])
        weights = self._weights(state, batch, targets) if self.config.executor_weighted else 1.0

        def loss(net: Gaussian | Categorical) -> Array:
            return -losses.masked_mean(weights * net.log_likelihood(inputs, actions), batch["aimed"])

        metrics["executor_loss"], gradient = jax.value_and_grad(loss)(executor.net)
        net, optimisers = self._step(state, "executor", executor.net, gradient)
        return state._replace(agent=replace(state.agent, executor=replace(executor, net=net)), optimisers=optimisers)

    def _weights(self, state: State, batch: Batch, targets: Array | None) -> Array:
        """exp(beta u), u the residual over the guide's horizon.

        With a horizon of 1 it is the residual of V, whose `targets` need no second calculation.
        """
        value = _have(state.agent.value_part, "value function")
        if targets is None or "goals" in batch:
            ahead = (state.target or value.net)(value.scaling(_goals(batch))).min(axis=0)
            rewards = batch.get("goal_rewards", batch["rewards"])
            discounts = batch.get("goal_discounts", batch["discounts"])
            targets = losses.td_target(rewards, discounts, ahead)
        residuals = targets - value(batch["observations"])
        return losses.exponential_weight(residuals, self.config.inverse_temperature, self.config.weight_cap)

    def _step(self, state: State, part: str, net: Any, gradient: Any) -> tuple[Any, dict[str, optax.OptState]]:
        net, optimiser = descend(self.optimisers[part], state.optimisers[part], net, gradient)
        return net, {**state.optimisers, part: optimiser}


def _stages(config: Config, steps: int) -> tuple[Stage, ...]:
    behaviour = Stage("behaviour guide", config.behaviour_steps or steps, frozenset({"behaviour"}))
    value_and_guide = Stage("value and guide", steps, frozenset({"value", "guide"}))
    executor = Stage("executor", config.executor_steps or steps, frozenset({"executor"}))
    joint = Stage("joint", steps, frozenset({"value", "guide", "executor"}))
    stages = {
        "joint": (joint,),
        "staged": (value_and_guide, executor),
        "guide": (value_and_guide,),
        "executor": (replace(executor, steps=steps),),
    }[config.training]
    first = config.guide_objective == "constrained" and config.training != "executor"
    return (behaviour, *stages) if first else stages


def _goals(batch: Batch) -> Array:
    return batch.get("goals", batch["next_observations"])


def aims(config: Config, dataset: Dataset) -> Columns:
    """Where the guide aims from each row, what is earned on the way, and whether that place is real.

    With a horizon of 1 it is the next state and needs no columns of its own. A longer one ends with
    the episode, and one state earlier where the recorder did not keep the episode's last state.
    """
    if config.horizon == 1:
        return {"aimed": dataset.next_valid.astype(np.float32)}
    rows = np.arange(len(dataset))
    reached = np.minimum(rows + config.horizon - 1, dataset.last_row)
    reached = np.where(dataset.next_valid[reached], reached, reached - 1)
    aimed = reached >= rows
    reached = np.maximum(reached, rows)
    columns = {"goals": dataset.next_observations[reached], "aimed": aimed.astype(np.float32)}
    if dataset.rewards is not None:
        earned = np.zeros(len(dataset))
        for ahead in range(config.horizon):
            row = np.minimum(rows + ahead, reached)
            earned += np.where(rows + ahead <= reached, config.discount**ahead * dataset.rewards[row], 0.0)
        columns["goal_rewards"] = earned.astype(np.float32)
        discounts = config.discount ** (reached - rows + 1.0)
        columns["goal_discounts"] = np.where(dataset.terminals[reached], 0.0, discounts).astype(np.float32)
    return columns


def _displacement_moments(displacements: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation per column, the latter so large that no displacement is more than 10 of it.

    A column that hardly ever changes (a key picked up once in 4000 rows) would otherwise have changes of 60
    deviations, and their squared errors would drown all others.
    """
    mean, std = moments(displacements)
    return mean, np.maximum(std, np.abs(displacements - mean).max(axis=0) / 10.0)
