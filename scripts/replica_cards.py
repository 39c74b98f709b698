"""Collect all replicas, or the named ones, and write their cards into docs/replicas.md.

    python scripts/replica_cards.py --transitions 50000
    python scripts/replica_cards.py hopper-medium antmaze-umaze --out cards.md
    python scripts/replica_cards.py hopper-medium --recorded

Cards of other sets are left as they are.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from waypost import load
from waypost.data.dataset import Dataset
from waypost.envs.tasks import TASKS
from waypost.recording.replicas import REPLICAS, collect

BEGIN, END = "<!-- cards: written by scripts/replica_cards.py -->", "<!-- end of the cards -->"
HEADER = (
    "| data | transitions | episodes | steps per episode | return: mean | quartiles | max | arrived % | score "
    "| per second | D4RL: transitions | episodes |\n|---" + "|---:" * 11 + "|\n"
)
D4RL_EPISODES = {
    **{"hopper-random": 45_240, "hopper-medium": 2_187, "hopper-medium-replay": 2_041},
    **{"hopper-medium-expert": 3_214, "hopper-expert": 1_028},
    **{"halfcheetah-random": 1_000, "halfcheetah-medium": 1_000, "halfcheetah-medium-replay": 202},
    **{"halfcheetah-medium-expert": 2_000, "halfcheetah-expert": 1_000},
    **{"walker2d-random": 48_908, "walker2d-medium": 1_191, "walker2d-medium-replay": 1_093},
    **{"walker2d-medium-expert": 2_191, "walker2d-expert": 1_001},
    **{"antmaze-umaze": 10_154, "antmaze-umaze-diverse": 1_036, "antmaze-medium-play": 10_768},
    **{"antmaze-medium-diverse": 2_959, "antmaze-large-play": 13_517, "antmaze-large-diverse": 7_189},
}
"""Episodes of D4RL's v2 files, from the catalogue of TensorFlow Datasets."""


@dataclass(frozen=True)
class Options:
    """Which replicas, and how much of each."""

    names: tyro.conf.Positional[tuple[str, ...]] = tuple(REPLICAS)
    transitions: int | None = None
    """Per set; by default as many as D4RL has."""
    seed: int = 0
    workers: int | None = None
    """Processes; by default one per core."""
    recorded: bool = False
    """Describe sets that were recorded before (WAYPOST_DATA) instead of collecting; their speed stays empty."""
    out: Path = Path(__file__).parents[1] / "docs" / "replicas.md"


def card(data: Dataset, seconds: float | None) -> str:
    """One row of the table; episodes cut off at the end of a stage are left out of the statistics."""
    task, name = TASKS[data.name], data.name
    last = data.last_row[data.episode_starts]
    full = data.episode_lengths == task.horizon
    whole = np.arange(len(last)) < len(last) - 1 if name.startswith("antmaze") else full | data.terminals[last]
    returns, lengths = data.episode_returns[whole], data.episode_lengths[whole]
    arrived = "" if "maze" not in name else f"{100 * np.mean(returns > 0):.0f}"
    if name.startswith("antmaze"):
        arrived = f"{100 * np.mean(~full[whole]):.0f}"
    digits = 2 if name.startswith("antmaze") else 0
    low, middle, high = (f"{q:.0f}" for q in np.percentile(returns, (25, 50, 75)))
    cells = (
        name,
        f"{len(data):,}",
        f"{whole.sum():,}",
        f"{lengths.mean():.0f}",
        f"{returns.mean():.{digits}f}",
        f"{low} / {middle} / {high}",
        f"{returns.max():.0f}",
        arrived,
        f"{task.score(returns.mean()):.1f}",
        "" if seconds is None else f"{len(data) / seconds:,.0f}",
        f"{REPLICAS[name].transitions:,}",
        f"{D4RL_EPISODES[name]:,}" if name in D4RL_EPISODES else "",
    )
    return "| " + " | ".join(cells) + " |"


def write(path: Path, rows: dict[str, str]) -> None:
    """Put the rows into the table of the page."""
    text = path.read_text() if path.exists() else f"{BEGIN}\n{END}\n"
    before, _, rest = text.partition(BEGIN)
    table, _, after = rest.partition(END)
    known = {line.split("|")[1].strip(): line for line in table.splitlines() if line.startswith("| ")}
    lines = [{**known, **rows}.get(name) for name in REPLICAS]
    path.write_text(before + BEGIN + "\n" + HEADER + "\n".join(filter(None, lines)) + "\n" + END + after)


def main(options: Options) -> None:
    for name in options.names:
        begun = time.monotonic()
        if options.recorded:
            row = card(load(name), None)
        else:
            data = collect(name, options.transitions, options.seed, options.workers)
            row = card(data, time.monotonic() - begun)
        print(row, flush=True)
        write(options.out, {name: row})


if __name__ == "__main__":
    main(tyro.cli(Options))
