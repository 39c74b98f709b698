"""From a run to its page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import waypost
from waypost.agents.por import Config
from waypost.recording import four_rooms
from waypost.report.run import field_docs, worlds, write_report

TINY = {"value_hidden": (8,), "guide_hidden": (8,), "executor_hidden": (8,), "batch_size": 8, "steps": 20}
PROTOCOL = waypost.Protocol(every=10, episodes=2)


@pytest.fixture(scope="module")
def run() -> waypost.Run:
    return waypost.train("por", four_rooms.record("four-rooms-key", 500), evaluation=PROTOCOL, **TINY)


def test_maps_show_what_the_agent_says(run: waypost.Run) -> None:
    maps = worlds(run.policy, waypost.task("four-rooms-key"), waypost.Protocol(episodes=3, seed=1))
    assert [words for words, _ in maps] == ["Without the key", "With the key"]
    for key, (_, world) in enumerate(maps):
        row, column = 20, 25
        place = [world.grid_x[column], world.grid_y[row], key]
        assert world.value[row, column] == pytest.approx(run.policy.value(place), rel=1e-4)
        state = np.array([*world.arrow_points[7], key])
        assert world.arrow_targets[7] == pytest.approx(run.policy.guide(state)[:2], rel=1e-4)
        assert np.isnan(world.value[0]).all()
    assert [len(world.rollouts) for _, world in maps] == [3, 0]


@pytest.mark.slow
def test_a_page_for_agents_of_every_kind(run: waypost.Run, tmp_path: Path) -> None:
    bc = waypost.train("bc", "t-maze", steps=10, hidden=(4,), evaluation=PROTOCOL)
    guide = waypost.train("por", waypost.load("t-maze").without_actions(), training="guide", **TINY)
    for number, each in enumerate((run, bc, guide)):
        page = write_report(each, tmp_path / f"{number}.html").read_text()
        assert each.plan.data in page
        assert "</html>" in page


@pytest.mark.slow
def test_a_page_for_discrete_actions(tmp_path: Path) -> None:
    rows = np.arange(40)
    states = np.random.default_rng(0).normal(size=(40, 4))
    data = waypost.load({"obs": states, "action": rows % 2, "reward": np.ones(40), "terminal": rows % 10 == 9})
    each = waypost.train("por", data, env="CartPole-v1", evaluation=PROTOCOL, **TINY)
    page = write_report(each, tmp_path / "page.html").read_text()
    assert "CartPole-v1" in page
    assert "</html>" in page


def test_every_field_has_its_line() -> None:
    docs = field_docs(Config)
    assert set(docs) == set(Config.__dataclass_fields__)
    assert docs["discount"] == "Gamma."
