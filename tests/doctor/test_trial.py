"""The self-test notices a policy that acts differently after it was saved."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from waypost.doctor import trial
from waypost.training import train as training
from waypost.training.policy import Policy


def test_a_loaded_policy_must_act_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "UPDATES", 4)
    runs = []
    usual = training.train
    monkeypatch.setattr(training, "train", lambda *given, **options: runs.append(usual(*given, **options)) or runs[0])
    found = trial.trial()
    assert [check.what for check in found] == ["data", "train", "act", "save and load"]
    assert {check.level for check in found} == {"ok"}

    monkeypatch.setattr(training, "train", lambda *given, **options: runs[0])
    other = SimpleNamespace(act=lambda states: np.zeros((len(states), 2)))
    monkeypatch.setattr(Policy, "load", lambda folder: other)
    assert trial.trial()[-1].level == "error"
