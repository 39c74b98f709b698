"""Each operation that acting may use, by ONNX's operators and by NumPy's."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from waypost.agents.agent import Agent
from waypost.errors import WaypostError
from waypost.shipping import numpy_policy
from waypost.shipping.check import check
from waypost.shipping.export import numpy_bytes
from waypost.shipping.onnx_file import answering, model_bytes
from waypost.shipping.tracing import trace

TABLE = jnp.arange(12.0).reshape(4, 3)
ROWS = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)


class Doing(Agent):
    """Acts by one function of the observation."""

    do: Callable[[Any], Any] = eqx.field(static=True)

    def act(self, observations: Any, memory: Any = ()) -> Any:
        return self.do(observations), memory


def files(agent: Agent) -> list[Callable[..., Any]]:
    graph = trace(agent, 3)
    about = {"waypost": "0"}
    about |= {side: [vars(each) for each in getattr(graph, side)] for side in ("inputs", "outputs")}  # type: ignore[dict-item]
    return [answering(model_bytes(graph, about)), numpy_policy.Policy(io.BytesIO(numpy_bytes(graph, about)))]  # type: ignore[arg-type]


OPERATIONS = {
    "signs": lambda x: jnp.sign(x) * jnp.abs(-x) + jnp.floor(x),
    "roots": lambda x: jnp.sqrt(x * x + 1.0) + lax.rsqrt(jnp.square(x) + 1.0),
    "powers": lambda x: x**2 + x**3 + jnp.power(jnp.abs(x) + 0.5, 1.5),
    "logarithms": lambda x: jnp.log(jnp.exp(x) + 1.0) + jax.nn.sigmoid(x),
    "clamps": lambda x: lax.clamp(-0.5, x, 0.5) + jnp.clip(x, -1.0, 1.0),
    "comparisons": lambda x: jnp.where((x != 0.0) & (x <= 1.0) | ~(x > -1.0), x, 0.0),
    "slices": lambda x: x[:, 1:] + x[:, :-1] + lax.slice_in_dim(x, 0, 2, axis=1),
    "a step": lambda x: lax.slice_in_dim(x, 0, 3, 2, axis=1),
    "squeezed": lambda x: jnp.squeeze(x[:, :1], 1),
    "columns": lambda x: x[:, np.array([2, 0])],
    "transposed": lambda x: jnp.transpose(x[:, None, :] * TABLE[None], (0, 2, 1)).sum(axis=2),
    "products": lambda x: x @ TABLE.T + jnp.einsum("rk,hk->rh", x, TABLE),
    "products by row": lambda x: jnp.einsum("ri,rj->rij", x, x).reshape(x.shape[0], 9),
    "reductions": lambda x: jnp.stack([x.max(axis=1), x.min(axis=1), x.mean(axis=1)], axis=1),
    "softmax": lambda x: jax.nn.softmax(x, axis=-1),
    "looked up": lambda x: jnp.take(TABLE, jnp.argmax(x, axis=1) + 2, axis=0, mode="clip"),
    "best of several": lambda x: jnp.take_along_axis(x[None] * TABLE[:, None], x.argmax(-1)[None, :, None], 0)[0],
    "written over": lambda x: x.at[:, 1].set(x[:, 0]),
    "constants": lambda x: x + jax.random.normal(jax.random.key(0), (3,)),
    "repeated": lambda x: jnp.concatenate([x, jnp.broadcast_to(TABLE[0], x.shape), jnp.zeros_like(x)], axis=1),
    "split": lambda x: jnp.split(x @ TABLE.T, 2, axis=1)[1],
    "discrete": lambda x: jax.nn.one_hot(jnp.argmax(x, axis=1), 3).argmax(axis=1),
    "as it is": lambda x: lax.stop_gradient(x),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_means_the_same_everywhere(name: str) -> None:
    agent = Doing(OPERATIONS[name])
    for answer in files(agent):
        check(agent, answer, ROWS, np.random.default_rng(0))
        assert len(answer({"observation": ROWS[:1]})["action"]) == 1


@pytest.mark.parametrize(
    ("do", "words"),
    [
        (lambda x: jnp.sort(x, axis=1), "it uses sort"),
        (lambda x: lax.select_n(jnp.argmax(x, 1), x[:, 0], x[:, 1], x[:, 2]), "it selects among 3 cases"),
        (lambda x: x.at[:, jnp.argmax(x.sum(axis=0))].set(0.0), "it writes to indices"),
        (lambda x: TABLE[jnp.argmax(x, axis=1), jnp.argmax(-x, axis=1)], "it gathers along several axes"),
        (lambda x: x + x[0], "it uses dim_as_value"),
        (lambda x: x.reshape(len(x), 3), "it needs to know the number of observations"),
    ],
)
def test_what_has_no_rule_is_refused(do: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(WaypostError, match=f"cannot be written as ONNX: .*{words}"):
        trace(Doing(do), 3)
