"""Export a trained policy to a file that runs without Waypost and JAX: ONNX, or NumPy alone."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from waypost.data.validation import numbers_of
from waypost.errors import WaypostError
from waypost.files import expanded, replacing, write_bytes
from waypost.shipping import numpy_policy, onnx_file
from waypost.shipping.check import check
from waypost.shipping.graph import Graph
from waypost.shipping.recorded import Recorded, recorded
from waypost.shipping.tracing import flat, inputs_of, start_of, trace
from waypost.training.checkpoint import flatten
from waypost.training.compilation import keep_programs
from waypost.training.policy import Policy
from waypost.training.runs import Run

Format = Literal["onnx", "numpy"]
SUFFIXES: dict[str, Format] = {".onnx": "onnx", ".npz": "numpy"}
OBSERVATIONS = 1000
"""Observations the file is checked on: half recorded, half random."""


def export(
    subject: str | Path | Run | Policy,
    out: str | Path,
    *,
    format: Format | None = None,
    seed: int | None = None,
    data: Any = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write a policy to a file that runs without Waypost, after checking that it acts like the agent.

    subject    a run directory, a run, or a policy
    out        NAME.onnx, or NAME.npz, which comes with a NAME.py that needs only NumPy
    format     "onnx" or "numpy"; by default from the name
    seed       which agent of the run; by default the first
    data       the source of the column names and of half the observations to check; by default the run's data
    overwrite  replace existing files
    """
    out = expanded(out)
    kind = _format(out, format)
    files = [out, out.with_suffix(".py")] if kind == "numpy" else [out]
    for file in files:
        if file.is_dir() or (file.exists() and not overwrite):
            raise WaypostError(f"{file}: already exists; choose another name or pass --overwrite")
    keep_programs()
    policy, folder = chosen(subject, seed)
    generator = np.random.default_rng(0)
    known = recorded(folder, data, policy, OBSERVATIONS // 2, generator)
    graph = trace(policy.agent, policy.spec.observation_size)
    about = metadata(policy, graph, known)
    content = onnx_file.model_bytes(graph, about) if kind == "onnx" else numpy_bytes(graph, about)
    observations = known.observations
    observations = np.concatenate(
        [observations, known.random(OBSERVATIONS - len(observations), policy.spec, generator)]
    )

    def tried(file: Path) -> float:
        answer: Callable[..., Any] = onnx_file.answering(str(file)) if kind == "onnx" else numpy_policy.Policy(file)
        return check(policy.agent, answer, observations, generator)

    largest = _write(out, content, tried, files[1:])
    return {
        "files": [str(file) for file in files],
        "format": kind,
        "difference": largest,
        "tried": {"recorded": len(known.observations), "random": len(observations) - len(known.observations)},
        "note": known.note,
        **about,
    }


def _format(out: Path, asked: Format | None) -> Format:
    said = SUFFIXES.get(out.suffix.lower())
    if said is None or (asked is not None and asked != said):
        wanted = {"onnx": ".onnx", "numpy": ".npz"}
        ends = wanted[asked] if asked is not None else " or ".join(wanted.values())
        raise WaypostError(f"{out}: the name of an exported policy must end in {ends}")
    return said


def chosen(subject: str | Path | Run | Policy, seed: int | None = None) -> tuple[Policy, Path | None]:
    """The chosen policy, and its run directory if it has one."""
    if isinstance(subject, str | Path):
        return Policy.load(subject, seed), Path(subject)
    if isinstance(subject, Policy):
        return subject, None
    for policy in subject.policies:
        if seed is None or policy.seed == seed:
            return policy, subject.directory
    raise WaypostError(f"no policy of seed {seed}; there are {[policy.seed for policy in subject.policies]}")


def metadata(policy: Policy, graph: Graph, known: Recorded) -> dict[str, Any]:
    """What a user of the file must know: columns, bounds, memory, and origin."""
    spec = policy.spec
    _, alone = start_of(policy.agent, 1, spec.observation_size)
    first = flat(inputs_of(policy.agent, spec.observation_size))
    inputs: list[dict[str, Any]] = [vars(tensor) | {"shape": list(tensor.shape)} for tensor in graph.inputs]
    for each in inputs[1:]:
        # The value at the first step of an episode; None for a goal, which only the user knows.
        each["start"] = np.asarray(first[each["name"]])[0].tolist() if alone or each["name"] == "reward" else None
    return {
        "waypost": version("waypost"),
        "algorithm": policy.algorithm,
        "seed": policy.seed,
        "run": fingerprint(policy),
        "columns": list(known.names),
        "units": "as in the data; no scaling is needed",
        "action_low": list(spec.action_low),
        "action_high": list(spec.action_high),
        "action_count": spec.action_count,
        **_named_actions(policy),
        "inputs": inputs,
        "outputs": [vars(tensor) | {"shape": list(tensor.shape)} for tensor in graph.outputs],
    }


def _named_actions(policy: Policy) -> dict[str, Any]:
    """The names of a mixed action's columns and, for choices, the number that stands for each."""
    spec = policy.spec
    if not spec.action_choices:
        return {}
    meanings = [dict(zip(words, numbers_of(words).tolist(), strict=True)) for words in spec.action_choices]
    names = spec.action_names or tuple(f"action {i}" for i in range(len(meanings)))
    return {"action_names": list(names), "action_choices": meanings}


def fingerprint(policy: Policy) -> str:
    """A hash of the agent: its algorithm, its spec and its weights."""
    found = hashlib.blake2b(json.dumps([policy.algorithm, policy.spec.to_json()]).encode(), digest_size=16)
    for name, values in sorted(flatten(policy.agent, "agent").items()):
        found.update(json.dumps([name, values.dtype.str, values.shape]).encode())
        found.update(np.ascontiguousarray(values).tobytes())
    return found.hexdigest()


def numpy_bytes(graph: Graph, about: dict[str, Any]) -> bytes:
    """An .npz with the constants, and the operators as JSON."""
    nodes = [[node.op, node.inputs, node.outputs, node.attributes] for node in graph.nodes]
    record = np.frombuffer(json.dumps({"about": about, "nodes": nodes}).encode(), np.uint8)
    content = io.BytesIO()
    arrays: dict[str, Any] = {**graph.constants, "record": record}
    np.savez(content, **arrays)
    return content.getvalue()


def _write(out: Path, content: bytes, tried: Callable[[Path], float], beside: list[Path]) -> float:
    """Write the file and the script beside it; neither is kept if the check fails."""
    fresh = [file for file in beside if not file.exists()]
    try:
        with replacing(out) as temporary:
            temporary.write_bytes(content)
            largest = tried(temporary)
            for script in beside:
                write_bytes(script, Path(numpy_policy.__file__).read_bytes())
    except BaseException as error:
        for script in fresh:
            with suppress(OSError):
                script.unlink()
        if isinstance(error, OSError) and error.filename != str(out):
            error.add_note(f"{out} was not written")
        raise
    return largest
