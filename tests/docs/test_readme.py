"""The README is short, its links lead somewhere, and its numbers are those of the files they come from."""

from __future__ import annotations

import csv
import re
from statistics import mean

from pages import ROOT, script

generated = script(ROOT / "docs" / "_ext" / "generated.py")
TEXT = (ROOT / "README.md").read_text()


def row(name: str) -> list[str]:
    (line,) = (line for line in TEXT.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_it_is_short() -> None:
    assert len(TEXT.splitlines()) < 100


def test_its_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", TEXT)
    assert len(links) > 15
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_its_results_are_those_in_the_results_folder() -> None:
    found = generated.scores(ROOT / "results" / "table1")

    def cell(data: str, algorithm: str) -> str:
        values = found.get((data, algorithm), [])
        few = "" if len(values) == 3 else f" ({len(values)})"
        return f"{mean(values):.1f}{few}" if values else "-"

    shown = re.findall(r"^\| ([a-z0-9]+-[a-z-]+) \|", TEXT, re.MULTILINE)
    assert len(shown) == 7
    for data in shown:
        assert row(data)[1:] == [cell(data, name) for name in ("waypoint", "por", "iql", "td3bc", "bc")]
    with (ROOT / "results" / "rooms" / "four-rooms" / "waypoint.csv").open() as file:
        later = [float(line["score"]) for line in csv.DictReader(file) if line["step"] == "10000"]
    assert later == [100.0] * 3


def test_its_speeds_are_those_of_the_benchmarks() -> None:
    measured = (ROOT / "benchmarks" / "README.md").read_text()

    def factor(name: str) -> str:
        return re.findall(rf"^\| `{name}` \| ([\d.]+)", measured, re.MULTILINE)[0]

    assert row("one POR update, against eager PyTorch")[1] == factor("por_vs_torch")
    assert row("the same, against `torch.compile`")[1] == factor("por_vs_torch_compile")
    others = [factor(f"{name}_vs_d3rlpy") for name in ("iql", "td3bc", "bc", "cql")]
    assert row("one update of IQL, TD3+BC, BC, CQL, against d3rlpy 2.8.1")[1] == ", ".join(others)
    assert row("100 ants in a maze, as a batch against one after the other")[1] == factor("ant_evaluation_speedup")
