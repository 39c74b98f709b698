"""What the site takes from the code: nothing is left out, and it is readable."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest
from pages import ROOT, script

import waypost
from waypost.agents import ALGORITHMS
from waypost.cli.options import COMMANDS

generated = script(ROOT / "docs" / "_ext" / "generated.py")
docstrings = script(ROOT / "docs" / "_ext" / "docstrings.py")


def test_every_public_name_is_in_the_api() -> None:
    text = generated.api()
    assert all(f":: waypost.{name}\n" in text for name in waypost.__all__)


def test_every_option_of_every_command_is_listed() -> None:
    text = generated.commands()
    for command in ("train", *COMMANDS):
        assert f"## `waypost {command}`" in text
    for option in ("--hold-out FLOAT", "--columns.episode STR", "--history INT", "--read-only, --no-read-only"):
        assert f"\n`{option}`\n: " in text
    assert "`--tau FLOAT`\n: Expectile of V; by default the run's." in text  # of adapt
    assert "`--members INT`\n: Evaluators per policy, each on its own bootstrap of the episodes. (default: 8)" in text
    assert "Expectile in (3)" not in text  # settings have a page of their own


def test_every_setting_of_every_algorithm_is_described() -> None:
    parts = dict(zip(ALGORITHMS, generated.settings().split("## `")[1:], strict=True))
    for name, entry in ALGORITHMS.items():
        for each in fields(entry.config_type):
            head = parts[name].split(f"\n`{each.name}`: ")[1]
            assert len(head.split("\n: ")[1].split("\n")[0]) > 3, f"{name}: {each.name}"
    assert "`target_rate`: number, default `0.05`" in parts["por"]
    assert "`value_objective`: `expectile` or `sparse`, default `expectile`" in parts["por"]
    assert "Presets: `standardise` in `four-rooms`" in parts["por"]


def test_links_out_of_the_docs_lead_to_the_repository() -> None:
    text = "[a](../benchmarks/README.md#data) [b](../nowhere.md) [c](data.md) [d](../docs/data.md)"
    found = generated.outward(text, ROOT / "docs")
    there = f"{generated.REPOSITORY}/blob/main/benchmarks/README.md"
    assert found == f"[a]({there}#data) [b](../nowhere.md) [c](data.md) [d](../docs/data.md)"


def test_results_are_made_of_the_files(tmp_path: Path) -> None:
    place = tmp_path / "hopper-medium" / "bc"
    place.mkdir(parents=True)
    for seed, score in ((0, 10.0), (1, 20.0), (10, 33.0)):
        (place / f"{seed}.json").write_text(json.dumps({"final": {"score": score}}))
    (place / "2.json").write_text(json.dumps({"note": "diverged"}))
    other = tmp_path / "antmaze-umaze" / "por" / "0.json"
    other.parent.mkdir(parents=True)
    other.write_text(json.dumps({"final": {"score": 5.0}}))
    bc, por = ("hopper-medium", "bc"), ("antmaze-umaze", "por")
    assert generated.scores(tmp_path) == {bc: [10.0, 20.0, 33.0], por: [5.0]}
    table = generated.fill(f"Before\n{{{{ results {tmp_path} }}}}\nAfter")
    assert "| data | POR | BC |\n" in table
    # The rows are in the order of the paper.
    assert "\n| antmaze-umaze | 5.0* | - |\n| hopper-medium | - | 21.0 (10.0&nbsp;to&nbsp;33.0) |\nAfter" in table
    assert "\n| hopper-medium | 21.0 (10.0 to 33.0) | 10.0, 20.0, 33.0 |" in generated.results(str(tmp_path), "bc")
    assert "hopper" not in generated.results(str(tmp_path), "por")


def test_curves_are_those_of_the_files(tmp_path: Path) -> None:
    for name, scores in (("por", (1.0, 2.0, 3.0, 4.0)), ("iql", (5.0, 6.0, 7.0, 8.0))):
        for seed in (0, 1):
            file = tmp_path / "antmaze-umaze" / name / f"{seed}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            evaluations = [{"score": score + 10 * seed} for score in scores]
            file.write_text(json.dumps({"final": {"score": 0.0}, "evaluations": evaluations}))
    alone = tmp_path / "hopper-medium" / "por" / "0.json"
    alone.parent.mkdir(parents=True)
    alone.write_text(file.read_text())
    *_, last = generated.curves(str(tmp_path)).splitlines()
    assert last == "| antmaze-umaze | 7.0 | 9.0 | 11.0 | 13.0 | 90.6 | 87.5 |"


def test_arrivals_are_those_of_the_rooms() -> None:
    table = generated.arrivals("results/rooms")
    assert "| four-rooms | 48, 94, 96 |" in table
    assert "15 000" in table.splitlines()[0]


@pytest.mark.parametrize(
    ("plain", "marked"),
    [
        (["Say `a*b` and c_d*."], ["Say ``a*b``\\  and c\\_d\\*.", ""]),
        (["name  what `it` is", "      and more"], ["``name``", "   what ``it``\\  is", "   and more", ""]),
        (
            ["Text.", "a, b    two of them", "A sentence."],
            ["Text.", "", "``a, b``", "   two of them", "", "A sentence.", ""],
        ),
        (["    code_of(*mine)"], ["::", "", "    code_of(*mine)", ""]),
        (["- one `x`", "  goes on"], ["- one ``x``\\ ", "  goes on", ""]),
    ],
)
def test_docstrings_become_markup(plain: list[str], marked: list[str]) -> None:
    assert docstrings.to_rst(plain) == marked
