"""Learning is the proof: what must succeed does, what must fail does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import waypost

pytestmark = pytest.mark.learns


@pytest.mark.parametrize("seeds", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_por_joins_the_halves_of_the_t_maze_and_cloning_does_not(seeds: int) -> None:
    por = waypost.train("por", "t-maze", seeds=seeds)
    assert [each["success_rate"] for each in por.result["per_seed"]] == [1.0] * seeds
    for name in ("bc", "bc10"):
        cloned = waypost.train(name, "t-maze", seeds=seeds, steps=2_000, hidden=(64, 64))
        assert [each["success_rate"] for each in cloned.result["per_seed"]] == [0.0] * seeds
    # The value says why: it rises from the start to the junction and from there to the goal, not to the west.
    places = np.array([[5, 1], [3, 0], [1, 0], [0, 1], [0, 3], [0, 4.4]], np.float32)
    values = por.policy.value(places)
    assert (np.diff(values) > 0).all()
    assert por.policy.value([-4.0, 0.0]) < values[3]
    # And the guide: down in the niche, west on the eastern arm, up at the junction.
    steps = por.policy.guide(places) - places
    assert steps[0, 1] < -0.05
    assert (steps[1:3, 0] < -0.05).all()
    assert (steps[3:, 1] > 0.05).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["iql", "onestep", "cql"])
def test_others_that_ask_what_states_are_worth_join_the_halves_too(name: str) -> None:
    run = waypost.train(name, "t-maze", evaluation=waypost.Protocol(every=0, episodes=20))
    assert run.result["mean"]["success_rate"] >= 0.95


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"training": "staged"}, marks=pytest.mark.slow),
        pytest.param({"value_objective": "sparse", "tau": 1.0}, marks=pytest.mark.slow),
        pytest.param({"horizon": 3}, marks=pytest.mark.slow),
        pytest.param(
            {"guide_objective": "constrained", "behaviour_steps": 3_000, "inverse_temperature": 10.0},
            marks=pytest.mark.slow,
        ),
    ],
    ids=["staged", "sparse", "horizon", "constrained"],
)
def test_every_form_of_por_joins_the_halves(settings: dict[str, object]) -> None:
    run = waypost.train("por", "t-maze", steps=4_000, **settings)
    assert run.result["mean"]["success_rate"] >= 0.95


@pytest.mark.slow
def test_four_rooms_is_on_its_way_after_a_short_training() -> None:
    run = waypost.train("por", "four-rooms", steps=20_000, evaluation=waypost.Protocol(every=0, episodes=50))
    assert run.result["mean"]["success_rate"] >= 0.5
    # Behaviour cloning of walks between random places goes nowhere in particular.
    bc = waypost.train("bc", "four-rooms", steps=2_000, evaluation=waypost.Protocol(every=0, episodes=50))
    assert bc.result["mean"]["success_rate"] <= 0.1


@pytest.mark.slow
def test_four_rooms_is_solved_on_three_seeds() -> None:
    run = waypost.train("por", "four-rooms", seeds=3)
    assert [each["success_rate"] >= 0.95 for each in run.result["per_seed"]] == [True] * 3


@pytest.mark.slow
def test_the_river_is_gone_round_with_the_executor_of_another_task(tmp_path: Path) -> None:
    waypost.train(
        "por", "four-rooms", steps=20_000, evaluation=waypost.Protocol(every=0, episodes=1), out=tmp_path / "a"
    )
    adapted = waypost.adapt(tmp_path / "a", "four-rooms-river", steps=60_000, out=tmp_path / "b")
    assert adapted.run.result["mean"]["success_rate"] >= 0.9
