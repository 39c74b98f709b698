"""POR, policy-guided offline reinforcement learning (Xu, Jiang, Li, Zhan; NeurIPS 2022).

Three parts learn from logged data alone, each by a supervised-style loss:

    V(s)         how good a state is. With u = r + gamma (1 - terminal) min V'(s') - V(s), minimise
                 (3)  E |tau - 1(u < 0)| u^2                                        `expectile`
                 (4)  E 1(1 + u/2tau > 0) (1 + u/2tau)^2 + V(s)/tau                 `sparse`
    g(s'|s)      the guide, where to go next. Maximise
                 (6)  E exp(beta u) log g(s'|s), the weight capped                  `weighted`
                 (5)  E beta/mean|V| V(s~) + log g_mu(s~|s), with s~ ~ g(.|s)       `constrained`
                      where g_mu is the same network fitted to (s, s') in an earlier stage
    pi(a|s,s')   the executor, how to get there. Maximise
                 (7)  E log pi(a|s,s'), optionally weighted as in (6)

and act together: (8) a = argmax pi(a | s, g(s)). V is the smaller of two networks; the target V' follows V by a moving
average. With a `horizon` of k, g and pi see the state k steps ahead instead of s'.

V and g never see an action, and pi never sees a reward, so each can train on data without them. Each part has its own
scaling, so it can be moved from one agent to another.

The paper's alpha divides the residual in (6) and multiplies the likelihood in (5), yet its published settings (3 and
10, 50 and 5) multiply the residual and V. This is the field `inverse_temperature`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax

from waypost.agents import losses
from waypost.agents.actions import policy
from waypost.agents.agent import Agent, Algorithm, Array, Batch, Descent, Metrics, Settings, Spec, Stage, have
from waypost.agents.guided import ExecutorPart, GuidedAgent, GuidePart, ValuePart, optimisers_of, stages_of
from waypost.agents.nets import Direction, Gaussian, Scaling, Twin
from waypost.agents.settings import POSITIVE, Rule, Weighing
from waypost.data import prepare
from waypost.data.dataset import Dataset


@dataclass(frozen=True)
class Config(Settings):
    """Settings of POR; the defaults are the paper's for locomotion."""

    value_objective: Literal["expectile", "sparse"] = "expectile"
    """Loss of V: expectile regression (3) or the sparse objective (4, POR-sparse)."""
    tau: float = 0.7
    """Expectile in (3), towards 1 = towards the best outcome; in (4) smaller = more optimistic."""
    guide_objective: Literal["weighted", "constrained"] = "weighted"
    """Loss of the guide: residual-weighted likelihood (6) or V under a behaviour guide (5)."""
    inverse_temperature: float = 3.0
    """Weight of value against staying close to the data: the alpha of the paper's tables."""
    residuals: Weighing = "plain"
    """Residuals in (6): as they are (paper), or with mean 0 and standard deviation 1 in each batch."""
    weight_cap: float = 100.0
    """Largest weight a transition can get in (6)."""
    executor_weighted: bool = False
    """Weight the executor's likelihood (7) like the guide's (6), for data with many bad actions."""
    training: Literal["joint", "staged", "guide", "executor"] = "joint"
    """All parts in each step; V and guide first, then the executor; only V and guide; only the executor."""
    executor_steps: int = 0
    """Updates of the executor when staged; 0 = as many as the run's steps."""
    behaviour_steps: int = 0
    """Updates of the behaviour guide that (5) needs first; 0 = as many as the run's steps."""
    guide_target: Literal["state", "displacement"] = "state"
    """What the guide predicts: the next state (paper) or the standardised displacement to it."""
    observation_scaling: Literal["none", "standardise", "robust"] = "none"
    """Leave observations as they are (paper), scale them to mean 0 and standard deviation 1, or scale them robustly."""
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
    """Step sizes of guide and executor: cosine decay to zero, or constant."""
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

    def rules(self) -> dict[str, Rule]:
        return {"tau": POSITIVE} if self.value_objective == "sparse" else {}


class Value(ValuePart):
    """V(s), two networks."""

    scaling: Scaling
    net: Twin

    def both(self, observations: Array) -> Array:
        return self.net(self.scaling(observations))


class Guide(GuidePart):
    """g(s'|s): a Gaussian over encoded next states."""

    scaling: Scaling
    direction: Direction
    net: Gaussian

    def __call__(self, observations: Array) -> Array:
        return self.direction.decode(observations, self.net.mode(self.scaling(observations)))

    def log_likelihood(self, observations: Array, goals: Array) -> Array:
        return self.net.log_likelihood(self.scaling(observations), self.direction.encode(observations, goals))


class Executor(ExecutorPart):
    """pi(a|s,s'), (8): Gaussian over actions scaled to [-1, 1], categorical, or both; it may read only some columns."""

    scaling: Scaling
    direction: Direction

    def inputs(self, observations: Array, goals: Array) -> Array:
        s, goal = (x[:, np.array(self.columns)] for x in (observations, goals))
        return jnp.concatenate([self.scaling(s), self.direction.encode(s, goal)], axis=-1)


class State(NamedTuple):
    agent: GuidedAgent
    target: Twin | None
    """V', the moving average of V's networks."""
    behaviour: Gaussian | None
    """g_mu of (5)."""
    optimisers: dict[str, optax.OptState]


class POR(Algorithm):
    config_type = Config

    def __init__(self, config: Config, spec: Spec, steps: int):
        self.config, self.spec = config, spec
        self.stages = stages_of(config, steps)
        if config.guide_objective == "constrained" and config.training != "executor":
            behaviour = Stage("behaviour guide", config.behaviour_steps or steps, frozenset({"behaviour"}))
            self.stages = (behaviour, *self.stages)
        schedules = {
            "behaviour": "constant",
            "value": "constant",
            "guide": config.schedule,
            "executor": config.schedule,
        }
        self.optimisers = optimisers_of(config, self.stages, schedules)

    @classmethod
    def prepare(cls, config: Config, dataset: Dataset) -> tuple[prepare.Arrays, Spec]:
        """Transitions, and the state the guide aims at from each: `horizon` steps ahead, inside the episode."""
        arrays = prepare.guided_transitions(dataset, config.horizon, config.discount)
        if config.training != "guide":
            arrays["actions"] = dataset.require("actions")
        if config.training != "executor" or config.executor_weighted:
            arrays["rewards"] = dataset.require("rewards")
        prepare.check_columns(dataset, "executor_inputs", config.executor_inputs)
        scaling = prepare.observation_scaling(dataset, config.observation_scaling)
        if config.guide_target == "displacement":
            direction = prepare.displacement_scaling(arrays, config.observation_scaling == "robust")
        else:
            direction = {name.replace("observation_", "direction_"): values for name, values in scaling.items()}
        return arrays, Spec.of(dataset, **scaling, **direction)

    def init(self, key: Array) -> State:
        config, spec, size = self.config, self.spec, self.spec.observation_size
        parts = frozenset[str]().union(*(stage.parts for stage in self.stages))
        inputs = config.executor_inputs or tuple(range(size))
        value_key, guide_key, behaviour_key, executor_key = jax.random.split(key, 4)
        nets: dict[str, Any] = {
            "value": Twin(size, config.value_hidden, value_key, config.value_layer_norm),
            "guide": Gaussian(size, config.guide_hidden, size, guide_key),
            "behaviour": Gaussian(size, config.guide_hidden, size, behaviour_key),
            "executor": policy(2 * len(inputs), config.executor_hidden, spec.actions, executor_key),
        }
        nets |= dict.fromkeys(nets.keys() - parts)
        direction = partial(Direction, form=config.guide_target)
        scalings = spec.scaling("observation", inputs), direction(spec.scaling("direction", inputs))
        value = nets["value"] and Value(spec.scaling("observation"), nets["value"])
        guide = nets["guide"] and Guide(
            spec.scaling("observation"), direction(spec.scaling("direction")), nets["guide"]
        )
        executor = nets["executor"] and Executor(nets["executor"], spec.actions, inputs, *scalings)
        target, behaviour = jax.tree.map(jnp.copy, nets["value"]), nets["behaviour"]
        optimisers = {part: self.optimisers[part].init(nets[part]) for part in sorted(parts)}
        return State(GuidedAgent(value, guide, executor), target, behaviour, optimisers)

    @classmethod
    def build(cls, config: Config, spec: Spec) -> Agent:
        return super().build(replace(config, training="guide" if spec.action_size is None else "joint"), spec)

    def update(self, stage: Stage, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        """One round of the paper's Algorithm 1; a part sees the parts before it already updated."""
        config, (agent, target, behaviour, optimisers) = self.config, cast(Any, state)
        value, guide, executor = agent.value_part, agent.guide_part, agent.executor
        s, a, following = batch["observations"], batch.get("actions"), batch["next_observations"]
        goals, mean = batch.get("goals", following), partial(losses.masked_mean, mask=batch["aimed"])
        descent = Descent(self.optimisers, optimisers)

        def step(name: str, part: Any, loss: Callable[[Any], Any]) -> Any:
            """The part after a gradient step of its network; its scaling is unchanged."""
            return replace(part, net=descent.step(name, part.net, lambda net: loss(replace(part, net=net))))

        def targets(prefix: str, places: Array) -> Array:
            """r + gamma (1 - terminal) min V'(s')."""
            rewards, discounts = (batch.get(prefix + name, batch[name]) for name in ("rewards", "discounts"))
            before = replace(have(value, "value function"), net=state.target or value.net)
            return losses.td_target(rewards, discounts, before(places))

        def weights() -> Array:
            residuals = targets("goal_", goals) - value(s)
            if config.residuals == "standardised":
                residuals = losses.standardised(residuals, batch["aimed"])
            return losses.exponential_weight(residuals, config.inverse_temperature, config.weight_cap)

        def value_loss(v: Value) -> tuple[Array, Metrics]:
            values, tau = v.both(s), config.tau
            u = targets("", following) - values
            each = losses.sparse(u, values, tau) if config.value_objective == "sparse" else losses.expectile(u, tau)
            return losses.masked_mean(each.mean(axis=0), batch["known"]), {"value": values.mean()}

        def constrained(g: Guide) -> Array:
            z = g.net.sample(g.scaling(s), key)
            values, likelihood = value(g.direction.decode(s, z)), behaviour.log_likelihood(g.scaling(s), z)
            return losses.constrained_value(values, likelihood, config.inverse_temperature).mean()

        def weighted(g: Guide) -> tuple[Array, Metrics]:
            w = weights()
            return -mean(w * g.log_likelihood(s, goals)), {"weight": mean(w)}

        if "behaviour" in stage.parts:
            mu = replace(guide, net=behaviour)
            behaviour = step("behaviour", mu, lambda mu: -mean(mu.log_likelihood(s, goals))).net  # g_mu
        if "value" in stage.parts:
            value = step("value", value, value_loss)  # (3), (4)
        if "guide" in stage.parts:
            guide = step("guide", guide, weighted if config.guide_objective == "weighted" else constrained)  # (6), (5)
        if "value" in stage.parts:
            target = losses.moving_average(target, value.net, config.target_rate)
        if "executor" in stage.parts:
            w = weights() if config.executor_weighted else 1.0
            executor = step("executor", executor, lambda pi: -mean(w * pi.log_likelihood(s, goals, a)))  # (7)
        return State(GuidedAgent(value, guide, executor), target, behaviour, descent.states), descent.metrics
