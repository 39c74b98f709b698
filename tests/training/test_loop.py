"""The loop: chunks, lanes of seeds, snapshots, divergence."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from samples import TINY, walk

from waypost.agents.agent import Algorithm, Stage
from waypost.agents.bc import BC, Config as BCConfig
from waypost.agents.por import POR, Config
from waypost.data.dataset import Dataset
from waypost.data.stream import Stream
from waypost.errors import DivergenceError, WaypostError
from waypost.training.loop import Learner, Programs, learning_devices

STEPS = 12
SMALL: dict[str, Any] = {"hidden": (8, 8), "batch_size": 16}


@cache
def prepared(kind: type[Algorithm], config: Any, rows: int = 60) -> tuple[Algorithm, Any]:
    columns, spec = kind.prepare(config, walk(rows))
    return kind(config, spec, STEPS), columns


def por(**settings: Any) -> Learner:
    """A learner with several parts, and stages if the settings say so."""
    algorithm, columns = prepared(POR, Config(**{**TINY, **settings}))
    return Learner(algorithm, columns, (0,))


def learner(seeds: tuple[int, ...] = (0,), lane: int | None = None, **settings: Any) -> Learner:
    """The least there is to learn: what the loop does to it does not depend on how much it compiles."""
    algorithm, columns = prepared(BC, BCConfig(**{**SMALL, **settings}))
    return Learner(algorithm, columns, seeds, seeds_per_lane=lane)


def run(subject: Learner, chunk: int = STEPS) -> Learner:
    for stage in subject.algorithm.stages:
        for _ in range(stage.steps // chunk):
            subject.advance(stage, chunk)
    return subject


def close(one: Any, other: Any, tolerance: float = 1e-5) -> bool:
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.allclose(a, b, rtol=tolerance, atol=tolerance) for a, b in pairs)


def same(one: Any, other: Any) -> bool:
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def test_equal_trainings_share_what_is_compiled_for_them_and_others_do_not() -> None:
    config, data = BCConfig(**SMALL), walk()

    def programs(changed: BCConfig = config, rows: Dataset = data, steps: int = STEPS) -> Programs:
        columns, spec = BC.prepare(changed, rows)
        return Learner(BC(changed, spec, steps), columns, (0,))._programs

    first = programs()
    assert programs(BCConfig(**SMALL), walk()) is first
    others = programs(replace(config, learning_rate=0.5)), programs(rows=walk(seed=1)), programs(steps=STEPS + 1)
    assert all(other is not first for other in others)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, marks=pytest.mark.slow),
        {"guide_objective": "constrained"},
        pytest.param({"training": "staged", "horizon": 3}, marks=pytest.mark.slow),
    ],
)
def test_a_scan_is_the_same_as_single_updates(settings: dict[str, Any]) -> None:
    scanned = run(por(**settings))
    single = por(**settings)
    algorithm, lane = single.algorithm, single.lanes[0]
    state, step = lane.state, 0
    for stage in algorithm.stages:
        update = jax.jit(lambda state, batch, key, stage=stage: algorithm.update(stage, state, batch, key))
        for _ in range(stage.steps):
            row_key, key = jax.random.split(jax.random.fold_in(lane.keys, step))
            rows = jax.random.randint(row_key, (TINY["batch_size"],), 0, 60)
            state, _ = update(state, {name: column[rows] for name, column in lane.columns.items()}, key)
            step += 1
    assert close(scanned.states[0], state)
    assert not close(scanned.states[0], por(**settings).states[0])


def test_the_length_of_chunks_does_not_matter() -> None:
    assert close(run(learner()).states[0], run(learner(), chunk=3).states[0])


def test_no_length_of_chunk_is_compiled_twice() -> None:
    """However many there are: windows of streamed data leave all sorts of remainders."""
    subject, again = learner(), learner()
    stage, programs = subject.algorithm.stages[0], subject._programs
    first = {steps: programs.chunk(stage, steps, 1) for steps in range(1, 40)}
    assert again._programs is programs
    assert all(programs.chunk(stage, steps, 1) is program for steps, program in first.items())


def test_metrics_are_the_means_over_a_chunk() -> None:
    whole, parts = learner(), learner()
    stage = whole.algorithm.stages[0]
    means = whole.advance(stage, 6)
    singles = [parts.advance(stage, 1) for _ in range(6)]
    assert set(means) == set(whole.metric_names())
    for name, mean in means.items():
        assert np.allclose(mean, np.mean([single[name] for single in singles], axis=0), rtol=1e-4), name


def test_a_seed_in_a_lane_of_its_own_learns_exactly_what_it_learns_alone() -> None:
    together = run(learner((3, 4, 5, 6, 7)))
    assert len(together.lanes) == 5
    assert len({lane.columns["observations"].devices().pop() for lane in together.lanes}) > 1
    for seed, state in zip(together.seeds, together.states, strict=True):
        assert same(state, run(learner((seed,))).states[0])


@pytest.mark.parametrize("lane", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_a_seed_under_vmap_learns_what_it_learns_alone(lane: int) -> None:
    together = run(learner((3, 4, 5), lane))
    assert len(together.lanes) == -(-3 // lane)
    for seed, state in zip(together.seeds, together.states, strict=True):
        assert close(state, run(learner((seed,))).states[0])


def test_seeds_differ() -> None:
    first, second = run(learner((0, 1))).agents
    assert not close(first, second, 1e-2)


@pytest.mark.parametrize("lane", [1, 3])
def test_a_snapshot_brings_back_everything(lane: int) -> None:
    straight = run(learner((0, 1, 2), lane), chunk=4)
    first = learner((0, 1, 2), lane)
    first.advance(first.algorithm.stages[0], 4)
    saved = first.snapshot()
    second = learner((0, 1, 2), lane)
    second.restore(saved)
    assert second.step == 4
    for _ in range(2):
        second.advance(second.algorithm.stages[0], 4)
    assert same(second.snapshot(), straight.snapshot())
    assert second.snapshot().keys() == straight.snapshot().keys()


def test_a_snapshot_of_other_settings_is_refused() -> None:
    with pytest.raises(WaypostError, match="other settings"):
        learner().restore(learner(hidden=(9,)).snapshot())


def test_the_state_is_donated() -> None:
    subject = learner()
    before = jax.tree.leaves(subject.lanes[0].state.agent)
    subject.advance(subject.algorithm.stages[0], 2)
    assert all(leaf.is_deleted() for leaf in before)


def test_agents_outlive_the_next_chunk() -> None:
    subject = learner()
    agent = subject.agents[0]
    before = jax.tree.map(np.copy, agent)
    subject.advance(subject.algorithm.stages[0], 2)
    assert same(agent, before)
    assert not same(agent, subject.agents[0])


def test_every_row_is_drawn() -> None:
    """The batch holds the rows' own numbers, each about equally often."""
    rows = 12
    config = BCConfig(hidden=(4,), batch_size=64)
    columns, spec = BC.prepare(config, walk(rows))
    algorithm = BC(config, spec, 50)

    class Watched(BC):
        def update(self, stage: Stage, state: Any, batch: Any, key: Any) -> Any:
            state, _ = super().update(stage, state, batch, key)
            return state, {f"row {i}": (batch["row"] == i).sum().astype(jnp.float32) for i in range(rows)}

    watched = Watched(config, spec, 50)
    columns["row"] = np.arange(rows, dtype=np.float32)
    counts = Learner(watched, columns, (0,)).advance(algorithm.stages[0], 50)
    seen = np.array([counts[f"row {i}"][0] for i in range(rows)]) * 50
    assert seen.sum() == 64 * 50
    assert (np.abs(seen - 64 * 50 / rows) < 80).all()


def test_divergence_names_the_step_the_metric_and_the_seed() -> None:
    settings = {"learning_rate": 1e30}
    single = learner((4,), **settings)
    stage = single.algorithm.stages[0]
    with pytest.raises(DivergenceError):
        for _ in range(STEPS):
            single.advance(stage, 1)
    step = single.step + 1
    assert 1 < step < STEPS
    subject = learner((4,), **settings)
    with pytest.raises(DivergenceError, match=rf"\w+ is not finite at step {step} \(seed 4\)"):
        subject.advance(stage, STEPS)
    assert subject.step == 0


def test_mistakes_inside_an_update_show_before_training() -> None:
    config = Config(**TINY, training="executor", executor_weighted=True)
    columns, spec = POR.prepare(config, walk())
    with pytest.raises(WaypostError, match="value function"):
        Learner(POR(config, spec, STEPS), columns, (0,)).metric_names()


def test_a_running_jax_keeps_its_devices() -> None:
    assert learning_devices() == jax.local_devices()


def test_parts_of_a_donor_do_not_change() -> None:
    donor = run(por()).agents[0]
    config = Config(**TINY, training="guide")
    columns, spec = POR.prepare(config, walk(seed=5))
    subject = Learner(POR(config, spec, STEPS), columns, (0, 1), donor)
    begun = subject.agents
    run(subject)
    for before, after in zip(begun, subject.agents, strict=True):
        assert same(after.executor, donor.executor)
        assert not close(before.guide_part, after.guide_part)
        assert not close(before.value_part, after.value_part)


# -- windows of streamed data ----------------------------------------------------------------------


def streamed(
    seeds: tuple[int, ...] = (0,),
    lane: int | None = None,
    rows: int = 240,
    algorithm: type[Algorithm] = BC,
    **settings: Any,
) -> Learner:
    """Four windows of 5 updates each."""
    config = algorithm.config_type(**{**(SMALL if algorithm is BC else TINY), **settings})
    subject, columns = prepared(algorithm, config, rows)

    def prepare(block: Any) -> Any:
        return algorithm.prepare(config, block)[0]

    stream = Stream(walk(rows), prepare, columns, 16, block_rows=24, window_rows=60, updates=5)
    return Learner(subject, stream, seeds, seeds_per_lane=lane)


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("window")]


@pytest.mark.parametrize("spare", [0, 7])
@pytest.mark.parametrize(
    "settings",
    [pytest.param({}, marks=pytest.mark.slow), {"training": "staged", "horizon": 3}],
    ids=["joint", "staged"],
)
def test_one_window_with_everything_gives_the_same_bits(settings: dict[str, Any], spare: int) -> None:
    """Also if the columns are longer than the rows that count; with stages, and columns that look ahead."""
    subject = streamed(rows=60, algorithm=POR, **settings)
    subject.source.shapes = {
        name: ((shape[0] + spare, *shape[1:]), dtype) for name, (shape, dtype) in subject.source.shapes.items()
    }
    assert subject.source.windows == 1
    names = subject.metric_names()
    assert same(run(subject).snapshot(), run(por(**settings)).snapshot())
    assert len(subject.lanes[0].columns["observations"]) == 60 + spare
    assert names == por(**settings).metric_names()


def test_each_window_is_learned_from_in_its_turn() -> None:
    """The same as learners that have nothing but the rows of one window, one after the other."""
    subject = streamed()
    stage, source = subject.algorithm.stages[0], subject.source
    assert source.windows == 4
    subject.advance(stage, STEPS)
    saved = None
    for first, steps in ((0, 5), (5, 5), (10, 2)):
        columns, rows = source.take(first // 5)
        part = Learner(subject.algorithm, {name: column[:rows] for name, column in columns.items()}, (0,))
        if saved is not None:
            part.restore(saved)
        part.advance(stage, steps)
        saved = part.snapshot()
    assert same(saved, subject.snapshot())


def test_metrics_are_the_means_over_windows() -> None:
    whole, parts = streamed(), streamed()
    stage = whole.algorithm.stages[0]
    means = whole.advance(stage, 12)
    singles = [parts.advance(stage, 1) for _ in range(12)]
    for name, mean in means.items():
        assert np.allclose(mean, np.mean([single[name] for single in singles], axis=0), rtol=1e-4), name


@pytest.mark.parametrize("step", [pytest.param(3, marks=pytest.mark.slow), 5, 8])
def test_a_streamed_learner_resumes_to_the_same_bits(step: int) -> None:
    straight, first, second = streamed(), streamed(), streamed()
    stage = straight.algorithm.stages[0]
    for subject in (straight, first):
        subject.advance(stage, step)
    second.restore(first.snapshot())
    for subject in (straight, second):
        subject.advance(stage, STEPS - step)
    assert same(second.snapshot(), straight.snapshot())


@pytest.mark.parametrize("lane", [1, 3])
def test_all_lanes_learn_from_the_same_windows(lane: int) -> None:
    together = run(streamed((3, 4, 5), lane))
    compare = same if lane == 1 else close
    for seed, state in zip(together.seeds, together.states, strict=True):
        assert compare(state, run(streamed((seed,))).states[0])


def test_the_next_window_is_under_way_and_none_after_the_last() -> None:
    subject = streamed()
    stage = subject.algorithm.stages[0]
    subject.advance(stage, 1)
    assert subject.source._pending is not None
    assert subject.source._pending[0] == 1
    subject.advance(stage, STEPS - 1)
    assert subject.source._pending is None, "the 12 steps need no fourth window"
    subject.close()
    assert threads() == []


def test_closing_ends_the_thread_and_learning_can_go_on() -> None:
    straight, subject = streamed(), streamed()
    stage = subject.algorithm.stages[0]
    for each in (straight, subject):
        each.advance(stage, 2)
    subject.close()
    assert len(threads()) == 1, "the other one's"
    for each in (straight, subject):
        each.advance(stage, 6)
        each.close()
    assert threads() == []
    assert same(straight.snapshot(), subject.snapshot())


def test_an_error_in_the_thread_stops_the_learner() -> None:
    subject = streamed()
    stage = subject.algorithm.stages[0]
    subject.advance(stage, 1)
    subject.source.close()

    def fail(block: Any) -> Any:
        raise WaypostError("the disk is gone")

    subject.source.prepare = fail
    subject.source.begin(1)
    with pytest.raises(WaypostError, match="the disk is gone"):
        subject.advance(stage, STEPS - 1)
    subject.close()
    assert threads() == []
