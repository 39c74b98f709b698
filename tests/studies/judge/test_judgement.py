"""Intervals, differences, ranks and words."""

from __future__ import annotations

from dataclasses import replace

import chain
import numpy as np
import pytest

from waypost.studies.judge.bias import Bias
from waypost.studies.judge.judgement import (
    Estimate,
    Judged,
    Judgement,
    as_csv,
    cells,
    difference,
    disagree,
    estimate,
)
from waypost.studies.judge.judging import ranked
from waypost.studies.judge.support import Distance

RNG = np.random.default_rng(0)
COMMON = RNG.normal(0.0, 1.0, 8)


def judged(name: str, mean: float, own: float = 0.1, seed: int = 0, algorithm: str | None = "bc") -> Judged:
    """A candidate whose members vary with the bootstraps, and a little by themselves."""
    members = mean + COMMON + own * np.random.default_rng(seed).normal(size=8)
    base = 5.0 + COMMON
    curve = np.array([0.0, mean])
    distance = Distance(0.1, 0.1, 0.05, 0.05)
    known = {"distance": distance, "distances": np.array([0.1, 0.2]), "members": members, "curve": curve}
    return Judged(name, algorithm, "run", 0, estimate(members), difference(members, base), **known)


def judgement(*candidates: Judged) -> Judgement:
    data = replace(judged("data", 5.0, 0.0, algorithm=None), run=None, seed=None)
    return Judgement("log", 10, 100, 0.99, 6.0, 5.0, ranked([data, *candidates]), (1, 2), 0.0)


UNLIKE = "90 % of its actions are unlike any"
LEFT = Judged(
    "gone", "iql", "run", 0, distance=Distance(1.0, 0.1, 0.9, 0.05), note="90 % of its actions are unlike any"
)


def test_a_difference_leaves_out_what_bootstraps_have_in_common() -> None:
    one, other = judged("a", 7.0, seed=1), judged("b", 6.0, seed=2)
    assert one.value is not None
    apart = difference(one.members, other.members)
    assert apart.value == pytest.approx(1.0, abs=0.2)
    assert apart.high - apart.low < 0.3 * (one.value.high - one.value.low)
    assert apart.probability > 0.99
    assert difference(other.members, one.members).probability < 0.01


def test_an_interval_reaches_from_the_evaluators_to_imagined_episodes() -> None:
    plain, wider = estimate(COMMON), estimate(COMMON, gap=0.5)
    assert wider == pytest.approx((plain.value, plain.low - 0.5, plain.high + 0.5))
    assert estimate(COMMON, gap=-0.5) == pytest.approx(wider)
    # What the evaluators miss moves their own estimate, which is below the middle.
    assert estimate(COMMON, Bias(0.7, 0.0), 0.5) == pytest.approx(wider)
    assert estimate(COMMON, Bias(1.2, 0.0), 0.5) == pytest.approx((plain.value, plain.low - 0.5, plain.high + 0.7))
    assert difference(COMMON + 6.0, COMMON).probability == 1.0
    assert difference(COMMON + 6.0, COMMON, gap=7.0).probability == 0.5


def test_equal_policies_have_no_difference() -> None:
    assert difference(COMMON, COMMON) == (0.0, 0.0, 0.0, 0.5)


def test_intervals_from_bootstraps_of_episodes_hold_the_exact_value_as_often_as_they_say() -> None:
    """With the exact solution of each bootstrap in place of a network: what is left is the statistics."""
    held, repeats, exact = 0, 300, chain.exact(1.0)
    rng = np.random.default_rng(0)
    for seed in range(repeats):
        data = chain.record(60, seed=seed)
        values = []
        for _ in range(8):
            weights = np.bincount(rng.integers(60, size=60), minlength=60)[data.episode_of]
            values.append(_solved(data.observations.argmax(axis=1), data, weights))
        low, high = estimate(values)[1:]
        held += low <= exact <= high
    assert 0.84 <= held / repeats <= 0.96


def _solved(states: np.ndarray, data: chain.Dataset, weights: np.ndarray) -> float:
    """The value of always going right where the weighted rows say how the chain moves."""
    chosen = (data.require("actions")[:, 0] == 1) & (weights > 0)
    following = data.next_observations.argmax(axis=1)
    moves, rewards = np.zeros((chain.STATES, chain.STATES)), np.zeros(chain.STATES)
    np.add.at(moves, (states[chosen], following[chosen]), weights[chosen] * ~data.terminals[chosen])
    np.add.at(rewards, states[chosen], weights[chosen] * data.require("rewards")[chosen])
    counts = np.maximum(np.bincount(states[chosen], weights[chosen], chain.STATES), 1)
    solved = np.linalg.solve(np.eye(chain.STATES) - chain.DISCOUNT * moves / counts[:, None], rewards / counts)
    return float(solved[chain.START])


def test_the_order_is_that_of_the_lower_ends() -> None:
    wild, sure = judged("wild", 9.0, own=3.0, seed=3), judged("sure", 6.8, seed=4)
    assert wild.value is not None
    assert sure.value is not None
    assert wild.value.value > sure.value.value
    found = judgement(wild, LEFT, sure)
    assert found.candidates[0].name == "sure"
    assert found.candidates[-1].name == "gone"
    assert [each.rank for each in found.candidates] == [1, 2, 3, None]


def test_the_last_word_names_the_policy_to_take_and_how_sure_that_is() -> None:
    words = judgement(judged("a", 7.0, seed=1), judged("b", 6.9, own=0.4, seed=2)).words()
    assert words.startswith("Take a: its value is ")
    assert "better than what recorded the data with a probability of over 99 %, than b with" in words


def test_no_policy_is_taken_that_is_not_clearly_better() -> None:
    found = judgement(judged("a", 5.0, own=1.0, seed=1))
    assert found.words().startswith("Keep what recorded the data: no policy is clearly better; the best guess is a")
    assert found.to_json()["take"] is None


def test_where_all_have_left_the_data_nothing_is_said() -> None:
    found = judgement(LEFT)
    assert found.words().startswith("Cannot tell: 90 % of its actions are unlike any")
    assert cells(found.candidates[-1])[1:3] == ["-", "-"]
    assert found.to_json()["candidates"][-1]["value"] is None
    assert LEFT.verdict == "cannot tell"


def test_the_table_has_a_row_for_each() -> None:
    lines = as_csv(judgement(judged("a", 7.0), LEFT)).splitlines()
    assert lines[0].startswith("name,run,seed,algorithm,rank,verdict,value,low,high,gain_value")
    assert [line.split(",")[0] for line in lines[1:]] == ["a", "data", "gone"]
    assert lines[1].split(",")[5] == "better than the data"


def test_estimates_disagree_where_their_intervals_do_not_meet() -> None:
    each = judged("a", 7.0)
    assert each.value is not None
    assert not disagree(each)
    assert disagree(replace(each, robust=Estimate(50.0, 40.0, 60.0)))
    assert not disagree(replace(each, robust=Estimate(7.0, each.value.high - 0.1, 60.0)))
    assert "disagrees" in judgement(replace(each, robust=Estimate(50.0, 40.0, 60.0))).words()
