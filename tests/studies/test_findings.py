"""What a diagnosis advises follows from its numbers: of agents whose true worth is known."""

from __future__ import annotations

import numpy as np
import pytest

from waypost.studies.findings import ADVICE, MEANINGS, Diagnosis

TANK = {"data_to_data": 0.058, "inverse_slope": 1.85, "recorded_gap": 0.427, "action_spread": 0.356}
SOUND = {
    **TANK, "guide_distance": 0.292, "guide_to_data": 0.096, "executor_slope": 2.9, "l1": 1.35, "l2": 0.279,
    "l3": 0.147, "bound": 1.78, "gap": 0.306, "value_gain": 0.998,
}  # fmt: skip
"""Means of `waypost diagnose` for POR on the tank's log: return -111, no trips; the log's is -251."""
WRECK = {
    **TANK, "guide_distance": 2.713, "guide_to_data": 0.732, "executor_slope": 15.0, "l1": 47.3, "l2": 0.403,
    "l3": 1.34, "bound": 49.0, "gap": 1.056, "value_gain": 0.642,
}  # fmt: skip
"""The same with `--preset none --rewards recorded --inverse-temperature 100`: every batch ends with a trip."""
COPY = {
    **TANK, "guide_distance": 0.224, "guide_to_data": 0.07, "executor_slope": 3.0, "l1": 1.058, "l2": 0.393,
    "l3": 0.147, "bound": 1.598, "gap": 0.362, "value_gain": 0.061,
}  # fmt: skip
"""The same with `--inverse-temperature 0`: return -265, as the log's."""
ROOMS = {
    "guide_distance": 0.111, "guide_to_data": 0.006, "data_to_data": 0.005, "inverse_slope": 34.8,
    "executor_slope": 12.0, "l1": 4.86, "l2": 0.949, "l3": 0.455, "bound": 6.27, "gap": 0.941, "recorded_gap": 1.341,
    "action_spread": 1.026, "value_gain": 1.82,
}  # fmt: skip
"""POR on four-rooms, 4000 updates."""


def diagnosis(
    means: dict[str, float], temperature: float = 3.0, scaling: str = "robust", widths: float = 1242.0
) -> Diagnosis:
    assert set(means) == set(MEANINGS)
    measures = {name: np.full(4, value) for name, value in means.items()}
    return Diagnosis(measures, temperature, {"observation_scaling": scaling}, widths)


@pytest.mark.parametrize(("means", "widths"), [(SOUND, 1242.0), (ROOMS, 1.0)])
def test_a_sound_agent_is_called_sound(means: dict[str, float], widths: float) -> None:
    found = diagnosis(means, widths=widths)
    assert found.findings() == []
    assert found.to_json()["sound"]
    assert found.reading().startswith("The agent is sound")
    assert "inverse" not in found.reading()


def test_one_that_wrecks_the_plant_is_told_what_is_wrong() -> None:
    found = diagnosis(WRECK, 100.0, "none")
    assert [each.what for each in found.findings()] == ["scaling"]
    assert not found.to_json()["sound"]
    assert found.reading().startswith("Not sound: the guide's goals are 13 times as far from recorded states")
    assert "--observation-scaling robust" in found.reading()


def test_where_columns_were_scaled_the_guide_is_to_blame_and_the_executor() -> None:
    guide, executor = diagnosis(WRECK, 100.0).findings()
    assert (guide.what, executor.what) == ("guide", "executor")
    assert "it was 100; try 33" in guide.text
    assert "its error is 1.3" in executor.text


def test_a_copy_of_the_log_is_told_to_aim_higher() -> None:
    (finding,) = diagnosis(COPY, 0.0).findings()
    assert finding.what == "aim"
    assert "Raise `--inverse-temperature` (it was 0)" in finding.text


def test_goals_near_the_data_and_bad_actions_are_the_executors_slope() -> None:
    (finding,) = diagnosis({**SOUND, "gap": 0.6}).findings()
    assert finding.what == "steep"
    assert "2.9 per standard deviation" in finding.text


def test_goals_may_be_far_if_many_are_near() -> None:
    """In data that repeat themselves the usual distance is next to nothing."""
    found = diagnosis({**SOUND, "data_to_data": 0.0})
    assert [each.what for each in found.findings()] == ["guide"]
    found.measures["guide_to_data"][0] = 0.0
    assert found.near == 0.25
    assert found.findings() == []


def test_every_advice_can_be_given() -> None:
    numbers = dict.fromkeys([*MEANINGS, "times", "widths", "temperature", "less"], 1.0)
    assert set(ADVICE) == {"sound", "scaling", "guide", "executor", "steep", "aim"}
    for text in ADVICE.values():
        assert "  " not in text.format(**numbers)
