"""BEAR: one update against NumPy, what holds the policy to the data, who learns from what, and how it acts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import compiled
import constrained
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from constrained import KNOWN, Rows, both, cautious, decoder, normal
from oracles import HIGH, LOW, ROWS, check_bounds, check_step, differing, moved_by, numbers, same, shaken, walks

from waypost.agents import ALGORITHMS, losses
from waypost.agents.agent import Spec
from waypost.agents.bear import BEAR, BEARAgent, Config, State
from waypost.data.dataset import Dataset
from waypost.errors import WaypostError

SMALL: dict[str, Any] = {
    "threshold": 0.4,
    "bandwidth": 2.0,
    "samples": 3,
    "warmup_steps": 1,
    "candidates": 4,
    "vae_hidden": (6,),
    "value_hidden": (6,),
    "policy_hidden": (6,),
    "target_rate": 0.3,
    "learning_rate": 0.01,
    "dual_learning_rate": 0.02,
    "discount": 0.9,
}
CHANGES: dict[str, Any] = {
    "threshold": 0.0,
    "kernel": "laplacian",
    "bandwidth": 10.0,
    "samples": 2,
    "sample_clip": 2.0,
    "warmup_steps": 0,
    "candidates": 9,
    "minimum_share": 0.2,
    "latent": 3,
    "kl_weight": 2.0,
    "discount": 0.5,
    "target_rate": 0.9,
    "learning_rate": 0.05,
    "dual_learning_rate": 0.2,
    "vae_hidden": (7,),
    "value_hidden": (7,),
    "policy_hidden": (7,),
    "observation_scaling": True,
}
KEY = jax.random.key(7)
SCALING = {"observation_mean": np.zeros(3), "observation_std": np.ones(3)}
LATENT = 4
WHERE = {
    "vae": lambda state: state.vae,
    "value": lambda state: state.agent.action_value,
    "policy": lambda state: state.agent.policy,
    "multiplier": lambda state: state.log_multiplier,
    "target_value": lambda state: state.target_value,
    "target_policy": lambda state: state.target_policy,
}
SEEDS = {"vae": 1, "value": 114, "policy": 131, "multiplier": 148, "target_value": 165, "target_policy": 182}
"""What the networks are drawn from; with these the comparisons below can tell right from wrong."""


def begin(data: Dataset | None = None, step: int = 1, **settings: Any) -> tuple[BEAR, dict[str, jax.Array], State]:
    """The algorithm, all rows as a batch, and a state as if it had learned before; by default past the warm-up."""
    config = Config(**{**SMALL, **settings})
    prepared, spec = BEAR.prepare(config, data or walks())
    algorithm = BEAR(config, spec, 3)
    state = compiled.blank(algorithm)._replace(step=jnp.asarray(step, jnp.int32))
    for part, seed in SEEDS.items():
        state = shaken(state, WHERE[part], seed)
    return algorithm, constrained.columns(prepared), state


def update(algorithm: BEAR, state: State, batch: dict[str, jax.Array]) -> tuple[State, dict[str, Any]]:
    return compiled.update(algorithm, 0, state, batch, KEY)


def settled(step: int = 1) -> tuple[BEAR, dict[str, jax.Array], State]:
    """The same after one update: Adam's first step has the sign of a gradient only, later ones show its size."""
    algorithm, batch, state = begin(step=step - 1)
    return algorithm, batch, update(algorithm, state, batch)[0]


parts = partial(constrained.parts, WHERE)


# -- one update against NumPy ----------------------------------------------------------------------------


def mmd(ones: np.ndarray, others: np.ndarray, kernel: str, sigma: float) -> np.ndarray:
    """Of samples (samples, rows, numbers), pair by pair; one number per row."""

    def k(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        d = np.sum((x - y) ** 2 if kernel == "gaussian" else np.abs(x - y), axis=-1)
        return np.exp(-d / (2 * sigma))

    def mean(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return sum(k(x, y) for x in a for y in b) / (len(a) * len(b))

    return np.sqrt(mean(ones, ones) + mean(others, others) - 2 * mean(ones, others) + 1e-6)


class Oracle:
    """BEAR's losses with the networks of two states around an update."""

    def __init__(self, before: State, after: State, table: Rows, config: Config):
        self.before, self.after = (
            {name: numbers(where(each)) for name, where in WHERE.items()} for each in (before, after)
        )
        self.table, self.config, self.started = table, config, int(before.step) >= config.warmup_steps
        self.vae_key, self.target_key, self.policy_key, self.latent_key = jax.random.split(KEY, 4)

    def vae_loss(self, net: Any) -> float:
        return constrained.vae_loss(net, self.table, normal(self.vae_key, (KNOWN, LATENT)), self.config.kl_weight)

    def candidate_values(self) -> np.ndarray:
        """Of actions of pi' in s', whose noise is not clipped, by the old Q'; (2, candidates, rows)."""
        following = self.table.following
        mean, std = constrained.tanh_gaussian(self.before["target_policy"], following, -20, 2, mapped=False)
        noise = normal(self.target_key, (self.config.candidates, KNOWN, 2))
        return both(self.before["target_value"], following, np.tanh(mean + std * noise))

    def targets(self) -> np.ndarray:
        return self.table.targets(cautious(self.candidate_values(), self.config.minimum_share).max(axis=0))

    def inner(self, net: Any) -> np.ndarray:
        mean, std = constrained.tanh_gaussian(net, self.table.states, -20, 2, mapped=False)
        return mean + std * normal(self.policy_key, (self.config.samples, KNOWN, 2), self.config.sample_clip)

    def distance(self, net: Any) -> float:
        """MMD before the tanh, between the policy and the new VAE."""
        z = normal(self.latent_key, (self.config.samples, KNOWN, LATENT), self.config.sample_clip)
        decoded = decoder(self.after["vae"], self.table.states, z)
        return mmd(decoded, self.inner(net), self.config.kernel, self.config.bandwidth).mean()

    def values(self, net: Any) -> np.ndarray:
        """The new Q of the policy's actions: the mean over the samples of each network, (2, rows)."""
        return both(self.after["value"], self.table.states, np.tanh(self.inner(net))).mean(axis=1)

    def policy_loss(self, net: Any) -> float:
        held = np.exp(self.before["multiplier"]) * self.distance(net)
        return held - (self.values(net).min(axis=0).mean() if self.started else 0.0)


@pytest.mark.parametrize(
    ("step", "settings"),
    [
        (1, {}),
        (0, {}),
        (1, {"kernel": "laplacian", "bandwidth": 3.0, "observation_scaling": True}),
    ],
    ids=["gaussian", "warm-up", "laplacian, scaled"],
)
def test_every_part_takes_an_adam_step_down_its_loss(step: int, settings: dict[str, Any]) -> None:
    algorithm, batch, state = begin(step=step, **settings)
    after, metrics = update(algorithm, state, batch)
    table = constrained.rows(walks(), 0.9, settings.get("observation_scaling", False))
    oracle = Oracle(state, after, table, algorithm.config)
    targets, start = oracle.targets(), oracle.before["policy"]

    def value_loss(net: Any) -> float:
        return constrained.value_loss(net, table, targets)

    for part, loss in {"vae": oracle.vae_loss, "value": value_loss, "policy": oracle.policy_loss}.items():
        nets = WHERE[part](state), WHERE[part](after)
        check_step(loss, metrics[f"{part}_loss"], *nets, after.optimisers[part], 0.01, 5e-5)
    multiplier = np.exp(oracle.before["multiplier"])
    assert np.isclose(metrics["mmd"], oracle.distance(start), rtol=1e-4)
    assert np.isclose(metrics["multiplier"], multiplier, rtol=1e-5)
    assert np.isclose(metrics["value"], both(oracle.before["value"], table.states, table.actions).mean(), rtol=1e-5)
    # The dual variable climbs lambda (MMD - threshold), with the MMD of the policy before its step.
    slope = -multiplier * (oracle.distance(start) - 0.4)
    assert np.isclose(oracles.adam_gradient(after.optimisers["multiplier"])[0], slope, rtol=1e-3)
    assert np.isclose(after.log_multiplier - state.log_multiplier, -0.02 * np.sign(slope), rtol=1e-3)
    assert moved_by(0.3, state.target_value, after.agent.action_value, after.target_value)
    assert moved_by(0.3, state.target_policy, after.agent.policy, after.target_policy)
    assert same((state.agent.scaling, state.agent.actions), (after.agent.scaling, after.agent.actions))
    assert int(after.step) == step + 1


def test_the_batch_can_tell_a_right_update_from_a_wrong_one() -> None:
    """Either network is the smaller one somewhere, every candidate the best one, and clips are reached."""
    algorithm, batch, state = begin()
    oracle = Oracle(state, update(algorithm, state, batch)[0], constrained.rows(walks(), 0.9), algorithm.config)
    values, start = oracle.candidate_values(), oracle.before["policy"]
    assert 0.1 < (values[0] < values[1]).mean() < 0.9
    assert set(cautious(values, 0.75).argmax(axis=0)) == {0, 1, 2, 3}
    assert 2 < oracle.values(start).argmin(axis=0).sum() < KNOWN - 2
    every = both(oracle.after["value"], oracle.table.states, np.tanh(oracle.inner(start)))
    assert not np.isclose(every.min(axis=0).mean(), oracle.values(start).min(axis=0).mean(), rtol=0.01)


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
def test_mmd_is_that_of_numpy_and_does_not_stop_at_equal_samples(kernel: Any) -> None:
    random = np.random.default_rng(0)
    ones, others = random.normal(size=(5, 8, 2)), random.normal(1, 2, size=(5, 8, 2))

    @jax.jit
    def ours(x: jax.Array, y: jax.Array) -> Any:
        alike = jax.value_and_grad(lambda x, y: losses.mmd(x, y, kernel, 20.0).mean())
        return [losses.mmd(x, y, kernel, sigma) for sigma in (0.5, 10.0)], *alike(x, x)

    apart, alike, slope = ours(*(jnp.asarray(each, jnp.float32) for each in (ones, others)))
    for sigma, values in zip((0.5, 10.0), apart, strict=True):
        assert np.allclose(values, mmd(ones, others, kernel, sigma), rtol=1e-3)
    assert np.isclose(alike, 1e-3, rtol=0.1)
    assert np.isfinite(slope).all()


# -- what holds the policy to the data ---------------------------------------------------------------------


def test_mmds_gradient_reaches_the_policy_with_the_dual_variables_weight() -> None:
    """It survives the dual update: in the warm-up, where MMD is all, twice the multiplier is twice the gradient."""
    algorithm, batch, state = begin(step=0)
    doubled = state._replace(log_multiplier=state.log_multiplier + np.log(2.0))
    one, two = (
        oracles.adam_gradient(update(algorithm, each, batch)[0].optimisers["policy"]) for each in (state, doubled)
    )
    assert all(np.abs(slope).max() > 1e-4 for slope in one)
    assert oracles.agree(two, [2 * slope for slope in one], 1e-5)


def test_a_policy_at_the_bounds_still_feels_mmd() -> None:
    """Because it is taken before the tanh; after it every slope would have died out."""
    algorithm, batch, state = begin(step=0, bandwidth=20.0)
    far = eqx.tree_at(lambda s: s.agent.policy.net.layers[-1].bias, state, jnp.array([9.0, -9.0, -3.0, -3.0]))
    slopes = oracles.adam_gradient(update(algorithm, far, batch)[0].optimisers["policy"])
    assert np.abs(slopes[-1]).max() > 1e-3


@pytest.mark.parametrize(("threshold", "direction"), [(0.0, 1), (5.0, -1)])
def test_the_dual_variable_grows_while_the_constraint_is_broken_and_shrinks_while_it_holds(
    threshold: float, direction: int
) -> None:
    algorithm, batch, state = begin(threshold=threshold)
    after, _ = update(algorithm, state, batch)
    assert np.sign(after.log_multiplier - state.log_multiplier) == direction


@pytest.mark.parametrize(("threshold", "bound"), [(0.0, 10.0), (5.0, -5.0)])
def test_the_dual_variable_stops_at_its_bounds(threshold: float, bound: float) -> None:
    algorithm, batch, state = begin(threshold=threshold, dual_learning_rate=50.0)
    assert float(update(algorithm, state, batch)[0].log_multiplier) == bound


def test_there_are_as_many_updates_without_q_as_the_warm_up_says() -> None:
    algorithm, batch, state = begin(step=0, warmup_steps=2)
    learned = lambda *given: update(algorithm, *given)[0]
    assert constrained.reading_rewards(learned, state, batch) == [False, False, True]


# -- who learns from what ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "step", "expected"),
    [
        ("vae", 1, {"policy", "multiplier", "target_policy"}),
        ("value", 1, {"policy", "target_value", "target_policy"}),
        ("value", 0, {"target_value"}),
        ("policy", 1, {"multiplier", "target_policy"}),
        ("multiplier", 1, {"policy", "target_policy"}),
        ("target_value", 1, {"value", "policy", "target_policy"}),
        ("target_value", 0, {"value"}),
        ("target_policy", 1, {"value", "policy", "target_value"}),
    ],
)
def test_a_part_depends_on_just_these(part: str, step: int, expected: set[str]) -> None:
    algorithm, batch, state = settled(step=step)
    one, other = (update(algorithm, each, batch)[0] for each in (state, shaken(state, WHERE[part])))
    assert differing(parts(one), parts(other)) - {part} == expected


def test_the_policy_follows_whichever_q_is_smaller() -> None:
    algorithm, batch, state = settled()
    for head in (0, 1):
        moved = shaken(state, lambda s, head=head: s.agent.action_value.heads[head])
        one, other = (update(algorithm, each, batch)[0] for each in (state, moved))
        assert "policy" in differing(parts(one), parts(other))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"actions": np.random.default_rng(5).uniform(LOW, HIGH, (ROWS, 2))}, set(WHERE)),
        ({"rewards": np.arange(ROWS)}, {"value", "policy", "target_value", "target_policy"}),
    ],
    ids=["actions", "rewards"],
)
def test_neither_the_vae_nor_the_dual_variable_reads_rewards(change: dict[str, Any], expected: set[str]) -> None:
    algorithm, batch, state = settled()
    other = begin(walks(**change))[1]
    states = [update(algorithm, state, each)[0] for each in (batch, other)]
    assert differing(*map(parts, states)) == expected


def test_a_timeout_bootstraps_and_a_terminal_does_not() -> None:
    algorithm, batch, state = settled()
    constrained.check_bootstrap(lambda rows: parts(update(algorithm, state, rows)[0]), batch)


# -- acting ----------------------------------------------------------------------------------------------


def acting() -> BEARAgent:
    return begin()[2].agent


def test_it_acts_with_the_best_of_its_samples_by_the_first_q() -> None:
    agent, states = acting(), walks().observations.astype(np.float64)
    mean, std = constrained.tanh_gaussian(numbers(agent.policy), states, -20, 2, mapped=False)
    candidates = np.tanh(mean + std * normal(jax.random.key(0), (4, 1, 2)))
    best = both(numbers(agent.action_value), states, candidates)[0].argmax(axis=0)
    assert len(set(best)) > 1
    actions, memory = compiled.act(agent, walks().observations, ())
    assert memory == ()
    assert np.allclose(actions, candidates[best, np.arange(ROWS)] * [1.5, 2.5] + [-0.5, 2.5], atol=1e-4)


def test_it_acts_alike_every_time_and_in_every_company() -> None:
    constrained.check_company(acting(), 1e-6)


def test_actions_never_leave_their_bounds_and_reach_both() -> None:
    check_bounds(acting(), lambda agent: agent.policy)


# -- settings --------------------------------------------------------------------------------------------


def test_the_defaults_are_the_originals() -> None:
    config = Config()
    assert (config.threshold, config.samples, config.sample_clip, config.warmup_steps) == (0.05, 5, 0.5, 20_000)
    assert (config.kernel, config.bandwidth) == ("gaussian", 20.0)
    assert (config.candidates, config.minimum_share, config.kl_weight) == (10, 0.75, 0.5)
    assert (config.vae_hidden, config.value_hidden, config.policy_hidden) == ((750, 750), (400, 300), (400, 300))
    assert (config.learning_rate, config.dual_learning_rate) == (1e-3, 1e-3)
    assert (config.target_rate, config.discount, config.batch_size) == (0.005, 0.99, 100)
    assert ALGORITHMS["bear"].conventions == {"return-range": "recorded"}
    for asked, given in ((0, 2 * 2), (3, 3)):
        algorithm = BEAR(replace(config, latent=asked), Spec.of(walks(), **SCALING), 3)
        assert jax.eval_shape(algorithm.init, KEY).vae.latent == given


@pytest.mark.parametrize(
    ("name", "value"),
    [("threshold", -0.1), ("kernel", "linear"), ("bandwidth", 0.0), ("samples", 0), ("warmup_steps", -1)],
)
def test_a_setting_out_of_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(WaypostError, match=rf"^{name} must .+, got "):
        Config(**{name: value})


def test_presets_are_the_papers_data_sets_and_the_t_maze() -> None:
    for name, (steps, config) in constrained.presets_of("bear", Config).items():
        if name.startswith("paper/"):
            assert steps == 1_000_000
            expected = ("laplacian", 10.0) if "hopper" in name else ("gaussian", 20.0)
            assert (config.kernel, config.bandwidth) == expected
