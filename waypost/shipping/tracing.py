"""The graph of an agent, traced from the code that acts.

JAX traces `act`, `value` and `guide` on a batch of unknown size. Everything that does not depend on the observation is
computed here, once: bounds, transposed weights, the fixed noise of agents that take the best of several samples. The
rest is translated, operation by operation. An algorithm needs no code of its own to be exported.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.export import symbolic_shape
from jax.extend.core import Jaxpr, Literal

from waypost.agents.agent import Agent, Memory
from waypost.agents.nets import LayerNorm, Linear
from waypost.errors import WaypostError
from waypost.shipping import primitives
from waypost.shipping.graph import BATCH, Graph, Size, Tensor, Wire, Writer

EPSILON = 1e-5
"""Of `LayerNorm`."""
MEMORY = "memory"
NEXT = "next_"
"""Prefix of the name of a memory output; the rest is the name of its input."""
Answers = dict[str, Any]


class NamedLinear(eqx.Module):
    """A layer whose place in the agent appears in the trace, as the name of a function."""

    layer: Linear
    place: str = eqx.field(static=True)

    def __call__(self, x: jax.Array) -> jax.Array:
        def call(x: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
            return x @ weight + bias

        call.__name__ = f"linear:{self.place}"
        layer = self.layer
        return jax.jit(call)(x, layer.weight.T if layer.transposed else layer.weight, layer.bias)


class NamedLayerNorm(eqx.Module):
    """The same for a LayerNorm."""

    norm: LayerNorm
    place: str = eqx.field(static=True)

    def __call__(self, x: jax.Array) -> jax.Array:
        def call(x: jax.Array, gain: jax.Array, offset: jax.Array) -> jax.Array:
            return eqx.tree_at(lambda norm: (norm.gain, norm.offset), self.norm, (gain, offset))(x)

        call.__name__ = f"layer_norm:{self.place}"
        return jax.jit(call)(x, self.norm.gain, self.norm.offset)


def named(agent: Agent) -> Agent:
    """The agent with named layers, so that the trace keeps each of them whole."""

    def changed(path: Any, part: Any) -> Any:
        place = jax.tree_util.keystr(path, simple=True, separator=".")
        if isinstance(part, Linear):
            return NamedLinear(part, place)
        return NamedLayerNorm(part, place) if isinstance(part, LayerNorm) else part

    return jax.tree_util.tree_map_with_path(changed, agent, is_leaf=lambda part: isinstance(part, Linear | LayerNorm))


def start_of(agent: Agent, episodes: int, size: int) -> tuple[Memory, bool]:
    """The initial memory, and whether the agent can start without a goal."""
    try:
        return agent.start(episodes), True
    except WaypostError:
        return agent.start(episodes, jnp.zeros(size)), False


def earns(agent: Agent) -> bool:
    """Whether the agent needs the reward of its last action."""
    return type(agent).receive is not Agent.receive


def answers(agent: Agent, given: Answers) -> Answers:
    """All outputs of an agent for observations: action and, if available, waypoint and value.

    `given` holds `observation` and, for agents with memory, `memory` and perhaps `reward`, that of the last action (0
    at the first step). Agents with random actions get `noise` instead of a memory.
    """
    observations, memory = given["observation"], given.get(MEMORY, ())
    if "reward" in given:
        memory = agent.receive(memory, given["reward"])
    if "noise" in given:
        action = agent.act_given(observations, given["noise"])
    else:
        action, memory = agent.act(observations, memory)
    said: Answers = {"action": action}
    for name, question in (("waypoint", agent.guide), ("value", agent.value)):
        try:
            said[name] = question(observations)
        except WaypostError:
            continue  # it has no such part
    return said if MEMORY not in given else {**said, MEMORY: memory}


def flat(named_values: Answers) -> Answers:
    """Inputs or outputs with the memory as single arrays: memory, or memory.observations, memory.time."""
    single = {name: value for name, value in named_values.items() if name != MEMORY}
    leaves, _ = jax.tree_util.tree_flatten_with_path(named_values.get(MEMORY, ()))
    for path, leaf in leaves:
        place = jax.tree_util.keystr(path, simple=True, separator=".")
        single[f"{MEMORY}.{place}" if place else MEMORY] = leaf
    return single


def inputs_of(agent: Agent, size: int) -> Answers:
    """The agent's inputs at the first step of one episode."""
    given: Answers = {"observation": np.zeros((1, size), np.float32)}
    if agent.noise_size:
        return {**given, "noise": np.zeros((1, agent.noise_size), np.float32)}
    memory, _ = start_of(agent, 1, size)
    if jax.tree.leaves(memory):
        given |= {"reward": np.zeros(1, np.float32)} if earns(agent) else {}
        given[MEMORY] = memory
    return given


def trace(agent: Agent, size: int) -> Graph:
    """The graph of an agent that reads observations of this size."""
    (batch,) = symbolic_shape(BATCH)
    given = jax.tree.map(lambda x: jax.ShapeDtypeStruct((batch, *x.shape[1:]), x.dtype), inputs_of(agent, size))
    recorded, shapes = _recorded(agent, given)
    write = Writer()
    asked = flat(given)
    wires: dict[str, Wire] = {}
    # The observation comes first: the size of the batch is read from it.
    for name in sorted(asked, key=lambda name: name != "observation"):
        wires[name] = write.input(Tensor(name, _sizes(asked[name].shape), np.dtype(asked[name].dtype).name))
    leaves = [wires[_input_name(path)] for path, _ in jax.tree_util.tree_flatten_with_path(given)[0]]
    results = _Translation(write).all(recorded.jaxpr, recorded.consts, leaves)
    said = flat(jax.tree_util.tree_unflatten(jax.tree.structure(shapes), results))
    kinds = flat(shapes)
    return write.graph(
        {
            (NEXT + name if name.startswith(MEMORY) else name): (
                said[name],
                _sizes(kinds[name].shape),
                np.dtype(kinds[name].dtype).name,
            )
            for name in said
        }
    )


def _recorded(agent: Agent, given: Answers) -> tuple[Any, Any]:
    """The trace of an agent on a batch of unknown size, and the shapes of its outputs."""
    try:
        return jax.make_jaxpr(lambda given: answers(named(agent), given), return_shape=True)(given)
    except WaypostError:
        raise
    except Exception as error:  # JAX raises many kinds for code that needs the number of rows
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise primitives.refuse(f"it needs to know the number of observations ({reason})") from error


def _input_name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")


def _sizes(shape: tuple[Any, ...]) -> tuple[Size, ...]:
    return tuple(int(size) if isinstance(size, int | np.integer) else str(size) for size in shape)


class _Translation:
    """Turns a trace into operators."""

    def __init__(self, write: Writer):
        self.write = write

    def all(self, recorded: Jaxpr, constants: Any, given: list[Any]) -> list[Any]:
        """The outputs of a traced function: wires, or arrays where the observation does not matter."""
        known: dict[Any, Any] = dict(zip((*recorded.constvars, *recorded.invars), (*constants, *given), strict=True))

        def value(variable: Any) -> Any:
            if isinstance(variable, Literal):
                kind: Any = variable.aval
                return np.asarray(variable.val, kind.dtype)
            return known[variable]

        for step in recorded.eqns:
            results = self._one(step, [value(variable) for variable in step.invars])
            known |= dict(zip(step.outvars, results, strict=True))
        return [value(variable) for variable in recorded.outvars]

    def _one(self, step: Any, operands: list[Any]) -> list[Any]:
        inner = step.params.get("jaxpr", step.params.get("call_jaxpr"))
        if inner is not None:
            return self._function(step, inner, operands)
        shapes = [_sizes(variable.aval.shape) for variable in step.outvars]
        fixed = not any(isinstance(each, Wire) for each in operands)
        asks_size = step.primitive.name == "dim_as_value"
        if fixed and not asks_size and all(isinstance(size, int) for shape in shapes for size in shape):
            results = step.primitive.bind(*operands, **step.params)
        else:
            params = {**step.params, "sizes_of_all": [_sizes(variable.aval.shape) for variable in step.invars]}
            results = primitives.translate(self.write, step.primitive.name, params, shapes[0], operands)
        return list(results) if step.primitive.multiple_results else [results]

    def _function(self, step: Any, inner: Any, operands: list[Any]) -> list[Any]:
        kind, _, place = str(step.params.get("name", "")).partition(":")
        if not any(isinstance(each, Wire) for each in operands):
            kind = ""  # nothing to translate
        if kind == "linear":
            return [primitives.linear(self.write, place, len(step.outvars[0].aval.shape), *operands)]
        if kind == "layer_norm":
            return [primitives.layer_norm(self.write, place, EPSILON, *operands)]
        if kind == "relu":
            return [self.write.emit("Relu", *operands)]
        return self.all(inner.jaxpr, inner.consts, operands)
