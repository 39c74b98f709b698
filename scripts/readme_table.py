"""Write the README's table of results from the files in results/table1: python scripts/readme_table.py"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from statistics import mean

from waypost.studies.paper.benchmark import DATA, GROUPS, NAMES

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
from generated import cell, scores  # noqa: E402

SHOWN = ("waypoint", "por", "iql", "td3bc", "bc")
HEADS = {"waypoint": "`waypoint`", "por": "POR", "iql": "IQL", "td3bc": "TD3+BC", "bc": "BC"}
PLACE = re.compile(r"(?<=<!-- results -->\n).*?(?=<!-- end of the results -->)", re.DOTALL)

Scores = dict[tuple[str, str], list[float]]
"""By data set and algorithm, seed by seed."""


def best_other(found: Scores, data: str) -> str:
    """The best of the table's methods without a column of their own; the folder holds POR-sparse too, which is none."""
    others = {name: found[data, name] for name in NAMES if name not in SHOWN and (data, name) in found}
    if not others:
        return "-"
    name = max(others, key=lambda name: mean(others[name]))
    return f"{cell(others[name])} {NAMES[name]}"


def table(found: Scores) -> str:
    """The table: a row for each data set with a result, and the means of each group whose rows are complete."""
    data = [name for name in DATA if any(where == name for where, _ in found)]
    rows = [[name, *(cell(found.get((name, each), [])) for each in SHOWN), best_other(found, name)] for name in data]
    groups = {f"mean of the {len(names)} {group} sets": names for group, names in GROUPS.items()}
    for label, names in {**groups, f"mean of all {len(DATA)}": DATA}.items():
        means = [
            f"{mean(mean(found[name, each]) for name in names):.1f}"
            if all((name, each) in found for name in names)
            else "-"
            for each in SHOWN
        ]
        if any(text != "-" for text in means):
            rows.append([f"**{label}**", *(f"**{text}**" for text in means), ""])
    lines = [["data", *(HEADS[name] for name in SHOWN), "best other"], ["---", *["---:"] * (len(SHOWN) + 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    readme = ROOT / "README.md"
    text = readme.read_text()
    readme.write_text(PLACE.sub(lambda _: table(scores(ROOT / "results" / "table1")), text))


if __name__ == "__main__":
    main()
