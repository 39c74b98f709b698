"""A graph as an ONNX model, opset 17."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from waypost.resources import require
from waypost.shipping.graph import Graph, Tensor

OPSET, IR = 17, 8
"""IR 8 came with opset 17; runtimes since 2022 read it."""


def model_bytes(graph: Graph, about: dict[str, Any]) -> bytes:
    """The model file; `about` is its metadata, with strings as they are and everything else as JSON."""
    onnx = require("onnx", "onnx", "exporting to ONNX")
    helper = onnx.helper

    def kind(dtype: str) -> int:
        return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def described(tensor: Tensor) -> Any:
        return helper.make_tensor_value_info(tensor.name, kind(tensor.dtype), list(tensor.shape))

    nodes = []
    for node in graph.nodes:
        attributes = {key: kind(value) if key == "to" else value for key, value in node.attributes.items()}
        nodes.append(helper.make_node(node.op, node.inputs, node.outputs, **attributes))
    constants = [onnx.numpy_helper.from_array(values, name) for name, values in graph.constants.items()]
    whole = helper.make_graph(
        nodes, "policy", [*map(described, graph.inputs)], [*map(described, graph.outputs)], constants
    )
    model = helper.make_model(
        whole,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR,
        producer_name="waypost",
        producer_version=about["waypost"],
    )
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in about.items()}
    helper.set_model_props(model, texts)
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString(deterministic=True)


def session(content: str | bytes, threads: int = 1) -> Any:
    """An onnxruntime session of the model."""
    runtime = require("onnxruntime", "onnx", "checking an ONNX file")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def answering(content: str | bytes) -> Any:
    """The model as a function from inputs to outputs by name."""
    runs = session(content)
    names = [output.name for output in runs.get_outputs()]
    return lambda given: dict(zip(names, runs.run(names, given), strict=True))
