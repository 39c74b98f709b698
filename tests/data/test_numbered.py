"""Numbered parts: all there, nothing else, and of one mind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from samples import walk

from waypost.data.dataset import Dataset
from waypost.data.numbered import check_agreement, check_complete, is_part, is_set, part_name
from waypost.errors import WaypostError


def named(*numbers: int, total: int = 3, suffix: str = ".npz") -> list[Path]:
    return [Path("folder", part_name(number, total, suffix)) for number in numbers]


def test_names_tell_number_and_total() -> None:
    assert part_name(3, 16, ".npz") == "part-00003-of-00016.npz"
    assert is_part("any/part-00003-of-00016.parquet")
    for other in ("part-3-of-16.npz", "part-00003-of-00016.csv", "a-part-00003-of-00016.npz", "part-00003.npz"):
        assert not is_part(other)


def test_a_set_is_all_parts_in_their_order() -> None:
    assert is_set(named(0, 1, 2))
    for others in ([], named(0, 1), named(1, 0, 2), [*named(0, 1), *named(2, suffix=".parquet")], [Path("a.npz")]):
        assert not is_set(others)
    assert not is_set([named(0)[0], *(Path("other", path.name) for path in named(1, 2))])


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (named(0, 2), r"part-00001-of-00003.npz: is missing \(1 of 3 parts are\)"),
        (named(2), r"part-00000-of-00003.npz: is missing \(2 of 3 parts are\)"),
        ([*named(0, 1, 2), Path("folder/old.npz")], r"old.npz: is no part of the set that part-00000-of-00003.npz"),
        ([*named(0, 1, 2), *named(1, suffix=".parquet")], r"part-00001-of-00003.parquet: is no part of the set"),
        ([*named(0, 1, 2), *named(1, total=4)], r"part-00001-of-00004.npz: is no part of the set"),
        (named(0, 1, 2, 3), r"part-00003-of-00003.npz: is no part of the set"),
    ],
)
def test_what_is_not_one_whole_set_is_refused(files: list[Path], message: str) -> None:
    with pytest.raises(WaypostError, match=message):
        check_complete(files)


def test_other_files_are_none_of_its_business() -> None:
    check_complete([])
    check_complete([Path("a.npz"), Path("b.csv")])
    check_complete([*named(0, 1, 2), Path("elsewhere/a.npz")])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Dataset.without_rewards, r"two: columns observations \[2\], .* in one observations \[2\], .* must agree"),
        (
            lambda part: replace(part, action_high=np.full(2, 2.0)),
            r"two: action_high \[2.0, 2.0\], in one \[1",
        ),
        (lambda part: replace(part, task="hopper-medium"), "two: task hopper-medium, in one None"),
        (lambda part: replace(part, observation_names=("x", "y")), r"two: observation names \('x', 'y'\), in one \(\)"),
    ],
)
def test_parts_that_disagree_are_refused(change: Callable[[Dataset], Dataset], message: str) -> None:
    one, two = walk().named("one"), walk(seed=1).named("two")
    check_agreement([one, two])
    with pytest.raises(WaypostError, match=message):
        check_agreement([one, change(two)])


def test_a_part_begins_where_the_one_before_says() -> None:
    one, two = replace(walk(), goes_on=True).named("one"), walk(seed=1).named("two")
    with pytest.raises(WaypostError, match="two: does not begin where one ends; one of them is from other data"):
        check_agreement([one, two])
