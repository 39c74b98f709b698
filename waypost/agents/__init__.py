"""The algorithms by name. Adding one: write its file, add its line here."""

from waypost.agents.agent import Agent, Algorithm, Spec, Stage
from waypost.agents.bc import BC, TopBC
from waypost.agents.por import POR
from waypost.errors import WaypostError

ALGORITHMS: dict[str, type[Algorithm]] = {
    "por": POR,
    "bc": BC,
    "bc10": TopBC,
}


def algorithm(name: str) -> type[Algorithm]:
    """The algorithm of that name, or an error that lists the names there are."""
    if name not in ALGORITHMS:
        raise WaypostError(f"no algorithm is called {name!r}; there are: {', '.join(ALGORITHMS)}")
    return ALGORITHMS[name]


__all__ = ["ALGORITHMS", "Agent", "Algorithm", "Spec", "Stage", "algorithm"]
