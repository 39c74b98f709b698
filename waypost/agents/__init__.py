"""The algorithms by name, and what data each can learn from. To add one, write its file and add its entry here.

This module does not import JAX. The file of an algorithm does, and is imported only when needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from waypost.data.inspection.checks import no_signal
from waypost.data.inspection.findings import Support
from waypost.data.validation import described
from waypost.errors import WaypostError
from waypost.schema import meant, shown
from waypost.types import Convention

if TYPE_CHECKING:
    from waypost.agents.agent import Algorithm
    from waypost.data.dataset import Dataset

BOTH = frozenset({"actions", "rewards"})


@dataclass(frozen=True)
class Entry:
    """An algorithm: what it is, where its code is, and what data it can learn from."""

    name: str
    title: str
    """One line for `waypost list`."""
    code: str
    """The `Algorithm`, as MODULE:CLASS; the module may be relative to this package."""
    needs: frozenset[str] = BOTH
    """Columns the data must have besides states."""
    without: Mapping[str, str] = field(default_factory=dict)
    """For a missing column, what can still be trained, in words for `waypost inspect`."""
    conventions: Mapping[str, Convention] = field(default_factory=dict)
    """For a task's reward convention, the one to use instead, where the original work used another."""
    discrete: bool = False
    """Whether it can learn discrete actions."""
    continuous: bool = True
    """Whether it can learn continuous actions."""
    streams: bool = True
    """Whether it can learn from streamed data, without all of them at once."""
    label: str = ""
    """Its name as papers write it; by default `name`."""

    def load(self) -> type[Algorithm]:
        module, _, name = self.code.partition(":")
        return getattr(import_module(module, __name__), name)

    @property
    def config_type(self) -> type[Any]:
        """The dataclass of its settings."""
        return self.load().config_type

    def refusal(self, dataset: Dataset, streamed: bool = False) -> str:
        """Why it cannot learn from these actions or from streamed data; empty if it can."""
        given = "mixed" if dataset.action_choices else "continuous" if dataset.action_count is None else "discrete"
        # An algorithm that learns both kinds does so by likelihood, which mixed actions have too.
        able = {"continuous": self.continuous, "discrete": self.discrete, "mixed": self.continuous and self.discrete}
        if "actions" in self.needs and dataset.actions is not None and not able[given]:
            given = f"mixed ({described(dataset.action_choices)})" if given == "mixed" else given
            return f"actions are {given}, it learns only {'continuous' if self.continuous else 'discrete'} ones"
        return "" if self.streams or not streamed else "it needs all data at once and cannot stream them"

    def support(self, dataset: Dataset) -> Support:
        """Whether these data have what it needs."""
        missing = sorted(column for column in self.needs if getattr(dataset, column) is None)
        if missing:
            hint = self.without.get(missing[0]) if len(missing) == 1 else None
            why = f"the data have no {' and no '.join(missing)}" + (f"; {hint}" if hint else "")
        else:
            why = self.refusal(dataset)
        if not why and "rewards" in self.needs:
            silent = no_signal(dataset)
            if silent:
                why = f"{silent}: nothing to learn beyond imitating the data"
            elif not (dataset.next_valid | dataset.terminals).any():
                why = "no row has a known next state: store next_observations"
        return Support(self.name, not why, why or f"the data have {' and '.join(sorted(self.needs))}")


as_recorded = partial(Entry, conventions={"return-range": "recorded"})
"""In the original works these methods use locomotion's rewards unchanged."""
without_convention = partial(
    Entry, conventions=dict.fromkeys(("goal", "centred-goal", "return-range", "standard"), "recorded")
)
"""For methods that receive the environment's own rewards when acting, or that read none."""
ACTIONS = frozenset({"actions"})

PARTS = {
    "actions": "V and the guide train without them: --training guide, with --init RUN for another run's executor",
    "rewards": "the executor trains without them: --training executor",
}
"""What algorithms with a guide and an executor can train without a column."""

ENTRIES = (
    Entry(
        "por",
        "policy-guided offline RL: value, guide and executor (Xu et al. 2022)",
        ".por:POR",
        label="POR",
        discrete=True,
        without=PARTS,
    ),
    Entry(
        "waypoint",
        "POR with goals several steps ahead, in the directions in which the system drifts",
        ".waypoint:Waypoint",
        label="Waypoint",
        discrete=True,
        without=PARTS,
    ),
    Entry("bc", "behaviour cloning: imitate the data", ".bc:BC", ACTIONS, label="BC", discrete=True),
    Entry(
        "bc10",
        "10%BC: behaviour cloning of the best tenth of the episodes",
        ".bc:TopBC",
        label="10%BC",
        discrete=True,
        streams=False,
        # With r - 1 the best episodes would be the shortest ones, wherever they lead.
        conventions={"goal": "recorded"},
    ),
    as_recorded(
        "onestep",
        "one step of policy improvement over the behaviour (Brandfonbrener et al. 2021)",
        ".onestep:OneStep",
        label="One-step",
    ),
    Entry(
        "iql",
        "implicit Q-learning: an expectile of Q over the data's actions (Kostrikov et al. 2021)",
        ".iql:IQL",
        label="IQL",
        discrete=True,
    ),
    as_recorded(
        "td3bc",
        "TD3+BC: actor-critic kept close to the data's actions (Fujimoto and Gu 2021)",
        ".td3bc:TD3BC",
        label="TD3+BC",
    ),
    Entry(
        "cql",
        "conservative Q-learning: Q pushed down away from the data (Kumar et al. 2020)",
        ".cql:CQL",
        label="CQL",
        conventions={"return-range": "recorded", "goal": "centred-goal"},
    ),
    as_recorded(
        "cql-discrete",
        "conservative Q-learning for discrete actions (Kumar et al. 2020)",
        ".cql_discrete:DiscreteCQL",
        label="Discrete CQL",
        discrete=True,
        continuous=False,
    ),
    as_recorded(
        "bcq", "BCQ: Q-learning among actions like those in the data (Fujimoto et al. 2019)", ".bcq:BCQ", label="BCQ"
    ),
    as_recorded(
        "bear",
        "BEAR: Q-learning inside the support of the data's actions (Kumar et al. 2019)",
        ".bear:BEAR",
        label="BEAR",
    ),
    as_recorded(
        "brac",
        "BRAC: actor-critic with a penalty for leaving the behaviour policy (Wu et al. 2019)",
        ".brac:BRAC",
        label="BRAC",
    ),
    without_convention(
        "dt", "Decision Transformer: actions conditioned on a target return (Chen et al. 2021)", ".dt:DT", label="DT"
    ),
    without_convention(
        "rvs-r",
        "RvS-R: cloning conditioned on the return (Emmons et al. 2022)",
        ".rvs:RvSR",
        label="RvS-R",
        discrete=True,
    ),
    without_convention(
        "rvs-g",
        "RvS-G: cloning conditioned on a goal (Emmons et al. 2022)",
        ".rvs:RvSG",
        ACTIONS,
        label="RvS-G",
        discrete=True,
    ),
)
ALGORITHMS: dict[str, Entry] = {entry.name: entry for entry in ENTRIES}


def find_entry(name: str) -> Entry:
    """The algorithm of that name, or an error that lists the names."""
    if not isinstance(name, str) or name not in ALGORITHMS:
        raise WaypostError(
            f"no algorithm is called {shown(name)}; there are: {', '.join(ALGORITHMS)}{meant(name, ALGORITHMS)}"
        )
    return ALGORITHMS[name]


def display_name(name: str) -> str:
    """The name of an algorithm as papers write it; unknown names are shown as they are."""
    entry = ALGORITHMS.get(name)
    return entry.label if entry and entry.label else name


def algorithm(name: str) -> type[Algorithm]:
    """The code of the algorithm of that name."""
    return find_entry(name).load()


def able(dataset: Dataset, name: str, streamed: bool = False) -> Entry:
    """The algorithm of that name, or an error if it cannot learn from these data."""
    chosen = find_entry(name)
    why = chosen.refusal(dataset, streamed)
    if not why:
        return chosen
    others = [other for other, each in ALGORITHMS.items() if not each.refusal(dataset, streamed)]
    guessed = dataset.action_count is not None and not dataset.action_kind_declared
    hints = ["if the actions are continuous, pass --columns.choices 0"] if guessed else []
    hints += ["or --stream never"] if streamed and not chosen.streams else []
    words = "; ".join([why, f"these can: {', '.join(others)}", *hints])
    raise WaypostError(f"{dataset.name}: {name} cannot learn from it: {words}")


def supports(dataset: Dataset) -> tuple[Support, ...]:
    """For each algorithm, whether these data have what it needs."""
    return tuple(each.support(dataset) for each in ALGORITHMS.values())
