"""A policy exported by Waypost. It needs only NumPy, this file and the .npz of the same name.

policy = Policy("policy.npz")
policy.act([0.1, 2.0])                # one observation, or a batch of them
policy({"observation": [[0.1, 2.0]]}) # all outputs by name, for a batch
"""

import json
from pathlib import Path
from typing import Any

import numpy as np


def layer_norm(x: Any, gain: Any, offset: Any, axis: int, epsilon: float) -> Any:
    centred = x - x.mean(axis=axis, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=axis, keepdims=True) + np.float32(epsilon)) * gain + offset


def cut(x: Any, first: Any, last: Any, axis: Any, step: Any) -> Any:
    return x[(slice(None),) * int(axis[0]) + (slice(int(first[0]), int(last[0]), int(step[0])),)]


OPERATORS: dict[str, Any] = {
    **{"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Max": np.maximum, "Min": np.minimum},
    **{"Pow": np.power, "Neg": np.negative, "Abs": np.abs, "Sign": np.sign, "Floor": np.floor, "Exp": np.exp},
    **{"Log": np.log, "Sqrt": np.sqrt, "Tanh": np.tanh, "Reciprocal": np.reciprocal, "And": np.logical_and},
    **{"Or": np.logical_or, "Not": np.logical_not, "Equal": np.equal, "Less": np.less, "Greater": np.greater},
    **{"LessOrEqual": np.less_equal, "GreaterOrEqual": np.greater_equal, "Where": np.where, "MatMul": np.matmul},
    "Identity": lambda x: x,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Relu": lambda x: np.maximum(x, np.float32(0)),
    "Gemm": lambda x, weight, bias: x @ weight + bias,
    "LayerNormalization": layer_norm,
    "Einsum": lambda x, y, equation: np.einsum(equation, x, y),
    "Cast": lambda x, to: x.astype(to),
    "Shape": lambda x: np.array(x.shape, np.int64),
    "Reshape": lambda x, shape: x.reshape(shape),
    "Expand": lambda x, shape: np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape))),
    "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(axes)),
    "Squeeze": lambda x, axes: np.squeeze(x, tuple(axes)),
    "Transpose": lambda x, perm: np.transpose(x, perm),
    "Concat": lambda *parts, axis: np.concatenate(parts, axis),
    "Split": lambda x, sizes, axis: np.split(x, np.cumsum(sizes)[:-1], axis),
    "Slice": cut,
    "Gather": lambda x, places, axis: np.take(x, places, axis),
    "GatherElements": lambda x, places, axis: np.take_along_axis(x, places.astype(np.int64), axis),
    "ArgMax": lambda x, axis, keepdims: x.argmax(axis),
    "ReduceSum": lambda x, axes, keepdims: x.sum(tuple(axes)),
    "ReduceMax": lambda x, axes, keepdims: x.max(tuple(axes)),
    "ReduceMin": lambda x, axes, keepdims: x.min(tuple(axes)),
}


class Policy:
    """`about` describes the policy: inputs, outputs, columns, bounds and origin."""

    def __init__(self, file: str | Path = ""):
        with np.load(file or Path(__file__).with_suffix(".npz"), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        record = json.loads(bytes(arrays.pop("record")))
        self.nodes, self.constants, self.about = record["nodes"], arrays, record["about"]

    def __call__(self, given: dict[str, Any]) -> dict[str, Any]:
        values = dict(self.constants)
        for each in self.about["inputs"]:
            values[each["name"]] = np.asarray(given[each["name"]], each["dtype"])
        for operator, inputs, outputs, attributes in self.nodes:
            result = OPERATORS[operator](*[values[name] for name in inputs], **attributes)
            values.update(zip(outputs, result if operator == "Split" else [result], strict=True))
        return {each["name"]: values[each["name"]] for each in self.about["outputs"]}

    def act(self, observations: Any) -> Any:
        rows = np.asarray(observations, np.float32)
        action = self({"observation": np.atleast_2d(rows)})["action"]
        return action if rows.ndim == 2 else action[0]
