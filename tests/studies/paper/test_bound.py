"""Theorem 1 at several inverse temperatures: what may move, what may not, and the figure and text beside the tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from experiments import SLOW, ahead, numbers, on_the_t_maze

from waypost.data.sources import load
from waypost.studies.diagnosis import diagnose
from waypost.studies.paper import bound
from waypost.studies.paper.experiment import over_seeds
from waypost.studies.paper.run import run
from waypost.training.evaluation import MEASURES
from waypost.training.plan import plan
from waypost.training.policy import Policy, load_policies

STATES, TEMPERATURES = 30, (0.0, 10.0)


class Evaluated:
    """Agents are evaluated by their guide's weights: no simulator, and other guides still get other scores."""

    def __init__(self, agents: list[Any], *given: Any, **options: Any):
        self.agents = agents

    def measures(self, task: Any) -> list[dict[str, float]]:
        sums = [sum(float(leaf.sum()) for leaf in jax.tree.leaves(agent.guide_part)) for agent in self.agents]
        return [{**dict.fromkeys(MEASURES, 1.0), "score": each} for each in sums]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The quick form on the T-maze with small networks, two temperatures, one seed and a handful of updates."""
    out = tmp_path_factory.mktemp("paper")
    with pytest.MonkeyPatch.context() as patch:
        on_the_t_maze(patch, "bound")
        patch.setattr(bound, "TEMPERATURES", TEMPERATURES)
        patch.setattr(bound, "diagnose", partial(diagnose, states=STATES))
        patch.setattr("waypost.training.beside.rollouts", Evaluated)
        patch.setattr("waypost.training.trainer.check", lambda agent, task: None)
        run("bound", out, quick=True, seeds=1, steps=30)
        yield out / "bound"


def guides(folder: Path, kind: str = "guide") -> dict[float, list[Policy]]:
    place = folder / "runs" / "quick" / "t-maze"
    return {each: load_policies(place / f"{kind}-{each:g}") for each in TEMPERATURES}


def same(a: Any, b: Any) -> bool:
    return all((x == y).all() for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def test_the_files(folder: Path) -> None:
    expected = {"bound.md", "bound.png", "bound.svg", "record.json", "runs"}
    expected |= {f"{name}.{end}" for name in ("bound", "means", "seeds") for end in ("csv", "json")}
    assert {path.name for path in folder.iterdir()} == expected
    assert [(row["temperature"], row["seed"]) for row in numbers(folder, "seeds")] == [(0, 0), (10, 0)]
    assert json.loads((folder / "means.json").read_text()) == numbers(folder, "means")
    shown = [{name: row[name] for name in ("data", "temperature", *bound.SHOWN)} for row in numbers(folder, "means")]
    assert numbers(folder, "bound") == shown


def test_only_the_guide_depends_on_the_temperature(folder: Path) -> None:
    (donor,) = load_policies(folder / "runs" / "quick" / "t-maze" / "executor")
    trained = guides(folder)
    for policies in trained.values():
        assert all(same(policy.agent.executor, donor.agent.executor) for policy in policies)
    for cold, hot in zip(*trained.values(), strict=True):
        assert same(cold.agent.value_part, hot.agent.value_part)
        assert not same(cold.agent.guide_part, hot.agent.guide_part)
    for measure in ("l3", "l3_largest", "inverse_slope"):
        assert len({row[measure] for row in numbers(folder, "seeds")}) == 1
    for measure in ("l1", "distance", "gain"):
        assert len({row[measure] for row in numbers(folder, "seeds")}) == 2


def test_the_numbers_are_those_of_a_loop(folder: Path) -> None:
    data = load("t-maze")
    asked = np.random.default_rng(0).permutation(np.flatnonzero(data.next_valid))[:STATES]
    scale = data.observations.astype(np.float64).std(axis=0)
    columns = [each[asked] for each in (data.observations, data.next_observations, data.require("actions"))]
    found = iter(numbers(folder, "seeds"))
    for temperature, policies in guides(folder).items():
        record = json.loads(
            (folder / "runs" / "quick" / "t-maze" / f"guide-{temperature:g}" / "result.json").read_text()
        )
        for policy, result in zip(policies, record["per_seed"], strict=True):
            row = next(found)
            s, following, actions = columns
            goals, done = policy.guide(s), np.asarray(policy.agent.executor(s, following))
            worth, wanted = policy.value(following), policy.value(goals)
            errors, distances, gains = [], [], []
            for i in range(STATES):
                errors.append(np.linalg.norm(2 * (done[i] - actions[i]) / (data.action_high - data.action_low)))
                distances.append(np.linalg.norm((goals[i] - following[i]) / scale))
                gains.append(float(wanted[i]) - float(worth[i]))
            expected = {
                "l3": np.mean(errors),
                "l3_largest": np.max(errors),
                "distance": np.mean(distances),
                "gain": np.mean(gains),
                "sum": row["l1"] + row["l2"] + row["l3"],
                "score": result["score"],
                "states": STATES,
            }
            for measure, number in expected.items():
                assert row[measure] == pytest.approx(number, rel=1e-3, abs=1e-5), measure


# -- Waypoint ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for Waypoint, with one slow direction, x; small as long as `folder` lives."""
    out = tmp_path_factory.mktemp("own")
    (out / "slow.toml").write_text(SLOW)
    run("bound", out, quick=True, seeds=1, steps=30, algorithms=["waypoint"], settings=out / "slow.toml")
    return out / "bound"


def test_waypoint_has_names_of_its_own_and_one_executor(own: Path) -> None:
    assert {path.stem for path in own.iterdir()} == {"bound", "waypoint-bound", "means", "seeds", "record", "runs"}
    runs = {path.stem for path in (own / "runs" / "quick" / "t-maze").iterdir()}
    assert runs == {"waypoint-executor", "waypoint-guide-0", "waypoint-guide-10"}
    (donor,) = load_policies(own / "runs" / "quick" / "t-maze" / "waypoint-executor")
    (cold,), (hot,) = guides(own, "waypoint-guide").values()
    assert same(cold.agent.executor, donor.agent.executor)
    assert same(hot.agent.executor, donor.agent.executor)
    assert same(cold.agent.value_part, hot.agent.value_part)
    assert not same(cold.agent.guide_part, hot.agent.guide_part)


def test_waypoint_is_measured_in_its_slow_directions(own: Path) -> None:
    data = load("t-maze")
    asked = np.random.default_rng(0).permutation(np.flatnonzero(data.next_valid))[:STATES]
    following = np.stack([ahead(data, row, 5) for row in asked])
    for row, (policy,) in zip(numbers(own, "seeds"), guides(own, "waypoint-guide").values(), strict=True):
        x = policy.guide(data.observations[asked])[:, 0] - following[:, 0]
        width = policy.spec.statistics["observation_std"][0]
        assert row["distance"] == pytest.approx(np.abs(x).mean() / width, rel=1e-3)
    names = ("data", "algorithm", "horizon", "slow_directions", "temperature")
    for table in ("bound", "means", "seeds"):
        assert [tuple(row[name] for name in names) for row in numbers(own, table)] == [
            ("t-maze", "Waypoint", 5, 1, 0),
            ("t-maze", "Waypoint", 5, 1, 10),
        ]


def test_the_text_names_waypoint(own: Path) -> None:
    cold, hot = numbers(own, "means")
    text = " ".join((own / "bound.md").read_text().split())
    assert "One executor was trained on each of t-maze (Waypoint), and V and guide with 1 seed" in text
    assert "Waypoint is our own method and has the same three parts; the paper is about POR." in text
    assert "**t-maze (Waypoint)**, 30 updates" in text
    assert f"from the recorded state 5 steps ahead {bound._moves(cold['distance'], hot['distance'])}" in text
    assert "Distances are in 1 slow direction of the state" in text
    assert "the measured gap and the score of Waypoint against the inverse temperature" in text
    assert "slow_directions: distances are in that many slow directions of the state" in text
    assert "recorded next state" not in text
    assert "waypoint instead of por" in text


def means_of(seeds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return over_seeds(seeds, ("data", "temperature"), ("states", "updates", "preset_updates"))


def test_the_table_holds_means_over_seeds(folder: Path) -> None:
    first = numbers(folder, "seeds")
    second = [{**row, "seed": 1.0, "l1": row["l1"] + 2, "score": row["score"] + 50} for row in first]
    found = means_of([*first, *second])
    assert [(row["temperature"], row["seeds"], row["states"]) for row in found] == [(0, 2, STATES), (10, 2, STATES)]
    for row, mean in zip(first, found, strict=True):
        assert mean["l1"] == pytest.approx(row["l1"] + 1)
        assert mean["score"] == pytest.approx(row["score"] + 25)
        assert mean["gap"] == pytest.approx(row["gap"])
    assert means_of(first) == numbers(folder, "means")


def test_the_figure_shows_the_numbers_of_the_tables(folder: Path) -> None:
    seeds = numbers(folder, "seeds")
    seeds += [{**row, "seed": 1.0, "l1": row["l1"] + 2, "score": row["score"] + 50} for row in seeds]
    other = [{**row, "data": "other", "l1": 2 * row["l1"], "score": -row["score"] - 1} for row in seeds]
    figure = bound.draw([*seeds, *other])
    assert len(figure.axes) == 6
    shown = {}
    for place, axes in enumerate(figure.axes):
        for line in axes.lines:
            if len(line.get_xdata()) == len(TEMPERATURES):
                shown["t-maze" if place < 3 else "other", line.get_label().split(",")[0]] = list(line.get_ydata())
                low, high = axes.get_ylim()
                assert low <= min(line.get_ydata())
                assert high >= max(line.get_ydata())
        assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "10"]
    means = means_of(seeds)
    for measure, label in (("l1", "l1"), ("l2", "l2"), ("l3", "l3"), ("gap", "measured gap"), ("score", "score")):
        assert shown["t-maze", label] == pytest.approx([row[measure] for row in means])
    assert shown["other", "l1"] == pytest.approx([2 * row["l1"] for row in means])
    assert figure.axes[0].get_title(loc="left").startswith("l1")
    assert figure.axes[5].get_xlabel() == "inverse temperature"


# -- text --------------------------------------------------------------------------------------------


def test_the_text_is_made_of_the_table(folder: Path) -> None:
    cold, hot = numbers(folder, "means")
    text = " ".join((folder / "bound.md").read_text().split())
    assert "with 1 seed at each of the inverse temperatures 0, 10" in text
    assert f"means over {STATES} states" in text
    assert f"**t-maze**, 30 updates (the preset has {plan('por', 't-maze').steps}). From an inverse" in text
    for part in ("l1", "l2"):
        assert f"{part} {bound._moves(cold[part], hot[part])}" in text
    assert f"l3 is {cold['l3']:.3g} at every temperature, because the executor is the same" in text
    assert f"and at most {cold['l3_largest']:.3g}" in text
    lowest = min((cold, hot), key=lambda row: row["sum"])
    assert f"The sum is smallest at {lowest['temperature']:g} ({lowest['sum']:.3g})" in text
    assert f"the lowest sum is {lowest['sum'] / lowest['gap']:.3g} times the measured gap" in text


def made(temperature: float, **numbers: float) -> dict[str, Any]:
    names = (
        "l1",
        "l2",
        "l3",
        "sum",
        "gap",
        "distance",
        "inverse_slope",
        "executor_slope",
        "l3_largest",
        "holds",
        "score",
    )
    known = {"data": "some", "temperature": temperature, "seeds": 1, "states": 5, "updates": 7, "preset_updates": 7}
    return {**known, **dict.fromkeys(names, 1.0), **numbers}


def test_the_text_says_where_the_result_differs_from_the_claim() -> None:
    cold, hot = made(0, l1=2.0, l2=0.5, sum=3.5, gap=0.7), made(30, l1=4.0, l2=0.25, sum=5.25, gap=0.6)
    text = " ".join(bound._text([cold, hot]).split())
    assert "**some**, 7 updates. From an inverse temperature of 0 to 30 l1 rises" in text
    assert "l1 rises from 2 to 4 and l2 falls from 0.5 to 0.25: as the paper expects" in text
    assert "smallest at 0 (3.5), the measured gap at 30 (0.6); the score is 1 at every one" in text
    assert "5 times the measured gap, and 57% of it is l1; the bound holds in all states" in text
    assert "it does not show whether the sum chooses well" in text
    tied = " ".join(bound._text([cold, {**cold, "temperature": 3, "sum": 4.0}, {**hot, "score": 0.5}]).split())
    assert "the score is best at 0 and 3 (1)" in tied
    assert "best where the sum is lowest, but also at 1 of the others" in tied
    alone = " ".join(bound._text([cold, {**hot, "score": 0.5}]).split())
    assert "best where the sum is lowest: the sum chooses the inverse temperature well" in alone
    text = " ".join(bound._text([{**cold, "score": 0.5, "holds": 0.9}, {**hot, "l2": 0.5}]).split())
    assert "l2 stays at 0.5: the paper expects l1 to rise and l2 to fall" in text
    assert "holds in at least 90.0% of the states" in text
    assert "the score is 0.5, not the best 1: the sum does not choose" in text
    between = made(3, l1=9.0, holds=0.9996)
    text = " ".join(bound._text([cold, between, hot]).split())
    assert "l1 rises from 2 to 4 (highest at 3, 9) and l2 falls" in text
    assert "holds in at least 99.9% of the states" in text
