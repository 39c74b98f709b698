"""POR: one update against the paper's equations in NumPy, who learns from what, and what each setting does."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import compiled
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from oracles import (
    HIGH,
    LOW,
    ROWS,
    UNSEEN_TERMINAL,
    UNSEEN_TIMEOUT,
    Oracle,
    check_step,
    choosing_walks,
    differing,
    moved_by,
    numbers,
    same,
    shaken,
    step_sizes,
    walks,
    with_row,
)

from waypost.agents import bc
from waypost.agents.agent import Spec
from waypost.agents.guided import GuidedAgent
from waypost.agents.por import POR, Config, State
from waypost.data.dataset import Dataset
from waypost.errors import WaypostError
from waypost.training.loop import Learner

SMALL: dict[str, Any] = {
    "value_hidden": (8,),
    "guide_hidden": (8,),
    "executor_hidden": (8,),
    "value_learning_rate": 0.02,
    "guide_learning_rate": 0.01,
    "executor_learning_rate": 0.005,
    "behaviour_learning_rate": 0.03,
    "target_rate": 0.3,
    "discount": 0.9,
}
SCALED = {"guide_target": "displacement", "observation_scaling": "standardise"}
KEY = jax.random.key(7)
SEEDS = {"value": 110, "target": 140, "guide": 3, "behaviour": 4, "executor": 5}
"""What the networks are drawn from; with these V and its target each have either network the smaller one somewhere."""
WHERE = {
    "value": lambda state: state.agent.value_part.net,
    "target": lambda state: state.target,
    "guide": lambda state: state.agent.guide_part.net,
    "behaviour": lambda state: state.behaviour,
    "executor": lambda state: state.agent.executor.net,
}


def small(**settings: Any) -> Config:
    return Config(**{**SMALL, **settings})


def begin(config: Config, data: Dataset, steps: int = 3) -> tuple[POR, dict[str, jax.Array], State]:
    """The algorithm, all rows as a batch, and a state as if it had learned before: its target is not V."""
    columns, spec = POR.prepare(config, data)
    algorithm = POR(config, spec, steps)
    state = compiled.blank(algorithm)
    for part, seed in SEEDS.items():
        if nets(state)[part] is not None:
            state = shaken(state, WHERE[part], seed)
    return algorithm, {name: jnp.asarray(column) for name, column in columns.items()}, state


def update(algorithm: POR, state: State, batch: dict[str, jax.Array], stage: int = -1) -> tuple[State, dict[str, Any]]:
    return compiled.update(algorithm, stage, state, batch, KEY)


def nets(state: State) -> dict[str, Any]:
    """The networks of a state by name."""
    agent = state.agent
    learners = {"value": agent.value_part, "guide": agent.guide_part, "executor": agent.executor}
    alone = {name: part and part.net for name, part in learners.items()}
    return {**alone, "target": state.target, "behaviour": state.behaviour}


def parts(state: State) -> dict[str, Any]:
    """All of a state: each network with its optimiser, and the constants, which are all scalings.

    The optimisers belong here because Adam's first step hides the size of a gradient: it only shows its sign.
    """
    agent = state.agent
    constants = [part and replace(part, net=None) for part in (agent.value_part, agent.guide_part, agent.executor)]
    learned = {name: (net, state.optimisers.get(name)) for name, net in nets(state).items()}
    return {**learned, "constants": constants}


def alike(one: Any, other: Any) -> bool:
    """Equal but for the rounding of another program: it may add up in another order."""
    if jax.tree.structure(one) != jax.tree.structure(other):
        return False
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-6) for a, b in pairs)


# -- one update against NumPy ----------------------------------------------------------------------------

SETTINGS: dict[str, dict[str, Any]] = {
    "paper": {},
    "sparse": {"value_objective": "sparse", "tau": 0.4, "inverse_temperature": 10.0},
    "scaled": {**SCALED, "executor_weighted": True, "value_layer_norm": True},
    "constrained": {"guide_objective": "constrained", "inverse_temperature": 5.0},
    "constrained and scaled": {"guide_objective": "constrained", "inverse_temperature": 50.0, **SCALED},
    "horizon 3": {"horizon": 3, "weight_cap": 3.0, "executor_weighted": True, "guide_target": "displacement"},
}


class Taken(NamedTuple):
    """One joint update: the states around it and its metrics, all in NumPy."""

    config: Config
    oracle: Oracle
    before: dict[str, Any]
    after: dict[str, Any]
    optimisers: dict[str, Any]
    metrics: dict[str, float]
    noise: np.ndarray


@cache
def taken(name: str) -> Taken:
    config, data = small(**SETTINGS[name]), walks()
    algorithm, batch, state = begin(config, data)
    after, metrics = update(algorithm, state, batch)
    noise = np.asarray(jax.random.normal(KEY, (ROWS, 3)), np.float64)
    before, now = (numbers({**nets(each), "constants": parts(each)["constants"]}) for each in (state, after))
    scalars = {key: float(value) for key, value in metrics.items()}
    return Taken(config, Oracle(config, data), before, now, after.optimisers, scalars, noise)


@pytest.fixture(params=SETTINGS)
def one(request: pytest.FixtureRequest) -> Taken:
    return taken(request.param)


def check(one: Taken, part: str, loss: Any, rate: float) -> None:
    """Value, gradient and Adam's step of one part's loss."""
    check_step(loss, one.metrics[f"{part}_loss"], one.before[part], one.after[part], one.optimisers[part], rate, 1e-5)


def test_v_takes_an_adam_step_down_its_loss(one: Taken) -> None:
    check(one, "value", lambda net: one.oracle.value_loss(net, one.before["target"]), one.config.value_learning_rate)
    assert np.isclose(one.metrics["value"], one.oracle.values(one.before["value"], one.oracle.states).mean(), rtol=1e-5)


def test_guide_takes_an_adam_step_down_its_loss_with_the_new_v_and_the_old_target(one: Taken) -> None:
    value, target = one.after["value"], one.before["target"]
    if one.config.guide_objective == "weighted":
        weights = one.oracle.weights(value, target)
        loss = partial(one.oracle.guide_loss, weights=weights)
    else:
        loss = one.oracle.constrained_loss(one.before["guide"], value, one.before["behaviour"], one.noise)
    check(one, "guide", loss, one.config.guide_learning_rate)


def test_executor_takes_an_adam_step_down_its_loss(one: Taken) -> None:
    weights = one.oracle.weights(one.after["value"], one.before["target"]) if one.config.executor_weighted else 1.0
    check(one, "executor", lambda net: one.oracle.executor_loss(net, weights), one.config.executor_learning_rate)


def test_target_moves_by_its_rate_towards_the_new_v(one: Taken) -> None:
    assert moved_by(0.3, one.before["target"], one.after["value"], one.after["target"])


def test_scalings_and_behaviour_guide_stand_still_in_a_joint_update(one: Taken) -> None:
    assert same(one.before["constants"], one.after["constants"])
    assert same(one.before["behaviour"], one.after["behaviour"])


def test_the_batch_can_tell_a_right_update_from_a_wrong_one() -> None:
    """The comparisons above mean something: either network is the smaller one somewhere, and the order matters."""
    one, capped = taken("paper"), taken("horizon 3")
    oracle, old, new, target = one.oracle, one.before["value"], one.after["value"], one.before["target"]
    for smaller in (oracle.values(target, oracle.following).argmin(0), oracle.values(new, oracle.states).argmin(0)):
        assert 3 < smaller.sum() < ROWS - 3
    weights = oracle.weights(new, target)
    assert not np.allclose(weights, oracle.weights(old, target), rtol=0.05)
    assert not np.allclose(weights, oracle.weights(new, one.after["target"]), rtol=0.05)
    assert 2 < (capped.oracle.weights(capped.after["value"], capped.before["target"]) == 3.0).sum() < ROWS - 2


def test_the_mean_weight_is_reported() -> None:
    config, data = small(), walks()
    algorithm, batch, state = begin(config, data)
    after, metrics = update(algorithm, state, batch)
    weights = Oracle(config, data).weights(*(numbers(net) for net in (after.agent.value_part.net, state.target)))
    assert np.isclose(metrics["weight"], weights[data.next_valid].mean(), rtol=1e-4)


def test_an_action_that_cannot_vary_does_not_vary() -> None:
    actions = np.column_stack([np.linspace(-1, 1, ROWS), np.full(ROWS, 0.5)])
    data = Dataset.from_arrays(walks().observations, walks().next_observations, actions, np.zeros(ROWS))
    _, _, state = begin(small(), data)
    assert (np.asarray(compiled.act(state.agent, 100 * data.observations, ())[0])[:, 1] == 0.5).all()


@pytest.mark.parametrize("scaled", [False, True])
def test_behaviour_guide_takes_an_adam_step_towards_the_datas_next_states(scaled: bool) -> None:
    config, data = small(guide_objective="constrained", **(SCALED if scaled else {})), walks()
    algorithm, batch, state = begin(config, data)
    after, metrics = update(algorithm, state, batch, stage=0)
    (reported,) = metrics.items()
    assert reported[0] == "behaviour_loss"
    nets = state.behaviour, after.behaviour
    check_step(Oracle(config, data).guide_loss, reported[1], *nets, after.optimisers["behaviour"], 0.03, 1e-5)


def test_three_updates_of_v_follow_adam_and_the_target_in_numpy() -> None:
    config, data = small(training="guide"), walks()
    algorithm, batch, state = begin(config, data)
    oracle, v, target = Oracle(config, data), numbers(state.agent.value_part.net), numbers(state.target)
    first = [np.zeros_like(leaf) for leaf in jax.tree.leaves(v)]
    second = [np.zeros_like(leaf) for leaf in jax.tree.leaves(v)]
    for step in (1, 2, 3):
        state, _ = update(algorithm, state, batch)
        slopes = oracles.gradient(lambda net, target=target: oracle.value_loss(net, target), v)
        for leaf, m, n, slope in zip(jax.tree.leaves(v), first, second, slopes, strict=True):
            m += 0.1 * (slope - m)
            n += 0.001 * (slope**2 - n)
            leaf -= 0.02 * (m / (1 - 0.9**step)) / (np.sqrt(n / (1 - 0.999**step)) + 1e-8)
        for old, new in zip(jax.tree.leaves(target), jax.tree.leaves(v), strict=True):
            old += 0.3 * (new - old)
    assert oracles.agree(jax.tree.leaves(numbers(state.agent.value_part.net)), jax.tree.leaves(v), 1e-4)
    assert oracles.agree(jax.tree.leaves(numbers(state.target)), jax.tree.leaves(target), 1e-4)


def test_discounts_are_zero_at_terminals_and_gamma_elsewhere() -> None:
    columns, _ = POR.prepare(small(), walks())
    expected = np.full(ROWS, 0.9)
    expected[[oracles.TERMINAL, UNSEEN_TERMINAL]] = 0
    assert np.allclose(columns["discounts"], expected)


def test_the_target_begins_as_a_copy_of_v() -> None:
    _, spec = POR.prepare(small(), walks())
    state = compiled.init(POR(small(), spec, 3))
    assert same(state.target, state.agent.value_part.net)


# -- who learns from what --------------------------------------------------------------------------------

VALUE = {"value", "target"}


@pytest.mark.parametrize(
    ("settings", "stage", "learning"),
    [
        ({}, 0, {"value", "target", "guide", "executor"}),
        ({"training": "staged"}, 0, {"value", "target", "guide"}),
        ({"training": "staged"}, 1, {"executor"}),
        ({"guide_objective": "constrained"}, 0, {"behaviour"}),
        ({"guide_objective": "constrained"}, 1, {"value", "target", "guide", "executor"}),
        ({"training": "staged", "guide_objective": "constrained"}, 1, {"value", "target", "guide"}),
        ({"training": "staged", "guide_objective": "constrained", "executor_weighted": True}, 2, {"executor"}),
    ],
)
def test_a_stage_changes_its_own_parts_and_nothing_else(
    settings: dict[str, Any], stage: int, learning: set[str]
) -> None:
    algorithm, batch, state = begin(small(**settings), walks())
    after, _ = update(algorithm, state, batch, stage)
    assert differing(parts(state), parts(after)) == learning


def changed_by(settings: dict[str, Any], data: Dataset) -> set[str]:
    """The parts that come out of a joint update otherwise if the data are these."""
    results = []
    for rows in (walks(), data):
        algorithm, batch, state = begin(small(**settings), rows)
        results.append(parts(update(algorithm, state, batch)[0]))
    return differing(*results)


OTHER_ACTIONS = np.random.default_rng(5).uniform(LOW, HIGH, (ROWS, 2))


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_only_the_executor_learns_from_actions(settings: dict[str, Any]) -> None:
    assert changed_by(settings, walks(actions=OTHER_ACTIONS)) == {"executor"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, VALUE | {"guide"}),
        ({"guide_objective": "constrained"}, VALUE | {"guide"}),
        ({"horizon": 3}, VALUE | {"guide"}),
        ({"executor_weighted": True}, VALUE | {"guide", "executor"}),
    ],
)
def test_the_executor_learns_from_rewards_only_if_weighted(settings: dict[str, Any], expected: set[str]) -> None:
    assert changed_by(settings, walks(rewards=np.linspace(-1, 1, ROWS))) == expected


@pytest.mark.parametrize(
    ("settings", "moved", "expected"),
    [
        ({}, "executor", {"executor"}),
        ({}, "guide", {"guide"}),
        ({}, "value", VALUE | {"guide"}),
        ({}, "target", VALUE | {"guide"}),
        ({"executor_weighted": True}, "value", VALUE | {"guide", "executor"}),
        ({"executor_weighted": True}, "guide", {"guide"}),
        ({"guide_objective": "constrained"}, "value", VALUE | {"guide"}),
        ({"guide_objective": "constrained"}, "guide", {"guide"}),
        ({"guide_objective": "constrained"}, "behaviour", {"behaviour", "guide"}),
        ({"guide_objective": "constrained"}, "executor", {"executor"}),
    ],
)
def test_a_part_moves_only_those_that_read_it(settings: dict[str, Any], moved: str, expected: set[str]) -> None:
    algorithm, batch, state = begin(small(**settings), walks())
    plain, _ = update(algorithm, state, batch)
    other, _ = update(algorithm, shaken(state, WHERE[moved]), batch)
    assert differing(parts(plain), parts(other)) == expected


def test_the_guides_loss_leaves_v_alone_even_where_it_looks_through_it() -> None:
    results = []
    for objective in ("weighted", "constrained"):
        algorithm, batch, state = begin(small(guide_objective=objective), walks())
        after, _ = update(algorithm, state, batch)
        results.append((after.agent.value_part, after.target, after.optimisers["value"]))
    assert alike(*results)


def test_v_pulls_the_constrained_guide_through_its_input() -> None:
    """With the behaviour guide all but flat, the guide's mean moves to where V is larger."""
    config = small(guide_objective="constrained", inverse_temperature=50.0, value_learning_rate=0.0)
    algorithm, batch, state = begin(config, walks())
    state = state._replace(behaviour=eqx.tree_at(lambda net: net.log_std, state.behaviour, jnp.full(3, 2.0)))
    state = eqx.tree_at(lambda state: state.agent.guide_part.net.log_std, state, jnp.full(3, -5.0))
    after, _ = update(algorithm, state, batch)
    seen = batch["observations"]
    assert state.agent.value(after.agent.guide(seen)).mean() > state.agent.value(state.agent.guide(seen)).mean() + 1e-3


# -- discrete actions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {**SCALED, "executor_weighted": True}], ids=["paper", "scaled and weighted"])
def test_the_executor_takes_an_adam_step_down_minus_the_likelihood_of_the_choices(settings: dict[str, Any]) -> None:
    config, data = small(**settings), choosing_walks()
    algorithm, batch, state = begin(config, data)
    after, metrics = update(algorithm, state, batch)
    oracle, before, now = Oracle(config, data), numbers(nets(state)), numbers(nets(after))
    inputs = np.concatenate([oracle.inputs, oracle.encoded], axis=1)
    weights = oracle.weights(now["value"], before["target"]) if config.executor_weighted else np.ones(ROWS)
    taken = data.actions[:, 0].astype(int)

    def loss(net: Any) -> float:
        return -(weights * oracles.log_probability(net, inputs, taken))[oracle.aimed].mean()

    executors = before["executor"], now["executor"]
    check_step(loss, metrics["executor_loss"], *executors, after.optimisers["executor"], 0.005, 1e-5)


def test_only_the_executor_learns_from_choices() -> None:
    """V and the guide come out the same as beside actions of another kind."""
    results = []
    for data in (walks(), choosing_walks(), choosing_walks(actions=np.zeros((ROWS, 1)))):
        algorithm, batch, state = begin(small(), data)
        learned = parts(update(algorithm, state, batch)[0])
        results.append({name: learned[name] for name in ("value", "target", "guide", "executor")})
    for other in results[1:]:
        assert {name for name in other if not alike(results[0][name], other[name])} == {"executor"}
    assert differing(*results[1:]) == {"executor"}


def test_it_takes_the_likeliest_choice_towards_the_guides_aim() -> None:
    data = choosing_walks()
    config = small(**SCALED)
    _, _, state = begin(config, data)
    oracle = Oracle(config, data)
    guide, executor = numbers(state.agent.guide_part.net), numbers(state.agent.executor.net)
    logits = oracles.mlp(
        executor.logits, np.concatenate([oracle.inputs, oracles.mlp(guide.mean, oracle.inputs)], axis=1)
    )
    actions = compiled.act(state.agent, data.observations, ())[0]
    assert logits.shape == (ROWS, oracles.COUNT)
    assert actions.shape == (ROWS,)
    assert jnp.issubdtype(actions.dtype, jnp.integer)
    assert np.array_equal(actions, logits.argmax(1))
    assert len(np.unique(actions)) > 1


# -- next states that are not real -------------------------------------------------------------------------

KINDS: dict[str, dict[str, Any]] = {
    "paper": {},
    "scaled": SCALED,
    "horizon 3": {**SCALED, "horizon": 3},
    "constrained": {"guide_objective": "constrained"},
    "weighted executor": {"executor_weighted": True},
}


@pytest.mark.parametrize("row", [UNSEEN_TERMINAL, UNSEEN_TIMEOUT])
@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
def test_a_next_state_that_is_not_real_is_never_read(settings: dict[str, Any], row: int) -> None:
    assert changed_by(settings, with_row("next_observations", row, 50.0)) == set()


@pytest.mark.parametrize("row", [UNSEEN_TERMINAL, UNSEEN_TIMEOUT])
@pytest.mark.parametrize("settings", [KINDS["paper"], KINDS["horizon 3"]], ids=["paper", "horizon 3"])
def test_the_action_before_an_unseen_state_is_never_learned(settings: dict[str, Any], row: int) -> None:
    assert changed_by(settings, with_row("actions", row, (-2.0, 5.0))) == set()


def test_a_row_before_an_unseen_state_teaches_v_only_if_terminal() -> None:
    assert changed_by({}, with_row("rewards", UNSEEN_TIMEOUT, 30.0)) == set()
    assert changed_by({}, with_row("rewards", UNSEEN_TERMINAL, 30.0)) == VALUE | {"guide"}
    # The guide felt that through V alone: where V does not move, nothing reaches it.
    still = {"executor_weighted": True, "value_learning_rate": 0.0}
    assert changed_by(still, with_row("rewards", UNSEEN_TERMINAL, 30.0)) == {"value"}


def test_a_real_next_state_teaches_everyone() -> None:
    assert changed_by({}, with_row("next_observations", oracles.TIMEOUT, 3.0)) == VALUE | {"guide", "executor"}


def test_data_without_one_real_next_state_are_refused() -> None:
    data = walks(next_valid=np.zeros(ROWS))
    with pytest.raises(WaypostError, match="no transition has a real next state"):
        POR.prepare(small(), data)


# -- every setting does something ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """Another value for one field, the settings it needs around it, and all that must differ by it."""

    to: Any
    expected: set[str]
    around: dict[str, Any] = field(default_factory=dict)


CONSTRAINED: dict[str, Any] = {"guide_objective": "constrained"}
CHANGES = {
    "value_objective": Change("sparse", VALUE | {"guide"}),
    "tau": Change(0.9, VALUE | {"guide"}),
    "guide_objective": Change("constrained", {"stages", "behaviour"}),
    "inverse_temperature": Change(1.0, {"guide"}),
    "residuals": Change("standardised", {"guide"}),
    "weight_cap": Change(1.5, {"guide"}),
    "executor_weighted": Change(True, {"executor"}),
    "training": Change("staged", {"stages"}),
    "executor_steps": Change(5, {"stages"}, {"training": "staged"}),
    "behaviour_steps": Change(5, {"stages"}, CONSTRAINED),
    "guide_target": Change("displacement", {"constants"}),
    "observation_scaling": Change("standardise", {"constants"}),
    "horizon": Change(3, {"columns"}),
    "executor_inputs": Change((0, 2), {"constants", "executor"}),
    "discount": Change(0.5, {"columns"}),
    "target_rate": Change(0.9, VALUE | {"guide"}),
    "value_learning_rate": Change(0.1, VALUE | {"guide"}),
    "guide_learning_rate": Change(0.1, {"guide"}),
    "executor_learning_rate": Change(0.1, {"executor"}),
    "behaviour_learning_rate": Change(0.1, {"behaviour", "guide"}, CONSTRAINED),
    "schedule": Change("constant", {"guide", "executor"}),
    "value_hidden": Change((5,), VALUE),
    "guide_hidden": Change((5,), {"guide", "behaviour"}, CONSTRAINED),
    "executor_hidden": Change((5,), {"executor"}),
    "value_layer_norm": Change(True, VALUE),
}


@cache
def outcome(config: Config, learned: bool) -> dict[str, Any]:
    """What settings lead to: before the first update, or after three of every stage."""
    algorithm, batch, state = begin(config, walks())
    for stage in algorithm.stages if learned else ():
        for _ in range(3):
            state, _ = compiled.update(algorithm, stage, state, batch, KEY)
    return {**parts(state), "columns": batch, "stages": algorithm.stages}


@pytest.mark.parametrize("name", [field.name for field in fields(Config) if field.name != "batch_size"])
def test_every_setting_changes_what_it_should_and_nothing_else(name: str) -> None:
    change = CHANGES[name]
    base = small(**change.around)
    other = replace(base, **{name: change.to})
    # What differs from the start settles it; else three updates must show it.
    found = differing(outcome(base, False), outcome(other, False))
    assert (found or differing(outcome(base, True), outcome(other, True))) == change.expected


def test_batch_size_is_the_number_of_rows_an_update_sees() -> None:
    seen = set()

    class Spy(POR):
        def update(self, stage: Any, state: State, batch: Any, key: jax.Array) -> tuple[State, dict[str, Any]]:
            seen.update(len(column) for column in batch.values())
            return super().update(stage, state, batch, key)

    config = small(training="executor", executor_hidden=(), batch_size=5)
    columns, spec = POR.prepare(config, walks())
    assert Learner(Spy(config, spec, 1), columns, [0]).metric_names() == ["executor_loss"]
    assert seen == {5}


# -- what guide and executor read and write -------------------------------------------------------------------------

FORMS = [(form, scaling) for form in ("state", "displacement") for scaling in ("none", "standardise")]


def built(**settings: Any) -> GuidedAgent:
    config = small(**settings)
    return begin(config, walks())[2].agent


@pytest.mark.parametrize(("form", "scaling"), FORMS)
def test_encoding_a_goal_and_decoding_it_gives_it_back(form: str, scaling: str) -> None:
    data, direction = walks(), built(guide_target=form, observation_scaling=scaling).guide_part.direction
    encoded = direction.encode(data.observations, data.next_observations)
    assert np.allclose(direction.decode(data.observations, encoded), data.next_observations, atol=1e-5)
    assert np.array_equal(encoded, data.next_observations) == ((form, scaling) == ("state", "none"))
    if form == "displacement":
        real = np.asarray(encoded)[walks().next_valid]
        assert np.allclose(real.mean(0), 0, atol=1e-5)
        assert np.allclose(real.std(0), 1, atol=1e-5)


@pytest.mark.parametrize(("form", "scaling"), FORMS)
def test_the_guide_answers_in_the_datas_own_units(form: str, scaling: str) -> None:
    data, agent = walks(), built(guide_target=form, observation_scaling=scaling)
    states = data.observations.astype(np.float64)
    inputs = (states - states.mean(0)) / states.std(0) if scaling == "standardise" else states
    output = oracles.mlp(numbers(agent.guide_part.net.mean), inputs)
    moves = (data.next_observations - data.observations).astype(np.float64)[data.next_valid]
    expected = {
        ("state", "none"): output,
        ("state", "standardise"): output * states.std(0) + states.mean(0),
        ("displacement", "none"): states + output * moves.std(0) + moves.mean(0),
        ("displacement", "standardise"): states + output * moves.std(0) + moves.mean(0),
    }[form, scaling]
    assert np.allclose(agent.guide(data.observations), expected, atol=1e-4)


@pytest.mark.parametrize(("form", "scaling"), FORMS)
def test_the_agent_acts_towards_its_guides_goal(form: str, scaling: str) -> None:
    """(8), and every action is inside bounds that are not [-1, 1]."""
    data, agent = walks(), built(guide_target=form, observation_scaling=scaling)
    executor = numbers(agent.executor)
    seen = 3 * data.observations  # Beyond the data too.
    goals = np.asarray(agent.guide(seen), np.float64)
    encoded = goals - (seen if form == "displacement" else 0) - executor.direction.scaling.mean
    inputs = [(seen - executor.scaling.mean) / executor.scaling.std, encoded / executor.direction.scaling.std]
    mean = oracles.mlp(executor.net.mean, np.concatenate(inputs, axis=1))
    actions, memory = compiled.act(agent, seen, ())
    assert memory == ()
    assert np.allclose(actions, np.clip(mean, -1, 1) * [1.5, 2.5] + [-0.5, 2.5], atol=1e-4)
    assert np.allclose(
        compiled.value(agent, seen), oracles.heads(numbers(agent.value_part.net), inputs[0]).min(0), atol=1e-4
    )


def test_actions_never_leave_their_bounds() -> None:
    oracles.check_bounds(built(), lambda agent: agent.executor.net)


@pytest.mark.parametrize("settings", [{}, SCALED], ids=["paper", "scaled"])
def test_the_executor_reads_its_columns_and_no_others(settings: dict[str, Any]) -> None:
    data, executor = walks(), built(executor_inputs=(0, 2), **settings).executor
    states, goals = jnp.asarray(data.observations), jnp.asarray(data.next_observations)
    actions = executor(states, goals)
    assert np.array_equal(actions, executor(states.at[:, 1].add(9.0), goals.at[:, 1].set(-9.0)))
    for column in (0, 2):
        assert not np.array_equal(actions, executor(states.at[:, column].add(0.5), goals))
        assert not np.array_equal(actions, executor(states, goals.at[:, column].add(0.5)))


def test_the_executors_columns_keep_their_own_scale() -> None:
    data, executor = walks(), built(executor_inputs=(2, 0), **SCALED).executor
    inputs = np.asarray(executor.inputs(data.observations, data.next_observations))
    states, moves = data.observations, data.next_observations - data.observations
    real = moves[data.next_valid]
    expected = [(states - states.mean(0)) / states.std(0), (moves - real.mean(0)) / real.std(0)]
    assert np.allclose(inputs, np.concatenate([both[:, [2, 0]] for both in expected], axis=1), atol=1e-5)


# -- stages and schedules --------------------------------------------------------------------------------------

ALL = ("value", "guide", "executor")
JOINT, GUIDED, EXECUTOR = ("joint", 10, ALL), ("value and guide", 10, ALL[:2]), ("executor", 10, ALL[2:])
BEHAVIOUR = ("behaviour guide", 10, ("behaviour",))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"training": "joint"}, [JOINT]),
        ({"training": "staged"}, [GUIDED, EXECUTOR]),
        ({"training": "guide"}, [GUIDED]),
        ({"training": "executor"}, [EXECUTOR]),
        ({"training": "joint", **CONSTRAINED}, [BEHAVIOUR, JOINT]),
        ({"training": "staged", **CONSTRAINED}, [BEHAVIOUR, GUIDED, EXECUTOR]),
        ({"training": "guide", **CONSTRAINED}, [BEHAVIOUR, GUIDED]),
        ({"training": "executor", **CONSTRAINED}, [EXECUTOR]),
        ({"training": "joint", "executor_steps": 4, "behaviour_steps": 3}, [JOINT]),
        ({"training": "staged", "executor_steps": 4}, [GUIDED, ("executor", 4, ALL[2:])]),
        ({"training": "executor", "executor_steps": 4}, [EXECUTOR]),
        (
            {"training": "staged", "executor_steps": 4, "behaviour_steps": 3, **CONSTRAINED},
            [("behaviour guide", 3, ("behaviour",)), GUIDED, ("executor", 4, ALL[2:])],
        ),
    ],
)
def test_stages(settings: dict[str, Any], expected: list[tuple[str, int, tuple[str, ...]]]) -> None:
    stages = POR(small(**settings), Spec(3, 2), 10).stages
    assert [(stage.name, stage.steps, stage.parts) for stage in stages] == [
        (name, steps, frozenset(parts)) for name, steps, parts in expected
    ]


@pytest.mark.parametrize(
    ("settings", "part", "rate", "length"),
    [
        ({}, "guide", 0.01, 10),
        ({}, "executor", 0.005, 10),
        ({"training": "staged", "executor_steps": 4}, "guide", 0.01, 10),
        ({"training": "staged", "executor_steps": 4}, "executor", 0.005, 4),
        ({**CONSTRAINED, "behaviour_steps": 3}, "guide", 0.01, 10),
        ({"training": "executor", "executor_steps": 4}, "executor", 0.005, 10),
    ],
)
def test_step_sizes_fall_along_a_cosine_to_zero_at_the_end_of_their_own_steps(
    settings: dict[str, Any], part: str, rate: float, length: int
) -> None:
    sizes = step_sizes(POR(small(**settings), Spec(3, 2), 10).optimisers[part], length + 1)
    assert np.allclose(sizes, rate * (1 + np.cos(np.pi * np.arange(length + 1) / length)) / 2, rtol=1e-4, atol=1e-8)
    assert all(later < sooner for sooner, later in pairwise(sizes))
    assert sizes[-2] > 0
    assert sizes[-1] == 0


@pytest.mark.parametrize(
    ("settings", "part", "rate"),
    [
        ({}, "value", 0.02),
        (CONSTRAINED, "behaviour", 0.03),
        ({"schedule": "constant"}, "guide", 0.01),
        ({"schedule": "constant"}, "executor", 0.005),
    ],
)
def test_other_step_sizes_stay(settings: dict[str, Any], part: str, rate: float) -> None:
    assert np.allclose(step_sizes(POR(small(**settings), Spec(3, 2), 3).optimisers[part], 5), rate, rtol=1e-4)


# -- parts by themselves -------------------------------------------------------------------------------------------


def trained(config: Config, data: Dataset) -> GuidedAgent:
    algorithm, batch, state = begin(config, data)
    for stage in algorithm.stages:
        for _ in range(2):
            state, _ = compiled.update(algorithm, stage, state, batch, KEY)
    return state.agent


@pytest.mark.parametrize("settings", [{}, CONSTRAINED, {"horizon": 3}], ids=["weighted", "constrained", "horizon 3"])
def test_v_and_guide_learn_the_same_without_actions(settings: dict[str, Any]) -> None:
    free = trained(small(training="guide", **settings), walks().without_actions())
    full = trained(small(training="joint", **settings), walks())
    assert same((free.value_part, free.guide_part), (full.value_part, full.guide_part))
    assert free.executor is None


@pytest.mark.parametrize("settings", [{}, {"horizon": 3}], ids=["horizon 1", "horizon 3"])
def test_the_executor_learns_the_same_without_rewards(settings: dict[str, Any]) -> None:
    free = trained(small(training="executor", **settings), walks().without_rewards())
    full = trained(small(training="joint", **settings), walks())
    assert same(free.executor, full.executor)
    assert free.value_part is free.guide_part is None


def test_an_agent_without_a_part_says_which_and_where_to_get_it() -> None:
    seen = walks().observations
    guide = trained(small(training="guide"), walks())
    executor = trained(small(training="executor"), walks())
    assert guide.value(seen).shape == (ROWS,)
    assert guide.guide(seen).shape == (ROWS, 3)
    for ask, part in ((guide.act, "executor"), (executor.act, "guide"), (executor.value, "value function")):
        with pytest.raises(WaypostError, match=rf"no trained {part}.*--init"):
            ask(seen)


def test_a_guide_takes_the_executor_of_another_run() -> None:
    guide = trained(small(training="guide", **SCALED), walks().without_actions())
    executor = trained(small(training="executor"), walks(seed=1).without_rewards())
    whole = guide.graft(executor)
    seen = walks().observations
    assert same((whole.value_part, whole.guide_part), (guide.value_part, guide.guide_part))
    assert np.array_equal(whole.act(seen)[0], executor.executor(seen, guide.guide(seen)))


def test_a_graft_keeps_the_agents_own_parts() -> None:
    own = built()
    assert same(own.graft(trained(small(), walks(seed=1))), own)


def test_a_graft_needs_another_agent_with_a_guide() -> None:
    config = bc.Config(hidden=(8,))
    other = compiled.init(bc.BC(config, bc.BC.prepare(config, walks())[1], 1)).agent
    with pytest.raises(WaypostError, match="must come from an agent with a guide: por or waypoint"):
        built().graft(other)


def test_a_weighted_executor_alone_needs_rewards_and_a_value_function() -> None:
    config = small(training="executor", executor_weighted=True)
    with pytest.raises(WaypostError, match="has no rewards"):
        POR.prepare(config, walks().without_rewards())
    algorithm, batch, state = begin(config, walks())
    with pytest.raises(WaypostError, match="no trained value function"):
        update(algorithm, state, batch)
    donor = built()
    state = state._replace(agent=state.agent.graft(donor))
    after, _ = update(algorithm, state, batch)
    assert differing(parts(state), parts(after)) == {"executor"}


@pytest.mark.parametrize("training", ["joint", "staged", "executor"])
def test_learning_an_executor_without_actions_is_refused(training: str) -> None:
    with pytest.raises(WaypostError, match="has no actions"):
        POR.prepare(small(training=training), walks().without_actions())


@pytest.mark.parametrize("training", ["joint", "staged", "guide"])
def test_learning_v_without_rewards_is_refused(training: str) -> None:
    with pytest.raises(WaypostError, match="has no rewards"):
        POR.prepare(small(training=training), walks().without_rewards())


@pytest.mark.parametrize("training", ["joint", "guide", "executor"])
def test_a_blank_agent_has_every_part_its_data_allow(training: str) -> None:
    config = small(training=training)
    for data, whole in ((walks(), True), (walks().without_actions(), False)):
        spec = POR.prepare(small(training="guide"), data)[1]
        agent = jax.eval_shape(lambda spec=spec: POR.build(config, spec))
        assert agent.value_part is not None
        assert agent.guide_part is not None
        assert (agent.executor is not None) is whole


# -- settings that make no sense -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tau", 1.5),
        ("tau", 1.0),
        ("tau", 0.0),
        ("tau", -0.1),
        ("tau", float("nan")),
        ("inverse_temperature", -1.0),
        ("weight_cap", 0.0),
        ("horizon", 0),
        ("discount", 0.0),
        ("discount", 1.1),
        ("target_rate", 0.0),
        ("target_rate", 1.5),
        ("batch_size", 0),
        ("executor_steps", -1),
        ("behaviour_steps", -1),
        ("value_learning_rate", -1e-4),
        ("guide_hidden", (8, -1)),
        ("value_objective", "expectil"),
        ("guide_objective", "x"),
        ("training", "x"),
        ("guide_target", "x"),
        ("observation_scaling", "x"),
        ("schedule", "x"),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(WaypostError, match=rf"^{name} must .+, got "):
        Config(**{name: value})


def test_tau_may_be_large_in_the_sparse_objective_only() -> None:
    assert Config(value_objective="sparse", tau=10.0).tau == 10.0
    with pytest.raises(WaypostError, match="tau"):
        Config(value_objective="sparse", tau=0.0)


@pytest.mark.parametrize("columns", [(3,), (0, -1)])
def test_executor_inputs_must_be_columns_of_the_data(columns: tuple[int, ...]) -> None:
    with pytest.raises(WaypostError, match=r"^executor_inputs must be columns of arrays, from 0 to 2, got"):
        POR.prepare(small(executor_inputs=columns), walks())


# -- learning ----------------------------------------------------------------------------------------------------------


def test_por_goes_to_the_goal_where_the_data_go_both_ways() -> None:
    """A line of states 0 to 10, one step left and one right from each inner one, -1 per step, the goal at 10."""
    states = np.repeat(np.arange(1.0, 10.0), 2)
    actions = np.tile([-0.5, 3.5], 9)  # Bounds -0.5 and 3.5: left and right.
    following = states + np.tile([-1.0, 1.0], 9)
    data = Dataset.from_arrays(states, following, actions, np.full(18, -1.0), following == 10, np.ones(18))
    rates = {f"{part}_learning_rate": 1e-2 for part in ("value", "guide", "executor")}
    hidden = {f"{part}_hidden": (32,) for part in ("value", "guide", "executor")}
    config = Config(tau=0.9, inverse_temperature=5.0, batch_size=18, **rates, **hidden, **SCALED)
    columns, spec = POR.prepare(config, data)
    learner = Learner(POR(config, spec, 800), columns, [0])
    learner.advance(learner.algorithm.stages[0], 800)
    inner = data.observations[::2]

    @jax.jit
    def answers(agent: GuidedAgent) -> tuple[jax.Array, ...]:
        reached = agent.executor(data.observations, data.next_observations)
        return reached[:, 0], agent.value(inner), agent.guide(inner), agent.act(inner)[0]

    reached, values, goals, chosen = answers(learner.agents[0])
    assert np.allclose(reached, actions, atol=0.2)
    assert (np.diff(values) > 0).all()
    assert np.allclose(goals, inner + 1, atol=0.5)
    assert np.allclose(chosen, 3.5, atol=0.5)
