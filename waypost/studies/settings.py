"""Settings of several algorithms in one file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

from waypost.agents import find_entry
from waypost.errors import WaypostError
from waypost.files import reading
from waypost.schema import conform

MOST_BYTES = 1 << 20
"""The most bytes of a settings file."""


def read_settings(path: str | Path) -> dict[str, dict[str, Any]]:
    """Settings for `compare` and `paper` from a TOML file: a table per algorithm, fields of its Config or `steps`."""
    path = Path(path)
    with reading(path, "a TOML file"):
        if path.stat().st_size > MOST_BYTES:
            raise WaypostError(f"{path}: has {path.stat().st_size} bytes, expected {MOST_BYTES} or fewer")
        tables = tomllib.loads(path.read_text("utf-8"))
    for name, settings in tables.items():
        if not isinstance(settings, dict):
            raise WaypostError(f"{path}: {name} is not a table; write [ALGORITHM] and its settings below")
        try:
            kinds = get_type_hints(find_entry(name).config_type) | {"steps": int}
            for key, value in settings.items():
                if key not in kinds:
                    raise WaypostError(f"{name} has no setting {key}")
                conform(value, kinds[key], f"{name}.{key}")
        except WaypostError as error:
            raise WaypostError(f"{path}: {error}") from None
    return tables


def with_tuples(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as a Config needs them: lists from a file become tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}
