"""The effect of single choices in POR and in Waypoint: one training for each, side by side.

    python scripts/choices.py por                    # everything; run it again to continue
    python scripts/choices.py waypoint --seeds 1     # with seed 100 only

Seeds start at 100, which no reported result uses; the last evaluations are compared. Each training leaves a small JSON
file in results/choices, which is read the next time. The table goes to standard output and to
results/choices/ALGORITHM.csv.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tables import write_table

from waypost.console.bar import TrainingBar
from waypost.console.screen import screen
from waypost.envs.tasks import Protocol
from waypost.studies.results import NotTrained, Results
from waypost.training.plan import plan, seeds_from

RESULTS = Path(__file__).parents[1] / "results" / "choices"
POR: dict[str, Any] = {
    "value_learning_rate": 1e-3,
    "guide_learning_rate": 1e-3,
    "executor_learning_rate": 1e-3,
    "executor_hidden": (256, 256),
    "guide_objective": "weighted",
    "value_objective": "expectile",
    "preset": "none",
}
"""A smaller executor than the paper's and a faster V, so that two cores can run all of it."""
POR_DATA: dict[str, tuple[dict[str, Any], Protocol]] = {
    "hopper-medium-replay": ({"tau": 0.7, "inverse_temperature": 3.0}, Protocol(every=5_000, episodes=20, last=2)),
    "antmaze-umaze": ({"tau": 0.9, "inverse_temperature": 10.0}, Protocol(every=0, episodes=50)),
}
WAYPOINT: dict[str, dict[str, Any]] = {
    "preset": {},
    "whole displacement": {"waypoint": "displacement"},
    "heading too": {"drift": 0.0},
    "one-step V": {"backup": 1},
    "no noise": {"action_noise": 0.0},
    "noise 0.5": {"action_noise": 0.5},
    "noise 1": {"action_noise": 1.0},
    "executor reads all": {"executor_reads": "all"},
    "executor aims at the horizon": {"executor_aim": "horizon"},
    "horizon 10": {"horizon": 10},
    "horizon 50": {"horizon": 50},
    "inverse temperature 1": {"inverse_temperature": 1.0},
    "inverse temperature 10": {"inverse_temperature": 10.0},
    "tau 0.9": {"tau": 0.9},
    "tau 0.98": {"tau": 0.98},
    "discount 0.99": {"discount": 0.99},
    "V 128 x 128": {"value_hidden": (128, 128)},
}
"""Each is the preset with this changed."""
WAYPOINT_DATA = ("antmaze-medium-play",)


def choices(algorithm: str) -> Iterator[tuple[str, str, int, dict[str, Any]]]:
    """The data, the name, the usual number of seeds and the options of each training."""
    if algorithm == "waypoint":
        for data, (name, changed) in itertools.product(WAYPOINT_DATA, WAYPOINT.items()):
            yield data, name, 2, {**changed, "evaluation": Protocol(every=10_000, episodes=100)}
        return
    forms, scalings, rates = ("state", "displacement"), ("none", "standardise"), (0.05, 0.005)
    for data, rate, form, scaling in itertools.product(POR_DATA, rates, forms, scalings):
        own, protocol = POR_DATA[data]
        changed = {"guide_target": form, "observation_scaling": scaling, "target_rate": rate}
        yield data, f"{form}, {scaling}, {rate}", 3, {**POR, **own, **changed, "evaluation": protocol}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("algorithm", choices=("por", "waypoint"))
    parser.add_argument("--data", nargs="+", help="only these data sets")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, help="how many, from 100 on")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="train nothing")
    arguments = parser.parse_args()
    results, rows = Results(arguments.out, read_only=arguments.table), []
    for data, name, usual, options in choices(arguments.algorithm):
        if arguments.data and data not in arguments.data:
            continue
        seeds = seeds_from(arguments.seeds or usual, 100)
        planned = plan(arguments.algorithm, data, steps=arguments.steps, seeds=seeds, **options)
        label = f"{arguments.algorithm}/{data}/{name}".replace(" ", "-").replace(",", "")
        try:
            run = results.run(planned, data, label, TrainingBar())
        except NotTrained:
            continue
        scores = [round(each["score"], 1) for each in run.result["per_seed"]]
        rows.append([data, name, round(run.result["mean"]["score"], 1), *scores])
    header = ["data", "choice", "mean score", "seeds from 100 on"]
    print(write_table(arguments.out / f"{arguments.algorithm}.csv", header, rows))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        screen.print("stopped; the same command goes on with the trainings that are not finished")
