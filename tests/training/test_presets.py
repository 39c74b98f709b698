"""The paper's tables, row by row."""

from __future__ import annotations

import pytest

from waypost.agents.bc import Config as BCConfig
from waypost.agents.por import Config
from waypost.errors import WaypostError
from waypost.recording.replicas import REPLICAS
from waypost.training import presets

MAZES = ("umaze", "umaze-diverse", "medium-play", "medium-diverse", "large-play", "large-diverse")
RATES = (1e-3, 1e-3, 1e-4, 1e-4, 1e-4, 1e-4)
SPARSE = (1.0, 0.5, 0.1, 0.1, 0.1, 0.3)
LOCOMOTION = {
    "halfcheetah-medium": ("weighted", 0.5, 3.0, True),
    "hopper-medium": ("constrained", 0.7, 50.0, False),
    "walker2d-medium": ("weighted", 0.5, 3.0, True),
    "halfcheetah-medium-replay": ("weighted", 0.5, 3.0, True),
    "hopper-medium-replay": ("constrained", 0.7, 50.0, False),
    "walker2d-medium-replay": ("weighted", 0.5, 3.0, True),
    "halfcheetah-medium-expert": ("weighted", 0.5, 3.0, True),
    "hopper-medium-expert": ("constrained", 0.7, 5.0, True),
    "walker2d-medium-expert": ("weighted", 0.5, 3.0, True),
}


def settings(name: str) -> tuple[int | None, Config]:
    _, steps, found = presets.find("por", Config, name, "")
    return steps, Config(**found)


def common(config: Config) -> bool:
    return (
        (config.value_hidden, config.guide_hidden, config.executor_hidden) == ((256, 256), (256, 256), (1024, 1024))
        and (config.value_learning_rate, config.target_rate, config.batch_size) == (1e-4, 0.05, 256)
        and (config.discount, config.observation_scaling, config.guide_target, config.horizon)
        == (0.99, "none", "state", 1)
        and (config.training, config.weight_cap, config.schedule) == ("joint", 100.0, "cosine")
    )


@pytest.mark.parametrize(("maze", "rate", "sparse"), list(zip(MAZES, RATES, SPARSE, strict=True)))
def test_antmaze_rows(maze: str, rate: float, sparse: float) -> None:
    for family, objective, tau in (("paper", "expectile", 0.9), ("paper-sparse", "sparse", sparse)):
        steps, config = settings(f"{family}/antmaze-{maze}")
        assert steps == 1_000_000
        assert (config.value_objective, config.guide_objective) == (objective, "weighted")
        assert (config.tau, config.inverse_temperature) == (tau, 10.0)
        assert config.guide_learning_rate == config.executor_learning_rate == rate
        assert not config.value_layer_norm
        assert common(config)


@pytest.mark.parametrize("name", LOCOMOTION)
def test_locomotion_rows(name: str) -> None:
    steps, config = settings(f"paper/{name}")
    objective, tau, alpha, layer_norm = LOCOMOTION[name]
    assert steps == 1_000_000
    assert (config.value_objective, config.guide_objective) == ("expectile", objective)
    assert (config.tau, config.inverse_temperature, config.value_layer_norm) == (tau, alpha, layer_norm)
    assert config.guide_learning_rate == config.executor_learning_rate == 1e-3
    if objective == "constrained":
        assert (config.behaviour_steps, config.behaviour_learning_rate) == (1_000_000, 1e-4)
    assert common(config)


@pytest.mark.parametrize("name", ["four-rooms", "four-rooms-river", "four-rooms-key"])
def test_four_room_rows(name: str) -> None:
    _, config = settings(f"paper/{name}")
    assert config.value_hidden == config.guide_hidden == config.executor_hidden == (64, 64)
    rates = {config.value_learning_rate, config.guide_learning_rate, config.executor_learning_rate}
    assert rates == {1e-4}
    assert (config.tau, config.inverse_temperature, config.guide_objective) == (0.9, 10.0, "weighted")
    assert (config.target_rate, config.discount, config.observation_scaling) == (0.05, 0.99, "none")
    assert config.executor_inputs == ((0, 1) if name.endswith("key") else ())


def test_there_are_as_many_rows_as_in_the_paper() -> None:
    names = list(presets.presets("por"))
    assert sum(name.startswith("paper/") and "four" not in name for name in names) == 15
    assert sum(name.startswith("paper-sparse/") for name in names) == 6


def test_the_data_choose_the_preset_ours_for_what_is_made_here_and_the_papers_for_the_rest() -> None:
    assert presets.find("por", Config, None, "four-rooms")[0] == "four-rooms"
    assert presets.find("por", Config, None, "hopper-medium")[0] == "hopper-medium"
    for theirs in ("hopper-medium-v2", "D4RL/hopper/medium-v2"):
        assert presets.find("por", Config, None, theirs)[0] == "paper/hopper-medium"
    assert presets.find("por", Config, None, "my-log")[0] == "default"
    assert presets.find("por", Config, "none", "four-rooms") == (None, None, {})
    assert presets.find("bc", Config, None, "four-rooms") == (None, None, {})


def test_every_replica_has_a_preset_of_ours() -> None:
    for name in REPLICAS:
        steps, config = settings(name)
        ant = name.startswith("antmaze")
        assert steps == (100_000 if ant else 50_000)
        assert (config.guide_target, config.target_rate) == ("state" if ant else "displacement", 0.05)
        assert config.observation_scaling == ("standardise" if name.startswith("pointmaze") else "none")


def test_every_preset_fits_the_config() -> None:
    for name in presets.presets("por"):
        settings(name)
    with pytest.raises(WaypostError, match="has no setting discount"):
        presets.find("por", BCConfig, "four-rooms", "")
