"""What every reader needs: a file from somewhere else may be damaged, or claim to be larger than it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from waypost.errors import WaypostError
from waypost.resources import available_memory

MOST_PACKED = 1100
"""No compression in use makes data smaller than by this factor; what claims more is damaged."""


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Whatever goes wrong while a file is parsed becomes one line that names it."""
    if not path.exists():
        raise WaypostError(f"{path}: there is no such file")
    try:
        yield
    except WaypostError:
        raise
    except MemoryError:
        raise WaypostError(f"{path}: does not fit in memory; convert it in parts, or see docs/large-data.md") from None
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise WaypostError(f"{path}: damaged or not {kind} ({reason})") from None


def plausible(path: Path, field: str, claimed: int, stored: int) -> None:
    """Refuse what cannot be true or cannot be held, before any memory is asked for."""
    if claimed > MOST_PACKED * max(stored, 1) + 4096:
        raise WaypostError(f"{path}: damaged: {field} claims {claimed} bytes, the file holds {stored} for it")
    free = available_memory()
    if claimed > free:
        raise WaypostError(
            f"{path}: {field} needs {claimed / 1e9:.1f} GB, {free / 1e9:.1f} GB are free; "
            "see docs/large-data.md on data larger than memory"
        )


class Fields(Mapping[str, np.ndarray]):
    """Arrays by name, each read when it is asked for."""

    def __init__(
        self,
        names: Iterable[str],
        read: Callable[[str], np.ndarray],
        holds_integers: Callable[[str], bool] | None = None,
    ):
        self.names, self.read = dict.fromkeys(names), read
        self.holds_integers = holds_integers
        """Whether a field holds integers or truth values, where its array does not tell."""

    def __getitem__(self, name: str) -> np.ndarray:
        return self.read(name)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)
