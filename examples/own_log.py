"""From your own log to a policy: a CSV with any column names, no simulator.

    python examples/own_log.py            # about a minute
    python examples/own_log.py --quick    # seconds

The log is of a cart that a careless driver pushes back and forth. It should stay near 0 without hard pushes.
"""

import sys
from pathlib import Path

import numpy as np

import waypost

rng = np.random.default_rng(0)
lines = ["trip,position,speed,push,gain"]
for trip in range(200):
    position, speed = rng.uniform(-1, 1, 2)
    for _ in range(50):
        push = float(np.clip(rng.normal(-0.5 * position - 0.2 * speed, 0.5), -1, 1))
        gain = -(position**2) - 0.1 * push**2
        lines.append(f"{trip},{position:.4f},{speed:.4f},{push:.4f},{gain:.4f}")
        position, speed = position + 0.1 * speed, speed + 0.3 * push
Path("cart.csv").write_text("\n".join(lines) + "\n")

columns = waypost.Columns(observations=("position", "speed"), actions=("push",), rewards="gain", episode="trip")
data = waypost.load("cart.csv", columns)
print(waypost.inspect(data).verdict)

quick = {"steps": 200, "hidden": (32,)} if "--quick" in sys.argv else {"steps": 5_000}
run = waypost.train("iql", data, **quick)
for position, speed in ((1.0, 0.0), (0.0, 0.0), (-1.0, 0.0)):
    print(f"at {position:+.0f}, standing still: push {run.policy.act([position, speed])[0]:+.2f}")
