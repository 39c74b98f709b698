"""Waypoint: POR that looks k steps ahead, in the directions in which the system drifts.

The three parts are POR's (`por.py`), each trained on logged data alone:

    V(c)            how good it is to be at c. With the n-step residual, inside the episode,
                    u_n = r_t + ... + gamma^(n-1) r_(t+n-1) + gamma^n (1 - terminal) min V'(c_(t+n)) - V(c_t),
                    minimise  E |tau - 1(u_n < 0)| u_n^2
    g(c)            the guide: how far to move in k steps. Maximise
                    E w log g(c_(t+k) - c_t | c_t)   with   w = exp(beta (u_k - mean u_k) / std u_k), capped
    pi(a|s, d)      the executor: the action that moves by d. Maximise
                    E log pi(a_t | s_t, c_(t+j) - c_t + noise)   with   j = k, or uniform in 1..k

and they act together: a = pi(s, g(c)).

c are coordinates of the state s: its slow directions. On a legged robot they are its position, on a plant its levels
and temperatures. Fast variables (joints, velocities) reveal which way an episode is going, and a V that reads them
learns what that episode did instead of what was possible from there. The executor reads all of the state, or only the
rest of it (`executor_reads`), so that it acts the same everywhere. `waypoint` chooses the coordinates: slow directions
found in the data, some columns (`waypoint_columns`), or the whole state as in POR. With the whole state, a horizon and
backup of 1 and plain residuals, an update is POR's.

The residuals are standardised in each batch, so that one inverse temperature fits rewards of any size.
A recorded displacement is exact, the guide's is not. An executor that trusts it too much turns small errors into other
actions. `waypoint_noise` makes recorded displacements as uncertain as a share of the guide's standard deviation.
An executor's mean action can keep a body in one pose for ever. `action_noise` adds a share of the executor's own noise.
With an `acting_rate` below 1 a moving average of the agent acts, and the agent itself keeps learning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from waypost.agents import losses
from waypost.agents.actions import policy
from waypost.agents.agent import Agent, Algorithm, Array, Batch, Descent, Memory, Metrics, Settings, Spec, Stage, have
from waypost.agents.guided import PARTS, ExecutorPart, GuidedAgent, GuidePart, ValuePart, optimisers_of, stages_of
from waypost.agents.nets import Gaussian, Twin
from waypost.agents.settings import AT_LEAST_0, Rule
from waypost.agents.space import Form, Space, space_of
from waypost.data import prepare, slow
from waypost.data.dataset import Dataset
from waypost.errors import WaypostError


@dataclass(frozen=True)
class Config(Settings):
    """Settings of Waypoint; the defaults are for new data, without tuning."""

    waypoint: Literal["slow", "displacement", "state"] = "slow"
    """Coordinates of a waypoint: displacement in slow directions, displacement in all columns, or the state (POR)."""
    waypoint_columns: tuple[int, ...] = ()
    """Columns to use as the slow directions; empty = find them in the data."""
    drift: float = 0.5
    """How steadily a slow direction must move over the horizon: 0 like a random walk, 1 like uniform motion."""
    horizon: int = 25
    """How many steps ahead the guide aims, inside the episode: k; 0 = the data decide, also about slow directions."""
    backup: int = 0
    """Steps of reward in V's targets: n; 0 = the horizon."""
    tau: float = 0.9
    """Expectile of V, towards 1 = towards the best outcome."""
    residuals: Literal["standardised", "plain"] = "standardised"
    """Residuals in the guide's weights: with mean 0 and standard deviation 1 in each batch, or as they are."""
    baseline: Literal["value", "target"] = "value"
    """What residuals in the guide's weights subtract: V as in POR, or V', whose errors at states nearby cancel."""
    inverse_temperature: float = 3.0
    """Weight of value against staying close to the data."""
    weight_cap: float = 100.0
    """Largest weight a transition can get."""
    executor_weighted: bool = False
    """Weight the executor's likelihood like the guide's, for data with many bad actions."""
    executor_aim: Literal["horizon", "within"] = "within"
    """How far ahead the executor's goals are in training: the horizon, or any number of steps up to it."""
    executor_reads: Literal["rest", "all"] = "all"
    """State that the executor reads besides the displacement: without the waypoint's coordinates, or all of it."""
    executor_inputs: tuple[int, ...] = ()
    """Columns of the observation the executor reads; empty = all."""
    waypoint_noise: float = 0.0
    """Noise on the executor's displacements in training, as a share of the guide's standard deviation."""
    action_noise: float = 0.0
    """Share of the executor's own noise in its actions: 0 = the likeliest action, 1 = a sample."""
    acting_rate: float = 1.0
    """Share of the agent in training that moves into the one that acts each step; 1 = it acts itself."""
    training: Literal["joint", "staged", "guide", "executor"] = "joint"
    """All parts in each step; V and guide first, then the executor; only V and guide; only the executor."""
    executor_steps: int = 0
    """Updates of the executor when staged; 0 = as many as the run's steps."""
    observation_scaling: Literal["none", "standardise", "robust"] = "standardise"
    """Leave observations as they are, scale them to mean 0 and standard deviation 1, or scale them robustly."""
    discount: float = 0.995
    """Gamma."""
    target_rate: float = 0.05
    """Share of V that moves into the target V' each step."""
    value_learning_rate: float = 1e-3
    """Adam's step size for V at the start."""
    guide_learning_rate: float = 1e-3
    """Adam's step size for the guide at the start."""
    executor_learning_rate: float = 1e-3
    """Adam's step size for the executor at the start."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """Step sizes of guide and executor: cosine decay to zero, or constant."""
    value_schedule: Literal["cosine", "constant"] = "constant"
    """The same for the step size of V."""
    value_hidden: tuple[int, ...] = (256, 256)
    """Hidden layers of each V network."""
    guide_hidden: tuple[int, ...] = (256, 256)
    """Hidden layers of the guide."""
    executor_hidden: tuple[int, ...] = (256, 256)
    """Hidden layers of the executor."""
    value_layer_norm: bool = True
    """LayerNorm in V."""
    batch_size: int = 256
    """Transitions per update."""

    def rules(self) -> dict[str, Rule]:
        return {"horizon": AT_LEAST_0}


class Value(ValuePart):
    """V(c), two networks."""

    space: Space
    net: Twin

    def both(self, observations: Array) -> Array:
        return self.net(self.space.coordinates(observations))


class Guide(GuidePart):
    """g(c): a Gaussian over the displacement to the waypoint."""

    space: Space
    net: Gaussian

    def __call__(self, observations: Array) -> Array:
        return self.space.decode(observations, self.net.mode(self.space.coordinates(observations)))

    def log_likelihood(self, observations: Array, goals: Array) -> Array:
        return self.net.log_likelihood(self.space.coordinates(observations), self.space.encode(observations, goals))


class Executor(ExecutorPart):
    """pi(a|s, d): Gaussian over actions scaled to [-1, 1], categorical, or both."""

    space: Space
    reads_all: bool = eqx.field(static=True)

    def inputs(self, observations: Array, goals: Array) -> Array:
        columns = np.array(self.columns)
        if self.space.projection is None:
            s, goal = observations[:, columns], goals[:, columns]
            return jnp.concatenate([self.space.scaling(s), self.space.encode(s, goal)], axis=-1)
        read = self.space.scaling(observations) if self.reads_all else self.space.rest(observations)
        return jnp.concatenate([read[:, columns], self.space.encode(observations, goals)], axis=-1)

    def noisy_inputs(self, observations: Array, goals: Array, std: Array, key: Array) -> Array:
        """The same with noise on the displacement, given its standard deviation in each of the guide's coordinates."""
        exact = self.inputs(observations, goals)
        std = std if self.space.projection is not None else std[np.array(self.columns)]
        noise = std * jax.random.normal(key, (len(exact), len(std)))
        return exact.at[:, -len(std) :].add(noise)


class WaypointAgent(GuidedAgent):
    """The three parts; with noise, the memory is a random key for each episode."""

    action_noise: float = eqx.field(static=True, default=0.0)

    def start(self, episodes: int, goal: Array | None = None) -> Memory:
        return jax.random.key_data(jax.random.split(jax.random.key(0), episodes)) if self.action_noise else ()

    @property
    def remembers(self) -> bool:
        return self.action_noise > 0

    def act(self, observations: Array, memory: Memory = ()) -> tuple[Array, Memory]:
        if not self.action_noise:
            return super().act(observations, memory)
        net = have(self.executor, "executor").net

        def draw(key_data: Array) -> tuple[Array, Array]:
            now, later = jax.random.split(jax.random.wrap_key_data(key_data))
            return net.noise(now), jax.random.key_data(later)

        noise, memory = jax.vmap(draw)(memory)
        return self.act_given(observations, noise), memory

    @property
    def noise_size(self) -> int:
        if not self.action_noise:
            return 0
        return jax.eval_shape(have(self.executor, "executor").net.noise, jax.random.key(0)).shape[0]

    def act_given(self, observations: Array, noise: Array) -> Array:
        executor = have(self.executor, "executor")
        inputs = executor.inputs(observations, self.guide(observations))
        return executor.actions.action(executor.net.near(inputs, self.action_noise * noise))


class State(NamedTuple):
    agent: WaypointAgent
    """The one that acts."""
    target: Twin | None
    """V', the moving average of V's networks."""
    optimisers: dict[str, optax.OptState]
    learning: WaypointAgent | None = None
    """The parts in training, where a moving average of them acts."""


class Waypoint(Algorithm):
    config_type = Config

    def __init__(self, config: Config, spec: Spec, steps: int):
        self.config, self.spec = config, spec
        self.stages = stages_of(config, steps)
        schedules = {"value": config.value_schedule, "guide": config.schedule, "executor": config.schedule}
        self.optimisers = optimisers_of(config, self.stages, schedules)

    @classmethod
    def fit(cls, config: Config, dataset: Dataset) -> Config:
        """A horizon of 0 is replaced by one chosen from the data; see `slow.look_ahead`."""
        if config.horizon:
            return config
        std = prepare.observation_scaling(dataset, config.observation_scaling)["observation_std"]
        slowly = config.waypoint == "slow"
        ahead = slow.look_ahead(dataset, std, config.drift, len(config.waypoint_columns) if slowly else 0)
        waypoint = config.waypoint if ahead.slow or not slowly else "displacement"
        return replace(config, horizon=ahead.steps, waypoint=waypoint)

    @classmethod
    def prepare(cls, config: Config, dataset: Dataset) -> tuple[prepare.Arrays, Spec]:
        """Transitions, and how many steps ahead of each the waypoint and V's next state are."""
        prepare.check_columns(dataset, "executor_inputs", config.executor_inputs)
        prepare.check_columns(dataset, "waypoint_columns", config.waypoint_columns)
        if config.waypoint_columns and config.waypoint != "slow":
            raise WaypostError(
                f"waypoint_columns needs waypoint 'slow', got {config.waypoint!r}: all columns count there"
            )
        arrays = prepare.waypoints(dataset, config.horizon, config.backup or config.horizon, config.discount)
        if config.training != "guide":
            arrays["actions"] = dataset.require("actions")
        if config.training != "executor" or config.executor_weighted:
            dataset.require("rewards")
        scaling = prepare.observation_scaling(dataset, config.observation_scaling)
        statistics = slow.waypoint_statistics(
            arrays, scaling, config.waypoint, config.waypoint_columns, config.horizon, config.drift
        )
        return arrays, Spec.of(dataset, **scaling, **statistics)

    def batch(self, arrays: Batch, rows: Array, key: Array) -> Batch:
        """Rows with their waypoints (`goals`), V's next states and the states the executor learns to reach."""
        apart = ("ahead", "value_ahead", "next_observations")
        batch = {name: values[rows] for name, values in arrays.items() if name not in apart}
        ahead, following = arrays["ahead"][rows], arrays["next_observations"]
        batch["goals"] = batch["reached"] = following[rows + ahead]
        batch["following"] = following[rows + arrays["value_ahead"][rows]]
        if self.config.executor_aim == "within":
            batch["reached"] = following[rows + jax.random.randint(key, rows.shape, 0, ahead + 1)]
        return batch

    def init(self, key: Array) -> State:
        config, spec = self.config, self.spec
        parts = frozenset[str]().union(*(stage.parts for stage in self.stages))
        form: Form = "state" if config.waypoint == "state" else "displacement"
        space = space_of(spec, form)
        size = len(spec.statistics["waypoint_mean"])
        inputs = config.executor_inputs or tuple(range(spec.observation_size))
        whole = space.projection is None
        executor_space = space_of(spec, form, inputs) if whole else space
        executor_size = len(inputs) + (len(inputs) if whole else size)
        value_key, guide_key, executor_key = jax.random.split(key, 3)
        nets: dict[str, Any] = {
            "value": Twin(size, config.value_hidden, value_key, config.value_layer_norm),
            "guide": Gaussian(size, config.guide_hidden, size, guide_key),
            "executor": policy(executor_size, config.executor_hidden, spec.actions, executor_key),
        }
        nets |= dict.fromkeys(nets.keys() - parts)
        value = nets["value"] and Value(space, nets["value"])
        guide = nets["guide"] and Guide(space, nets["guide"])
        reads_all = config.executor_reads == "all"
        executor = nets["executor"] and Executor(nets["executor"], spec.actions, inputs, executor_space, reads_all)
        optimisers = {part: self.optimisers[part].init(nets[part]) for part in sorted(parts)}
        agent = WaypointAgent(value, guide, executor, config.action_noise)
        target, learning = jax.tree.map(jnp.copy, (nets["value"], agent if config.acting_rate < 1 else None))
        return State(agent, target, optimisers, learning)

    @classmethod
    def build(cls, config: Config, spec: Spec) -> Agent:
        return super().build(replace(config, training="guide" if spec.action_size is None else "joint"), spec)

    def update(self, stage: Stage, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        """One step of each part; a part sees the parts before it already updated."""
        config, (acting, target, optimisers, learning) = self.config, cast(Any, state)
        agent = acting if learning is None else learning.graft(acting)
        value, guide, executor = agent.value_part, agent.guide_part, agent.executor
        s, goals, mean = batch["observations"], batch["goals"], partial(losses.masked_mean, mask=batch["aimed"])
        descent = Descent(self.optimisers, optimisers)

        def step(name: str, part: Any, loss: Callable[[Any], Any]) -> Any:
            """The part after a gradient step of its network; its space is unchanged."""
            return replace(part, net=descent.step(name, part.net, lambda net: loss(replace(part, net=net))))

        def before() -> Value:
            """V'."""
            return replace(have(value, "value function"), net=state.target or value.net)

        def residuals(prefix: str, places: Array, values: Array) -> Array:
            """Rewards on the way + gamma^steps (1 - terminal) min V'(there) - V(here)."""
            rewards, discounts = batch[f"{prefix}_rewards"], batch[f"{prefix}_discounts"]
            return losses.td_target(rewards, discounts, before()(places)) - values

        def weights() -> Array:
            u = residuals("goal", goals, (value if config.baseline == "value" else before())(s))
            if config.residuals == "standardised":
                u = losses.standardised(u, batch["aimed"])
            return losses.exponential_weight(u, config.inverse_temperature, config.weight_cap)

        def value_loss(v: Value) -> tuple[Array, Metrics]:
            values = v.both(s)
            each = losses.expectile(residuals("value", batch["following"], values), config.tau)
            return losses.masked_mean(each.mean(axis=0), batch["known"]), {"value": values.mean()}

        def guide_loss(g: Guide) -> tuple[Array, Metrics]:
            w = weights()
            return -mean(w * g.log_likelihood(s, goals)), {"weight": mean(w)}

        def likelihood(pi: Executor) -> Array:
            reached, a = batch["reached"], batch["actions"]
            # A guide that came from another agent may have other coordinates.
            if config.training == "executor" or not config.waypoint_noise:
                return pi.log_likelihood(s, reached, a)
            # The batch's own draw has the key itself.
            noise_key = jax.random.fold_in(key, 1)
            inputs = pi.noisy_inputs(s, reached, config.waypoint_noise * guide.net.std, noise_key)
            return pi.net.log_likelihood(inputs, pi.actions.scale(a))

        if "value" in stage.parts:
            value = step("value", value, value_loss)
        if "guide" in stage.parts:
            guide = step("guide", guide, guide_loss)
        if "value" in stage.parts:
            target = losses.moving_average(target, value.net, config.target_rate)
        if "executor" in stage.parts:
            w = weights() if config.executor_weighted else 1.0
            executor = step("executor", executor, lambda pi: -mean(w * likelihood(pi)))
        agent = WaypointAgent(value, guide, executor, config.action_noise)
        if learning is None:
            return State(agent, target, descent.states), descent.metrics
        acting = losses.moving_average(acting, agent, config.acting_rate)
        trained = {name: getattr(agent, name) if getattr(learning, name) else None for name in PARTS}
        return State(acting, target, descent.states, replace(learning, **trained)), descent.metrics
