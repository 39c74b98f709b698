"""Early stopping."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from waypost.errors import WaypostError
from waypost.training.callbacks import Callback


class EarlyStopping(Callback):
    """Ends a training once a measure has not improved for `patience` rows.

    measure   a column of metrics.csv or evaluations.csv: "score", "return", "success_rate", "value_loss", ...; its mean
              over the seeds counts
    patience  rows without an improvement before it stops
    better    "higher" or "lower"
    least     the smallest change that counts as an improvement

    A resumed run counts again from where it resumes.
    """

    def __init__(
        self, measure: str, patience: int = 5, *, better: Literal["higher", "lower"] = "higher", least: float = 0.0
    ):
        if better not in ("higher", "lower"):
            raise WaypostError(f"better must be 'higher' or 'lower', got {better!r}")
        if patience < 1:
            raise WaypostError(f"patience must be 1 or more, got {patience}")
        if not least >= 0.0:
            raise WaypostError(f"least must be 0 or more, got {least}")
        self.measure, self.patience, self.least = measure, patience, least
        self.sign = 1.0 if better == "higher" else -1.0
        self.best: float | None = None
        self.best_step = self.waited = 0

    def logged(self, step: int, rows: list[dict[str, Any]]) -> None:
        self._look(step, [row.get(self.measure) for row in rows])

    def evaluated(self, step: int, rows: list[dict[str, Any]]) -> None:
        self._look(step, [row.get(self.measure) for row in rows])

    def wants_stop(self) -> str:
        if self.waited < self.patience or self.best is None:
            return ""
        best = f"{self.measure} was best at step {self.best_step}, {self.sign * self.best:.4g}"
        return f"{best}; {self.waited} row{'s' if self.waited > 1 else ''} without a better one"

    def _look(self, step: int, values: list[float | None]) -> None:
        numbers = [value for value in values if value is not None]
        if not numbers:
            return
        now = self.sign * float(np.mean(numbers))
        if self.best is None or now > self.best + self.least:
            self.best, self.best_step, self.waited = now, step, 0
        else:
            self.waited += 1
