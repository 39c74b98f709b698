"""What the `default` presets are worth: a table of tasks that nobody has a preset for.

    python scripts/development.py                          # trains what results/development lacks, then the table
    python scripts/development.py --sets tank-poor motor-mixed --algorithms por waypoint bc --seeds 100 101
    python scripts/development.py --table                  # only the table, from what is there; docs/defaults.md has it
    python scripts/development.py --algorithms waypoint --set horizon=10 waypoint_noise=0 --out runs/other

Each set is a log that a controller wrote (`simulators.py`). Algorithms are trained on it with nothing but the names of
its columns, and act in the simulator afterwards. Each training leaves a small JSON file, which is read the next time
unless the defaults have other settings by then. The goals:

    POR, waypoint   above the log, or as good as the good controller; and not below BC
    all others      not far below BC without an alarm

Below: by more than two standard errors. These are of all episodes, or of the means of the seeds if that is more. As
good and far below: by less and by more than a tenth of the way from random actions to the good controller.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import tempfile
import time
import tomllib
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from simulators import QUALITIES, TASKS, Behaviour, Task, record, simulate, tank, write_log

import waypost
from waypost.agents import ALGORITHMS
from waypost.files import write_json, write_text
from waypost.training.defaults import fitted
from waypost.training.plan import plan

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "results" / "development", ROOT / "docs" / "defaults.md"
BEGIN, END = "<!-- the table: begin -->\n", "<!-- the table: end -->\n"
"""Where the page has the table."""
ROWS = {"noisy-expert": 5_000, "mixed": 20_000, "poor": 5_000, "large": 200_000}
PLANT = "tank-plant"
"""The log of examples/tank, as its own script writes it: gaps, empty cells, a file for each day."""
LARGE = "motor-large"
"""The mixed one with the most rows."""
SETS = [PLANT, *(f"{task}-{quality}" for task in TASKS for quality in QUALITIES), LARGE]
OURS = ("por", "waypoint")
OTHERS = ("iql", "bc10", "td3bc", "cql-discrete")
SEEDS = (100, 101)
REPORTED = (0, 1, 2, 3, 4)
"""Seeds that nothing was chosen on; only the plant's log is trained on with them."""
EPISODES = 100
SHARE = 0.1
"""Of the way from random actions to the good controller: a difference that matters."""


class Log(NamedTuple):
    """A log on the disk, and how good it is."""

    task: Task
    files: str
    columns: waypost.Columns
    mean_return: float
    ended: float
    """Share of the episodes that did not last."""


def write_set(name: str, folder: Path, rows: int | None = None, seed: int = 0) -> Log:
    """The same bytes for the same seed."""
    kind, quality = _parts(name)
    task = TASKS[kind]
    roles: dict[str, Any] = {"observations": task.names, "actions": task.actions, "rewards": "reward"}
    if name == PLANT:
        found = tank.write_logs(folder, seed=seed)
        columns = waypost.Columns(**roles, terminals="trip", episode="batch", time="time")
        trips = sum(line.endswith(",1") for file in folder.glob("*.csv") for line in file.read_text().splitlines())
        return Log(task, f"{folder}/*.csv", columns, found, trips / 144)
    rows = rows or ROWS[quality]
    recorded = record(task, "mixed" if name == LARGE else quality, rows, seed)
    write_log(task, recorded, rows, folder / "log.csv")
    columns = waypost.Columns(**roles, terminals="ended", episode="episode", choices=task.choices or None)
    returns = np.concatenate([each.returns for each in recorded])
    ended = sum(int(each.ended.sum()) for each in recorded)
    return Log(task, str(folder / "log.csv"), columns, float(returns.mean()), ended / len(returns))


def _parts(name: str) -> tuple[str, str]:
    kind = next(kind for kind in TASKS if name.startswith(f"{kind}-"))
    return kind, name.removeprefix(f"{kind}-")


def measured(task: Task, policy: Any, episodes: int = EPISODES) -> dict[str, float]:
    """How a policy does in the simulator, or a controller: the same starts for all."""
    if not hasattr(policy, "act_with_memory"):
        found = simulate(task, policy, episodes, np.random.default_rng(1000))
    else:
        memory = policy.start(episodes)

        def act(seen: np.ndarray) -> np.ndarray:
            nonlocal memory
            actions, memory = policy.act_with_memory(seen, memory)
            return actions

        def told(rewards: np.ndarray) -> None:
            nonlocal memory
            memory = policy.receive(memory, rewards)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # poor policies go far outside the data
            found = simulate(task, act, episodes, np.random.default_rng(1000), told)
    error = found.returns.std(ddof=1) / np.sqrt(episodes)
    return {"return": float(found.returns.mean()), "error": float(error), "ended": float(found.ended.sum() / episodes)}


def fits(algorithm: str, task: Task) -> bool:
    return ALGORITHMS[algorithm].discrete if task.choices else ALGORITHMS[algorithm].continuous


def train_on(
    name: str, algorithms: Sequence[str], seeds: Sequence[int], out: Path, episodes: int = EPISODES, **options: Any
) -> None:
    """Train and evaluate what is not there yet on one set."""
    with tempfile.TemporaryDirectory() as folder:
        log = write_set(name, Path(folder), options.pop("rows", None))
        data = waypost.load(log.files, log.columns)
        controllers = {"good": np.ones(episodes), "random": np.zeros(episodes)}
        about = {"set": name, "rows": len(data), "episodes": len(data.episode_starts)}
        about |= {"return": log.mean_return, "ended": log.ended}
        if not (out / name / "log.json").is_file():
            for who, skills in controllers.items():
                about[who] = measured(log.task, Behaviour(log.task, skills, np.random.default_rng(1)), episodes)
            write_json(out / name / "log.json", about)
        for algorithm in (each for each in algorithms if fits(each, log.task)):
            wanted = fitted(plan(algorithm, data, **options), data, len(data))
            settings = {"steps": wanted.steps, "rewards": wanted.rewards, **wanted.to_json()["config"]}
            missing = [seed for seed in seeds if _read(out / name / f"{algorithm}-{seed}.json", settings) is None]
            if not missing:
                continue
            begun, cpu = time.monotonic(), time.process_time()
            run = waypost.train(algorithm, data, seeds=missing, progress=False, **options)
            spent = {"seconds": time.monotonic() - begun, "core_seconds": time.process_time() - cpu}
            for policy in run.policies:
                alarms = [alarm["what"] for alarm in run.result["alarms"] if alarm["seed"] == policy.seed]
                found = {"set": name, "algorithm": algorithm, "seed": policy.seed, "alarms": alarms}
                found |= measured(log.task, policy, episodes)
                found |= {each: round(number / len(missing), 1) for each, number in spent.items()}
                write_json(out / name / f"{algorithm}-{policy.seed}.json", found | {"settings": settings})
                print(
                    name,
                    algorithm,
                    policy.seed,
                    f"{found['return']:.4g}",
                    *alarms,
                    f"{spent['core_seconds']:.0f} s",
                    flush=True,
                )


def _read(file: Path, settings: dict[str, Any] | None = None) -> dict[str, Any] | None:
    """What a training left, if it had these settings."""
    if not file.is_file():
        return None
    found = json.loads(file.read_text("utf-8"))
    return found if settings is None or found["settings"] == settings else None


# -- the table -------------------------------------------------------------------------------------


class Score(NamedTuple):
    mean: float
    error: float
    seeds: int
    alarms: tuple[str, ...]


def score(folder: Path, algorithm: str, seeds: Sequence[int]) -> Score | None:
    """Over the seeds that are there."""
    found = [each for seed in seeds if (each := _read(folder / f"{algorithm}-{seed}.json"))]
    if not found:
        return None
    means, errors = (np.array([each[what] for each in found]) for what in ("return", "error"))
    error = float(np.sqrt((errors**2).sum()) / len(found))
    if len(found) > 1:
        error = max(error, float(means.std(ddof=1) / np.sqrt(len(found))))
    alarms = sorted({alarm for each in found for alarm in each["alarms"]})
    return Score(float(means.mean()), error, len(found), tuple(alarms))


def verdict(algorithm: str, own: Score, bc: Score, log: dict[str, Any]) -> str:
    """`holds`, or what does not."""
    good = log["good"]["return"]
    matters = SHARE * max(good - log["random"]["return"], 0.0)
    if algorithm not in OURS:
        far = own.mean < bc.mean - matters - 2 * np.hypot(own.error, bc.error)
        return "holds" if not far else "holds (alarm)" if own.alarms else "far below BC"
    if own.mean < bc.mean - 2 * np.hypot(own.error, bc.error):
        return "below BC"
    return "holds" if own.mean > log["return"] or own.mean > good - matters else "below the log"


def rows_of(out: Path, seeds: Sequence[int]) -> list[dict[str, str]]:
    """A row of the table for each set: returns of log, good controller and algorithms, and what fails."""
    lines = []
    for name in (name for name in SETS if (out / name / "log.json").is_file()):
        log = json.loads((out / name / "log.json").read_text("utf-8"))
        scores = {each: score(out / name, each, seeds) for each in ("bc", *OURS, *OTHERS)}
        line = {"set": name, "rows": f"{log['rows']}", "log": f"{log['return']:.4g}"}
        line |= {"good": f"{log['good']['return']:.4g}", "random": f"{log['random']['return']:.4g}"}
        fails = []
        for algorithm, own in scores.items():
            line[algorithm] = "" if own is None else f"{own.mean:.4g}{' !' if own.alarms else ''}"
            if own is not None and algorithm != "bc" and scores["bc"] is not None:
                told = verdict(algorithm, own, scores["bc"], log)
                fails += [] if told.startswith("holds") else [f"{algorithm} {told}"]
        line["alarms"] = "; ".join(
            f"{each} {', '.join(own.alarms)}" for each, own in scores.items() if own and own.alarms
        )
        lines.append({**line, "fails": "; ".join(fails) or "-"})
    return lines


def plant_rows(out: Path) -> list[dict[str, str]]:
    """Each reported seed on the plant's log: a third of the way to the tuned controller, and no more trips."""
    lines = []
    for algorithm in OURS:
        for seed in REPORTED:
            found = _read(out / PLANT / f"{algorithm}-{seed}.json")
            if found is not None:
                log = json.loads((out / PLANT / "log.json").read_text("utf-8"))
                way = (found["return"] - log["return"]) / (log["good"]["return"] - log["return"])
                holds = way >= 1 / 3 and found["ended"] <= log["ended"]
                line = {"set": PLANT, "algorithm": algorithm, "seed": f"{seed}", "return": f"{found['return']:.4g}"}
                line |= {"trips": f"{found['ended']:.0%}", "of the way to the tuned PI": f"{way:.0%}"}
                lines.append(line | {"holds": "yes" if holds else "no"})
    return lines


def markdown(lines: Sequence[dict[str, str]], hidden: Sequence[str] = ()) -> str:
    """The first and the last column hold words."""
    shown = [name for name in lines[0] if name not in hidden]
    rows = [shown, ["---", *["---:"] * (len(shown) - 2), "---"], *([line[name] for name in shown] for line in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def write_table(out: Path, seeds: Sequence[int]) -> str:
    """table.csv and table.md; the text of the latter."""
    lines = rows_of(out, seeds)
    if not lines:
        return "nothing trained yet\n"
    sheet = io.StringIO()
    writer = csv.DictWriter(sheet, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    write_text(out / "table.csv", sheet.getvalue())
    text, reported = markdown(lines, hidden=("alarms",)), plant_rows(out)
    if reported:
        text += "\n" + markdown(reported)
    write_text(out / "table.md", text)
    return text


def put_into(page: Path, text: str) -> None:
    """In place of the table that was there."""
    before, rest = page.read_text("utf-8").split(BEGIN)
    write_text(page, before + BEGIN + text + END + rest.split(END)[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=SETS, choices=SETS)
    parser.add_argument("--algorithms", nargs="*", default=["bc", *OURS, *OTHERS], choices=list(ALGORITHMS))
    parser.add_argument("--seeds", nargs="*", type=int, default=list(SEEDS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="train nothing")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings other than the defaults")
    asked = parser.parse_args()
    if asked.set and asked.out == RESULTS:
        parser.error("--set needs an --out of its own: results of the defaults must not be mixed with others")
    changed = tomllib.loads("\n".join(asked.set))
    for name in () if asked.table else asked.sets:
        train_on(name, asked.algorithms, asked.seeds, asked.out, **changed)
    text = write_table(asked.out, asked.seeds)
    if asked.out == RESULTS and asked.table:
        put_into(PAGE, text)
    print(text)


if __name__ == "__main__":
    main()
