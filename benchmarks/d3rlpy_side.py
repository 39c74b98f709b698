"""d3rlpy's part in the cross-checks and in the benchmark, for an interpreter that has d3rlpy and not Waypost.

    python benchmarks/d3rlpy_side.py check IN.npz OUT.npz  # updates from given weights, data and random numbers
    python benchmarks/d3rlpy_side.py serve                 # times updates on request, line by line

d3rlpy's own classes compute everything; this file builds them, sets their weights and reads weights, losses and Adam's
mean gradients. Settings have Waypost's names.

A network is passed as one table per layer: the weights (inputs, outputs) and below them the biases. Layers with the
same inputs, for a mean and for a standard deviation, are one table, side by side.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import d3rlpy
import numpy as np
import torch
from d3rlpy.dataset import TransitionMiniBatch
from d3rlpy.models import VectorEncoderFactory
from d3rlpy.preprocessing import MinMaxActionScaler, StandardObservationScaler
from d3rlpy.torch_utility import TorchMiniBatch
from torch import nn

Arrays = dict[str, np.ndarray]


# -- networks as tables ------------------------------------------------------------------------------


def layers(module: nn.Module) -> list[list[nn.Linear]]:
    """The layers in order; those of a mean and of a standard deviation together."""
    found = [part for part in module.modules() if isinstance(part, nn.Linear)]
    last = 2 if isinstance(getattr(module, "_logstd", None), nn.Linear) else 1
    return [*([layer] for layer in found[:-last]), found[-last:]]


def put(module: nn.Module, name: str, arrays: Arrays) -> None:
    """Set a network to the numbers stored under its name."""
    for i, group in enumerate(layers(module)):
        table = torch.from_numpy(arrays[f"before/{name}/{i}"])
        for layer, part in zip(group, table.chunk(len(group), dim=1), strict=True):
            layer.weight.data.copy_(part[:-1].T)
            layer.bias.data.copy_(part[-1])


def tables(module: nn.Module, name: str, read: Callable[[nn.Parameter], torch.Tensor]) -> Arrays:
    """A network's parameters, as `read` gives them, under its name."""
    result = {}
    for i, group in enumerate(layers(module)):
        parts = [torch.cat([read(layer.weight).T, read(layer.bias)[None]]) for layer in group]
        result[f"{name}/{i}"] = torch.cat(parts, dim=1).detach().numpy().copy()
    return result


def after(**nets: nn.Module) -> Arrays:
    """The current networks."""
    named = [tables(net, f"after/{name}", torch.clone) for name, net in nets.items()]
    return {key: table for each in named for key, table in each.items()}


def slopes(optimiser: Any, **nets: nn.Module) -> Arrays:
    """Adam's mean gradient of every number; after one update it is a tenth of the gradient."""

    def mean(parameter: nn.Parameter) -> torch.Tensor:
        return optimiser.optim.state[parameter]["exp_avg"]

    named = [tables(net, f"slope/{name}", mean) for name, net in nets.items()]
    return {key: table for each in named for key, table in each.items()}


# -- data and random numbers -------------------------------------------------------------------------


def minibatch(data: Arrays, rows: slice) -> TransitionMiniBatch:
    def column(name: str) -> np.ndarray:
        values = data[f"data/{name}"][rows].astype(np.float32)
        return values if values.ndim == 2 else values[:, None]

    actions, rewards = column("actions"), column("rewards")
    return TransitionMiniBatch(
        observations=column("observations"),
        actions=actions,
        rewards=rewards,
        next_observations=column("next_observations"),
        next_actions=np.zeros_like(actions),
        terminals=column("terminals"),
        intervals=np.ones_like(rewards),
        transitions=[],
    )


def scalers(data: Arrays, observations: bool) -> dict[str, Any]:
    """Scale actions to [-1, 1] and, if wanted, observations to mean 0 and standard deviation 1."""
    result: dict[str, Any] = {"action_scaler": MinMaxActionScaler(data["action_low"], data["action_high"])}
    if observations:
        seen = data["data/observations"].astype(np.float64)
        result["observation_scaler"] = StandardObservationScaler(seen.mean(0), seen.std(0))
    return result


@contextmanager
def drawing(normal: list[np.ndarray], uniform: list[np.ndarray] | None = None) -> Iterator[None]:
    """Replace PyTorch's random numbers by these, in the order they are drawn."""
    normals, uniforms = list(normal), list(uniform or [])

    def take(queue: list[np.ndarray], shape: Any) -> torch.Tensor:
        numbers = torch.from_numpy(queue.pop(0).copy())
        if numbers.shape != torch.Size(shape):
            raise AssertionError(f"d3rlpy draws {tuple(shape)}, we have {tuple(numbers.shape)}")
        return numbers

    def randn(*shape: Any, **_: Any) -> torch.Tensor:
        return take(normals, shape[0] if isinstance(shape[0], torch.Size) else shape)

    with (
        patch.object(torch, "randn", randn),
        patch.object(torch.distributions.normal, "_standard_normal", lambda shape, **_: take(normals, shape)),
        patch.object(torch.Tensor, "uniform_", lambda self, *_: self.copy_(take(uniforms, self.shape))),
    ):
        yield
    if normals or uniforms:
        raise AssertionError(f"d3rlpy left {len(normals)} + {len(uniforms)} sets of random numbers unused")


# -- the updates -------------------------------------------------------------------------------------


def create(config: Any, data: Arrays) -> tuple[Any, Any, TorchMiniBatch]:
    """A d3rlpy algorithm, its modules, and the first batch as it goes into its losses."""
    algorithm = config.create(device="cpu:0")
    algorithm.create_impl((data["data/observations"].shape[1],), data["data/actions"].shape[1])
    batch = TorchMiniBatch.from_batch(
        batch=minibatch(data, slice(0, config.batch_size)),
        gamma=config.gamma,
        compute_returns_to_go=False,
        device="cpu:0",
        observation_scaler=config.observation_scaler,
        action_scaler=config.action_scaler,
    )
    return algorithm, algorithm.impl.modules, batch


def net(hidden: Any) -> VectorEncoderFactory:
    return VectorEncoderFactory(list(hidden))


def load_twins(modules: Any, data: Arrays) -> None:
    for i in range(2):
        put(modules.q_funcs[i], f"critic{i}", data)
        put(modules.targ_q_funcs[i], f"target{i}", data)


def twins(modules: Any) -> dict[str, nn.Module]:
    return {f"critic{i}": modules.q_funcs[i] for i in range(2)}


def targets(modules: Any) -> dict[str, nn.Module]:
    return {f"target{i}": modules.targ_q_funcs[i] for i in range(2)}


def iql(settings: dict[str, Any], data: Arrays) -> Arrays:
    """One update in the order V, policy, Q, each by d3rlpy's own functions."""
    config = d3rlpy.algos.IQLConfig(
        actor_learning_rate=settings["policy_learning_rate"],
        critic_learning_rate=settings["value_learning_rate"],
        actor_encoder_factory=net(settings["hidden"]),
        critic_encoder_factory=net(settings["hidden"]),
        value_encoder_factory=net(settings["hidden"]),
        batch_size=settings["batch_size"],
        gamma=settings["discount"],
        tau=settings["target_rate"],
        expectile=settings["tau"],
        weight_temp=settings["inverse_temperature"],
        max_weight=settings["weight_cap"],
        **scalers(data, observations=False),
    )

    def begin() -> tuple[Any, Any, TorchMiniBatch]:
        algorithm, modules, batch = create(config, data)
        put(modules.policy, "policy", data)
        put(modules.value_func, "value", data)
        load_twins(modules, data)
        # d3rlpy's log standard deviation is a sigmoid between its bounds.
        share = (data["before/log_std"].astype(np.float64) + 5.0) / 7.0
        modules.policy._logstd.data.copy_(torch.from_numpy(np.log(share / (1.0 - share)))[None])
        return algorithm, modules, batch

    algorithm, modules, batch = begin()
    first = algorithm.impl.update_critic(batch)
    second = algorithm.impl.update_actor(batch)
    spread = modules.policy._logstd
    result = {
        "loss/value": np.array([first["v_loss"]]),
        "loss/policy": np.array([second["actor_loss"]]),
        **after(value=modules.value_func, policy=modules.policy),
        **slopes(modules.critic_optim, value=modules.value_func),
        **slopes(modules.actor_optim, policy=modules.policy),
        "slope/spread": modules.actor_optim.optim.state[spread]["exp_avg"][0].numpy(),
    }
    # Its update moves Q together with V, towards the old V. Here Q moves after V.
    algorithm, later, batch = begin()
    later.value_func.load_state_dict(modules.value_func.state_dict())
    result["loss/q"] = np.array([algorithm.impl.update_critic(batch)["q_loss"]])
    algorithm.impl.update_critic_target()
    return {**result, **after(**twins(later), **targets(later)), **slopes(later.critic_optim, **twins(later))}


def td3bc(settings: dict[str, Any], data: Arrays) -> Arrays:
    """Whole updates, counted from 1: d3rlpy itself would update the policy in the first, third, ..."""
    config = d3rlpy.algos.TD3PlusBCConfig(
        actor_learning_rate=settings["policy_learning_rate"],
        critic_learning_rate=settings["critic_learning_rate"],
        actor_encoder_factory=net(settings["policy_hidden"]),
        critic_encoder_factory=net(settings["critic_hidden"]),
        batch_size=settings["batch_size"],
        gamma=settings["discount"],
        tau=settings["target_rate"],
        target_smoothing_sigma=settings["target_noise"],
        target_smoothing_clip=settings["target_noise_clip"],
        alpha=settings["value_weight"],
        update_actor_interval=settings["policy_period"],
        **scalers(data, observations=settings["observation_scaling"]),
    )
    algorithm, modules, _ = create(config, data)
    put(modules.policy, "policy", data)
    put(modules.targ_policy, "target_policy", data)
    load_twins(modules, data)
    algorithm._grad_step = 1
    rows, losses = settings["batch_size"], []
    for k, noise in enumerate(data["noise/target"]):
        with drawing([noise]):
            losses.append(algorithm.update(minibatch(data, slice(k * rows, (k + 1) * rows))))
    return {
        "loss/critic": np.array([loss["critic_loss"] for loss in losses]),
        "loss/policy": np.array([loss.get("actor_loss", math.nan) for loss in losses]),
        **after(policy=modules.policy, target_policy=modules.targ_policy, **twins(modules), **targets(modules)),
        **slopes(modules.actor_optim, policy=modules.policy),
        **slopes(modules.critic_optim, **twins(modules)),
    }


def cql(settings: dict[str, Any], data: Arrays) -> Arrays:
    """One update of every part from the same networks, with the temperature moved first."""
    noise = {name: data[f"noise/{name}"] for name in ("policy", "target", "here", "next", "uniform")}
    weight = settings["penalty_weight"]
    uniform = noise["uniform"].swapaxes(0, 1).reshape(-1, noise["uniform"].shape[-1])
    drawn = [noise["here"], noise["next"]]
    if settings["entropy_in_target"]:
        drawn = [noise["target"], *drawn]

    def begin(factor_learning_rate: float, log_temperature: float) -> tuple[Any, Any, TorchMiniBatch]:
        config = d3rlpy.algos.CQLConfig(
            actor_learning_rate=settings["policy_learning_rate"],
            critic_learning_rate=settings["critic_learning_rate"],
            temp_learning_rate=settings["policy_learning_rate"],
            alpha_learning_rate=factor_learning_rate,
            actor_encoder_factory=net(settings["policy_hidden"]),
            critic_encoder_factory=net(settings["critic_hidden"]),
            batch_size=settings["batch_size"],
            gamma=settings["discount"],
            tau=settings["target_rate"],
            initial_temperature=math.exp(log_temperature),
            initial_alpha=math.exp(float(data["before/log_factor"])),
            # Its threshold is the penalty's, ours that of weight times penalty.
            alpha_threshold=settings["lagrange_threshold"] / weight,
            conservative_weight=weight,
            n_action_samples=settings["samples"],
            soft_q_backup=settings["entropy_in_target"],
            **scalers(data, observations=False),
        )
        algorithm, modules, batch = create(config, data)
        put(modules.policy, "policy", data)
        load_twins(modules, data)
        return algorithm, modules, batch

    def scalar(parameter: nn.Module, optimiser: Any) -> tuple[np.ndarray, np.ndarray]:
        """A learned number and Adam's mean gradient of it."""
        [number] = parameter.parameters()
        return number.detach().numpy().reshape(()), optimiser.optim.state[number]["exp_avg"].numpy().reshape(())

    # d3rlpy updates Q before the policy and the temperature. Here each part sees the old networks of the others.
    algorithm, modules, batch = begin(0.0, float(data["before/log_temperature"]))
    with drawing([noise["policy"]]):
        loss = algorithm.impl.update_actor(batch)
    temperature, temperature_slope = scalar(modules.log_temp, modules.temp_optim)
    result = {
        "loss/policy": np.array([loss["actor_loss"]]),
        **after(policy=modules.policy),
        **slopes(modules.actor_optim, policy=modules.policy),
        "after/log_temperature": temperature,
        "slope/log_temperature": temperature_slope,
    }
    algorithm, modules, batch = begin(0.0, float(temperature))
    with drawing(drawn, [uniform]):
        result["loss/critic"] = np.array([algorithm.impl.update_critic(batch)["critic_loss"]])
    algorithm.impl.update_critic_target()
    result |= after(**twins(modules), **targets(modules)) | slopes(modules.critic_optim, **twins(modules))
    if settings["lagrange_threshold"]:
        # It would use the factor it has just updated, so the factor is updated separately.
        algorithm, modules, batch = begin(settings["critic_learning_rate"], float(temperature))
        with drawing(drawn, [uniform]):
            algorithm.impl.update_critic(batch)
        result["after/log_factor"], result["slope/log_factor"] = scalar(modules.log_alpha, modules.alpha_optim)
    return result


class Squashed(nn.Module):
    """d3rlpy's decoder with its tanh, as in BCQ's original code; its own BCQ leaves it out."""

    def __init__(self, decoder: nn.Module):
        super().__init__()
        self.decoder = decoder

    def forward(self, x: torch.Tensor, latent: torch.Tensor) -> torch.Tensor:
        return self.decoder(x, latent, with_squash=False)  # the option does the opposite of its name


def bcq(settings: dict[str, Any], data: Arrays) -> Arrays:
    """Whole updates."""
    config = d3rlpy.algos.BCQConfig(
        actor_learning_rate=settings["learning_rate"],
        critic_learning_rate=settings["learning_rate"],
        imitator_learning_rate=settings["learning_rate"],
        actor_encoder_factory=net(settings["perturbation_hidden"]),
        critic_encoder_factory=net(settings["value_hidden"]),
        imitator_encoder_factory=net(settings["vae_hidden"]),
        batch_size=settings["batch_size"],
        gamma=settings["discount"],
        tau=settings["target_rate"],
        lam=settings["minimum_share"],
        n_action_samples=settings["target_candidates"],
        action_flexibility=settings["perturbation"],
        beta=settings["kl_weight"],
        **scalers(data, observations=False),
    )
    algorithm, modules, _ = create(config, data)
    modules = dataclasses.replace(modules, vae_decoder=Squashed(modules.vae_decoder))
    algorithm.impl._modules = modules
    put(modules.policy, "perturbation", data)
    put(modules.targ_policy, "target_perturbation", data)
    put(modules.vae_encoder, "encoder", data)
    put(modules.vae_decoder, "decoder", data)
    load_twins(modules, data)
    rows, losses = settings["batch_size"], []
    for k, latents in enumerate(data["noise/target"]):
        ordered = latents.swapaxes(0, 1).reshape(-1, latents.shape[-1])
        with drawing([data["noise/vae"][k], ordered, data["noise/perturbation"][k]]):
            losses.append(algorithm.update(minibatch(data, slice(k * rows, (k + 1) * rows))))
    vae = {"encoder": modules.vae_encoder, "decoder": modules.vae_decoder}
    moved = {"perturbation": modules.policy, "target_perturbation": modules.targ_policy}
    return {
        "loss/vae": np.array([loss["vae_loss"] for loss in losses]),
        "loss/value": np.array([loss["critic_loss"] for loss in losses]),
        "loss/perturbation": np.array([loss["actor_loss"] for loss in losses]),
        **after(**vae, **moved, **twins(modules), **targets(modules)),
        **slopes(modules.vae_optim, **vae),
        **slopes(modules.actor_optim, perturbation=modules.policy),
        **slopes(modules.critic_optim, **twins(modules)),
    }


UPDATES = {"iql": iql, "td3bc": td3bc, "cql": cql, "bcq": bcq}


def check(source: str, destination: str) -> None:
    torch.set_num_threads(1)
    with np.load(source) as archive:
        data = dict(archive)
    result = UPDATES[str(data["algorithm"])](json.loads(str(data["settings"])), data)
    np.savez(destination, version=d3rlpy.__version__, **result)


# -- timing ------------------------------------------------------------------------------------------

GIVEN = 64
"""Number of batches drawn beforehand for the times without sampling."""


class Worker:
    """d3rlpy's updates on random transitions, with and without its own sampling of batches."""

    def __init__(self, rows: int, observation: int, action: int, hidden: list[int], batch: int, samples: int):
        torch.set_num_threads(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
        random, algos = np.random.default_rng(0), d3rlpy.algos
        ends = np.arange(1, rows + 1) == rows
        self.buffer = d3rlpy.dataset.MDPDataset(
            random.normal(size=(rows, observation)).astype(np.float32),
            random.uniform(-1, 1, (rows, action)).astype(np.float32),
            random.normal(size=rows).astype(np.float32),
            ((random.random(rows) < 0.01) & ~ends).astype(np.float32),
            ends.astype(np.float32),
        )
        self.batch = batch
        self.given = [self.buffer.sample_transition_batch(batch) for _ in range(GIVEN)]
        critic: dict[str, Any] = {
            "actor_encoder_factory": net(hidden),
            "critic_encoder_factory": net(hidden),
            "batch_size": batch,
        }
        configs = {
            "iql": algos.IQLConfig(value_encoder_factory=net(hidden), **critic),
            "td3bc": algos.TD3PlusBCConfig(**critic),
            "cql": algos.CQLConfig(n_action_samples=samples, alpha_learning_rate=0.0, soft_q_backup=True, **critic),
            "bc": algos.BCConfig(encoder_factory=net(hidden), batch_size=batch),
        }
        self.algorithms = {}
        for name, config in configs.items():
            self.algorithms[name] = config.create(device="cpu:0")
            self.algorithms[name].build_with_dataset(self.buffer)
        self.updates = 0

    def time(self, what: str, seconds: float) -> float:
        """Seconds per update, over about `seconds`; "iql" samples batches as in `fit`, "iql given" does not."""
        name, _, given = what.partition(" ")
        algorithm = self.algorithms[name]
        begun, runs = time.perf_counter(), 0
        while (passed := time.perf_counter() - begun) < seconds or not runs:
            self.updates += 1
            algorithm.update(
                self.given[self.updates % GIVEN] if given else self.buffer.sample_transition_batch(self.batch)
            )
            runs += 1
        return passed / runs


def serve() -> None:
    """Answer calls, one JSON object a line: the first builds the worker, the others are its methods'."""
    answers, sys.stdout = sys.stdout, sys.stderr  # d3rlpy logs to standard output
    worker: Any = None
    for line in sys.stdin:
        method, arguments = json.loads(line)
        try:
            if method == "start":
                worker, answer = Worker(**arguments), None
            else:
                answer = getattr(worker, method)(*arguments)
        except Exception as error:
            print(json.dumps([False, repr(error)]), file=answers, flush=True)
            raise
        print(json.dumps([True, answer]), file=answers, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["check"]:
        check(*sys.argv[2:])
    else:
        serve()
