"""Train POR on built-in data, look at its three parts, save the policy and use it again.

python examples/train_and_act.py            # about a minute
python examples/train_and_act.py --quick    # seconds: too short to learn the task
"""

import sys

import waypost

data = waypost.load("four-rooms")
run = waypost.train("por", data, steps=200 if "--quick" in sys.argv else 20_000)
print("success rate", run.result["mean"]["success_rate"])

here = [2.0, 2.0]
print("value", run.policy.value(here))
print("waypoint", run.policy.guide(here))
print("action", run.policy.act(here))

run.policy.save("four-rooms-policy")
policy = waypost.Policy.load("four-rooms-policy")
print("the same action", policy.act(here))
