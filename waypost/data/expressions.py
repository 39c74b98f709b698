"""A reward written as an expression over columns: parsed, checked word by word, and never evaluated as Python.

    -abs(temp - setpoint) - 20*trip
    next_level > 0.9 and mode == "auto"
    -observations[3] ** 2
    -column("Temp [C]") / 100

`next_NAME` is the column in the next row. Nothing slow is imported here: options are checked first.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from waypost.errors import WaypostError

LONGEST = 1000
"""Characters; Python's parser takes a lot of memory for deep nesting."""
DEEPEST = 100
OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
FUNCTIONS = ("abs", "min", "max", "sqrt", "exp", "log", "sin", "cos", "tanh", "sign", "clip", "where")
REFERENCE = re.compile(r".+\.py(:\w*)?|[\w./]+:\w*")
"""The name of a function in a file or module."""
COLUMN = "column"
"""Gives the column of any name, also one that is not an identifier: column("Temp [C]")."""


@dataclass(frozen=True)
class Expression:
    """A checked expression; calling it with the columns gives a number for each row."""

    text: str
    tree: ast.expr

    @property
    def names(self) -> list[str]:
        """The columns it mentions."""
        return list(dict.fromkeys(_names(self.tree)))

    def __call__(self, columns: Mapping[str, Any]) -> Any:
        import numpy as np

        with np.errstate(all="ignore"):  # the check of the data reports what is not finite
            return _value(self.tree, columns)


def is_reference(text: str) -> bool:
    """Whether a text names a function instead of being an expression."""
    return REFERENCE.fullmatch(text) is not None


def parse(text: str) -> Expression:
    """The expression of a text, or an error that names the part that is not allowed."""
    if is_reference(text):
        raise WaypostError(f"{text}: only `waypost adapt --reward` takes the name of a function; write an expression")
    if len(text) > LONGEST:
        raise WaypostError(f"a reward may have at most {LONGEST} characters, got {len(text)}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = getattr(error, "msg", None) or "too deep"
        raise WaypostError(f"reward {text!r} is not an expression over columns ({reason})") from None
    _check(tree, text)
    return Expression(text, tree)


def _check(node: ast.AST, text: str, depth: int = 0) -> None:
    """Raise at the first part that is not allowed."""
    if depth > DEEPEST:
        raise WaypostError(f"reward {text[:60]!r}...: nested more than {DEEPEST} levels deep")
    match node:
        case ast.BinOp(op=op) | ast.UnaryOp(op=op) if type(op) in OPERATORS or isinstance(op, ast.Not):
            pass
        case ast.Compare(ops=ops) if all(type(op) in OPERATORS for op in ops):
            pass
        case ast.BoolOp() | ast.IfExp() | ast.Name():
            pass
        case ast.Constant(value=bool() | int() | float() | str()):
            return
        case ast.Subscript(value=ast.Name(), slice=ast.Constant(value=int())):
            return
        case ast.Call(func=ast.Name(id="column"), args=[ast.Constant(value=str())], keywords=[]):
            return
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS and args:
            needed = {"clip": 3, "where": 3, "min": None, "max": None}.get(name, 1)
            if needed is not None and len(args) != needed:
                raise WaypostError(f"reward {text!r}: {name} takes {needed} value{'s' * (needed > 1)}, got {len(args)}")
            for each in args:
                _check(each, text, depth + 1)
            return
        case _:
            part = ast.unparse(node)[:60]
            known = ", ".join((*FUNCTIONS, COLUMN))
            raise WaypostError(
                f"reward {text!r}: {part!r} is not allowed; use columns, numbers, + - * / % **, "
                f"comparisons, and, or, not, ... if ... else ..., {known}"
            )
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            _check(child, text, depth + 1)


def _names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name):
            yield name
        case ast.Call(func=ast.Name(id="column"), args=[ast.Constant(value=name)]):
            yield str(name)
        case ast.Call(args=args):
            for each in args:
                yield from _names(each)
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _names(child)


def _value(node: ast.expr, columns: Mapping[str, Any]) -> Any:
    """The value of a checked part for every row."""
    import numpy as np

    def of(part: ast.expr) -> Any:
        return _value(part, columns)

    match node:
        case ast.Constant(value=str() as word):
            return word
        case ast.Constant(value=number):
            return np.float64(number)  # type: ignore[arg-type]  # never a Python integer: these grow without end
        case ast.Name(id=name) | ast.Call(func=ast.Name(id="column"), args=[ast.Constant(value=name)]):
            return columns[str(name)]
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=int() as index)):
            return columns[name][:, index]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return np.logical_not(of(operand))
        case ast.UnaryOp(op=op, operand=operand):
            return OPERATORS[type(op)](np.float64(1) * of(operand))
        case ast.BinOp(left=left, op=op, right=right):
            return OPERATORS[type(op)](np.float64(1) * of(left), np.float64(1) * of(right))
        case ast.BoolOp(op=op, values=values):
            join = np.logical_and if isinstance(op, ast.And) else np.logical_or
            return join.reduce(np.broadcast_arrays(*map(of, values)))
        case ast.Compare(left=left, ops=ops, comparators=others):
            parts = [of(each) for each in (left, *others)]
            found = [OPERATORS[type(op)](a, b) for op, a, b in zip(ops, parts, parts[1:], strict=False)]
            return np.logical_and.reduce(np.broadcast_arrays(*found))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return np.where(of(test), of(body), of(orelse))
        case ast.Call(func=ast.Name(id=name), args=args):
            return _function(name)(*[np.float64(1) * of(each) if name != "where" else of(each) for each in args])
    raise AssertionError(f"{ast.dump(node)} was not checked")


def _function(name: str) -> Callable[..., Any]:
    import numpy as np

    if name in ("min", "max"):
        best = np.minimum if name == "min" else np.maximum
        return lambda *values: best.reduce(np.broadcast_arrays(*values))
    found: Callable[..., Any] = getattr(np, name)
    return found
