"""How fast Waypost is on this machine: `python benchmarks/bench.py [--quick]`. README.md explains the figures.

The sides of a comparison are worker processes that work one at a time, when called over a pipe. In one process the
thread pools of XLA and PyTorch would interfere, and JAX can be started with only one number of CPU devices. The sides
take turns in short rounds, forwards and backwards, so that other load on the machine affects all of them equally. If
other processes leave calm moments, the rounds wait for them.

The last line of standard output is one JSON object with the headline figures.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import against_d3rlpy
import numpy as np
from measuring import CORES, Bench, Figures, Remote, Worker, timed
from rich.console import Console
from rich.progress import Progress

ROWS = 100_000
STEPS = 1_000_000
"""Length of the learning-rate schedules."""
TOLERANCE = 1e-5
"""Largest allowed difference of parameters after the same update by Waypost and by PyTorch."""
SIZES = {
    "paper": {"observation": 11, "action": 3, "value": (256, 256), "guide": (256, 256), "executor": (1024, 1024)},
    "small": {"observation": 2, "action": 2, "value": (64, 64), "guide": (64, 64), "executor": (64, 64)},
}
CHUNKS = {"paper": 50, "small": 500}
"""Updates per call of `Learner.advance`: enough to make the cost of the call negligible."""
BATCH = 256
LEARNERS = {
    "one": ("paper", 1, None),
    "five": ("paper", 5, None),
    "vmap": ("paper", 5, 5),
    "one small": ("small", 1, None),
    "five small": ("small", 5, None),
    "vmap small": ("small", 5, 5),
}
"""Size, seeds and seeds per lane."""
EPISODES, EVALUATION_SEED = 10, 12_345


# -- what both sides learn ---------------------------------------------------------------------------


def problem(size: str) -> tuple[Any, dict[str, np.ndarray], Any]:
    """Settings, columns and spec of POR on random transitions."""
    from waypost.agents.por import POR, Config
    from waypost.data.dataset import Dataset

    sizes, rng = SIZES[size], np.random.default_rng(0)
    shape, actions = (ROWS, sizes["observation"]), (ROWS, sizes["action"])
    dataset = Dataset.from_arrays(
        rng.normal(size=shape).astype(np.float32),
        rng.normal(size=shape).astype(np.float32),
        actions=rng.uniform(-1, 1, actions).astype(np.float32),
        rewards=rng.normal(size=ROWS).astype(np.float32),
        terminals=rng.random(ROWS) < 0.01,
        action_low=-np.ones(sizes["action"], np.float32),
        action_high=np.ones(sizes["action"], np.float32),
    )
    config = Config(value_hidden=sizes["value"], guide_hidden=sizes["guide"], executor_hidden=sizes["executor"])
    columns, spec = POR.prepare(config, dataset)
    return config, columns, spec


def build(size: str, seeds: int, seeds_per_lane: int | None) -> Any:
    """A learner, already compiled."""
    from waypost.agents.por import POR
    from waypost.training.loop import Learner

    config, columns, spec = problem(size)
    learner = Learner(POR(config, spec, STEPS), columns, range(seeds), seeds_per_lane=seeds_per_lane)
    learner.advance(learner.algorithm.stages[0], CHUNKS[size])
    return learner


def networks(size: str) -> list[tuple[tuple[int, ...], int]]:
    """Layer sizes of each trained network, and its number of extra forward passes: one each for V' and V."""
    sizes = SIZES[size]
    value = (sizes["observation"], *sizes["value"], 1)
    guide = (sizes["observation"], *sizes["guide"], sizes["observation"])
    executor = (2 * sizes["observation"], *sizes["executor"], sizes["action"])
    return [(value, 2), (value, 2), (guide, 0), (executor, 0)]


def flops(size: str, batch: int) -> int:
    """Floating-point operations of the matrix multiplications in one update, two per multiply-add."""
    total = 0
    for layers, forwards in networks(size):
        each = [i * o for i, o in pairwise(layers)]
        # Forward and gradient of the weights in every layer, gradient of the inputs in all but the first.
        total += (2 + forwards) * sum(each) + sum(each[1:])
    return 2 * batch * total


# -- the workers -------------------------------------------------------------------------------------


class TorchWorker:
    """The update in PyTorch: eager, with the fused Adam, and with both that and `torch.compile`."""

    def __init__(self, threads: int = CORES) -> None:
        import torch
        from torch_por import TorchPOR

        torch.set_num_threads(threads)
        config, columns, _ = problem("paper")
        used = {name: column for name, column in columns.items() if name not in ("known", "aimed")}  # all ones
        self.ways = {
            "plain": TorchPOR(config, used, STEPS),
            "fused": TorchPOR(config, used, STEPS, fused=True),
            "compiled": TorchPOR(config, used, STEPS, fused=True, compiled=True),
        }

    def check(self, before: dict[str, Any], batch: dict[str, np.ndarray], after: dict[str, Any]) -> float:
        """The largest difference between parameters after the same update from the same state."""
        import torch

        worst = 0.0
        for por in self.ways.values():
            por.load(before)
            por.update({name: torch.from_numpy(np.array(batch[name])) for name in por.columns})
            worst = max(worst, *por.differences(after).values())
        return worst

    def time(self, what: str, seconds: float) -> float:
        """Seconds per update."""
        return timed(self.ways[what].advance, seconds)


class LearnerWorker:
    """Waypost's own training loop."""

    def __init__(self, *names: str) -> None:
        """Build these learners. They must be the first to use JAX, because they set the number of devices."""
        self.learners = {name: build(*LEARNERS[name]) for name in names}
        self.multiplications = multiplications("paper", CHUNKS["paper"], BATCH)

    def time(self, what: str, seconds: float) -> float:
        """Seconds per update of all seeds of that learner."""
        if what == "matmul":
            return timed(self.multiplications, seconds) / CHUNKS["paper"]
        learner, steps = self.learners[what], CHUNKS[LEARNERS[what][0]]
        return timed(partial(learner.advance, learner.algorithm.stages[0], steps), seconds) / steps

    def update_once(self) -> tuple[dict[str, Any], dict[str, np.ndarray], dict[str, Any]]:
        """A state after a few updates, a batch, and the state after one more update on that batch."""
        import jax

        learner = self.learners["one"]
        algorithm, lane = learner.algorithm, learner.lanes[0]
        stage = algorithm.stages[0]
        rows = np.random.default_rng(1).integers(ROWS, size=BATCH)
        batch = {name: np.asarray(column)[rows] for name, column in lane.columns.items()}
        if not (batch["known"].all() and batch["aimed"].all()):
            raise AssertionError("the PyTorch update has no masks: every row must count")
        after, _ = jax.jit(algorithm.update, static_argnums=0)(stage, lane.state, batch, jax.random.key(0))
        return exported(lane.state), batch, exported(after)


def exported(state: Any) -> dict[str, Any]:
    """The arrays of a POR state that PyTorch needs to continue from it, in the order of the networks' leaves."""
    import jax
    import optax

    def arrays(tree: Any) -> list[np.ndarray]:
        return [np.array(leaf) for leaf in jax.tree.leaves(tree)]

    agent = state.agent
    nets = {"value": agent.value_part.net, "guide": agent.guide_part.net, "executor": agent.executor.net}
    parts = {"target": arrays(state.target)}
    for part, net in nets.items():
        parts[part] = arrays(net)
        for moment in ("mu", "nu"):
            [(_, tree)] = optax.tree_utils.tree_get_all_with_path(state.optimisers[part], moment)
            parts[f"{part} {moment}"] = arrays(tree)
    [(_, step), *_] = optax.tree_utils.tree_get_all_with_path(state.optimisers["value"], "count")
    return {**parts, "step": int(step)}


def multiplications(size: str, updates: int, batch: int) -> Callable[[], Any]:
    """Only the matrix multiplications of that many updates, as one compiled scan.

    The inputs change sign each time, so that nothing can be moved out of the loop. Every product that feeds no other is
    carried to the end, so that nothing can be left out. The only other work is a negation of (batch, inputs) numbers.
    """
    import jax
    import jax.numpy as jnp

    from waypost.agents.nets import FEW

    rng = np.random.default_rng(0)

    def weights(layers: tuple[int, ...]) -> list[Any]:
        return [jnp.asarray(rng.normal(0, i**-0.5, (i, o)), jnp.float32) for i, o in pairwise(layers)]

    learning = [weights(layers) for layers, _ in networks(size)]
    running = [weights(layers) for layers, forwards in networks(size) for _ in range(forwards)]
    inputs = {layers[0]: jnp.asarray(rng.normal(size=(batch, layers[0])), jnp.float32) for layers, _ in networks(size)}

    def forward(x: Any, net: list[Any]) -> list[Any]:
        activations = [x]
        for weight in net:
            activations.append(activations[-1] @ weight)
        return activations

    def products(inputs: Any, learning: Any, running: Any) -> Any:
        results = [forward(inputs[net[0].shape[0]], net)[-1] for net in running]
        for net in learning:
            *activations, error = forward(inputs[net[0].shape[0]], net)
            for layer in reversed(range(len(net))):
                few = error.shape[1] <= FEW
                results.append(error.T @ activations[layer] if few else activations[layer].T @ error)
                if layer:
                    error = error @ net[layer].T
        return results

    @jax.jit
    def run(inputs: Any, learning: Any, running: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            inputs, _ = carry
            return (jax.tree.map(jnp.negative, inputs), products(inputs, learning, running)), None

        empty = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), jax.eval_shape(products, inputs, learning, running))
        return jax.lax.scan(step, (inputs, empty), length=updates)[0]

    return lambda: jax.block_until_ready(run(inputs, learning, running))


class OthersWorker:
    """The training loop with the other algorithms."""

    def __init__(self) -> None:
        self.learners = {name: against_d3rlpy.learner(name) for name in against_d3rlpy.CHUNKS}

    def time(self, what: str, seconds: float) -> float:
        """Seconds per update."""
        learner, steps = self.learners[what], against_d3rlpy.CHUNKS[what]
        return timed(partial(learner.advance, learner.algorithm.stages[0], steps), seconds) / steps


class EvaluationWorker:
    """An agent in the four rooms, evaluated in two ways. It is untrained: every episode runs to the time limit."""

    def __init__(self) -> None:
        import jax

        from waypost.agents.por import POR, Config
        from waypost.envs.tasks import TASKS
        from waypost.recording.four_rooms import record

        self.task = TASKS["four-rooms"]
        config = Config(**{f"{part}_hidden": SIZES["small"][part] for part in ("value", "guide", "executor")})
        self.agent = agent = POR.build(config, POR.prepare(config, record(transitions=1_000))[1])
        # The weights as constants: the fastest call a script can make.
        self.act = jax.jit(lambda observations: agent.act(observations)[0])

    def together(self, paths: bool = False) -> Any:
        from waypost.training.evaluation import rollouts

        return rollouts([self.agent], self.task, EPISODES, EVALUATION_SEED, paths, environments=EPISODES)

    def one_by_one(self) -> tuple[list[float], list[int], list[np.ndarray]]:
        """Returns, lengths and last observations."""
        import gymnasium as gym

        env = gym.make(self.task.env_id)
        returns, lengths, last = [0.0] * EPISODES, [0] * EPISODES, []
        for j in range(EPISODES):
            observation, _ = env.reset(seed=EVALUATION_SEED + j)
            over = False
            while not over:
                action = np.asarray(self.act(observation[None]))[0]
                observation, reward, terminated, truncated, _ = env.step(action)
                returns[j] += float(reward)
                lengths[j] += 1
                over = terminated or truncated
            last.append(observation)
        env.close()
        return returns, lengths, last

    def check(self) -> int:
        """The number of steps, after checking that both ways end every episode alike."""
        episodes, (returns, lengths, last) = self.together(paths=True), self.one_by_one()
        if episodes.returns[0].tolist() != returns or episodes.lengths[0].tolist() != lengths:
            raise AssertionError("episodes together and one by one have different returns or lengths")
        if not np.allclose([path[-1] for path in episodes.paths[0]], last, rtol=0, atol=1e-3):
            raise AssertionError("episodes together and one by one end at different places")
        return sum(lengths)

    def time(self, what: str, seconds: float) -> float:
        """Seconds per evaluation."""
        return timed({"together": self.together, "one by one": self.one_by_one}[what], seconds)


def workers(quick: bool) -> dict[str, Worker]:
    """All workers, built and asleep."""
    passive = {"OMP_WAIT_POLICY": "PASSIVE"}
    one_device = {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=1"}
    started: dict[str, Worker] = {
        "waypost": Remote(LearnerWorker, *(("one", "five") if quick else LEARNERS)),
        "torch": Remote(TorchWorker),
        "torch, sleeping": Remote(TorchWorker, environment=passive),
        "evaluation": Remote(EvaluationWorker),
        "waypost, others": Remote(OthersWorker),
        "d3rlpy": against_d3rlpy.Foreign(),
        "d3rlpy, sleeping": against_d3rlpy.Foreign(passive),
    }
    if not quick:
        started |= {
            "waypost, one device": Remote(LearnerWorker, "one", environment=one_device),
            "waypost, one core": Remote(LearnerWorker, "one", cores=1),
            "torch, one core": Remote(TorchWorker, 1, cores=1),
        }
    for worker in started.values():
        worker.answer()
    return started


# -- the figures -------------------------------------------------------------------------------------


def por_update(bench: Bench, figures: Figures, quick: bool) -> dict[str, float]:
    """Waypost's update against eager PyTorch and against its bare matrix multiplications."""
    waypost, torch, sleeping = (bench.workers[name] for name in ("waypost", "torch", "torch, sleeping"))
    worst = torch.call("check", *waypost.call("update_once"))
    if not worst < TOLERANCE:
        raise AssertionError(f"PyTorch's update and Waypost's differ by {worst:.1e}: the updates are not equal")
    sides = {
        "torch": (torch, "plain"),
        "waypost": (waypost, "one"),
        "matmul": (waypost, "matmul"),
        "sleeping": (sleeping, "plain"),
    }
    times = bench.times("POR update", sides)
    # Spinning threads are best on a free machine and very slow on a busy one: PyTorch's better result counts.
    best = min("torch", "sleeping", key=lambda name: np.median(times[name]))
    figures.number("agreement", f"{worst:.1e}", "largest difference of a parameter after the same update")
    figures.time("PyTorch", times["torch"], "an update, libraries with their defaults")
    figures.time("PyTorch, sleeping", times["sleeping"], "the same with OMP_WAIT_POLICY=PASSIVE")
    figures.time("Waypost", times["waypost"], "an update inside Learner.advance")
    results = {
        "por_vs_torch": figures.ratio("por_vs_torch", times, best, "waypost", "the better PyTorch over Waypost", True)
    }
    if not quick:
        more = {
            "fused": (sides[best][0], "fused"),
            "compiled": (sides[best][0], "compiled"),
            "waypost": (waypost, "one"),
            "torch, one core": (bench.workers["torch, one core"], "plain"),
            "waypost, one core": (bench.workers["waypost, one core"], "one"),
        }
        extra = bench.times("POR update, other ways", more)
        figures.ratio("... fused", extra, "fused", "waypost", "the same with torch.optim.Adam(fused=True)")
        results["por_vs_torch_compile"] = figures.ratio(
            "por_vs_torch_compile", extra, "compiled", "waypost", "the same, and torch.compile", True
        )
        figures.ratio("... on one core", extra, "torch, one core", "waypost, one core", "both bound to one core")
    figures.line()
    work = flops("paper", BATCH)
    figures.number("work", f"{work / 1e9:.3f} GFLOP", "matrix multiplications of an update, two per multiply-add")
    figures.time("bare multiplications", times["matmul"], "these alone")
    figures.speed("limit", work, times["matmul"], "speed of the bare multiplications")
    figures.speed("attained", work, times["waypost"], "the same work in the time of the whole update")
    name = "matmul_limit_share"
    results[name] = figures.ratio(name, times, "matmul", "waypost", "attained over limit", True)
    figures.line()
    return results


def five_seeds(bench: Bench, figures: Figures, quick: bool) -> dict[str, float]:
    """Five seeds at once against one seed."""
    worker, costs = bench.workers["waypost"], {}
    for size, suffix in (("paper", ""), ("small", "_small"))[: 1 if quick else 2]:
        names = ("one", "five") if quick else ("one", "five", "vmap")
        sides = {name: (worker, name + suffix.replace("_", " ")) for name in names}
        if not quick and size == "paper":
            sides["alone"] = (bench.workers["waypost, one device"], "one")
        times = bench.times(f"five seeds, {size} size", sides)
        figures.time(f"one seed, {size}", times["one"], "an update")
        figures.time(f"five seeds, {size}", times["five"], "an update of each")
        name = f"five_seeds_cost{suffix}"
        costs[name] = figures.ratio(name, times, "five", "one", "five seeds over one", size == "paper")
        if "vmap" in sides:
            figures.ratio("... under one vmap", times, "vmap", "one", "the same with seeds_per_lane=5")
        if "alone" in sides:
            figures.ratio("... one seed's loss", times, "one", "alone", "one seed: a device per core over one device")
        figures.line()
    return {"five_seeds_cost": costs["five_seeds_cost"]}


def evaluation(bench: Bench, figures: Figures, quick: bool) -> dict[str, float]:
    """Ten episodes together against one by one."""
    worker = bench.workers["evaluation"]
    steps = worker.call("check")
    times = bench.times("evaluation", {name: (worker, name) for name in ("together", "one by one")})
    figures.number("episodes", f"{EPISODES}", f"{steps} steps in all, with the same ends both ways")
    figures.time("one by one", times["one by one"], "one environment, one compiled call per step")
    figures.time("together", times["together"], "rollouts, ten environments at once")
    name = "vector_evaluation_speedup"
    return {name: figures.ratio(name, times, "one by one", "together", "one by one over together", True)}


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure Waypost on this machine; see benchmarks/README.md.")
    parser.add_argument("--quick", action="store_true", help="the headline figures only, less exact")
    parser.add_argument(
        "--patience", type=float, metavar="S", help="how long each measurement waits for a calm machine"
    )
    arguments = parser.parse_args()
    quick, patience = arguments.quick, arguments.patience
    if find_spec("torch") is None:
        print("error: PyTorch, which Waypost is compared with, is missing: pip install torch==2.13.0", file=sys.stderr)
        return 2
    if missing := against_d3rlpy.missing():
        print(f"error: {missing}", file=sys.stderr)
        return 2
    figures, results = Figures(), {}
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("starting and compiling", total=None)
        patience = (2.0 if quick else 20.0) if patience is None else patience
        bench = Bench(workers(quick), *((4, 0.1) if quick else (10, 0.5)), patience, progress)
        progress.update(task, total=1, completed=1)
        for part in (por_update, against_d3rlpy.updates, five_seeds, evaluation):
            results |= part(bench, figures, quick)
    figures.line()
    figures.finish(bench, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
