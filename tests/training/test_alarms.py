"""Alarms: trainings that must raise each of them, one that must raise none, and what becomes of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from samples import TINY, walk

from waypost.agents import brac
from waypost.agents.agent import Agent
from waypost.agents.por import Config
from waypost.data.dataset import Dataset
from waypost.errors import WaypostError
from waypost.report.run import write_report
from waypost.training import alarms
from waypost.training.alarms import Alarms, reach
from waypost.training.callbacks import Callback
from waypost.training.runs import load_run
from waypost.training.train import train


class Notes(Callback):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.alarms: list[Any] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def alarmed(self, alarm: Any) -> None:
        self.alarms.append(alarm)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alarms, "FIRST_STEP", 2)


def learn(algorithm: str, data: Dataset, **options: Any) -> dict[str, str]:
    """A training of a few updates: the texts of its alarms."""
    run = train(algorithm, data, **{"steps": 12, "log_every": 2, "preset": "none", **options})
    return {alarm["what"]: alarm["text"] for alarm in run.result["alarms"]}


def costly(cost: float) -> Dataset:
    return walk().with_rewards(np.full(60, -cost))


def narrow() -> Dataset:
    """Actions that use a hundredth of what they may."""
    data = walk()
    assert data.actions is not None
    return replace(data, actions=data.actions / 100)


def test_values_that_no_reward_explains() -> None:
    found = learn("iql", costly(1.0), hidden=(8,), value_learning_rate=3.0, steps=20)
    assert "but these rewards allow -100 to -1" in found["values"]
    assert "a smaller --value-learning-rate or --rewards standard with --preset default" in found["values"]


@pytest.mark.parametrize(
    ("penalty", "value", "helps"), [(True, -250.0, True), (True, 50.0, False), (False, -250.0, False)]
)
def test_values_below_what_rewards_allow_may_come_from_a_penalty(penalty: bool, value: float, helps: bool) -> None:
    watch = Alarms(brac.Config(value_penalty=penalty), costly(1.0), (-100.0, -1.0))
    (alarm,) = watch.look(1_000, [{"seed": 0, "stage": "value and policy", "value": value}])
    assert ("--no-value-penalty or a smaller --divergence-weight may help" in alarm["text"]) == helps
    assert ("a smaller --value-learning-rate" in alarm["text"]) != helps


@pytest.mark.parametrize(("name", "usual", "much"), [("value_loss", 0.01, 500.0), ("guide_loss", -3.0, 5000.0)])
def test_losses_that_explode(name: str, usual: float, much: float) -> None:
    def look(*losses: float) -> list[str]:
        watch = Alarms(Config(), costly(1.0), (-100.0, -1.0))
        rows = [{"seed": 0, "stage": "joint", name: loss} for loss in losses]
        return [alarm["text"] for row in rows for alarm in watch.look(1_000, [row])]

    (text,) = look(usual, 2 * usual, usual, much)
    assert text.startswith(f"{name} explodes: ")
    assert text.endswith("a smaller --value-learning-rate may help")
    # Not one that is large from the start, comes down, or is small whatever it was before.
    assert look(much, much, much, much, usual) == []
    assert look(usual, usual, usual, 50 * usual) == []
    assert look(1e-9, 1e-9, 1e-9, 1e-5) == []


@pytest.mark.parametrize(
    ("reward", "settings", "text"),
    [
        (1e3, {}, "most weights are at their cap of 100: every row counts the same; a smaller --inverse-temperature"),
        (
            -1e3,
            {},
            "weights are all near 0: almost nothing is learned; --rewards standard or --residuals",
        ),
        (1.0, {"inverse_temperature": 1e-6}, "weights are all near 1: rewards hardly matter"),
    ],
)
def test_weights_that_are_all_the_same(reward: float, settings: dict[str, Any], text: str) -> None:
    assert learn("por", costly(-reward), **TINY, **settings)["weights"].startswith(text)


def test_a_policy_far_from_the_recorded_actions(tmp_path: Path) -> None:
    notes, options = Notes(), {"hidden": (8,), "learning_rate": 5.0}
    found = learn("bc", narrow(), callback=notes, out=tmp_path / "run", **options)
    assert found["policy"].startswith("the policy is far from the recorded actions: ")
    assert "a smaller --learning-rate" in found["policy"]
    # Everybody hears of it once: who watches, the record and the page.
    (alarm,) = (each for each in notes.alarms if each["what"] == "policy")
    assert alarms.described(alarm) in notes.notes
    assert alarm in json.loads((tmp_path / "run" / "result.json").read_text())["alarms"]
    page = write_report(load_run(tmp_path / "run"), tmp_path / "report.html").read_text()
    assert "The policy is far from the recorded actions" in page
    with pytest.raises(WaypostError, match=r"alarm at step \d+, seed 0: .*--strict"):
        learn("bc", narrow(), strict=True, **options)


def test_a_training_as_it_should_be_raises_none() -> None:
    assert learn("por", walk(), preset="default", steps=60, log_every=10, **TINY) == {}


def test_the_smallest_and_the_largest_return_there_can_be() -> None:
    rewards = np.array([-1.0, -2.0, -50.0, -1.0])
    data = Dataset.from_arrays(np.zeros((4, 1)), None, None, rewards, np.array([0, 0, 1, 0]), np.array([0, 0, 0, 1]))
    assert reach(data, 0.9) == pytest.approx((-50.0, -10.0))
    assert reach(data.with_rewards(np.array([-1.0, -2.0, 0.5, -1.0])), 0.9) == pytest.approx((-20.0, 0.5))
    assert reach(data, 1.0) is None
    assert reach(data.without_rewards(), 0.9) is None


def test_an_error_on_held_out_data_that_rises_is_an_alarm_in_any_unit() -> None:
    for scale, offset in ((1.0, 0.0), (1e3, -1e4)):
        watch = Alarms(Config(), walk(), None)
        found = [watch.validated(i, 0, scale * error + offset) for i, error in enumerate((5, 3, 3.1, 2, 2.5, 2.6, 2.7))]
        assert [len(each) for each in found] == [0, 0, 0, 0, 0, 0, 1]
        assert found[-1][0]["what"] == "validation"
        assert watch.validated(7, 0, scale * 3.0 + offset) == []


def test_nothing_is_said_early_or_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alarms, "FIRST_STEP", 1_000)
    watch = Alarms(Config(), costly(1.0), (-100.0, -1.0))
    row = {"seed": 3, "stage": "joint", "value": 198.0}
    assert watch.look(500, [row]) == []
    (alarm,) = watch.look(1_000, [row])
    assert (alarm["seed"], alarm["what"]) == (3, "values")
    assert watch.look(1_500, [row]) == []
    assert watch.look(1_500, [row | {"seed": 4}]) != []


def test_a_discrete_policy_is_compared_by_how_often_it_does_the_same() -> None:
    actions = np.arange(60)[:, None] % 3
    data = walk()
    discrete = Dataset.from_arrays(data.observations, None, actions, None, None, data.ends, action_count=3)

    class Chooser(alarms.Agent):
        shift: int

        def act(self, observations: Any, memory: Any) -> Any:
            return (alarms.jax.numpy.arange(len(observations)) + self.shift) % 3, memory

    assert Alarms(Config(), discrete, None).look(2, [{"seed": 0, "stage": ""}], lambda: [Chooser(0)]) == []
    (alarm,) = Alarms(Config(), discrete, None).look(2, [{"seed": 0, "stage": ""}], lambda: [Chooser(1)])
    assert "it agrees with them in 0% of states" in alarm["text"]


def test_an_agent_that_remembers_its_episode_is_not_asked() -> None:
    class Forgetful(alarms.Agent):
        def start(self, episodes: int, goal: Any = None) -> Any:
            return ()

        def act(self, observations: Any, memory: Any) -> Any:
            return alarms.jax.numpy.full((len(observations), 2), 50.0), memory

    class Mindful(Forgetful):
        def start(self, episodes: int, goal: Any = None) -> Any:
            return np.zeros(episodes)

    class Led(Forgetful):
        def start(self, episodes: int, goal: Any = None) -> Any:
            raise WaypostError("no goal")

    def raised(agent: alarms.Agent) -> int:
        return len(Alarms(Config(), walk(), None).look(2, [{"seed": 0, "stage": ""}], lambda: [agent]))

    assert [raised(Forgetful()), raised(Mindful()), raised(Led())] == [1, 0, 0]


class Same(Agent):
    """Always the same action."""

    action: jax.Array

    def act(self, observations: jax.Array, memory: Any = ()) -> tuple[jax.Array, Any]:
        return jnp.broadcast_to(self.action, (len(observations), 2)), memory


@pytest.mark.parametrize(
    ("action", "text"),
    [
        ((0.0, 50.0), None),
        ((2.0, 50.0), "it agrees with them in 3% of states"),
        ((0.0, 900.0), "standard deviat"),
    ],
)
def test_a_mixed_action_is_far_if_one_of_its_parts_is(action: tuple[float, float], text: str | None) -> None:
    rng = np.random.default_rng(0)
    actions = np.column_stack([rng.choice(3, 300, p=[0.7, 0.28, 0.02]), rng.uniform(0, 100, 300)])
    data = Dataset.from_arrays(rng.normal(size=(300, 2)), actions=actions, action_choices=(("a", "b", "c"), ()))
    watch = Alarms(Config(), data, None)
    row = {"seed": 0, "stage": "joint"}
    found = watch.look(5_000, [row], lambda: [Same(jnp.array(action))])
    assert [alarm["what"] for alarm in found] == ([] if text is None else ["policy"])
    assert text is None or text in found[0]["text"]
