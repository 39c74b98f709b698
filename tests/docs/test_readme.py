"""The README is short, its links lead somewhere, and its numbers are those of the files they come from."""

from __future__ import annotations

import csv
import re

from pages import ROOT, script

readme_table = script(ROOT / "scripts" / "readme_table.py")
TEXT = (ROOT / "README.md").read_text()


def row(name: str) -> list[str]:
    (line,) = (line for line in TEXT.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_it_is_short() -> None:
    assert len(TEXT.splitlines()) < 115


def test_its_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", TEXT)
    assert len(links) > 15
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_its_results_are_those_in_the_results_folder() -> None:
    assert readme_table.PLACE.findall(TEXT) == [readme_table.table(readme_table.scores(ROOT / "results" / "table1"))]
    with (ROOT / "results" / "rooms" / "four-rooms" / "waypoint.csv").open() as file:
        later = [float(line["score"]) for line in csv.DictReader(file) if line["step"] == "10000"]
    assert later == [100.0] * 3


def test_the_table_of_results() -> None:
    """A mean is shown where a method has a result on every set of a group, its range if all have several seeds; a star
    marks one seed.
    """
    mazes, bodies = readme_table.GROUPS.values()
    found = {(data, "bc"): [10.0] for data in mazes} | {(data, "waypoint"): [1.0, 2.0, 6.0] for data in mazes}
    found |= {(mazes[0], "bc10"): [4.0], (mazes[0], "dt"): [5.0], (bodies[0], "waypoint"): [7.0]}
    found |= {(data, "por-sparse"): [9.0] for data in mazes}  # in the folder, but not a method of the table
    lines = readme_table.table(found).splitlines()[2:]
    assert lines[0] == f"| {mazes[0]} | 3.0 (1.0 to 6.0) | - | - | - | 10.0* | 5.0* DT |"
    assert lines[1] == f"| {mazes[1]} | 3.0 (1.0 to 6.0) | - | - | - | 10.0* | - |"
    assert lines[6] == f"| {bodies[0]} | 7.0* | - | - | - | - | - |"
    assert len(lines) == 8
    assert lines[7].startswith("| **mean of the 6 AntMaze sets** | **3.0 (1.0 to 6.0)** | **-** | **-** | **-** |")
    assert lines[7].endswith("| **10.0** | **-** |")
    found[mazes[1], "waypoint"] = [12.0, 2.0]  # the third seed is missing; of the first two the means are 17/6 and 2
    assert "| **3.7 (2.0 to 2.8)** |" in readme_table.table(found).splitlines()[-1]
    found |= {(data, name): [each] for data in mazes for name, each in (("bc10", 4.0), ("dt", 5.0))}
    assert readme_table.table(found).splitlines()[-1].endswith("**10.0** | **5.0 DT** |")


def test_its_speeds_are_those_of_the_benchmarks() -> None:
    measured = (ROOT / "benchmarks" / "README.md").read_text()

    def factor(name: str) -> str:
        return re.findall(rf"^\| `{name}` \| ([\d.]+)", measured, re.MULTILINE)[0]

    assert row("one POR update, against eager PyTorch")[1] == factor("por_vs_torch")
    assert row("the same, against `torch.compile`")[1] == factor("por_vs_torch_compile")
    others = [factor(f"{name}_vs_d3rlpy") for name in ("iql", "td3bc", "bc", "cql")]
    assert row("one update of IQL, TD3+BC, BC, CQL, against d3rlpy 2.8.1")[1] == ", ".join(others)
    assert row("100 ants in a maze, as a batch against one after the other")[1] == factor("ant_evaluation_speedup")
