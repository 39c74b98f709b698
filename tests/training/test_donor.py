"""A training that continues from another run's weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from samples import TINY, walk

import waypost
from waypost.data.dataset import concatenate
from waypost.errors import WaypostError

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


def test_learning_goes_on_from_there(old: Path, tmp_path: Path) -> None:
    first = waypost.load_run(old / "run")
    run = waypost.train("bc", more(), init=old / "run", out=tmp_path / "new", **SMALL)
    assert not same(run.policy.agent, first.policy.agent)
    assert 0.0 < run.result["warm_start"]["changed"] < 1.0
    scratch = waypost.train("bc", more(), **SMALL)
    assert run.metrics[0]["policy_loss"] != scratch.metrics[0]["policy_loss"]
    loaded = waypost.load_run(tmp_path / "new")
    assert loaded.result["warm_start"] == run.result["warm_start"]
    assert np.array_equal(loaded.policy.act([0.1, 0.2]), run.policy.act([0.1, 0.2]))


def test_joint_training_of_por_continues_with_all_parts(tmp_path: Path) -> None:
    waypost.save(walk(), tmp_path / "log.npz")
    options: dict[str, Any] = {**TINY, "preset": "none", "steps": 10}
    before = waypost.train("por", tmp_path / "log.npz", out=tmp_path / "run", **options)
    run = waypost.train("por", walk(seed=1), init=tmp_path / "run", **STILL, **options)
    assert same(run.policy.agent, before.policy.agent)
    assert run.result["warm_start"]["changed"] == 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden": (9,)}, "was trained with hidden = (8,), asked for (9,)"),
        ({"observation_scaling": False}, "was trained with observation_scaling = True, asked for False"),
    ],
)
def test_other_settings_are_refused(change: dict[str, Any], message: str, old: Path) -> None:
    with pytest.raises(WaypostError) as caught:
        waypost.train("bc", walk(), init=old / "run", **{**SMALL, **change})
    assert message in str(caught.value)


def test_other_data_are_refused(old: Path) -> None:
    with pytest.raises(WaypostError, match="its observation_size is 2, that of walk is 3"):
        waypost.train("bc", walk(size=3), init=old / "run", **SMALL)


def test_a_policy_alone_is_not_enough(old: Path) -> None:
    with pytest.raises(WaypostError, match=r"no config\.json"):
        waypost.train("bc", walk(), init=old / "run" / "policy", **SMALL)


def test_old_data_that_are_gone_are_mentioned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    waypost.train("bc", walk(), out=tmp_path / "run", **SMALL)
    run = waypost.train("bc", walk(), init=tmp_path / "run", **SMALL)
    assert run.result["warm_start"] == {"run": str(tmp_path / "run")}
    assert "the old data cannot be read again" in caplog.text
