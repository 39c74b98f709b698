"""BCQ: one update against NumPy, who learns from what, and that it acts with the best of what it generates."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import compiled
import constrained
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from constrained import KNOWN, Rows, both, cautious, decoder, normal, pair
from oracles import HIGH, LOW, ROWS, check_bounds, check_step, differing, moved_by, numbers, same, shaken, walks

from waypost.agents import ALGORITHMS
from waypost.agents.agent import Spec
from waypost.agents.bcq import BCQ, BCQAgent, Config, State
from waypost.data.dataset import Dataset
from waypost.errors import WaypostError

SMALL: dict[str, Any] = {
    "perturbation": 0.3,
    "target_candidates": 3,
    "acting_candidates": 7,
    "vae_hidden": (6,),
    "value_hidden": (6,),
    "perturbation_hidden": (6,),
    "target_rate": 0.3,
    "learning_rate": 0.01,
    "discount": 0.9,
}
CHANGES: dict[str, Any] = {
    "perturbation": 0.1,
    "target_candidates": 5,
    "acting_candidates": 40,
    "minimum_share": 0.2,
    "latent": 3,
    "latent_clip": 2.0,
    "kl_weight": 2.0,
    "discount": 0.5,
    "target_rate": 0.9,
    "learning_rate": 0.05,
    "vae_hidden": (7,),
    "value_hidden": (7,),
    "perturbation_hidden": (7,),
    "observation_scaling": True,
}
KEY = jax.random.key(7)
SCALING = {"observation_mean": np.zeros(3), "observation_std": np.ones(3)}
LATENT = 4
WHERE = {
    "vae": lambda state: state.agent.vae,
    "value": lambda state: state.agent.action_value,
    "perturbation": lambda state: state.agent.perturbation,
    "target_value": lambda state: state.target_value,
    "target_perturbation": lambda state: state.target_perturbation,
}
SEEDS = {"vae": 29, "value": 46, "perturbation": 63, "target_value": 80, "target_perturbation": 97}
"""What the networks are drawn from; with these the comparisons below can tell right from wrong."""


def begin(data: Dataset | None = None, **settings: Any) -> tuple[BCQ, dict[str, jax.Array], State]:
    """The algorithm, all rows as a batch, and a state as if it had learned before: its targets lag behind."""
    config = Config(**{**SMALL, **settings})
    prepared, spec = BCQ.prepare(config, data or walks())
    algorithm = BCQ(config, spec, 3)
    state = compiled.blank(algorithm)
    for part, seed in SEEDS.items():
        state = shaken(state, WHERE[part], seed)
    return algorithm, constrained.columns(prepared), state


def update(algorithm: BCQ, state: State, batch: dict[str, jax.Array]) -> tuple[State, dict[str, Any]]:
    return compiled.update(algorithm, 0, state, batch, KEY)


def settled() -> tuple[BCQ, dict[str, jax.Array], State]:
    """The same after one update: Adam's first step has the sign of a gradient only, later ones show its size."""
    algorithm, batch, state = begin()
    return algorithm, batch, update(algorithm, state, batch)[0]


parts = partial(constrained.parts, WHERE)


# -- one update against NumPy ----------------------------------------------------------------------------


def generate(vae: Any, perturbation: Any, most: float, states: np.ndarray, z: np.ndarray) -> np.ndarray:
    """a + xi(s, a) for a = G(s, z), inside [-1, 1]."""
    actions = np.tanh(decoder(vae, states, z))
    return np.clip(actions + most * np.tanh(oracles.mlp(perturbation.net, pair(states, actions))), -1, 1)


class Oracle:
    """BCQ's losses with the networks of two states around an update."""

    def __init__(self, before: State, after: State, table: Rows, config: Config):
        self.before, self.after = (
            {name: numbers(where(each)) for name, where in WHERE.items()} for each in (before, after)
        )
        self.table, self.config = table, config
        self.vae_key, self.target_key, self.perturbation_key = jax.random.split(KEY, 3)

    def vae_loss(self, net: Any) -> float:
        return constrained.vae_loss(net, self.table, normal(self.vae_key, (KNOWN, LATENT)), self.config.kl_weight)

    def candidate_values(self) -> np.ndarray:
        """Of the actions the new VAE and the old xi' generate in s', by the old Q'; (2, candidates, rows)."""
        table, config = self.table, self.config
        z = normal(self.target_key, (config.target_candidates, KNOWN, LATENT), config.latent_clip)
        xi, q = self.before["target_perturbation"], self.before["target_value"]
        return both(q, table.following, generate(self.after["vae"], xi, config.perturbation, table.following, z))

    def targets(self) -> np.ndarray:
        return self.table.targets(cautious(self.candidate_values(), self.config.minimum_share).max(axis=0))

    def perturbed(self, net: Any) -> np.ndarray:
        z = normal(self.perturbation_key, (KNOWN, LATENT), self.config.latent_clip)
        return generate(self.after["vae"], net, self.config.perturbation, self.table.states, z)

    def perturbation_loss(self, net: Any) -> float:
        return -both(self.after["value"], self.table.states, self.perturbed(net))[0].mean()


@pytest.mark.parametrize("scaled", [False, True])
def test_every_part_takes_an_adam_step_down_its_loss(scaled: bool) -> None:
    algorithm, batch, state = begin(observation_scaling=scaled)
    after, metrics = update(algorithm, state, batch)
    table = constrained.rows(walks(), 0.9, scaled)
    oracle = Oracle(state, after, table, algorithm.config)
    targets = oracle.targets()

    def value_loss(net: Any) -> float:
        return constrained.value_loss(net, table, targets)

    for part, loss in {
        "vae": oracle.vae_loss,
        "value": value_loss,
        "perturbation": oracle.perturbation_loss,
    }.items():
        nets = WHERE[part](state), WHERE[part](after)
        check_step(loss, metrics[f"{part}_loss"], *nets, after.optimisers[part], 0.01, 2e-5)
    assert np.isclose(metrics["value"], both(oracle.before["value"], table.states, table.actions).mean(), rtol=1e-5)
    assert moved_by(0.3, state.target_value, after.agent.action_value, after.target_value)
    assert moved_by(0.3, state.target_perturbation, after.agent.perturbation, after.target_perturbation)
    assert same((state.agent.scaling, state.agent.actions), (after.agent.scaling, after.agent.actions))


def test_the_batch_can_tell_a_right_update_from_a_wrong_one() -> None:
    """Either Q' is the smaller one somewhere, every candidate the best one, and some actions reach a bound."""
    algorithm, batch, state = begin()
    oracle = Oracle(state, update(algorithm, state, batch)[0], constrained.rows(walks(), 0.9), algorithm.config)
    values = oracle.candidate_values()
    assert 0.1 < (values[0] < values[1]).mean() < 0.9
    assert set(cautious(values, 0.75).argmax(axis=0)) == {0, 1, 2}
    reached = np.abs(oracle.perturbed(oracle.before["perturbation"])) == 1
    assert 0 < reached.mean() < 0.5


def test_z_is_clipped_when_actions_are_generated_and_only_then() -> None:
    algorithm, batch, state = begin(latent_clip=0.1)
    narrow, wide = (update(each, state, batch)[1] for each in (algorithm, begin(latent_clip=9.0)[0]))
    assert narrow["vae_loss"] == wide["vae_loss"]
    for part in ("value", "perturbation"):
        assert not np.isclose(narrow[f"{part}_loss"], wide[f"{part}_loss"], rtol=1e-3)


def test_a_perturbation_moves_actions_by_at_most_its_share_of_their_range() -> None:
    strong = jax.tree.map(lambda leaf: 50 * leaf, begin(perturbation=0.05)[2].agent.perturbation)
    actions = jnp.asarray(np.random.default_rng(0).uniform(-0.9, 0.9, (KNOWN, 2)), jnp.float32)
    moved = np.asarray(strong(jnp.ones((KNOWN, 3)), actions) - actions)
    assert np.isclose(np.abs(moved).max(), 0.05, rtol=1e-4)


# -- who learns from what ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("vae", {"value", "perturbation", "target_value", "target_perturbation"}),
        ("value", {"perturbation", "target_value", "target_perturbation"}),
        ("perturbation", {"target_perturbation"}),
        ("target_value", {"value", "perturbation", "target_perturbation"}),
        ("target_perturbation", {"value", "perturbation", "target_value"}),
    ],
)
def test_a_part_depends_on_just_these(part: str, expected: set[str]) -> None:
    algorithm, batch, state = settled()
    one, other = (update(algorithm, each, batch)[0] for each in (state, shaken(state, WHERE[part])))
    assert differing(parts(one), parts(other)) - {part} == expected


def test_the_perturbation_follows_the_first_q_alone() -> None:
    algorithm, batch, state = settled()
    for head, expected in (
        (0, {"value", "target_value", "perturbation", "target_perturbation"}),
        (1, {"value", "target_value"}),
    ):
        moved = shaken(state, lambda s, head=head: s.agent.action_value.heads[head])
        one, other = (update(algorithm, each, batch)[0] for each in (state, moved))
        assert differing(parts(one), parts(other)) == expected


EVERY = set(WHERE)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"actions": np.random.default_rng(5).uniform(LOW, HIGH, (ROWS, 2))}, EVERY),
        ({"rewards": np.arange(ROWS)}, EVERY - {"vae"}),
        ({"terminals": np.arange(ROWS) == ROWS - 5}, EVERY - {"vae"}),
    ],
    ids=["actions", "rewards", "terminals"],
)
def test_the_vae_reads_no_rewards(change: dict[str, Any], expected: set[str]) -> None:
    algorithm, batch, state = settled()
    other = begin(walks(**change))[1]
    states = [update(algorithm, state, each)[0] for each in (batch, other)]
    assert differing(*map(parts, states)) == expected


def test_a_timeout_bootstraps_and_a_terminal_does_not() -> None:
    algorithm, batch, state = settled()
    constrained.check_bootstrap(lambda rows: parts(update(algorithm, state, rows)[0]), batch)


# -- acting ----------------------------------------------------------------------------------------------


def acting() -> BCQAgent:
    return begin()[2].agent


def test_it_acts_with_the_best_by_the_first_q_of_what_it_generates() -> None:
    agent, states = acting(), walks().observations.astype(np.float64)
    vae, xi, q = (numbers(part) for part in (agent.vae, agent.perturbation, agent.action_value))
    z = np.broadcast_to(normal(jax.random.key(0), (7, 1, LATENT), 0.5), (7, ROWS, LATENT))
    candidates = generate(vae, xi, 0.3, states, z)
    best = both(q, states, candidates)[0].argmax(axis=0)
    assert len(set(best)) > 2
    expected = candidates[best, np.arange(ROWS)]
    actions, memory = compiled.act(agent, walks().observations, ())
    assert memory == ()
    assert np.allclose(actions, expected * [1.5, 2.5] + [-0.5, 2.5], atol=1e-4)


def test_it_acts_alike_every_time_and_in_every_company() -> None:
    constrained.check_company(acting(), 1e-6)


def test_actions_never_leave_their_bounds_and_reach_both() -> None:
    check_bounds(acting(), lambda agent: agent.vae)


# -- settings --------------------------------------------------------------------------------------------


def test_the_defaults_are_the_originals() -> None:
    config = Config()
    assert (config.perturbation, config.minimum_share, config.latent_clip, config.kl_weight) == (0.05, 0.75, 0.5, 0.5)
    assert (config.target_candidates, config.acting_candidates) == (10, 100)
    assert (config.vae_hidden, config.value_hidden, config.perturbation_hidden) == ((750, 750), (400, 300), (400, 300))
    assert (config.learning_rate, config.target_rate, config.discount, config.batch_size) == (1e-3, 0.005, 0.99, 100)
    assert ALGORITHMS["bcq"].conventions == {"return-range": "recorded"}
    for asked, given in ((0, 2 * 2), (3, 3)):
        algorithm = BCQ(replace(config, latent=asked), Spec.of(walks(), **SCALING), 3)
        assert jax.eval_shape(algorithm.init, KEY).agent.vae.latent == given


@pytest.mark.parametrize(
    ("name", "value"),
    [("perturbation", -0.1), ("target_candidates", 0), ("minimum_share", 1.1), ("latent_clip", 0.0), ("discount", 0.0)],
)
def test_a_setting_out_of_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(WaypostError, match=rf"^{name} must .+, got "):
        Config(**{name: value})


def test_presets_are_the_papers_data_sets_and_the_t_maze() -> None:
    for name, (steps, _) in constrained.presets_of("bcq", Config).items():
        assert steps == (1_000_000 if name.startswith("paper/") else 5_000)
