"""Parts of an agent that come from another run."""

from __future__ import annotations

from typing import Any

import jax

from waypost.errors import WaypostError
from waypost.training.plan import Plan
from waypost.training.policy import Policy


def donor_of(planned: Plan[Any]) -> Policy | None:
    """The policy that provides what this training leaves out, if the plan names one."""
    if planned.init is None:
        return None
    donor = Policy.load(planned.init)
    if donor.algorithm != planned.algorithm:
        raise WaypostError(f"--init {planned.init}: holds a {donor.algorithm} agent, {planned.algorithm} is needed")
    return donor


def check_parts(agent: Any, like: Any, planned: Plan[Any]) -> None:
    """Parts from another run must be what these settings describe, or the saved policy could not be read back."""
    forms = [(jax.tree.structure(tree), [leaf.shape for leaf in jax.tree.leaves(tree)]) for tree in (agent, like)]
    if forms[0] != forms[1]:
        raise WaypostError(
            f"--init {planned.init}: its parts have other settings than asked for here (hidden layers, guide_target, "
            "executor_inputs, observation size); use those of that run"
        )
