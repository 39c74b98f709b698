"""Counts and times of a service, in Prometheus' text format."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)
"""Upper bounds of the histogram of answer times, in seconds."""


@dataclass
class Metrics:
    """Counts and times since the start."""

    statuses: Counter[int] = field(default_factory=Counter)
    """Answers by their HTTP status."""
    within: Counter[float] = field(default_factory=Counter)
    """Answers that took at most this many seconds."""
    seconds: float = 0.0
    rows: int = 0
    far: int = 0
    """Observations farther from the data than 95 % of the data are."""
    reloads: int = 0
    failed_reloads: int = 0

    def count(self, status: int, rows: int, seconds: float) -> None:
        self.statuses[status] += 1
        self.rows += rows
        self.seconds += seconds
        for limit in BUCKETS:
            self.within[limit] += seconds <= limit

    def text(self) -> str:
        total = self.statuses.total()
        statuses = {f'{{status="{status}"}}': count for status, count in sorted(self.statuses.items())}
        buckets: dict[str, float] = {f'_bucket{{le="{limit}"}}': self.within[limit] for limit in BUCKETS}
        buckets |= {'_bucket{le="+Inf"}': total, "_sum": self.seconds, "_count": total}
        parts = (
            ("requests_total", "counter", "Requests answered, by HTTP status.", statuses),
            ("request_seconds", "histogram", "Time to answer a request.", buckets),
            ("observations_total", "counter", "Observations answered.", {"": self.rows}),
            ("far_observations_total", "counter", "Observations at a distance above 1 from the data.", {"": self.far}),
            ("reloads_total", "counter", "Policies reloaded while serving.", {"": self.reloads}),
            ("failed_reloads_total", "counter", "Policies that could not be reloaded.", {"": self.failed_reloads}),
        )
        lines = []
        for name, kind, words, values in parts:
            lines += [f"# HELP waypost_{name} {words}", f"# TYPE waypost_{name} {kind}"]
            lines += [f"waypost_{name}{suffix} {value}" for suffix, value in values.items()]
        return "\n".join(lines) + "\n"
