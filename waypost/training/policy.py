"""A trained agent for use: plain arrays in and out, saved as safetensors and JSON."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict, get_args, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from safetensors import safe_open

from waypost.agents import algorithm
from waypost.agents.agent import Agent, Algorithm, Memory, Spec
from waypost.agents.window import acting
from waypost.data.observations import by_name, far_outside, in_words, observe, with_means
from waypost.data.pipeline import Reading
from waypost.data.validation import described, numbers_of
from waypost.errors import WaypostError
from waypost.files import read_arrays, reading, write_arrays, write_json
from waypost.schema import build, shown
from waypost.summaries import Summarised, Summary
from waypost.training.checkpoint import flatten, unflatten
from waypost.training.memory import check_room
from waypost.training.plan import check_seeds
from waypost.training.records import UNFINISHED, read_record

LARGEST_HEADER = 1 << 20
"""The most bytes of a safetensors header, which lists an agent's arrays."""
_KINDS = {"float32": "F32", "int32": "I32", "uint32": "U32", "bool": "BOOL"}
"""How safetensors names the types of an agent's arrays."""
_ASK: dict[str, Any] = {
    "act": jax.jit(lambda agent, rows, memory: agent.act(rows, memory)),
    "value": jax.jit(lambda agent, rows, _: (agent.value(rows),)),
    "guide": jax.jit(lambda agent, rows, _: (agent.guide(rows),)),
}
"""What an agent can be asked, as programs that all policies of a kind share."""


@dataclass(frozen=True, eq=False, repr=False)
class Policy(Summarised):
    """An agent of one seed, with everything needed to build it again."""

    algorithm: str
    config: Any
    spec: Spec
    agent: Agent
    seed: int = 0
    reading: Reading | None = None
    """How the training data were read: names, categories, means for missing values."""

    def summary(self) -> Summary:
        spec = self.spec
        kinds = f"{spec.action_size} continuous" if spec.action_count is None else f"one of {spec.action_count}"
        kinds = described(spec.action_choices) if spec.action_choices else kinds
        line = f"Policy {self.algorithm}, seed {self.seed}: {spec.observation_size} observations, {kinds} actions"
        named = [("observations", spec.observation_names), ("actions", spec.action_names)]
        rows = [(f"{what} in order", ", ".join(names)) for what, names in named if names]
        return Summary(line, ("setting", "value"), [*rows, *((k, str(v)) for k, v in asdict(self.config).items())])

    @cached_property
    def actor(self) -> Agent:
        """The agent as it acts in an environment, one observation at a time."""
        return acting(self.agent, self.spec)

    def observation(self, row: Mapping[str, Any]) -> np.ndarray:
        """An observation from a row of a log, by column name, processed like the training data.

        Text becomes its category, a missing value its mean, and a time stamp the hour of the day.
        """
        return observe(row, self.spec.observation_names, self.reading or Reading(), self.spec.history)

    def act(self, observations: ArrayLike) -> np.ndarray:
        """Actions for one observation or a batch; for agents with a memory, see `act_with_memory`.

        A mapping, or a pandas row or table, is read by column name, as in `observation`. An agent with a history takes
        all its rows side by side here, the oldest first.
        """
        if self.agent.remembers:
            raise WaypostError(f"a {self.algorithm} agent has memory: use `start`, `act_with_memory` and `receive`")
        return self._ask("act", observations)

    def action(self, numbers: ArrayLike) -> dict[str, Any]:
        """An action by column name, from the numbers that `act` returns for one observation.

        Discrete actions come as their category: {"valve": "open", "heater": 41.5}.
        """
        return in_words(numbers, self.spec.action_names, self._meanings)

    @cached_property
    def _meanings(self) -> list[dict[float, str]]:
        """What the numbers of each discrete action column stand for."""
        spec, learned = self.spec, self.reading.pipeline.learned if self.reading else None
        if spec.action_count is None:
            choices = spec.action_choices or ((),) * (spec.action_size or 0)
            return [dict(zip(numbers_of(words).tolist(), words, strict=True)) for words in choices]
        names = {float(i): str(i) for i in range(spec.action_count)}
        words = learned.categories.get(spec.action_names[0], ()) if learned and spec.action_names else ()
        return [names | {float(i): word for i, word in enumerate(words)}]

    def value(self, observations: ArrayLike) -> np.ndarray:
        """The value of one observation or of each in a batch."""
        return self._ask("value", observations)

    def guide(self, observations: ArrayLike) -> np.ndarray:
        """The state the agent wants to reach from one observation or from each in a batch."""
        return self._ask("guide", observations)

    def start(self, episodes: int, goal: ArrayLike | None = None) -> Memory:
        """The memory at the start of a batch of episodes; `goal`: where to go, for agents that need one."""
        return self.actor.start(episodes, None if goal is None else jnp.asarray(goal, jnp.float32))

    def act_with_memory(self, observations: ArrayLike, memory: Memory) -> tuple[np.ndarray, Memory]:
        """Actions for a batch of observations, and the memory for the next step."""
        rows = self._rows(observations, self.spec.observation_size // self.spec.history)[0]
        actions, memory = _ASK["act"](self.actor, rows, memory)
        return np.asarray(actions), memory

    def receive(self, memory: Memory, rewards: ArrayLike) -> Memory:
        """Pass on the rewards of the last actions of a batch of episodes, for agents that use them."""
        return self.actor.receive(memory, jnp.asarray(rewards, jnp.float32))

    def _ask(self, what: str, observations: ArrayLike) -> np.ndarray:
        rows, single = self._rows(observations, self.spec.observation_size)
        answer = np.asarray(_ASK[what](self.agent, rows, ())[0])
        return answer[0] if single else answer

    def _numbers(self, observations: Any) -> np.ndarray:
        """Observations as an array; rows with column names are read by name, if the agent knows names."""
        named = by_name(observations)
        if isinstance(observations, Mapping) or (named and self.spec.observation_names):
            rows = [self.observation(row) for row in named]
            return rows[0] if getattr(observations, "ndim", 1) == 1 else np.stack(rows)
        try:
            with np.errstate(over="ignore"):
                return np.asarray(observations, np.float32)
        except (TypeError, ValueError):
            raise WaypostError(
                f"observations must be numbers, or rows with column names, got {shown(observations)}"
            ) from None

    def _warn_if_far(self, rows: np.ndarray) -> None:
        """Warn once that an observation is far outside the training data."""
        spec, width = self.spec, rows.shape[1]
        if self._warned or not spec.observation_low or not len(rows):
            return
        low, high = (np.asarray(each[-width:]) for each in (spec.observation_low, spec.observation_high))
        words = far_outside(rows, low, high, spec.observation_names[-width:])
        if words:
            self._warned.append(words)
            warnings.warn(f"an observation is far outside the training data: {words}", stacklevel=5)

    @cached_property
    def _warned(self) -> list[str]:
        return []

    def _rows(self, observations: ArrayLike, size: int) -> tuple[np.ndarray, bool]:
        rows, history = self._numbers(observations), self.spec.history
        single, given = rows.ndim == 1, rows.shape
        rows = rows[None] if single else rows
        if rows.ndim != 2 or rows.shape[1] != size:
            way = f"; give {history} rows of {size // history} side by side, oldest first, or one by one with `start` "
            way = f"{way}and `act_with_memory`" if history > 1 and size == self.spec.observation_size else ""
            raise WaypostError(f"observations must have shape ({size},) or (batch, {size}), got {given}{way}")
        rows = with_means(rows, self.spec.observation_names[-size:], self.reading)
        self._warn_if_far(rows)
        return rows, single

    # -- on disk --------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> Path:
        """Write the policy to a folder; policies of other seeds of the same run may share it."""
        return save_policies([self], folder)

    @classmethod
    def load(cls, folder: str | Path, seed: int | None = None) -> Policy:
        """The policy of a folder or run directory; by default that of the first seed."""
        policies = load_policies(folder)
        if seed is None:
            return policies[0]
        for policy in policies:
            if policy.seed == seed:
                return policy
        raise WaypostError(f"{folder}: has no policy of seed {seed}, only of {[policy.seed for policy in policies]}")


def save_policies(policies: list[Policy], folder: str | Path) -> Path:
    """Save the policies of one run: one safetensors file per seed, and `policy.json` with the rest."""
    folder, first = Path(folder), policies[0]
    if folder.is_file():
        raise WaypostError(f"{folder}: is a file; a policy needs a folder of its own")
    for policy in policies:
        write_arrays(folder / f"seed-{policy.seed}.safetensors", flatten(policy.agent, "agent"))
    record: dict[str, Any] = {
        "format": 1,
        "algorithm": first.algorithm,
        "config": asdict(first.config),
        "spec": first.spec.to_json(),
        "missing": missing_parts(first.agent),
        "seeds": [policy.seed for policy in policies],
    }
    if first.reading is not None:
        record["reading"] = asdict(first.reading)
    write_json(folder / "policy.json", record)
    return folder


class Record(TypedDict):
    """The contents of policy.json."""

    format: NotRequired[Literal[1]]
    algorithm: str
    config: dict[str, Any]
    spec: dict[str, Any]
    missing: list[str]
    seeds: list[int]
    reading: NotRequired[dict[str, Any]]


def load_policies(folder: str | Path) -> list[Policy]:
    """Every policy of a folder, or of a run directory that has one.

    The folder may come from anyone: policy.json is compared with the headers of the files before any array is read.
    """
    folder = Path(folder)
    unfinished = (folder / "config.json").is_file() and not (folder / "policy").is_dir()
    if (folder / "policy").is_dir():
        folder = folder / "policy"
    place = folder / "policy.json"
    if not place.is_file():
        if unfinished:
            raise WaypostError(f"{folder}: {UNFINISHED}")
        raise WaypostError(f"{folder}: has no policy.json; give a run directory or its policy folder")
    record = read_record(place, Record)
    try:
        chosen = algorithm(record["algorithm"])
        config: Any = build(record["config"], chosen.config_type, "config")
        spec = Spec.from_json(record["spec"])
        how = build(record["reading"], Reading, "reading") if "reading" in record else None
        files = {seed: folder / f"seed-{seed}.safetensors" for seed in check_seeds(record["seeds"])}
    except WaypostError as error:
        raise WaypostError(f"{place}: not a policy of this version of Waypost ({error})") from None
    for file in files.values():
        if not file.is_file():
            raise WaypostError(f"{file}: is missing, but {place} lists its seed")
    try:
        like = blank(chosen, config, spec, record["missing"])
        check_room(like, len(files))
    except Exception as error:  # numbers from a stranger can raise anything while shapes are computed
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise WaypostError(f"{place}: not a policy of this version of Waypost ({reason})") from None
    return [Policy(record["algorithm"], config, spec, _read(like, file), seed, how) for seed, file in files.items()]


def _read(like: Agent, file: Path) -> Agent:
    """The agent of a file, which must hold exactly the arrays of `like`, all finite."""
    _check_header(file)
    with reading(file, "a safetensors file"), safe_open(file, framework="numpy") as header:
        expected, names = flatten_shapes(like, "agent"), set(header.keys())
        strange = sorted(names ^ expected.keys())
        if strange:
            where = "missing from it" if strange[0] in expected else "not part of such an agent"
            raise WaypostError(f"{file}: {shown(strange[0])} is {where}; the file has other settings")
        for name, (shape, kind) in expected.items():
            part = header.get_slice(name)
            if (tuple(part.get_shape()), part.get_dtype()) != (shape, kind):
                saved = f"{part.get_dtype()} {tuple(part.get_shape())}"
                raise WaypostError(f"{file}: {name} is saved as {saved}, expected {kind} {shape}: other settings")
    arrays, _ = read_arrays(file)
    for name, values in arrays.items():
        if not np.isfinite(values).all():
            raise WaypostError(f"{file}: {name} has values that are NaN or infinite")
    return unflatten(like, arrays, "agent")


def _check_header(file: Path) -> None:
    """The first eight bytes of a file give the length of its header; that of an agent is short."""
    with reading(file, "a safetensors file"), file.open("rb") as content:
        size = int.from_bytes(content.read(8), "little")
    if size > LARGEST_HEADER:
        raise WaypostError(f"{file}: its header has {size} bytes, expected {LARGEST_HEADER} or fewer")


def flatten_shapes(like: Any, prefix: str) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and type of each array, as safetensors names them, by the name it is saved under."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(like)
    return {prefix + jax.tree_util.keystr(path): (leaf.shape, _KINDS[str(leaf.dtype)]) for path, leaf in leaves}


def blank(chosen: type[Algorithm], config: Any, spec: Spec, missing: list[str]) -> Agent:
    """An agent with these settings as shapes only, with None for the missing parts."""
    agent = jax.eval_shape(lambda: chosen.build(config, spec))
    optional = [name for name, kind in get_type_hints(type(agent)).items() if type(None) in get_args(kind)]
    for part in missing:
        if part not in optional:
            raise WaypostError(f"{shown(part)} cannot be missing from a {type(agent).__name__}")
    return replace(agent, **dict.fromkeys(missing))


def missing_parts(agent: Agent) -> list[str]:
    """Names of the parts this agent does not have."""
    return [part.name for part in fields(agent) if getattr(agent, part.name) is None]
