"""The page of a run without a simulator: the policy beside the log."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import TINY, walk

import waypost
from waypost.agents import ALGORITHMS
from waypost.data.dataset import Dataset
from waypost.report.log import Beside, log_section
from waypost.report.run import write_report
from waypost.training.plan import plan
from waypost.training.policy import Policy
from waypost.training.runs import Run
from waypost.training.shown import some_episodes

NAMES = {"observation_names": ("level [mm]", "flow"), "action_names": ("valve", "heater")}


@pytest.fixture(scope="module")
def data() -> Dataset:
    return walk(rows=240)


def untrained(algorithm: str, data: Dataset, **settings: Any) -> Policy:
    chosen, config = ALGORITHMS[algorithm].load(), ALGORITHMS[algorithm].config_type(**settings)
    _, spec = chosen.prepare(config, data)
    return Policy(algorithm, config, spec, chosen.build(config, spec))


@pytest.fixture(scope="module")
def beside(data: Dataset) -> Beside:
    return Beside(untrained("por", data, **TINY), some_episodes(data, True, 2.0))


def test_distances_are_those_of_the_policys_actions(beside: Beside, data: Dataset) -> None:
    actions = data.require("actions").astype(np.float64)
    apart = np.abs(beside.policy.act(data.observations) - actions)
    for row, distance, spread in zip(beside.errors(), apart.mean(axis=0), actions.std(axis=0), strict=True):
        assert row[1:] == [f"{distance:.3g}", f"{spread:.3g}", f"{distance / spread:.2g}"]
    assert "240 rows of 20 held-out episodes" in beside.words()


def test_values_are_in_units_of_the_recorded_rewards(beside: Beside, data: Dataset) -> None:
    assert beside.value == pytest.approx(beside.policy.value(data.observations) / 2, rel=1e-5)
    assert beside.earned is not None
    assert beside.earned[-1] == pytest.approx(data.require("rewards")[-1] / 2)
    assert beside.expected_header()[2] == "V expects"


def test_rows_are_told_apart_by_how_far_the_policy_departs(beside: Beside) -> None:
    near, middle, far = beside.expected()
    assert float(near[1]) < float(middle[1]) < float(far[1])
    third = np.argsort(beside.departure, kind="stable")[:80]
    assert beside.value is not None
    assert near[2] == f"{beside.value[third].mean():.4g}"
    assert len(near) == len(beside.expected_header()) == 5, "POR has V and a guide"


def test_axes_have_the_names_of_the_log(beside: Beside, data: Dataset) -> None:
    named = replace(beside.policy, spec=replace(beside.policy.spec, **NAMES))
    found = Beside(named, beside.shown)
    pictures = [*found.episodes(), found.trends()]
    assert len(pictures) == 4
    labels = [set(re.findall(r"<text[^>]*>([^<]*)</text>", str(each and each.image))) for each in pictures]
    for each in labels[:3]:
        assert {"valve", "heater", "return to go", "row of the episode"} <= each
    assert {"valve", "heater", "level [mm]", "flow"} <= labels[3]


def test_an_agent_without_values_says_nothing_of_them(data: Dataset) -> None:
    found = Beside(untrained("bc", data, hidden=(4,)), some_episodes(data, False, None))
    assert found.expected() == []
    assert "V expected" not in found.episodes()[0].caption
    assert "recorded episodes" in found.words()


def test_discrete_actions_differ_or_not() -> None:
    rows = np.arange(40)
    states = np.random.default_rng(0).normal(size=(40, 4))
    data = waypost.load({"obs": states, "action": rows % 2, "reward": np.ones(40), "terminal": rows % 10 == 9})
    found = Beside(untrained("bc", data, hidden=(4,)), some_episodes(data, False, None))
    same = np.mean(found.policy.act(data.observations) == rows % 2)
    assert f"differs from the recorded action in {1 - same:.0%} of them" in found.words()
    assert found.errors() == []
    assert found.trends() is not None


def test_what_cannot_be_compared_is_said(data: Dataset, tmp_path: Path) -> None:
    planned = plan("bc", tmp_path / "gone.npz", env="none", steps=1_000)
    section = log_section(Run(planned, {}, [untrained("bc", data, hidden=(4,))], [], []))
    assert section.words.startswith("The policy cannot be compared with recorded episodes: ")
    assert "gone.npz" in section.words
    early = log_section(Run(replace(planned, steps=99), {}, [], [], []))
    assert early.words == "The policy is not compared with the log: it has fewer than 100 updates."


def test_the_whole_page_of_data_in_memory(data: Dataset, tmp_path: Path) -> None:
    """Such data cannot be read again: the run brings what is shown."""
    asked: dict[str, Any] = {"steps": 120, "log_every": 40, "hold_out": 0.25, "stop_early": "held_out_policy_loss"}
    run = waypost.train("bc", data, hidden=(4,), learning_rate=10.0, patience=1, **asked)
    page = write_report(run, tmp_path / "page.html").read_text()
    for words in (
        "A good episode",
        "Compared with the log",
        "on held-out rows",
        "waypost judge RUN",
        "Stopped at step 80 of 120",
    ):
        assert words in page
    rows = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    cells = [re.findall(r"<td>(.*?)</td>", row) for row in rows]
    assert not [row for row in cells if len(row) > 1 and set(row) == {"\N{EN DASH}"}]
    assert "no rollouts, 1\N{NO-BREAK SPACE}seed, 80" in page
