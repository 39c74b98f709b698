"""What a setting may be, by its name; each algorithm's own tests name its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

from waypost.agents.settings import AT_LEAST_0, Rule, Settings
from waypost.errors import WaypostError


@dataclass(frozen=True)
class Config(Settings):
    tau: float = 0.5
    discount: float = 0.9
    dropout: float = 0.0
    minimum_share: float = 0.5
    weight_cap: float = 1.0
    samples: int = 1
    warmup_steps: int = 0
    policy_learning_rate: float = 0.0
    hidden: tuple[int, ...] = ()
    kernel: Literal["gaussian", "laplacian"] = "gaussian"
    anything: float = -1.0


@dataclass(frozen=True)
class Special(Config):
    acting_candidates: int = 0

    def rules(self) -> dict[str, Rule]:
        return {"acting_candidates": AT_LEAST_0, "samples": Rule("be odd", lambda x: x % 2 == 1)}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("tau", 2, "tau must be in (0, 1), got 2"),
        ("tau", float("nan"), "tau must be a finite number, got nan"),
        ("discount", 1.5, "discount must be in (0, 1], got 1.5"),
        ("dropout", 1.0, "dropout must be in [0, 1), got 1.0"),
        ("minimum_share", -0.1, "minimum_share must be in [0, 1], got -0.1"),
        ("weight_cap", 0.0, "weight_cap must be more than 0, got 0.0"),
        ("samples", 0, "samples must be 1 or more, got 0"),
        ("warmup_steps", -1, "warmup_steps must be 0 or more, got -1"),
        ("policy_learning_rate", -1e-3, "policy_learning_rate must be 0 or more, got -0.001"),
        ("hidden", (8, -1), "hidden must have 0 or more units in each layer, got (8, -1)"),
        ("kernel", "x", "kernel must be gaussian or laplacian, got 'x'"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_with_its_reason(name: str, value: Any, message: str) -> None:
    with pytest.raises(WaypostError) as caught:
        Config(**{name: value})
    assert str(caught.value) == message


def test_the_edges_of_a_range_belong_to_it_where_it_says_so() -> None:
    Config(discount=1.0, dropout=0.0, minimum_share=1.0, hidden=(1,), kernel="laplacian", anything=-1e9)
    Config(minimum_share=0.0, samples=1, policy_learning_rate=0.0)


def test_an_algorithms_own_rule_takes_the_place_of_the_common_one() -> None:
    assert Special(acting_candidates=0, samples=3).samples == 3
    with pytest.raises(WaypostError, match=r"^samples must be odd, got 2$"):
        Special(samples=2)
    with pytest.raises(WaypostError, match=r"^acting_candidates must be 0 or more, got -1$"):
        Special(acting_candidates=-1)
    with pytest.raises(WaypostError, match=r"^tau must be in \(0, 1\), got 1$"):
        Special(tau=1)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("samples", True, "samples must be a whole number, got True"),
        ("samples", 2.5, "samples must be a whole number, got 2.5"),
        ("samples", "x", "samples must be a whole number, got 'x'"),
        ("samples", 10_001, "samples must be 10000 or less, got 10001"),
        ("warmup_steps", 2**31, "warmup_steps must be 2147483647 or less, got 2147483648"),
        ("weight_cap", float("inf"), "weight_cap must be a finite number, got inf"),
        ("anything", "high", "anything must be a finite number, got 'high'"),
        ("hidden", 8, "hidden must be a list, each a whole number, got 8; for a list of one, write (8,)"),
        ("hidden", (8, 2.5), "hidden[1] must be a whole number, got 2.5"),
        ("hidden", (99_999_999_999,), "hidden must be 1048576 or less, got (99999999999,)"),
        ("hidden", (1,) * 3_000, "hidden must have 100 numbers or fewer, got 3000"),
    ],
)
def test_a_value_of_another_type_or_beyond_all_sense_is_refused(name: str, value: Any, message: str) -> None:
    with pytest.raises(WaypostError) as caught:
        Config(**{name: value})
    assert str(caught.value) == message


def test_lists_and_whole_floats_become_what_is_declared() -> None:
    made: Any = Config(hidden=[8, 8], samples=2.0, tau=np.float32(0.5))  # type: ignore[arg-type]
    assert (made.hidden, made.samples, made.tau) == ((8, 8), 2, 0.5)
    assert (type(made.samples), type(made.tau)) == (int, float)
