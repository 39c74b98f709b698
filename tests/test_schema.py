"""Values against the types that are declared for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np
import pytest

from waypost.errors import WaypostError
from waypost.schema import build, conform, conform_fields, shown

HUGE = "x must have fewer than 20 digits, got a number of more than 60 digits"


class Part(TypedDict):
    name: str
    size: NotRequired[int]


@dataclass(frozen=True)
class Inner:
    count: int = 1
    shares: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        conform_fields(self)
        if self.count < 0:
            raise WaypostError("count must be 0 or more")


@dataclass(frozen=True)
class Outer:
    inner: Inner
    word: str | None = None
    form: Literal["a", "b"] = "a"
    table: dict[str, tuple[int, ...]] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("value", "kind", "found"),
    [
        (3, int, 3),
        (20.0, int, 20),
        (np.int64(3), int, 3),
        (3, float, 3),
        (np.float32(0.5), float, 0.5),
        (True, bool, True),
        (np.bool_(True), bool, True),
        (None, int | None, None),
        ("x", str | None, "x"),
        (2, str | int, 2),
        ("a", Literal["a", "b"], "a"),
        ([1, 2], tuple[int, ...], (1, 2)),
        ([1, 0.5], tuple[int, float], (1, 0.5)),
        ((1, 2), list[int], [1, 2]),
        ({"a": [1]}, dict[str, tuple[int, ...]], {"a": (1,)}),
        ({"a": 1}, Mapping[str, Any], {"a": 1}),
        ({"name": "x", "other": 1}, Part, {"name": "x", "other": 1}),
        ({"inner": {"shares": [1]}}, Outer, Outer(Inner(1, (1,)))),
        (Inner(2), Inner, Inner(2)),
    ],
)
def test_a_value_becomes_what_is_declared(value: Any, kind: Any, found: Any) -> None:
    conforming = conform(value, kind, "it")
    assert conforming == found
    assert type(conforming) is type(found)


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (True, int, "x must be a whole number, got True"),
        (20.5, int, "x must be a whole number, got 20.5"),
        ("3", int, "x must be a whole number, got '3'"),
        (10**25, int, "x must have fewer than 20 digits, got 10000000000000000000000000"),
        pytest.param(10**6000, int, HUGE, id="huge"),
        pytest.param(10**6000, float, HUGE, id="huge float"),
        (float("inf"), float, "x must be a finite number, got inf"),
        (float("nan"), float, "x must be a finite number, got nan"),
        (float("nan"), int, "x must be a whole number, got nan"),
        (True, float, "x must be a finite number, got True"),
        (1, bool, "x must be true or false, got 1"),
        (1, str, "x must be a text, got 1"),
        (1, Literal["a", "b"], "x must be a or b, got 1"),
        (True, Literal[1], "x must be 1, got True"),
        ([], Literal["a", "b"], "x must be a or b, got []"),
        (None, int, "x must be a whole number, got None"),
        ([], str | int, "x must be a text or a whole number, got []"),
        (3, tuple[int, ...], "x must be a list, each a whole number, got 3; for a list of one, write (3,)"),
        ("ab", tuple[str, ...], "x must be a list, each a text, got 'ab'"),
        ([1], tuple[int, int], "x must be a list of 2 values, got [1]"),
        ([1, "y"], list[int], "x[1] must be a whole number, got 'y'"),
        ([], dict[str, int], "x must be a table of names and values, got []"),
        ({"a": "b"}, dict[str, int], "x.a must be a whole number, got 'b'"),
        (None, Part, "x must be a table of names and values, got None"),
        ({}, Part, "x.name is missing"),
        ({"name": "y", "size": 1.5}, Part, "x.size must be a whole number, got 1.5"),
        ([], Outer, "x must be a table of names and values, got []"),
        ({}, Outer, "x.inner is missing"),
        ({"inner": {}, "more": 1}, Outer, "x has unknown fields: 'more'"),
        ({"inner": {"count": "3"}}, Outer, "x.inner.count must be a whole number, got '3'"),
        ({"inner": {"count": -1}}, Outer, "x.inner: count must be 0 or more"),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_place(value: Any, kind: Any, message: str) -> None:
    with pytest.raises(WaypostError) as caught:
        conform(value, kind, "x")
    assert str(caught.value) == message


def test_the_whole_of_a_file_needs_no_place() -> None:
    with pytest.raises(WaypostError, match=r"^inner is missing$"):
        build({}, Outer, "")
    with pytest.raises(WaypostError, match=r"^it must be a table of names and values, got None$"):
        build(None, Outer, "")


def test_what_is_shown_is_short() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert shown(deep) == "a list"
    assert shown("x" * 1000) == "'" + "x" * 59 + "..."
    while deep:
        deep = deep[0]  # taken apart by hand: freeing it at once would nest as deeply
