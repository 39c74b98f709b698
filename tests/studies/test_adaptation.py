"""A run taught a new task: only V and guide learn, and the executor still gets there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
from samples import TINY

import waypost
from waypost.cli import main
from waypost.errors import WaypostError
from waypost.training.policy import Policy

WEST = """
import numpy as np
import waypost

def west(observations, actions, next_observations):
    arrived = next_observations[:, 0] < -3.5
    return waypost.Labels(arrived.astype(np.float32), arrived)

def broken(observations, actions, next_observations):
    return waypost.Labels(observations["x"], None)

nothing = 3
"""


@pytest.fixture
def reward(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(WEST)
    return str(tmp_path / "mine.py")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adaptation") / "run"
    waypost.train("por", "t-maze", steps=4, env="none", out=folder, **TINY)
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A run of each test's own."""
    return shutil.copytree(trained, tmp_path / "run")


def leaves(tree: object) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def same(one: object, other: object) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(leaves(one), leaves(other), strict=True))


@pytest.mark.slow
@pytest.mark.learns
def test_a_new_reward_turns_the_guide_round_and_leaves_the_executor(tmp_path: Path, reward: str) -> None:
    """West of the junction the way to the old goal leads east, the way to the new one west."""
    first = waypost.train("por", "t-maze", steps=2_500, env="none", rewards="goal", out=tmp_path / "first")
    adapted = waypost.adapt(tmp_path / "first", reward=f"{reward}:west", out=tmp_path / "second")
    place = np.array([-2.0, 0.0], np.float32)
    assert first.policy.guide(place)[0] > -2.0
    assert adapted.run.policy.guide(place)[0] < -2.0
    assert adapted.run.policy.act(place)[0] < 0 < first.policy.act(place)[0]
    assert same(adapted.run.policy.agent.executor, first.policy.agent.executor)  # type: ignore[attr-defined]
    assert adapted.run.plan.rewards == "goal"
    assert adapted.seconds_before == first.result["seconds"]
    # The saved one is whole: it acts by itself.
    assert np.array_equal(Policy.load(tmp_path / "second").act(place), adapted.run.policy.act(place))


def test_the_runs_settings_are_the_ground(run: Path, reward: str) -> None:
    adapted = waypost.adapt(run, reward=f"{reward}:west", tau=0.6, seeds=[4, 5])
    before, planned = waypost.load_run(run).plan, adapted.run.plan
    assert (planned.steps, planned.seeds) == (before.steps, (4, 5))
    assert planned.config.tau == 0.6
    assert planned.config.training == "guide"
    assert planned.config.value_hidden == before.config.value_hidden
    assert planned.task is None
    assert f"for {before.steps} updates" in adapted.words()


@pytest.mark.slow
def test_rewards_are_read_as_the_run_read_them_unless_the_task_is_another(tmp_path: Path) -> None:
    """As recorded, though the rooms' own task would take 1 from each."""
    waypost.train("por", "four-rooms", steps=2, env="none", rewards="recorded", out=tmp_path / "rooms", **TINY)
    conventions = [
        waypost.adapt(tmp_path / "rooms", data, env="none", steps=1).run.plan.rewards
        for data in (None, "four-rooms-river")
    ]
    assert conventions == ["recorded", "goal"]


def test_data_without_actions_make_the_same_guide(run: Path, tmp_path: Path) -> None:
    """To the last bit: neither V nor guide ever saw an action or the executor."""
    data = waypost.load("t-maze").without_actions()
    waypost.save(data, tmp_path / "seen.npz")
    adapted = waypost.adapt(run, tmp_path / "seen.npz", env="none")
    old = waypost.load_run(run).policy
    assert same(adapted.run.policy.agent.executor, old.agent.executor)  # type: ignore[attr-defined]
    assert same(adapted.run.policy.agent.guide_part, old.agent.guide_part)  # type: ignore[attr-defined]


def test_a_waypoint_run_keeps_its_executor_and_learns_another_guide(tmp_path: Path, reward: str) -> None:
    options = {**TINY, "horizon": 5, "action_noise": 0.5, "preset": "none"}
    first = waypost.train("waypoint", "t-maze", steps=4, env="none", out=tmp_path / "run", **options)
    adapted = waypost.adapt(tmp_path / "run", reward=f"{reward}:west", out=tmp_path / "new").run
    old, new = first.policy.agent, Policy.load(tmp_path / "new").agent
    assert same(new.executor, old.executor)  # type: ignore[attr-defined]
    assert not same(new.guide_part, old.guide_part)  # type: ignore[attr-defined]
    assert not same(new.value_part, old.value_part)  # type: ignore[attr-defined]
    assert adapted.plan.config.training == "guide"
    place = np.array([[-2.0, 0.0]], np.float32)
    assert adapted.policy.act_with_memory(place, adapted.policy.start(1))[0].shape == (1, 2)


def test_settings_are_the_run_s_unless_given(run: Path, tmp_path: Path) -> None:
    options = {**TINY, "horizon": 5, "preset": "none"}
    waypost.train("waypoint", "t-maze", steps=4, env="none", out=tmp_path / "other", **options)
    noisy = waypost.adapt(tmp_path / "other", env="none", steps=2, action_noise=0.5, tau=0.8).run
    assert (noisy.plan.config.action_noise, noisy.plan.config.tau, noisy.plan.config.horizon) == (0.5, 0.8, 5)
    assert noisy.policy.agent.remembers
    with pytest.raises(WaypostError, match=r"^por has no setting 'action_noise'"):
        waypost.adapt(run, env="none", action_noise=0.5)


@pytest.mark.slow
def test_an_executor_that_reads_fewer_columns_serves_a_task_that_has_more(tmp_path: Path) -> None:
    """With and without the key: V and guide see three numbers, the executor the two it knows."""
    waypost.train("por", "four-rooms", steps=4, env="none", rewards="goal", out=tmp_path / "rooms", **TINY)
    adapted = waypost.adapt(tmp_path / "rooms", "four-rooms-key", env="none", steps=3)
    assert adapted.run.plan.config.executor_inputs == (0, 1)
    assert adapted.run.policy.act(np.array([1.0, 1.0, 0.0], np.float32)).shape == (2,)


def test_the_command_line_says_what_it_cost(
    run: Path, reward: str, reports: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as done:
        main(["adapt", str(run), "--reward", f"{reward}:west", "--steps", "2", "--json"])
    assert done.value.code == 0
    written = capsys.readouterr()
    assert "the original training from scratch took" in written.err
    assert json.loads(written.out.splitlines()[-1])["seconds_before"] > 0
    assert (run.with_name("run-adapted") / "report.html").is_file()


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("{0}", "must be FILE.py:FUNCTION"),
        ("{0}:east", "has no function east"),
        ("{0}:nothing", "has no function nothing"),
        ("{0}:broken", "broken: failed on the data"),
        ("nowhere.py:west", "nowhere.py: cannot be imported"),
        ("no.such.module:west", "no.such.module: cannot be imported"),
    ],
)
def test_rewards_that_cannot_be_used_are_named(run: Path, reward: str, reference: str, words: str) -> None:
    with pytest.raises(waypost.WaypostError, match=words):
        waypost.adapt(run, reward=reference.format(reward), out=run.with_name("new"))
    assert not run.with_name("new").exists()


def test_runs_without_an_executor_are_refused(tmp_path: Path) -> None:
    waypost.train("bc", "t-maze", steps=2, env="none", hidden=(4,), out=tmp_path / "bc")
    with pytest.raises(waypost.WaypostError, match="has no executor to keep"):
        waypost.adapt(tmp_path / "bc")
