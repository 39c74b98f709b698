"""Waypost's updates against d3rlpy's, an implementation that is not ours: same weights, data and random numbers.

`d3rlpy/*.npz` hold these and what d3rlpy's own classes made of them; `make crosscheck` remakes them. Neither d3rlpy nor
PyTorch is needed here. docs/algorithms.md says where the two differ, and why.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import compiled
import equinox as eqx
import jax
import numpy as np
import pytest

from waypost.agents import bcq, cql, iql, td3bc
from waypost.agents.nets import MLP
from waypost.data.dataset import Dataset

GOLDEN = Path(__file__).parent / "d3rlpy"
CASES = ("iql", "td3bc", "cql", "cql-lagrange", "bcq")
TOLERANCES = {"loss": 2e-5, "slope": 2e-5, "net": 2e-6}
"""As a share of the largest loss, of the largest slope or of the largest number of a network; all are float32."""
MODULES: dict[str, Any] = {"iql": iql.IQL, "td3bc": td3bc.TD3BC, "cql": cql.CQL, "bcq": bcq.BCQ}

Where = Callable[[Any], Any]


def twin(name: str, where: Where) -> dict[str, Where]:
    return {f"{name}{i}": lambda tree, i=i: where(tree).heads[i] for i in range(2)}


NETS: dict[str, dict[str, Where]] = {
    "iql": {
        "policy": lambda state: state.agent.policy.mean,
        "value": lambda state: state.agent.value_net,
        **twin("critic", lambda state: state.q),
        **twin("target", lambda state: state.target),
    },
    "td3bc": {
        "policy": lambda state: state.agent.policy,
        "target_policy": lambda state: state.targets.policy,
        **twin("critic", lambda state: state.agent.critic),
        **twin("target", lambda state: state.targets.critic),
    },
    "cql": {
        "policy": lambda state: state.agent.policy.net,
        **twin("critic", lambda state: state.agent.critic),
        **twin("target", lambda state: state.target),
    },
    "bcq": {
        "encoder": lambda state: state.agent.vae.encoder,
        "decoder": lambda state: state.agent.vae.decoder,
        "perturbation": lambda state: state.agent.perturbation.net,
        "target_perturbation": lambda state: state.target_perturbation.net,
        **twin("critic", lambda state: state.agent.action_value),
        **twin("target", lambda state: state.target_value),
    },
}
"""Where each network lies in a state."""
SLOPES: dict[str, dict[str, Where]] = {
    "iql": {
        "policy": lambda state: state.optimisers["policy"][0].mu.mean,
        "value": lambda state: state.optimisers["value"][0].mu,
        **twin("critic", lambda state: state.optimisers["q"][0].mu),
    },
    "td3bc": {
        "policy": lambda state: state.policy_optimiser[0].mu,
        **twin("critic", lambda state: state.critic_optimiser[0].mu),
    },
    "cql": {
        "policy": lambda state: state.optimisers["policy"][0].mu.net,
        **twin("critic", lambda state: state.optimisers["critic"][0].mu),
    },
    "bcq": {
        "encoder": lambda state: state.optimisers["vae"][0].mu.encoder,
        "decoder": lambda state: state.optimisers["vae"][0].mu.decoder,
        "perturbation": lambda state: state.optimisers["perturbation"][0].mu.net,
        **twin("critic", lambda state: state.optimisers["value"][0].mu),
    },
}
"""Where Adam's mean gradient of each network lies; after one update it is a tenth of the gradient."""
LOSSES = {
    "iql": {"value": "value_loss", "policy": "policy_loss", "q": "q_loss"},
    "td3bc": {"critic": "critic_loss", "policy": "policy_loss"},
    "cql": {"critic": "critic_loss", "policy": "policy_loss"},
    "bcq": {"vae": "vae_loss", "value": "value_loss", "perturbation": "perturbation_loss"},
}
"""d3rlpy's losses and our metrics."""


@cache
def golden(name: str) -> dict[str, np.ndarray]:
    with np.load(GOLDEN / f"{name}.npz") as archive:
        return dict(archive)


# -- the same update here ------------------------------------------------------------------------------


def filled(net: MLP, tables: list[np.ndarray]) -> MLP:
    """A network with these numbers: per layer the weights, and below them the biases."""

    def layer(old: Any, table: np.ndarray) -> Any:
        weight = table[:-1].T if old.transposed else table[:-1]
        assert weight.shape == old.weight.shape
        return eqx.tree_at(lambda each: (each.weight, each.bias), old, (weight, table[-1]))

    layers = tuple(layer(*each) for each in zip(net.layers, tables, strict=True))
    return eqx.tree_at(lambda each: each.layers, net, layers)


def tables(net: MLP) -> list[np.ndarray]:
    weights = [np.asarray(layer.weight) for layer in net.layers]
    transposed = [weight.T if layer.transposed else weight for weight, layer in zip(weights, net.layers, strict=True)]
    return [np.vstack([weight, layer.bias]) for weight, layer in zip(transposed, net.layers, strict=True)]


def stored(arrays: dict[str, np.ndarray], prefix: str) -> list[np.ndarray]:
    """The tables of a network in the golden file."""
    found = sorted(key for key in arrays if key.rpartition("/")[0] == prefix)
    assert found
    return [arrays[key] for key in found]


def begin(name: str) -> tuple[Any, Any, list[dict[str, np.ndarray]]]:
    """The algorithm, its state with the stored weights, and the batches."""
    arrays = golden(name)
    kind = str(arrays["algorithm"])
    settings = json.loads(str(arrays["settings"]))
    algorithm_type = MODULES[kind]
    lists = {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}
    config = algorithm_type.config_type(**lists)
    columns = {key.partition("/")[2]: array for key, array in arrays.items() if key.startswith("data/")}
    terminals = columns.pop("terminals") > 0
    data = Dataset.from_arrays(
        **columns,
        terminals=terminals,
        timeouts=~terminals,
        action_low=arrays["action_low"],
        action_high=arrays["action_high"],
    )
    prepared, spec = algorithm_type.prepare(config, data)
    rows = config.batch_size
    batches = [
        {key: column[first : first + rows] for key, column in prepared.items()}
        for first in range(0, len(terminals), rows)
    ]
    algorithm = algorithm_type(config, spec, 1_000)
    state = compiled.blank(algorithm)
    for net, where in NETS[kind].items():
        state = eqx.tree_at(where, state, filled(where(state), stored(arrays, f"before/{net}")))
    if kind == "iql":
        state = eqx.tree_at(lambda each: each.agent.policy.log_std, state, arrays["before/log_std"])
    if kind == "cql":
        state = state._replace(**{each: arrays[f"before/{each}"] for each in ("log_temperature", "log_factor")})
    return algorithm, state, batches


def noises(name: str) -> list[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Per update the normal and the uniform numbers in the order our update draws them."""
    arrays = golden(name)
    kind, noise = str(arrays["algorithm"]), lambda key: arrays[f"noise/{key}"]
    if kind == "td3bc":
        return [([each], []) for each in noise("target")]
    if kind == "bcq":
        return [(list(each), []) for each in zip(noise("vae"), noise("target"), noise("perturbation"), strict=True)]
    if kind == "cql":
        # d3rlpy's target without entropy takes the mean action: no noise. Of the action that nothing reads, no number.
        target = noise("target") * json.loads(str(arrays["settings"]))["entropy_in_target"]
        first = np.stack([np.full_like(target, np.nan), target])
        both = np.concatenate([first[None], np.stack([noise("here"), noise("next")], axis=1)])
        # The policy's actions are drawn twice from one key: for the temperature, then for the loss.
        return [([noise("policy"), noise("policy"), both], [noise("uniform")])]
    return [([], [])]


@contextmanager
def drawing(normal: list[jax.Array], uniform: list[jax.Array]) -> Iterator[None]:
    """JAX's random numbers replaced by these, in the order they are asked for."""
    queues = {"normal": list(normal), "uniform": list(uniform)}

    def take(kind: str) -> Callable[..., jax.Array]:
        def draw(key: jax.Array, shape: tuple[int, ...] = (), **_: Any) -> jax.Array:
            numbers = queues[kind].pop(0)
            assert numbers.shape == shape
            return numbers

        return draw

    with patch.object(jax.random, "normal", take("normal")), patch.object(jax.random, "uniform", take("uniform")):
        yield
    assert not any(queues.values())


@cache
def updated(name: str) -> tuple[Any, list[dict[str, Any]]]:
    """The state after Waypost's own updates, and the metrics of each."""
    algorithm, state, batches = begin(name)

    @jax.jit
    def update(state: Any, batch: Any, noise: Any) -> Any:
        with drawing(*noise):
            return algorithm.update(algorithm.stages[-1], state, batch, jax.random.key(0))

    metrics = []
    for batch, noise in zip(batches, noises(name), strict=True):
        state, each = update(state, batch, noise)
        metrics.append(each)
    return state, metrics


# -- the comparison ------------------------------------------------------------------------------------


def distance(ours: list[np.ndarray], theirs: list[np.ndarray]) -> float:
    """The largest difference as a share of the largest number."""
    size = max(np.abs(array).max() for array in theirs)
    assert np.isfinite(size)
    assert size > 0
    return float(max(np.abs(a - b).max() for a, b in zip(ours, theirs, strict=True)) / size)


def differences(name: str) -> dict[str, float]:
    """Of every loss, gradient and network after the update, by name."""
    arrays = golden(name)
    kind = str(arrays["algorithm"])
    state, metrics = updated(name)
    result = {}
    for loss, metric in LOSSES[kind].items():
        theirs = arrays[f"loss/{loss}"]
        given = np.isfinite(theirs)  # in an update in which the policy rests d3rlpy has no loss of it
        ours = np.array([each[metric] for each in metrics])
        result[f"loss of {loss}"] = distance([ours[given]], [theirs[given]])
    for net, where in NETS[kind].items():
        result[f"net of {net}"] = distance(tables(where(state)), stored(arrays, f"after/{net}"))
    for net, where in SLOPES[kind].items():
        result[f"slope of {net}"] = distance(tables(where(state)), stored(arrays, f"slope/{net}"))
    if kind == "iql":
        # d3rlpy's log standard deviation is -5 + 7 sigmoid(x): its slope in x, divided by that of the sigmoid's part.
        share = (arrays["before/log_std"].astype(np.float64) + 5.0) / 7.0
        theirs = arrays["slope/spread"] / (7.0 * share * (1.0 - share))
        result["slope of log_std"] = distance([state.optimisers["policy"][0].mu.log_std], [theirs])
    if kind == "cql":
        # d3rlpy's loss has the temperature where the authors' has its logarithm.
        theirs = arrays["slope/log_temperature"] / np.exp(arrays["before/log_temperature"])
        result["slope of log_temperature"] = distance([state.optimisers["temperature"][0].mu], [theirs])
        result["net of log_temperature"] = distance([state.log_temperature], [arrays["after/log_temperature"]])
    if name == "cql-lagrange":
        result["slope of log_factor"] = distance([state.optimisers["factor"][0].mu], [arrays["slope/log_factor"]])
        result["net of log_factor"] = distance([state.log_factor], [arrays["after/log_factor"]])
    return result


@pytest.mark.parametrize("name", CASES)
def test_losses_gradients_and_networks_after_updates_are_those_of_d3rlpy(name: str) -> None:
    found = differences(name)
    too_large = {what: apart for what, apart in found.items() if not apart < TOLERANCES[what.partition(" of ")[0]]}
    assert too_large == {}


def partly(mask: np.ndarray) -> bool:
    return bool(1 < mask.sum() < mask.size - 1)


def telling(arrays: dict[str, np.ndarray]) -> bool:
    """Whether either network of Q and of Q' is the smaller one somewhere, and what is cut off is so here and there."""

    def value(net: str, x: np.ndarray) -> np.ndarray:
        *hidden, last = stored(arrays, f"before/{net}")
        for table in hidden:
            x = np.maximum(x @ table[:-1] + table[-1], 0)
        return (x @ last[:-1] + last[-1])[:, 0]

    kind, settings = str(arrays["algorithm"]), json.loads(str(arrays["settings"]))
    states, low, high = arrays["data/observations"], arrays["action_low"], arrays["action_high"]
    if settings.get("observation_scaling"):
        states = (states - states.mean(0)) / states.std(0)
    pairs = np.hstack([states, 2 * (arrays["data/actions"] - low) / (high - low) - 1])
    q, target = (np.array([value(f"{which}{i}", pairs) for i in range(2)]) for which in ("critic", "target"))
    masks = [q[0] < q[1], target[0] < target[1], arrays["data/terminals"] > 0]
    if kind == "iql":
        u = target.min(0) - value("value", states)
        masks += [u < 0, np.exp(settings["inverse_temperature"] * u) > settings["weight_cap"]]
    elif kind == "td3bc":
        masks += [np.abs(settings["target_noise"] * arrays["noise/target"]) > settings["target_noise_clip"]]
    elif kind == "bcq":
        masks += [np.abs(arrays["noise/target"]) > 0.5, np.abs(arrays["noise/perturbation"]) > 0.5]
    return all(map(partly, masks))


@pytest.mark.parametrize("name", CASES)
def test_the_stored_problems_can_tell_a_right_update_from_a_wrong_one(name: str) -> None:
    assert telling(golden(name))
