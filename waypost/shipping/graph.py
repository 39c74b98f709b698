"""A policy as a graph of ONNX operators, from which every export format is written."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

BATCH = "batch"
"""The size of the first axis of every input and output, known only when the policy acts."""
Size = int | str


@dataclass(frozen=True)
class Tensor:
    """An input or an output of a policy."""

    name: str
    shape: tuple[Size, ...]
    dtype: str
    """NumPy's name."""


@dataclass(frozen=True)
class Node:
    """An operator with its inputs and outputs, by name."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]


@dataclass(frozen=True)
class Graph:
    """Operators in topological order."""

    inputs: list[Tensor]
    outputs: list[Tensor]
    nodes: list[Node]
    constants: dict[str, np.ndarray]


@dataclass(frozen=True)
class Wire:
    """A value that is known only when the policy acts. Everything else is a plain array."""

    name: str


@dataclass
class Writer:
    """Adds operators one by one; nothing is computed twice."""

    inputs: list[Tensor] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    _made: dict[str, tuple[Wire, ...]] = field(default_factory=dict)
    _stored: dict[tuple[str, tuple[int, ...], bytes], str] = field(default_factory=dict)

    def input(self, tensor: Tensor) -> Wire:
        self.inputs.append(tensor)
        return Wire(tensor.name)

    def emit(self, op: str, *inputs: Any, **attributes: Any) -> Wire:
        """The single output of a new operator."""
        return self.emit_several(op, 1, *inputs, **attributes)[0]

    def emit_several(self, op: str, count: int, *inputs: Any, **attributes: Any) -> tuple[Wire, ...]:
        names = tuple(self.name(each) for each in inputs)
        key = json.dumps([op, names, attributes])
        if key not in self._made:
            outputs = tuple(f"{op.lower()}_{len(self.nodes)}" + (f"_{i}" if count > 1 else "") for i in range(count))
            self.nodes.append(Node(op, names, outputs, attributes))
            self._made[key] = tuple(map(Wire, outputs))
        return self._made[key]

    def name(self, value: Any, wanted: str = "") -> str:
        """The name under which an operator finds a value; a constant is stored once."""
        if isinstance(value, Wire):
            return value.name
        array = np.ascontiguousarray(value) if np.ndim(value) else np.asarray(value)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._stored:
            self._stored[key] = name = wanted or f"constant_{len(self.constants)}"
            self.constants[name] = array
        return self._stored[key]

    def numbers(self, *values: int) -> np.ndarray:
        """Axes and sizes, in the type that operators expect."""
        return np.array(values, np.int64)

    def sizes(self, shape: tuple[Size, ...]) -> Any:
        """A shape as a list of numbers; the batch's size is that of the first input."""
        if BATCH not in shape:
            return self.numbers(*(int(size) for size in shape))
        batch = self.emit("Gather", self.emit("Shape", Wire(self.inputs[0].name)), self.numbers(0), axis=0)
        return self.emit("Concat", *(batch if size == BATCH else self.numbers(int(size)) for size in shape), axis=0)

    def graph(self, outputs: dict[str, tuple[Any, tuple[Size, ...], str]]) -> Graph:
        """The graph of these outputs, given with shape and type, without unused operators."""
        ends = [
            Node("Identity", (self.name(value),), (name,), {})  # an input, or one value under two names
            for name, (value, _, _) in outputs.items()
        ]
        needed = {name for node in ends for name in node.inputs}
        kept: list[Node] = []
        for node in reversed(self.nodes):
            if needed & set(node.outputs):
                kept.append(node)
                needed |= set(node.inputs)
        constants = {name: values for name, values in self.constants.items() if name in needed}
        tensors = [Tensor(name, shape, dtype) for name, (_, shape, dtype) in outputs.items()]
        return Graph(self.inputs, tensors, [*reversed(kept), *ends], constants)
