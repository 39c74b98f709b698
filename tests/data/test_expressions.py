"""Rewards as expressions: numbers as NumPy has them, and nothing that runs code."""

from __future__ import annotations

import numpy as np
import pytest

from waypost.data.expressions import is_reference, parse
from waypost.errors import WaypostError

ROWS = {
    "temp": np.array([1.0, -2.0, 3.0]),
    "trip": np.array([False, True, False]),
    "mode": np.array(["auto", "off", "auto"], object),
    "obs": np.arange(6.0).reshape(3, 2),
    "Temp [C]": np.array([5.0, 6.0, 7.0]),
}


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("-abs(temp - 1) - 20*trip", [0, -23, -2]),
        ("temp ** 2 / 2 % 3", [0.5, 2, 1.5]),
        ("max(temp, 0, 2) + min(temp, 1)", [3, 0, 4]),
        ("clip(temp, -1, 1)", [1, -1, 1]),
        ("where(temp > 0, 1, -1)", [1, -1, 1]),
        ("1 if mode == 'auto' else 0", [1, 0, 1]),
        ("(temp > 0 and not trip) + 0", [1, 0, 1]),
        ("-trip or temp < 0", [0, 1, 0]),
        ("0 < temp < 2", [1, 0, 0]),
        ("obs[1] - obs[0]", [1, 1, 1]),
        ('column("Temp [C]") * 2', [10, 12, 14]),
        ("-1", -1),
        ("9**9**9", np.inf),
    ],
)
def test_what_an_expression_gives(text: str, numbers: object) -> None:
    np.testing.assert_allclose(np.asarray(parse(text)(ROWS), float), numbers)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "temp.__class__",
        "(lambda: 0)()",
        "[x for x in temp]",
        "open('file')",
        "temp[trip]",
        "exec('1')",
        "f'{temp}'",
        "temp := 3",
        "abs(x=temp)",
        "sqrt()",
        "clip(temp)",
        "temp << 3",
        "{}",
        "...",
        "1j",
        "b'x'",
        "",
        "temp; trip",
        "(" * 400 + "1" + ")" * 400,
        "-" * 999 + "1",
        "1" * 1001,
    ],
)
def test_whatever_else_is_refused(text: str) -> None:
    with pytest.raises(WaypostError, match="reward"):
        parse(text)


def test_names_are_those_of_columns() -> None:
    assert parse('abs(temp - next_temp) + obs[3] + column("a b") + abs(temp)').names == [
        "temp",
        "next_temp",
        "obs",
        "a b",
    ]


@pytest.mark.parametrize(
    ("text", "names"), [("mine.py:west", True), ("a.b:c", True), ("mine.py", True), ("temp", False), ("-a/b", False)]
)
def test_a_function_is_named_otherwise(text: str, names: bool) -> None:
    assert is_reference(text) == names
    if names:
        with pytest.raises(WaypostError, match="write an expression"):
            parse(text)
