"""A cluster of two nodes on this machine, one of which is taken away while it works."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from chaos import MEMORY, Slow, trained
from ray.cluster_utils import Cluster

from waypost.studies.trials import Status, Trial
from waypost.studies.workers import Board, OnRay


class TakesAway(Board):
    """Removes the second node as soon as both work."""

    def __init__(self, cluster: Cluster):
        self.cluster, self.node = cluster, cluster.add_node(num_cpus=1, object_store_memory=MEMORY)
        self.at_work: dict[Path, float] = {}

    def running(self, trial: Trial, at: Status) -> None:
        if at.state == "running" and at.step > 0:
            self.at_work[trial.place] = time.monotonic()
        lately = [place for place, when in self.at_work.items() if time.monotonic() - when < 2]
        if self.node is not None and len(lately) == 2:
            self.cluster.remove_node(self.node, allow_graceful=False)
            self.node = None
            print("taken away", flush=True)


if __name__ == "__main__":
    place, data, steps = Path(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": MEMORY})
    board = TakesAway(cluster)
    found = trained(data, place, OnRay(address=cluster.address, watcher=Slow, board=board), steps)
    assert all(entry.run is not None for entry in found.entries if entry.algorithm == "bc"), found.entries
    cluster.shutdown()
    print("all trained", flush=True)
