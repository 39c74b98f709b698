"""A policy folder from a stranger: what policy.json claims is compared with what the files hold."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import waypost
from waypost.agents import algorithm
from waypost.agents.agent import Spec
from waypost.data.pipeline import Learned, Pipeline, Reading
from waypost.errors import WaypostError
from waypost.training.policy import Policy, load_policies, save_policies

SMALL = {"value_hidden": (4,), "guide_hidden": (4,), "executor_hidden": (4,)}


@pytest.fixture(scope="module")
def made() -> list[Policy]:
    """Two agents that have learned nothing."""
    chosen = algorithm("por")
    config = chosen.config_type(**SMALL)
    moments = {
        f"{name}_{each}": (float(each == "std"),) * 2
        for name in ("observation", "direction")
        for each in ("mean", "std")
    }
    spec = Spec(2, 1, (-1.0,), (1.0,), statistics=moments)
    return [Policy("por", config, spec, chosen.build(config, spec), seed) for seed in (0, 7)]


@pytest.fixture
def folder(made: list[Policy], tmp_path: Path) -> Path:
    return save_policies(made, tmp_path / "policy")


def refused(folder: Path) -> str:
    with pytest.raises(WaypostError) as caught:
        load_policies(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_was_saved_is_loaded(folder: Path, made: list[Policy]) -> None:
    assert [policy.seed for policy in load_policies(folder)] == [0, 7]
    row = np.zeros(2)
    assert np.array_equal(waypost.Policy.load(folder, seed=7).act(row), made[1].act(row))


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("seeds", list(range(20_000)), "the number of seeds must be 10000 or less, got 20000"),
        ("seeds", [0, 0], "seeds must be one or more different numbers from 0 up, got [0, 0]"),
        ("seeds", [], "seeds must be one or more different numbers"),
        ("seeds", [-1], "seeds must be one or more different numbers from 0 up"),
        ("seeds", ["0"], "seeds[0] must be a whole number, got '0'"),
        ("seeds", [0, 5], "seed-5.safetensors: is missing"),
        ("format", 2, "format must be 1, got 2"),
        ("algorithm", ["por"], "algorithm must be a text, got ['por']"),
        ("algorithm", "xx", "no algorithm is called 'xx'"),
        ("missing", ["agent"], "'agent' cannot be missing from a GuidedAgent"),
        ("missing", ["executor"], "is not part of such an agent"),
        ("config.value_hidden", [2] * 3_000, "value_hidden must have 100 numbers or fewer, got 3000"),
        ("config.value_hidden", [2**20] * 3, "the networks would take"),
        ("config.value_hidden", [5], "is saved as F32 (4, 2), expected F32 (5, 2)"),
        ("config.value_hidden", [[4]], "config.value_hidden[0] must be a whole number, got [4]"),
        ("config.tau", -1, "tau must be in (0, 1), got -1"),
        ("config.executor_inputs", [7], "index 7 is out of bounds"),
        ("spec", [], "spec must be a table of names and values, got []"),
        ("spec.observation_size", 10**12, "spec.observation_size must be from 1 to 1000000, got 1000000000000"),
        ("spec.observation_size", 3, "spec.statistics.observation_mean must have a number for each column"),
        ("spec.action_low", [2.0], "spec.action_low must not be above spec.action_high"),
        ("spec.action_low", [], "must have a number for each action column"),
        ("spec.action_high", [float("inf")], "spec.action_high[0] must be a finite number, got inf"),
        ("spec.statistics.direction_std", [0.0, 1.0], "spec.statistics.direction_std must be more than 0"),
        ("spec.statistics", {}, "observation_mean"),
    ],
)
def test_what_policy_json_claims_is_checked(folder: Path, place: str, value: Any, message: str) -> None:
    record = json.loads((folder / "policy.json").read_text())
    *path, name = place.split(".")
    inner = record
    for each in path:
        inner = inner[each]
    inner[name] = value
    (folder / "policy.json").write_text(json.dumps(record))
    assert message in refused(folder)


@pytest.mark.parametrize("text", ["[]", "null", "[" * 100_000, '{"seeds": 1, "seeds": 2}'], ids=lambda text: text[:9])
def test_a_policy_json_that_is_none_is_named(folder: Path, text: str) -> None:
    (folder / "policy.json").write_text(text)
    assert refused(folder).startswith(f"{folder / 'policy.json'}: ")


def changed(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[dict[str, np.ndarray]], None]:
    def apply(arrays: dict[str, np.ndarray]) -> None:
        arrays["agent.executor.actions.high"] = change(arrays["agent.executor.actions.high"])

    return apply


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            changed(lambda x: x * np.float32(np.nan)),
            "agent.executor.actions.high has values that are NaN or infinite",
        ),
        (
            changed(lambda x: x * np.float32(np.inf)),
            "agent.executor.actions.high has values that are NaN or infinite",
        ),
        (
            changed(lambda x: x.astype(np.float64)),
            "agent.executor.actions.high is saved as F64 (1,), expected F32 (1,)",
        ),
        (changed(lambda x: x.astype(np.int32)), "is saved as I32 (1,), expected F32 (1,)"),
        (changed(lambda x: x[None]), "is saved as F32 (1, 1), expected F32 (1,)"),
        (lambda arrays: arrays.pop("agent.executor.actions.high"), "'agent.executor.actions.high' is missing from it"),
        (lambda arrays: arrays.update(more=np.zeros(1)), "'more' is not part of such an agent"),
    ],
)
def test_weights_are_those_of_the_agent_and_finite(
    folder: Path, change: Callable[[dict[str, np.ndarray]], Any], message: str
) -> None:
    file = folder / "seed-7.safetensors"
    arrays = load_file(file)
    change(arrays)
    save_file(arrays, file, metadata={"record": "null"})
    found = refused(folder)
    assert found.startswith(f"{file}: ")
    assert message in found


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "damaged or not a safetensors file"),
        (struct.pack("<Q", 2**60), "its header has 1152921504606846976 bytes"),
        (struct.pack("<Q", 500_000) + b'{"a":' * 100_000, "recursion limit"),
        (struct.pack("<Q", 61) + b'{"x":{"dtype":"F32","shape":[1000000],"data_offsets":[0,4e6]}}', "damaged"),
    ],
)
def test_a_file_that_is_none_is_named(folder: Path, content: bytes, message: str) -> None:
    (folder / "seed-0.safetensors").write_bytes(content)
    found = refused(folder)
    assert found.startswith(f"{folder / 'seed-0.safetensors'}: ")
    assert message in found


def test_only_regular_files_are_read(folder: Path) -> None:
    for name in ("seed-0.safetensors", "policy.json"):
        (folder / name).unlink()
        os.mkfifo(folder / name)
        assert name in refused(folder)


# -- what it is asked ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def heater() -> Policy:
    """A policy that knows the names and the range of its columns."""
    rows = np.random.default_rng(0).uniform(0, 100, (40, 2))
    log = {"temp": rows[:, 0], "flow": rows[:, 1], "heat": rows[:, 0] / 100, "reward": rows[:, 1]}
    columns = waypost.Columns(observations=("temp", "flow"), actions=("heat",))
    return waypost.train("bc", log, columns=columns, steps=2, hidden=(4,), batch_size=8).policy


def test_rows_with_names_are_read_by_name(heater: Policy) -> None:
    table = pytest.importorskip("pandas").DataFrame({"note": ["x", "y"], "flow": [1.0, 2.0], "temp": [3.0, 4.0]})
    expected = heater.act([[3.0, 1.0], [4.0, 2.0]])
    assert np.array_equal(heater.act(table), expected)
    assert np.allclose(heater.act(table.iloc[0]), expected[0])
    assert np.allclose(heater.act({"flow": 1.0, "temp": 3.0}), expected[0])
    with pytest.raises(WaypostError, match="the row has no 'temp'; it needs temp, flow"):
        heater.act(table[["flow"]].iloc[0])


@pytest.mark.parametrize("strange", ["ab", [[1, 2], [1]], object()])
def test_what_is_no_number_is_refused(strange: Any, heater: Policy) -> None:
    with pytest.raises(WaypostError, match="observations must be numbers, or rows with column names"):
        heater.act(strange)


def test_far_outside_the_data_it_warns_once(heater: Policy, tmp_path: Path) -> None:
    heater.act([190.0, -90.0])  # outside, but not by more than the range is wide
    loaded = Policy.load(heater.save(tmp_path))
    with pytest.warns(UserWarning, match="flow is -500, in the data it was") as told:
        loaded.act([50.0, -500.0])
    assert told[0].filename == __file__
    loaded.act([50.0, -500.0])


def test_an_action_is_told_in_the_words_of_the_log() -> None:
    def named(reading: Reading | None = None, **spec: Any) -> Policy:
        return Policy("bc", None, Spec(1, **spec), cast(Any, None), reading=reading)

    learned = Learned(categories={"mode": ("5", "10", "wait")})
    choices: dict[str, Any] = {"action_size": 1, "action_count": 3, "action_names": ("mode",)}
    reading = Reading(pipeline=Pipeline(learned=learned))
    assert [named(reading, **choices).action(i) for i in range(3)] == [{"mode": 5}, {"mode": 10}, {"mode": "wait"}]
    assert named(**choices).action(np.int32(2)) == {"mode": 2}
    assert named(action_size=2).action([1.5, 2.0]) == {"action 0": 1.5, "action 1": 2.0}
    gears = named(action_size=2, action_choices=(("0.5", "10"), ()), action_names=("gear", "heater"))
    assert gears.action([10.0, 10.0]) == {"gear": 10, "heater": 10.0}
    assert gears.action(np.float32([0.5, 1.0])) == {"gear": 0.5, "heater": 1.0}
    with pytest.raises(WaypostError, match=r"gear must be one of 0.5, 10, got 0"):
        gears.action([0.0, 1.0])


def test_a_run_that_is_not_finished_is_told_from_a_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with pytest.raises(WaypostError, match=r"has no policy.json"):
        Policy.load(tmp_path / "run")
    (tmp_path / "run" / "config.json").write_text("{}")
    with pytest.raises(WaypostError, match="the run is not finished; continue it"):
        Policy.load(tmp_path / "run")
