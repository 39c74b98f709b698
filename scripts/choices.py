"""The effect of single choices in POR and in Waypoint: one training for each, side by side.

    python scripts/choices.py por runs/choices                       # everything; run it again to continue
    python scripts/choices.py waypoint runs/choices --minutes 60     # start no training after an hour

Seeds start at 100, which no reported result uses; the last evaluations are compared. The table goes to standard output
and to results/choices/ALGORITHM.csv.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import waypost
from waypost.console.bar import TrainingBar
from waypost.console.screen import screen
from waypost.envs.tasks import Protocol
from waypost.training.records import read_result

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


def choices(algorithm: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The data, the name and the options of each training."""
    if algorithm == "waypoint":
        for data, (name, changed) in itertools.product(WAYPOINT_DATA, WAYPOINT.items()):
            yield data, name, {**changed, "seeds": (100, 101), "evaluation": Protocol(every=10_000, episodes=100)}
        return
    forms, scalings, rates = ("state", "displacement"), ("none", "standardise"), (0.05, 0.005)
    for data, rate, form, scaling in itertools.product(POR_DATA, rates, forms, scalings):
        own, protocol = POR_DATA[data]
        changed = {"guide_target": form, "observation_scaling": scaling, "target_rate": rate}
        options = {**POR, **own, **changed, "seeds": (100, 101, 102), "evaluation": protocol}
        yield data, f"{form}, {scaling}, {rate}", options


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("algorithm", choices=("por", "waypoint"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", nargs="+", help="only these data sets")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no training after this")
    arguments = parser.parse_args()
    begun, rows = time.monotonic(), []
    for data, name, options in choices(arguments.algorithm):
        if arguments.data and data not in arguments.data:
            continue
        out = arguments.folder / f"{arguments.algorithm}-{data}-{name}".replace(" ", "-").replace(",", "")
        if not (out / "result.json").is_file():
            if time.monotonic() - begun > 60 * arguments.minutes:
                continue
            screen.print(f"\n{out.name}")
            about = {"steps": arguments.steps, "out": out, "resume": True, "callbacks": [TrainingBar()]}
            waypost.train(arguments.algorithm, data, **about, **options)
        result = read_result(out)
        scores = [round(each["score"], 1) for each in result["per_seed"]]
        rows.append([data, name, round(result["mean"]["score"], 1), *scores])
    header = ["data", "choice", "mean score", "seeds from 100 on"]
    RESULTS.mkdir(parents=True, exist_ok=True)
    with (RESULTS / f"{arguments.algorithm}.csv").open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    print("| " + " | ".join(header) + " |\n" + "|---" * len(header) + "|")
    for data, name, mean, *scores in rows:
        print(f"| {data} | {name} | {mean} | {', '.join(map(str, scores))} |")


if __name__ == "__main__":
    try:
        main()
    except waypost.InterruptedRun:
        screen.print("stopped and saved; the same command continues")
