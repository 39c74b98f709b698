"""How reliable `waypost judge` is: its estimates beside true values, on tasks with a simulator.

    python scripts/calibrate_judge.py --out results/ope          # hours; existing results are kept
    python scripts/calibrate_judge.py --out /tmp/ope --tiny      # a minute, to see that it works

Policies of several algorithms, budgets and seeds are trained on each data set with a fifth of the episodes held out,
evaluated on these episodes, and rolled out for their true discounted value. One small JSON file per data set holds the
pairs; summary.md has rank correlation, regret, coverage of the intervals and error.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
from scipy.stats import spearmanr

import waypost
from waypost.agents.agent import Agent
from waypost.envs.tasks import Task
from waypost.files import write_json, write_text
from waypost.studies.judge.judgement import Judgement

DATA = ("hopper-medium-replay", "pointmaze-umaze", "t-maze")
ALGORITHMS = ("bc", "bc10", "iql", "por")
BUDGETS = (1_000, 10_000, 50_000)
SEEDS = 2
HEADER = (
    "data",
    "policies",
    "told",
    "Spearman",
    "regret@1",
    "regret@3",
    "coverage",
    "mean error",
    "range of true values",
)


def true_value(agent: Agent, task: Task, discount: float, episodes: int, seed: int = 0) -> float:
    """The mean discounted return of episodes that are stepped together."""
    envs = task.make(episodes)
    act = jax.jit(lambda observations, memory: agent.act(observations, memory))
    observations, _ = envs.reset(seed=[seed + place for place in range(episodes)])
    memory, running, gamma, value = agent.start(episodes, task.goal), np.ones(episodes, bool), 1.0, 0.0
    while running.any() and gamma > 1e-4:
        actions, memory = act(np.asarray(observations, np.float32), memory)
        observations, rewards, terminated, truncated, _ = envs.step(np.asarray(actions).astype(envs.action_space.dtype))
        memory = agent.receive(memory, np.asarray(rewards, np.float32))
        value += gamma * float((rewards * running).sum())
        done = terminated | truncated
        running &= ~done
        gamma *= discount
        if done.any() and running.any():
            observations, _ = envs.reset(options={"reset_mask": done})
    envs.close()
    return value / episodes


def measure(data: str, out: Path, tiny: bool) -> list[dict[str, Any]]:
    """Estimate and truth of every policy on a data set."""
    file = out / f"{data}.json"
    if file.is_file():
        return json.loads(file.read_text("utf-8"))
    runs = [
        waypost.train(
            algorithm,
            data,
            steps=budget,
            seeds=1 if tiny else SEEDS,
            hold_out=0.2,
            evaluation=waypost.Protocol(every=0, episodes=1),
            out=out / "runs" / data / f"{algorithm}-{budget}",
            resume=True,
        )
        for algorithm in (ALGORITHMS[:2] if tiny else ALGORITHMS)
        for budget in ((50,) if tiny else BUDGETS)
    ]
    options: dict[str, Any] = {"steps": 200, "members": 5, "hidden": (16,)} if tiny else {}
    judgement = waypost.judge(runs, discount=0.99, **options)
    rows = pairs(judgement, runs, 5 if tiny else 100)
    write_json(file, rows)
    return rows


def pairs(judgement: Judgement, runs: list[waypost.Run], episodes: int) -> list[dict[str, Any]]:
    policies = {(str(run.directory), policy.seed): (run, policy) for run in runs for policy in run.policies}
    rows = []
    for record in judgement.to_json()["candidates"]:
        if record["run"] is not None:
            run, policy = policies[record["run"], record["seed"]]
            task = waypost.task(str(run.plan.task))
            found = record["value"] or {}
            row = {name: record[name] for name in ("name", "algorithm", "seed", "verdict", "doubly_robust", "distance")}
            row |= {name: found.get(name) for name in ("value", "low", "high")}
            rows.append(row | {"true": true_value(policy.actor, task, judgement.discount, episodes)})
    return rows


def summarise(data: str, rows: list[dict[str, Any]]) -> list[str]:
    """A line of the table, over the policies with an estimate; the count and the range are over all policies."""
    told = [row for row in rows if row["value"] is not None]
    truth = np.array([row["true"] for row in rows])
    span = float(truth.max() - truth.min())
    line = [data, str(len(rows)), str(len(told))]
    if len(told) < 3 or span == 0.0:
        return [*line, *["-"] * 5, f"{span:.3g}"]
    true, value = (np.array([row[name] for row in told]) for name in ("true", "value"))
    order = np.argsort([-row["low"] for row in told])
    regrets = [(truth.max() - true[order[:count]].max()) / span for count in (1, 3)]
    held = np.mean([row["low"] <= row["true"] <= row["high"] for row in told])
    numbers = [spearmanr(value, true).statistic, *regrets, held, np.abs(value - true).mean()]
    return [*line, *(f"{number:.2f}" for number in numbers), f"{span:.3g}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", nargs="*", default=list(DATA))
    parser.add_argument("--tiny", action="store_true")
    asked = parser.parse_args()
    lines = [summarise(data, measure(data, asked.out, asked.tiny)) for data in asked.data]
    table = [HEADER, ["---", *["---:"] * (len(HEADER) - 1)], *lines]
    text = "\n".join(f"| {' | '.join(row)} |" for row in table) + "\n"
    write_text(asked.out / "summary.md", text)
    print(text)


if __name__ == "__main__":
    main()
