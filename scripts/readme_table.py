"""Write the README's table of results from the files in results/table1: python scripts/readme_table.py"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from waypost.statistics import spread
from waypost.studies.paper.benchmark import DATA, GROUPS, NAMES

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
from generated import cell, scores  # noqa: E402

SHOWN = ("waypoint", "por", "iql", "td3bc", "bc")
HEADS = {"waypoint": "`waypoint`", "por": "POR", "iql": "IQL", "td3bc": "TD3+BC", "bc": "BC"}
PLACE = re.compile(r"(?<=<!-- results -->\n).*?(?=<!-- end of the results -->)", re.DOTALL)

Scores = dict[tuple[str, str], list[float]]
"""By data set and algorithm, seed by seed."""


def best_other(means: dict[str, float]) -> str:
    """The best of the table's methods without a column of their own; the folder holds POR-sparse too, which is none."""
    return max((name for name in NAMES if name not in SHOWN and name in means), key=means.__getitem__, default="")


def row(found: Scores, data: str) -> list[str]:
    """The line of a data set."""
    own = {name: found.get((data, name), []) for name in NAMES}
    best = best_other({name: mean(values) for name, values in own.items() if values})
    return [data, *(cell(own[name]) for name in SHOWN), f"{cell(own[best])} {NAMES[best]}" if best else "-"]


def mean_row(found: Scores, label: str, data: Sequence[str]) -> list[str]:
    """The line of a group: the mean of each method that has a result on all of its sets."""
    known = [name for name in NAMES if all((each, name) in found for each in data)]
    means = {name: mean(mean(found[each, name]) for each in data) for name in known}

    def text(name: str) -> str:
        """The mean, and the range of the seeds' own means where every set has several seeds."""
        if name not in means:
            return "-"
        seeds = [mean(of_a_seed) for of_a_seed in zip(*(found[each, name] for each in data), strict=False)]
        span = spread(seeds)
        return f"{means[name]:.1f}" + (f" ({span[0]:.1f} to {span[1]:.1f})" if span else "")

    best = best_other(means)
    texts = [label, *map(text, SHOWN), f"{text(best)} {NAMES[best]}" if best else "-"]
    return [f"**{each}**" for each in texts]


def table(found: Scores) -> str:
    """The table: a row for each data set with a result, and the means of each group for which a method has all."""
    rows = [row(found, name) for name in DATA if any(where == name for where, _ in found)]
    groups = {f"mean of the {len(names)} {group} sets": names for group, names in GROUPS.items()}
    means = [mean_row(found, *each) for each in {**groups, f"mean of all {len(DATA)}": DATA}.items()]
    rows += [line for line in means if set(line[1:]) != {"**-**"}]
    lines = [["data", *(HEADS[name] for name in SHOWN), "best other"], ["---", *["---:"] * (len(SHOWN) + 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    readme = ROOT / "README.md"
    text = readme.read_text()
    readme.write_text(PLACE.sub(lambda _: table(scores(ROOT / "results" / "table1")), text))


if __name__ == "__main__":
    main()
