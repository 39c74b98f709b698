"""Statistics over seeds and tasks: coverage by simulation, aggregates by hand and by naive loops."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from waypost import statistics
from waypost.statistics import (
    aggregate_interquartile_mean,
    interquartile_mean,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    spread,
    spread_name,
    summarise,
)

# -- one task ----------------------------------------------------------------------------------------


def test_interquartile_mean_by_hand() -> None:
    assert interquartile_mean(np.array([0.0, 1, 2, 3, 4, 5, 6, 100])) == pytest.approx(3.5)
    assert interquartile_mean(np.array([7.0])) == 7
    # Of three numbers the outer two keep a quarter of their weight each: (0.25 a + b + 0.25 c) / 1.5.
    assert interquartile_mean(np.array([0.0, 3.0, 30.0])) == pytest.approx((0.25 * 0 + 3 + 0.25 * 30) / 1.5)


@pytest.mark.parametrize("count", [4, 8, 20])
def test_interquartile_mean_is_scipys_trimmed_mean_of_a_multiple_of_four(count: int) -> None:
    from scipy.stats import trim_mean

    numbers = np.random.default_rng(count).normal(size=count)
    assert interquartile_mean(numbers) == pytest.approx(trim_mean(numbers, 0.25))


def test_summary_over_seeds() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 10.0]
    summary = summarise(values)
    assert summary["mean"] == 4
    assert summary["std"] == pytest.approx(np.std(values, ddof=1))
    assert summary["range"] == [1, 10]
    # Student's t of 4 degrees of freedom is 2.7764; the standard error is sqrt(12.5 / 5).
    assert summary["interval"] == pytest.approx([4 - 2.776445 * 2.5**0.5, 4 + 2.776445 * 2.5**0.5])
    assert summarise(values) == summarise(values[::-1])


def test_the_interval_is_scipys() -> None:
    from scipy.stats import t

    values = np.random.default_rng(0).normal(size=9)
    expected = t.interval(0.95, 8, values.mean(), values.std(ddof=1) / 3)
    assert summarise(values.tolist())["interval"] == pytest.approx(expected)


def test_one_seed_has_no_spread_and_none_stays_none() -> None:
    assert summarise([3.0]) == {"mean": 3.0, "std": 0.0, "iqm": 3.0, "range": None, "interval": None}
    for values in ([1.0, None], []):
        assert set(summarise(values).values()) == {None}
    assert spread([3.0]) is None
    assert spread([1.0, None]) is None


@pytest.mark.parametrize("seeds", [2, 3, 4, 5, 6])
def test_fewer_than_five_seeds_have_a_range_and_no_interval(seeds: int) -> None:
    values = [float(seed**2) for seed in range(seeds)]
    summary = summarise(values)
    assert summary["range"] == [0, (seeds - 1) ** 2]
    assert (summary["interval"] is None) == (seeds < 5)
    assert spread(values) == (summary["range"] if seeds < 5 else summary["interval"])
    assert spread_name(seeds) == ("range of the seeds" if seeds < 5 else "95 % interval")


def test_equal_seeds_give_a_point() -> None:
    assert spread([7.0] * 3) == spread([7.0] * 5) == [7, 7]


POPULATIONS: dict[str, tuple[Callable[[np.random.Generator, tuple[int, int]], np.ndarray], float]] = {
    "normal": (lambda rng, shape: rng.normal(3.0, 2.0, shape), 3.0),
    "exponential": (lambda rng, shape: rng.exponential(1.0, shape), 1.0),
    "success rates": (lambda rng, shape: rng.binomial(100, rng.beta(8, 2, shape)) / 100, 0.8),
}


@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize("seeds", [5, 10, 20])
def test_intervals_hold_the_true_mean_as_often_as_they_say(name: str, seeds: int) -> None:
    """In 2000 samples; a skewed population is missed more often, by no more than the module says."""
    draw, mean = POPULATIONS[name]
    samples = draw(np.random.default_rng(seeds), (2000, seeds))
    ends = np.array([summarise(sample.tolist())["interval"] for sample in samples])
    covered = np.mean((ends[:, 0] <= mean) & (mean <= ends[:, 1]))
    assert (0.87 if name == "exponential" else 0.915) < covered < 0.965


# -- several tasks -----------------------------------------------------------------------------------

SCORES = {"a": [0.0, 10.0, 20.0, 30.0], "b": [50.0, 60.0, 110.0, 120.0]}
OTHER = {"b": [60.0, 45.0], "a": [10.0, 40.0]}


def test_aggregates_by_hand() -> None:
    # The middle four of 0, 10, 20, 30, 50, 60, 110, 120.
    assert aggregate_interquartile_mean(SCORES) == (40, None)
    # 110 and 120 count as 100.
    assert optimality_gap(SCORES) == (100 - (0 + 10 + 20 + 30 + 50 + 60 + 100 + 100) / 8, None)
    # On a 2.5 of 8 pairs (one of them a tie), on b 6.5 of 8.
    assert probability_of_improvement(SCORES, OTHER) == ((2.5 / 8 + 6.5 / 8) / 2, None)
    profile = performance_profile(SCORES, [0, 30, 115])
    assert profile.shares.tolist() == [0.875, 0.5, 0.125]
    assert profile.interval is None


def test_probabilities_of_improvement_add_up_to_one_and_equals_are_even() -> None:
    one, other = probability_of_improvement(SCORES, OTHER), probability_of_improvement(OTHER, SCORES)
    assert one.value + other.value == pytest.approx(1)
    assert probability_of_improvement(SCORES, SCORES).value == 0.5
    with pytest.raises(ValueError, match="both sides must have scores of the same tasks, got"):
        probability_of_improvement(SCORES, {"a": [1.0]})


@pytest.fixture
def drawn() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Whole numbers, so that there are ties; other numbers of seeds on every task."""
    rng = np.random.default_rng(5)
    return tuple({task: rng.integers(0, 120, count).astype(float) for task, count in counts.items()} for counts in (
        {"a": 5, "b": 6, "c": 7}, {"a": 6, "b": 5, "c": 9},
    ))  # fmt: skip


def test_aggregates_are_those_of_loops(drawn: tuple[dict[str, np.ndarray], dict[str, np.ndarray]]) -> None:
    from scipy.stats import mannwhitneyu, trim_mean

    one, other = drawn
    runs = [score for scores in one.values() for score in scores]
    assert aggregate_interquartile_mean(one).value == pytest.approx(trim_mean(runs, proportiontocut=0.25))
    assert optimality_gap(one, 90).value == pytest.approx(90 - np.mean([min(run, 90) for run in runs]))
    probabilities = []
    for task in one:
        wins = [1.0 if x > y else 0.5 if x == y else 0.0 for x, y in product(one[task], other[task])]
        statistic = mannwhitneyu(one[task], other[task]).statistic
        assert np.sum(wins) == statistic
        probabilities.append(np.mean(wins))
    assert probability_of_improvement(one, other).value == pytest.approx(np.mean(probabilities))
    levels = [10.0, 60.0, 61.0, 119.0]
    expected = [np.mean([np.mean([run > level for run in scores]) for scores in one.values()]) for level in levels]
    assert performance_profile(one, levels).shares == pytest.approx(expected)


def test_intervals_are_those_of_a_stratified_bootstrap(
    drawn: tuple[dict[str, np.ndarray], dict[str, np.ndarray]],
) -> None:
    """Of the same number of resamples, drawn task by task in a loop: the ends agree up to their noise."""
    from scipy.stats import trim_mean

    one, other = drawn
    rng = np.random.default_rng(99)
    found: dict[str, list[float]] = {"iqm": [], "gap": [], "better": [], "above": []}
    for _ in range(3000):
        x, y = ({task: rng.choice(scores, len(scores)) for task, scores in each.items()} for each in (one, other))
        runs = np.concatenate(list(x.values()))
        found["iqm"].append(trim_mean(runs, 0.25))
        found["gap"].append(100 - np.minimum(runs, 100).mean())
        pairs = [(x[task][:, None] > y[task]).mean() + 0.5 * (x[task][:, None] == y[task]).mean() for task in x]
        found["better"].append(float(np.mean(pairs)))
        found["above"].append(float(np.mean([(scores > 60).mean() for scores in x.values()])))
    ends = {name: np.percentile(values, (2.5, 97.5)) for name, values in found.items()}
    assert aggregate_interquartile_mean(one).interval == pytest.approx(ends["iqm"], abs=2.0)
    assert optimality_gap(one).interval == pytest.approx(ends["gap"], abs=2.0)
    assert probability_of_improvement(one, other).interval == pytest.approx(ends["better"], abs=0.02)
    profile = performance_profile(one, [60.0, 200.0])
    assert profile.interval is not None
    assert profile.interval[:, 0] == pytest.approx(ends["above"], abs=0.04)
    assert profile.interval[:, 1].tolist() == [0, 0]
    assert aggregate_interquartile_mean(one) == aggregate_interquartile_mean(one)


def test_a_task_with_too_few_seeds_leaves_no_interval(
    drawn: tuple[dict[str, np.ndarray], dict[str, np.ndarray]],
) -> None:
    one, other = drawn
    few = {**one, "a": one["a"][:4]}
    assert aggregate_interquartile_mean(few).interval is None
    assert probability_of_improvement(other, few).interval is None
    assert performance_profile(few, [1.0]).interval is None


@pytest.mark.parametrize(("tasks", "least"), [(3, 0.8), (10, 0.85)])
def test_stratified_intervals_hold_the_truth(tasks: int, least: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five seeds of normal scores: in somewhat less than 95 %, as the module says. The truth is that of many runs."""
    monkeypatch.setattr(statistics, "RESAMPLES", 500)
    rng = np.random.default_rng(tasks)
    means, widths = np.linspace(20, 90, tasks), rng.uniform(3, 15, tasks)
    many = np.sort(rng.normal(means, widths, (50_000, tasks)).ravel())
    truth = many[len(many) // 4 : -len(many) // 4].mean()
    held = []
    for _ in range(300):
        scores = {str(task): rng.normal(means[task], widths[task], 5) for task in range(tasks)}
        low, high = aggregate_interquartile_mean(scores).interval or (0.0, 0.0)
        held.append(low <= truth <= high)
    assert least < np.mean(held) < 0.98
