"""Check values against type annotations: one function for settings, options and records in files."""

from __future__ import annotations

import math
import types
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any, Literal, NotRequired, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

from waypost.errors import WaypostError

Kind = TypeVar("Kind")
MOST = 2**63
"""Whole numbers must be smaller: larger ones fit in no array, and Python may refuse to print their digits."""
_SHOWN = 60
_WORDS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a finite number",
    str: "a text",
    type(None): "none",
}


def conform(value: Any, kind: Any, place: str) -> Any:
    """The value as `kind`, or an error that names the place; an empty place means the whole file.

    kind    a type annotation: a plain type, a Literal, a union, a tuple, list or dict of such, a TypedDict, a dataclass
    Lists become tuples and mappings become dataclasses where the annotation says so, because JSON has neither. A
    TypedDict may have further keys, which a later version may have added.
    """
    if hasattr(value, "dtype") and value.shape == ():  # a NumPy or JAX scalar
        value = value.item()
    if kind in _WORDS:
        return _plain(value, kind, place)
    origin, options = get_origin(kind), get_args(kind)
    if origin is NotRequired:
        return conform(value, options[0], place)
    if kind is Any or isinstance(kind, TypeVar):
        return value
    if origin in (Union, types.UnionType):
        return _one_of(value, kind, place)
    if origin is Literal:
        # 1 == True, so equal values must also be of the same type.
        found: Any = any(type(value) is type(option) and value == option for option in options)
        return value if found else _refuse(value, kind, place)
    if is_typeddict(kind):
        return _record(value, kind, place)
    if is_dataclass(kind):
        return value if isinstance(value, kind) else build(value, kind, place)  # type: ignore[arg-type]
    if origin in (tuple, list, Sequence):
        return _row(value, kind, place)
    if origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            _refuse(value, kind, place)
        return {
            conform(key, options[0], place): conform(each, options[1], _inside(place, key))
            for key, each in value.items()
        }
    raise TypeError(f"values cannot be checked against {kind}")


def build(record: Any, kind: type[Kind], place: str) -> Kind:
    """A dataclass from a record; an unknown or a missing field is an error."""
    if not isinstance(record, Mapping):
        _refuse(record, kind, place)
    hints, known = _hints(kind), {each.name: each for each in fields(kind) if each.init}  # type: ignore[arg-type]
    strange = [shown(name) for name in record if name not in known]
    if strange:
        raise WaypostError(f"{place or 'it'} has unknown fields: {', '.join(strange[:5])}")
    for name, each in known.items():
        if name not in record and each.default is MISSING and each.default_factory is MISSING:
            raise WaypostError(f"{_inside(place, name)} is missing")
    values = {name: conform(value, hints[name], _inside(place, name)) for name, value in record.items()}
    try:
        return kind(**values)
    except WaypostError as error:
        raise WaypostError(f"{place}: {error}" if place else str(error)) from None


def conform_fields(instance: Any) -> None:
    """Check the type of every field, in `__post_init__` of a dataclass."""
    kind: type = type(instance)
    hints = _hints(kind)
    for each in fields(instance):
        value = getattr(instance, each.name)
        object.__setattr__(instance, each.name, conform(value, hints[each.name], each.name))


def meant(name: object, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the closest known one; empty if none is close."""
    near = get_close_matches(str(name), list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


def shown(value: Any) -> str:
    """A value as a message shows it, shortened if it is long."""
    if isinstance(value, int) and abs(value) >= 10**_SHOWN:
        return f"a number of more than {_SHOWN} digits"
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        text = f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


@cache
def _hints(kind: Hashable, extras: bool = False) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=extras)


def _refuse(value: Any, kind: Any, place: str) -> Any:
    raise WaypostError(f"{place or 'it'} must be {_words(kind)}, got {shown(value)}")


def _inside(place: str, name: object) -> str:
    return f"{place}.{name}" if place else str(name)


def _words(kind: Any) -> str:
    origin, options = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " or ".join(map(str, options))
    if origin in (Union, types.UnionType):
        return " or ".join(_words(option) for option in options)
    if origin in (tuple, list, Sequence):
        count = len(options) if origin is tuple and options[-1] is not Ellipsis else 0
        return f"a list of {count} values" if count else f"a list, each {_words(options[0])}"
    return _WORDS.get(kind, "a table of names and values")


def _one_of(value: Any, kind: Any, place: str) -> Any:
    """The value as the first kind that accepts it; if only one kind and None are allowed, the error is that kind's."""
    options = [option for option in get_args(kind) if option is not type(None)]
    if value is None and len(options) < len(get_args(kind)):
        return None
    if len(options) == 1:
        return conform(value, options[0], place)
    for option in options:
        with suppress(WaypostError):
            return conform(value, option, place)
    return _refuse(value, kind, place)


def _record(value: Any, kind: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        _refuse(value, kind, place)
    checked = dict(value)
    for name, hint in _hints(kind, extras=True).items():
        if name in value:
            checked[name] = conform(value[name], hint, _inside(place, name))
        elif get_origin(hint) is not NotRequired:
            raise WaypostError(f"{_inside(place, name)} is missing")
    return checked


def _row(value: Any, kind: Any, place: str) -> Any:
    origin, options = get_origin(kind), get_args(kind)
    if not isinstance(value, list | tuple):
        hint = f"; for a list of one, write ({shown(value)},)" if isinstance(value, int | float) else ""
        raise WaypostError(f"{place or 'it'} must be {_words(kind)}, got {shown(value)}{hint}")
    fixed = origin is tuple and options[-1] is not Ellipsis
    if fixed and len(value) != len(options):
        _refuse(value, kind, place)
    kinds = options if fixed else options[:1] * len(value)
    found = [conform(each, own, f"{place}[{i}]") for i, (each, own) in enumerate(zip(value, kinds, strict=True))]
    return tuple(found) if origin is tuple else found


def _plain(value: Any, kind: Any, place: str) -> Any:
    """A number, a text or a Boolean; True is not a number here, although it is in Python."""
    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    kinds = (int, float) if kind is float else kind
    fits = isinstance(value, kinds) and isinstance(value, bool) == (kind is bool)
    if not fits or (isinstance(value, float) and not math.isfinite(value)):
        _refuse(value, kind, place)
    if isinstance(value, int) and abs(value) >= MOST:
        raise WaypostError(f"{place} must have fewer than 20 digits, got {shown(value)}")
    return value
