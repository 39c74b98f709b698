"""D4RL's data sets recorded locally, by its recipes, with policies that come with the package.

A replica is recorded in stages, one for each policy, and each stage in units of whole episodes. A unit draws everything
from its own seed, so the same name, number and seed give the same bytes with any number of processes.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from waypost.data.dataset import Dataset
from waypost.envs import native
from waypost.envs.locomotion import BODIES
from waypost.errors import WaypostError
from waypost.recording.controllers import Scene, ant_travelling, point_travelling, running
from waypost.recording.workers import Arrays, Request, sharing
from waypost.resources import available_memory, cores
from waypost.schema import conform
from waypost.types import Count

UNIT = 5_000
"""Transitions of a unit, not counting the rest of its last episode; a seed gives other data with another number."""
TOGETHER = 8
"""Most units of one worker that step together."""


@dataclass(frozen=True)
class Replica:
    """How a data set is recorded again."""

    name: str
    summary: str
    transitions: int
    """D4RL's number of transitions."""
    stages: tuple[tuple[float, Scene], ...]
    """Shares of the transitions and the setting that records each, in order."""
    observation_names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """How it differs from D4RL's recipe."""

    @property
    def row_size(self) -> int:
        """Approximate bytes of a transition in a file: two states, an action, reward and flags."""
        return 4 * (2 * len(self.observation_names) + 8)


CATALOGUE: dict[str, Any] = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text())


def _replay(body: str, moments: range, begin: int = 0, medium: float = 0.0) -> tuple[tuple[float, Scene], ...]:
    """Each stored policy stands for the nearest part of the training; before the first, actions are random.

    Steps before `begin` are left out, as from a buffer that has dropped them. `medium` is an additional share recorded
    by the medium policy, as if the training had stayed there.
    """
    steps = (0, *moments)
    edges = [0.0, *((a + b) / 2 for a, b in pairwise(steps)), float(steps[-1])]
    kept = [max(edge, begin) for edge in edges]
    shares = [(1 - medium) * (last - first) / (kept[-1] - begin) for first, last in pairwise(kept)]
    shares[-1] += medium
    return tuple((share, running(body, at)) for share, at in zip(shares, steps, strict=True) if share > 0)


def _catalogue(bodies: Any, kinds: Any, ant: Any, point: Any, notes: Any, names: Any, **_: Any) -> Iterator[Replica]:
    million = 1_000_000
    for body, training in bodies.items():
        moments = range(training["moments"]["first"], training["moments"]["last"] + 1, training["moments"]["every"])
        medium, expert = running(body, moments[-1]), running(body, **training["expert"])
        for kind, transitions, stages in (
            ("random", million, ((1.0, running(body, 0)),)),
            ("medium", million, ((1.0, medium),)),
            ("medium-replay", training["transitions"], _replay(body, moments, **training["replay"])),
            ("medium-expert", 2 * million, ((0.5, medium), (0.5, expert))),
            ("expert", million, ((1.0, expert),)),
        ):
            own = training.get("expert" if "expert" in kind else kind.removeprefix("medium-"), {})
            departs = tuple(notes[key] for key in own if key in notes)
            yield Replica(f"{body}-{kind}", kinds[kind], transitions, stages, BODIES[body].observation_names, departs)
    for name, recipe in ant.items():
        maze, _, journeys = name.partition("-")
        own = {key: value for key, value in recipe.items() if key != "summary"}
        stages = ((1.0, ant_travelling(maze, journeys or "fixed", **own)),)
        departs = (notes["ant"], *(notes[key] for key in own))
        yield Replica(f"antmaze-{name}", recipe["summary"], million, stages, tuple(names["ant"]), departs)
    for name, transitions in point.items():
        summary, stages = f"a point mass from target to target in the {name} maze", ((1.0, point_travelling(name)),)
        yield Replica(f"pointmaze-{name}", summary, transitions, stages, tuple(names["point"]))


REPLICAS: dict[str, Replica] = {replica.name: replica for replica in _catalogue(**CATALOGUE)}
"""Every replica, by D4RL's name without the version."""


def replica_named(name: str) -> Replica:
    """The replica of that name."""
    if name not in REPLICAS:
        raise WaypostError(f"there is no replica {name!r}; choose from {', '.join(REPLICAS)}")
    return REPLICAS[name]


def collect(
    name: str, transitions: int | None = None, seed: int = 0, workers: int | None = None, progress: Count | None = None
) -> Dataset:
    """Exactly that many transitions, by default as many as D4RL has; every next state is real.

    Only the last episode of a stage is cut short, and counts as a timeout. `workers` processes share the work, by
    default one per core; the result does not depend on them. `progress(done, total)` is called along the way.
    """
    replica = replica_named(name)
    total = replica.transitions if transitions is None else transitions
    workers = cores() if workers is None else workers
    bounds = {"transitions": (total, 1, 2**31 - 1), "seed": (seed, 0, 2**32 - 1), "workers": (workers, 1, 1_000)}
    for what, (value, least, most) in bounds.items():
        if conform(value, int, f"{name}: {what}") < least:
            raise WaypostError(f"{name}: {what} must be at least {least}, got {value}")
        if value > most:
            raise WaypostError(f"{name}: {what} must be at most {most}, got {value}")
    shares = np.cumsum([share for share, _ in replica.stages])
    edges = [0, *(round(total * share / shares[-1]) for share in shares)]
    free = edges[:-1]  # the first row of each stage that is not recorded yet
    columns: dict[str, Any] = {}

    def requests() -> Iterator[Request]:
        """Units while a stage needs them: each runs to the end of an episode, so fewer may be needed than planned."""
        for stage, (start, end) in enumerate(pairwise(edges)):
            leasts = [min(UNIT, end - first) for first in range(start, end, UNIT)]
            # In at least two rounds, to show progress; a small set may leave a stage without a row.
            together = max(1, min(TOGETHER, -(-len(leasts) // (2 * workers))))
            for unit in range(0, len(leasts), together):
                if free[stage] < end:
                    some = leasts[unit : unit + together]
                    yield {"name": name, "stage": stage, "unit": unit, "seed": seed, "leasts": some}

    units = sum(-(-(end - start) // UNIT) for start, end in pairwise(edges))
    with sharing(f"{__name__}:record_units", min(workers, units)) as run:
        for request, rows in run(requests()):
            stage = request["stage"]
            first, last = free[stage], min(free[stage] + len(rows["rewards"]), edges[stage + 1])
            columns = columns or _empty(name, total, rows)
            for column, values in rows.items():
                columns[column][first:last] = values[: last - first]
            if last > first:
                columns["timeouts"][last - 1] |= ~columns["terminals"][last - 1]
            free[stage] = last
            if progress is not None:
                progress(sum(free) - sum(edges[:-1]), total)
    ones = np.ones(columns["actions"].shape[1], np.float32)
    about: dict[str, Any] = {"observation_names": replica.observation_names, "notes": replica.notes}
    return Dataset.from_arrays(**columns, action_low=-ones, action_high=ones, name=name, task=name, **about)


def _empty(name: str, total: int, like: Arrays) -> Arrays:
    """Columns with that many rows, if they fit in memory."""
    needed = sum(total * values[:1].nbytes for values in like.values())
    if needed > available_memory():
        raise WaypostError(f"{name}: {total} transitions take {needed / 1e9:.1f} GB of memory; ask for fewer")
    return {key: np.zeros((total, *values.shape[1:]), values.dtype) for key, values in like.items()}


def record_units(name: str, stage: int, unit: int, seed: int, leasts: list[int]) -> Arrays:
    """The columns of consecutive units that step together: each records whole episodes until it has enough rows."""
    _, scene = replica_named(name).stages[stage]
    count, scene_number = len(leasts), crc32(scene.key.encode())
    # By setting, not by data set: medium-expert begins with the rows of medium, as in D4RL.
    seeds = [np.random.SeedSequence(seed, spawn_key=(scene_number, unit + i)) for i in range(count)]
    generators = [np.random.default_rng(each) for each in seeds]
    reset_seeds: list[int | None] = [int(rng.integers(2**31)) for rng in generators]
    actors = [scene.actor(rng) for rng in generators]
    active, begins, recorded = np.ones(count, bool), np.ones(count, bool), np.zeros(count, int)
    steps: list[tuple[np.ndarray, ...]] = []
    with closing(native.make(scene.env_id, count, threads=1)) as envs:
        while active.any():
            if begins.any():
                positions = [actors[i].begin() if begins[i] else None for i in range(count)]
                seen, _ = envs.reset(seed=reset_seeds, options={"reset_mask": begins, "position": positions})
                observations, reset_seeds = seen.astype(np.float32), [None] * count
            which = np.flatnonzero(active)
            actions = np.zeros((count, envs.model.nu), np.float32)
            actions[which] = type(actors[0]).act([actors[i] for i in which], observations[which])
            seen, rewards, terminated, truncated, _ = envs.step(actions)
            following = seen.astype(np.float32)
            ended = terminated | truncated
            ended |= [actor.arrived(row) for actor, row in zip(actors, following, strict=True)]
            steps.append((observations, following, actions, rewards, terminated, ended & ~terminated, active.copy()))
            recorded += active
            begins = active & ended & (recorded < leasts)
            active &= ~ended | begins
            observations = following
    names = ("observations", "next_observations", "actions", "rewards", "terminals", "timeouts")
    *columns, kept = (np.stack(values, axis=1) for values in zip(*steps, strict=True))
    found = {name: values[kept] for name, values in zip(names, columns, strict=True)}
    return found | {"rewards": found["rewards"].astype(np.float32)}
