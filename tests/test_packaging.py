"""What goes with the package says the same as the package."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_the_citation_and_the_changelog_know_the_version() -> None:
    [cited] = re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    newest = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    assert cited == newest == PROJECT["version"]


@pytest.mark.parametrize("file", ["CITATION.cff", "SECURITY.md", ".github/ISSUE_TEMPLATE/config.yml"])
def test_the_repository_has_one_address(file: str) -> None:
    addresses = re.findall(r"https://github\.com/[\w-]+/[\w-]+", (ROOT / file).read_text())
    assert set(addresses) == {PROJECT["urls"]["Repository"]}


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.stem)
def test_a_workflow_uses_versions_and_little_permission(workflow: Path) -> None:
    text = workflow.read_text()
    for action in re.findall(r"uses: (\S+)", text):
        assert action.startswith("./") or re.search(r"@(v\d+|release/v\d+)$", action), action
    assert re.search(r"^permissions:( \{\}|\n  contents: read)$", text, re.MULTILINE)
    assert "secrets." not in text
