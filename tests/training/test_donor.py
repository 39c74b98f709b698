"""A training that continues from another run's weights."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from samples import TINY, walk

import waypost
from waypost.agents.agent import Spec
from waypost.cli import main
from waypost.data.joining import concatenate
from waypost.errors import WaypostError
from waypost.training import donor
from waypost.training.plan import plan, read_plan

STILL = {f"{part}_learning_rate": 0.0 for part in ("value", "guide", "executor")}
SMALL: dict[str, Any] = {"hidden": (8,), "batch_size": 16, "steps": 20, "preset": "none"}


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of behaviour cloning whose data lie beside it."""
    folder = tmp_path_factory.mktemp("old")
    waypost.save(walk(), folder / "old.npz")
    waypost.train("bc", folder / "old.npz", out=folder / "run", seeds=2, **SMALL)
    return folder


def more() -> waypost.Dataset:
    """The old data and new ones that lie elsewhere."""
    added = walk(seed=1)
    moved = waypost.Dataset.from_arrays(
        added.observations + 5.0, actions=added.actions, rewards=added.rewards, action_low=[-2, -2], action_high=[2, 2]
    )
    return concatenate([walk(), moved], "both")


def same(one: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))


def test_without_a_step_size_nothing_changes(old: Path) -> None:
    """Also the scaling and the bounds stay: the networks know numbers that were scaled by them."""
    before = waypost.load_run(old / "run")
    run = waypost.train("bc", more(), init=old / "run", seeds=[0, 7], learning_rate=0.0, **SMALL)
    assert same(run.policy.agent, before.policy.agent)
    assert same(run.policies[1].agent, before.policy.agent), "a seed the old run does not have begins with its first"
    assert run.policy.spec.statistics == before.policy.spec.statistics
    assert run.policy.spec.observation_high[0] > 4.0
    check = run.result["warm_start"]
    assert check["rows"] == 60
    assert check["changed"] == 0.0
    assert check["error"] == check["error_before"] > 0.0


def test_settings_are_those_of_the_run_and_updates_a_fifth(old: Path) -> None:
    planned = plan("bc", walk(), init=old / "run")
    assert (planned.config.hidden, planned.config.batch_size, planned.steps) == ((8,), 16, 4)
    assert plan("bc", walk(), init=old / "run", steps=7, batch_size=4).config.batch_size == 4
    assert plan("bc", walk(), init=old / "run", preset="none").config.hidden == (256, 256)


def test_phases_keep_their_shares(tmp_path: Path) -> None:
    """Otherwise a warm-up could take all of the updates that follow."""
    options: dict[str, Any] = {"critic_hidden": (8,), "policy_hidden": (8,), "batch_size": 8, "preset": "none"}
    waypost.train("cql", walk(), out=tmp_path / "run", steps=40, cloning_steps=11, env="none", **options)
    planned = plan("cql", walk(), init=tmp_path / "run")
    assert (planned.steps, planned.config.cloning_steps) == (8, 3)
    assert plan("cql", walk(), init=tmp_path / "run", cloning_steps=0).config.cloning_steps == 0


def test_a_command_learns_on_from_there(old: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    line = ["train", "bc", "--data", old / "old.npz", "--init", old / "run", "--out", tmp_path / "new"]
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in line])
    assert stop.value.code == 0
    assert "on 60 rows" in capfd.readouterr().err
    assert read_plan(tmp_path / "new") == plan("bc", old / "old.npz", init=old / "run")
    before, run = waypost.load_run(old / "run"), waypost.load_run(tmp_path / "new")
    assert not same(run.policy.agent, before.policy.agent)
    assert 0.0 < run.result["warm_start"]["changed"] < 0.1, "a few updates leave it near to where it was"


@pytest.mark.parametrize("name", ["por", "waypoint"])
def test_joint_training_continues_with_all_parts(name: str, tmp_path: Path) -> None:
    waypost.save(walk(), tmp_path / "log.npz")
    options: dict[str, Any] = {**TINY, "preset": "none", "steps": 10}
    before = waypost.train(name, tmp_path / "log.npz", out=tmp_path / "run", **options)
    run = waypost.train(name, walk(seed=1), init=tmp_path / "run", **STILL, **options)
    assert same(run.policy.agent, before.policy.agent)
    assert run.result["warm_start"]["changed"] == 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden": (9,)}, "was trained with hidden = (8,), got (9,)"),
        ({"observation_scaling": False}, "was trained with observation_scaling = True, got False"),
    ],
)
def test_other_settings_are_refused(change: dict[str, Any], message: str, old: Path) -> None:
    with pytest.raises(WaypostError) as caught:
        waypost.train("bc", walk(), init=old / "run", **{**SMALL, **change})
    assert message in str(caught.value)


def test_other_data_are_refused(old: Path) -> None:
    with pytest.raises(WaypostError, match="its observation_size is 2, but walk has 3"):
        waypost.train("bc", walk(size=3), init=old / "run", **SMALL)


def test_a_policy_alone_is_not_enough(old: Path) -> None:
    with pytest.raises(WaypostError, match=r"no config\.json"):
        waypost.train("bc", walk(), init=old / "run" / "policy", **SMALL)


def test_old_data_that_are_gone_are_mentioned(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: Any, **__: Any) -> None:
        raise WaypostError("old.npz: no such file")

    monkeypatch.setattr(donor, "obtain", gone)
    notes: list[str] = []
    found = donor.kept_behaviour(plan("bc", walk(), init=old / "run"), waypost.Policy.load(old / "run"), notes.append)
    assert found == {"run": str(old / "run")}
    assert notes[0].startswith("warning: the old behaviour is not checked")
    assert "no such file" in notes[0]


def test_policies_of_mixed_actions_differ_by_choices_and_by_shares_of_ranges() -> None:
    spec = Spec(1, 2, (0.0, 0.0), (10.0, 100.0), action_choices=(("0", "1", "10"), ()))
    one, other = np.array([[0.0, 0.0], [1.0, 50.0]]), np.array([[10.0, 0.0], [1.0, 100.0]])
    assert donor._apart(one, other, spec) == pytest.approx((1.0 + 0.5) / 4)


def test_a_run_with_other_choices_is_refused() -> None:
    few, many = (
        Spec(1, 2, (0.0, 0.0), (1.0, 9.0), action_choices=(words, ())) for words in (("a", "b"), ("a", "b", "c"))
    )
    before: Any = SimpleNamespace(spec=few, config=None)
    with pytest.raises(WaypostError, match=r"its action_choices is \(\('a', 'b'\), \(\)\), but t-maze has"):
        donor.inherited(many, before, True, plan("bc", "t-maze"))
