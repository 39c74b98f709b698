"""What a training takes from another run: parts it does not train itself, or the weights it starts from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from waypost.agents.agent import Algorithm, Spec
from waypost.data.large import obtain
from waypost.data.stream import sample
from waypost.errors import WaypostError
from waypost.training.checkpoint import unflatten
from waypost.training.loop import Learner
from waypost.training.plan import Plan, read_plan
from waypost.training.policy import Policy, load_policies, missing_parts
from waypost.training.records import read_config
from waypost.training.state import identity, last_arrays

ROWS = 10_000
"""Approximate number of rows of the old data on which the old and the new policy are compared."""
FREE = ("training", "schedule")
"""Settings that say how to learn, not what the networks' numbers mean."""


def donor_of(planned: Plan[Any]) -> Policy | None:
    """The first policy of the run that the plan starts from, if it names one."""
    if planned.init is None:
        return None
    donor = Policy.load(planned.init)
    if donor.algorithm != planned.algorithm:
        raise WaypostError(f"--init {planned.init}: holds a {donor.algorithm} agent, expected {planned.algorithm}")
    return donor


def trains_all(chosen: type[Algorithm], planned: Plan[Any], spec: Spec) -> bool:
    """Whether this training trains every part of the agent: it then continues from the other run's weights."""
    agent = jax.eval_shape(lambda: chosen(planned.config, spec, planned.steps).init(jax.random.key(0)).agent)
    return not missing_parts(agent)


def inherited(spec: Spec, donor: Policy, warm: bool, planned: Plan[Any]) -> Spec:
    """The spec of the data, with the other run's values for the parts that come from it."""
    names = ("action_size", "action_low", "action_high", "action_count", "action_names", "action_choices")
    of_actions = {name: getattr(donor.spec, name) for name in names}
    if not warm:
        return replace(spec, **of_actions) if spec.action_size is None else spec
    same = ("observation_size", "observation_names", "history", "action_size", "action_count", "action_names")
    for name in (*same, "action_choices"):
        given, before = getattr(spec, name), getattr(donor.spec, name)
        if given != before and not (name.endswith("names") and () in (given, before)):
            raise WaypostError(f"--init {planned.init}: its {name} is {before}, but {planned.data} has {given}")
    for name, before in asdict(donor.config).items():
        given = getattr(planned.config, name)
        if isinstance(before, str | bool | tuple) and name not in FREE and given != before:
            raise WaypostError(f"--init {planned.init}: was trained with {name} = {before}, got {given}")
    # Its networks expect inputs scaled its way.
    low, high = _wider(spec, donor.spec)
    return replace(spec, **of_actions, statistics=donor.spec.statistics, observation_low=low, observation_high=high)


def _wider(spec: Spec, before: Spec) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The range of the observations over the data of both runs."""
    if not before.observation_low:
        return spec.observation_low, spec.observation_high
    low = tuple(map(min, spec.observation_low, before.observation_low))
    return low, tuple(map(max, spec.observation_high, before.observation_high))


def check_parts(agent: Any, like: Any, planned: Plan[Any]) -> None:
    """Parts from another run must match these settings, or the saved policy could not be read back."""
    forms = [(jax.tree.structure(tree), [leaf.shape for leaf in jax.tree.leaves(tree)]) for tree in (agent, like)]
    if forms[0] != forms[1]:
        raise WaypostError(
            f"--init {planned.init}: its parts have other settings (hidden layers, guide_target, executor_inputs, "
            "observation size); use those of that run"
        )


def begin_with(learner: Learner, planned: Plan[Any]) -> None:
    """Give the learner the networks of the run's last checkpoint, by seed or else the first; Adam starts again."""
    directory = Path(str(planned.init))
    arrays, seeds = last_arrays(directory, identity(read_config(directory))), read_plan(directory).seeds

    def begun(seed: int, state: Any) -> Any:
        prefix = f"seed {seed if seed in seeds else seeds[0]}"
        parts = [name for name in state._fields if "optimiser" not in name]
        return state._replace(**{name: unflatten(getattr(state, name), arrays, f"{prefix}.{name}") for name in parts})

    try:
        learner.replace_states(begun)
    except WaypostError as error:
        raise WaypostError(f"--init {directory}: {error}; use the settings of that run") from None


def kept_behaviour(planned: Plan[Any], policy: Policy, note: Callable[[str], None]) -> dict[str, Any]:
    """How far the new policy is from the old one on the old data, and each from the recorded actions.

    As shares of the actions' ranges, or of the rows for discrete actions.
    """
    before, old = load_policies(str(planned.init))[0], read_plan(Path(str(planned.init)))
    found: dict[str, Any] = {"run": str(planned.init)}
    if policy.agent.remembers:
        return found
    try:
        dataset, _ = obtain(old.data, old.columns, "auto", lambda: None, pipeline=old.pipeline)
    except (WaypostError, OSError) as error:
        note(f"warning: the old behaviour is not checked, because the old data cannot be read ({error})")
        return found
    if dataset.actions is None:
        return found
    dataset = sample(dataset, ROWS)
    was, now = (each.act(dataset.observations) for each in (before, policy))
    recorded = dataset.require("actions")
    recorded = recorded if policy.spec.action_count is None else recorded[:, 0]
    found |= {
        "rows": len(dataset),
        "changed": _apart(now, was, policy.spec),
        "error_before": _apart(was, recorded, policy.spec),
        "error": _apart(now, recorded, policy.spec),
    }
    note(
        f"on {len(dataset)} rows of {old.data} the actions differ by {found['changed']:.1%} from those of "
        f"{planned.init}, and by {found['error']:.1%} from the recorded ones; before it was {found['error_before']:.1%}"
    )
    return found


def _apart(one: np.ndarray, other: np.ndarray, spec: Spec) -> float:
    if spec.action_count is not None:
        return float(np.mean(one != other))
    low, high = np.asarray(spec.action_low), np.asarray(spec.action_high)
    apart = np.abs(one - other) / np.where(high > low, high - low, 1.0)
    return float(np.mean(np.where(np.array(spec.action_counts) > 0, one != other, apart)))
