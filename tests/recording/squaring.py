"""Work for other processes, in a module that is quick to import."""

from __future__ import annotations

import os
import time

import numpy as np

from waypost.errors import WaypostError


def square(number: int, seconds: float = 0.0) -> dict[str, np.ndarray]:
    print("this must not come between the answers")
    if number == 13:
        raise WaypostError("13 is not a number to square")
    if number == 99:
        os._exit(3)
    time.sleep(seconds)
    return {"square": np.array([number**2]), "process": np.array([os.getpid()])}
