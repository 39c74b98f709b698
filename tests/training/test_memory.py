"""What does not fit is refused by its shapes."""

from __future__ import annotations

from typing import Any

import pytest

import waypost
from waypost.errors import WaypostError
from waypost.training import memory


@pytest.mark.parametrize(
    ("algorithm", "options", "message"),
    [
        ("bc", {"hidden": (2**20, 2**20)}, "the networks would take .* GB of memory, .* GB is free; use smaller ones"),
        ("bc", {"hidden": (1024,), "seeds": 10_000, "free": 10**8}, "the networks would take"),
        ("bc", {"batch_size": 2**20, "hidden": (1024,), "free": 4 * 10**9}, "an update would take 4.3 GB"),
        ("bc", {"steps": 2**31 - 1, "log_every": 2**31 - 1, "free": 10**9}, "updates would take"),
        ("por", {"steps": 2**31 - 1, "training": "staged"}, "the steps of all stages must be 2147483647 or fewer"),
    ],
)
def test_what_does_not_fit_is_refused_before_it_is_allocated(
    algorithm: str, options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = options.pop("free", 10**10)
    monkeypatch.setattr(memory, "available_memory", lambda: free)
    with pytest.raises(WaypostError, match=message):
        waypost.train(algorithm, "t-maze", env="none", preset="none", **{"steps": 2, **options})
