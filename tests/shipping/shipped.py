"""Small policies to ship, for tests to import; nothing is trained."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from test_every import data, tiny

import waypost
from waypost.agents import ALGORITHMS
from waypost.files import write_json
from waypost.training.plan import plan
from waypost.training.policy import Policy, save_policies


@cache
def policy(name: str = "por", choices: bool = False, **changes: Any) -> Policy:
    chosen, config = ALGORITHMS[name].load(), replace(tiny(name), **changes)
    _, spec = chosen.prepare(config, data(name, choices))
    return Policy(name, config, spec, chosen.build(config, spec), 3)


def a_run(folder: Path) -> Path:
    """A run directory as far as an export reads it: the plan, the policies of two seeds, and the log beside it."""
    waypost.save(data("por"), folder / "log.npz")
    write_json(folder / "run" / "config.json", plan("por", folder / "log.npz", config=policy().config).to_json())
    save_policies([policy(), replace(policy(), seed=4)], folder / "run" / "policy")
    return folder / "run"
