"""How likely the behaviour was to act as a policy does."""

from __future__ import annotations

import chain
import numpy as np
import pytest
from test_support import controlled

from waypost.data.dataset import Dataset
from waypost.studies.judge.likelihood import Behaviour
from waypost.studies.judge.robust import clone
from waypost.studies.judge.support import USUAL


@pytest.fixture(scope="module")
def data() -> Dataset:
    return controlled()


@pytest.fixture(scope="module")
def behaviour(data: Dataset) -> Behaviour:
    return Behaviour(clone(data, 600), data, np.arange(0, len(data), 2))


def test_the_recorded_actions_are_the_measure(data: Dataset, behaviour: Behaviour) -> None:
    found, ratios = behaviour.measure(data.require("actions"))
    assert found.median == 0.0
    assert (ratios == 0.0).all()
    assert len(ratios) == len(data) // 2
    assert found.unlikely == found.data_unlikely == pytest.approx(1 - USUAL, abs=0.01)


def test_what_the_controller_meant_is_likelier_than_its_noise_and_what_it_never_did_is_not(
    data: Dataset, behaviour: Behaviour
) -> None:
    meant, _ = behaviour.measure(data.observations[:, :1])
    assert meant.median > 0.0
    assert meant.unlikely < meant.data_unlikely
    never, ratios = behaviour.measure(data.observations[:, :1] + 2.0)
    assert never.median < -10.0
    assert never.unlikely > 0.9
    assert never.median == np.median(ratios)


def test_discrete_actions_have_probabilities() -> None:
    data = chain.record(100, right=0.9)
    behaviour = Behaviour(clone(data, 300), data, np.arange(len(data)))
    left, _ = behaviour.measure(np.zeros_like(data.require("actions")))
    assert left.median == pytest.approx(np.log(0.1 / 0.9), abs=0.6)
