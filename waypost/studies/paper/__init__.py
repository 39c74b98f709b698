"""The paper's experiments, one file each, in the order of the paper; `waypost paper NAME` runs one."""

from __future__ import annotations

from waypost.errors import WaypostError
from waypost.studies.paper.benchmark import ANT_MAZE, COLUMNS, DATA
from waypost.studies.paper.experiment import Experiment, Size

SHORT = 20_000
"""Transitions of a replica in a quick form: seconds of recording, where the whole sets take hours together."""

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
        Experiment(
            name="bound",
            title="Theorem 1 measured",
            place="Section 4.4, Theorem 1",
            claim="The distance from the agent's action to the best one is at most l1 + l2 + l3. A guide that keeps "
            "less to the data lowers l2 and risks a higher l1; the temperature balances the two.",
            quick=Size(seeds=2, steps=2_000, recorded=SHORT, episodes=3),
            full=Size(seeds=3),
            data=("four-rooms", "hopper-medium-replay"),
        ),
        Experiment(
            name="table1",
            title="POR against every baseline",
            place="Section 5.1, Table 1",
            claim="POR has the highest score on most data sets: on all AntMaze ones by a large margin, in locomotion "
            "much better on low-quality data and competitive on the others.",
            quick=Size(seeds=1, steps=10, recorded=SHORT, episodes=3),
            full=Size(seeds=5),
            data=DATA,
            algorithms=tuple(name for members in COLUMNS.values() for name in members),
        ),
        Experiment(
            name="sparse",
            title="POR against POR-sparse",
            place="Section 5.1, Table 2",
            claim="With V learned by the sparse objective POR is even better on two AntMaze data sets, the umazes.",
            quick=Size(seeds=1, steps=1_000, recorded=SHORT, episodes=3),
            full=Size(seeds=5),
            data=ANT_MAZE,
        ),
        Experiment(
            name="guide-map",
            title="Where the guide goes",
            place="Section 5.2, Figure 2",
            claim="The guide's goals g(s) are distributed much like the recorded next states s', and where they are "
            "not, g(s) has a much higher value, on antmaze-large-diverse above all.",
            quick=Size(seeds=2, steps=5_000, recorded=SHORT),
            full=Size(seeds=3),
            # The paper's two, and a plane that needs no t-SNE.
            data=("four-rooms", "antmaze-large-diverse", "hopper-medium-replay"),
        ),
        Experiment(
            name="extra-data",
            title="A better guide from additional data",
            place="Section 5.3, Figure 3, and Appendix D.2",
            claim="With an executor from little good data and a guide from more data (mix) POR reaches 99 on hopper "
            "and is ahead of all others on walker2d; training everything on little (main) or on more data is worse, "
            "for POR, TD3+BC and CQL alike.",
            quick=Size(seeds=1, steps=200, recorded=SHORT, episodes=3),
            full=Size(seeds=5),
            data=("hopper-medium-replay", "walker2d-medium-replay"),
            algorithms=("por", "td3bc", "cql"),
        ),
        Experiment(
            name="new-tasks",
            title="Three tasks with one executor",
            place="Section 5.3, Figure 4, and Appendix D.3",
            claim="With the executor of Task A and V and guide trained again, POR solves Tasks B and C: it goes round "
            "the river, and where a key is needed it takes only the door behind which the key lies.",
            quick=Size(seeds=1, steps=60_000),
            full=Size(seeds=3),
        ),
        Experiment(
            name="curves",
            title="Learning curves of POR and IQL",
            place="Appendix E",
            claim="Curves of POR against IQL with the same code base and network structures, on the locomotion and the "
            "AntMaze data.",
            quick=Size(seeds=1, steps=500, recorded=SHORT, episodes=3),
            full=Size(seeds=5),
            data=DATA,
        ),
        Experiment(
            name="ablation",
            title="The executor's size and data",
            place="Appendix F",
            claim="A big executor is consistently better than a small one; one that learns from the best episodes only "
            "is worse, much worse on AntMaze.",
            quick=Size(seeds=1, steps=100, recorded=SHORT, episodes=3),
            full=Size(seeds=5),
            data=DATA,
        ),
    )
}


def experiment(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in EXPERIMENTS:
        raise WaypostError(f"no experiment is called {name!r}; choose from {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]
