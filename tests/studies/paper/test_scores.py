"""Words about scores: what was checked where two come out in another order than the paper's."""

from __future__ import annotations

from typing import Any

import pytest

from waypost.errors import DirectoryError
from waypost.studies.paper.scores import Score, attempt, chance, possible_reasons, seeds_and_updates

DATA = "hopper-medium"


def scored(made: Any, kind: str, values: list[float]) -> Score:
    return Score(DATA, kind, tuple(values), (made("por", DATA, values),))


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ([10.0, 20.0], [30.0, 40.0], "the seeds do not overlap (B 30.0 to 40.0 and A 10.0 to 20.0);"),
        ([30.0, 40.0], [10.0, 20.0], "the seeds do not overlap (A 30.0 to 40.0 and B 10.0 to 20.0);"),
        ([10.0, 32.0], [30.0, 40.0], "the seeds overlap (B 30.0 to 40.0 and A 10.0 to 32.0), so it may be chance;"),
        ([10.0], [30.0], "with one seed each it may be chance;"),
        ([10.0], [30.0, 40.0], "with one seed of A it may be chance;"),
        ([10.0, 20.0], [30.0], "with one seed of B it may be chance;"),
    ],
)
def test_seeds_say_whether_it_may_be_chance(made: Any, one: list[float], other: list[float], said: str) -> None:
    assert possible_reasons(scored(made, "A", one), scored(made, "B", other)).startswith(f"Checked on {DATA}: {said} ")


def test_the_second_half_says_whether_they_were_done(made: Any) -> None:
    falls = made("por", DATA, [8.0, 4.0])
    falls.evaluations[:] = [
        {"step": step, "seed": seed, "score": score}
        for step, scores in ((20, (1.0, 1.0)), (40, (9.0, 7.0)), (60, (50.0, 50.0)), (100, (8.0, 4.0)))
        for seed, score in enumerate(scores)
    ]
    text = possible_reasons(Score(DATA, "A", (8.0, 4.0), (falls,)), scored(made, "B", [30.0, 40.0]))
    assert "A did not rise from update 40 to 100 (8.0 to 6.0); B rose from update 50 to 100 (17.5 to 35.0)." in text


def test_one_evaluation_at_the_end_says_nothing_of_it(made: Any) -> None:
    once = scored(made, "A", [8.0, 4.0])
    once.runs[0].evaluations[:] = once.runs[0].evaluations[-2:]
    assert len(once.evaluations[0]) == 1
    assert "update" not in possible_reasons(once, Score(DATA, "B", (9.0, 9.0)))


@pytest.mark.parametrize(("steps", "said"), [(100, True), (499, True), (500, False), (50_000, False)])
def test_a_rehearsal_is_called_one(made: Any, steps: int, said: bool) -> None:
    """POR's preset for these data has 50 000 updates."""
    words = seeds_and_updates([Score(DATA, "A", (1.0,), (made("por", DATA, [1.0], steps=steps),))])
    assert words.startswith(f"1 seed of {steps} updates")
    assert ("the scores mean nothing yet" in words) == said
    assert ("presets have 50000" in words) == (steps < 50_000)


def test_without_a_score_there_is_nothing_to_check(made: Any) -> None:
    assert possible_reasons(scored(made, "A", [1.0]), Score(DATA, "B", note="value_loss is nan")) == ""


def test_a_welcome_order_may_be_chance_too(made: Any) -> None:
    low, high, between = (scored(made, "A", values) for values in ([1.0, 2.0], [4.0, 6.0], [2.0, 5.0]))
    assert chance([(low, high), (high, low)]) == ""
    for pair in ((high, between), (between, high), (low, between)):
        assert chance([(low, high), pair]) == f"On {DATA} the seeds of the two overlap: the order there may be chance."
    assert chance([(scored(made, "A", [1.0]), scored(made, "B", [9.0]))]).startswith("With one seed each")
    assert chance([(low, scored(made, "B", [9.0]))]) == "Where a method has one seed, the order may be chance."
    assert chance([(low, Score(DATA, "B", note="failed"))]) == ""
    assert chance([]) == ""


def test_a_folder_in_use_is_no_note_of_a_row() -> None:
    def busy() -> Any:
        raise DirectoryError("runs/por: another process is training there")

    with pytest.raises(DirectoryError, match="another process"):
        attempt(None, DATA, "POR", busy)  # type: ignore[arg-type]
