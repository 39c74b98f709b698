"""The training loop of every algorithm: chunks of updates in one compiled program, several seeds at once.

A chunk is one `lax.scan`: batches are drawn from data that are already on the device, the state is
updated, and only the chunk's mean metrics come back. Nothing in between touches Python.

Data that do not fit on the device come in windows (`waypost.data.stream`); the step alone determines the window.

Seeds run in lanes. On an accelerator the seeds of a device are one lane under `vmap`. On a CPU every seed is a
lane of its own and the lanes are spread over the cores: XLA's batched matrix multiplication is slower there than
one core per agent (`make bench` measures it). A seed's random numbers depend on the seed alone, so it learns
the same either way.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from waypost.agents.agent import Agent, Algorithm, Array, Arrays, Stage
from waypost.data.stream import Stream, Window
from waypost.errors import DivergenceError
from waypost.resources import cores
from waypost.training.checkpoint import flatten, unflatten
from waypost.training.memory import check_room, check_update

CHUNK_AXES = (0, 0, None, None, None)
"""State and key differ per seed; the step, the columns and their number of rows are shared."""


@dataclass
class Lane:
    """Seeds that advance in one call, and the device they learn on."""

    seeds: tuple[int, ...]
    device: jax.Device
    keys: Array
    state: Any
    columns: dict[str, Array] = field(default_factory=dict)


class Whole:
    """Columns that fit on the device: a single window that stays, unlike `Stream`."""

    def __init__(self, columns: Arrays):
        self._columns = columns
        self.shapes = {name: (column.shape, column.dtype) for name, column in columns.items()}

    def index(self, step: int) -> int:
        return 0

    def left(self, step: int) -> int:
        return 2**31

    def take(self, index: int) -> Window:
        """The columns; no copy is kept here, since data on the device need not stay in memory too."""
        columns, self._columns = self._columns, {}
        return Window(columns, len(next(iter(columns.values()))))

    def begin(self, index: int) -> None: ...

    def close(self) -> None: ...


class Learner:
    """Agents of one algorithm, one per seed, learning from the same columns."""

    def __init__(
        self,
        algorithm: Algorithm,
        columns: Arrays | Stream,
        seeds: Sequence[int],
        donor: Agent | None = None,
        seeds_per_lane: int | None = None,
    ):
        """`donor` provides the parts this training leaves out; `seeds_per_lane` overrides the choice above."""
        self.algorithm = algorithm
        self.seeds = tuple(seeds)
        self.step = 0
        self.metrics_of: dict[str, list[str]] = {}
        """The metrics each stage reports, by its name, filled by `metric_names`."""
        self.source = columns if isinstance(columns, Stream) else Whole(columns)
        self._programs = _programs(algorithm)
        devices = learning_devices()
        if seeds_per_lane is None:
            seeds_per_lane = 1 if devices[0].platform == "cpu" else -(-len(self.seeds) // len(devices))
        self.lanes: list[Lane] = []
        for first in range(0, len(self.seeds), seeds_per_lane):
            device = devices[len(self.lanes) % len(devices)]
            self.lanes.append(self._lane(self.seeds[first : first + seeds_per_lane], device, donor))
        self._window: int | None = None
        if isinstance(self.source, Whole):
            self._enter_window()

    def _lane(self, seeds: tuple[int, ...], device: jax.Device, donor: Agent | None) -> Lane:
        numbers = jax.device_put(np.asarray(seeds if len(seeds) > 1 else seeds[0], np.uint32), device)
        begin = self._programs.beginning(len(seeds))
        if not self.lanes:
            check_room(begin.eval_shape(numbers, donor), -(-len(self.seeds) // len(seeds)))
        keys, state = begin(numbers, donor)
        return Lane(seeds, device, keys, state)

    # -- learning -----------------------------------------------------------------------------

    def advance(self, stage: Stage, steps: int) -> dict[str, np.ndarray]:
        """Make `steps` updates of every agent; returns the mean of each metric over them, one number per seed."""
        last, parts = self.step + steps, []
        while self.step < last:
            self._enter_window()
            part = min(last - self.step, self.source.left(self.step))
            parts.append((part / steps, self._advance(stage, part)))
        if len(parts) == 1:
            return parts[0][1]
        return {name: np.sum([share * means[name] for share, means in parts], axis=0) for name in parts[0][1]}

    def close(self) -> None:
        """Stop background work; learning can still continue."""
        self.source.close()

    def _enter_window(self) -> None:
        """Put the window of this step on every device, and start loading the next one."""
        index = self.source.index(self.step)
        if index == self._window:
            return
        for lane in self.lanes:
            lane.columns = {}  # free the old window first
        self._window = None
        columns, self._rows = self.source.take(index)
        on_device = {device: jax.device_put(columns, device) for device in {lane.device for lane in self.lanes}}
        jax.block_until_ready(list(on_device.values()))
        del columns
        for lane in self.lanes:
            lane.columns = on_device[lane.device]
        self._window = index
        if self.step + self.source.left(self.step) < sum(stage.steps for stage in self.algorithm.stages):
            self.source.begin(index + 1)

    def _advance(self, stage: Stage, steps: int) -> dict[str, np.ndarray]:
        """Updates on the current window."""
        results = []
        for lane in self.lanes:
            lane.state, means, first_bad = self._programs.chunk(stage, steps, len(lane.seeds))(
                lane.state, lane.keys, np.int32(self.step), lane.columns, np.int32(self._rows)
            )
            results.append((means, first_bad))
        # All lanes are started before the first result is waited for.
        means, first_bad = _concatenate(jax.device_get(results))
        for name, bad in first_bad.items():
            if (bad < steps).any():
                seed = self.seeds[int(bad.argmin())]
                step = self.step + int(bad.min()) + 1
                raise DivergenceError(
                    f"{name} is not finite at step {step} (seed {seed}): the run has diverged; "
                    "lower the learning rates or check the data's scale"
                )
        self.step += steps
        return means

    def metric_names(self, first: Callable[[Stage], int] = lambda stage: 1) -> list[str]:
        """All metrics the stages report; also traces every update once, so that mistakes show before any work.

        `first` gives the number of updates of a stage's first chunk, so that the trace made here is reused for it.
        """
        lane = self.lanes[0]
        columns = {
            name: jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(dtype))
            for name, (shape, dtype) in self.source.shapes.items()
        }
        names: dict[str, None] = {}
        for stage in self.algorithm.stages:
            chunk = self._programs.chunk(stage, first(stage), len(lane.seeds))
            traced = chunk.trace(lane.state, lane.keys, np.int32(0), columns, np.int32(1))
            check_update(traced.jaxpr)
            self.metrics_of[stage.name] = sorted(traced.out_info[1])
            names |= dict.fromkeys(self.metrics_of[stage.name])
        return list(names)

    # -- inspecting, saving, restoring -----------------------------------------------------------

    @property
    def states(self) -> list[Any]:
        """The state of each seed; valid until the next `advance`, which reuses its memory."""
        states = []
        for lane in self.lanes:
            if len(lane.seeds) == 1:
                states.append(lane.state)
            else:
                states += [jax.tree.map(lambda x, i=i: x[i], lane.state) for i in range(len(lane.seeds))]
        return states

    @property
    def agents(self) -> list[Agent]:
        """The agent of each seed, as copies that survive the next `advance`."""
        return [jax.tree.map(np.array, state.agent) for state in self.states]

    def snapshot(self) -> dict[str, np.ndarray]:
        """Everything that training changes, by name."""
        arrays = {"step": np.asarray(self.step, np.int32)}
        for seed, state, key in zip(self.seeds, self.states, self._keys(), strict=True):
            arrays |= flatten(state, f"seed {seed}")
            arrays[f"seed {seed} key"] = np.asarray(jax.random.key_data(key))
        return arrays

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go back to a snapshot with the same algorithm, settings and seeds."""
        self.step = int(arrays["step"])
        for lane in self.lanes:
            like = lane.state if len(lane.seeds) == 1 else jax.tree.map(lambda x: x[0], lane.state)
            states = [unflatten(like, arrays, f"seed {seed}") for seed in lane.seeds]
            keys = [jax.random.wrap_key_data(jnp.asarray(arrays[f"seed {seed} key"])) for seed in lane.seeds]
            lane.state = jax.device_put(_stack(states), lane.device)
            lane.keys = jax.device_put(_stack(keys), lane.device)

    def replace_states(self, changed: Callable[[int, Any], Any]) -> None:
        """Replace the state of every seed by another of the same form."""
        states = dict(zip(self.seeds, self.states, strict=True))
        for lane in self.lanes:
            lane.state = jax.device_put(_stack([changed(seed, states[seed]) for seed in lane.seeds]), lane.device)

    def _keys(self) -> list[Array]:
        return [key for lane in self.lanes for key in (lane.keys.reshape(-1))]


# -- programs: compiled once per algorithm, shared by all lanes and learners -------------------------


class Programs:
    """The compiled programs of an algorithm, one for each chunk length used so far."""

    def __init__(self, algorithm: Algorithm):
        self.beginning = lru_cache(maxsize=None)(partial(_beginning, algorithm))
        self.chunk = lru_cache(maxsize=None)(partial(_compiled, algorithm))


_programs = lru_cache(maxsize=4)(Programs)
"""Programs of the last few algorithms; a learner holds on to its own."""


def _beginning(algorithm: Algorithm, seeds: int) -> Any:
    def begin(seed: Array, donor: Agent | None) -> tuple[Array, Any]:
        first, key = jax.random.split(jax.random.key(seed))
        state = algorithm.init(first)
        return key, state if donor is None else state._replace(agent=state.agent.graft(donor))

    return jax.jit(_over(seeds, begin, (0, None)), compiler_options=_compiler_options())


def _compiled(algorithm: Algorithm, stage: Stage, steps: int, seeds: int) -> Any:
    chunk = _over(seeds, _chunk(algorithm, stage, steps), CHUNK_AXES)
    return jax.jit(chunk, donate_argnums=0, compiler_options=_compiler_options())


def _compiler_options() -> dict[str, Any] | None:
    """On a CPU, skip LLVM's most expensive passes: they compile slowly, and updates are mostly matrix products."""
    if jax.default_backend() != "cpu" or jax.config.read("jax_disable_most_optimizations"):
        return None
    return {"xla_backend_optimization_level": 1}


def _chunk(algorithm: Algorithm, stage: Stage, steps: int) -> Callable[..., Any]:
    """`steps` updates of one agent as a pure function."""
    size = algorithm.config.batch_size

    def chunk(
        state: Any, key: Array, start: Array, columns: dict[str, Array], available: Array
    ) -> tuple[Any, Any, Any]:
        def draw(step: Array) -> tuple[Array, Array]:
            row_key, update_key = jax.random.split(jax.random.fold_in(key, step))
            return jax.random.randint(row_key, (size,), 0, available), update_key

        def update(state: Any, drawn: tuple[Array, Array]) -> tuple[Any, dict[str, Array]]:
            rows, update_key = drawn
            batch = algorithm.batch(columns, rows, update_key)
            return algorithm.update(stage, state, batch, update_key)

        # The chunk's random numbers are drawn at once, which is cheaper than a few at every step.
        state, metrics = jax.lax.scan(update, state, jax.vmap(draw)(start + jnp.arange(steps)))
        means = {name: values.mean() for name, values in metrics.items()}
        # The first update whose metric is not finite, or `steps` if there is none.
        first_bad = {
            name: jnp.min(jnp.where(jnp.isfinite(values), steps, jnp.arange(steps))) for name, values in metrics.items()
        }
        return state, means, first_bad

    return chunk


def learning_devices() -> list[jax.Device]:
    """The devices to learn on; a CPU is divided into one per core, unless JAX has already started."""
    if "host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        with suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", cores())
    return jax.local_devices()


def _over(seeds: int, function: Callable[..., Any], axes: Any) -> Callable[..., Any]:
    """The function for all seeds of a lane; a single seed needs no extra axis."""
    return function if seeds == 1 else jax.vmap(function, in_axes=axes)


def _stack(trees: list[Any]) -> Any:
    """The trees of a lane's seeds as one; a single seed needs no extra axis."""
    return trees[0] if len(trees) == 1 else jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def _concatenate(results: list[Any]) -> Any:
    return jax.tree.map(lambda *lanes: np.concatenate([np.atleast_1d(lane) for lane in lanes]), *results)
