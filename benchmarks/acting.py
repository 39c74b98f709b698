"""How long an action takes: `python benchmarks/acting.py`. README.md explains the figures.

The same policy in JAX, onnxruntime and NumPy, for one observation and for 256; the time from a cold start to the first
action; and a bounded number of requests to `waypost serve` on this machine.

The last line of standard output is one JSON object with the headline figures.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Bench, Figures, Remote, timed
from rich.console import Console
from rich.progress import Progress

COLUMNS, ACTIONS = 11, 3
BATCHES = (1, 256)
ONE = "[[" + ", ".join(["0.1"] * COLUMNS) + "]]"
COLD = {
    "jax": f"import waypost; waypost.Policy.load('run').act({ONE})",
    "onnxruntime": "import numpy, onnxruntime; onnxruntime.InferenceSession('policy.onnx', "
    f"providers=['CPUExecutionProvider']).run(['action'], {{'observation': numpy.array({ONE}, 'f')}})",
    "numpy": f"from policy import Policy; Policy().act({ONE})",
}
"""From a cold start to the first action, as a user would write it; run in the folder of the files."""


def prepare(folder: Path) -> None:
    """A run directory with POR of the paper's size, untrained, and both exported files."""
    import waypost
    from waypost.agents.por import POR, Config
    from waypost.files import write_json
    from waypost.training.plan import plan

    rng = np.random.default_rng(0)
    data = waypost.Dataset.from_arrays(
        rng.normal(size=(20_000, COLUMNS)), None, rng.uniform(-1, 1, (20_000, ACTIONS)), rng.normal(size=20_000)
    )
    waypost.save(data, folder / "log.npz")
    _, spec = POR.prepare(Config(), data)
    policy = waypost.Policy("por", Config(), spec, POR.build(Config(), spec))
    write_json(folder / "run" / "config.json", plan("por", folder / "log.npz", preset="none").to_json())
    policy.save(folder / "run" / "policy")
    for name in ("policy.onnx", "policy.npz"):
        waypost.export(folder / "run", folder / name)


class Actor:
    """One way to act, in its own process."""

    def __init__(self, kind: str, folder: str):
        self.batches = {str(n): np.random.default_rng(n).normal(size=(n, COLUMNS)).astype(np.float32) for n in BATCHES}
        self.act = getattr(self, f"_{kind}")(Path(folder))

    def _jax(self, folder: Path) -> Any:
        import waypost

        return waypost.Policy.load(folder / "run").act

    def _onnxruntime(self, folder: Path) -> Any:
        import onnxruntime

        session = onnxruntime.InferenceSession(folder / "policy.onnx", providers=["CPUExecutionProvider"])
        return lambda rows: session.run(["action"], {"observation": rows})

    def _numpy(self, folder: Path) -> Any:
        sys.path.insert(0, str(folder))
        from policy import Policy  # type: ignore[import-not-found]

        return Policy(folder / "policy.npz").act

    def time(self, what: str, seconds: float) -> float:
        return timed(lambda: self.act(self.batches[what]), seconds)


def latency(bench: Bench, figures: Figures) -> dict[str, float]:
    results = {}
    for size in BATCHES:
        rows = f"batch {size}"
        times = bench.times(f"acting, {rows}", {name: (worker, str(size)) for name, worker in bench.workers.items()})
        for name, seconds in times.items():
            said = "; it also computes waypoint and value" if name == "numpy" else ""
            figures.time(f"{name}, {rows}", seconds, f"one call for {size} observations{said}")
            results[f"{name}_{size}_ms"] = float(np.median(seconds) * 1e3)
        figures.ratio(f"jax over onnxruntime, {rows}", times, "jax", "onnxruntime", "", headline=True)
        figures.ratio(f"jax over numpy, {rows}", times, "jax", "numpy", "")
        figures.line()
    return results


def cold(folder: Path, figures: Figures, rounds: int) -> dict[str, float]:
    """From the start of a process to its first action."""
    results = {}
    for name, code in COLD.items():
        seconds = []
        for _ in range(rounds + 1):
            begun = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
            seconds.append(time.perf_counter() - begun)
        figures.time(f"{name}, first action", np.array(seconds[1:]), "from the start of a process")
        results[f"{name}_first_s"] = float(np.median(seconds[1:]))
    figures.line()
    return results


def load_test(folder: Path, figures: Figures, requests: int, clients: int) -> dict[str, float]:
    """Send requests of one observation each from several clients at once, to this machine only."""
    command = [sys.executable, "-m", "waypost", "serve", str(folder / "run"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip().removeprefix("http://")
            times: list[float] = []
            statuses: list[int] = []

            def client(count: int) -> None:
                connection = HTTPConnection(address, timeout=30)
                for _ in range(count):
                    begun = time.perf_counter()
                    connection.request("POST", "/act", f'{{"observation": {ONE}}}')
                    answer = connection.getresponse()
                    answer.read()
                    times.append(time.perf_counter() - begun)
                    statuses.append(answer.status)
                connection.close()

            client(50)
            times.clear()
            statuses.clear()
            threads = [threading.Thread(target=client, args=(requests // clients,)) for _ in range(clients)]
            begun = time.perf_counter()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            passed = time.perf_counter() - begun
        finally:
            server.terminate()
    assert len(statuses) == requests // clients * clients
    assert set(statuses) == {200}
    middle, late = np.percentile(times, (50, 99))
    figures.number("serve, p50", f"{middle * 1e3:.2f} ms", f"{requests} requests by {clients} clients of this machine")
    figures.number("serve, p99", f"{late * 1e3:.2f} ms", "")
    figures.number("serve, throughput", f"{requests / passed:.0f} /s", "server and clients share the cores")
    return {
        "serve_p50_ms": float(middle * 1e3),
        "serve_p99_ms": float(late * 1e3),
        "serve_per_second": requests / passed,
    }


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--seconds", type=float, default=0.3, help="of a turn")
    options.add_argument("--patience", type=float, default=20.0, help="seconds to wait for a calm machine")
    options.add_argument("--requests", type=int, default=2000)
    options.add_argument("--clients", type=int, default=4)
    arguments = options.parse_args()
    figures = Figures()
    with tempfile.TemporaryDirectory() as place, Progress(console=Console(stderr=True)) as progress:
        folder = Path(place)
        prepare(folder)
        workers = {name: Remote(Actor, name, place) for name in COLD}
        for worker in workers.values():
            worker.answer()
        bench = Bench({**workers}, arguments.rounds, arguments.seconds, arguments.patience, progress)
        results = latency(bench, figures)
        for worker in workers.values():
            worker.process.kill()
            worker.process.join()
        results |= cold(folder, figures, rounds=3)
        results |= load_test(folder, figures, arguments.requests, arguments.clients)
    figures.line()
    figures.finish(bench, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
