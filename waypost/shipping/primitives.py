"""How each JAX operation that acting may use is written with ONNX operators, opset 17.

A rule takes the writer, the operation's parameters, the shape of its result, and the operands; an operand is a `Wire`,
or an array if it does not depend on the observation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jax.lax import GatherScatterMode

from waypost.errors import WaypostError
from waypost.shipping.graph import BATCH, Size, Wire, Writer

Shape = tuple[Size, ...]
Rule = Callable[..., Any]

ELEMENTWISE = {
    **{"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "max": "Max", "min": "Min", "pow": "Pow"},
    **{"neg": "Neg", "abs": "Abs", "sign": "Sign", "floor": "Floor", "exp": "Exp", "log": "Log", "sqrt": "Sqrt"},
    **{"tanh": "Tanh", "logistic": "Sigmoid", "and": "And", "or": "Or", "not": "Not"},
    **{"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"},
    **{"stop_gradient": "Identity", "copy": "Identity"},
}
"""Elementwise operations with an operator of their own; both sides broadcast."""
REDUCTIONS = {"reduce_max": "ReduceMax", "reduce_min": "ReduceMin"}


def refuse(why: str) -> WaypostError:
    return WaypostError(f"this agent cannot be written as ONNX: {why}")


def linear(write: Writer, name: str, rank: int, x: Any, weight: Any, bias: Any) -> Wire:
    """x W + b."""
    names = write.name(weight, f"{name}.weight"), write.name(bias, f"{name}.bias")
    weight, bias = map(Wire, names)
    if rank == 2:
        return write.emit("Gemm", x, weight, bias)
    return write.emit("Add", write.emit("MatMul", x, weight), bias)


def layer_norm(write: Writer, name: str, epsilon: float, x: Any, gain: Any, offset: Any) -> Wire:
    names = write.name(gain, f"{name}.gain"), write.name(offset, f"{name}.offset")
    return write.emit("LayerNormalization", x, *map(Wire, names), axis=-1, epsilon=epsilon)


def _convert(write: Writer, params: dict[str, Any], shape: Shape, x: Any) -> Wire:
    return write.emit("Cast", x, to=np.dtype(params["new_dtype"]).name)


def _power(write: Writer, params: dict[str, Any], shape: Shape, x: Any) -> Wire:
    return write.emit("Mul", x, x) if params["y"] == 2 else write.emit("Pow", x, np.float32(params["y"]))


def _square(write: Writer, params: dict[str, Any], shape: Shape, x: Any) -> Wire:
    return write.emit("Mul", x, x)


def _rsqrt(write: Writer, params: dict[str, Any], shape: Shape, x: Any) -> Wire:
    return write.emit("Reciprocal", write.emit("Sqrt", x))


def _differ(write: Writer, params: dict[str, Any], shape: Shape, x: Any, y: Any) -> Wire:
    return write.emit("Not", write.emit("Equal", x, y))


def _clamp(write: Writer, params: dict[str, Any], shape: Shape, low: Any, x: Any, high: Any) -> Wire:
    return write.emit("Min", write.emit("Max", x, low), high)


def _select(write: Writer, params: dict[str, Any], shape: Shape, which: Any, *cases: Any) -> Wire:
    if len(cases) != 2:
        raise refuse(f"it selects among {len(cases)} cases at once")
    return write.emit("Where", which, cases[1], cases[0])


def _broadcast(write: Writer, params: dict[str, Any], shape: Shape, x: Any, *_: Any) -> Any:
    """Add axes of size 1, then expand them."""
    kept: tuple[int, ...] = params["broadcast_dimensions"]
    new = [axis for axis in range(len(shape)) if axis not in kept]
    if new:
        x = write.emit("Unsqueeze", x, write.numbers(*new))
    before = dict(zip(kept, params["sizes_before"], strict=True))
    grown = tuple(1 if before.get(axis, 1) == size else size for axis, size in enumerate(shape))
    return x if all(size == 1 for size in grown) else write.emit("Expand", x, write.sizes(grown))


def _reshape(write: Writer, params: dict[str, Any], shape: Shape, x: Any) -> Wire:
    return write.emit("Reshape", x, write.numbers(*(size if isinstance(size, int) else -1 for size in shape)))


def _squeeze(write: Writer, params: dict[str, Any], shape: Shape, x: Any) -> Wire:
    return write.emit("Squeeze", x, write.numbers(*params["dimensions"]))


def _transpose(write: Writer, params: dict[str, Any], shape: Shape, x: Any) -> Wire:
    return write.emit("Transpose", x, perm=[int(axis) for axis in params["permutation"]])


def _concatenate(write: Writer, params: dict[str, Any], shape: Shape, *parts: Any) -> Wire:
    return write.emit("Concat", *parts, axis=int(params["dimension"]))


def _stack(write: Writer, params: dict[str, Any], shape: Shape, *parts: Any) -> Wire:
    axis = int(params["axis"])
    return write.emit("Concat", *(write.emit("Unsqueeze", part, write.numbers(axis)) for part in parts), axis=axis)


def _split(write: Writer, params: dict[str, Any], shape: Shape, x: Any) -> tuple[Wire, ...]:
    sizes = [int(size) for size in params["sizes"]]
    return write.emit_several("Split", len(sizes), x, write.numbers(*sizes), axis=int(params["axis"]))


def _slice(write: Writer, params: dict[str, Any], shape: Shape, x: Any) -> Wire:
    for axis, (first, size) in enumerate(zip(params["start_indices"], params["sizes_before"], strict=True)):
        last, step = params["limit_indices"][axis], (params["strides"] or [1] * len(shape))[axis]
        if (first, last, step) != (0, size, 1) and params["sizes_before"][axis] != BATCH:
            x = write.emit("Slice", x, *map(write.numbers, (int(first), int(last), axis, int(step))))
    return x


def _sum(write: Writer, params: dict[str, Any], shape: Shape, x: Any) -> Wire:
    return write.emit("ReduceSum", x, write.numbers(*params["axes"]), keepdims=0)


def _argmax(write: Writer, params: dict[str, Any], shape: Shape, x: Any) -> Wire:
    chosen = write.emit("ArgMax", x, axis=int(params["axes"][0]), keepdims=0)
    return write.emit("Cast", chosen, to=np.dtype(params["index_dtype"]).name)


def _dot(write: Writer, params: dict[str, Any], shape: Shape, x: Any, y: Any) -> Wire:
    """MatMul for a product with a matrix, Einsum for everything else."""
    (x_sum, y_sum), (x_batch, y_batch) = params["dimension_numbers"]
    ranks = [len(sizes) for sizes in params["sizes_of_all"]]
    if not x_batch and list(x_sum) == [ranks[0] - 1] and list(y_sum) == [0] and ranks[1] == 2:
        return write.emit("MatMul", x, y)
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    left = [next(letters) for _ in range(ranks[0])]
    right = [next(letters) for _ in range(ranks[1])]
    for i, j in (*zip(x_sum, y_sum, strict=True), *zip(x_batch, y_batch, strict=True)):
        right[j] = left[i]
    free = [left[i] for i in range(ranks[0]) if i not in (*x_sum, *x_batch)]
    free += [right[j] for j in range(ranks[1]) if j not in (*y_sum, *y_batch)]
    result = "".join([*(left[i] for i in x_batch), *free])
    return write.emit("Einsum", x, y, equation=f"{''.join(left)},{''.join(right)}->{result}")


def _gather(write: Writer, params: dict[str, Any], shape: Shape, x: Any, indices: Any) -> Wire:
    """The forms of indexing: a slice of an axis, some indices of it, or one index for each row."""
    numbers, (before, places) = params["dimension_numbers"], params["sizes_of_all"]
    if len(numbers.start_index_map) != 1:
        raise refuse("it gathers along several axes at once")
    (axis,) = numbers.start_index_map
    if not numbers.collapsed_slice_dims:
        if isinstance(indices, Wire) or len(places) != 1:
            raise refuse("it reads a slice whose start depends on the observation")
        first = int(np.asarray(indices)[0])
        return write.emit("Slice", x, *map(write.numbers, (first, first + int(params["slice_sizes"][axis]), axis, 1)))
    if isinstance(indices, Wire):
        indices = write.emit("Squeeze", indices, write.numbers(len(places) - 1))
    else:
        indices = np.asarray(indices)[..., 0]
    if params["mode"] == GatherScatterMode.CLIP:
        indices = write.emit("Min", write.emit("Max", indices, np.int32(0)), np.int32(before[axis] - 1))
    if numbers.operand_batching_dims:
        across = list(numbers.offset_dims)
        indices = write.emit("Unsqueeze", indices, write.numbers(*across)) if across else indices
        sizes = tuple(before[each] if each in across else 1 for each in range(len(before)))
        return write.emit("GatherElements", x, write.emit("Expand", indices, write.sizes(sizes)), axis=axis)
    length = len(places) - 1
    if tuple(numbers.offset_dims) != tuple(i for i in range(len(shape)) if not axis <= i < axis + length):
        raise refuse("it moves the axes of what it gathers")
    return write.emit("Gather", x, indices, axis=axis)


def _scatter(write: Writer, params: dict[str, Any], shape: Shape, x: Any, indices: Any, new: Any) -> Wire:
    """Replace one index of an axis, the same in all rows."""
    numbers = params["dimension_numbers"]
    axes = tuple(numbers.inserted_window_dims)
    if isinstance(indices, Wire) or len(axes) != 1 or tuple(numbers.scatter_dims_to_operand_dims) != axes:
        raise refuse("it writes to indices that depend on the observation")
    axis, place = axes[0], int(np.asarray(indices)[0])
    before = write.emit("Slice", x, *map(write.numbers, (0, place, axis, 1)))
    after = write.emit("Slice", x, *map(write.numbers, (place + 1, int(shape[axis]), axis, 1)))
    return write.emit("Concat", before, write.emit("Unsqueeze", new, write.numbers(axis)), after, axis=axis)


RULES: dict[str, Rule] = {
    "argmax": _argmax,
    "broadcast_in_dim": _broadcast,
    "clamp": _clamp,
    "concatenate": _concatenate,
    "convert_element_type": _convert,
    "dot_general": _dot,
    "gather": _gather,
    "integer_pow": _power,
    "ne": _differ,
    "reduce_sum": _sum,
    "reshape": _reshape,
    "rsqrt": _rsqrt,
    "scatter": _scatter,
    "select_n": _select,
    "slice": _slice,
    "split": _split,
    "square": _square,
    "squeeze": _squeeze,
    "stack": _stack,
    "transpose": _transpose,
}


def translate(write: Writer, name: str, params: dict[str, Any], shape: Shape, operands: list[Any]) -> Any:
    """Translate an operation; `params` also has `sizes_of_all`, the shapes of the operands."""
    params = {**params, "sizes_before": params["sizes_of_all"][0] if params["sizes_of_all"] else ()}
    if name in ELEMENTWISE:
        return write.emit(ELEMENTWISE[name], *operands)
    if name in REDUCTIONS:
        return write.emit(REDUCTIONS[name], *operands, axes=[int(axis) for axis in params["axes"]], keepdims=0)
    if name not in RULES:
        raise refuse(f"it uses {name}, for which waypost/shipping/primitives.py has no rule")
    return RULES[name](write, params, shape, *operands)
