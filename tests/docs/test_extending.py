"""The algorithm of docs/extending.md works as the page says."""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import fields
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import waypost
from waypost.agents import ALGORITHMS, Entry
from waypost.envs.tasks import Protocol

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def awr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The algorithm of docs/extending.md, as the page says it is to be added."""
    (code,) = blocks("extending.md", "python")
    file = tmp_path / "awr.py"
    file.write_text(code)
    spec = spec_from_file_location("awr", file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "awr", module)
    spec.loader.exec_module(module)
    monkeypatch.setitem(ALGORITHMS, "awr", Entry("awr", "advantage-weighted regression", "awr:AWR", discrete=True))
    return module


def test_the_worked_example_trains_resumes_and_acts(awr: ModuleType, tmp_path: Path) -> None:
    options = {"steps": 60, "seeds": 2, "hidden": (16,), "evaluation": Protocol(every=30, episodes=2)}
    run = waypost.train("awr", "t-maze", out=tmp_path / "run", **options)
    assert [row["step"] for row in run.evaluations] == [30, 30, 60, 60]
    assert "Largest weight a row can get." in (tmp_path / "run" / "report.html").read_text()
    loaded = waypost.Policy.load(tmp_path / "run")
    places = waypost.load("t-maze").observations[:5]
    assert np.array_equal(loaded.act(places), run.policy.act(places))
    assert np.array_equal(loaded.value(places), run.policy.value(places))
    assert waypost.export(tmp_path / "run", tmp_path / "exported.npz")["difference"] <= 1e-5
    alone = waypost.train("awr", "t-maze", **{**options, "seeds": [1]})
    assert np.allclose(alone.policy.act(places), run.policies[1].act(places), atol=1e-5)


def test_the_worked_example_learns_what_followed_and_prefers_the_better_action(awr: ModuleType) -> None:
    """One state, two actions; the second pays 1 at the next step."""
    rows = 200
    taken = np.tile([0.0, 1.0], rows // 2)[:, None]
    data = waypost.Dataset.from_arrays(
        np.zeros((2 * rows, 1)) + np.tile([0.0, 1.0], rows)[:, None],
        np.zeros((2 * rows, 1)) + np.tile([1.0, 2.0], rows)[:, None],
        np.repeat(taken, 2, axis=0),
        np.where(np.arange(2 * rows) % 2, np.repeat(taken[:, 0], 2), 0.0),
        np.arange(2 * rows) % 2,
    )
    run = waypost.train(
        "awr", data, steps=600, hidden=(32,), learning_rate=1e-2, inverse_temperature=8.0, discount=0.5, env="none"
    )
    assert run.policy.value([0.0]) == pytest.approx(0.25, abs=0.05)
    assert run.policy.act([0.0])[0] > 0.9


def test_the_worked_examples_preset_names_fields_it_has(awr: ModuleType) -> None:
    (text,) = blocks("extending.md", "toml")
    known = {each.name for each in fields(awr.Config)} | {"steps"}
    for table in tomllib.loads(text).values():
        assert set(table) <= known
