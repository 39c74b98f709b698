"""The paper's experiments, one file each, in the order of the paper; `waypost paper NAME` runs one."""

from __future__ import annotations

from waypost.errors import WaypostError
from waypost.paper.experiment import Experiment, Size

EXPERIMENTS: dict[str, Experiment] = {
    each.name: each
    for each in (
        Experiment(
            name="stitching",
            title="Action-stitching and state-stitching in a grid world",
            place="Section 4.1, Figure 1",
            claim="Action-stitching takes 11 steps from the start to the goal, state-stitching 7 or 8; "
            "each has two equally good first moves.",
            quick=Size(seeds=100),
            full=Size(seeds=1000),
        ),
    )
}


def experiment(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in EXPERIMENTS:
        raise WaypostError(f"no experiment is called {name!r}; choose from {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]
