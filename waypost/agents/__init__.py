"""The algorithms by name, and what data each can learn from. Adding one: write its file, add its entry here.

Nothing here imports JAX: an algorithm's own file does, once it is asked for.
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
    """For a column that is missing, what can be trained all the same, in words for `waypost inspect`."""
    conventions: Mapping[str, Convention] = field(default_factory=dict)
    """Which reward convention takes the place of a task's, where the method's own works used another."""
    discrete: bool = False
    """Whether it can learn discrete actions."""
    continuous: bool = True
    """Whether it can learn continuous actions."""
    streams: bool = True
    """Whether it can learn from data that are streamed: it need not see all of them at once."""

    def load(self) -> type[Algorithm]:
        module, _, name = self.code.partition(":")
        return getattr(import_module(module, __name__), name)

    @property
    def config_type(self) -> type[Any]:
        """The dataclass of its settings."""
        return self.load().config_type

    def refusal(self, dataset: Dataset, streamed: bool = False) -> str:
        """Why it cannot learn such actions, or not from data that are streamed; nothing where it can."""
        given = "mixed" if dataset.action_choices else "continuous" if dataset.action_count is None else "discrete"
        # What learns either kind does so by likelihood, which mixed actions have, too.
        able = {"continuous": self.continuous, "discrete": self.discrete, "mixed": self.continuous and self.discrete}
        if "actions" in self.needs and dataset.actions is not None and not able[given]:
            given = f"mixed ({described(dataset.action_choices)})" if given == "mixed" else given
            return f"actions are {given}, it learns {'continuous' if self.continuous else 'discrete'} ones only"
        return "" if self.streams or not streamed else "it must see all data at once, they cannot be streamed"

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
                why = f"{silent}: nothing to learn beyond doing what the data did"
            elif not (dataset.next_valid | dataset.terminals).any():
                why = "no row has a known next state: store next_observations"
        return Support(self.name, not why, why or f"the data have {' and '.join(sorted(self.needs))}")


as_recorded = partial(Entry, conventions={"return-range": "recorded"})
"""The original works give these methods locomotion's rewards as they are."""
without_convention = partial(
    Entry, conventions=dict.fromkeys(("goal", "centred-goal", "return-range", "standard"), "recorded")
)
"""The same for methods that are given the environment's own rewards when they act, or that read none."""
ACTIONS = frozenset({"actions"})

PARTS = {
    "actions": "V and the guide train without: --training guide, with --init RUN for another run's executor",
    "rewards": "the executor trains without: --training executor",
}
"""What algorithms with a guide and an executor can train without a column."""

ENTRIES = (
    Entry(
        "por",
        "policy-guided offline RL: value, guide and executor (Xu et al. 2022)",
        ".por:POR",
        discrete=True,
        without=PARTS,
    ),
    Entry(
        "waypoint",
        "POR that looks several steps ahead, in the directions in which the system drifts",
        ".waypoint:Waypoint",
        discrete=True,
        without=PARTS,
    ),
    Entry("bc", "behaviour cloning: do what the data did", ".bc:BC", ACTIONS, discrete=True),
    Entry(
        "bc10", "10%BC: behaviour cloning of the best tenth of the episodes", ".bc:TopBC", discrete=True, streams=False
    ),
    as_recorded(
        "onestep", "one step of policy improvement over the behaviour (Brandfonbrener et al. 2021)", ".onestep:OneStep"
    ),
    Entry(
        "iql",
        "implicit Q-learning: an expectile of the data's own actions (Kostrikov et al. 2021)",
        ".iql:IQL",
        discrete=True,
    ),
    as_recorded(
        "td3bc", "TD3+BC: deterministic actor-critic held to the data's actions (Fujimoto and Gu 2021)", ".td3bc:TD3BC"
    ),
    Entry(
        "cql",
        "conservative Q-learning: Q pushed down away from the data (Kumar et al. 2020)",
        ".cql:CQL",
        conventions={"return-range": "recorded", "goal": "centred-goal"},
    ),
    as_recorded(
        "cql-discrete",
        "conservative Q-learning for discrete actions (Kumar et al. 2020)",
        ".cql_discrete:DiscreteCQL",
        discrete=True,
        continuous=False,
    ),
    as_recorded("bcq", "BCQ: Q-learning among actions like those in the data (Fujimoto et al. 2019)", ".bcq:BCQ"),
    as_recorded("bear", "BEAR: Q-learning inside the support of the data's actions (Kumar et al. 2019)", ".bear:BEAR"),
    as_recorded(
        "brac",
        "BRAC: actor and critic that pay for leaving the data's density of actions (Wu et al. 2019)",
        ".brac:BRAC",
    ),
    without_convention(
        "dt", "Decision Transformer: actions that go with the return asked for (Chen et al. 2021)", ".dt:DT"
    ),
    without_convention(
        "rvs-r", "RvS-R: cloning, told the return to come (Emmons et al. 2022)", ".rvs:RvSR", discrete=True
    ),
    without_convention(
        "rvs-g", "RvS-G: cloning, told a place to come (Emmons et al. 2022)", ".rvs:RvSG", ACTIONS, discrete=True
    ),
)
ALGORITHMS: dict[str, Entry] = {entry.name: entry for entry in ENTRIES}


def find_entry(name: str) -> Entry:
    """The algorithm of that name, or an error that lists the names there are."""
    if not isinstance(name, str) or name not in ALGORITHMS:
        raise WaypostError(
            f"no algorithm is called {shown(name)}; there are: {', '.join(ALGORITHMS)}{meant(name, ALGORITHMS)}"
        )
    return ALGORITHMS[name]


def algorithm(name: str) -> type[Algorithm]:
    """The code of the algorithm of that name."""
    return find_entry(name).load()


def able(dataset: Dataset, name: str, streamed: bool = False) -> Entry:
    """The algorithm of that name, once it is certain that it can learn from these data."""
    chosen = find_entry(name)
    why = chosen.refusal(dataset, streamed)
    if not why:
        return chosen
    others = [other for other, each in ALGORITHMS.items() if not each.refusal(dataset, streamed)]
    guessed = dataset.action_count is not None and not dataset.action_kind_declared
    hints = ["if the actions are continuous, say --columns.choices 0"] if guessed else []
    hints += ["or --stream never"] if streamed and not chosen.streams else []
    words = "; ".join([why, f"these can: {', '.join(others)}", *hints])
    raise WaypostError(f"{dataset.name}: {name} cannot learn from it: {words}")


def supports(dataset: Dataset) -> tuple[Support, ...]:
    """For each algorithm there is, whether these data have what it needs."""
    return tuple(each.support(dataset) for each in ALGORITHMS.values())
