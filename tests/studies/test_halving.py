"""Which trials go on after a rung."""

from __future__ import annotations

import math

import pytest

from waypost.errors import WaypostError
from waypost.studies.halving import Halving


def test_rungs_are_so_many_times_apart() -> None:
    assert Halving(900).rungs == [100, 300]
    assert Halving(1000, 2, 100).rungs == [100, 200, 400, 800]
    halving = Halving(900)
    assert [halving.next(step) for step in (0, 100, 299, 300)] == [100, 300, 300, None]


def test_the_best_third_goes_on() -> None:
    halving = Halving(900)
    values = [5.0, 4.0, 6.0, 3.0, 7.0, 6.5, math.nan, 5.5, 6.6]
    assert [halving.goes_on(100, value) for value in values] == [
        True,  # nobody is there to compare with
        False,
        True,
        False,
        True,
        True,  # the second of six
        False,
        False,
        True,  # the second of nine
    ]
    assert halving.goes_on(300, 0.0), "each rung has numbers of its own"
    assert halving.goes_on(100, None), "nothing was measured"


def test_lower_may_be_better_and_what_was_measured_before_counts() -> None:
    halving = Halving(900, lower=True)
    halving.remember({100: 1.0, 7: 3.0, 300: None})
    assert halving.values == {100: [1.0], 300: []}
    assert not halving.goes_on(100, 2.0)
    assert halving.goes_on(100, 0.5)


def test_what_makes_no_rungs_is_refused() -> None:
    with pytest.raises(WaypostError, match="factor of successive halving must be 2 or more, got 1"):
        Halving(900, 1)
    with pytest.raises(WaypostError, match="first rung must be below 900, the updates of a whole trial, got 900"):
        Halving(900, first=900)
