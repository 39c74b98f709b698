"""A policy as a file: it acts as the agent does, says what it is, and does not stay if it is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from samples import walk
from shipped import a_run, policy
from test_every import data

import waypost
from waypost import Columns, Pipeline
from waypost.agents import ALGORITHMS
from waypost.cli import main
from waypost.errors import WaypostError
from waypost.shipping import export as exporting, numpy_policy
from waypost.shipping.graph import Graph
from waypost.shipping.recorded import recorded
from waypost.training.plan import plan

KINDS = [(name, False) for name, each in ALGORITHMS.items() if each.continuous]
KINDS += [(name, True) for name in ("por", "cql-discrete")]


@pytest.mark.parametrize(("name", "choices"), KINDS)
def test_every_algorithm_acts_from_both_kinds_of_file(name: str, choices: bool, tmp_path: Path) -> None:
    subject, log = policy(name, choices), data(name, choices)
    for file in ("policy.onnx", "policy.npz"):
        done = waypost.export(subject, tmp_path / file, data=log)
        assert done["difference"] <= 1e-5
        assert done["tried"]["recorded"] + done["tried"]["random"] == 1000
    onnx.checker.check_model(tmp_path / "policy.onnx", full_check=True)


def test_a_model_takes_batches_of_any_size_and_gives_waypoint_and_value(tmp_path: Path) -> None:
    subject = policy(value_layer_norm=True)
    waypost.export(subject, tmp_path / "policy.onnx", data=data("por"))
    model = onnx.load(tmp_path / "policy.onnx")
    assert [(each.domain, each.version) for each in model.opset_import] == [("", 17)]
    assert {"Gemm", "LayerNormalization", "Relu"} <= {node.op_type for node in model.graph.node}
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx", providers=["CPUExecutionProvider"])
    for rows in (1, 5):
        observations = np.random.default_rng(rows).normal(size=(rows, 3)).astype(np.float32)
        action, waypoint, value = session.run(["action", "waypoint", "value"], {"observation": observations})
        np.testing.assert_allclose(action, subject.act(observations), atol=1e-5)
        np.testing.assert_allclose(waypoint, subject.guide(observations), atol=1e-5)
        np.testing.assert_allclose(value, subject.value(observations), atol=1e-5)


def test_a_model_says_what_it_reads_and_where_it_came_from(tmp_path: Path) -> None:
    named = replace(data("por"), observation_names=("level_m", "flow_l/s", "valve"))
    subject = policy()
    waypost.export(subject, tmp_path / "policy.onnx", data=named)
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx", providers=["CPUExecutionProvider"])
    about = session.get_modelmeta().custom_metadata_map
    assert json.loads(about["columns"]) == ["level_m", "flow_l/s", "valve"]
    assert json.loads(about["action_low"]) == list(subject.spec.action_low)
    assert (about["algorithm"], about["seed"], about["waypost"]) == ("por", "3", waypost.__version__)
    other = policy("por", value_layer_norm=True)
    assert about["run"] == exporting.fingerprint(subject) != exporting.fingerprint(other)


def test_an_agent_that_remembers_goes_through_an_episode_like_its_copy(tmp_path: Path) -> None:
    """Longer than the stretch it sees."""
    subject = policy("dt")
    waypost.export(subject, tmp_path / "policy.npz", data=data("dt"))
    copy = numpy_policy.Policy(tmp_path / "policy.npz")
    remembered = {each["name"]: [each["start"]] for each in copy.about["inputs"][1:]}
    memory, reward = subject.start(1), [0.0]
    for row in data("dt").observations[:7]:
        memory = subject.receive(memory, reward)
        action, memory = subject.act_with_memory(row[None], memory)
        said = copy({**remembered, "observation": row[None], "reward": reward})
        np.testing.assert_allclose(said["action"], action, atol=1e-5)
        remembered = {name.removeprefix("next_"): value for name, value in said.items() if name.startswith("next_")}
        reward = [0.3]


def test_noise_is_an_input_and_zeros_give_the_likeliest_action(tmp_path: Path) -> None:
    subject = policy("waypoint", action_noise=0.5)
    done = waypost.export(subject, tmp_path / "policy.npz", data=data("waypoint"))
    assert [each["name"] for each in done["inputs"]] == ["observation", "noise"]
    copy, rows = numpy_policy.Policy(tmp_path / "policy.npz"), data("waypoint").observations[:5]
    noise = np.zeros((5, subject.agent.noise_size), np.float32)
    still, moved = (copy({"observation": rows, "noise": noise + size})["action"] for size in (0.0, 0.1))
    likeliest, _ = replace(subject.agent, action_noise=0.0).act(rows)
    np.testing.assert_allclose(still, likeliest, atol=1e-5)
    assert (moved > still).any()


def test_who_must_be_told_a_goal_has_no_memory_to_start_with(tmp_path: Path) -> None:
    done = waypost.export(policy("rvs-g"), tmp_path / "policy.npz", data=data("rvs-g"))
    assert done["inputs"][1] == {"name": "memory", "shape": ["batch", 2], "dtype": "float32", "start": None}


def test_the_script_needs_nothing_but_numpy(tmp_path: Path) -> None:
    subject = policy()
    waypost.export(subject, tmp_path / "arm.npz", data=data("por"))
    code = "import sys; from arm import Policy; print(Policy().act([0.1, 0.2, 0.3]).tolist(), *sys.modules, sep='\\n')"
    said = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    action, *modules = said.stdout.splitlines()
    np.testing.assert_allclose(json.loads(action), subject.act([0.1, 0.2, 0.3]), atol=1e-5)
    assert not {"jax", "waypost", "onnxruntime", "safetensors"} & set(modules)


@pytest.mark.parametrize("name", ["policy.onnx", "policy.npz"])
def test_nothing_stays_of_a_file_that_acts_otherwise(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*given: Any) -> Graph:
        graph = right(*given)
        last = next(name for name in graph.constants if name == "executor.net.mean.layers.1.bias")
        return replace(graph, constants={**graph.constants, last: graph.constants[last] + np.float32(1e-3)})

    right = exporting.trace
    monkeypatch.setattr(exporting, "trace", wrong)
    with pytest.raises(WaypostError, match=r"action differs from the agent's by .* at most 1e-05"):
        waypost.export(policy(), tmp_path / name, data=data("por"))
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_operation_is_refused_by_name(tmp_path: Path) -> None:
    import jax.numpy as jnp

    class Sorting(type(policy().agent)):  # type: ignore[misc]
        def act(self, observations: Any, memory: Any = ()) -> Any:
            return jnp.sort(observations), memory

    agent = policy().agent
    odd = replace(policy(), agent=Sorting(agent.value_part, agent.guide_part, agent.executor))
    with pytest.raises(WaypostError, match="it uses sort, for which"):
        waypost.export(odd, tmp_path / "policy.onnx", data=data("por"))


def test_what_cannot_act_is_not_exported(tmp_path: Path) -> None:
    half = replace(policy(), agent=replace(policy().agent, executor=None))
    with pytest.raises(WaypostError, match="this agent has no trained executor"):
        waypost.export(half, tmp_path / "policy.onnx")


def test_a_missing_library_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(WaypostError, match=r"needs onnx; pip install 'waypost\[onnx\]'"):
        waypost.export(policy(), tmp_path / "policy.onnx")


@pytest.mark.parametrize(
    ("out", "format", "words"),
    [
        ("policy.pt", None, "must end in .onnx or .npz"),
        ("policy.npz", "onnx", "must end in .onnx"),
        ("there.onnx", None, "already exists; choose another name or pass --overwrite"),
        ("mine.npz", None, "mine.py: already exists"),
    ],
)
def test_a_name_that_will_not_do_is_refused(out: str, format: Any, words: str, tmp_path: Path) -> None:
    for name in ("there.onnx", "mine.py"):
        (tmp_path / name).write_text("mine")
    with pytest.raises(WaypostError, match=words):
        waypost.export(policy(), tmp_path / out, format=format)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"there.onnx": "mine", "mine.py": "mine"}


def test_a_run_is_exported_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["export", str(a_run(tmp_path)), str(tmp_path / "policy.onnx"), "--seed", "4", "--json"])
    assert stop.value.code == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == str(tmp_path / "policy.onnx")
    record = json.loads(said[-1])
    assert (record["seed"], record["tried"]) == (4, {"recorded": 24, "random": 976})


def test_a_run_without_its_data_is_tried_on_random_observations(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    (tmp_path / "log.npz").unlink()
    done = waypost.export(run, tmp_path / "policy.npz")
    assert done["tried"] == {"recorded": 0, "random": 1000}
    assert "the run's data cannot be read" in done["note"]
    with pytest.raises(WaypostError, match="observations have 2 columns, the agent's have 3"):
        waypost.export(run, tmp_path / "other.npz", data=walk())
    with pytest.raises(WaypostError, match="no policy of seed 7"):
        waypost.export(run, tmp_path / "other.npz", seed=7)


def test_a_run_in_memory_is_exported_too(tmp_path: Path) -> None:
    other = replace(policy(value_layer_norm=True), seed=4)
    run = waypost.Run(plan("por", "t-maze"), {}, [policy(), other], [], [])
    assert waypost.export(run, tmp_path / "first.npz")["run"] == exporting.fingerprint(policy())
    assert waypost.export(run, tmp_path / "second.npz", seed=4)["run"] == exporting.fingerprint(other)
    with pytest.raises(WaypostError, match=r"no policy of seed 7; there are \[3, 4\]"):
        waypost.export(run, tmp_path / "third.npz", seed=7)


def test_the_script_acts_on_one_observation_or_a_batch(tmp_path: Path) -> None:
    waypost.export(policy(), tmp_path / "arm.npz", data=data("por"))
    copy, rows = numpy_policy.Policy(tmp_path / "arm.npz"), data("por").observations[:4]
    np.testing.assert_allclose(copy.act(rows), policy().act(rows), atol=1e-5)
    np.testing.assert_allclose(copy.act(rows[0]), policy().act(rows[0]), atol=1e-5)


LOG = "temp,mode,heat\n" + "".join(
    f"{-9999 if i == 7 else i},{'auto' if i % 3 else 'hand'},{i % 2}.5\n" for i in range(30)
)


@pytest.fixture(scope="module")
def log_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose data need a pipeline: a number means 'missing', and a column holds text."""
    folder = tmp_path_factory.mktemp("log")
    (folder / "log.csv").write_text(LOG)
    how = Columns(observations=("temp", "mode"), actions=("heat",))
    pipeline = Pipeline(missing_values=("temp=-9999",), categories=("one-hot",))
    log = waypost.load(folder / "log.csv", how, pipeline=pipeline)
    options: dict[str, Any] = {"hidden": (8,), "batch_size": 8, "steps": 2, "columns": how, "pipeline": pipeline}
    waypost.train("bc", folder / "log.csv", out=folder / "run", env="none", **options)
    assert log.observation_names == ("temp", "mode=auto", "mode=hand")
    return folder


@pytest.mark.parametrize("given", [False, True])
def test_data_are_read_as_the_run_read_them(given: bool, log_run: Path) -> None:
    """Without its pipeline, a marker of missing values would be a recorded number."""
    policy, data = waypost.Policy.load(log_run / "run"), log_run / "log.csv" if given else None
    known = recorded(log_run / "run", data, policy, 100, np.random.default_rng(0))
    assert (known.note, known.names) == ("", ("temp", "mode=auto", "mode=hand"))
    assert known.observations.shape == (30, 3)
    assert known.observations[:, 0].min() == 0


def test_data_of_other_columns_are_refused(log_run: Path, tmp_path: Path) -> None:
    policy = waypost.Policy.load(log_run / "run")
    frame = {name: np.zeros(9) for name in ("cold", "mode=auto", "mode=hand")}
    other = waypost.load(pd.DataFrame(frame), Columns(observations=tuple(frame)))
    with pytest.raises(WaypostError, match="column 1 of observations is 'cold', the agent's is 'temp'"):
        recorded(None, other, policy, 100, np.random.default_rng(0))
    (tmp_path / "std.csv").write_text("obs_0,obs_1\n1,2\n")
    with pytest.raises(WaypostError, match="has no field 'temp' for observations"):
        waypost.export(log_run / "run", tmp_path / "policy.npz", data=tmp_path / "std.csv")
