"""What each choice POR's paper leaves open does: guide form x observation scaling x target rate, on two replicas.

    python scripts/por_choices.py runs/choices                     # everything; run it again to continue
    python scripts/por_choices.py runs/choices --data antmaze-umaze --minutes 60

Every combination is trained on seeds 100 to 102, which no reported result uses, and compared by its last evaluations.
The table goes to standard output and to choices.csv in the folder.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import time
from pathlib import Path
from typing import Any

import waypost
from waypost.console.bar import TrainingBar
from waypost.console.screen import screen
from waypost.envs.tasks import Protocol
from waypost.training.records import read_result

SEEDS = (100, 101, 102)
FORMS = ("state", "displacement")
SCALINGS = ("none", "standardise")
RATES = (0.05, 0.005)
COMMON: dict[str, Any] = {
    "value_learning_rate": 1e-3,
    "guide_learning_rate": 1e-3,
    "executor_learning_rate": 1e-3,
    "executor_hidden": (256, 256),
    "guide_objective": "weighted",
    "value_objective": "expectile",
}
"""A smaller executor than the paper's and a faster V, so that two cores can do all of it."""
SETTINGS: dict[str, dict[str, Any]] = {
    "hopper-medium-replay": {"tau": 0.7, "inverse_temperature": 3.0},
    "antmaze-umaze": {"tau": 0.9, "inverse_temperature": 10.0},
}
PROTOCOLS = {
    "hopper-medium-replay": Protocol(every=5_000, episodes=20, last=2),
    "antmaze-umaze": Protocol(every=0, episodes=50),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no further training after this")
    arguments = parser.parse_args()
    begun = time.monotonic()
    rows = []
    for data, rate, form, scaling in itertools.product(arguments.data, RATES, FORMS, SCALINGS):
        out = arguments.folder / f"{data}-{form}-{scaling}-{rate}"
        if not (out / "result.json").is_file():
            if time.monotonic() - begun > 60 * arguments.minutes:
                continue
            screen.print(f"\n{out.name}")
            waypost.train(
                "por",
                data,
                steps=arguments.steps,
                seeds=SEEDS,
                preset="none",
                evaluation=PROTOCOLS[data],
                out=out,
                resume=True,
                callbacks=[TrainingBar()],
                guide_target=form,
                observation_scaling=scaling,
                target_rate=rate,
                **COMMON,
                **SETTINGS[data],
            )
        result = read_result(out)
        scores = [each["score"] for each in result["per_seed"]]
        rows.append(
            [data, form, scaling, rate, round(result["mean"]["score"], 1), *(round(score, 1) for score in scores)]
        )
    header = ["data", "guide form", "scaling", "target rate", "mean score", *(f"seed {seed}" for seed in SEEDS)]
    with (arguments.folder / "choices.csv").open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    for row in (header, ["---"] * len(header), *rows):
        print("| " + " | ".join(map(str, row)) + " |")


if __name__ == "__main__":
    try:
        main()
    except waypost.InterruptedRun:
        screen.print("stopped and saved; the same command continues")
