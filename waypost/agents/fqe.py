"""FQE, fitted Q evaluation (Le et al., ICML 2019): the value of policies, learned from data of other policies.

For each candidate pi one network Q learns the return of doing a in s and then following pi:

    Q(s, a)  ->  clip(r + gamma (1 - terminal) Q'(s', pi(s')), low, high)

Q' is its moving average, and also the result; `low` and `high` bound what the rewards can add up to. The actions pi(s')
are columns of the data, so policies of any kind are evaluated side by side in one program, and none is called here.
Each candidate's network learns as if it were alone.

Each seed is a member of an ensemble: it draws its own bootstrap of the *episodes* and its own initial weights, both the
same for all candidates, so candidates can be compared within each member.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from waypost.agents import losses
from waypost.agents.actions import Actions
from waypost.agents.agent import Agent, Algorithm, Array, Arrays, Batch, Descent, Memory, Metrics, Settings, Spec, Stage
from waypost.agents.nets import MLP, Scaling, side_by_side
from waypost.data import prepare
from waypost.data.dataset import Dataset
from waypost.errors import WaypostError


@dataclass(frozen=True)
class Config(Settings):
    """Settings of the evaluators."""

    discount: float = 0.99
    """Gamma."""
    target_rate: float = 0.05
    """Share of Q that moves into Q' each step."""
    learning_rate: float = 1e-3
    """Adam's step size at the start; it goes to zero along a cosine."""
    hidden: tuple[int, ...] = (64, 64)
    """Hidden layers of Q, each with LayerNorm."""
    batch_size: int = 256
    """Transitions per update."""


class Candidate(NamedTuple):
    """A policy's actions in the data's states, in the format of the data's actions, (rows, action size)."""

    actions: np.ndarray
    """In the states."""
    next_actions: np.ndarray
    """In the next states."""
    known: np.ndarray
    """Whether the next action is known, (rows,)."""


def recorded(dataset: Dataset) -> Candidate:
    """The policy that recorded the data: its next action is that of the next row of the episode."""
    actions = dataset.require("actions")
    following = np.concatenate([actions[1:], actions[-1:]])
    return Candidate(actions, following, ~dataset.ends | dataset.terminals)


def columns(config: Config, dataset: Dataset, candidates: Sequence[Candidate]) -> tuple[Arrays, Spec]:
    """The arrays that evaluators of these candidates learn from, and their spec."""
    usable = dataset.next_valid | dataset.terminals
    arrays = prepare.transitions(dataset, config.discount)
    arrays |= {
        "episodes": dataset.episode_of[usable].astype(np.int32),
        "next_actions": np.stack([each.next_actions[usable] for each in candidates], axis=1).astype(np.float32),
        "counted": np.stack([each.known[usable] for each in candidates], axis=1).astype(np.float32),
    }
    to_go = discounted_to_go(dataset, config.discount)
    spec = Spec.of(
        dataset,
        candidates=np.array([len(candidates)]),
        episodes=np.array([len(dataset.episode_starts)]),
        value_mean=to_go.mean(keepdims=True),
        value_std=np.array([to_go.std() or 1.0]),
        value_range=np.array(reachable(dataset, config.discount)),
        **prepare.observation_scaling(dataset, True),
    )
    return arrays, spec


def discounted_to_go(dataset: Dataset, discount: float) -> np.ndarray:
    """The discounted return from each row to the end of its recorded episode."""
    rewards, ends = dataset.require("rewards").astype(np.float64), dataset.ends
    returns, later = np.empty(len(rewards)), 0.0
    for row in range(len(rewards) - 1, -1, -1):
        later = rewards[row] + (0.0 if ends[row] else discount * later)
        returns[row] = later
    return returns


def reachable(dataset: Dataset, discount: float) -> tuple[float, float]:
    """The smallest and the largest return that rewards in the recorded range allow.

    The reward of a terminal row is earned once, at the end: a prize for arriving does not add up. The others are earned
    for ever, or with a discount of 1 for as long as the longest episode lasted.
    """
    rewards, over = dataset.require("rewards"), dataset.terminals
    longest = 1.0 / (1.0 - discount) if discount < 1.0 else float(dataset.episode_lengths.max())

    def end(extreme: Callable[..., float]) -> float:
        """The most or the least. Ending after n steps lies between ending at once and as late as possible."""
        lasting = 0.0 if over.all() else float(extreme(rewards[~over]))
        if not over.any():
            return lasting * longest
        prize = float(extreme(rewards[over]))
        late = (prize + lasting * (longest - 1.0),) if discount == 1.0 else ()
        return extreme((prize, *(() if over.all() else (lasting * longest,)), *late))

    return end(min), end(max)


class Evaluator(Agent):
    """Q of every candidate; it evaluates actions and takes none."""

    scaling: Scaling
    values: Scaling
    nets: MLP
    """A leading axis over the candidates."""
    actions: Actions

    def act(self, observations: Array, memory: Memory = ()) -> tuple[Array, Memory]:
        raise WaypostError("an evaluator takes no actions; it only evaluates them")

    def inputs(self, observations: Array, actions: Array) -> Array:
        return side_by_side(self.scaling(observations), self.actions.scale(actions))

    def q(self, observations: Array, actions: Array) -> Array:
        """(candidates, rows), in units of the rewards; actions (rows, n) or (candidates, rows, n)."""
        return self.values.undo(each_net(self.nets, self.inputs(observations, actions)))


def each_net(nets: MLP, inputs: Array) -> Array:
    """Outputs of every candidate's network, (candidates, rows); the inputs may be the same for all."""
    axis = 0 if inputs.ndim == 3 else None
    return jax.vmap(lambda net, rows: net(rows)[..., 0], in_axes=(0, axis))(nets, inputs)


def bootstrap(key: Array, episodes: int) -> Array:
    """How often each episode is drawn, out of as many draws as there are episodes."""
    return jnp.zeros(episodes).at[jax.random.randint(key, (episodes,), 0, episodes)].add(1.0)


class State(NamedTuple):
    agent: Evaluator
    """Q'."""
    nets: MLP
    """Q."""
    optimiser: optax.OptState
    weights: Array
    """How often each episode is in the bootstrap."""


class FQE(Algorithm):
    config_type = Config

    def __init__(self, config: Config, spec: Spec, steps: int):
        self.config, self.spec = config, spec
        self.stages = (Stage("evaluation", steps, frozenset({"q"})),)
        self.optimiser = optax.adam(optax.cosine_decay_schedule(config.learning_rate, max(steps, 1)))

    @classmethod
    def prepare(cls, config: Config, dataset: Dataset) -> tuple[Arrays, Spec]:
        """Evaluate the policy that recorded the data, which needs nothing else."""
        return columns(config, dataset, [recorded(dataset)])

    def init(self, key: Array) -> State:
        spec = self.spec
        (candidates,), (episodes,) = spec.statistics["candidates"], spec.statistics["episodes"]
        net_key, bootstrap_key = jax.random.split(key)
        net = MLP(spec.observation_size + spec.action_width, self.config.hidden, 1, net_key, layer_norm=True)
        nets = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], int(candidates), axis=0), net)
        agent = Evaluator(spec.scaling("observation"), spec.scaling("value"), nets, spec.actions)
        return State(
            agent, jax.tree.map(jnp.copy, nets), self.optimiser.init(nets), bootstrap(bootstrap_key, int(episodes))
        )

    def update(self, stage: Stage, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        agent = state.agent
        inputs = agent.inputs(batch["observations"], batch["actions"])
        next_values = agent.q(batch["next_observations"], jnp.swapaxes(batch["next_actions"], 0, 1))
        wanted = losses.td_target(batch["rewards"], batch["discounts"], next_values)
        targets = jnp.clip(wanted, *self.spec.statistics["value_range"])
        weights = state.weights[batch["episodes"]] * batch["counted"].T
        descent = Descent({"q": self.optimiser}, {"q": state.optimiser})

        def loss(nets: MLP) -> tuple[Array, Metrics]:
            errors = (each_net(nets, inputs) - agent.values(targets)) ** 2
            # A sum over the candidates, so that each has the gradient it would have alone.
            return (weights * errors).mean(axis=1).sum(), {"clipped": jnp.mean(wanted != targets)}

        nets = descent.step("q", state.nets, loss)
        moved = losses.moving_average(agent.nets, nets, self.config.target_rate)
        return State(replace(agent, nets=moved), nets, descent.states["q"], state.weights), descent.metrics
