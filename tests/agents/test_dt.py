"""The Decision Transformer: one update against NumPy, its stretches of episodes, and that it acts as it learned."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import compiled
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from oracles import HIGH, LOW, ROWS, TERMINAL, TIMEOUT, UNSEEN_TERMINAL, numbers, redrawn, same, walks
from transformer_oracle import layer, masks, norm, transformer

from waypost.agents.dt import DT, Config, Model, State, Stretches
from waypost.agents.nets import Continuous, Scaling
from waypost.data.dataset import Dataset
from waypost.errors import WaypostError
from waypost.training import presets
from waypost.training.loop import Learner
from waypost.training.plan import plan

SMALL: dict[str, Any] = {
    "context": 4,
    "layers": 1,
    "width": 4,
    "return_scale": 2.0,
    "learning_rate": 0.01,
    "warmup_steps": 2,
    "weight_decay": 0.1,
}
CHANGES: dict[str, Any] = {
    "target_return": 5.0,
    "return_scale": 3.0,
    "observation_scaling": "robust",
    "context": 3,
    "layers": 2,
    "heads": 2,
    "width": 6,
    "dropout": 0.5,
    "learning_rate": 0.1,
    "warmup_steps": 5,
    "weight_decay": 0.5,
    "gradient_clip": 0.01,
}
KEY = jax.random.key(7)
STARTS = (0, 4, 8, 12, 15, 19, 22)
"""Where the stretches an update sees begin: some have room for the whole context, some for a single step."""
EPISODES = [range(TERMINAL + 1), range(TERMINAL + 1, TIMEOUT + 1), range(TIMEOUT + 1, UNSEEN_TERMINAL + 1)]
EPISODES.append(range(UNSEEN_TERMINAL + 1, ROWS))


def small(**settings: Any) -> Config:
    return Config(**{**SMALL, **settings})


def begin(config: Config, data: Dataset | None = None, steps: int = 3) -> tuple[DT, dict[str, jax.Array], State]:
    """The algorithm, its columns, and a state whose networks are drawn again."""
    columns, spec = DT.prepare(config, data or walks())
    algorithm = DT(config, spec, steps)
    like = jax.eval_shape(lambda: algorithm.init(KEY)).agent
    agent = replace(
        like,
        scaling=Scaling(spec.statistics["observation_mean"], spec.statistics["observation_std"]),
        model=redrawn(like.model, 3),
        actions=Continuous(LOW, HIGH),
    )
    on_device = {name: jnp.asarray(column) for name, column in columns.items()}
    return algorithm, on_device, State(agent, algorithm.optimiser.init(agent.model))


@cache
def updating(config: Config) -> Any:
    """An update on the stretches that begin at STARTS."""
    algorithm, _, _ = begin(config)
    starts = np.array(STARTS)

    def update(state: State, batch: dict[str, jax.Array], key: jax.Array) -> Any:
        some = {name: column[starts] for name, column in batch.items()}
        return algorithm.update(algorithm.stages[0], state, some, key)

    return jax.jit(update)


@cache
def gathering(config: Config) -> Any:
    algorithm, _, _ = begin(config)
    return jax.jit(lambda columns: algorithm.batch(columns, jnp.arange(ROWS), KEY))


# -- NumPy -----------------------------------------------------------------------------------------------------


class Oracle:
    """DT's equations on stretches of a data set."""

    def __init__(self, config: Config, data: Dataset):
        self.config = config
        states, actions = (np.asarray(x, np.float64) for x in (data.observations, data.actions))
        self.states = (states - states.mean(0)) / states.std(0)
        self.actions = 2 * (actions - LOW) / (HIGH - LOW) - 1
        self.rewards = np.asarray(data.rewards, np.float64)

    def stretch(self, row: int) -> tuple[list[np.ndarray], int]:
        """Returns, states, actions and time steps from a row on, padded behind with what must not matter."""
        (episode,) = (episode for episode in EPISODES if row in episode)
        rows = [i for i in range(row, row + self.config.context) if i in episode]
        returns = [sum(self.rewards[k] for k in episode if k >= i) / self.config.return_scale for i in rows]
        parts = np.array(returns), self.states[rows], self.actions[rows], np.array(rows) - episode[0]
        missing = self.config.context - len(rows)
        return [np.concatenate([part, np.full((missing, *part.shape[1:]), 9)]) for part in parts], len(rows)

    def predictions(self, model: Model, row: int, drawn: Any = None) -> np.ndarray:
        (returns, states, actions, times), count = self.stretch(row)
        clock = model.times[np.minimum(times.astype(int), len(model.times) - 1)]
        contents = returns[:, None], states, actions
        parts = zip((model.returns, model.states, model.actions), contents, strict=True)
        tokens = np.stack([layer(part.layers[0], content) + clock for part, content in parts], axis=1)
        tokens = norm(model.norm, tokens).reshape(1, -1, self.config.width)
        real = np.repeat(np.arange(self.config.context) < count, 3)[None]
        read = transformer(model.transformer, tokens, real, drawn)[0, 1::3]
        return np.tanh(layer(model.head.layers[0], read))[:count]

    def loss(self, model: Model, drawn: Any = None) -> float:
        """The mean over all steps of all stretches, without padding."""
        errors = []
        for place, row in enumerate(STARTS):
            mine = None if drawn is None else [mask[place : place + 1] for mask in drawn]
            predicted = self.predictions(model, row, mine)
            errors += list(((predicted - self.actions[row : row + len(predicted)]) ** 2).mean(axis=1))
        return float(np.mean(errors))


@pytest.mark.parametrize(
    "settings",
    [{"dropout": 0.0, "heads": 2, "gradient_clip": 1e3}, {}],
    ids=["without dropout and clipping", "with both"],
)
def test_the_model_takes_a_clipped_adamw_step_down_the_squared_error(settings: dict[str, Any]) -> None:
    config = small(**settings)
    _, columns, state = begin(config)
    after, metrics = updating(config)(state, gathering(config)(columns), KEY)
    oracle, before = Oracle(config, walks()), numbers(state.agent.model)
    drawn = None
    if config.dropout:
        drawn = masks(KEY, config.dropout, len(STARTS), 12, 4, config.heads, 1, slice(1, None, 3))

    def loss(model: Model) -> float:
        return oracle.loss(model, drawn)

    assert np.isclose(metrics["policy_loss"], loss(before), rtol=1e-5)
    ours = oracles.adam_gradient(after.optimiser[1])
    size = np.sqrt(sum((leaf**2).sum() for leaf in ours))
    there, slopes = slopes_of(loss, state.agent.model)
    given = np.array([ours[leaf][i] for leaf, i in there])
    # Clipping makes all of the gradient smaller by the same factor, until its norm is the largest allowed.
    factor = given @ slopes / (slopes @ slopes)
    assert np.allclose(given, factor * slopes, rtol=1e-3, atol=1e-5 * size)
    assert (factor, size) == pytest.approx((1, size) if config.gradient_clip > 1 else (factor, 0.25), rel=1e-4)
    assert config.gradient_clip > 1 or factor < 0.9
    # AdamW: the gradient's step and the decay, both at half of the full rate: the first of two steps of warm-up.
    leaves = zip(*map(jax.tree.leaves, (numbers(after.agent.model), before)), ours, strict=True)
    for new, old, gradient in leaves:
        clear = np.abs(gradient) > 1e-5
        expected = -0.005 * (np.sign(gradient) + 0.1 * old)
        assert np.allclose((new - old)[clear], expected[clear], rtol=1e-2, atol=1e-6)


def slopes_of(loss: Any, model: Model) -> tuple[list[tuple[int, tuple[int, ...]]], np.ndarray]:
    """The slope of a loss at a few numbers of each leaf, and where these are."""
    net, random = numbers(model), np.random.default_rng(0)
    there, slopes = [], []
    for place, leaf in enumerate(jax.tree.leaves(net)):
        for _ in range(2):
            i = tuple(int(random.integers(size)) for size in leaf.shape)
            here, around = leaf[i], []
            for step in (1e-5, -1e-5):
                leaf[i] = here + step
                around.append(loss(net))
            leaf[i] = here
            there.append((place, i))
            slopes.append((around[0] - around[1]) / 2e-5)
    return there, np.array(slopes)


def test_the_step_size_grows_to_the_full_one_and_stays() -> None:
    algorithm, _, _ = begin(small(warmup_steps=4, weight_decay=0.0, gradient_clip=1e9))
    assert np.allclose(oracles.step_sizes(algorithm.optimiser, 12), [0.0025, 0.005, 0.0075, *[0.01] * 9], rtol=1e-4)


# -- stretches of episodes -------------------------------------------------------------------------------------


def test_a_stretch_goes_from_its_row_to_the_end_of_the_context_or_of_the_episode() -> None:
    data = walks()
    _, columns, _ = begin(small())
    batch = gathering(small())(columns)
    for episode in EPISODES:
        for row in episode:
            rows = [i for i in range(row, row + 4) if i in episode]
            real = np.asarray(batch["real"][row])
            assert real.tolist() == [True] * len(rows) + [False] * (4 - len(rows))
            assert np.array_equal(batch["observations"][row][real], data.observations[rows])
            assert np.array_equal(batch["actions"][row][real], data.actions[rows])
            assert batch["times"][row][real].tolist() == [i - episode[0] for i in rows]
            to_go = [data.rewards[i : episode[-1] + 1].sum() for i in rows]
            assert np.allclose(batch["returns_to_go"][row][real], to_go, atol=1e-5)


def test_every_row_begins_a_stretch_so_long_episodes_are_drawn_more_often() -> None:
    columns, _ = DT.prepare(small(), walks())
    assert {len(column) for column in columns.values()} == {ROWS}


def test_rows_behind_the_data_are_never_read() -> None:
    """Streamed data have room for more rows than there are."""
    _, columns, _ = begin(small())
    longer = {
        name: jnp.concatenate([column, jnp.full((7, *column.shape[1:]), 99, column.dtype)])
        for name, column in columns.items()
    }
    assert same(gathering(small())(columns), gathering(small())(longer))


def test_what_stands_in_padding_changes_nothing_that_is_learned() -> None:
    _, columns, state = begin(small())
    batch = gathering(small())(columns)
    real = np.asarray(batch["real"])
    assert 0 < (~real[list(STARTS)]).sum() < real[list(STARTS)].sum()
    other = {
        name: jnp.asarray(np.where(real.reshape(*real.shape, *[1] * (column.ndim - 2)), column, 7))
        for name, column in batch.items()
        if name != "real"
    }
    other = {name: column.astype(batch[name].dtype) for name, column in other.items()} | {"real": batch["real"]}
    assert not same(batch, other)
    assert same(updating(small())(state, batch, KEY), updating(small())(state, other, KEY))


def test_learning_changes_the_whole_model_and_nothing_else() -> None:
    _, columns, state = begin(small())
    after, _ = updating(small())(state, gathering(small())(columns), KEY)
    leaves = zip(*map(jax.tree.leaves, (state.agent.model, after.agent.model)), strict=True)
    assert all((old != new).any() for old, new in leaves)
    assert same(*((agent.scaling, agent.actions) for agent in (state.agent, after.agent)))
    assert len(state.agent.model.times) == 10


@pytest.mark.parametrize(
    ("change", "matters"),
    [
        ({"actions": np.random.default_rng(5).uniform(LOW, HIGH, (ROWS, 2))}, True),
        ({"rewards": np.arange(ROWS)}, True),
        ({"observations": np.random.default_rng(5).normal(size=(ROWS, 3)), "next_observations": None}, True),
        ({"terminals": np.zeros(ROWS), "timeouts": walks().ends}, False),
    ],
    ids=["actions", "rewards", "states", "whether an end was terminal"],
)
def test_what_it_learns_from(change: dict[str, Any], matters: bool) -> None:
    models = []
    for data in (walks(), walks(**change)):
        _, columns, state = begin(small(), data)
        models.append(updating(small())(state, gathering(small())(columns), KEY)[0].agent.model)
    assert same(*models) is not matters


def test_data_without_actions_or_rewards_are_refused() -> None:
    for data, missing in ((walks().without_actions(), "actions"), (walks().without_rewards(), "rewards")):
        with pytest.raises(WaypostError, match=f"has no {missing}"):
            DT.prepare(small(), data)


def test_dropout_is_drawn_from_the_key() -> None:
    _, columns, state = begin(small())
    batch, step = gathering(small())(columns), updating(small())
    losses = [float(step(state, batch, jax.random.key(seed))[1]["policy_loss"]) for seed in (0, 0, 1)]
    assert losses[0] == losses[1] != losses[2]


def test_a_fresh_agent_has_the_datas_scaling_and_bounds_and_embeddings_of_its_longest_episode() -> None:
    data = walks()
    config = small()
    agent = jax.jit(lambda: DT(config, DT.prepare(config, data)[1], 3).init(KEY).agent)()
    assert np.allclose(agent.scaling.mean, data.observations.mean(0), atol=1e-5)
    assert np.allclose(agent.scaling.std, data.observations.std(0), atol=1e-5)
    assert np.array_equal(agent.actions.low, LOW)
    assert np.array_equal(agent.actions.high, HIGH)
    assert agent.model.times.shape == (10, 4)


# -- what the model can see --------------------------------------------------------------------------------------


def test_an_action_depends_on_the_past_the_return_and_the_state_and_on_nothing_later() -> None:
    _, _, state = begin(small())
    random = np.random.default_rng(0)
    given = Stretches(
        *(jnp.asarray(random.normal(size=shape), jnp.float32) for shape in ((1, 4), (1, 4, 3), (1, 4, 2))),
        times=jnp.arange(4)[None],
        real=jnp.ones((1, 4), bool),
    )
    run = jax.jit(lambda stretches: state.agent.model(stretches))
    before = run(given)
    assert before.shape == (1, 4, 2)
    for name in ("returns", "states", "actions", "times"):
        for step in range(4):
            changed = given._replace(**{name: getattr(given, name).at[:, step].add(1)})
            moved = np.abs(run(changed) - before).max(axis=(0, 2))
            first = step + 1 if name == "actions" else step
            assert (moved[:first] == 0).all()
            assert (moved[first:] > 1e-5).all()
    latest = jax.jit(lambda stretches: state.agent.model(stretches, latest=True))(given)
    assert np.allclose(latest, before[:, -1:], atol=1e-6)


# -- acting --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("context", [4, 20])
def test_acting_step_by_step_is_the_pass_over_the_stretch_it_learns_from(context: int) -> None:
    """With the data's own actions and rewards; at first there is less than a context, later more, or never enough."""
    config, data = small(context=context), walks()
    _, _, state = begin(config)
    oracle, model, episode = Oracle(config, data), numbers(state.agent.model), EPISODES[0]
    total = float(data.rewards[episode].sum())
    agent = state.agent
    memory = agent.start(ROWS)._replace(left=jnp.full(ROWS, total))
    for row in episode:
        # Other episodes beside it, at other places: they must not mix.
        actions, memory = compiled.act(agent, np.roll(data.observations, -row, axis=0), memory)
        first = max(row - context + 1, 0)
        expected = oracle.predictions(model, first)[row - first]
        assert np.allclose(actions[0], LOW + (HIGH - LOW) * (expected + 1) / 2, atol=1e-4)
        taken = np.array(memory.actions)
        taken[0, -1] = oracle.actions[row]
        memory = memory._replace(actions=jnp.asarray(taken))
        memory = agent.receive(memory, jnp.asarray([data.rewards[row], *[0.3] * (ROWS - 1)]))
    assert np.allclose(memory.left, [0, *[total - 3.0] * (ROWS - 1)], atol=1e-4)
    assert (memory.time == 10).all()


def test_it_remembers_the_action_it_took() -> None:
    _, _, state = begin(small())
    actions, memory = compiled.act(state.agent, walks().observations, state.agent.start(ROWS))
    assert np.allclose(state.agent.actions.action(memory.actions[:, -1]), actions, atol=1e-6)
    assert not memory.actions[:, :-1].any()


def test_it_asks_for_the_target_or_for_the_best_return_there_is() -> None:
    data = walks()
    best = max(data.rewards[episode].sum() for episode in EPISODES)
    for target, expected in ((0.0, best), (7.0, 7.0), (-2.0, -2.0)):
        memory = begin(small(target_return=target))[2].agent.start(ROWS)
        assert np.allclose(memory.left, expected)
        assert all(len(leaf) == ROWS for leaf in jax.tree.leaves(memory))
    agent = begin(small())[2].agent
    memory = agent.start(ROWS)
    asked = [
        compiled.act(agent, data.observations, memory._replace(left=jnp.full(ROWS, left)))[0] for left in (best, 0.0)
    ]
    assert not np.allclose(*asked, atol=1e-3)


TIMES = (11, 12, 10**6)
"""Of the longest episode, 10 steps and so 0 to 9, the last three and then four would be the past of these."""


def test_steps_after_the_longest_episode_are_taken_for_its_last() -> None:
    agent = begin(small())[2].agent
    memory = agent.start(ROWS)
    chosen = [
        compiled.act(agent, walks().observations, memory._replace(time=jnp.full(ROWS, time)))[0] for time in TIMES
    ]
    assert np.array_equal(chosen[1], chosen[2])
    assert not np.allclose(chosen[0], chosen[1], atol=1e-3)


def test_actions_never_leave_their_bounds_and_are_the_same_every_time() -> None:
    agent = begin(small())[2].agent
    oracles.check_bounds(agent, lambda agent: agent.model, agent.start(ROWS))


# -- settings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("return_scale", -1.0),
        ("context", 0),
        ("layers", 0),
        ("heads", 0),
        ("width", 0),
        ("dropout", 1.0),
        ("learning_rate", -1.0),
        ("warmup_steps", -1),
        ("weight_decay", -1.0),
        ("gradient_clip", 0.0),
        ("batch_size", 0),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(WaypostError, match=rf"^{name} must .+, got "):
        Config(**{name: value})


def test_heads_must_share_the_width() -> None:
    with pytest.raises(WaypostError, match=r"^width must be a multiple of heads, got 128$"):
        Config(heads=3)


def test_rewards_are_as_recorded_whatever_the_task_says() -> None:
    for data in ("t-maze", "hopper-medium", "antmaze-umaze"):
        assert plan("dt", data).rewards == "recorded"


def test_the_originals_settings() -> None:
    config = Config()
    assert (config.context, config.layers, config.heads, config.width, config.dropout) == (20, 3, 1, 128, 0.1)
    assert (config.learning_rate, config.weight_decay, config.warmup_steps) == (1e-4, 1e-4, 10_000)
    assert (config.gradient_clip, config.return_scale, config.batch_size) == (0.25, 1000.0, 64)
    targets = {"hopper": 3600, "halfcheetah": 12_000, "walker2d": 5000, "antmaze": 1}
    found = [name for name in presets.presets("dt") if name.startswith("paper/")]
    assert len(found) == 15
    for name in found:
        body = name.removeprefix("paper/").split("-")[0]
        _, steps, settings = presets.find("dt", Config, name, "")
        scale = 1.0 if body == "antmaze" else 1000.0
        assert steps == 100_000
        assert Config(**settings) == Config(target_return=targets[body], return_scale=scale)


def test_there_is_one_stage_as_long_as_the_run() -> None:
    algorithm, _, _ = begin(small(), steps=10)
    assert [(stage.name, stage.steps, stage.parts) for stage in algorithm.stages] == [("policy", 10, {"policy"})]


# -- learning ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.learns
def test_it_does_what_goes_with_the_return_asked_for() -> None:
    """Episodes of four steps that go up or down all the time; a step earns where it goes."""
    ways = np.repeat([1.0, -1.0], 4)
    data = Dataset.from_arrays(np.zeros((8, 1)), actions=ways, rewards=ways, timeouts=np.tile([0, 0, 0, 1], 2))
    config = Config(context=2, layers=1, width=16, dropout=0.0, return_scale=4.0, learning_rate=1e-2, warmup_steps=10)
    columns, spec = DT.prepare(config, data)
    learner = Learner(DT(config, spec, 100), columns, [0])
    learner.advance(learner.algorithm.stages[0], 100)
    for target, sign in ((4.0, 1), (-4.0, -1)):
        agent = learner.agents[0]
        memory = agent.start(1)._replace(left=jnp.full(1, target))
        for _ in range(4):
            actions, memory = compiled.act(agent, np.zeros((1, 1), np.float32), memory)
            memory = agent.receive(memory, actions[:, 0])
            assert sign * float(actions[0, 0]) > 0.8
