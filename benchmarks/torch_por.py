"""One POR update in PyTorch, eager or compiled: the reference of `bench.py`, checked there against Waypost's own.

The settings are the paper's: expectile V (3), weighted guide (6) and executor (7) in every update, observations
unscaled, actions within [-1, 1]. What these settings make trivial is left out (scaling by 1, masks of ones), and so
are metrics: it does slightly less work than Waypost.
"""

from __future__ import annotations

from copy import deepcopy
from itertools import pairwise
from math import log, pi
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from waypost.agents.nets import FEW
from waypost.agents.por import Config


def mlp(sizes: tuple[int, ...]) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Twin(nn.Module):
    """Two V networks; calling gives both, (2, rows)."""

    def __init__(self, sizes: tuple[int, ...]):
        super().__init__()
        self.first, self.second = mlp(sizes), mlp(sizes)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([self.first(x).squeeze(-1), self.second(x).squeeze(-1)])

    def least(self, x: Tensor) -> Tensor:
        return torch.minimum(self.first(x), self.second(x)).squeeze(-1)


class Gaussian(nn.Module):
    """Diagonal Gaussian with one learned standard deviation per output."""

    def __init__(self, sizes: tuple[int, ...]):
        super().__init__()
        self.mean = mlp(sizes)
        self.log_std = nn.Parameter(torch.zeros(sizes[-1]))

    def log_likelihood(self, x: Tensor, y: Tensor) -> Tensor:
        log_std = self.log_std.clamp(-5.0, 2.0)
        z = (y - self.mean(x)) * torch.exp(-log_std)
        return -(0.5 * z**2 + log_std + 0.5 * log(2 * pi)).sum(-1)


class TorchPOR:
    """Networks, optimisers and data of one training run."""

    def __init__(
        self, config: Config, columns: dict[str, np.ndarray], steps: int, fused: bool = False, compiled: bool = False
    ):
        """`fused` uses Adam's fused form, `compiled` passes all but Adam through `torch.compile`."""
        self.config = config
        if compiled:
            for name in ("_targets", "_value_loss", "_weights", "_guide_loss", "_executor_loss", "_move_target"):
                setattr(self, name, torch.compile(getattr(self, name)))
        self.columns = {name: torch.from_numpy(np.array(column)) for name, column in columns.items()}
        self.rows = len(columns["rewards"])
        size, actions = columns["observations"].shape[1], columns["actions"].shape[1]
        self.value = Twin((size, *config.value_hidden, 1))
        self.target = deepcopy(self.value).requires_grad_(False)
        self.guide = Gaussian((size, *config.guide_hidden, size))
        self.executor = Gaussian((2 * size, *config.executor_hidden, actions))
        rates = {
            "value": config.value_learning_rate,
            "guide": config.guide_learning_rate,
            "executor": config.executor_learning_rate,
        }
        self.optimisers = {
            part: torch.optim.Adam(getattr(self, part).parameters(), lr=rate, fused=fused or None)
            for part, rate in rates.items()
        }
        self.schedulers = [
            torch.optim.lr_scheduler.CosineAnnealingLR(self.optimisers[part], steps) for part in ("guide", "executor")
        ]

    def advance(self) -> None:
        """One update on a random batch."""
        rows = torch.randint(self.rows, (self.config.batch_size,))
        self.update({name: column[rows] for name, column in self.columns.items()})

    def update(self, batch: dict[str, Tensor]) -> None:
        observations, goals = batch["observations"], batch["next_observations"]
        with torch.no_grad():
            targets = self._targets(batch["rewards"], batch["discounts"], goals)
        self._step("value", self._value_loss(observations, targets))
        with torch.no_grad():
            weights = self._weights(observations, targets)
        self._step("guide", self._guide_loss(observations, goals, weights))
        self._step("executor", self._executor_loss(observations, goals, batch["actions"]))
        for scheduler in self.schedulers:
            scheduler.step()
        with torch.no_grad():
            self._move_target()

    def _targets(self, rewards: Tensor, discounts: Tensor, following: Tensor) -> Tensor:
        return rewards + discounts * self.target.least(following)

    def _value_loss(self, observations: Tensor, targets: Tensor) -> Tensor:
        residuals, tau = targets - self.value(observations), self.config.tau
        return (torch.where(residuals < 0, 1.0 - tau, tau) * residuals**2).mean()

    def _weights(self, observations: Tensor, targets: Tensor) -> Tensor:
        residuals = targets - self.value.least(observations)
        return torch.exp((self.config.inverse_temperature * residuals).clamp(max=log(self.config.weight_cap)))

    def _guide_loss(self, observations: Tensor, goals: Tensor, weights: Tensor) -> Tensor:
        return -(weights * self.guide.log_likelihood(observations, goals)).mean()

    def _executor_loss(self, observations: Tensor, goals: Tensor, actions: Tensor) -> Tensor:
        return -self.executor.log_likelihood(torch.cat([observations, goals], dim=-1), actions).mean()

    def _move_target(self) -> None:
        for old, new in zip(self.target.parameters(), self.value.parameters(), strict=True):
            old.lerp_(new, self.config.target_rate)

    def _step(self, part: str, loss: Tensor) -> None:
        optimiser = self.optimisers[part]
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()

    # -- comparison with Waypost ---------------------------------------------------------------

    def load(self, state: dict[str, Any]) -> None:
        """Load networks, Adam's moments and the schedules' steps from a Waypost state, see `bench.exported`."""
        for part in ("value", "target", "guide", "executor"):
            for parameter, values in zip(_leaves(getattr(self, part)), state[part], strict=True):
                parameter.data.copy_(_copied(values, parameter))
        for part, optimiser in self.optimisers.items():
            moments = zip(state[f"{part} mu"], state[f"{part} nu"], strict=True)
            for parameter, (mu, nu) in zip(_leaves(getattr(self, part)), moments, strict=True):
                optimiser.state[parameter] = {
                    "step": torch.tensor(float(state["step"])),
                    "exp_avg": _copied(mu, parameter),
                    "exp_avg_sq": _copied(nu, parameter),
                }
        for scheduler in self.schedulers:
            scheduler.last_epoch = state["step"]
            for group, rate in zip(scheduler.optimizer.param_groups, scheduler._get_closed_form_lr(), strict=True):
                group["lr"] = rate

    def differences(self, state: dict[str, Any]) -> dict[str, float]:
        """The largest difference to a Waypost state among the parameters of each network."""
        return {
            part: max(
                float((parameter.detach() - _copied(values, parameter)).abs().max())
                for parameter, values in zip(_leaves(getattr(self, part)), state[part], strict=True)
            )
            for part in ("value", "target", "guide", "executor")
        }


def _leaves(module: nn.Module) -> list[nn.Parameter]:
    """The parameters in Waypost's order: a Gaussian's standard deviation comes last."""
    named = dict(module.named_parameters())
    return [named[name] for name in sorted(named, key=lambda name: name == "log_std")]


def _copied(values: np.ndarray, parameter: Tensor) -> Tensor:
    """PyTorch stores weights as (outputs, inputs), Waypost only if there are few outputs."""
    turn = parameter.ndim == 2 and parameter.shape[0] > FEW
    # In memory order too: the fused Adam assumes the same layout of parameters and moments.
    return torch.from_numpy((values.T if turn else values).copy(order="C"))
