"""Which settings a sweep tries."""

from __future__ import annotations

from typing import Any

import pytest

from waypost.errors import WaypostError
from waypost.studies import candidates
from waypost.studies.candidates import Grid, Range, Suggested, read_grid, read_ranges


def test_values_are_of_the_type_of_their_setting() -> None:
    found = read_grid("iql", ["tau=0.7,0.9", "hidden=[64],[64,64]", "inverse-temperature=3,10"])
    assert found == {"tau": [0.7, 0.9], "hidden": [(64,), (64, 64)], "inverse_temperature": [3, 10]}
    assert read_ranges("iql", ["tau=0.5:0.9", "batch_size=32:512:log"]) == {
        "tau": Range(0.5, 0.9),
        "batch_size": Range(32, 512, True),
    }
    assert read_grid("por", ["training=guide,executor"]) == {"training": ["guide", "executor"]}


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ("tau", "'tau': not a setting with values; write for example tau=0.7,0.9"),
        ("tau=", "not a setting with values"),
        ("tua=0.7", "iql has no setting tua; `waypost train iql --help` lists them; did you mean tau?"),
        ("tau=high", "tau must be a finite number, got 'high'"),
        ("tau=0.7,0.7", "a value appears twice"),
    ],
)
def test_a_wrong_grid_is_refused(grid: str, words: str) -> None:
    with pytest.raises(WaypostError) as refused:
        read_grid("iql", [grid])
    assert words in str(refused.value)


def test_a_setting_is_there_once() -> None:
    with pytest.raises(WaypostError, match="tau is given twice"):
        read_grid("iql", ["tau=0.7", "tau=0.9"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tau=0.9:0.5", "the first number must be below the second$"),
        ("tau=0:0.5:log", "and be above 0 on a log scale"),
        ("tau=0.5:0.9:exp", "the scale must be log or left out, got exp"),
        ("tau=0.5", "not a range of numbers"),
        ("hidden=[64]:[128]", "not a range of numbers"),
    ],
)
def test_a_wrong_range_is_refused(text: str, words: str) -> None:
    with pytest.raises(WaypostError, match=words):
        read_ranges("iql", [text])


def test_a_grid_is_every_combination(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = Grid({"a": [1, 2], "b": ["x", "y"]})
    found = [grid.next() for _ in range(5)]
    assert found == [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "x"}, {"a": 2, "b": "y"}, None]
    monkeypatch.setattr(candidates, "MOST", 3)
    with pytest.raises(WaypostError, match="the grid has 4 combinations; the most are 3"):
        Grid({"a": [1, 2], "b": ["x", "y"]})


def search(count: int, **options: Any) -> Suggested:
    return Suggested({"hidden": [(8,), (16,)]}, {"tau": Range(0.1, 0.9), "width": Range(2, 64, True)}, count, **options)


def value(settings: dict[str, Any]) -> float:
    return -abs(settings["tau"] - 0.7)


def test_a_search_is_the_same_after_an_interruption_and_gets_better() -> None:
    whole, found = search(30, seed=3), []
    while (settings := whole.next()) is not None:
        found.append(settings)
        whole.tell(settings, value(settings))
    assert len(found) == 30
    assert {settings["hidden"] for settings in found} == {(8,), (16,)}
    assert all(isinstance(settings["width"], int) and 2 <= settings["width"] <= 64 for settings in found)
    assert sum(map(value, found[20:])) > sum(map(value, found[:10])), "it learns from what it is told"
    again = search(30, seed=3, again=found[:15])
    for expected in found:
        settings = again.next()
        assert settings == expected
        assert settings is not None
        again.tell(settings, value(settings))


def test_what_was_not_trained_to_the_end_is_told_too() -> None:
    few = search(2, lower=True)
    first, second = few.next(), few.next()
    assert first is not None
    assert second is not None
    few.tell(second, 1.0)
    few.tell(first, None)
    assert [trial.state.name for trial in few.study.trials] == ["PRUNED", "COMPLETE"]
    assert few.next() is None
    with pytest.raises(WaypostError, match="trials must be from 1 to 10000, got 0"):
        search(0)
