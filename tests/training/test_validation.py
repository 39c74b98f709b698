"""Held-out episodes: the losses on them, and the agents that were best by these."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from samples import walk

import waypost
from waypost.agents.bc import BC, Config
from waypost.data.dataset import Dataset
from waypost.errors import InterruptedRun, WaypostError
from waypost.training.callbacks import Callback
from waypost.training.loop import Learner
from waypost.training.validation import HeldOut, Stalled, best_rows

OPTIONS: dict[str, Any] = {"hidden": (8,), "batch_size": 16, "learning_rate": 0.05}


@pytest.fixture(scope="module")
def data() -> Dataset:
    return walk(rows=240)


@pytest.fixture(scope="module")
def run(data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> waypost.Run:
    held = {"hold_out": 0.25, "keep_best": "held_out_policy_loss"}
    place = tmp_path_factory.mktemp("held") / "run"
    return waypost.train("bc", data, out=place, steps=60, log_every=5, seeds=2, **held, **OPTIONS)


def test_losses_are_those_of_the_agents_on_rows_they_never_saw(data: Dataset) -> None:
    config = Config(**OPTIONS)
    learned, held = data.split(0.25)
    arrays, spec = BC.prepare(config, learned)
    algorithm = BC(config, spec, 10)
    learner = Learner(algorithm, arrays, (0, 1))
    columns = BC.prepare(config, held)[0]
    validation = HeldOut(algorithm, columns)
    before = [np.array(leaf) for leaf in jax.tree.leaves(learner.states[0])]
    found = validation.measure(algorithm.stages[0], learner)
    assert list(found) == ["held_out_policy_loss"] == validation.names(["policy_loss", "value"])
    for seed, state in enumerate(learner.states):
        agent, rows = state.agent, validation._rows.ravel()
        states, actions = agent.scaling(columns["observations"]), agent.actions.scale(columns["actions"])
        expected = -np.asarray(agent.policy.log_likelihood(states, actions))[rows].mean()
        assert found["held_out_policy_loss"][seed] == pytest.approx(expected, rel=1e-4)
    after = jax.tree.leaves(learner.states[0])
    assert all((one == other).all() for one, other in zip(before, after, strict=True))


def test_a_run_logs_them_and_learns_from_the_rest_alone(run: waypost.Run, data: Dataset) -> None:
    losses = [row["held_out_policy_loss"] for row in run.metrics if row["seed"] == 0]
    assert len(losses) == 12
    assert np.isfinite(losses).all()
    rest = waypost.train("bc", data.split(0.25)[0], steps=60, log_every=5, seeds=2, **OPTIONS)
    for one, other in zip(run.policies, rest.policies, strict=True):
        for leaf, same in zip(jax.tree.leaves(one.agent), jax.tree.leaves(other.agent), strict=True):
            np.testing.assert_array_equal(leaf, same)
    assert run.directory is not None
    assert "held_out_policy_loss" in (run.directory / "metrics.csv").read_text().splitlines()[0]


def test_the_best_agents_are_kept_beside_the_last(run: waypost.Run, data: Dataset) -> None:
    assert run.directory is not None
    best = best_rows(run.metrics, "held_out_policy_loss")
    assert run.result["best"] == [
        {name: row[name] for name in ("seed", "step", "held_out_policy_loss")} for row in best
    ]
    assert waypost.load_run(run.directory).result["best"] == run.result["best"]
    for row in best:
        kept = waypost.Policy.load(run.directory / "best", row["seed"])
        again = waypost.train("bc", data.split(0.25)[0], steps=60, log_every=5, seeds=[row["seed"]], **OPTIONS)
        same = kept.act(data.observations) == again.policy.act(data.observations)
        assert same.all() == (row["step"] == 60)


def test_the_lowest_row_of_each_seed_is_found() -> None:
    rows = [
        {"seed": seed, "step": step, "x": x} for seed, step, x in ((0, 1, 3.0), (1, 1, None), (0, 2, 2.0), (0, 3, 2.0))
    ]
    assert best_rows(rows, "x") == [rows[2]]
    assert best_rows(rows, "y") == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hold_out": 1.0}, r"hold_out must be in \[0, 1\), got 1"),
        ({"hold_out": 0.99}, "cannot be split"),
        ({"hold_out": 0.1, "stream": "always"}, "cannot be split; hold out a file of its own"),
        ({"keep_best": "policy_loss"}, "keep_best needs a run directory"),
        ({"stop_early": "held_out_policy_loss"}, "stop_early needs held-out episodes; .* --hold-out 0.1"),
        (
            {"stop_early": "policy_loss", "hold_out": 0.25},
            "stop_early must be a held-out loss, one of held_out_policy_loss; got 'policy_loss'",
        ),
        ({"patience": 0}, "patience must be 1 or more, got 0"),
        ({"keep_best": "no_such", "out": "run"}, "must be a column of metrics.csv, one of policy_loss; got 'no_such'"),
    ],
)
def test_what_cannot_be_held_out_is_refused(
    options: dict[str, Any], message: str, data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WaypostError, match=message):
        waypost.train("bc", data, steps=2, **options, **OPTIONS)
    assert not (tmp_path / "run").exists()


def test_early_stopping_can_watch_them(data: Dataset) -> None:
    stop = waypost.EarlyStopping("held_out_policy_loss", 1, better="lower", least=1e6)
    run = waypost.train("bc", data, steps=20, log_every=5, hold_out=0.25, callbacks=[stop], **OPTIONS)
    assert run.result["stopped"]["step"] == 10


STALLED: dict[str, Any] = {"steps": 60, "log_every": 5, "seeds": 2, "hold_out": 0.25, **OPTIONS}


def first_stall(run: waypost.Run, patience: int) -> int:
    """The step at which the mean of the held-out losses had not fallen so many rows in a row."""
    losses = [row["held_out_policy_loss"] for row in run.metrics]
    means = [sum(pair) / 2 for pair in zip(losses[::2], losses[1::2], strict=True)]
    rows = range(patience, len(means))
    return 5 + 5 * next(
        row for row in rows if min(means[row - patience + 1 : row + 1]) >= min(means[: row - patience + 1])
    )


def test_a_training_stops_early_where_a_held_out_loss_no_longer_falls(run: waypost.Run, data: Dataset) -> None:
    step = first_stall(run, 2)
    assert 15 <= step < 60
    stopped = waypost.train("bc", data, stop_early="held_out_policy_loss", patience=2, **STALLED)
    assert stopped.result["stopped"]["step"] == step == stopped.metrics[-1]["step"]
    assert "held_out_policy_loss was best at step" in stopped.result["stopped"]["reason"]
    assert "2 rows without a better one" in stopped.result["stopped"]["reason"]


def test_a_resumed_training_stops_where_an_uninterrupted_one_does(
    run: waypost.Run, data: Dataset, tmp_path: Path
) -> None:
    step, out = first_stall(run, 2), tmp_path / "run"

    class Interrupt(Callback):
        def advance(self, stage: str, step_now: int) -> None:
            if step_now == step - 5:
                signal.raise_signal(signal.SIGINT)

    asked: dict[str, Any] = {"stop_early": "held_out_policy_loss", "patience": 2, "out": out, **STALLED}
    with pytest.raises(InterruptedRun):
        waypost.train("bc", data, callbacks=[Interrupt()], **asked)
    resumed = waypost.train("bc", data, resume=True, **asked)
    assert resumed.result["stopped"]["step"] == step
    # Stopped, but its result not yet written: it must not learn on.
    (out / "result.json").unlink()
    assert waypost.train("bc", data, resume=True, **asked).result["stopped"] == resumed.result["stopped"]


def test_only_the_last_stage_counts() -> None:
    stalled = Stalled("held_out_q_loss", 1, "policy", ["held_out_q_loss"])
    for step, stage, loss in ((1, "value", 1.0), (2, "value", 2.0), (3, "policy", 5.0), (4, "policy", 4.0)):
        stalled.logged(step, [{"stage": stage, "held_out_q_loss": loss}])
        assert not stalled.wants_stop()
    stalled.logged(5, [{"stage": "policy", "held_out_q_loss": 4.0}])
    assert stalled.wants_stop() == "held_out_q_loss was best at step 4, 4; 1 row without a better one"


def test_too_few_to_be_judged_by_are_mentioned(data: Dataset, caplog: pytest.LogCaptureFixture) -> None:
    few = data.keep(data.episode_of < 20)
    waypost.train("bc", few, steps=2, hold_out=0.1, progress=False, **OPTIONS)
    assert "only 2 episodes are held out; `waypost judge` needs 5" in caplog.text
