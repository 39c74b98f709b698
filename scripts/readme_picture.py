"""Draw the README's picture from a finished four-rooms run: python scripts/readme_picture.py runs/demo OUT.png"""

import io
import sys
from pathlib import Path

import matplotlib.image
import numpy as np

import waypost
from waypost.figures import maps, to_png
from waypost.report.run import worlds

run, out = waypost.load_run(sys.argv[1]), Path(sys.argv[2])
(_, world), *_ = worlds(run.policy, waypost.task("four-rooms"), run.plan.evaluation)
pictures = []
for draw in (maps.value_map, maps.guide_map, maps.rollout_map):
    picture = io.BytesIO(to_png(draw(world)))
    pictures.append(matplotlib.image.imread(picture, format="png")[..., :3])
height = max(len(picture) for picture in pictures)
padded = [np.pad(p, ((0, height - len(p)), (0, 0), (0, 0)), constant_values=1.0) for p in pictures]
matplotlib.image.imsave(out, np.concatenate(padded, axis=1))
