"""The heated tank run by an exported policy: nothing is needed here but onnxruntime and NumPy.

    python examples/tank/act.py tank.onnx

A service asks the policy for every row, here of a simulated tank; a real one would read sensors and set the valve.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import onnxruntime
from tank import OBSERVATIONS, Mediocre, true_return

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
columns = json.loads(session.get_modelmeta().custom_metadata_map["columns"])
order = [OBSERVATIONS.index(name) for name in columns]


def act(observations: np.ndarray) -> np.ndarray:
    """Valve and heater in percent, for sensor readings in the units of the log."""
    return session.run(["action"], {"observation": observations[:, order].astype(np.float32)})[0]


print(f"level 900 mm, 40 degrees: valve and heater {act(np.array([[900.0, 40.0, 15.0, 1.22e5]]))[0].round()} %")
for name, controller in (("log", Mediocre(100, np.random.default_rng(1))), ("policy", act)):
    earned, trips = true_return(controller)
    print(f"{name}: return {earned:.0f}, {trips} trips in 100 batches")
