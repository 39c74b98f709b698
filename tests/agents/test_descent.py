"""Steps of several parts in one update: each by its own optimiser, with what it reports."""

from __future__ import annotations

import jax.numpy as jnp
import optax
import pytest

from waypost.agents.descent import Descent


def test_each_part_takes_its_own_step_and_reports() -> None:
    optimisers = {"fast": optax.sgd(0.5), "slow": optax.sgd(0.1, momentum=0.9)}
    start = {part: optimiser.init(jnp.array(2.0)) for part, optimiser in optimisers.items()}
    descent = Descent(optimisers, start)
    assert float(descent.step("fast", jnp.array(2.0), lambda x: x**2)) == 0.0
    slow = descent.step("slow", jnp.array(2.0), lambda x: (3.0 * x, {"seen": 10.0 * x}))
    assert float(slow) == pytest.approx(1.7)
    assert {name: float(value) for name, value in descent.metrics.items()} == {
        "fast_loss": 4.0,
        "slow_loss": 6.0,
        "seen": 20.0,
    }
    assert float(descent.follow("slow", slow, jnp.array(1.0))) == pytest.approx(1.7 - 0.1 * (1.0 + 0.9 * 3.0))
    assert float(descent.states["slow"][0].trace) == pytest.approx(3.7)
    assert float(start["slow"][0].trace) == 0.0
