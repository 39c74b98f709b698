"""Theorem 1 of the POR paper, measured: why an agent's actions may be wrong, in three terms.

For a state s of the data, its recorded next state s' and action a, the guide's goal g(s), and the best action a*:

    |pi(s, g(s)) - a*|  <=  (L1 + L2) |g(s) - s'|  +  |a_g - a*|  +  |pi(s, s') - a|
                             l1: how far the guide      l2: how far the   l3: the executor's
                             leaves the data            guide's goal is   own error
                                                        from the best

L1 is the slope of the inverse dynamics (s, s') -> a, L2 that of the executor. None of this needs a simulator, but not
all of it can be known; unknown quantities are estimated from the recorded transitions whose states are nearest to s:

    L1    the largest |a - a~| / (|s - s~| + |s' - s~'|) between the transition and these neighbours
    L2    the larger of the executor's slopes in s' at s' and at g(s): the greatest singular value
    a*    the action of the neighbour whose r + gamma V(s') is best
    a_g   the action of the neighbour whose step is most like the one from s to g(s)

so the inequality holds as far as these are good estimates; the share of states where it does is measured too. States
are divided by the standard deviations of the data's columns, actions are scaled to [-1, 1]. A guide with goals in some
coordinates only (`waypoint`) leaves the rest of a state unchanged: next states and goals are compared in these.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from waypost.agents.actions import Mixed
from waypost.agents.agent import Agent
from waypost.agents.guided import ExecutorPart, GuidedAgent
from waypost.agents.nets import Continuous
from waypost.agents.space import Space
from waypost.data import prepare
from waypost.data.dataset import Dataset
from waypost.data.pipeline import Pipeline, Reading
from waypost.data.rewards import learning_rewards
from waypost.data.roles import Columns
from waypost.data.sources import load
from waypost.errors import WaypostError
from waypost.schema import conform
from waypost.studies.findings import Diagnosis
from waypost.training.plan import read_plan
from waypost.training.policy import Policy, load_policies
from waypost.training.runs import Run, directory_of
from waypost.types import Convention

Floats = np.ndarray
MOST = {"states": 100_000, "neighbours": 1_000, "reference": 1_000_000}
"""More would not say more, and could take all memory."""


def diagnose(
    subject: str | Path | Run | Policy,
    data: Any = None,
    *,
    rewards: Convention | None = None,
    columns: Columns | None = None,
    pipeline: Pipeline | None = None,
    states: int = 2_000,
    neighbours: int = 20,
    reference: int = 100_000,
    seed: int = 0,
) -> Diagnosis:
    """Measure the terms of Theorem 1 for an agent with a guide (por or waypoint) on its data.

    subject     a run or its directory, whose data and reward convention are used by default, or a policy
    data        what to measure on: a name, a file, a Dataset
    columns, pipeline    how to read it; they override how the agent's own data were read
    rewards     the convention V was trained with; by default the run's, for a policy the rewards as they are
    states      number of states of the data, drawn at random with `seed`
    neighbours  recorded transitions per state that show what else could have been done there
    reference   the most transitions to search for neighbours, drawn at random if there are more
    """
    for what, number in (("states", states), ("neighbours", neighbours), ("reference", reference)):
        if not 1 <= conform(number, int, what) <= MOST[what]:
            raise WaypostError(f"{what} must be from 1 to {MOST[what]}, got {number}")
    if isinstance(subject, Policy):
        policy, how = subject, subject.reading or Reading()
    else:
        if isinstance(subject, Run):
            policy, planned = subject.policies[0], subject.plan
        else:
            folder = directory_of(subject)
            policy, planned = load_policies(folder)[0], read_plan(folder)
        how = Reading(planned.columns, planned.pipeline)
        data = planned.data if data is None else data
        rewards = rewards or planned.convention
    if data is None:
        raise WaypostError("a policy alone does not know its data; name them with --data (in Python: data=...)")
    agent, config = _with_all_parts(policy)
    how = how.with_given(columns or Columns(), pipeline or Pipeline())
    dataset = data if isinstance(data, Dataset) else load(data, how.columns, pipeline=how.pipeline)
    sizes = [(each.observation_size, each.action_size) for each in (dataset, policy.spec)]
    if sizes[0] != sizes[1]:
        raise WaypostError(
            f"{dataset.name}: observations and actions have {sizes[0]} columns, the agent's have {sizes[1]}; "
            "name the data it was trained on with --data"
        )
    dataset = learning_rewards(dataset, rewards or "recorded", config.discount)
    measures = _measured(agent, config, dataset, states, neighbours, reference, seed)
    widths = np.where(dataset.observation_moments[1] > 0, dataset.observation_moments[1], 1.0)
    return Diagnosis(
        measures,
        config.inverse_temperature,
        {"observation_scaling": config.observation_scaling},
        float(widths.max() / widths.min()),
    )


def _with_all_parts(policy: Policy) -> tuple[GuidedAgent, Any]:
    agent = policy.agent
    if not isinstance(agent, GuidedAgent):
        raise WaypostError(f"a {policy.algorithm} agent has no guide and executor to diagnose; use por or waypoint")
    parts = {"V": agent.value_part, "guide": agent.guide_part, "executor": agent.executor}
    lacking = [name for name, part in parts.items() if part is None]
    if agent.executor is None or lacking:
        raise WaypostError(f"this agent has no {' and no '.join(lacking)}; a diagnosis needs all three parts")
    if not isinstance(agent.executor.actions, Continuous):
        mixed = isinstance(agent.executor.actions, Mixed)
        kind = "partly discrete actions" if mixed else "discrete actions"
        raise WaypostError(f"{kind} cannot be diagnosed: the theorem is about distances of continuous ones")
    return agent, policy.config


def _measured(
    agent: GuidedAgent, config: Any, dataset: Dataset, states: int, neighbours: int, reference: int, seed: int
) -> dict[str, Floats]:
    """The measures of each state."""
    executor = agent.executor
    assert executor is not None
    columns = prepare.goals(dataset, config.horizon, config.discount)
    usable = np.flatnonzero(columns["aimed"] > 0)
    if len(usable) <= neighbours:
        few = f"{dataset.name}: {len(usable)} transitions with a next state"
        raise WaypostError(f"{few}; more than {neighbours} are needed")
    known = np.random.default_rng(seed).permutation(usable)[:reference]
    asked = known[:states]
    scale = np.where(dataset.observation_moments[1] > 0, dataset.observation_moments[1], 1.0).astype(np.float32)
    s, following = dataset.observations, columns.get("goals", dataset.next_observations)
    scaled_actions = np.asarray(executor.actions.scale(jnp.asarray(dataset.require("actions"))))

    goals = np.asarray(agent.guide(jnp.asarray(s[asked])))
    repeated = _acts(executor, s[asked], following[asked])
    taken = _acts(executor, s[asked], goals)
    place, basis = placing(slow_space(agent), scale)
    begun, places, aims = place(s[known]), place(following[known]), place(goals)
    own = places[: len(asked)]
    distance = _length(aims - own)
    slope = np.maximum(_slopes(executor, s[asked], following[asked], basis), _slopes(executor, s[asked], goals, basis))

    # Neighbours of each state among the known transitions, itself left out.
    near, apart = nearest(s[asked] / scale, s[known] / scale, neighbours, own=np.arange(len(asked)))
    others = known[near]
    steps = places[near] - own[:, None]
    changes = _length(scaled_actions[others] - scaled_actions[asked][:, None])
    inverse_slope = np.max(changes / np.maximum(apart + _length(steps), 1e-6), axis=1)

    rewards = columns.get("goal_rewards", dataset.require("rewards"))
    discounts = columns.get("goal_discounts", np.where(dataset.terminals, 0.0, config.discount))
    values = np.asarray(agent.value(jnp.asarray(following[known])))
    worth = (rewards[known] + discounts[known] * values)[near]
    rows = np.arange(len(asked))
    best = scaled_actions[others[rows, worth.argmax(axis=1)]]
    wanted = aims - begun[: len(asked)]
    moved = (places - begun)[near]
    aimed = scaled_actions[others[rows, _length(moved - wanted[:, None]).argmin(axis=1)]]

    parts = {
        "l1": (inverse_slope + slope) * distance,
        "l2": _length(aimed - best),
        "l3": _length(repeated - scaled_actions[asked]),
    }
    measures = {
        "guide_distance": distance,
        "guide_to_data": nearest(aims, places, 1)[1][:, 0],
        "data_to_data": nearest(own, places, 1, own=rows)[1][:, 0],
        "inverse_slope": inverse_slope,
        "executor_slope": slope,
        **parts,
        "bound": parts["l1"] + parts["l2"] + parts["l3"],
        "gap": _length(taken - best),
        "recorded_gap": _length(scaled_actions[asked] - best),
        "action_spread": _length(scaled_actions[asked] - scaled_actions[known].mean(axis=0)),
        "value_gain": np.asarray(agent.value(jnp.asarray(goals))) - values[: len(asked)],
    }
    return {name: np.asarray(numbers, np.float64) for name, numbers in measures.items()}


def slow_space(agent: Agent) -> Space | None:
    """The coordinates of a guide whose goals move a state in slow directions only; None: in every column."""
    part = agent.guide_part if isinstance(agent, GuidedAgent) else None
    space: Space | None = getattr(part, "space", None)
    return None if space is None or space.projection is None else space


def placing(space: Space | None, scale: Floats) -> tuple[Callable[[Floats], Floats], Floats]:
    """A state in the guide's coordinates, and the change of a state that each coordinate stands for."""
    if space is None or space.projection is None:
        return lambda states: states / scale, np.diag(scale)
    basis = np.asarray(space.projection.lift * space.scaling.std).T
    return lambda states: np.asarray(space.coordinates(jnp.asarray(states))), basis


def _length(vectors: Floats) -> Floats:
    return np.linalg.norm(vectors, axis=-1)


def _acts(executor: ExecutorPart, observations: Floats, goals: Floats) -> Floats:
    """The executor's actions, scaled to [-1, 1]."""
    return np.asarray(executor.actions.scale(executor(jnp.asarray(observations), jnp.asarray(goals))))


def _slopes(executor: ExecutorPart, observations: Floats, goals: Floats, basis: Floats) -> Floats:
    """The largest singular value of the executor's derivative in the goal, before clipping to the bounds."""

    def act(goal: jax.Array, observation: jax.Array) -> jax.Array:
        return executor.net.mode(executor.inputs(observation[None], goal[None]))[0]

    slopes = jax.jit(jax.vmap(jax.jacfwd(act)))(jnp.asarray(goals), jnp.asarray(observations))
    return np.linalg.norm(np.asarray(slopes) @ basis, ord=2, axis=(1, 2))


def nearest(
    queries: Floats, points: Floats, count: int, own: Floats | None = None, block: int = 256
) -> tuple[Floats, Floats]:
    """The `count` nearest points of each query, nearest first, and their distances; points in `own` are skipped."""
    found, distances = [], []
    sizes = np.einsum("ij,ij->i", points, points)
    for first in range(0, len(queries), block):
        part = queries[first : first + block]
        squares = sizes - 2.0 * part @ points.T + np.einsum("ij,ij->i", part, part)[:, None]
        if own is not None:
            squares[np.arange(len(part)), own[first : first + block]] = np.inf
        if count == 1:
            chosen = squares.argmin(axis=1)[:, None]
        else:
            chosen = np.argpartition(squares, min(count, squares.shape[1] - 1), axis=1)[:, :count]
        # Computed again without the rounding of the formula above.
        exact = _length(points[chosen] - part[:, None])
        order = exact.argsort(axis=1)
        found.append(np.take_along_axis(chosen, order, axis=1))
        distances.append(np.take_along_axis(exact, order, axis=1))
    return np.concatenate(found), np.concatenate(distances)
