"""The algorithms by name. Adding one: write its file, add its line here."""

from waypost.agents.agent import Agent, Algorithm, Spec, Stage
from waypost.agents.bc import BC, TopBC
from waypost.agents.bcq import BCQ
from waypost.agents.bear import BEAR
from waypost.agents.brac import BRAC
from waypost.agents.cql import CQL
from waypost.agents.cql_discrete import DiscreteCQL
from waypost.agents.dt import DT
from waypost.agents.iql import IQL
from waypost.agents.onestep import OneStep
from waypost.agents.por import POR
from waypost.agents.rvs import RvSG, RvSR
from waypost.agents.td3bc import TD3BC
from waypost.errors import WaypostError

ALGORITHMS: dict[str, type[Algorithm]] = {
    "por": POR,
    "bc": BC,
    "bc10": TopBC,
    "onestep": OneStep,
    "iql": IQL,
    "td3bc": TD3BC,
    "cql": CQL,
    "cql-discrete": DiscreteCQL,
    "bcq": BCQ,
    "bear": BEAR,
    "brac": BRAC,
    "dt": DT,
    "rvs-r": RvSR,
    "rvs-g": RvSG,
}


def algorithm(name: str) -> type[Algorithm]:
    """The algorithm of that name, or an error that lists the names there are."""
    if name not in ALGORITHMS:
        raise WaypostError(f"no algorithm is called {name!r}; there are: {', '.join(ALGORITHMS)}")
    return ALGORITHMS[name]


__all__ = ["ALGORITHMS", "Agent", "Algorithm", "Spec", "Stage", "algorithm"]
