"""POR's equations once more, in float64 NumPy and straight from the paper, and data small enough to see through.

Also what the tests of several algorithms compare and ask.

Networks come in as the package's own modules with NumPy leaves; everything computed from them is written here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import compiled
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from waypost.agents.por import Config
from waypost.data.dataset import Dataset

ROWS = 24
LOW, HIGH = np.array([-2.0, 0.0]), np.array([1.0, 5.0])
TERMINAL, TIMEOUT, UNSEEN_TERMINAL, UNSEEN_TIMEOUT = 9, 15, 19, 23
"""The rows of `walks` where an episode ends, and how: the last two do not know their next state."""


def walks(seed: int = 0, **changes: np.ndarray) -> Dataset:
    """Four random walks with every kind of ending; `changes` replace whole columns."""
    random = np.random.default_rng(seed)
    states = random.normal(size=(ROWS, 3)) * [1.0, 0.3, 2.0] + [0.5, -1.0, 1.0]
    steps = random.normal(size=(ROWS, 3)) * [0.2, 0.5, 1.0] + [0.1, 0.0, 0.3]
    following = states + steps
    for row in range(1, ROWS):
        if row - 1 not in (TERMINAL, TIMEOUT, UNSEEN_TERMINAL):
            states[row] = following[row - 1]
            following[row] = states[row] + steps[row]
    rows = np.arange(ROWS)
    columns: dict[str, Any] = {
        "observations": states,
        "next_observations": following,
        "actions": random.uniform(LOW, HIGH, (ROWS, 2)),
        "rewards": random.normal(size=ROWS),
        "terminals": np.isin(rows, (TERMINAL, UNSEEN_TERMINAL)),
        "timeouts": np.isin(rows, (TIMEOUT, UNSEEN_TIMEOUT)),
        "next_valid": ~np.isin(rows, (UNSEEN_TERMINAL, UNSEEN_TIMEOUT)),
        "action_low": LOW,
        "action_high": HIGH,
    }
    return Dataset.from_arrays(**columns | changes)


def with_row(column: str, row: int, value: Any) -> Dataset:
    """`walks` with one entry replaced."""
    values = np.array(getattr(walks(), column))
    values[row] = value
    return walks(**{column: values})


COUNT = 4


def choosing_walks(seed: int = 0, **changes: Any) -> Dataset:
    """The same walks by discrete actions, of which the last is never taken."""
    taken = np.random.default_rng(seed + 1).integers(0, COUNT - 1, (ROWS, 1))
    return walks(seed, **{"actions": taken, "action_count": COUNT, **changes})


# -- networks --------------------------------------------------------------------------------------------


def numbers(tree: Any) -> Any:
    """A copy with float64 NumPy leaves."""
    return jax.tree.map(lambda leaf: np.array(leaf, np.float64), tree)


def redrawn(tree: Any, seed: int) -> Any:
    """The networks with all numbers drawn again, so that nothing here depends on how the package draws its own."""
    random = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: jnp.asarray(random.normal(0, 0.5, leaf.shape[::-1]).T, jnp.float32), tree)


def shaken(state: Any, where: Callable[[Any], Any], seed: int = 9) -> Any:
    """The state with the numbers of one part drawn again."""
    return eqx.tree_at(where, state, redrawn(where(state), seed))


def mlp(net: Any, x: np.ndarray) -> np.ndarray:
    for i, layer in enumerate(net.layers):
        x = x @ (layer.weight.T if layer.transposed else layer.weight) + layer.bias
        if i + 1 < len(net.layers):
            if net.norms:
                x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
                x = x * net.norms[i].gain + net.norms[i].offset
            x = np.maximum(x, 0)
    return x


def heads(net: Any, x: np.ndarray) -> np.ndarray:
    return np.array([mlp(head, x)[:, 0] for head in net.heads])


def log_density(net: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """log N(y; mean(x), std), one number per row."""
    std = np.exp(np.clip(net.log_std, -5, 2))
    return np.sum(-np.log(std * np.sqrt(2 * np.pi)) - (y - mlp(net.mean, x)) ** 2 / (2 * std**2), axis=1)


def log_probability(net: Any, x: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """log of the probability of the choice that was taken, one number per row."""
    odds = np.exp(mlp(net.logits, x))
    return np.log(odds[np.arange(len(x)), taken] / odds.sum(1))


def gradient(loss: Callable[[Any], float], net: Any, step: float = 1e-6) -> list[np.ndarray]:
    """Slope of the loss at every number of the network, by central differences; one array per leaf."""
    net = numbers(net)
    slopes = []
    for leaf in jax.tree.leaves(net):
        slope = np.zeros_like(leaf)
        for i in np.ndindex(leaf.shape):
            here = leaf[i]
            leaf[i] = here + step
            up = loss(net)
            leaf[i] = here - step
            slope[i] = (up - loss(net)) / (2 * step)
            leaf[i] = here
        slopes.append(slope)
    return slopes


def adam_gradient(optimiser: Any) -> list[np.ndarray]:
    """The gradient Adam was given in its first step: its first moment is a tenth of it."""
    assert int(optimiser[0].count) == 1
    return [np.asarray(leaf, np.float64) / 0.1 for leaf in jax.tree.leaves(optimiser[0].mu)]


def is_adams_first_step(steps: list[np.ndarray], slopes: list[np.ndarray], rate: float) -> bool:
    """Whether these are what Adam adds first: bias correction makes both of its moments those of one gradient.

    Only the sign of a slope shows in that step, so slopes that are all but zero are left out.
    """
    clear = [np.abs(slope) > 1e-4 * max(np.abs(slope).max() for slope in slopes) for slope in slopes]
    expected = [-rate * slope / (np.sqrt(slope**2) + 1e-8) for slope in slopes]
    assert np.mean(np.concatenate([chosen.ravel() for chosen in clear])) > 0.5
    return agree(*([x * chosen for x, chosen in zip(values, clear, strict=True)] for values in (steps, expected)), 1e-3)


def agree(ours: list[np.ndarray], theirs: list[np.ndarray], tolerance: float) -> bool:
    """Whether two lists of arrays agree to a share of the largest number in them."""
    size = max(np.abs(array).max() for array in theirs)
    assert size > 0
    return all(np.abs(a - b).max() <= tolerance * size for a, b in zip(ours, theirs, strict=True))


def check_step(
    loss: Callable[[Any], float],
    reported: Any,
    before: Any,
    after: Any,
    optimiser: Any,
    rate: float,
    tolerance: float,
    slope_tolerance: float | None = None,
) -> None:
    """A network took Adam's first step down this loss: its value, its gradient, the step."""
    old, new = numbers(before), numbers(after)
    assert np.isclose(float(reported), loss(old), rtol=tolerance)
    slopes = gradient(loss, old)
    assert agree(adam_gradient(optimiser), slopes, slope_tolerance or tolerance)
    steps = [a - b for a, b in zip(*map(jax.tree.leaves, (new, old)), strict=True)]
    assert is_adams_first_step(steps, slopes, rate)


def moved_by(rate: float, before: Any, online: Any, after: Any) -> bool:
    """Whether a target moved by its rate towards the network it follows."""
    old, whole, new = (jax.tree.leaves(numbers(tree)) for tree in (before, online, after))
    moves = [(n - o, rate * (w - o)) for o, w, n in zip(old, whole, new, strict=True)]
    return agree([move for move, _ in moves], [expected for _, expected in moves], 1e-5)


def step_sizes(optimiser: Any, steps: int) -> np.ndarray:
    """Adam's step size over time: with a gradient that stays 1, every update is minus the rate."""
    net, sizes = jnp.zeros(1), []
    state = optimiser.init(net)
    for _ in range(steps):
        step, state = optimiser.update(jnp.ones(1), state, net)
        sizes.append(-float(step[0]))
    return np.array(sizes)


# -- comparing and asking ----------------------------------------------------------------------------------


def same(one: Any, other: Any) -> bool:
    """Equal to the last bit, structure included."""
    if jax.tree.structure(one) != jax.tree.structure(other):
        return False
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in pairs)


def differing(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    return {name for name in one.keys() | other.keys() if not same(one.get(name), other.get(name))}


def check_bounds(agent: Any, where: Callable[[Any], Any], memory: Any = ()) -> None:
    """With one network a hundred times as large, actions reach both bounds, leave neither, and are always the same."""
    wild = eqx.tree_at(where, agent, jax.tree.map(lambda leaf: 100 * leaf, where(agent)))
    actions, again = (np.asarray(compiled.act(wild, walks().observations, memory)[0]) for _ in range(2))
    assert np.array_equal(actions, again)
    assert (actions >= LOW).all()
    assert (actions <= HIGH).all()
    assert (actions == LOW).any()
    assert (actions == HIGH).any()


# -- POR --------------------------------------------------------------------------------------------------


class Oracle:
    """The losses of POR with all rows of a data set as the batch."""

    def __init__(self, config: Config, data: Dataset):
        self.config, self.data = config, data
        self.states, self.following = (np.asarray(x, np.float64) for x in (data.observations, data.next_observations))
        self.known = data.next_valid | data.terminals
        self.goals, self.earned, self.left, self.aimed = self._aims()
        self.shift, self.width = np.zeros(3), np.ones(3)
        if config.observation_scaling == "standardise":
            self.shift, self.width = self.states.mean(0), self.states.std(0)
        self.inputs = (self.states - self.shift) / self.width
        self.goal_shift, self.goal_width = self.shift, self.width
        if config.guide_target == "displacement":
            moves = (self.goals - self.states)[self.aimed]
            self.goal_shift, self.goal_width = moves.mean(0), moves.std(0)
        self.encoded = (self.goals - self._origin() - self.goal_shift) / self.goal_width

    def _origin(self) -> np.ndarray:
        return self.states if self.config.guide_target == "displacement" else np.zeros(3)

    def _aims(self) -> tuple[np.ndarray, ...]:
        """Walk ahead from each row: where to, what is earned, what is left of the discount, and is it real?"""
        data, result = self.data, []
        for row in range(len(data)):
            goal, earned, left, real = self.following[row], 0.0, 1.0, False
            for at in range(row, row + self.config.horizon):
                if not data.next_valid[at]:
                    break
                earned += left * float(data.rewards[at])
                left *= self.config.discount
                goal, real = self.following[at], True
                if data.terminals[at]:
                    left = 0.0
                if data.ends[at]:
                    break
            result.append((goal, earned, left, real))
        return tuple(np.array(column) for column in zip(*result, strict=True))

    def values(self, net: Any, states: np.ndarray) -> np.ndarray:
        """Both networks' values of unscaled states."""
        return heads(net, (states - self.shift) / self.width)

    def value_loss(self, net: Any, target: Any) -> float:
        """(3) or (4), with both networks after the same target: the smaller of the two V'."""
        bootstrap = np.where(self.data.terminals, 0, self.config.discount) * self.values(target, self.following).min(0)
        v = self.values(net, self.states)
        u = np.asarray(self.data.rewards, np.float64) + bootstrap - v
        tau = self.config.tau
        if self.config.value_objective == "expectile":
            loss = np.abs(tau - (u < 0)) * u**2
        else:
            loss = (1 + u / (2 * tau) > 0) * (1 + u / (2 * tau)) ** 2 + v / tau
        return loss[:, self.known].mean()

    def weights(self, net: Any, target: Any) -> np.ndarray:
        u = self.earned + self.left * self.values(target, self.goals).min(0) - self.values(net, self.states).min(0)
        return np.minimum(np.exp(self.config.inverse_temperature * u), self.config.weight_cap)

    def guide_loss(self, net: Any, weights: np.ndarray | float = 1.0) -> float:
        """(6); with weights of 1 it is the behaviour guide's."""
        return -(weights * log_density(net, self.inputs, self.encoded))[self.aimed].mean()

    def constrained_loss(self, start: Any, value: Any, behaviour: Any, noise: np.ndarray) -> Callable[[Any], float]:
        """(5) as a function of the guide; what scales V is fixed where the guide is now."""

        def drawn(net: Any) -> tuple[np.ndarray, np.ndarray]:
            sample = mlp(net.mean, self.inputs) + np.exp(np.clip(net.log_std, -5, 2)) * noise
            return sample, self.values(value, self._origin() + sample * self.goal_width + self.goal_shift).min(0)

        scale = self.config.inverse_temperature / np.abs(drawn(start)[1]).mean()

        def loss(net: Any) -> float:
            sample, values = drawn(net)
            return -(scale * values + log_density(behaviour, self.inputs, sample)).mean()

        return loss

    def executor_loss(self, net: Any, weights: np.ndarray | float = 1.0) -> float:
        """(7)."""
        actions = 2 * (np.asarray(self.data.actions, np.float64) - LOW) / (HIGH - LOW) - 1
        inputs = np.concatenate([self.inputs, self.encoded], axis=1)
        return -(weights * log_density(net, inputs, actions))[self.aimed].mean()
