"""A new task without new data: V and guide are trained again for another reward, the executor stays.

python examples/new_task.py            # a few minutes
python examples/new_task.py --quick    # seconds: too short to learn either task
"""

import sys

import numpy as np

import waypost

steps = 200 if "--quick" in sys.argv else 20_000


def to_the_upper_left(observations: np.ndarray, actions: np.ndarray | None, arrived: np.ndarray) -> waypost.Labels:
    """Reward 1 and the end of the task in the corner around (2, 16)."""
    there = np.abs(arrived - np.array([2.0, 16.0])).max(axis=1) <= 1.0
    return waypost.Labels(there.astype(np.float32), there)


waypost.train("por", "four-rooms", steps=steps, out="runs/four-rooms")
adapted = waypost.adapt("runs/four-rooms", reward=to_the_upper_left, rewards="goal", steps=steps, out="runs/corner")
print(adapted.words())

start = [2.0, 2.0]
print("old way", waypost.load_run("runs/four-rooms").policy.guide(start))
print("new way", adapted.run.policy.guide(start))
