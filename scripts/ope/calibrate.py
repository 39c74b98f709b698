"""How far `waypost judge` can be believed: its values beside true ones, and beside those of d3rlpy's FQE.

    python scripts/ope/calibrate.py                       # about an hour; what is in results/ope already is only read
    python scripts/ope/calibrate.py --summary             # only the table and the figure
    python scripts/ope/calibrate.py --tasks t-maze --out /tmp/ope --seed 200

Policies of several algorithms and numbers of updates are trained on each data set, judged by episodes they did not
learn from, and rolled out for their true discounted value; on ICU-Sepsis the true values are computed. One small JSON
file per task is written after every policy. d3rlpy runs in an environment of its own, `make .venv-d3rlpy`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from cases import CASES, DISCOUNT, Case
from summary import summarise

import waypost
from waypost.agents.fqe import Candidate
from waypost.data.dataset import Dataset
from waypost.files import write_json
from waypost.training.policy import Policy
from waypost.training.replay import candidate

ROOT = Path(__file__).resolve().parents[2]
OTHER = {
    "gamma": DISCOUNT,
    "updates": 3_000,
    "hidden": [64, 64],
    "learning_rate": 1e-3,
    "target_update_interval": 20,
}
"""Of d3rlpy's FQE: sizes and rates of judge's, as many updates; by its defaults it would need ten times as many."""
EVALUATORS = {"members": 6, "steps": 3_000}
"""Of judge: fewer and shorter than by default, or the tasks would take hours."""
PARTS = ("judge", "d3rlpy")
ABOUT = ("episodes", "rows", "discount", "mean_return", "discounted_return", "explained")
KEPT = ("rank", "verdict", "fitted", "imagined", "bias", "doubly_robust", "distance", "likelihood", "note")


class Folder:
    """A task's results so far."""

    def __init__(self, path: Path):
        self.path = path
        self.record = json.loads(path.read_text("utf-8")) if path.is_file() else {"policies": {}}

    def add(self, name: str, **found: Any) -> None:
        self.record["policies"].setdefault(name, {}).update(found)
        write_json(self.path, self.record)

    def lacking(self, names: list[str], what: str) -> list[str]:
        return [name for name in names if what not in self.record["policies"].get(name, {})]


def measure(case: Case, asked: argparse.Namespace) -> None:
    """Everything about a task that is not in its file yet."""
    folder = Folder(asked.out / f"{case.name}.json")
    policies = case.policies(asked.seed, asked.runs)
    names = list(policies)
    for name in folder.lacking(names, "true"):
        folder.add(name, **case.truth(policies[name]))
        print(case.name, name, folder.record["policies"][name], flush=True)
    dataset = case.judged(asked.seed)
    if "judge" in asked.parts and folder.lacking(names, "verdict"):
        judge(dataset, policies, folder)
    if "d3rlpy" in asked.parts:
        for name, value in other(asked.d3rlpy, dataset, policies, folder.lacking(names, "d3rlpy")):
            folder.add(name, d3rlpy=value)
            print(case.name, name, "d3rlpy", value, flush=True)


def judge(dataset: Dataset, policies: dict[str, Policy], folder: Folder) -> None:
    begun = time.perf_counter()
    found = waypost.judge(list(policies.values()), dataset, discount=DISCOUNT, **EVALUATORS)
    whole = found.to_json()
    about = {
        name: whole[name] for name in ("episodes", "rows", "discount", "mean_return", "discounted_return", "explained")
    }
    folder.record["judge"] = about | {"settings": whole["settings"], "seconds": time.perf_counter() - begun}
    for record, each in zip(whole["candidates"], found.candidates, strict=True):
        if record["name"] in policies:
            value = record["value"] or {}
            numbers = {name: value.get(name) for name in ("value", "low", "high")}
            withheld = None if value or not len(each.members) else float(each.members.mean())
            folder.add(record["name"], **numbers, withheld=withheld, **{name: record.get(name) for name in KEPT})
    print(folder.path.stem, found.words(), flush=True)


def other(python: Path, dataset: Dataset, policies: dict[str, Policy], names: list[str]) -> Iterator[tuple[str, float]]:
    """What d3rlpy says of policies, one after the other."""
    if not names:
        return
    usable = dataset.next_valid | dataset.terminals
    columns = {
        "observations": dataset.observations[usable],
        "actions": dataset.require("actions")[usable],
        "rewards": dataset.require("rewards")[usable],
        "next_observations": dataset.next_observations[usable],
        "terminals": dataset.terminals[usable],
        "starts": dataset.observations[dataset.episode_starts],
        "discrete": np.array(dataset.action_count or 0),
        "settings": np.array(json.dumps(OTHER)),
    }
    if dataset.action_count is None:
        columns |= {"action_low": dataset.action_low, "action_high": dataset.action_high}
    for name in names:
        acts: Candidate = candidate(policies[name], dataset)
        columns[f"next/{name}"] = acts.next_actions[usable]
        columns[f"first/{name}"] = acts.actions[dataset.episode_starts]
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "data.npz"
        np.savez(file, **columns)
        command = [str(python), str(Path(__file__).with_name("d3rlpy_fqe.py")), str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                name, value = json.loads(line)
                yield name, value
        if process.returncode:
            raise SystemExit(process.returncode)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="*", choices=list(CASES), default=list(CASES))
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "ope", help="folder of the results")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "ope", help="folder of the trained policies")
    parser.add_argument("--seed", type=int, default=100, help="of the first policy of each task")
    parser.add_argument("--d3rlpy", type=Path, default=ROOT / ".venv-d3rlpy" / "bin" / "python", help="its Python")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS, help="what to do beside true values")
    parser.add_argument("--summary", action="store_true", help="train and measure nothing")
    asked = parser.parse_args()
    if not asked.summary:
        for name in asked.tasks:
            measure(CASES[name], asked)
    print(summarise(asked.out))


if __name__ == "__main__":
    main()
