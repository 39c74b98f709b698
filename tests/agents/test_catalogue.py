"""What each algorithm says about data, and who cannot learn from them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from samples import walk

from waypost.agents import ALGORITHMS, Entry, able, display_name, supports
from waypost.data.dataset import Dataset
from waypost.errors import WaypostError
from waypost.studies.paper.benchmark import NAMES


def walk_choosing() -> Dataset:
    """The same walk with three discrete actions."""
    return replace(walk(), actions=(np.arange(60) % 3).astype(np.float32)[:, None]).with_action_count(3)


def verdicts(dataset: Dataset) -> dict[str, tuple[bool, str]]:
    found = supports(dataset)
    assert [support.algorithm for support in found] == list(ALGORITHMS)
    return {support.algorithm: (support.supported, support.why) for support in found}


def test_whole_data_support_every_algorithm_for_such_actions() -> None:
    assert all(supported is ALGORITHMS[name].continuous for name, (supported, _) in verdicts(walk()).items())
    assert all(supported is ALGORITHMS[name].discrete for name, (supported, _) in verdicts(walk_choosing()).items())


def test_without_actions_por_trains_in_part_and_bc_not_at_all() -> None:
    found = verdicts(walk().without_actions())
    assert found["bc"] == (False, "the data have no actions")
    assert not found["por"][0]
    assert "the data have no actions; V and the guide train without them: --training guide" in found["por"][1]


def test_without_rewards_bc_trains_and_por_in_part() -> None:
    found = verdicts(walk().without_rewards())
    assert found["bc"][0]
    assert not found["por"][0]
    assert "--training executor" in found["por"][1]
    assert verdicts(walk().without_rewards().without_actions())["por"] == (
        False,
        "the data have no actions and no rewards",
    )


def test_rewards_that_say_nothing_support_cloning_only() -> None:
    found = verdicts(walk().with_rewards(np.zeros(60)))
    assert found["bc"][0]
    assert found["por"] == (False, "all rewards are 0: nothing to learn beyond imitating the data")


def test_without_any_next_state_nothing_that_looks_ahead_can_learn() -> None:
    found = verdicts(replace(walk(), terminals=np.zeros(60, bool), next_valid=np.zeros(60, bool)))
    assert found["bc"][0]
    assert found["por"] == (False, "no row has a known next state: store next_observations")


def test_algorithms_that_cannot_learn_such_actions_are_named() -> None:
    chooser = replace(ALGORITHMS["bc"], name="chooser", continuous=False)
    pusher = replace(ALGORITHMS["bc"], name="pusher", discrete=False)
    assert pusher.support(walk_choosing()).why == "actions are discrete, it learns only continuous ones"
    assert chooser.support(walk_choosing()).supported
    assert chooser.support(walk()).why == "actions are continuous, it learns only discrete ones"


def test_what_an_algorithm_needs_is_read_from_its_entry() -> None:
    dreamer = Entry(
        "dreamer", "", "", needs=frozenset({"rewards"}), without={"rewards": "the model trains without"}, discrete=False
    )
    assert dreamer.support(walk().without_actions()).why == "the data have rewards"
    assert dreamer.support(walk_choosing()).supported  # it never looks at actions
    found = dreamer.support(walk().without_rewards())
    assert (found.supported, found.why) == (False, "the data have no rewards; the model trains without")


def test_an_algorithm_that_cannot_learn_says_who_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ALGORITHMS, "pusher", replace(ALGORITHMS["bc"], name="pusher", discrete=False))
    with pytest.raises(
        WaypostError, match=r"^walk: pusher cannot learn .*: actions are dis.*: por, waypoint, bc, [^;]*$"
    ):
        able(walk_choosing(), "pusher")
    with pytest.raises(
        WaypostError, match=r"; these can: .*por.*; if the actions are continuous, pass --columns.choices 0$"
    ):
        able(replace(walk_choosing(), action_kind_declared=False), "pusher")
    with pytest.raises(
        WaypostError, match=r"bc10 .*all data.*these can: por, waypoint, bc, onestep.*or --stream never$"
    ):
        able(walk(), "bc10", streamed=True)
    assert able(walk(), "bc10") is ALGORITHMS["bc10"]
    assert able(walk(), "pusher").name == "pusher"


def test_what_can_be_learned_is_known_without_jax() -> None:
    program = "import sys, waypost.agents; print([m for m in ('jax', 'equinox', 'optax') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_entry_leads_to_its_code(name: str) -> None:
    chosen = ALGORITHMS[name]
    assert chosen.name == name
    assert issubclass(chosen.load().config_type, chosen.config_type)
    assert chosen.title


def test_every_algorithm_has_a_name_as_papers_write_it() -> None:
    assert [display_name(name) for name in ("waypoint", "por", "bc10", "td3bc")] == [
        "Waypoint",
        "POR",
        "10%BC",
        "TD3+BC",
    ]
    assert all(entry.label for entry in ALGORITHMS.values())
    assert {name: display_name(name) for name in NAMES} == NAMES
    assert display_name("my-own") == "my-own"
