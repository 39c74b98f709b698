"""Where the guide goes: every number once more by loops, and the figure and the text beside the tables."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from experiments import SLOW, ahead, numbers, on_the_t_maze

from waypost.agents.por import Config
from waypost.cli import main
from waypost.data.dataset import Dataset
from waypost.data.sources import load
from waypost.envs.tasks import task
from waypost.studies.paper import guide_map
from waypost.studies.paper.experiment import Context, Size
from waypost.studies.paper.run import _silent, run
from waypost.training.callbacks import Callback
from waypost.training.plan import plan
from waypost.training.policy import load_policies

PAIRS = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The quick form on the T-maze with small networks, two seeds and a handful of updates."""
    out = tmp_path_factory.mktemp("paper")
    with pytest.MonkeyPatch.context() as patch:
        on_the_t_maze(patch, "guide-map")
        run("guide-map", out, quick=True, seeds=2, steps=PAIRS)
        yield out / "guide-map"


def test_the_files(folder: Path) -> None:
    expected = {"guide-map.md", "map-t-maze.png", "map-t-maze.svg", "record.json", "runs"}
    expected |= {f"{name}.{end}" for name in ("guide-map", "seeds", "points-t-maze") for end in ("csv", "json")}
    assert {path.name for path in folder.iterdir()} == expected
    config = json.loads((folder / "runs" / "quick" / "t-maze" / "por" / "config.json").read_text())
    assert (config["config"]["training"], config["seeds"], config["steps"]) == ("guide", [0, 1], PAIRS)
    assert [len(numbers(folder, name)) for name in ("guide-map", "seeds", "points-t-maze")] == [1, 2, PAIRS]


def test_every_number_is_that_of_a_loop(folder: Path) -> None:
    data, policies = load("t-maze"), load_policies(folder / "runs" / "quick" / "t-maze" / "por")
    chosen = np.random.default_rng(0).permutation(np.flatnonzero(data.next_valid))[:PAIRS]
    scale = data.observations.astype(np.float64).std(axis=0)
    following = data.next_observations[chosen]

    def far(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.linalg.norm((a.astype(np.float64) - b) / scale))

    for seed, found in enumerate(numbers(folder, "seeds")):
        policy, other = policies[seed], policies[1 - seed]
        near, gains, others = [], [], []
        goals = policy.guide(data.observations[chosen])
        asked = [(asked_one.value(goals), asked_one.value(following)) for asked_one in (policy, other)]
        for i in range(PAIRS):
            to_data = min(far(goals[i], each) for each in following)
            near.append(to_data <= min(far(following[i], each) for j, each in enumerate(following) if j != i))
            gains.append(float(asked[0][0][i]) - float(asked[0][1][i]))
            others.append(float(asked[1][0][i]) - float(asked[1][1][i]))
        expected = {
            "pairs": PAIRS,
            "gain": np.mean(gains),
            "deviations": np.mean(gains) / policy.value(following).std(),
            "other_v": np.mean(others),
            "higher": np.mean(np.array(gains) > 0),
            "near": np.mean(near),
        }
        for measure, number in expected.items():
            assert found[measure] == pytest.approx(number, rel=1e-3, abs=1e-5), measure
    assert {row["seed"] for row in numbers(folder, "seeds")} == {0, 1}
    (mean,) = numbers(folder, "guide-map")
    for measure in ("gain", "deviations", "other_v", "higher", "near"):
        assert mean[measure] == pytest.approx(np.mean([row[measure] for row in numbers(folder, "seeds")]))


def test_near_and_far_goals_are_told_apart() -> None:
    pairs = {
        "value": np.array([1.0, 2.0, 3.0, 4.0]),
        "goal_value": np.array([2.0, 2.0, 6.0, 9.0]),
        "distance": np.array([0.5, 1.0, 2.0, 9.0]),
        "own": np.array([1.0, 1.0, 1.0, 1.0]),
    }
    found = guide_map.summary("some", 3, pairs)
    assert found == {
        "data": "some",
        "seed": 3,
        "pairs": 4,
        "gain": 2.25,
        "deviations": 2.25 / np.std([1, 2, 3, 4]),
        "other_v": None,
        "higher": 0.75,
        "near": 0.5,
        "gain_near": 0.5,
        "gain_far": 4.0,
    }
    outside = guide_map.summary("some", 3, {**pairs, "distance": np.full(4, 2.0)})
    assert (outside["near"], outside["gain_near"], outside["gain_far"]) == (0.0, None, 2.25)


@pytest.mark.parametrize(("steps", "pairs"), [(7, 7), (50, 30), (None, 30)])
def test_there_are_as_many_pairs_as_updates_up_to_a_limit(
    steps: int | None, pairs: int, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guide_map, "PAIRS", 30)
    context = Context(Size(1, steps), Path(), Callback(), _silent)
    agent = SimpleNamespace(guide=lambda s: s + np.float32([100.0, 0.0]), value=lambda s: s[:, 0])
    trained: Any = SimpleNamespace(plan=SimpleNamespace(config=Config()), policies=[agent])
    (found,) = guide_map.measured(context, trained, dataset, plane=True)
    assert len(found["value"]) == pairs
    assert (found["distance"] > found["own"]).all()
    assert np.allclose(found["goal_x"], found["goal_value"])
    assert np.allclose(found["x"], found["value"])
    assert "other_gain" not in found
    assert guide_map.summary("walk", 0, found)["near"] == 0.0


def test_the_t_sne_keeps_together_what_is_together(tmp_path: Path) -> None:
    context = Context(Size(1, 1), tmp_path, Callback(), _silent)
    clumps = np.random.default_rng(0).normal(size=(60, 4)) + 50 * (np.arange(60) % 2)[:, None]
    found = guide_map.embedded(context, "clumps", clumps, clumps + 0.01)
    recorded = np.stack([found["tsne_x"], found["tsne_y"]], axis=1)
    goals = np.stack([found["goal_tsne_x"], found["goal_tsne_y"]], axis=1)
    nearest = np.linalg.norm(goals[:, None] - recorded, axis=-1).argmin(axis=1)
    assert (nearest % 2 == np.arange(60) % 2).all()
    again = guide_map.tsne(context, "clumps", np.concatenate([clumps, clumps + 0.01]))
    assert np.array_equal(again, np.concatenate([recorded, goals]))


# -- Waypoint ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def both(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for POR and Waypoint, with one slow direction, x; small as long as `folder` lives."""
    out = tmp_path_factory.mktemp("both")
    (out / "slow.toml").write_text(SLOW)
    algorithms = ["por", "waypoint"]
    run("guide-map", out, quick=True, seeds=2, steps=PAIRS, algorithms=algorithms, settings=out / "slow.toml")
    return out / "guide-map"


def test_waypoint_has_rows_and_files_of_its_own(both: Path, folder: Path) -> None:
    own = {f"waypoint-map-t-maze.{end}" for end in ("png", "svg")}
    own |= {f"waypoint-points-t-maze.{end}" for end in ("csv", "json")}
    assert {path.name for path in both.iterdir()} == {path.name for path in folder.iterdir()} | own
    runs = {path.stem for path in (both / "runs" / "quick" / "t-maze").iterdir()}
    assert runs == {"por", "waypoint", "t-sne", "waypoint-t-sne"}
    por, waypoint = numbers(both, "guide-map")
    assert (por.pop("algorithm"), por.pop("slow_directions")) == ("POR", 0)
    assert por.pop("horizon") == plan("por", "t-maze").config.horizon
    assert [por] == numbers(folder, "guide-map")
    assert (waypoint["algorithm"], waypoint["horizon"], waypoint["slow_directions"]) == ("Waypoint", 5, 1)
    assert [row["algorithm"] for row in numbers(both, "seeds")] == ["POR", "POR", "Waypoint", "Waypoint"]
    assert numbers(both, "points-t-maze") == numbers(folder, "points-t-maze")


def test_waypoint_is_compared_in_its_slow_directions_with_states_further_ahead(both: Path) -> None:
    data, policies = load("t-maze"), load_policies(both / "runs" / "quick" / "t-maze" / "waypoint")
    chosen = np.random.default_rng(0).permutation(np.flatnonzero(data.next_valid))[:PAIRS]
    following = np.stack([ahead(data, row, 5) for row in chosen])
    x = following[:, 0].astype(np.float64)
    for found, policy in zip(numbers(both, "seeds")[2:], policies, strict=True):
        goals = policy.guide(data.observations[chosen])
        assert np.array_equal(goals[:, 1], data.observations[chosen, 1])
        near = [
            min(abs(goals[i, 0] - x)) <= min(abs(x[i] - each) for j, each in enumerate(x) if j != i)
            for i in range(PAIRS)
        ]
        assert found["near"] == np.mean(near)
        assert found["gain"] == pytest.approx(np.mean(policy.value(goals) - policy.value(following)), rel=1e-3)
    points = numbers(both, "waypoint-points-t-maze")
    assert [row["x"] for row in points] == pytest.approx(x, rel=1e-4)


def test_the_text_tells_the_algorithms_apart(both: Path) -> None:
    written = (both / "guide-map.md").read_text()
    text, (por, waypoint) = " ".join(written.split()), numbers(both, "guide-map")
    assert "V and guide of POR and Waypoint were trained on t-maze with 2 seeds each. Waypoint is our own" in text
    assert "compared with the recorded states s' as far ahead as the guide looks" in text
    assert f"**t-maze (POR)**, {PAIRS} updates" in text
    assert f"**t-maze (Waypoint)**, {PAIRS} updates" in text
    assert f"{por['near']:.0%} of the goals are as near to a recorded next state as" in text
    assert f"{waypoint['near']:.0%} of the goals are as near to a recorded state 5 steps ahead as" in text
    assert text.count("Distances are in 1 slow direction of the state: goals move in no others.") == 1
    assert f"t-maze (Waypoint), {PAIRS} pairs: the guide's goals g(s) and the recorded states 5 steps ahead s'" in text
    assert "above in a t-SNE of 1 slow direction, below" in text
    assert "horizon: the recorded states s' are that many steps ahead of s" in text
    assert "por and waypoint instead of por" in text


def test_waypoint_has_the_paper_s_comparison_of_its_own() -> None:
    row = {"seeds": 3, "pairs": 9, "gain": 1.5, "other_v": None, "higher": 0.9, "near": 1.0, "gain_near": 1.0}
    row |= {"gain_far": None, "updates": 5, "preset_updates": 5, "slow_directions": 0, "horizon": 1}
    rows = [
        {"data": data, "algorithm": algorithm, "deviations": deviations, **row}
        for algorithm, both in (("POR", (0.2, 0.1)), ("Waypoint", (0.3, 0.4)))
        for data, deviations in zip((guide_map.MORE, guide_map.LESS), both, strict=True)
    ]
    text = " ".join(guide_map._text(rows, rows).split())
    assert "gain of POR is 0.2 on antmaze-large-diverse and 0.1 on hopper-medium-replay. The paper sees" in text
    assert "gain of Waypoint is 0.3 on antmaze-large-diverse and 0.4 on hopper-medium-replay. The paper sees" in text
    assert "we do not. Checked: on antmaze-large-diverse the seeds have 0.3 to 0.3" in text


def test_the_legend_says_how_far_ahead_the_recorded_states_are(both: Path) -> None:
    table = numbers(both, "waypoint-points-t-maze")
    points = {name: np.array([row[name] for row in table]) for name in table[0]}
    (legend,) = guide_map.draw(points, None, "recorded state 5 steps ahead").legends
    assert [each.get_text() for each in legend.get_texts()][1] == "s', recorded state 5 steps ahead"
    (legend,) = guide_map.draw(points, None).legends
    assert [each.get_text() for each in legend.get_texts()][1] == "s', recorded next state"


# -- figure and text ---------------------------------------------------------------------------------


def test_the_points_are_the_pairs_and_the_figure_shows_them(folder: Path) -> None:
    table = numbers(folder, "points-t-maze")
    points = {name: np.array([row[name] for row in table]) for name in table[0]}
    first = numbers(folder, "seeds")[0]
    assert np.mean(points["goal_value"] - points["value"]) == pytest.approx(first["gain"], abs=1e-4)
    assert np.mean(points["distance"] <= points["own"]) == first["near"]
    panels = [axes for axes in guide_map.draw(points, task("t-maze").layout()).axes if axes.get_xlabel()]
    assert [axes.get_title() for axes in panels[:3]] == [
        "source",
        f"V(s'), mean {points['value'].mean():.3g}",
        f"V(g(s)), mean {points['goal_value'].mean():.3g}",
    ]
    assert len(panels) == 6
    for row, (x, y) in enumerate((("tsne_x", "tsne_y"), ("x", "y"))):
        recorded = np.stack([points[x], points[y]], axis=1)
        goals = np.stack([points[f"goal_{x}"], points[f"goal_{y}"]], axis=1)
        source, before, after = (axes.collections[0] for axes in panels[3 * row : 3 * row + 3])
        for dots, places, name in ((before, recorded, "value"), (after, goals, "goal_value")):
            assert (dots.get_offsets() == places).all()
            assert (dots.get_array() == points[name]).all()
            assert dots.get_clim() == before.get_clim()
        blue = source.get_facecolor()[:, 2] > 0.5
        for chosen, places in ((blue, goals), (~blue, recorded)):
            assert sorted(map(tuple, source.get_offsets()[chosen])) == sorted(map(tuple, places))
    assert len([axes for axes in guide_map.draw(points, None).axes if axes.get_xlabel()]) == 3


def test_the_text_is_made_of_the_table(folder: Path) -> None:
    (row,) = numbers(folder, "guide-map")
    text = " ".join((folder / "guide-map.md").read_text().split())
    assert f"**t-maze**, {PAIRS} updates (the preset has {plan('por', 't-maze').steps}), {PAIRS} pairs: " in text
    assert f"the mean of V(g(s)) - V(s') is {row['gain']:.3g}, " in text
    assert (
        f"and {row['other_v']:.3g} by the V of another seed; {row['higher']:.0%} of the goals have the higher" in text
    )
    assert f"{row['near']:.0%} of the goals are as near to a recorded next state" in text
    assert "trained on t-maze with 2 seeds each" in text


def test_the_text_says_where_the_result_differs_from_the_claim() -> None:
    row = {"seeds": 3, "pairs": 9, "gain": 1.5, "deviations": 0.2, "other_v": None, "higher": 0.9, "near": 0.6}
    row |= {"gain_near": 1.0, "gain_far": 2.25, "updates": 5, "preset_updates": 7}
    ant, hopper = {"data": guide_map.MORE, **row}, {"data": guide_map.LESS, **row, "deviations": 0.1}
    text = " ".join(guide_map._text([ant, hopper], []).split())
    assert text.count("and here they are") == 2
    assert text.count(", 5 updates (the preset has 7), 9 pairs: ") == 2
    assert text.count("gain 2.25, the near ones 1: goals outside the data are worth more, as the paper says") == 2
    assert "0.2 on antmaze-large-diverse and 0.1 on hopper-medium-replay" in text
    assert text.endswith("and so do we.")
    worse = {**ant, "gain": -1.5, "deviations": -0.2, "gain_far": 0.5}
    seeds = [{"data": guide_map.MORE, "deviations": number} for number in (-0.3, -0.1)]
    seeds += [{"data": guide_map.LESS, "deviations": number} for number in (0.0, 0.2)]
    text = " ".join(guide_map._text([worse, {**hopper, "higher": 0.75}], seeds).split())
    assert text.count("here they are not") == 1
    assert text.count("not worth more, unlike in the paper") == 1
    assert text.endswith(
        "and we do not. Checked: on antmaze-large-diverse the seeds have -0.3 to -0.1, and 90% of the goals have the "
        "higher V; on hopper-medium-replay the seeds have 0 to 0.2, and 75% of the goals have the higher V."
    )
    assert "do we" not in guide_map._text([ant], [])
    assert "All goals are near" in guide_map._text([{**ant, "near": 1.0, "gain_far": None}], [])


def test_a_t_sne_is_made_once_for_the_same_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def tsne(context: Context, name: str, states: np.ndarray) -> np.ndarray:
        made.append(len(states))
        return states[:, :2] + len(made)

    monkeypatch.setattr(guide_map, "tsne", tsne)
    context = Context(Size(1), tmp_path, Callback(), _silent)
    states = np.random.default_rng(0).normal(size=(5, 3))
    first = guide_map.embedded(context, "here", states, states + 1)
    again = guide_map.embedded(context, "here", states, states + 1)
    assert made == [10]
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert np.array_equal(first["goal_tsne_x"], states[:, 0] + 2)
    other = guide_map.embedded(context, "here", states, states + 2)
    assert made == [10, 10]
    assert np.array_equal(other["tsne_y"], states[:, 1] + 2)
    assert guide_map.embedded(context, "there", states, states + 2).keys() == first.keys()
    assert len(made) == 3


def test_without_open_tsne_nothing_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "openTSNE", None)
    monkeypatch.setattr(guide_map, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as stop:
        main(["paper", "guide-map", "--quick", "--out", str(tmp_path / "out")])
    printed = capfd.readouterr()
    assert (stop.value.code, printed.out, printed.err.count("\n")) == (2, "", 1)
    assert "pip install 'waypost[paper]'" in printed.err
    assert not (tmp_path / "out").exists()
