"""Actions with parts, as rows of numbers and back."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from waypost.errors import WaypostError
from waypost.spaces import ActionPart, assembler

SPACE = spaces.Dict(
    [
        ("valve", spaces.Discrete(3, start=1)),
        ("arm", spaces.Tuple((spaces.Box(-1, 1, (2,)), spaces.MultiBinary(2)))),
        ("dials", spaces.MultiDiscrete([4, 5], start=[0, 2])),
        ("heater", spaces.Box(0, 100, (1,))),
    ]
)
ROWS = np.array([[1, 0.5, -0.5, 1, 0, 3, 6, 40], [3, 0.0, 1.0, 0, 1, 0, 2, 60]], np.float32)


def test_columns_have_the_names_and_choices_of_the_parts() -> None:
    _, parts = assembler(SPACE, "plant")
    assert parts == (
        ActionPart("valve", 3, 1),
        ActionPart("arm.0.0"),
        ActionPart("arm.0.1"),
        ActionPart("arm.1.0", 2),
        ActionPart("arm.1.1", 2),
        ActionPart("dials.0", 4),
        ActionPart("dials.1", 5, 2),
        ActionPart("heater"),
    )


def test_rows_become_actions_of_the_space() -> None:
    actions = assembler(SPACE, "plant")[0](ROWS)
    assert actions in batch_space(SPACE, 2)
    assert actions["valve"].tolist() == [1, 3]
    assert actions["arm"][0].tolist() == [[0.5, -0.5], [0.0, 1.0]]
    assert actions["arm"][1].tolist() == [[1, 0], [0, 1]]
    assert actions["dials"].tolist() == [[3, 6], [0, 2]]
    assert actions["heater"].tolist() == [[40.0], [60.0]]


def test_other_spaces_are_refused() -> None:
    with pytest.raises(
        WaypostError, match=r"plant: actions must be Box, Discrete, MultiDiscrete, MultiBinary, .* got Text"
    ):
        assembler(spaces.Tuple((spaces.Text(3),)), "plant")
