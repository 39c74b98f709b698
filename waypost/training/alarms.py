"""Alarms while a training runs: about its metrics, and about how far the policy is from the recorded actions.

Each is one line with what was seen and the options that may help, raised once per seed. Every row of metrics.csv is
checked from step 1000 on, and the policy whenever the number of steps has grown by a quarter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from waypost.agents.agent import Agent
from waypost.data.dataset import Dataset
from waypost.data.in_file import in_memory
from waypost.errors import MissingPart, WaypostError
from waypost.training.callbacks import Callback
from waypost.training.records import Alarm

FIRST_STEP = 1_000
"""No alarm is raised before this step."""
LOOKS = 1.25
"""The policy is checked again once the number of steps has grown by this factor."""
ROWS = 256
"""Rows of the data on which the policy is checked."""
ABOVE, BELOW = 0.1, 1.0
"""How far V may exceed what the rewards allow, as a share of it: penalties push V down, nothing pushes it up."""
GROWTH = 100.0
"""A loss explodes if it is this many times its median so far."""
LARGEST_LIKELIHOOD = 1_000.0
"""Losses other than squared errors of values, mostly negative log likelihoods, are far smaller than this."""
IN_A_ROW = 3
"""Rows of metrics in a row that must show the same, for weights and for validation."""
EQUAL = 0.003
"""Weights whose mean is this close to 1 count as all equal."""
FAR = 2.0
"""Distance to the recorded actions, in their standard deviations, beyond which a policy is far from them."""
VALUES = ("value", "q", "critic")
"""Parts whose losses are squared errors of values."""


class Strict(Callback):
    """Turns alarms into errors."""

    def alarmed(self, alarm: Alarm) -> None:
        raise WaypostError(f"{described(alarm)} (--strict)")


class Alarms:
    """Checks the metrics and the agents of a training, and keeps the alarms raised so far."""

    def __init__(self, config: Any, dataset: Dataset, bounds: tuple[float, float] | None):
        """`dataset` may be a sample; `bounds` are what its rewards can `reach`."""
        self.config, self.reach = config, bounds
        self.sample = _sample(dataset)
        self.raised: list[Alarm] = []
        self._rows: dict[tuple[int, str], list[dict[str, Any]]] = {}
        self._errors: dict[int, list[float]] = {}
        self._looked = 0
        self._act = jax.jit(lambda agent, rows: agent.act(rows, ())[0])

    def look(
        self, step: int, rows: Sequence[dict[str, Any]], agents: Callable[[], Sequence[Agent]] = lambda: ()
    ) -> list[Alarm]:
        """New alarms from new rows of metrics.csv and the current agents, at most one of each kind per seed."""
        found: list[Alarm] = []
        for row in rows:
            earlier = self._rows.setdefault((row["seed"], row["stage"]), [])
            earlier.append(row)
            if step >= FIRST_STEP:
                found += self._new(step, row["seed"], self._of_metrics(earlier))
        if step >= max(FIRST_STEP, LOOKS * self._looked):
            self._looked = step
            for row, agent in zip(rows, agents(), strict=False):
                found += self._new(step, row["seed"], self._of_policy(agent))
        return found

    def validated(self, step: int, seed: int, error: float) -> list[Alarm]:
        """New alarms from an error on held-out data; smaller is better, in any unit."""
        errors = self._errors.setdefault(seed, [])
        errors.append(error)
        gained = errors[0] - min(errors)
        rising = len(errors) > IN_A_ROW and min(errors[-IN_A_ROW:]) > min(errors) + 0.1 * gained
        text = f"the error on held-out data rises: {min(errors):.3g} at best, {error:.3g} now; try fewer --steps"
        return self._new(step, seed, {"validation": text} if rising else {})

    def _new(self, step: int, seed: int, found: Mapping[str, str]) -> list[Alarm]:
        known = {alarm["what"] for alarm in self.raised if alarm["seed"] == seed}
        new = [Alarm(step=step, seed=seed, what=what, text=text) for what, text in found.items() if what not in known]
        self.raised += new
        return new

    def _of_metrics(self, rows: list[dict[str, Any]]) -> dict[str, str]:
        """Alarms by kind; `rows` are all rows of a seed and stage, the newest last."""
        return dict([*self._of_values(rows[-1]), *self._of_losses(rows), *self._of_weights(rows)])

    def _of_values(self, row: dict[str, Any]) -> Iterator[tuple[str, str]]:
        if self.reach is None or "value" not in row:
            return
        low, high = self.reach
        width = max(high - low, abs(low), abs(high))
        if not low - BELOW * width <= row["value"] <= high + ABOVE * width:
            helps = f"a smaller {self._option('learning_rate')} or --rewards standard with --preset default"
            if row["value"] < low and getattr(self.config, "value_penalty", False):
                helps = "--no-value-penalty or a smaller --divergence-weight"
            seen = f"values are {row['value']:.3g} on average, but these rewards allow {low:.3g} to {high:.3g}"
            yield "values", f"{seen}; {helps} may help"

    def _of_losses(self, rows: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
        for name in (name for name in rows[-1] if name.endswith("_loss")):
            *earlier, now = (abs(row[name]) for row in rows)
            most = LARGEST_LIKELIHOOD
            if name.removesuffix("_loss") in VALUES:
                width = max(map(abs, self.reach)) if self.reach else 1.0
                most = (ABOVE * width) ** 2
            if len(earlier) >= IN_A_ROW and now > max(GROWTH * np.median(earlier), most):
                seen = f"{name} explodes: {now:.3g}, median so far {np.median(earlier):.3g}"
                yield "losses", f"{seen}; a smaller {self._option('learning_rate')} may help"

    def _of_weights(self, rows: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
        config, means = self.config, [row["weight"] for row in rows[-IN_A_ROW:] if "weight" in row]
        temperature = getattr(config, "inverse_temperature", 0.0)
        if len(means) < IN_A_ROW or temperature == 0:
            return
        standardised = [name for name in ("residuals", "advantages") if hasattr(config, name)]
        form = f" or --{standardised[0]} standardised" if standardised else ""
        if min(means) > config.weight_cap / 2:
            seen = f"most weights are at their cap of {config.weight_cap:g}: every row counts the same"
            yield "weights", f"{seen}; a smaller --inverse-temperature{form} may help"
        elif max(means) < EQUAL:
            yield "weights", f"weights are all near 0: almost nothing is learned; --rewards standard{form} may help"
        elif max(abs(mean - 1) for mean in means) < EQUAL:
            seen = "weights are all near 1: rewards hardly matter, this is close to behaviour cloning"
            yield "weights", f"{seen}; a larger --inverse-temperature{form} may help"

    def _of_policy(self, agent: Agent) -> dict[str, str]:
        if self.sample is None or _remembers(agent):
            return {}
        observations, actions, spread, discrete = self.sample
        try:
            chosen = np.asarray(self._act(agent, observations), np.float64)
        except MissingPart:
            return {}
        chosen = chosen.reshape(len(chosen), -1)
        far, seen = False, ""
        for column in np.flatnonzero(discrete):
            same = float(np.mean(chosen[:, column] == actions[:, column]))
            counts = np.unique(actions[:, column], return_counts=True)[1] / len(actions)
            if not far and same < np.sum(counts**2) / FAR:
                far, seen = True, f"it agrees with them in {same:.0%} of states"
        if not far and not discrete.all():
            distance = float(np.sqrt(np.mean(((chosen - actions) / spread)[:, ~discrete] ** 2)))
            far, seen = distance > FAR, f"{distance:.1f} standard deviations on average"
        helps = self._option("inverse_temperature", "value_weight", "learning_rate")
        text = f"the policy is far from the recorded actions: {seen}; a smaller {helps} may help, or compare with BC"
        return {"policy": text} if far else {}

    def _option(self, *endings: str) -> str:
        """The first setting whose name ends like this, as the command line spells it."""
        names = [name for ending in endings for name in vars(self.config) if name.endswith(ending)]
        return f"--{names[0].replace('_', '-')}" if names else "step size"


def _remembers(agent: Agent) -> bool:
    """Whether the agent remembers its episode, so that single rows cannot be checked."""
    if type(agent).start is Agent.start:
        return False
    try:
        return bool(jax.tree.leaves(agent.start(1)))
    except WaypostError:  # it needs a goal
        return True


def described(alarm: Alarm) -> str:
    """An alarm as one line."""
    return f"alarm at step {alarm['step']}, seed {alarm['seed']}: {alarm['text']}"


def reach(dataset: Dataset, discount: float) -> tuple[float, float] | None:
    """The smallest and the largest discounted return possible with these rewards; None = unknown.

    A reward r forever is worth r / (1 - gamma). A return that ends after n rows lies between that and the last reward.
    """
    if dataset.rewards is None or discount >= 1:
        return None
    rewards, terminals = in_memory(dataset.rewards), in_memory(dataset.terminals)
    worths: list[float] = []
    for some, factor in ((rewards[~terminals], 1.0 / (1.0 - discount)), (rewards[terminals], 1.0)):
        worths += [float(some.min()) * factor, float(some.max()) * factor] if len(some) else []
    return min(worths), max(worths)


def _sample(dataset: Dataset) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """A sample of rows: observations, actions, their standard deviations, and which of them are discrete."""
    if dataset.actions is None:
        return None
    rows = np.linspace(0, len(dataset) - 1, min(ROWS, len(dataset))).astype(int)
    actions = dataset.actions[rows].astype(np.float64)
    spread = actions.std(axis=0)
    discrete = np.array(dataset.action_counts) > 0
    return np.asarray(dataset.observations[rows]), actions, np.where(spread > 0, spread, 1.0), discrete
